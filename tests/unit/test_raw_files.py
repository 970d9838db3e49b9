"""Files of readings are read as they are, and what may mean two things is asked."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import shlex
import zipfile
from calendar import monthrange
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest

from livesvm.service.feeds import file_report, file_times, inspection
from livesvm.service.feeds.inspection import FileOptions, InspectedTable, examples, table
from livesvm.service.feeds.times import parse
from livesvm.service.files import dialect
from livesvm.service.models.fields import MODEL_ID
from tests.support.raw_exports import exports, green_button, workbook
from tests.support.raw_files import FIRST, ISO, RawFile, comma, files, hours, text, zipped


def read(path: Path, content: bytes | str, **given: Any) -> InspectedTable:
    """Return a file with this content as it is understood."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return table(path, FileOptions(**given))


def column(found: InspectedTable, name: str) -> list[str]:
    """Return the cells of a column as they are sent."""
    return [row[found.names.index(name)] for row in found.rows()]


@pytest.mark.parametrize("raw", [*files(), *exports()], ids=lambda raw: raw.name)
def test_a_file_is_understood_as_it_is(raw: RawFile, tmp_path: Path) -> None:
    found = read(tmp_path / raw.name, raw.content, **({"align": "none"} | (raw.options or {})))
    assert (found.time, found.series, found.count) == (raw.time, raw.series, raw.count)
    assert raw.target in found.numbers
    assert raw.target == found.targets[0] or raw.name == "sunspots.csv"
    stamps, values = column(found, raw.time), column(found, raw.target)
    assert (stamps[0], stamps[-1]) == (raw.first[0], raw.last[0])
    for cell, (_, wanted) in zip((values[0], values[-1]), (raw.first, raw.last), strict=True):
        assert (
            cell == "" if wanted is None else float(cell) == pytest.approx(wanted, abs=0.51 if wanted > 1e4 else 1e-6)
        )


SHORT = [f"2024-01-01T{hour:02d}:00" for hour in range(6)]


@pytest.mark.parametrize(
    ("content", "option"),
    [
        ("time;v\n" + "".join(f"{day:02d}/02/2024;1\n" for day in range(1, 9)), "--time-format"),
        ("time;v\n" + "".join(f"{day:02d}-02-03;1\n" for day in range(1, 9)), "--time-format"),
        ("time;v\n" + "".join(f"{one};1,{at}34\n" for at, one in enumerate(SHORT)), "--decimal"),
        ("time;v;w\n" + "".join(f"{one};1,{at}34;7\n" for at, one in enumerate(SHORT)), "--decimal"),
        ("time;v\n" + "".join(f"{one};{'1.234' if at else 950}\n" for at, one in enumerate(SHORT)), "--decimal"),
        ("time;v;w\n" + "".join(f"{one};1,5;2.5\n" for one in SHORT), "--decimal"),
        ("time,v\n" + "".join(f"{one},1\n" for one in SHORT[:3]) + "2024-01-01T04:00,1,2\n" * 9, "--skip"),
        ("time,v\n" + "".join(f"day {one} of it,1\n" for one in range(9)), None),
    ],
)
def test_a_file_that_may_be_read_in_two_ways_asks(content: str, option: str | None, tmp_path: Path) -> None:
    if option is None:  # no column reads as times, which the file says of itself
        found = read(tmp_path / "x.csv", content)
        assert found.unread_times == found.said["time"]
        assert "'time' has no times in a known format, such as 'day 0 of it'; say --time-format" in found.said["time"]
        return
    with pytest.raises(ValueError, match=option):
        read(tmp_path / "x.csv", content)


def test_an_answer_decides(tmp_path: Path) -> None:
    days = "time;v\n" + "".join(f"{day:02d}/02/2024;1,{day}34\n" for day in range(1, 9))
    found = read(tmp_path / "x.csv", days, time="time", time_format="%d/%m/%Y", decimal=",")
    assert [*found.rows()][2] == ["2024-02-03T00:00:00", "1.334"]
    found = read(tmp_path / "x.csv", days, time_format="%m/%d/%Y", decimal=".")
    assert [*found.rows()][2] == ["2024-03-02T00:00:00", "1334"]


def test_what_decides_may_come_late(tmp_path: Path) -> None:
    lines = [f"{FIRST + timedelta(minutes=at):%d/%m/%Y %H:%M};{comma(at / 8, 3)}" for at in range(17_000)]
    lines.append("13/01/2024 00:00;1,5")
    found = read(tmp_path / "x.csv", "\n".join(["t;v", *lines]))
    assert found.said["time"].startswith("t: %d/%m/%Y %H:%M")
    assert [*found.rows()][-1] == ["2024-01-13T00:00:00", "1.5"]


def test_a_cell_that_contradicts_is_never_another_value(tmp_path: Path) -> None:
    lines = [f"{when:{ISO}};{one}" for when, one in hours(25_000)]
    found = read(tmp_path / "x.csv", "\n".join(["time;v", *lines[:22_000], "2027-06-01T00:00:00;1,5", *lines]))
    assert column(found, "v")[-1] == "1,5"  # the feed refuses it
    lines = [f"{FIRST + timedelta(days=at):%d.%m.%Y};{at}" for at in range(25_000)]
    content = "\n".join(["time;v", *lines[:22_000], "01/31/2030;2", *lines[22_000:]])
    with pytest.raises(ValueError, match=r"row 22001 .* say --time-format"):
        [*read(tmp_path / "x.csv", content).rows()]


