"""Files of readings as instruments, offices and programs write them, each with what is in it."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

N = 60
FIRST = datetime(2024, 1, 1)
Hour = Callable[[datetime, float], str]


@dataclass(frozen=True)
class RawFile:
    """A file, and what is to be found in it: the first and the last reading as they are sent.

    Parameters
    ----------
    first, last : time and value
    options : with which it is read
    """

    name: str
    content: bytes
    time: str
    target: str
    first: tuple[str, float | None]
    last: tuple[str, float | None]
    count: int = N
    options: dict[str, Any] | None = None
    series: str | None = None


def value(at: int) -> float:
    """Return the reading of an hour: 20 to 30, with two decimals."""
    return 20 + (at * 37 % 1000) / 100


def hours(count: int = N, first: datetime = FIRST) -> list[tuple[datetime, float]]:
    """Return readings an hour apart."""
    return [(first + timedelta(hours=at), value(at)) for at in range(count)]


def text(write: Hour, *before: str, after: tuple[str, ...] = (), count: int = N) -> bytes:
    """Return a file of lines, those before the readings, one for each reading, and those after them."""
    return "\n".join([*before, *(write(when, found) for when, found in hours(count)), *after, ""]).encode()


def comma(found: float, digits: int = 2) -> str:
    """Return a number with a decimal comma."""
    return f"{found:.{digits}f}".replace(".", ",")


END = FIRST + timedelta(hours=N - 1)
ISO = "%Y-%m-%dT%H:%M:%S"
FIRST_ISO, LAST_ISO = FIRST.isoformat(), END.isoformat()


def prometheus() -> bytes:
    """Return the answer to a range query of two series."""
    found = [
        {
            "metric": {"__name__": "up", "instance": name},
            "values": [[when.timestamp() - datetime(1970, 1, 1).timestamp(), str(one)] for when, one in hours()],
        }
        for name in ("a", "b")
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()


def influx() -> bytes:
    """Return annotated CSV of two fields, a table each."""
    head = [
        "#group,false,false,true,true,false,false,true,true",
        "#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string",
        "#default,_result,,,,,,,",
        ",result,table,_start,_stop,_time,_value,_field,_measurement",
    ]
    rows = []
    for table, name in enumerate(("indoor", "outdoor")):
        rows += [*head] + [
            f",,{table},2024-01-01T00:00:00Z,2024-01-04T00:00:00Z,{when:{ISO}}Z,{one},{name},temperature"
            for when, one in hours()
        ]
        rows.append("")
    return "\r\n".join(rows).encode()


def two_years() -> bytes:
    """Return days of more than twelve days a month, month first, in the second half of the file alone."""
    days = [datetime(2024, 1, 1) + timedelta(days=at) for at in range(12)] + [datetime(2024, 1, 13)]
    return "\n".join(["day,load", *(f"{day.month}/{day.day}/{day.year},{20 + day.day}" for day in days)]).encode()


def zipped(path: Path, *members: tuple[str, bytes]) -> Path:
    """Write a zip; return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def files() -> list[RawFile]:
    """Return one file of every kind."""
    v0, last = value(0), value(N - 1)
    plain = (FIRST_ISO, v0), (LAST_ISO, last)
    blank = (FIRST_ISO.replace("T", " ")[:16], v0), (LAST_ISO.replace("T", " ")[:16], last)
    unix = int((FIRST - datetime(1970, 1, 1)).total_seconds())
    of_zone = [f"{'2024-01-01T00:00:00'}+01:00", f"{LAST_ISO}+01:00"]
    return [
        RawFile(
            "grid load with a zone.csv",
            "\ufeff".encode() + text(lambda t, v: f"{t:{ISO}}+01:00,DE,{v}", "utc_timestamp,area,load"),
            "utc_timestamp",
            "load",
            (of_zone[0], v0),
            (of_zone[1], last),
        ),
        RawFile(
            "household power.txt",
            text(
                lambda t, v: f"{t:%d/%m/%Y};{t:%H:%M:%S};{'?' if t.hour == 0 else v};0.418",
                "Date;Time;Global_active_power;Global_reactive_power",
            ).replace(b"03/01/2024", b"23/01/2024"),
            "time",
            "Global_active_power",
            (FIRST_ISO, None),
            ("2024-01-23T11:00:00", last),
        ),
        RawFile(
            "discharge.txt",
            text(
                lambda t, v: f"USGS\t0123\t{t:%Y-%m-%d %H:%M}\tEST\t{v}\tA",
                "# ---- WARNING ----",
                "# Data are provisional",
                "#",
                "agency_cd\tsite_no\tdatetime\ttz_cd\tdischarge\tdischarge_cd",
                "5s\t15s\t20d\t6s\t14n\t10s",
            ),
            "time",
            "discharge",
            (f"{FIRST_ISO}-05:00", v0),
            (f"{LAST_ISO}-05:00", last),
        ),
        RawFile(
            "day first.csv",
            text(lambda t, v: f"{t.replace(month=t.day, day=21):%d.%m.%Y %H:%M},{v}", "Datum,Last"),
            "Datum",
            "Last",
            ("2024-01-21T00:00:00", v0),
            ("2024-03-21T11:00:00", last),
        ),
        RawFile(
            "month first.csv", two_years(), "day", "load", ("2024-01-01T00:00:00", 21), ("2024-01-13T00:00:00", 33), 13
        ),
        RawFile(
            "decimal commas.csv",
            text(lambda t, v: f"{t:%Y-%m-%d %H:%M};{comma(v)};{comma(v * 2, 1)}", "Zeit;Verbrauch;Temperatur"),
            "Zeit",
            "Verbrauch",
            ("2024-01-01 00:00", v0),
            (f"{END:%Y-%m-%d %H:%M}", last),
        ),
        RawFile(
            "glucose.csv",
            text(
                lambda t, v: f"FreeStyle,{t:%m-%d-%Y %I:%M %p},0,{v},,".replace("01-01-2024", "01-31-2024"),
                "Glucose Data,Generated on,02-01-2024 10:00 AM UTC,Generated by,Somebody",
                "",
                "Device,Device Timestamp,Record Type,Historic Glucose mmol/L,Notes,",
            )
            .replace(b"01-02-2024", b"02-01-2024")
            .replace(b"01-03-2024", b"02-02-2024"),
            "Device Timestamp",
            "Historic Glucose mmol/L",
            ("2024-01-31T00:00:00", v0),
            ("2024-02-02T11:00:00", last),
        ),
        RawFile(
            "prometheus.json",
            prometheus(),
            "time",
            "value",
            (str(unix), v0),
            (str(unix + 3600 * (N - 1)), last),
            2 * N,
            series="series",
        ),
        RawFile(
            "influx.csv",
            influx(),
            "_time",
            "_value",
            (f"{FIRST_ISO}Z", v0),
            (f"{LAST_ISO}Z", last),
            2 * N,
            series="_field",
        ),
        RawFile(
            "history.csv",
            text(
                lambda t, v: f"sensor.power,{'unavailable' if t.hour == 5 else v},{t:{ISO}}.000Z",
                "entity_id,state,last_changed",
            ),
            "last_changed",
            "state",
            (f"{FIRST_ISO}.000Z", v0),
            (f"{LAST_ISO}.000Z", last),
        ),
        RawFile(
            "wide.csv",
            text(lambda t, v: f"{t:{ISO}},{v},{v + 1},{v + 2}", "time,north,south,west"),
            "time",
            "value",
            (FIRST_ISO, v0),
            (LAST_ISO, last + 2),
            N,
            {"wide": True},
            "series",
        ),
        RawFile(
            "utf-16.csv",
            text(lambda t, v: f"{t:{ISO}}\t{v}", "Zeit\tWärme").decode().encode("utf-16"),
            "Zeit",
            "Wärme",
            *plain,
        ),
        RawFile(
            "latin-1.csv",
            text(
                lambda t, v: f"{t:%d.%m.%Y %H:%M};{comma(v)}".replace("02.01.", "22.01.").replace("03.01.", "23.01."),
                "Zeit;Außentemperatur",
                "[MEZ];[°C]",
            )
            .decode()
            .encode("latin-1"),
            "Zeit",
            "Außentemperatur",
            (FIRST_ISO, v0),
            ("2024-01-23T11:00:00", last),
        ),
        RawFile(
            "epochs.csv",
            text(lambda t, v: f"{unix * 1000 + int((t - FIRST).total_seconds()) * 1000}|{v}", "ts|v"),
            "ts",
            "v",
            (str(unix * 1000), v0),
            (str((unix + 3600 * (N - 1)) * 1000), last),
        ),
        RawFile(
            "digits.csv",
            text(lambda t, v: f"{t:%Y%m%d%H},{v}", "date,v"),
            "date",
            "v",
            ("2024010100", v0),
            (f"{END:%Y%m%d%H}", last),
        ),
        RawFile(
            "two columns.csv", text(lambda t, v: f"{t:%Y-%m-%d},{t:%H:%M},{v}", "Date,Hour,v"), "time", "v", *blank
        ),
        RawFile(
            "serial days.csv",
            text(lambda t, v: f"{45292 + (t - FIRST).total_seconds() / 86400:.6f},{v}", "date,v"),
            "date",
            "v",
            *plain,
        ),
        RawFile(
            "thousands.csv",
            text(lambda t, v: f'{t:{ISO}},"{v * 1000:,.1f}"', "time,v"),
            "time",
            "v",
            (FIRST_ISO, v0 * 1000),
            (LAST_ISO, last * 1000),
        ),
        RawFile(
            "swiss.csv",
            text(lambda t, v: f"{t:{ISO}};{v * 1000:,.0f}".replace(",", "'"), "time;v"),
            "time",
            "v",
            (FIRST_ISO, v0 * 1000),
            (LAST_ISO, last * 1000),
        ),
        RawFile("trailing.csv", text(lambda t, v: f"{t:{ISO}};{v};", "time;v"), "time", "v", *plain),
        RawFile(
            "summary.csv",
            text(lambda t, v: f"{t:{ISO}},{v}", "time,v", after=("Total,1500", "Source: the office")),
            "time",
            "v",
            *plain,
        ),
        RawFile("packed.csv.gz", gzip.compress(text(lambda t, v: f"{t:{ISO}},{v}", "time,v")), "time", "v", *plain),
        RawFile(
            "blanks.txt",
            text(lambda t, v: f"{t:%Y-%m-%d}  {t:%H:%M}   {v:8.2f}", "# date time level"),
            "time",
            "level",
            *blank,
        ),
        RawFile("months.csv", text(lambda t, v: f"{t.day} {t:%b %Y %H:%M},{v}", "when,v"), "when", "v", *plain),
        RawFile(
            "quarters.csv",
            "\n".join(
                ["quarter,gdp", *(f"{y}-Q{q},{y + q}" for y in range(2000, 2010) for q in (1, 2, 3, 4))]
            ).encode(),
            "quarter",
            "gdp",
            ("2000-01-01T00:00:00", 2001),
            ("2009-10-01T00:00:00", 2013),
            40,
        ),
        RawFile(
            "weeks.csv",
            "\n".join(["week,cases", *(f"2024-W{w:02d},{w}" for w in range(1, 41))]).encode(),
            "week",
            "cases",
            ("2024-W01", 1),
            ("2024-W40", 40),
            40,
        ),
        RawFile("no header.csv", text(lambda t, v: f"{t:{ISO}},{v}"), "column1", "column2", *plain),
        RawFile(
            "market.csv",
            text(
                lambda t, v: f'"{t:%d.%m.%Y %H:%M} - {t + timedelta(hours=1):%d.%m.%Y %H:%M}","{v}"'.replace(
                    "02.01.", "22.01."
                ).replace("03.01.", "23.01."),
                '"MTU (CET)","Price"',
            ),
            "MTU (CET)",
            "Price",
            (FIRST_ISO, v0),
            ("2024-01-23T11:00:00", last),
        ),
        RawFile(
            "newest first.csv",
            "\n".join(["time,v", *reversed(text(lambda t, v: f"{t:{ISO}},{v}").decode().split())]).encode(),
            "time",
            "v",
            *plain,
        ),
        RawFile(
            "local.csv",
            text(lambda t, v: f"{t:{ISO}},{v}", "time,v"),
            "time",
            "v",
            (of_zone[0], v0),
            (of_zone[1], last),
            N,
            {"zone": "Europe/Berlin"},
        ),
        RawFile(
            "own mark.csv",
            text(lambda t, v: f"{t:{ISO}},{-999 if t == FIRST else v}", "time,v"),
            "time",
            "v",
            (FIRST_ISO, None),
            (LAST_ISO, last),
            N,
            {"missing": ["-999"]},
        ),
    ]
