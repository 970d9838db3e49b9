"""Exports of programs and offices as people get them, each with what is in it."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.raw_files import END, FIRST, FIRST_ISO, ISO, LAST_ISO, N, RawFile, comma, hours, text, value, zipped

MONTHS = {
    "german": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "french": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
DAYS = {"german": "{day}. {month} {year}", "french": "{day} {month} {year}", "spanish": "{day} de {month} de {year}"}
UNIX = int((FIRST - datetime(1970, 1, 1)).total_seconds())


def spoken(language: str) -> bytes:
    """Return a day of each month of two years, with the names of months in a language."""
    names = MONTHS[language].split()
    days = [datetime(2022 + at // 12, 1 + at % 12, 5 + at) for at in range(24)]
    lines = [
        f"{DAYS[language].format(day=day.day, month=names[day.month - 1], year=day.year)};{comma(value(at))}"
        for at, day in enumerate(days)
    ]
    return "\n".join(["Datum;Wert", *lines]).encode()


def green_button(series: int = 1) -> bytes:
    """Return an Atom feed of hourly Wh times ten, a block a day, the newest day first."""
    entries = [
        '<entry><link rel="self" href="u/ReadingType/1"/><content><ReadingType xmlns="http://naesb.org/espi">'
        "<powerOfTenMultiplier>-2</powerOfTenMultiplier><uom>72</uom></ReadingType></content></entry>"
    ]
    for meter in range(1, series + 1):
        entries.append(
            f'<entry><link rel="self" href="u/MeterReading/{meter}"/><link rel="related" href="u/ReadingType/1"/>'
            '<content><MeterReading xmlns="http://naesb.org/espi"/></content></entry>'
        )
        for begin in range(48, -1, -12):
            readings = "".join(
                f"<IntervalReading><timePeriod><duration>3600</duration><start>{UNIX + 3600 * at}</start></timePeriod>"
                f"<value>{round(value(at) * 100)}</value></IntervalReading>"
                for at in range(begin, begin + 12)
            )
            entries.append(
                f'<entry><link rel="up" href="u/MeterReading/{meter}/IntervalBlock"/><content>'
                f'<IntervalBlock xmlns="http://naesb.org/espi">{readings}</IntervalBlock></content></entry>'
            )
    return f'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">{"".join(entries)}</feed>'.encode()


def by_the_day(write: Any, *before: str) -> bytes:
    """Return 60 hours of days that are numbered from the 21st, so that no day is a month."""
    return text(lambda t, v: write(t + timedelta(days=20), v), *before)


def table(rows: list[list[str]]) -> bytes:
    """Return rows as CSV with each cell in quotes."""
    held = io.StringIO(newline="")
    csv.writer(held, quoting=csv.QUOTE_ALL).writerows(rows)
    return held.getvalue().encode()


def home_assistant() -> bytes:
    """Return what the API of a house answers: of each entity its states, named in the first alone."""
    found = []
    for name, more in (("sensor.power", 0), ("sensor.water", 100)):
        states = [{"state": str(v + more), "last_changed": f"{t:{ISO}}+00:00"} for t, v in hours()]
        found.append([states[0] | {"entity_id": name, "attributes": {"unit": "W"}}, *states[1:]])
    return json.dumps(found).encode()


def autumn() -> bytes:
    """Return half hours of the night in which the clock goes back, as a meter writes them."""
    begin = datetime(2024, 10, 26, 12)
    lines = []
    for at in range(60):
        utc = begin - timedelta(hours=2) + timedelta(minutes=30 * at)
        local = utc + timedelta(hours=2 if utc < datetime(2024, 10, 27, 1) else 1)
        lines.append(f"{local:%d.%m.%Y %H:%M};{comma(value(at))}")
    return "\n".join(["Zeitpunkt;kWh", *lines]).encode()


def exports() -> list[RawFile]:
    """Return one file of each program or office."""
    v0, last = value(0), value(N - 1)
    late, late_end = (FIRST + timedelta(days=20)).isoformat(), (END + timedelta(days=20)).isoformat()
    plain, shifted = ((FIRST_ISO, v0), (LAST_ISO, last)), ((late, v0), (late_end, last))
    long_name = '{__name__="node_load1", instance="' + "a" * 90 + '", job="node"}'
    return [
        RawFile(
            "entsoe.csv",
            by_the_day(
                lambda t, v: (
                    f'"{t:%d.%m.%Y %H:%M} - {t + timedelta(hours=1):%d.%m.%Y %H:%M}",'
                    f'"{v * 1000:.0f}","{"n/e" if t.hour == 3 else v}"'
                ),
                '"Time (UTC)","Day-ahead Total Load Forecast [MW] - BZN|DE-LU","Actual Total Load [MW] - BZN|DE-LU"',
            ),
            "Time (UTC)",
            "Actual Total Load [MW] - BZN|DE-LU",
            (f"{shifted[0][0]}+00:00", shifted[0][1]),
            (f"{shifted[1][0]}+00:00", shifted[1][1]),
        ),
        RawFile(
            "smard.csv",
            b"\xef\xbb\xbf"
            + by_the_day(
                lambda t, v: f"{t:%d.%m.%Y %H:%M};{t + timedelta(hours=1):%d.%m.%Y %H:%M};{v * 1000:,.2f};-".translate(
                    str.maketrans(",.", ".,")
                ).replace(f"{t:%d,%m,%Y}", f"{t:%d.%m.%Y}"),
                "Datum von;Datum bis;Netzlast [MWh] Originalauflösungen;Residuallast [MWh] Originalauflösungen",
            )
            .replace(b",01,2024", b".01.2024")
            .replace(b"21,01", b"21.01")
            .replace(b"22,01", b"22.01"),
            "Datum von",
            "Netzlast [MWh] Originalauflösungen",
            (late, v0 * 1000),
            (late_end, last * 1000),
        ),
        RawFile(
            "ice.rdb",
            text(
                lambda t, v: f"USGS\t01646500\t{t:%Y-%m-%d %H:%M}\tEST\t{'Ice' if t.hour == 4 else v}\tP",
                "# Some of the data that you have obtained from this U.S. Geological Survey database",
                "#  may not have received Director's approval.  Any such data values, are qualified",
                "#",
                "agency_cd\tsite_no\tdatetime\ttz_cd\t69928_00060\t69928_00060_cd",
                "5s\t15s\t20d\t6s\t14n\t10s",
            ),
            "time",
            "69928_00060",
            (f"{FIRST_ISO}-05:00", v0),
            (f"{LAST_ISO}-05:00", last),
            options={"missing": ["Ice"]},
        ),
        RawFile(
            "hour ending.csv",
            text(lambda t, v: f"{t:%Y-%m-%d},{t.hour + 1},{v}", "Date,Hour,Load"),
            "time",
            "Load",
            ("2024-01-01T01:00:00", v0),
            ("2024-01-03T12:00:00", last),
        ),
        RawFile(
            "end of day.csv",
            by_the_day(
                lambda t, v: f"{t:%d.%m.%Y} {t.hour + 1:02d}:00;{comma(v)}",
                "Uhrzeit;Wirkleistung [kW]",
            ),
            "Uhrzeit",
            "Wirkleistung [kW]",
            ("2024-01-21T01:00:00", v0),
            ("2024-01-23T12:00:00", last),
        ),
        *(
            RawFile(
                f"{language}.csv",
                spoken(language),
                "Datum",
                "Wert",
                ("2022-01-05T00:00:00", value(0)),
                ("2023-12-28T00:00:00", value(23)),
                24,
            )
            for language in MONTHS
        ),
        RawFile(
            "events.jsonl",
            text(lambda t, v: json.dumps({"ts": f"{t:{ISO}}Z", "sensor": {"value": v, "ok": True}})),
            "ts",
            "sensor.value",
            (f"{FIRST_ISO}Z", v0),
            (f"{LAST_ISO}Z", last),
        ),
        RawFile(
            "weather.json",
            json.dumps(
                {
                    "latitude": 52.5,
                    "hourly_units": {"time": "iso8601"},
                    "hourly": {"time": [f"{t:%Y-%m-%dT%H:%M}" for t, _ in hours()], "wind": [v for _, v in hours()]},
                }
            ).encode(),
            "time",
            "wind",
            (FIRST_ISO[:16], v0),
            (LAST_ISO[:16], last),
        ),
        RawFile(
            "house.json",
            home_assistant(),
            "last_changed",
            "state",
            (f"{FIRST_ISO}+00:00", v0),
            (f"{LAST_ISO}+00:00", last + 100),
            2 * N,
            series="entity_id",
        ),
        RawFile("green button.xml", green_button(), "time", "value", (str(UNIX), v0), (str(UNIX + 3600 * 59), last)),
        RawFile(
            "two meters.xml",
            green_button(2),
            "time",
            "value",
            (str(UNIX), v0),
            (str(UNIX + 3600 * 59), last),
            2 * N,
            series="series",
        ),
        RawFile(
            "grafana.csv",
            table([["Time", long_name], *([f"{t:%Y-%m-%d %H:%M:%S}", str(v)] for t, v in hours())]),
            "Time",
            long_name,
            (f"{FIRST:%Y-%m-%d %H:%M:%S}", v0),
            (f"{END:%Y-%m-%d %H:%M:%S}", last),
        ),
        RawFile(
            "for excel.csv",
            text(lambda t, v: f"{t:%Y-%m-%d %H:%M};{comma(v)}", "sep=;", "time;load"),
            "time",
            "load",
            (f"{FIRST:%Y-%m-%d %H:%M}", v0),
            (f"{END:%Y-%m-%d %H:%M}", last),
        ),
        RawFile(
            "air quality.csv",
            text(
                lambda t, v: (
                    f"{1 + (t - FIRST) // timedelta(hours=1)},{t.year},{t.month},{t.day},{t.hour},"
                    f"{'NA' if t.hour == 2 else v},SE"
                ),
                "No,year,month,day,hour,pm2.5,cbwd",
            ),
            "time",
            "pm2.5",
            *plain,
        ),
        RawFile(
            "sunspots.csv",
            "\n".join(f"{1950 + at // 12};{1 + at % 12:02d};{value(at):6.1f}; -1.0;  1" for at in range(60)).encode(),
            "time",
            "column3",
            ("1950-01-01T00:00:00", round(value(0), 1)),
            ("1954-12-01T00:00:00", round(value(59), 1)),
            options={"time": "column1+column2", "missing": ["-1.0"]},
        ),
        RawFile(
            "kalenderwochen.csv",
            "\n".join(["KW;Fälle", *(f"KW {w:02d}/2024;{w}" for w in range(1, 41))]).encode(),
            "KW",
            "Fälle",
            ("2024-01-01T00:00:00", 1),
            ("2024-09-30T00:00:00", 40),
            40,
        ),
        RawFile(
            "weeks in digits.csv",
            "\n".join(["week,cases", *(f"2024{w:02d},{w}" for w in range(1, 13))]).encode(),
            "week",
            "cases",
            ("2024-01-01T00:00:00", 1),
            ("2024-03-18T00:00:00", 12),
            12,
        ),
        RawFile(
            "eurostat.tsv",
            "\n".join(
                ["TIME\tvalue", *(f"{2019 + m // 12}M{1 + m % 12:02d}\t{': ' if m == 3 else m}" for m in range(60))]
            ).encode(),
            "TIME",
            "value",
            ("2019-01-01T00:00:00", 0),
            ("2023-12-01T00:00:00", 59),
        ),
        RawFile(
            "serial commas.csv",
            text(lambda t, v: f"{comma(45292 + (t - FIRST).total_seconds() / 86400, 6)};{comma(v)}", "Datum;Wert"),
            "Datum",
            "Wert",
            *plain,
        ),
        RawFile(
            "american.csv",
            text(
                lambda t, v: f'"{t + timedelta(days=20):%a %m/%d/%Y %I:%M} {"a.m." if t.hour < 12 else "p.m."}",{v}',
                "Read at,kWh",
            ),
            "Read at",
            "kWh",
            *shifted,
        ),
        RawFile(
            "autumn.csv",
            autumn(),
            "Zeitpunkt",
            "kWh",
            ("2024-10-26T12:00:00+02:00", value(0)),
            ("2024-10-27T16:30:00+01:00", value(59)),
            options={"zone": "Europe/Berlin"},
        ),
        RawFile(
            "utf-16 glucose.csv",
            text(
                lambda t, v: (
                    f"Libre,{t + timedelta(days=20):%d-%m-%Y %H:%M},{'0' if t.hour else '6'},{v if t.hour else ''},,"
                ),
                "Patient report,Somebody,born,1970,,",
                "Glucose Data,Generated on,23-01-2024 10:00 UTC,Generated by,,",
                "Device,Device Timestamp,Record Type,Historic Glucose mmol/L,Notes,",
            )
            .decode()
            .encode("utf-16"),
            "Device Timestamp",
            "Historic Glucose mmol/L",
            (late, None),
            (late_end, last),
        ),
        RawFile(
            "log.txt",
            text(lambda t, v: f"{t:%a %b} {t.day:2d} {t:%H:%M:%S %Y}|{v}|", "when|watts|"),
            "when",
            "watts",
            *plain,
        ),
        RawFile(
            "packed clock.csv",
            text(lambda t, v: f"{t:%Y%m%d},{t.hour * 100},{v}", "DATE,HHMM,v").replace(b"202401", b"2024-01-"),
            "time",
            "v",
            *plain,
        ),
        RawFile(
            "seconds of the day.csv",
            text(lambda t, v: f"{t:%Y-%m-%d},{t.hour * 10000},{v}", "date,time,v"),
            "time",
            "v",
            *plain,
        ),
        RawFile(
            "spans.csv",
            by_the_day(
                lambda t, v: f"{t:%d.%m.%Y};{t:%H:%M}-{t + timedelta(hours=1):%H:%M};{comma(v)} %", "Tag;Zeit;Anteil"
            ),
            "time",
            "Anteil",
            *shifted,
        ),
        RawFile(
            "buoy.txt",
            text(
                lambda t, v: f"{t:%Y %m %d %H %M} {v:5.2f} 99.0",
                "#YY  MM DD hh mm  WVHT  MWD",
                "#yr  mo dy hr mn  m     degT",
            ),
            "time",
            "WVHT",
            *plain,
        ),
        RawFile(
            "twice.csv",
            text(lambda t, v: f"{t:{ISO}},{v},A,{v + 1},B{',' if t.hour == 3 else ''}", "time,load,Flag,temp,Flag"),
            "time",
            "load",
            *plain,
        ),
        RawFile(
            "influx.json",
            json.dumps(
                {
                    "results": [
                        {
                            "statement_id": 0,
                            "series": [
                                {
                                    "name": name,
                                    "columns": ["time", "value"],
                                    "values": [[f"{t:{ISO}}Z", v] for t, v in hours()],
                                }
                                for name in ("cpu", "gpu")
                            ],
                        }
                    ]
                }
            ).encode(),
            "time",
            "value",
            (f"{FIRST_ISO}Z", v0),
            (f"{LAST_ISO}Z", last),
            2 * N,
            series="series",
        ),
        RawFile(
            "statistics.json",
            json.dumps(
                {name: [{"start": f"{t:{ISO}}Z", "mean": v} for t, v in hours()] for name in ("sensor.a", "sensor.b")}
            ).encode(),
            "start",
            "mean",
            (f"{FIRST_ISO}Z", v0),
            (f"{LAST_ISO}Z", last),
            2 * N,
            series="series",
        ),
        RawFile(
            "dollars.csv",
            text(lambda t, v: f'{t:%Y-%m-%d %H:%M},"${v * 1000:,.2f}",-{v}%', "time,price,change"),
            "time",
            "price",
            (f"{FIRST:%Y-%m-%d %H:%M}", v0 * 1000),
            (f"{END:%Y-%m-%d %H:%M}", last * 1000),
        ),
        RawFile(
            "mez.csv",
            by_the_day(lambda t, v: f"{t:%d.%m.%Y %H:%M} MEZ;{comma(v)}", "Zeit;Wert"),
            "Zeit",
            "Wert",
            (f"{late}+01:00", v0),
            (f"{late_end}+01:00", last),
        ),
    ]


def workbook(path: Path) -> Path:
    """Write a workbook with a sheet of notes and one of readings, which begins with a title; return its path."""
    rows = [["Zähler 7", ""], ["Zeit", "Verbrauch"], ["", "kWh"]]
    cells = ["".join(f'<c t="inlineStr"><is><t>{one}</t></is></c>' for one in row) for row in rows]
    for when, found in hours():
        days = 45292 + (when - FIRST).total_seconds() / 86400
        cells.append(f'<c s="1"><v>{days!r}</v></c><c><v>{found!r}</v></c>')
    sheet = "".join(f'<row r="{number}">{row}</row>' for number, row in enumerate(cells, 1))
    contents = "".join(
        f'<row><c t="inlineStr"><is><t>{one}</t></is></c></row>' for one in ("Contents", "Data", "Notes")
    )
    begin = '<?xml version="1.0" encoding="UTF-8"?>'
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packed = "http://schemas.openxmlformats.org/package/2006"
    sheets = "".join(
        f'<sheet name="{name}" sheetId="{at}" r:id="r{at}"/>' for at, name in enumerate(("Notes", "Data"), 1)
    )
    links = "".join(
        f'<Relationship Id="r{at}" Type="{kinds}/worksheet" Target="worksheets/sheet{at}.xml"/>' for at in (1, 2)
    )
    styles = f'<Relationship Id="r3" Type="{kinds}/styles" Target="styles.xml"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packed}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{packed}/relationships">'
        f'<Relationship Id="r1" Type="{kinds}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{kinds}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packed}/relationships">{links}{styles}</Relationships>',
        "xl/styles.xml": f'<styleSheet {main}><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>',
        "xl/worksheets/sheet1.xml": f"<worksheet {main}><sheetData>{contents}</sheetData></worksheet>",
        "xl/worksheets/sheet2.xml": f"<worksheet {main}><sheetData>{sheet}</sheetData></worksheet>",
    }
    return zipped(path, *((name, (begin + content).encode()) for name, content in parts.items()))