def test_local_times_get_the_offsets_of_their_zone(tmp_path: Path) -> None:
    hours = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
    content = "time,v\n" + "".join(f"2025-10-26 {hour},{at}\n" for at, hour in enumerate(hours))
    found = read(tmp_path / "x.csv", content, zone="Europe/Berlin")
    assert [one[19:] for one in column(found, "time")] == ["+02:00"] * 3 + ["+01:00"] * 3
    assert found.said["times that come twice"] == "2"
    found = read(tmp_path / "x.csv", content)  # Europe's clocks go back in that hour
    assert (found.zone, found.said["zone"]) == (
        "Europe/Berlin",
        "Europe/Berlin, as '2025-10-26 02:00 twice' says; --zone takes another",
    )
    clocks = ["01:30", "02:00", "02:00", "02:30", "02:30", "03:00"]  # both hours row by row
    lines = [f"2025-10-26 {hour},{at}" for at, hour in enumerate(clocks)]
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *lines]))
    stamps = [*map(datetime.fromisoformat, column(found, "time"))]
    assert [(other - one) // timedelta(minutes=30) for one, other in pairwise(stamps)] == [1] * 5
    assert column(found, "v") == ["0", "1", "3", "2", "4", "5"]
    found = read(tmp_path / "x.csv", content.replace("2025-10-26 02", "2025-11-02 01").replace("10-26", "11-02"))
    assert found.zone == "America/New_York"
    found = read(tmp_path / "x.csv", content.replace("2025-10-26", "2025-11-09"))
    hint = "2; say --zone if the clock goes back there, as in autumn"
    assert (found.zone, found.said["times that come twice"]) == (None, hint)


def test_many_series_are_found(tmp_path: Path) -> None:
    rows = [f"{when:{ISO}},{name},{one}" for name in ("a", "b", "c") for when, one in hours(24)]
    found = read(tmp_path / "long.csv", "\n".join(["time,store,sales", *rows]))
    assert (found.series, found.numbers) == ("store", ["sales"])
    rows = [f"{when:{ISO}},{a},{b},{one}" for when, one in hours(24) for a in ("x", "y") for b in ("p", "q")]
    found = read(tmp_path / "long.csv", "\n".join(["time,shop,till,sales", *rows]))
    assert found.names == ["series", "time", "sales"]
    assert [*found.rows()][1] == ["x q", f"{FIRST:{ISO}}", "20.0"]
    rows = [f"{when:{ISO}},{a},{one}" for when, one in hours(24) for a in (1, 2, 3)]
    found = read(tmp_path / "numbers.csv", "\n".join(["time,house,load", *rows]))
    assert (found.series, found.numbers) == ("house", ["load"])
    rows = [f"{when:{ISO}},{a},{b},{one + a + 2 * b}" for when, one in hours(24) for a in (1, 2) for b in (1, 2)]
    found = read(tmp_path / "numbers.csv", "\n".join(["time,line,bus,load", *rows]))
    assert (found.names, found.said["series"]) == (["series", "time", "load"], "4, named by line+bus")
    with pytest.raises(ValueError, match=r"several rows have the time '2024-01-01T00:00:00'; say --series .* or line,"):
        read(tmp_path / "numbers.csv", "\n".join(["time,name,line,load", *(r.replace(",1,1,", ",1,2,") for r in rows)]))
    rows = [f"{when:{ISO}},{a},{one}" for when, one in hours(24) for a in (1, 2, 3)]
    read(tmp_path / "numbers.csv", "\n".join(["time,house,load", *rows]))
    assert table(tmp_path / "numbers.csv", series="house").series == "house"
    assert found.named(time="when", series="who").names == ["who", "when", "load"]


@pytest.mark.parametrize(
    ("names", "form"),
    [
        ("time", "%Y-%m-%d %H:%M:%S:{}"),
        ("time", "%m/%d/%Y %H:%M:%S.{}0"),
        ("time", "%m/%d/%Y %I:%M:%S.{} %p"),
        ("Zeit", "%d.%m.%Y %H:%M:%S,{}"),
        ("Zeit", "%d.%m.%Y %H:%M:%S.{}0000"),
        ("date;clock", "%d.%m.%Y;%H:%M:%S:{}"),
        ("Date;Time", "%-d.%-m.%Y;%-H:%-M:%-S.{}"),
        ("year;month;day;hour;minute;second", "%Y;%m;%d;%H;%M;%S.{}"),
        ("time", "%Y%m%d%H%M%S{}"),
        ("time", "%Y%m%d%H%M%S.{}"),
        ("System Time", "%H:%M:%S:{}"),
        ("time", "excel"),
    ],
)
def test_fractions_of_seconds_are_kept(names: str, form: str, tmp_path: Path) -> None:
    stamps = [datetime(2024, 5, 27, 11, 4, 55) + timedelta(milliseconds=101 * at) for at in range(100)]
    cells = [f"{when:{form}}".format(f"{when.microsecond // 1000:03d}") for when in stamps]
    if form == "excel":
        cells = [f"{(when - datetime(1899, 12, 30)) / timedelta(days=1):.10f}" for when in stamps]
    content = "\n".join([f"{names};v", *(f"{cell};{at * at % 97}" for at, cell in enumerate(cells))])
    given = {"time_format": "2024-05-27 %H:%M:%S"} if names == "System Time" else {}
    found = read(tmp_path / "x.csv", content, **given)
    assert found.time is not None
    assert [*map(datetime.fromisoformat, column(found, found.time))] == stamps


def test_rows_that_repeat_are_one_reading_and_events_are_added(tmp_path: Path) -> None:
    times = steps(300, 60, lambda t, at: f"{t:{ISO}},{at * at % 97}")
    again = [row for at, row in enumerate(times) for row in [row] * (1 + at % 2)]
    numbered = [f"{at},{row}" for at, row in enumerate(again)]
    series = sorted(f"{row},{name}" for row in again for name in ("a", "b"))
    for rows, names, left_out in ((again, "time,v", 150), (numbered, "id,time,v", 150), (series, "time,v,name", 300)):
        found = read(tmp_path / "x.csv", "\n".join([names, *rows]))
        assert found.said["rows left out, as they repeat others exactly"] == left_out
        assert column(found, "v")[-1] == f"{299 * 299 % 97}"
        assert found.count == len([*found.rows()]) == len(rows) - left_out
    events = steps(300, 8, lambda t, at: f"{t:%Y-%m-%d},{'ab'[at % 3 > 1]},{at % 4}")  # 180 a day, some of them equal
    with pytest.raises(
        ValueError, match=r"several rows have the time '2024-03-01'; say --series .* such as shop or sold"
    ):
        read(tmp_path / "x.csv", "\n".join(["day,shop,sold", *events]))
    found = read(tmp_path / "x.csv", "\n".join(["day,shop,sold", *events, "2024-03-05,a,7"]), align="sum:1d")
    assert found.said["aligned"] == "sum, every 1d: 298 joined with others"
    assert column(found, "day") == [f"2024-03-{day:02d}T00:00:00" for day in range(1, 6)]
    assert column(found, "sold") == ["270", "180", "0", "0", "7"]
    with pytest.raises(ValueError, match="sum"):
        read(tmp_path / "x.csv", "\n".join(["day,shop,sold", *events]), align="total")
    found = read(tmp_path / "x.csv", "\n".join(["day,shop,sold", *events]), align="sum:1d", series="shop")
    assert sum(map(int, column(found, "sold"))) == 450


def test_a_day_has_one_time_where_each_day_comes_once(tmp_path: Path) -> None:
    days = [f"{FIRST + timedelta(days=at):%Y-%m-%d},08:{at:02d},{at}" for at in range(40)]
    found = read(tmp_path / "x.csv", "\n".join(["date,sunrise,v", *days]))
    assert (found.time, found.said["interval"]) == ("date", "1d")


def test_gaps_are_said(tmp_path: Path) -> None:
    lines = text(lambda t, v: f"{t:{ISO}},{v}", "time,v").decode().split()
    del lines[20:23]
    said = read(tmp_path / "x.csv", "\n".join(lines)).said
    assert (said["interval"], said["gaps"], said["rows"]) == ("1h", 1, 57)


def test_packed_files_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = text(lambda t, v: f"{t:{ISO}},{v}", "time,v")
    assert table(zipped(tmp_path / "one.zip", ("x.csv", plain))).count == 60
    both = zipped(tmp_path / "two.zip", ("x.csv", plain), ("y.csv", plain + b"2024-01-03T12:00:00,1\n"))
    with pytest.raises(ValueError, match=r"packs 2 files: y\.csv, x\.csv; say --member"):
        table(both)
    assert [table(both, FileOptions(member=name)).count for name in ("x.csv", "y.csv")] == [60, 61]
    with pytest.raises(ValueError, match=r"--member: the zip has no file 'z'; it has y\.csv, x\.csv"):
        table(both, FileOptions(member="z"))
    lines = "".join(json.dumps({"time": f"{when}", "v": one}) + "\n" for when, one in hours()).encode()
    for name, content in (("x.csv", plain), ("x.jsonl", lines)):
        noted = table(zipped(tmp_path / "noted.zip", ("a.txt", b"of 9 stations"), (name, content)))
        assert (noted.count, noted.said["file of the zip"]) == (60, f"{name}; --member takes another")
    monkeypatch.setattr(dialect, "FREE", 2**16)
    with pytest.raises(ValueError, match="unpacks to more than 200 times"):
        read(tmp_path / "bomb.gz", gzip.compress(plain + b"2024-01-03T12:00:00,1\n" * 2_000_000))
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read(tmp_path / "cut.gz", gzip.compress(plain)[:-20])
    inner = zipped(tmp_path / "inner.zip", ("a.csv", plain)).read_bytes()
    for twice in (gzip.compress(gzip.compress(plain)), zipped(tmp_path / "x.zip", ("a.zip", inner)).read_bytes()):
        with pytest.raises(ValueError, match="packs a file that is packed itself; unpack it first"):
            read(tmp_path / "twice", twice)
    with zipfile.ZipFile(tmp_path / "other.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.csv", plain + b"0" * 2**24)
    with pytest.raises(ValueError, match="is packed in another way than by deflating; unpack it first"):
        table(tmp_path / "other.zip")
    with pytest.raises(ValueError, match="is packed in another way than by gzip or zip; unpack it first"):
        read(tmp_path / "x.csv.bz2", bz2.compress(plain))
    with pytest.raises(ValueError, match="is no text, nor a workbook"):
        read(tmp_path / "x.csv", plain + bytes(4))
    with pytest.raises(ValueError, match=r"is no table: field larger than field limit"):
        read(tmp_path / "x.csv", b'time v\n"' + b"x" * 2**18)
    with zipfile.ZipFile(workbook(tmp_path / "near.xlsx")) as near, zipfile.ZipFile(tmp_path / "far.xlsx", "w") as far:
        for name in near.namelist():
            last = b'<row><c r="B2"><v>1</v></c><c r="XFD1048576"><v>1</v></c></row></sheetData>'
            far.writestr(name, near.read(name).replace(b"</sheetData>", last))
    with pytest.raises(
        ValueError, match="has cells in 16384 columns and 1048576 rows; delete those far from the table"
    ):
        table(tmp_path / "far.xlsx")
    with duckdb.connect() as connection:
        same = "select timestamp '2024-01-01' as time, 1.0::double as v from range(5000000)"
        connection.execute(f"copy ({same}) to '{tmp_path / 'x.parquet'}' (format parquet, compression zstd)")
    with pytest.raises(ValueError, match="unpacks to more than 200 times"):
        table(tmp_path / "x.parquet")
    monkeypatch.setattr(dialect, "MOST_LINE", 2**10)
    with pytest.raises(ValueError, match="a line of more than 1024"):
        read(tmp_path / "long.csv", plain + b"x" * 4096)


def test_options_that_name_nothing_are_refused(tmp_path: Path) -> None:
    plain = text(lambda t, v: f"{t:{ISO}},{v}", "time,v")
    for given, said in (
        ({"time": "when"}, "--time: the file has no column 'when'; it has time, v"),
        ({"series": "a+b"}, "--series: the file has no column 'a'"),
        ({"encoding": "x"}, "--encoding: there is no 'x'"),
        ({"member": "x"}, "--member: the file is no zip"),
        ({"zone": "Mars"}, "there is no time zone 'Mars'"),
        ({"time": "v"}, "is no known time; say --time-format"),
    ):
        with pytest.raises(ValueError, match=r"x\.csv") as error:
            [*read(tmp_path / "x.csv", plain, **given).rows()]
        assert said in str(error.value)
    with pytest.raises(ValueError, match="is empty"):
        read(tmp_path / "x.csv", b"")
    with pytest.raises(ValueError, match="is no text, nor a workbook"):
        read(tmp_path / "x.csv", bytes(range(256)) * 40)
    with pytest.raises(ValueError, match=r"is not utf-8 throughout.*--encoding"):
        read(tmp_path / "x.csv", plain * 100 + "2024-01-03T12:00:00,ä".encode("latin-1"))
    found = read(tmp_path / "x.csv", b"time,\xe4\n2024-01-01,1\n2024-01-02,\n", skip=0, header=True)
    assert (found.names, found.said["encoding"]) == (["time", "ä"], "latin-1, by its letters; --encoding takes another")


def test_a_short_file_is_read(tmp_path: Path) -> None:
    found = read(tmp_path / "x.csv", f"time,v\n{datetime(2024, 1, 1) + timedelta(hours=1)},3")
    assert ([*found.rows()], found.names) == ([["2024-01-01 01:00:00", "3"]], ["time", "v"])
    assert [*read(tmp_path / "x.csv", "time,v\n").rows()] == []


def test_a_workbook_is_read_by_its_sheet_of_numbers(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="livesvm[excel] is not installed")
    found = table(workbook(tmp_path / "meter.xlsx"))
    assert (found.time, found.targets, found.count) == ("Zeit", ["Verbrauch"], 60)
    assert (found.said["sheet"], found.said["lines under the header"]) == ("Data", ["kWh"])
    rows = [(when, float(one)) for when, one in found.rows()]
    assert rows == [(f"{when:{ISO}}", one) for when, one in hours()]


def test_arrow_files_and_streams_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    held = pa.table({"when": [when for when, _ in hours()], "v": [None, *(one for _, one in hours()[1:])]})
    for name, opener in (("a.feather", pa.ipc.new_file), ("a.arrows", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, opener(sink, held.schema) as writer:
            writer.write_table(held, max_chunksize=17)
        found = table(tmp_path / name)
        assert (found.time, found.targets, found.count) == ("when", ["v"], 60)
        assert [*found.rows()][:2] == [[FIRST.isoformat(), ""], [hours()[1][0].isoformat(), "20.37"]]
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:90])
        with pytest.raises(ValueError, match="no Arrow file"):
            [*table(tmp_path / name).rows()]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", b'{"a": 1}', "is JSON, but not one list of objects"),
        ("x.json", b'{"a": [{"x": 1}], "b": [{"y": 1}]}', "is JSON, but not one list of objects"),
        ("x.json", b'{"a": [1, 2}', "is no JSON"),
        ("x.json", b"[" * 100_000, "is no JSON|is JSON in too many brackets|no time"),
        ("x.jsonl", b'{"a": 1}\n{"a": 2}\n' + b'{"a": 3}\n' * 2000 + b'{"b": 1}\n', "line 2003 has 'b'"),
        ("x.jsonl", b'{"a": 1}\n{"a": 2}\n7\n', "line 3 is no object"),
        ("x.xml", b'<?xml version="1.0"?><html></html>', "holds no rows"),
        ("x.xml", green_button()[:-900], "is no Green Button file"),
        ("x.xml", green_button().replace(b"<start>", b"<begin>").replace(b"</start>", b"</begin>"), "has no start"),
        ("x.xml", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "' + b"x" * 99 + b'">' + b"".join(
            b'<!ENTITY b%d "%s">' % (at, b"&b%s;" % (b"%d" % (at - 1) if at else b"") * 50) for at in range(9)
        ) + b"]><a>&b8;</a>", "is no XML"),
    ],
)  # fmt: skip
def test_a_document_that_is_no_table_says_so(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        [*read(tmp_path / name, content).rows()]


@pytest.mark.parametrize(
    ("cells", "option"),
    [
        (["03/04/24 00:00", "04/04/24 00:00", "05/04/24 00:00"], "--time-format"),
        (["1.234", "2.345", "950"], "--decimal"),
        (["1,5", "2.25", "950"], "--decimal"),
    ],
)
def test_what_may_mean_two_things_is_asked_for_examples_too(cells: list[str], option: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\n".join(["a;left", *(f"{cell};yes" for cell in cells)]))
    with pytest.raises(ValueError, match=option):
        examples(tmp_path / "x.csv")


def test_examples_keep_their_order_words_and_all_their_times(tmp_path: Path) -> None:
    lines = [
        "since;until;plan;amount;code",
        "31.12.2023;2024-01-05;unknown;1.000,5;A1",
        "01.02.2022;;none;?;7",
        "05.03.2022;20240107;-;3,5;9",
    ]
    (tmp_path / "x.csv").write_text("\n".join(lines).replace("2024-01-05", "20240105"))
    found = examples(tmp_path / "x.csv", FileOptions(missing=["-"]))
    assert (found.numbers, found.times) == (["amount"], ["since", "until"])
    assert [*found.rows()] == [
        ["2023-12-31T00:00:00", "2024-01-05T00:00:00", "unknown", "1000.5", "A1"],
        ["2022-02-01T00:00:00", "", "none", "", "7"],
        ["2022-03-05T00:00:00", "2024-01-07T00:00:00", "", "3.5", "9"],
    ]
    (tmp_path / "y.csv").write_text("day;v;left\n01/02/2024;1;a\n03/04/2024;2;b\n")
    found = examples(tmp_path / "y.csv", FileOptions(time_format="%d/%m/%Y", zone="Europe/Berlin"))
    assert [row[0] for row in found.rows()] == ["2024-02-01T00:00:00+01:00", "2024-04-03T00:00:00+02:00"]


def test_times_of_the_day_in_digits_are_not_mistaken(tmp_path: Path) -> None:
    hours = [f"2024-01-01,{at},{at}" for at in range(24)]
    found = read(tmp_path / "x.csv", "\n".join(["date,hour,v", *hours]))
    assert column(found, "time")[9:11] == ["2024-01-01T09:00:00", "2024-01-01T10:00:00"]
    minutes = [f"2024-01-01,{100 * (at // 4) + 15 * (at % 4)},{at}" for at in range(60)]
    found = read(tmp_path / "x.csv", "\n".join(["date,hhmm,v", *minutes]))
    assert column(found, "time")[:6:5] == ["2024-01-01T00:00:00", "2024-01-01T01:15:00"]


def test_typed_tables_may_hold_truth_values(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    held = pa.table({"vip": [True, None, False], "age": [1.5, 2.0, 3.25]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, held.schema) as writer:
        writer.write_table(held)
    assert [*examples(tmp_path / "a.arrow").rows()] == [["true", "1.5"], ["", "2"], ["false", "3.25"]]


def test_the_likeliest_target_is_taken_where_there_is_one(tmp_path: Path) -> None:
    (raw,) = (one for one in exports() if one.name == "entsoe.csv")
    assert read(tmp_path / raw.name, raw.content).likeliest == raw.target
    lines = [f"{when:{ISO}},{one},{one + 1}" for when, one in hours()]
    assert read(tmp_path / "x.csv", "\n".join(["time,north,south", *lines])).likeliest is None


def test_hours_decide_which_part_of_a_date_is_the_day(tmp_path: Path) -> None:
    lines = [f"{when:%d.%m.%Y %H:%M};{one}" for when, one in hours()]  # three days of January
    found = read(tmp_path / "x.csv", "\n".join(["t;v", *lines]))
    assert (column(found, "t")[0], column(found, "t")[-1]) == (FIRST.isoformat(), "2024-01-03T11:00:00")
    assert found.said["chosen by even steps"].startswith("%d.%m.%Y")


def test_named_hours_decide_the_day_although_another_column_may_be_a_clock(tmp_path: Path) -> None:
    times_of = [datetime(2011, 1, 1) + timedelta(hours=at) for at in range(24 * 40)]
    rows = [f"{when:%d/%m/%y},{when.hour},0.{24 + at % 30},{at % 90}" for at, when in enumerate(times_of)]
    found = read(tmp_path / "hour.csv", "\n".join(["dteday,hr,temp,cnt", *rows]))
    assert (found.said["interval"], found.said["gaps"], column(found, "time")[-1]) == (
        "1h",
        None,
        "2011-02-09T23:00:00",
    )


def test_periods_of_settlements_and_hours_in_columns_are_times(tmp_path: Path) -> None:
    halves = [FIRST + timedelta(minutes=30 * at) for at in range(200)]
    lines = [f"{when:%d-%b-%Y},{1 + 2 * when.hour + when.minute // 30},{at}" for at, when in enumerate(halves)]
    found = read(tmp_path / "x.csv", "\n".join(["SETTLEMENT_DATE,SETTLEMENT_PERIOD,ND", *lines]))
    assert column(found, "time") == [when.isoformat() for when in halves]
    for name in ("{:02d}:00", "HE{}"):
        head = ";".join(["Datum", *(name.format(hour + (name[0] == "H")) for hour in range(24))])
        days = [FIRST + timedelta(days=20 + at) for at in range(8)]
        lines = [f"{day:%d.%m.%Y};" + ";".join(f"{day.day + hour},5" for hour in range(24)) for day in days]
        found = read(tmp_path / "x.csv", "\n".join([head, *lines]))
        assert (found.time, found.targets, len([*found.rows()]), found.said["interval"]) == (
            "time",
            ["value"],
            192,
            "1h",
        )
        assert (
            [*found.rows()][1] == ["2024-01-21T01:00:00", "22.5"] if name[0] == "{" else ["2024-01-21T02:00:00", "22.5"]
        )


def test_columns_with_one_name_are_numbered_and_that_is_said(tmp_path: Path) -> None:
    lines = [f"2024-01-{day:02d},{day},{day + 1}.5" for day in range(1, 29)]
    found = read(tmp_path / "x.csv", "\n".join(["time,load,load", *lines]).encode())
    assert found.said["columns renamed"] == "load 2"


MINUTES = [f"13/3/2024;{at // 60:02d}:{at % 60:02d}:00;{at}" for at in range(60)]
DEXCOM = ["Index,Timestamp,Event,Glucose,Rate", "1,,FirstName,,", "2,,Alert,,3"]
DEXCOM += [
    f"{at + 3},2024-03-01T00:{5 * at:02d}:37,EGV,{'Low' if at in (4, 5) else 90 + at},0.{at}" for at in range(12)
]


@pytest.mark.parametrize(
    ("lines", "target", "found", "said"),
    [
        (["Date;Time;W", *MINUTES], "W", {24: ("2024-03-13T00:24:00", "24")}, {"interval": "1min"}),
        (
            ["YY MM DD hh mm W", *(f"2024 01 01 00 {at} {at}.5" for at in range(10, 60, 2))],
            "W",
            {7: ("2024-01-01T00:24:00", "24.5")},
            {"interval": "2min"},
        ),
        (
            DEXCOM,
            "Glucose",
            {0: ("2024-03-01T00:00:37", "90"), 4: ("2024-03-01T00:20:37", "")},
            {
                "lines under the header": ["1, FirstName", "2, Alert, 3"],
                "texts among numbers": "'Low' 2 times, which are taken as missing",
            },
        ),
        (
            ["Month,Riders", *(f'{month}-24,"1,{at + 100}"' for at, month in enumerate(("Jan", "Feb", "Mar")))],
            "Riders",
            {2: ("2024-03-01T00:00:00", "1102")},
            {"thousands mark": "','; --decimal , takes commas as decimal marks"},
        ),
        (
            ["rownames,time,value", *(f"{at + 1},{1949 + at / 12:.6g},{at}" for at in range(36))],
            "value",
            {0: ("1949-01-01T00:00:00", "0"), 23: ("1950-12-01T00:00:00", "23")},
            {"interval": "1mo"},
        ),
        (
            ["Year,Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec"]
            + [",".join([str(year), *(f"{year % 10}.{at}" for at in range(12))]) for year in (1990, 1991)],
            "value",
            {11: ("1990-12-01T00:00:00", "0.11"), 12: ("1991-01-01T00:00:00", "1.0")},
            {"columns that are months": "12, a row each; --wide makes each a series"},
        ),
        (
            ["year,doy,flow", *(f"{2022 + at // 365},{at % 365 + 1},{at}" for at in range(400))],
            "flow",
            {31: ("2022-02-01T00:00:00", "31"), 399: ("2023-02-04T00:00:00", "399")},
            {"interval": "1d"},
        ),
        (
            ["Year,Week,cases", *(f"2024,{at + 1},{at}" for at in range(52))],
            "cases",
            {0: ("2024-01-01T00:00:00", "0"), 51: ("2024-12-23T00:00:00", "51")},
            {"interval": "1w"},
        ),
        (
            ["time,kW", *(f"2024-03-01 {at * 7 % 24:02d}:00:00 EST,{at * 7 % 24}" for at in range(24))],
            "kW",
            {5: ("2024-03-01T05:00:00-05:00", "5")},
            {"order": "none; it is sent oldest first", "interval": "1h"},
        ),
        (
            ["Month;Net", *(f"2024-{at + 1:02d};{'(1.250)' if at % 2 else '2.500'}" for at in range(12))],
            "Net",
            {0: ("2024-01", "2.500"), 1: ("2024-02", "-1.250")},
            {"decimal mark": "point; --decimal , takes points as marks of thousands"},
        ),
        (
            [f"{when:%Y%m%d%H};{one}" for when, one in hours()],
            "column2",
            {2: ("2024010102", "20.74")},
            {"header": "none", "interval": "1h"},
        ),
    ],
)
def test_exports_of_devices_and_statistics(
    lines: list[str], target: str, found: dict[int, tuple[str, str]], said: dict[str, Any], tmp_path: Path
) -> None:
    one = read(tmp_path / "x.csv", "\n".join(lines))
    assert one.time is not None
    rows = [*zip(column(one, one.time), column(one, target), strict=True)]
    assert {at: rows[at] for at in found} == found
    assert {name: one.said[name] for name in said} == said


@pytest.mark.parametrize("method", ["nearest", "mean", "last"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_aligned_readings_are_on_the_grid(method: str, zone: str | None, tmp_path: Path) -> None:
    chance = Random(65)
    seconds = sorted(chance.sample(range(86_400 * 3), 300))
    when = [datetime(2024, 5, 30) + timedelta(seconds=one) for one in seconds]
    lines = [f"{one:{ISO}},{name},{at if at % 7 else ''}" for at, one in enumerate(when) for name in "ab"]
    given = FileOptions(align=f"{method}:1h")
    (tmp_path / "x.csv").write_text("\n".join(["time,sensor,v", *lines]))
    found = table(tmp_path / "x.csv", replace(given, zone=zone))
    rows = [*found.rows()]
    assert len(rows) == found.count == len({(row[0], row[1]) for row in rows})
    assert {row[0][14:19] for row in rows} == {"00:00"}
    places: dict[int, list[int]] = {}
    for at, one in enumerate(seconds):
        place = {"nearest": (one + 1800) // 3600, "mean": one // 3600, "last": -(-one // 3600)}[method]
        places.setdefault(place, []).append(at)
    if method != "nearest":
        places.popitem()  # the last hour is not complete
    for row, (place, held) in zip(rows[::2], places.items(), strict=True):
        there = [at for at in held if at % 7]
        near = min(there, key=lambda at: abs(seconds[at] - 3600 * place), default=None)
        mean = sum(there) / len(there) if there else None
        wanted = {"nearest": near, "mean": mean, "last": there[-1] if there else None}[method]
        assert (float(row[2]) if row[2] else None) == (wanted if wanted is None else pytest.approx(wanted))
    (tmp_path / "x.csv").write_text("\n".join(["time,sensor,v", *lines[:400]]))
    before = [*table(tmp_path / "x.csv", replace(given, zone=zone)).rows()]
    if method != "nearest":  # of a file that grows, no row changes
        assert before == rows[: len(before)]


def test_what_cannot_be_aligned_says_so(tmp_path: Path) -> None:
    lines = "\n".join(["time,v", *(f"{when:{ISO}},{one}" for when, one in hours())])
    said = read(tmp_path / "x.csv", lines, align="mean:1d").said["aligned"]
    assert said == "mean, every 1d: 57 moved, 57 joined with others, 12 left out, as their interval is not complete"
    assert read(tmp_path / "x.csv", lines, align="nearest").said["aligned"] == "nearest, every 1h: none moved"
    for wrong in ("middle", "mean:"):
        with pytest.raises(ValueError, match=r"--align|a duration is"):
            read(tmp_path / "x.csv", lines, align=wrong)


def test_rows_of_two_sensors_with_times_of_their_own_are_two_series(tmp_path: Path) -> None:
    rows = [f"sensor.{'ab'[at % 2]},{at},2024-01-01T00:{at:02d}:1{at % 7}" for at in range(60)]
    found = read(tmp_path / "x.csv", "\n".join(["entity_id,state,last_changed", *rows]))
    assert (found.series, found.said["series"]) == ("entity_id", "2, named by entity_id")


def steps(count: int, minutes: float, write: Any, begin: datetime = datetime(2024, 3, 1)) -> list[str]:
    """Return lines, one for each step of so many minutes, made of its time and number by ``write``."""
    return [write(begin + timedelta(minutes=minutes * at), at) for at in range(count)]


YEARS = range(1990, 2010)
LIBRE = ["Glucose Data,Generated on,12-10-2024", "Device,Device Timestamp,Record Type,Historic,Scan"]
LIBRE += steps(900, 15, lambda t, at: f"F,{t:%d-%m-%Y %H:%M},0,{at % 50}.5,", datetime(2024, 10, 1, 0, 4))
LIBRE += steps(20, 600, lambda t, at: f"F,{t:%d-%m-%Y %H:%M},1,,{at}.5", datetime(2024, 10, 1, 0, 9))
SMA = ["sep=;", "Version CSV1|Tool SE", "", ";SN: 21;SN: 21;SN: 22", ";STP;STP;SB", ";21;21;22", ";Yield;Power;Yield"]
SMA += [";Counter;Analog;Counter", "dd.MM.yyyy HH:mm:ss;kWh;kW;kWh"]
SMA += steps(60, 5, lambda t, at: f"{t:%d.%m.%Y %H:%M:%S};{1000 + at},4;{at % 7},5;{500 + at},4")
BANK = ['"Data Source","World Bank",', "", '"Country","Code",' + "".join(f'"{year}",' for year in YEARS)]
BANK += [
    f'"{name}","{name[:3]}",' + "".join(f'"{year}.5",' for year in YEARS) for name in ("Germany", "France", "Peru")
]
PERIODS = ["freq,unit,geo\\TIME_PERIOD\t" + "\t".join(f"2020-{month:02d} " for month in range(1, 13))]
PERIODS += [
    f"M,GWH,{name}\t" + "\t".join([": c", "1.5 e", *(f"{at}.25 " for at in range(10))]) for name in ("AT", "DE")
]
SURFRAD = [" Alamosa", "  37.70  105.92 2317 m version 1"]
SURFRAD += steps(90, 1, lambda t, at: f" {t:%Y %-j %-m %-d %-H %-M} 0.{at:03d} {at % 7}.65 0", datetime(2016, 1, 1))
SPRING = ["a_cd\ttime\ttz_cd\tflow", "5s\t20d\t6s\t14n"]
SPRING += steps(8, 30, lambda t, at: f"US\t{t:%Y-%m-%d %H:%M}\tEST\t{at}.5", datetime(2024, 3, 10))[:4]
SPRING += steps(20, 30, lambda t, at: f"US\t{t:%Y-%m-%d %H:%M}\tEDT\t{at}.25", datetime(2024, 3, 10, 3))


@pytest.mark.parametrize(
    ("lines", "target", "first", "count", "said"),
    [
        pytest.param(SMA, "kW", ("2024-03-01T00:00:00", "0.5"), 60, {}, id="eight lines of headers"),
        pytest.param(
            [
                *("Cafe,,", "Sales,,", '"January 1, 2023 - March 1, 2023",,', ",,", "Date,Orders,Net"),
                *steps(50, 1440, lambda t, at: f'{t:%-m/%-d/%Y},{5 + at % 9},"$1,{at + 100}.50"'),
                'Total,275,"$6,000.00"',
            ],
            "Orders",
            ("2024-03-01T00:00:00", "5"),
            50,
            {"lines at the end left out": ["Total,275,$6,000.00"]},
            id="titles with separators",
        ),
        pytest.param(BANK, "value", ("1990-01-01T00:00:00", "1990.5"), 60, {"interval": "1y"}, id="a column a year"),
        pytest.param(
            PERIODS,
            "value",
            ("2020-01", ""),
            24,
            {"marks at numbers": "1.5 e, of which the number is taken"},
            id="flags",
        ),
        pytest.param(
            [
                "id,unit," + ",".join(steps(24, 60, lambda t, at: f"{t:{ISO}}.000Z")),
                *(f"{name},kWh" + 24 * f",{name == 'b'}.5".replace("True", "2").replace("False", "1") for name in "ab"),
            ],
            "value",
            ("2024-03-01T00:00:00.000Z", "1.5"),
            48,
            {"series": "2, named by id"},
            id="a column a time",
        ),
        pytest.param(
            [
                *("Prices;;", ";Hours;SYS"),
                *steps(480, 60, lambda t, at: f"{t:%d-%m-%Y};{t:%H} - {t + timedelta(hours=1):%H};{at % 9},5"),
            ],
            "SYS",
            ("2024-03-01T00:00:00", "0.5"),
            480,
            {"interval": "1h"},
            id="spans of hours",
        ),
        pytest.param(
            SURFRAD, "column8", ("2016-01-01T00:00:00", "0.65"), 90, {"interval": "1min"}, id="parts without names"
        ),
        pytest.param(SPRING, "flow", ("2024-03-10T00:00:00-05:00", "0.5"), 24, {"interval": "30min"}, id="zones"),
        pytest.param(
            ["time;v", *steps(90, 60, lambda t, at: f"{t:%Y%m%d%H};{-999 if at % 9 == 4 else at % 20 - 5}")],
            "v",
            ("2024030100", "-5"),
            90,
            {"far from all other numbers": "-999, taken as missing; --missing takes others"},
            id="nines",
        ),
        pytest.param(
            ["t,v", *steps(90, 60, lambda t, at: f"{t:{ISO}},{-999 if at % 9 == 4 else at * 40 - 1800}")],
            "v",
            ("2024-03-01T00:00:00", "-1800"),
            90,
            {"perhaps missing": "-999; say --missing"},
            id="nines among their like",
        ),
        pytest.param(
            LIBRE,
            "Historic",
            ("2024-10-01T00:00:00", "0.5"),
            900,
            {
                "chosen by even steps": "%d-%m-%Y %H:%M; --time-format takes another",
                "order": "none; it is sent oldest first",
            },
            id="groups",
        ),
        pytest.param(
            ["<DATE>,<TIME>,<OPEN>", *steps(40, 5, lambda t, at: f"{t:%Y%m%d},{t:%H%M%S},{100 + at % 3}.5")],
            "<OPEN>",
            ("20240301 000000", "100.5"),
            40,
            {"interval": "5min"},
            id="digits of days and clocks",
        ),
        pytest.param(
            ["Datum;Besuche", *steps(40, 1440, lambda t, at: f"{t:%d.%m.%Y};{1 + at % 9}.{100 + at}")],
            "Besuche",
            ("2024-03-01T00:00:00", "1100"),
            40,
            {"thousands mark": "'.'", "decimal mark": "comma; --decimal . takes points as that"},
            id="points of thousands",
        ),
        pytest.param(
            ["time,cpu,power", *steps(40, 1, lambda t, at: f"{t:{ISO}},{at % 5}.5%,{at % 7} kWh")],
            "cpu",
            ("2024-03-01T00:00:00", "0.5"),
            40,
            {"series": "one, with 2 columns; --wide makes each a series"},
            id="units",
        ),
        pytest.param(
            ["Date,Decimal,Average", *steps(60, 1440, lambda t, at: f"{t:%Y-%m-%d},{2024 + at / 366:.4f},{at % 8},7")],
            "Average",
            ("2024-03-01", "0"),
            60,
            {},
            id="a name too few",
        ),
        pytest.param(
            [
                "time,v",
                *(
                    line
                    for count, add in ((40, 0), (4, 90))
                    for line in steps(count, 5, lambda t, at, a=add: f"{t:{ISO}},{at + a}")
                ),
            ],
            "v",
            ("2024-03-01T00:00:00", "90"),
            40,
            {"aligned": "nearest, every 5min: 4 joined with others; --align takes another grid, or none"},
            id="times that come twice",
        ),
        pytest.param(
            [
                "Date,km",
                *(f"{FIRST + timedelta(hours=at * at % 97 + 50 * at):%Y-%m-%d %H:%M},4.{at}" for at in range(60)),
            ],
            "km",
            ("2024-01-01T00:00:00", "4.15"),
            18,
            {"interval": "1w; readings come about every 51h"},
            id="events",
        ),
        pytest.param(
            [
                '"MTU (CET/CEST)","Price","Currency","BZN|FI"',
                *steps(40, 60, lambda t, at: f'"{t:%d.%m.%Y %H:%M} - {t:%d.%m.%Y %H:%M}","{at}.25","EUR"'),
            ],
            "Price",
            ("2024-03-01T00:00:00+01:00", "0.25"),
            40,
            {"names without a column": ["BZN|FI"]},
            id="a name too many",
        ),
        pytest.param(
            [
                "Area,MTU,Gas",
                *steps(40, 60, lambda t, at: f"FI,{t:%d.%m.%Y %H:%M} - {t:%d.%m.%Y %H:%M} (CET/CEST),{at}.5"),
            ],
            "Gas",
            ("2024-03-01T00:00:00+01:00", "0.5"),
            40,
            {},
            id="a span and its zone",
        ),
        pytest.param(
            ["Quarter\tincome", *(f"{1970 + at / 4:.2f}\t{at % 7}.5" for at in range(40))],
            "income",
            ("1970-01-01T00:00:00", "0.5"),
            40,
            {"interval": "3mo"},
            id="decimal quarters",
        ),
        pytest.param(
            [
                "Zeit,Haus",
                *steps(
                    40,
                    10,
                    lambda t, at: f'"{t:%d.%m.%Y, %H:%M} Uhr","{at % 7 + 1}.{at + 100},5 W"',
                    datetime(2024, 3, 31),
                ),
            ],
            "Haus",
            ("2024-03-31T00:00:00", "1100.5"),
            40,
            {"decimal mark": "comma"},
            id="units after decimal commas",
        ),
        pytest.param(
            [
                "Année;Mois;Jour;Heure;Débit",
                *steps(60, 60, lambda t, at: f"{t.year};{t.month};{t.day};{t.hour}h;{at % 9},5"),
            ],
            "Débit",
            ("2024-03-01T00:00:00", "0.5"),
            60,
            {"interval": "1h"},
            id="hours with their letter",
        ),
        pytest.param(
            [
                "Time;Nivå",
                *steps(40, 60, lambda t, at: f"{t.day} maj {t.year} kl. {t:%H.%M};{at % 9},5", datetime(2024, 5, 1)),
            ],
            "Nivå",
            ("2024-05-01T00:00:00", "0.5"),
            40,
            {},
            id="Swedish",
        ),
        pytest.param(
            [
                "Heathrow",
                "   yyyy  mm   tmax    sun",
                "              degC  hours",
                *(
                    f"   {2000 + at // 12}  {at % 12 + 1:2}   {at}.5  {'1.5#  Provisional' if at > 50 else '2.5'}"
                    for at in range(60)
                ),
            ],
            "tmax",
            ("2000-01-01T00:00:00", "0.5"),
            60,
            {"words after the last column left out": ["Provisional"]},
            id="words after the last column",
        ),
        pytest.param(
            [
                "time,P",
                *steps(40, 60, lambda t, at: f"{t:%Y%m%d:%H%M},{at}.5"),
                "",
                *(f"P: note {at}" for at in range(9)),
            ],
            "P",
            ("20240301:0000", "0.5"),
            40,
            {"lines at the end left out": [f"P: note {at}" for at in range(9)]},
            id="nine notes at the end",
        ),
        pytest.param(
            [f"{1999 + at // 12};{at % 12 + 1:02d};{1999 + at / 12:.3f}; {at % 9}.5;-1.0" for at in range(60)],
            "column4",
            ("1999-01-01T00:00:00", "0.5"),
            60,
            {"time": "column1+column2: %Y %m, without a zone; --zone gives it one"},
            id="years and months without names",
        ),
        pytest.param(
            [
                "Zst;Datum;Wotag;Stunde;KFZ",
                *(
                    f"5;{t:%y%m%d};{t:%u};{t.hour + 1:02d};{at * 7 % 40 if at != 99 else -1}"
                    for at, t in enumerate(FIRST + timedelta(hours=at) for at in range(480))
                ),
            ],
            "KFZ",
            ("2024-01-01T01:00:00", "0"),
            480,
            {"perhaps missing": "-1; say --missing", "interval": "1h"},
            id="dates of six digits",
        ),
        pytest.param(
            [
                "unix,date,close",
                *steps(60, -1440, lambda t, at: f"{t.timestamp() * 1000:.0f},{t:%Y-%m-%d},{at % 7}.5"),
            ],
            "close",
            ("2024-01-02", "3.5"),
            60,
            {"order": "newest first; it is sent oldest first"},
            id="a second clock",
        ),
        pytest.param(
            [
                '"Plot Title: house"',
                '"#","Date Time, GMT-05:00","Temp, °C"',
                *steps(40, 60, lambda t, at: f"{at},{t:%m/%d/%y %I:%M:%S %p},{at % 9}.5", datetime(2024, 3, 20)),
            ],
            "Temp, °C",
            ("2024-03-20T00:00:00-05:00", "0.5"),
            40,
            {"zone": "Etc/GMT+5, as 'Date Time, GMT-05:00' says; --zone takes another"},
            id="a header that begins with a number sign",
        ),
        pytest.param(
            ["Time (UTC+5:30);v", *steps(40, 60, lambda t, at: f"{t:{ISO}};{at}")],
            "v",
            ("2024-03-01T00:00:00+05:30", "0"),
            40,
            {"zone": "Asia/Kolkata, as 'Time (UTC+5:30)' says; --zone takes another"},
            id="half hours of a zone in the name",
        ),
        pytest.param(
            ["MJD,x", *(f"{59000 + at},{at % 7}.5" for at in range(40))],
            "x",
            ("2020-05-31T00:00:00", "0.5"),
            40,
            {"time": "MJD: modified Julian days, without a zone; --zone gives it one"},
            id="modified Julian days",
        ),
        pytest.param(
            ["day,date code,v", *(f"2024-01-{at + 1:02d},{70000 + at},{at % 7}.5" for at in range(30))],
            "v",
            ("2024-01-01", "0.5"),
            30,
            {"other columns of times": None},
            id="days far ahead are no days of Excel",
        ),
        pytest.param(
            ["time WDIR WSPD", *steps(40, 60, lambda t, at: f"{t:{ISO}} {at * 7 % 360} {at % 9}.5")],
            "WSPD",
            ("2024-03-01T00:00:00", "0.5"),
            40,
            {},
            id="directions are forecast last",
        ),
    ],
)
def test_exports_of_odd_programs_are_read(
    lines: list[str], target: str, first: tuple[str, str], count: int, said: dict[str, Any], tmp_path: Path
) -> None:
    found = read(tmp_path / "x.csv", "\n".join(lines))
    assert found.time is not None
    rows = [*zip(column(found, found.time), column(found, target), strict=True)]
    assert (found.targets[0], rows[0], found.count, len(rows)) == (target, first, count, count)
    assert {name: found.said.get(name) for name in said} == said


@pytest.mark.parametrize(
    ("told", "zone"),
    [
        ({"utc_offset_seconds": 0, "timezone": "GMT"}, "UTC"),
        ({"utc_offset_seconds": -18000, "timezone": "America/New_York"}, "Etc/GMT+5"),
        ({"timezone": "Europe/Oslo"}, "Europe/Oslo"),
        ({"utc_offset_seconds": 61, "timezone": "here"}, None),
    ],
)
def test_the_zone_in_a_document_is_that_of_its_times(told: dict[str, Any], zone: str | None, tmp_path: Path) -> None:
    held = {"time": [f"{when:%Y-%m-%dT%H:%M}" for when, _ in hours()], "v": [one for _, one in hours()]}
    content = json.dumps(told | {"units": {"time": "iso8601", "v": "°C"}, "hourly": held})
    found = read(tmp_path / "x.json", content)
    assert (found.zone, found.count) == (zone, 60)
    assert ("zone" in found.understood) is (zone is not None)
    assert read(tmp_path / "x.json", content, zone="Europe/Rome").zone == "Europe/Rome"


def test_options_undo_what_a_file_is_taken_for(tmp_path: Path) -> None:
    homes = days(lambda d, at: f"{d},{HALVES}", f"date,{','.join(f'h{at}' for at in range(48))}")
    assert "--wide makes each a series" in read(tmp_path / "x.csv", homes).said["columns that are hours"]
    found = read(tmp_path / "x.csv", homes, wide=True)
    assert [*found.rows()][1] == [f"{DAYS[0]}", "h1", "1.5"]
    commented = "# station 7\n# time, v\n" + text(lambda t, v: f"{t:{ISO}},{v}", "").decode()
    found = read(tmp_path / "x.csv", commented, skip=1, header=True)
    assert (found.names, found.count) == (["time", "v"], 60)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("cp1251", "Время;Температура, °C;Город"),
        ("koi8-r", "Дата;Мощность, кВт;Станция"),
        ("cp1253", "Ημερομηνία;Φορτίο;Πόλη"),
        ("iso8859-7", "Ώρα;Τιμή;Ποσότητα"),
        ("cp932", "日付;実績(万kW);場所"),
        ("gb18030", "时间;有功功率;站点"),
        ("big5", "時間;溫度;測站"),
        ("cp949", "일시;기온(°C);지점명"),
        ("cp1250", "Čas;Výkon;Příkon"),
        ("cp1254", "Tarih;Üretim;Şehir"),
        ("cp850", "Zeit;Außentemperatur;Gebäude"),
        ("cp1252", "Date;Débit m³/s à l'aval;Lieu"),
        *((one, "Datums;Vērtība;Ieņēmumi") for one in ("cp1257", "iso8859-13", "iso8859-4")),
        *((one, "Oro temperatūra;Data;Reikšmė") for one in ("cp1257", "iso8859-13")),
        *((one, "Kuupäev;Müük;Õhutemperatuur") for one in ("cp1257", "cp1252")),
        *((one, "Datum/Čas;Údaj;Množství") for one in ("cp1250", "iso8859-2")),
        *((one, "Data;Źródło;Zużycie") for one in ("cp1250", "iso8859-2")),
        *((one, "Időpont;Érték;Vízállás") for one in ("cp1250", "iso8859-2")),
        *((one, "Dată;Putere;Temperatură") for one in ("cp1250", "iso8859-2")),
        ("cp1250", "Čas;Wert;Hodnota"),
        ("cp1254", "Tarih;Sıcaklık;Yağış"),  # noqa: RUF001
        ("cp1254", "İstasyon;Değer;Gün"),
        *((one, "ΗΜΕΡΟΜΗΝΙΑ;Χρόνος;Ύψος") for one in ("cp1253", "iso8859-7")),  # noqa: RUF001
        ("cp1252", "Dato;Måned;Værdi"),
        ("cp1255", "תאריך;ערך;תחנה"),
        ("euc-jp", "日付;時刻;電力使用量"),
    ],
)
def test_words_in_other_encodings_are_read(encoding: str, words: str, tmp_path: Path) -> None:
    last = words.rpartition(";")[2]
    content = text(lambda t, v: f"{t:{ISO}};{v};{last}", words).decode()
    found = read(tmp_path / "x.csv", content.encode(encoding))
    assert found.names == words.split(";")
    late = [*steps(5000, 60, lambda t, at: f"{t:{ISO}};{at};a"), f"2025-01-01T00:00;1;{last}"]
    assert column(read(tmp_path / "x.csv", "\n".join(["time;v;w", *late, ""]).encode(encoding)), "w")[-1] == last


def test_the_25th_hour_of_a_day_needs_a_zone(tmp_path: Path) -> None:
    days = [datetime(2021, 10, 29) + timedelta(days=at) for at in range(5)]
    lines = [
        f"ES1;{day:%d/%m/%Y};{hour};0,{hour:03d}" for day in days for hour in range(1, 25 + (f"{day:%d%m}" == "3110"))
    ]
    content = "\n".join(["CUPS;Fecha;Hora;Consumo_kWh", *lines])
    with pytest.raises(ValueError, match="Hora: has 25 periods of 60 minutes on a day, as clocks go back; say --zone"):
        read(tmp_path / "x.csv", content)
    stamps = column(read(tmp_path / "x.csv", content, zone="Europe/Madrid"), "time")
    assert (stamps[0], stamps[-1]) == ("2021-10-29T01:00:00+02:00", "2021-11-03T00:00:00+01:00")
    assert stamps[49:52] == [f"2021-10-31T0{one}" for one in ("2:00:00+02:00", "2:00:00+01:00", "3:00:00+01:00")]
    assert len({datetime.fromisoformat(one).timestamp() for one in stamps}) == 121
    halves = [f"2021-10-31,{at},{at}.5" for at in range(1, 51)]
    content = "\n".join(["SETTLEMENT_DATE,SETTLEMENT_PERIOD,ND", *halves])
    with pytest.raises(ValueError, match="say --zone"):
        read(tmp_path / "x.csv", content)
    assert column(read(tmp_path / "x.csv", content, zone="Europe/London"), "time")[-1] == "2021-10-31T23:30:00+00:00"


def test_a_bad_row_among_the_last_is_not_left_out(tmp_path: Path) -> None:
    lines = ["time,v", *steps(60, 60, lambda t, at: f"{t:{ISO}},{at}")]
    lines[58] = "2024-03-03T09:00,5,6"
    with pytest.raises(ValueError, match="row 58: has 3 columns, the first line has 2"):
        read(tmp_path / "x.csv", "\n".join(lines))


@pytest.mark.parametrize(
    "name", ["BTC_USD Daten.csv", "_Über 2024.csv", f"{'A' * 80}-b.csv", "\N{CJK UNIFIED IDEOGRAPH-4E00}.csv"]
)
@pytest.mark.parametrize("head", ["time,,v", "time,Province,Country"])
def test_commands_have_an_id_that_the_service_takes(name: str, head: str, tmp_path: Path) -> None:
    lines = [f"2024-01-{1 + at // 4:02d},{'ab'[at % 2]},{'xy'[at // 2 % 2]},{at}" for at in range(80)]
    lines = lines if "Country" in head else [f"2024-01-{1 + at:02d},,{at}" for at in range(20)]
    (tmp_path / name).write_text("\n".join([head + ",value" * ("Country" in head), *lines]))
    found = table(tmp_path / name)
    create, run, *_ = (shlex.split(one) for one in file_report.report(found, FileOptions(), name)["commands"])
    assert create[1] == run[1] == ("feed" if found.series is None else "fleet")
    assert re.fullmatch(MODEL_ID, create[3])
    assert (create[3], "--series" in create) == (run[3], False)


def test_a_grid_is_that_of_most_readings(tmp_path: Path) -> None:
    at_phase = steps(100, 5, lambda t, at: f"{t:{ISO}},{at}", datetime(2024, 3, 1, 0, 2, 31))
    restarted = steps(100, 5, lambda t, at: f"{t:{ISO}},{at}", datetime(2024, 3, 1, 9, 4, 2))
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *at_phase, *restarted]))
    assert (found.align, found.zone) == ("nearest:5min", None)
    assert read(tmp_path / "x.csv", "\n".join(["time,v", *at_phase])).align is None  # which keeps to its own grid
    assert read(tmp_path / "x.csv", "\n".join(["time,v", *at_phase, *restarted]), align="none").align is None
    months = [
        "time,v",
        *(f"{year}-{month:02d}-{1 + year % 4:02d},{month}" for year in range(2000, 2009) for month in range(1, 13)),
    ]
    assert read(tmp_path / "x.csv", "\n".join(months)).align == "nearest:1mo"
    named = steps(90, 0.12, lambda t, at: f"{t:%m/%d/%y %H:%M:%S},{at}", datetime(2024, 2, 1))
    assert read(tmp_path / "heart-2024-02-01.csv", "\n".join(["time,v", *named])).zone is None


def test_a_grid_is_that_of_the_clock_and_open_hours(tmp_path: Path) -> None:
    chance = Random(27)
    opened = [FIRST + timedelta(days=at // 18, hours=8, minutes=30 * (at % 18)) for at in range(900)]
    parks = [when + timedelta(minutes=-4 * (at % 2), seconds=chance.randrange(90)) for at, when in enumerate(opened)]
    late = [FIRST + timedelta(seconds=310 * at + chance.randrange(20)) for at in range(400)]
    bursts = [FIRST + timedelta(minutes=5 * (at // 6), seconds=11 * (at % 6)) for at in range(900)]
    events = sorted(FIRST + timedelta(seconds=chance.randrange(86_400 * 9)) for _ in range(2000))
    for times, grid in (
        (parks, "nearest:30min"),
        (late, "nearest:5min"),
        (bursts, "mean:5min"),
        (events, "mean:10min"),
    ):
        found = read(tmp_path / "x.csv", "\n".join(["time,v", *(f"{when},{at}" for at, when in enumerate(times))]))
        assert found.align == grid
    shop = [f"{when},{at}" for at, when in enumerate(opened)]
    said = "62%, which hold the last value; --on-missing skip joins the readings around them"
    assert read(tmp_path / "x.csv", "\n".join(["time,v", *shop])).said["hours or days without readings"] == said
    assert "hours or days without readings" not in read(tmp_path / "x.csv", "\n".join(["time,v", *shop[:18]])).said
    finer = steps(20_000, 10, lambda t, at: f"{t},{at}") + steps(
        20_000, 1, lambda t, at: f"{t},{at}", datetime(2025, 3, 1)
    )
    assert read(tmp_path / "x.csv", "\n".join(["time,v", *finer])).align == "mean:10min"  # nearest would lose most


def test_events_among_readings_are_put_in_order(tmp_path: Path) -> None:
    lines = ["Index,Timestamp,Event,Glucose,Insulin", "1,,FirstName,,", "2,,Alert,200,"]
    begin = datetime(2024, 2, 1, 0, 3, 12)
    for at in range(300):
        lines.append(f"{at},{begin + timedelta(minutes=5 * at):{ISO}},EGV,{90 + at % 70},")
        if at % 40 == 20:  # an event of half an hour ago
            lines.append(f"{at},{begin + timedelta(minutes=5 * at - 31):{ISO}},Insulin,,4.5")
    found = read(tmp_path / "x.csv", "\n".join(lines))
    assert (found.align, found.said["order"]) == ("nearest:5min", "none; it is sent oldest first")
    stamps = column(found, "Timestamp")
    assert stamps == sorted({*stamps})
    assert len([cell for cell in column(found, "Glucose") if cell]) == 300


def test_times_without_a_day_ask_or_take_the_one_that_is_there(tmp_path: Path) -> None:
    lines = "\n".join(["time,v", *steps(200, 10, lambda t, at: f"{t:%H:%M},{at}")])
    found = read(tmp_path / "x.csv", lines)
    option = "say --time-format with the first day, as in '2024-01-31 %H:%M:%S'"
    assert found.said["time"] == f"'time' has times without a day or a year, such as '00:00'; {option}"
    for stamps in (
        column(read(tmp_path / "cpu-2024-02-28.csv", lines), "time"),
        column(read(tmp_path / "x.csv", lines, time_format="2024-02-28 %H:%M"), "time"),
    ):
        assert (stamps[0], stamps[-1]) == ("2024-02-28 00:00:00", "2024-02-29 09:10:00")
    logged = "\n".join(["time,v", *steps(90, 1440, lambda t, at: f"{t:%b %d %H:%M:%S},{at}", datetime(2023, 12, 1))])
    assert column(read(tmp_path / "messages-20231201.csv", logged), "time")[-1] == "2024-02-28 00:00:00"
    times = "\n".join(["lap,v", *(f"00:{at * 7 % 60:02d}:00,{at}" for at in range(60))])
    assert read(tmp_path / "run-2024-02-28.csv", times).time is None  # these are durations


def test_what_is_empty_is_said(tmp_path: Path) -> None:
    lines = [f"{when},{name},{'' if name == 'b' else one},{one}" for when, one in hours() for name in "ab"]
    said = read(tmp_path / "x.csv", "\n".join(["time,sensor,v,w", *lines])).said
    assert said["series without values"] == "1: b"
    said = read(tmp_path / "x.csv", "\n".join(["time,a,b", *(f"{when},{one}," for when, one in hours())])).said
    assert said["columns without values"] == ["b"]


def test_a_broken_row_is_no_end_of_a_table(tmp_path: Path) -> None:
    lines = steps(60, 60, lambda t, at: f"{t:{ISO}},{at}")
    content = ["time,v", *lines[:30], "2024-03-02T06:00:00,5,6", *lines[30:], "", "name,count", "a,b", "c,d"]
    with pytest.raises(ValueError, match="row 31: has 3 columns, the first line has 2; say"):
        read(tmp_path / "x.csv", "\n".join(content))


DAYS = [FIRST.date() + timedelta(days=at) for at in range(60)]
HALVES = ",".join(f"{at % 9}.5" for at in range(48))
NEM12 = [
    "100,NEM12,202401011200,M,R",
    "200,410,E1B1,1,E1,N1,7,KWH,30,",
    f"300,20240101,{HALVES[1:]},A,,,20240103000000,",
]
NEM12 += [f"300,20240102,{HALVES},V,,,20240103000000,", "400,1,2,N,,", "400,3,48,A,,", "900"]
DLY = "".join(f"{at:5d}  W" if at < 29 else "-9999   " for at in range(31))
POINTS = [[at + 0.5, 1704067200 + 60 * at] for at in range(50)]
RANGES = [f"{hour:02d}:00-{hour + 1:02d}:00" for hour in range(24)]
MONTHS = [f"{datetime(2024, month, 1):%B}" for month in range(1, 13)]
OF_MONTHS = ["Month,2019,2020,2021,2022,2023,2024,2025,2026", *(f"{one}{',12' * 8}" for one in MONTHS)]
BLS = ["year,period,v", *(f"{2000 + at // 13},M{1 + at % 13:02d},{at}.5" for at in range(130))]
LISTS = f'{{"Timestamps": {[t for _, t in POINTS]}, "Values": {[v for v, _ in POINTS]}}}'
MIXED = [f"{year}{period},{year}.5" for year in range(2010, 2020) for period in ("", "-Q1", "-Q2", "-01", "-02", "-03")]


def days(write: Any, *before: str, step: int = 1) -> str:
    """Return a file with a line for each day."""
    return "\n".join([*before, *(write(day, at) for at, day in enumerate(DAYS[::step]))])


def hourly(write: Any, *before: str, minutes: int = 60, count: int = 48) -> str:
    """Return a file with a line for each interval."""
    return "\n".join([*before, *(write(FIRST + timedelta(minutes=minutes * at), at) for at in range(count))])


def ends(write: Any, *marks: str) -> str:
    """Return a file of hours with the times at which they end, of which the one that clocks repeat has a mark."""
    first, again, header = marks
    held = [datetime(2020, 10, 30) + timedelta(hours=at) for at in range(120)]
    lines = [f"{write(t, at)}{'' if ',' in write(t, at) else ' '}{t.hour + 1:02d}" for at, t in enumerate(held)]
    lines = [line + ("" if "," in line else ":00") + first for line in lines]
    lines.insert(50, f"{lines[49]}{again}")
    return "\n".join([header, *(f"{line},{at}.5" for at, line in enumerate(lines))])


def weeks(header: str, before: str) -> str:
    """Return a file of three years of weeks, of which the second has 53."""
    lines = [f"{before}{year},{week},{week}" for year in (2019, 2020, 2021) for week in range(1, 53 + (year == 2020))]
    return "\n".join([header, *lines])


OF_NOVEMBER = {
    0: ("2020-10-30T01:00:00-04:00", "0.5"),
    49: ("2020-11-01T01:00:00-05:00", "49.5"),
    50: ("2020-11-01T02:00:00-05:00", "50.5"),
    120: ("2020-11-04T00:00:00-05:00", "120.5"),
}
SAR = ["Linux 5.15 (web01) \t01/15/2024 \t_x86_64_", ""]
for at in range(100):
    SAR += ["", f"{FIRST + timedelta(minutes=10 * at):%I:%M:%S %p}  CPU  %user"] if at % 30 == 0 else []
    SAR += [f"{FIRST + timedelta(minutes=10 * at + 10, seconds=1):%I:%M:%S %p}  all  {at}.50"]
SAR += ["Average:  all  50.00"]


@pytest.mark.parametrize(
    ("content", "rows", "wanted"),
    [
        ("\n".join(NEM12), 96, {0: ("2024-01-01T00:00+10:00", ".5"), 48: ("2024-01-02T00:00+10:00", "")}),
        (f"USW00094728202402TMAX{DLY}", 29, {0: ("2024-02-01", "0"), 28: ("2024-02-29", "28")}),
        (days(lambda d, at: f"{d},{HALVES}"), 2880, {1: ("2024-01-01 00:30", "1.5"), 48: ("2024-01-02 00:00", "0.5")}),
        (days(lambda d, at: f"{d},{HALVES}", f"Date,{','.join(f'hh_{at}' for at in range(48))}"), 2880, {}),
        (
            days(lambda d, at: f"{d}{';2,5' * 24}", f"Giorno;{';'.join(RANGES)}"),
            1440,
            {1: ("2024-01-01 01:00", "2.5")},
        ),
        (days(lambda d, at: f"{d:%Y%m%d}.0,{at}", "date,v"), 60, {1: ("20240102.0", "1")}),
        (days(lambda d, at: f"{float(f'{d:%Y%m%d}'):.7E} {at}.5"), 60, {1: ("2024-01-02T00:00:00", "1.5")}),
        (days(lambda d, at: f"0101 {d:%Y %m %d} {at}.5 A"), 60, {1: ("2024-01-02T00:00:00", "1.5")}),
        (
            days(lambda d, at: f"{d.year}年{d.month}月{d.day}日,{at}.5", "日期,v"),
            60,
            {1: ("2024-01-02T00:00:00", "1.5")},
        ),
        (days(lambda d, at: f'"{at}" "{d}" {at}.5', '"day" "v"'), 60, {1: ("2024-01-02", "1.5")}),
        (hourly(lambda t, at: f"{t:%Y-%m-%d},{t.hour},{at}.5"), 48, {1: ("2024-01-01T01:00:00", "1.5")}),
        (
            hourly(lambda t, at: f"{t:%Y-%m-%d};{t.hour + 1};{at}.5", "Data;Godz.;v"),
            48,
            {0: ("2024-01-01T01:00:00", "0.5")},
        ),
        (hourly(lambda t, at: f"{t:%m/%d/%Y %H:%M},{at}.5"), 48, {47: ("2024-01-02T23:00:00", "47.5")}),
        (hourly(lambda t, at: f"{t:%Y,%j},{t:%H%M},{at}.5", "year,doy,MST,v"), 48, {1: ("2024-01-01T01:00:00", "1.5")}),
        (
            hourly(lambda t, at: f"{t:%Y,%m,%d},{t:%H:%M},{at}.5", "Year,m,d,Time,v"),
            48,
            {1: ("2024-01-01T01:00:00", "1.5")},
        ),
        (hourly(lambda t, at: f"{t:%Y-%m-%d %H:%M} 7 {at}.5", "when a v"), 48, {1: ("2024-01-01 01:00", "1.5")}),
        (
            hourly(lambda t, at: f"{t:%Y-%m-%d %H:%M:%S} CET+0100,{at}.5", "t,v"),
            48,
            {1: ("2024-01-01T01:00:00+0100", "1.5")},
        ),
        (hourly(lambda t, at: f'{t:{ISO}},"+{at:04d},1"', "DATE,TMP"), 48, {1: ("2024-01-01T01:00:00", "+0001")}),
        (
            hourly(lambda t, at: f"{t:{ISO}},01/02/24,{at}.5", "t,LAST UPDATE,v"),
            48,
            {1: ("2024-01-01T01:00:00", "1.5")},
        ),
        (
            "\n".join(f"{1950 + (at + 0.5) / 12:.4f};{at}.5" for at in range(60)),
            60,
            {1: ("1950-02-01T00:00:00", "1.5")},
        ),
        (
            "\n".join(f"01/{1 + at % 12:02d}/{1950 + at // 12},{at}.5" for at in range(60)),
            60,
            {1: ("1950-02-01T00:00:00", "1.5")},
        ),
        ("\n".join([f"{year} " + " ".join(f"{at}.5" for at in range(12)) for year in range(1950, 1990)]), 480, {}),
        (f"a,b,{','.join(map(str, range(1960, 2019)))},X\nx,y{',NA' * 60}\nx,z{',NA' * 20}{',1.5' * 39},NA", 59, {}),
        (
            hourly(
                lambda t, at: f"{t:%d/%m/%y}\t{t:%I:%M}{t:%p}\t{at}.5".replace("M\t", "\t"),
                "Date\tTime\tOut",
                count=480,
            ),
            480,
            {13: ("2024-01-01T13:00:00", "13.5")},
        ),
        (
            hourly(lambda t, at: f"{t:%Y/%m/%d};{t:%H%M} UTC;{at},5", "Data;Hora UTC;v"),
            48,
            {1: ("2024-01-01T01:00:00+00:00", "1.5")},
        ),
        ("\n".join(OF_MONTHS), 96, {0: ("2019-01-01T00:00:00", "12")}),
        ("\n".join(["TIME_PERIOD,v", *MIXED]), 30, {1: ("2010-02", "2010.5")}),
        ("\n".join(BLS), 120, {1: ("2000-02-01T00:00:00", "1.5")}),
        (f'[{{"target": "a", "datapoints": {POINTS}}}]', 50, {1: ("1704067260", "1.5")}),
        (f'{{"Label": "a", "MetricDataResults": [{LISTS}]}}', 50, {}),
        (ends(lambda t, at: f"{t:%m/%d/%Y}", "", " DST", "HourEnding,COAST"), 121, OF_NOVEMBER),
        (ends(lambda t, at: f"{t:%m/%d/%Y},", "", "X", "Date,Hr_End,Demand"), 121, OF_NOVEMBER),
        (
            weeks("Area,MMWR Year,MMWR Week,Cases", "US,"),
            157,
            {0: ("2018-12-30T00:00:00", "1"), 104: ("2020-12-27T00:00:00", "53")},
        ),
        (
            weeks("Visits for influenza-like illness\nREGION,YEAR,WEEK,% ILI", "X,"),
            157,
            {0: ("2018-12-30T00:00:00", "1")},
        ),
        (weeks("YEAR,WEEK,v", ""), 157, {0: ("2018-12-31T00:00:00", "1")}),
        ("epiweek,v\n202001,1\n202002,2\n202003,3", 3, {0: ("2019-12-29T00:00:00", "1")}),
        ("\n".join(SAR), 100, {0: ("2024-01-15 00:10:01", "0.50"), 99: ("2024-01-15 16:40:01", "99.50")}),
        (
            "# 20240101-20240331\nNth day,Users\n" + "\n".join(f"{at:04d},{at}" for at in range(60)),
            60,
            {1: ("2024-01-02 00:00:00", "1")},
        ),
        (
            days(lambda d, at: f"{d},{at}", "Daily", "Date,Max")
            + "\n\n"
            + hourly(lambda t, at: f"{t:%Y-%m-%d},{t:%H:%M},{at}.5", "Hourly", "Date,Time,Temp", count=99),
            99,
            {1: ("2024-01-01 01:00", "1.5")},
        ),
        (
            hourly(lambda t, at: f"{t},{at}.5", "time,W") + "\n\n" + days(lambda d, at: f"{d},{at}", "time,kWh"),
            60,
            {1: ("2024-01-02", "1")},
        ),
        (
            hourly(lambda t, at: f"{t},{at}.5", "[Data]", "time,W")
            + "\n"
            + "\n".join(["[Errors]", "time,code,text", *(f"{d},{at},x" for at, d in enumerate(DAYS[:30]))]),
            48,
            {1: ("2024-01-01 01:00:00", "1.5")},
        ),
        (
            "\n".join(
                f"== Usage\nfor: period, of {d}\nperiod,kWh,events\n{d} 00:00 to {d} 12:00,{at},,\n{d} 12:00,7,,"
                for at, d in enumerate(DAYS)
            ),
            120,
            {2: ("2024-01-02T00:00:00", "1")},
        ),
        (
            hourly(lambda t, at: f"{t},{at}.5", "Id,m1", "Account,1234", "Statistic,Average", "Timestamp,CPU"),
            48,
            {1: ("2024-01-01 01:00:00", "1.5")},
        ),
        (
            hourly(lambda t, at: f"{t:%d.%m.%Y};{t:%H:%M};{at % 7 + 1},250", "Datum;von;MW"),
            48,
            {1: ("2024-01-01T01:00:00", "2.250")},
        ),
        (
            hourly(lambda t, at: f"{t:%m/%d/%Y %H:%M},{at}.5" if at < 40 else f"{t:{ISO}},{at}.5", "t,v"),
            48,
            {47: ("2024-01-02T23:00:00", "47.5")},
        ),
        (
            "<?xml version='1.0'?><a>"
            + hourly(lambda t, at: f"<Record unit='W' start='{t}' value='{at}.5'/>")
            + "</a>",
            48,
            {1: ("2024-01-01 01:00:00", "1.5")},
        ),
        (
            json.dumps(
                {"indicator": {"unit": [{"name": "W"}], "values": [{"value": v, "t": f"{t}"} for t, v in hours(50)]}}
            ),
            50,
            {},
        ),
        (
            hourly(lambda t, at: f"{t}Z,{t:%Y-%m-%d},{t.hour + 1},{at}.5", "START_GMT,OPR_DT,OPR_HR,MW"),
            48,
            {1: ("2024-01-01 01:00:00Z", "1.5")},
        ),
    ],
)
def test_kinds_of_files_are_read(content: str, rows: int, wanted: dict[int, tuple[str, str]], tmp_path: Path) -> None:
    found = read(tmp_path / "x.csv", content, align="none")
    assert found.time is not None
    sent = [*zip(column(found, found.time), column(found, found.targets[0] if found.targets else "value"), strict=True)]
    assert (found.count, len(sent), found.series) == (rows, rows, None)
    assert {at: sent[at] for at in wanted} == wanted


def test_series_and_totals_below_each_other(tmp_path: Path) -> None:
    below = [hourly(lambda t, at, name=name: f"{t:{ISO}},{name},{at}.5") for name in ("a", "b")]
    found = read(tmp_path / "x.csv", "\n".join(["t,code,v", *below]))
    assert (found.series, found.count) == ("code", 96)
    total = days(lambda d, at: f"{d},{at}.5", "from,v") + f"\n{DAYS[0]},1800.0"
    assert read(tmp_path / "x.csv", total).count == 60


def test_numbered_hours_keep_the_local_day(tmp_path: Path) -> None:
    counted = [(day, hour) for day in (28, 29, 30) for hour in range(1, 26 if day == 29 else 25)]
    content = "\n".join(["date,hour,v", *(f"2023-10-{day},{hour},{hour}.5" for day, hour in counted)])
    found = read(tmp_path / "x.csv", content, zone="Europe/Madrid")
    assert (found.zone, found.count) == ("Europe/Madrid", 73)
    assert column(found, found.time or "")[25:28] == [
        "2023-10-29T02:00:00+02:00",
        "2023-10-29T02:00:00+01:00",
        "2023-10-29T03:00:00+01:00",
    ]


def test_rows_in_any_order_are_sent_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{when:%d/%m/%Y %H:%M},{at}" for at, (when, _) in enumerate(hours(11_000))]
    newest_first = lines[::-1]
    newest_first[10_500:10_502] = newest_first[10_501:10_499:-1]
    late = [*lines[:10_600], lines[10_601], lines[10_600], *lines[10_602:]]
    for most in (200_000, 3000):  # in memory, and in files
        monkeypatch.setattr(inspection, "SORTED", most)
        for rows, order in ((newest_first, "newest first"), (late, "none")):
            found = read(tmp_path / "x.csv", "\n".join(["time,v", *rows]))
            assert found.said["order"] == f"{order}; it is sent oldest first"
            assert column(found, "v") == [*map(str, range(11_000))]
            assert "times that come twice" not in found.said
            sent = found.row_of
            assert sent is not None
            assert all(rows[sent(at)] == lines[at] for at in (499, 500, 10_600))
    twice = read(tmp_path / "x.csv", "\n".join(["time,v", *late, lines[5].split(",")[0] + ",77"]))
    assert twice.said["times that come twice"] == "1; the last value of each is taken"
    assert column(twice, "v")[4:7] == ["4", "77", "6"]


def test_an_interval_is_that_of_the_longest_steady_part(tmp_path: Path) -> None:
    early = steps(3000, 2, lambda t, at: f"{t:{ISO}},{at}")
    late = steps(3000, 16, lambda t, at: f"{t:{ISO}},{at}", datetime(2024, 3, 10))
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *early, *late]))
    assert (found.said["interval"], found.align) == (
        "15min; readings come about every 16min since 2024-03-10",
        "mean:15min",
    )
    two_days = [f"{datetime(1980, 1, 1) + timedelta(days=2 * at):%Y-%m-%d},{at}" for at in range(600)]
    daily = [f"{datetime(1984, 1, 1) + timedelta(days=at):%Y-%m-%d},{at}" for at in range(4000)]
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *two_days, *daily]))
    assert (found.said["interval"], found.said["gaps"], found.align) == ("1d", 600, None)


def test_a_day_that_is_a_date_is_complete(tmp_path: Path) -> None:
    content = "\n".join(["time,v", *(f"{day},{at}" for at, day in enumerate(DAYS))])
    found = read(tmp_path / "x.csv", content, align="mean:1d")
    assert (found.said["aligned"], column(found, "v")[-1]) == ("mean, every 1d: none moved", "59")


def test_impossible_times_are_left_out_or_refused(tmp_path: Path) -> None:
    lines = [f"{day:%Y,%m,%d},{at}" for at, day in enumerate(DAYS)]
    found = read(tmp_path / "x.csv", "\n".join(["year,month,day,v", *lines[:31], "2024,2,30,5", *lines[31:]]))
    assert found.said["rows left out, as they have no time that exists"] == "1, such as '2024 2 30'"
    assert (found.count, found.row_of and found.row_of(31)) == (60, 32)
    days = [f"{day:%m/%d/%Y},{at}" for at, day in enumerate(DAYS)]
    with pytest.raises(ValueError, match="row 56 below the header: '31/01/2024' is no time as the others"):
        read(tmp_path / "x.csv", "\n".join(["time,v", *days[:55], "31/01/2024,1", *days[55:]]))


def test_two_styles_of_dates_are_read_in_one_order(tmp_path: Path) -> None:
    styles = ("%m/%d/%Y %H:%M:%S", "%m/%d/%y %I:%M:%S %p")
    lines = [f"{when:{styles[at > 500]}},{at}" for at, (when, _) in enumerate(hours(900))]
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *lines]))
    assert found.said["time"].startswith("time: %m/%d/%Y %H:%M:%S or %m/%d/%y %I:%M:%S %p, ")
    assert column(found, "time") == [f"{when:{ISO}}" for when, _ in hours(900)]


def test_rows_of_several_lengths_are_asked_about(tmp_path: Path) -> None:
    lines = [
        line
        for when, one in hours(96)
        for line in (f"{when},1,{one}", f"{when:%Y-%m-%d} 23:59,24,{one}")[: 1 + (when.hour == 23)]
    ]
    content = "\n".join(["time,ob_hour_count,v", *lines])
    with pytest.raises(ValueError, match="several lengths, 1, 24 in 'ob_hour_count'; say --series ob_hour_count"):
        read(tmp_path / "x.csv", content)
    assert read(tmp_path / "x.csv", content, series="ob_hour_count").said["series"] == "2, named by ob_hour_count"


def test_hours_with_marks_and_days_of_months_are_rows(tmp_path: Path) -> None:
    names = ";".join(f"H{hour:02d};V{hour:02d}" for hour in range(1, 25))
    rows = [f"{day:%Y;%m;%d};" + ";".join(f"{hour};{'N' if hour == 3 else 'V'}" for hour in range(24)) for day in DAYS]
    found = read(tmp_path / "x.csv", "\n".join([f"ANO;MES;DIA;{names}", *rows]))
    assert (found.count, found.said["interval"]) == (24 * 60, "1h")
    assert [*found.rows()][2:4] == [["2024-01-01T03:00:00", "2"], ["2024-01-01T04:00:00", ""]]
    months = [(year, month) for year in (2023, 2024) for month in range(1, 13)]
    cells = [
        [f"{day + month / 10}" if day <= monthrange(year, month)[1] else "" for day in range(1, 32)]
        for year, month in months
    ]
    lines = [f"{year},{month},{','.join(each)}" for (year, month), each in zip(months, cells, strict=True)]
    found = read(tmp_path / "x.csv", "\n".join([f"year,month,{','.join(f'd{day}' for day in range(1, 32))}", *lines]))
    assert (found.count, found.said["interval"], column(found, "value")[31]) == (731, "1d", "1.2")


@pytest.mark.parametrize(
    ("names", "write", "first"),
    [
        ("年/Year,月/Month,日/Day,v", lambda t: f"{t:%Y,%-m,%-d}", "2024-03-01T00:00:00"),
        ("ano,mes,dia,hora[utc],minuto,v", lambda t: f"{t:%Y,%-m,%-d,%-H,%M}", "2024-03-01T00:00:00+00:00"),
        ("Data,Hora UTC,v", lambda t: f"{t:%Y/%m/%d,%H%M} UTC", "2024-03-01T00:00:00+00:00"),
        ("date,v", lambda t: f"{t:%Y-%m-%d %I-%p}", "2024-03-01T00:00:00"),
        ("Date,Time,v", lambda t: f"{t:%d/%m/%y,%-I:%M}{'ap'[t.hour > 11]}", "2024-03-01T00:00:00"),
    ],
)
def test_parts_of_times_of_other_programs(names: str, write: Any, first: str, tmp_path: Path) -> None:
    minutes = 1440 if "Day" in names else 60
    found = read(tmp_path / "x.csv", "\n".join([names, *steps(60, minutes, lambda t, at: f"{write(t)},{at}.5")]))
    assert found.time is not None
    assert (column(found, found.time)[0], found.said["interval"]) == (first, "1d" if "Day" in names else "1h")


def test_dates_without_a_header_and_odd_numbers(tmp_path: Path) -> None:
    lines = [f"8788 {day:%d%m%y} {at * 7 % 50}" for at, day in enumerate(DAYS)]
    found = read(tmp_path / "x.csv", "\n".join(lines))
    assert (found.said["time"].split(",")[0], column(found, "column2")[-1]) == (
        "column2: %d%m%y",
        "2024-02-29T00:00:00",
    )
    lines = [f"{when},{'1.37e 17' if at == 300 else one}" for at, (when, one) in enumerate(hours(400))]
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *lines]))
    assert found.said["texts among numbers"] == "'1.37e 17' 1 times, which are taken as missing"


def test_the_day_in_a_title_is_that_of_the_rows_below(tmp_path: Path) -> None:
    blocks = [
        [
            f"Journée du {day:%d/%m/%Y},,",
            "Heures,Consommation,Prévision",
            *(f"{hour:02d}:00,{hour},1" for hour in range(24)),
            ",,",
            ",,",
        ]
        for day in (DAYS[0], DAYS[1], DAYS[5])
    ]
    found = read(tmp_path / "x.csv", "\n".join([*(line for block in blocks for line in block), "RTE ne peut,tenu,"]))
    stamps = column(found, "time")
    assert (len(stamps), stamps[0], stamps[-1]) == (72, "2024-01-01T00:00:00", "2024-01-06T23:00:00")
    assert found.targets[0] == "Consommation"


def test_the_sheet_of_a_workbook_is_an_option(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="livesvm[excel] is not installed")
    path = workbook(tmp_path / "meter.xlsx")
    assert table(path, FileOptions(member="Data")).count == 60
    with pytest.raises(ValueError, match=r"--member: the workbook has no sheet 'Other'; it has .*Data"):
        table(path, FileOptions(member="Other"))


def test_iso_times_are_read_in_blocks_as_one_by_one() -> None:
    reader = file_times.Seconds(file_times.TimeFormat("ISO 8601"))
    for cells in (
        ["2024-02-29T12:30:01", "1969-12-31 23:59:59.25", "2024-03-01"],
        ["2024-02-29T12:30:01", "2024-02-30T12:30:01", ""],
        ["2024-02-29T12+01", "2024-02-29T12:30Z", "2024-02-29T12:30:00-05:00", "20240229T123000"],
    ):
        one_by_one = [reader.of([cell, ""])[0] for cell in cells]
        assert np.array_equal(reader.of(cells), one_by_one, equal_nan=True)


def test_words_in_place_of_numbers_with_units_are_missing(tmp_path: Path) -> None:
    odd = {0: ("err°C", "errhPa"), 1: ("err°C", "errhPa"), 7: ("err°C", "fault")}
    cells = [odd.get(at, (f"-{at},5°C", f"9{at % 9}5,7hPa")) for at in range(40)]
    rows = [f"{day:%Y-%m-%d};{';'.join(row)};{row[0]} or so" for day, row in zip(DAYS, cells, strict=False)]
    content = "\n".join(["Datum;Teplota;Tlak;Note", *rows])
    found = read(tmp_path / "x.csv", content)
    assert found.numbers == ["Teplota", "Tlak"]
    assert (column(found, "Teplota")[:3], column(found, "Tlak")[7]) == (["", "", "-2.5"], "")
    texts = "'err°C' 3 times, 'errhPa' 2 times, 'fault' 1 times"
    assert found.said["texts among numbers"] == f"{texts}, which are taken as missing"
    found = read(tmp_path / "x.csv", content, missing=["err°C"])
    assert (found.said["missing"], column(found, "Teplota")[:3]) == ("'err°C' 3 times", ["", "", "-2.5"])
    rows = [f"{when},{at}.5{'km' if at % 3 else 'mi'}" for at, (when, _) in enumerate(hours(60))]
    found = read(tmp_path / "x.csv", "\n".join(["time,way", *rows]))
    assert found.said["mostly numbers, but taken as text; say --missing for the others"] == ["way"]


def test_missing_values_are_counted_in_the_whole_file(tmp_path: Path) -> None:
    rows = [f"2024-03-{1 + at // 1440:02d}T{at // 60 % 24:02d}:{at % 60:02d},{at % 50}.5" for at in range(21_998)]
    for at in (5, 10_700, 15_000, 21_997):
        rows[at] = rows[at].partition(",")[0] + (",NaN" if at > 11_000 else ",")
    rows[20_000] = rows[20_000].partition(",")[0] + ",off"
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *rows, "sum,", *"abc"]))
    assert found.said["lines at the end left out"] == ["sum,", *"abc"]
    assert (found.count, found.said["missing"]) == (21_998, "'' 2 times, 'NaN' 2 times")
    assert found.said["texts among numbers"] == ("'off' 1 times in a sample of 10056 rows, which are taken as missing")


def test_exact_repeats_do_not_hide_the_hour_that_comes_twice(tmp_path: Path) -> None:
    local = [datetime(2022, 10, 29) + timedelta(minutes=30 * at) for at in range(300)]
    local = [*local[:52], *local[50:]]  # 01:00 and 01:30 come twice
    rows = [f"{when},{at * 7 % 97}" for at, when in enumerate(local)]
    rows[52] = f"{local[52]},{50 * 7 % 97}"  # the same value in both hours
    content = ["Timestamp,Value", *rows[:30], *rows[20:60], *rows[58:], *rows[:3]]
    found = read(tmp_path / "x.csv", "\n".join(content))
    assert (found.zone, found.count, found.said["gaps"]) == ("Europe/London", 302, None)
    stamps = column(found, "Timestamp")
    assert (stamps[50], stamps[52]) == ("2022-10-30T01:00:00+01:00", "2022-10-30T01:00:00+00:00")
    assert [*map(int, column(found, "Value"))] == [int(row.partition(",")[2]) for row in rows]
    assert found.row_of is not None
    assert (found.row_of(0), found.row_of(301)) == (0, 313)


def test_plausible_numbers_are_not_called_missing(tmp_path: Path) -> None:
    rows = [
        f"{when},{at * 37 % 300 - 120},{(at * 37 % 300 - 120) / 100 - 9}" for at, (when, _) in enumerate(hours(300))
    ]
    content = "\n".join(["time,TG,price", *rows])
    assert ",-99," in content
    assert ",-9.99\n" in content
    assert read(tmp_path / "x.csv", content).said["perhaps missing"] is None
    rain = "\n".join(["day,RH", *steps(99, 1440, lambda t, at: f"{t:%Y%m%d},{at * 37 % 40 - 1}")])
    assert read(tmp_path / "x.csv", rain).said["perhaps missing"] == "-1; say --missing"
    told = f"# RH : Daily amount of rain (in 0.1 mm) (-1 for <0.05 mm)\n{rain}"
    assert read(tmp_path / "x.csv", told).said["perhaps missing"] is None


def test_totals_between_rows_and_without_a_name_are_left_out(tmp_path: Path) -> None:
    months = [
        [f"{day:02d}.{month:02d}.2024;{day};{'zu' if day == 9 else month}" for day in range(1, 28)]
        for month in (1, 2, 3)
    ]
    lines = [line for at, rows in enumerate(months) for line in (*rows, f"Summe {at};378;{27 * at}")]
    found = read(tmp_path / "x.csv", "\n".join(["Tag;v;w", *lines]))
    assert column(found, "v") == [f"{day}" for day in range(1, 28)] * 3
    assert found.said["rows left out, as they have no time that exists"] == "2, such as 'Summe 0', 'Summe 1'"
    assert found.place_of(27) == "row 28 of those under its names"
    lines = [
        f"\t{year} \t{year}\t{name}\t{code}\t{year % 7 + code}"
        for year in range(1999, 2021)
        for code, name in enumerate("abc")
    ]
    lines = [
        line
        for at in range(0, 66, 3)
        for line in (*lines[at : at + 3], f"Total\t{1999 + at // 3} \t{1999 + at // 3}\t\t\t9")
    ]
    found = read(
        tmp_path / "x.txt",
        "\n".join(["Notes\tYear\tYear Code\tCause\tCause Code\tDeaths", *lines, "Total\t\t\t\t\t500"]),
    )
    assert (found.series, found.count, found.targets[0]) == ("Cause", 66, "Deaths")
    assert "Cause Code" not in found.targets
    assert found.said["rows left out, as they name no series"] == 22
    shared = [f"{when:{ISO}};{rest}" for when, _ in hours(20) for rest in (f";;{when.hour}", "a;1;", f"b;{when.hour};")]
    found = read(tmp_path / "x.csv", "\n".join(["time;name;load;heat", *shared]), series="name")
    assert found.count == 60  # rows of what all series share


def test_rows_before_a_gap_of_years_are_left_out(tmp_path: Path) -> None:
    early, late = datetime(1939, 1, 1), datetime(1947, 1, 1)
    lines = [f"{begin + timedelta(days=at):%Y-%m-%d},{at % 9}" for begin in (early, late) for at in range(300)]
    found = read(tmp_path / "x.csv", "\n".join(["day,v", *lines]))
    assert (found.count, column(found, "day")[0], found.place_of(0)) == (
        300,
        "1947-01-01",
        "row 300 of those under its names",
    )
    said = "300, such as those before the gap from 1939-10-27 to 1947-01-01"
    assert found.said["rows left out, as no feed takes gaps of more than a year"] == said
    found = read(tmp_path / "x.csv", "\n".join(["day,v", *lines[:300], "2036-01-01,7"]))  # of a clock that is wrong
    assert (found.count, column(found, "day")[-1]) == (300, "1939-10-27")
    both = [f"{line},{name}" for line in lines for name in ("ab" if line < "1940" else "a")]
    found = read(tmp_path / "x.csv", "\n".join(["day,v,name", *both]))
    assert column(found, "name").count("a") == column(found, "name").count("b") == 300
    yearly = [f"{year},{year % 7}" for year in range(1700, 2000) if year % 3]
    assert read(tmp_path / "x.csv", "\n".join(["year,v", *yearly])).count == 200


NAMED_DAYS = [f"{datetime(2024, 1, 1) + timedelta(days=at):%Y-%m-%d}" for at in range(40)]
PROTOCOL = "".join(
    f'cpu,host=a\\ b user={at % 7 / 4},n={at}i,up=true,s="x y" {17042 * 10**14 + at * 60 * 10**9}\n' for at in range(40)
)


@pytest.mark.parametrize(
    ("content", "count", "series", "last"),
    [
        (
            json.dumps({day: {"visits": at} if at else [] for at, day in enumerate(NAMED_DAYS)}),
            40,
            None,
            (NAMED_DAYS[-1], "39"),
        ),
        (
            json.dumps({"base": "EUR", "rates": {day: {"USD": at / 4} for at, day in enumerate(NAMED_DAYS)}}),
            40,
            None,
            (NAMED_DAYS[-1], "9.75"),
        ),
        (
            json.dumps(
                {"About": {"1. Name": "x"}, "Daily": {day: {"close": f"{at}"} for at, day in enumerate(NAMED_DAYS)}}
            ),
            40,
            None,
            (NAMED_DAYS[-1], "39"),
        ),
        (
            json.dumps(
                [
                    {"tags": {"host": name}, "dps": {f"{1704067200 + at * 60}": at + one for at in range(40)}}
                    for one, name in enumerate("ab")
                ]
            ),
            80,
            "tags.host",
            ("1704069540", "40"),
        ),
        (
            json.dumps({"day": dict(enumerate(NAMED_DAYS)), "v": dict(enumerate(range(40)))}),
            40,
            None,
            (NAMED_DAYS[-1], "39"),
        ),
        (
            json.dumps({name: dict.fromkeys(NAMED_DAYS, 5) | {NAMED_DAYS[9]: 7} for name in "ab"}),
            40,
            None,
            (NAMED_DAYS[-1], "5"),
        ),
        (
            "".join(
                json.dumps(
                    {
                        "metric": {"room": room},
                        "values": [*range(40)],
                        "timestamps": [1704067200000 + at * 60_000 for at in range(40)],
                    }
                )
                + "\n"
                for room in "ab"
            ),
            80,
            "metric.room",
            ("1704069540000", "39"),
        ),
        (PROTOCOL, 80, "series", ("1704202340000000000", "39")),
        (
            "# DDL\nCREATE DATABASE x\n# DML\n" + re.sub(',n=.*"', "", PROTOCOL),
            40,
            None,
            ("1704202340000000000", "1.0"),
        ),
    ],
)
def test_values_by_their_times_are_rows(
    content: str, count: int, series: str | None, last: tuple[str, str], tmp_path: Path
) -> None:
    found = read(tmp_path / "x.json", content)
    assert (found.count, found.series) == (count, series)
    row = dict(zip(found.names, [*found.rows()][-1], strict=True))
    assert (row[f"{found.time}"], row[found.targets[0]]) == last


def test_separators_that_end_some_lines_hide_no_header(tmp_path: Path) -> None:
    lines = [f"{day};{at};7" + ";" * (at < 15) for at, day in enumerate(NAMED_DAYS)]
    found = read(tmp_path / "x.csv", "\n".join(["Tag;Nord;Süd;West (ohne Daten)", *lines]))
    assert (found.names, found.count) == (["Tag", "Nord", "Süd"], 40)
    assert found.said["names without a column"] == ["West (ohne Daten)"]


def test_names_and_a_zone_stand_in_the_lines_around_the_header(tmp_path: Path) -> None:
    lines = [f'"{when:%Y-%m-%d %H:%M:%S}","{v}","{v / 2}"' for when, v in hours(60)]
    heads = '"timestamp","Battery [5]","Battery [5]"', '"Europe/Rome (+01:00)","Voltage","State"', '"","V","%"'
    found = read(tmp_path / "x.csv", "\n".join([*heads, *lines]))
    assert found.names == ["timestamp", "Voltage Battery [5]", "State Battery [5]"]
    assert (found.zone, column(found, "timestamp")[0][-6:]) == ("Europe/Rome", "+01:00")
    for head, zone in (
        ("Time Bucket (America/New_York),kWh", "America/New_York"),
        ("# zone: Asia/Tokyo\ntime,kWh", "Asia/Tokyo"),
        ("# Europe/Rome, times in UTC\ntime,kWh", None),
    ):
        rows = [f"{when:%m/%d/%Y %H:%M:%S},{v}" for when, v in hours(60)]
        assert read(tmp_path / "x.csv", "\n".join([head, *rows])).zone == zone


def test_settings_of_a_logger_are_no_names(tmp_path: Path) -> None:
    about = ["[Channel 1]", " Number of channels =2", " Range = 2000 cm", "[Series]", " Start at noon", "[Data]", "936"]
    lines = [f"{when:%Y/%m/%d %H:%M:%S}.0   {v:8.2f}   {v / 2:.2f}" for when, v in hours(936)]
    found = read(tmp_path / "x.mon", "\n".join([*about, *lines, "END OF DATA FILE OF DATALOGGER"]))
    assert (found.names, found.count) == (["time", "column3", "column4"], 936)


def test_times_at_which_rows_were_written_are_taken_last(tmp_path: Path) -> None:
    lines = [f"2024-04-03 13:05:48.{at},{at % 9},a,{1704067200000 + 86_400_000 * at}" for at in range(100, 160)]
    found = read(tmp_path / "x.csv", "\n".join(["update_time,count,device,day_time", *lines]))
    assert (found.time, found.every) == ("day_time", "1d")
    assert found.said["other columns of times"] == "update_time; --time takes another"
    lines = [f"{when:{ISO}},{v}" for when, v in hours(60)]
    assert read(tmp_path / "x.csv", "\n".join(["created_at,v", *lines])).time == "created_at"


def test_months_and_numbers_of_rows_of_other_countries(tmp_path: Path) -> None:
    months = ["JAN", "FÉV", "MAR", "AVR", "MAI", "JUN", "JUI", "AOÛ", "SEP", "OCT", "NOV", "DÉC"]
    years = [f"{year},{','.join(f'{year % 7 + at / 4}' for at in range(12))},,x" for year in range(2021, 2008, -1)]
    found = read(tmp_path / "x.csv", "\n".join([f"Date,{','.join(months)},,Export", *years]))
    assert (found.series, found.count, found.every) == (None, 156, "1mo")
    assert [*found.rows()][6][0] == "2009-07-01T00:00:00"
    found = read(
        tmp_path / "x.csv", "\n".join(["Date,v", *(f"{2000 + at // 12}-{at % 12 + 1},{at}" for at in range(60))])
    )
    assert (column(found, "Date")[1], found.every) == ("2000-02-01T00:00:00", "1mo")
    lines = [
        f"{day};{day.day % 4 / 4};{37000 + day.toordinal() // 30}"
        for day in (FIRST + timedelta(days=at) for at in range(99))
    ]
    assert read(tmp_path / "x.csv", "\n".join(["day;rain;num_os", *lines])).targets == ["rain", "num_os"]
    about = '"Título","Tipo de cambio"', '"Periodicidad","Diaria"', '"Unidad","Pesos"', '"Base",""', '"Fecha","SF43718"'
    lines = [f"{FIRST + timedelta(days=at):%d/%m/%Y},{at}.5" for at in range(60)]
    assert read(tmp_path / "x.csv", "\n".join(["Banco", "", *about, *lines])).names == ["Fecha", "SF43718"]


def test_readings_many_years_apart_have_an_interval(tmp_path: Path) -> None:
    rows = [
        (datetime(2003, 1, 1) + timedelta(days=30 * at), "b", at if at in (3, 150, 290) else "") for at in range(300)
    ]
    rows += [(FIRST + timedelta(days=at), "a", at % 9) for at in range(400)]
    lines = [f"{when:{ISO}},{name},{v}" for when, name, v in rows]
    found = read(tmp_path / "x.csv", "\n".join(["time,sensor,v", *lines]))
    assert (found.series, found.times) == ("sensor", ["time"])


def test_rows_without_a_time_and_times_in_digits(tmp_path: Path) -> None:
    lines = [f"{'' if at in (7, 40) else f'{when:{ISO}}'};{v}" for at, (when, v) in enumerate(hours(60))]
    found = read(tmp_path / "x.csv", "\n".join(["time;v", *lines]))
    assert (found.count, found.said["rows left out, as they have no time"], found.every) == (58, 2, "1h")
    assert found.place_of(7) == "row 8 of those under its names"
    lines = [f"Elm street {at};{when:%d %m %Y %H%M};{v}" for at, (when, v) in enumerate(hours(30))]
    found = read(tmp_path / "x.csv", "\n".join(["place;taken;v", *lines]))
    assert (found.time, column(found, "taken")[1]) == ("taken", "2024-01-01T01:00:00")
    found = read(
        tmp_path / "x.csv", "\n".join(["place;taken;v", *(line.replace(" 2024 ", " 2024 at ") for line in lines)])
    )
    assert f"{found.unread_times}".startswith("'taken' has no times in a known format")


@pytest.mark.parametrize(
    ("pattern", "minutes", "ends"),
    [
        *((one, minutes, True) for one in ("%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y-%m-%d %H:%M") for minutes in (10, 60)),
        *((one, 60, True) for one in ("%Y%m%d%H", "%Y-%m-%d-%H-%M-%S", "%d. %m. %Y %H:%M", "%Y%m%d_%H%M")),
        *((one, 15, False) for one in ("%Y-%m-%dT%H-%M-%S", "%Y-%m-%d-%H-%M", "%Y-%m-%d_%H-%M", "%d.%m.%Y. %H:%M")),
        *((one, 60, False) for one in ("%Y-%m-%d-%H-%M", "%Y.%m.%d. %H:%M", "%d.%m.%Y - %H:%M", "%d.%m. %Y %H:%M")),
        *((one, 15, False) for one in ("%Y-%m-%d %Hh%M", "%d%b%Y:%H:%M:%S", "%H:%M %d/%m/%Y", "%Y%m%d%H%M")),
        *((one, 15, False) for one in ("[%d/%b/%Y:%H:%M:%S]", "%d-%b-%y %I.%M.%S.000000 %p")),
        *((one, 60, False) for one in ("%Y年%m月%d日 %H時", "%Y年%m月%d日(金) %H:%M", "%Y년 %m월 %d일 %H시 %M분")),
    ],
)
def test_times_of_many_shapes_are_read(pattern: str, minutes: int, ends: bool, tmp_path: Path) -> None:
    whole = [FIRST + timedelta(minutes=minutes * (at + ends)) for at in range(500)]
    cells = [
        (when - timedelta(days=1)).strftime(pattern.replace("%H", "24"))
        if ends and f"{when:%H%M}" == "0000"
        else when.strftime(pattern)
        for when in whole
    ]
    content = "\n".join(["taken;v", *(f"{cell};{at % 7}.5" for at, cell in enumerate(cells))])
    for given in ({}, {"time": "taken", "time_format": pattern}):
        found = read(tmp_path / "x.csv", content, **given)
        assert (found.time, found.count, found.targets) == ("taken", 500, ["v"])
        assert [parse(cell, "time", 0) for cell in column(found, "taken")] == [
            parse(when.isoformat(), "time", 0) for when in whole
        ]


@pytest.mark.parametrize("minutes", [15, 60])
@pytest.mark.parametrize(
    ("begin", "end", "less"),
    [("%Y-%m-%d %H:%M", "-%H:%M", 0), ("%d/%m/%Y %H:%M", "-%H:%M", 1), ("%d.%m.%Y %H:%M", " - %H:%M", 0)],
)
def test_the_ends_of_spans_are_no_offsets(minutes: int, begin: str, end: str, less: int, tmp_path: Path) -> None:
    whole = [FIRST + timedelta(minutes=minutes * at) for at in range(2000)]
    lines = [f"{when:{begin}}{when + timedelta(minutes=minutes - less):{end}},1" for when in whole]
    found = read(tmp_path / "x.csv", "\n".join(["taken,v", *lines]))
    assert [parse(cell, "time", 0) for cell in column(found, "taken")] == [
        parse(when.isoformat(), "time", 0) for when in whole
    ]


def test_two_hours_are_a_span_and_an_hour_with_its_minutes_is_asked_about(tmp_path: Path) -> None:
    lines = [f"{when:%Y-%m-%d %H}-{when.hour + 1:02d},{v}" for when, v in hours(60)]
    found = read(tmp_path / "x.csv", "\n".join(["taken,v", *lines]))
    assert (found.count, found.every, column(found, "taken")[23]) == (60, "1h", "2024-01-01 23")
    lines = [f"{FIRST + timedelta(minutes=15 * at):%Y-%m-%d %H-%M},{at % 7}" for at in range(60)]
    found = read(tmp_path / "x.csv", "\n".join(["taken,v", *lines]))
    assert f"{found.unread_times}".startswith("'taken' has no times in a known format, such as '2024-01-01 00-00'")


def test_offsets_days_of_the_year_and_years_of_two_digits(tmp_path: Path) -> None:
    lines = [f"{when:%Y-%m-%d %H:%M}-0{4 + (when.day > 2)}:00,{v}" for when, v in hours(90)]
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *lines]))
    assert found.said["time"] == "time: ISO 8601, with a zone"
    for pattern in ("%Y%j", "%Y-%j"):
        lines = [f"{FIRST + timedelta(days=at):{pattern}},{at % 7}" for at in range(400)]
        found = read(tmp_path / "x.csv", "\n".join(["date,v", *lines]))
        assert (found.time, found.every, column(found, "date")[366]) == ("date", "1d", "2025-01-01T00:00:00")
    lines = [f"{when.replace(year=2036):%y%m%d%H%M},{v}" for when, v in hours(60)]  # not 2084
    found = read(tmp_path / "x.csv", "\n".join(["time,v", *lines]))
    assert (found.every, column(found, "time")[1]) == ("1h", "2036-01-01T01:00:00")


def test_the_stand_of_a_meter_is_no_likely_target(tmp_path: Path) -> None:
    lines = [
        f"{when:{ISO}},{name},{at * 40 + 7},{at % 9 + 1}" for name in "ab" for at, (when, _) in enumerate(hours(80))
    ]
    found = read(tmp_path / "x.csv", "\n".join(["time,meter,stand,used", *lines]))
    assert (found.series, found.targets) == ("meter", ["used", "stand"])


def test_names_in_two_lines_and_names_of_long_files_are_taken_by_fleets(tmp_path: Path) -> None:
    lines = [f"{when:{ISO}},{v},{-v}" for when, v in hours(30)]
    path = tmp_path / "Trading Hub Europe, published data of the day.csv"
    path.write_text("\n".join(['time,"Mixed\n oils",b', *lines]), newline="")
    found = inspection.table(path, FileOptions())
    assert found.names == ["time", "Mixed oils", "b"]
    assert column(found, "Mixed oils") == [str(v) for _, v in hours(30)]
    told = file_report.report(found, FileOptions(), str(path))["commands"]
    assert [shlex.split(one)[3] for one in told] == ["trading-hub-europe-published-data-of"] * len(told)


def test_midnights_that_stand_at_the_end_of_their_day_are_told(tmp_path: Path) -> None:
    lines = [f"2025-03-{4 + at // 24:02d},{(at + 1) % 24}:00,{at % 7}" for at in range(24 * 4)]
    found = read(tmp_path / "x.csv", "\n".join(["day,clock,v", *lines]))
    said = "0:00 comes 4 times after the rest of its day, and is read as its begin; is it 24:00?"
    assert found.said["midnights"] == said
    assert "midnights" not in read(tmp_path / "x.csv", "\n".join(["day,clock,v", *sorted(lines)])).said
