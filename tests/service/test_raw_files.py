"""Files as they are become forecasts: ``livesvm inspect``, and the commands that it prints."""

from __future__ import annotations

import json
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import Client
from tests.service.conftest import Told
from tests.service.process import ServiceProcess
from tests.support.raw_files import ISO, files, hours

SMALL = json.dumps({"every": "1h", "lags": 6, "rolling": {}, "season": 0, "calendar": False})
OPTIONS = ("--window", 40, "--settings", SMALL)


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write all files; return where."""
    for one in files():
        (tmp_path / one.name.replace(" ", "_")).write_bytes(one.content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["day_first.csv", "latin-1.csv", "discharge.txt", "blanks.txt"])
def test_a_file_reaches_a_forecast(name: str, raw: Path, reported: Told, service: ServiceProcess) -> None:
    (wanted,) = (one for one in files() if one.name.replace(" ", "_") == name)
    found = reported("inspect", name)
    create, run, *_ = (shlex.split(one)[1:] for one in found["commands"])
    assert create[3] == wanted.target
    dry = reported(*create, *OPTIONS, "--dry-run")
    assert dry["rows"] == found["rows"]
    dense = json.loads(SMALL) | ({"missing": "skip"} if name[-3:] == "csv" else {})
    sent = reported(*create, "--window", 40, "--settings", json.dumps(dense))
    assert (sent["sent"], sent["skipped"], sent["settings"]["time"]) == (60, 0, wanted.time)
    assert reported("feed", "forecast", create[2])[0]["value"] > 0
    assert reported(*run)["sent"] == 0
    reported("feed", "delete", create[2], "--yes")


def test_a_feed_has_other_names_than_a_file(raw: Path, reported: Told, service: ServiceProcess) -> None:
    settings = json.loads(SMALL) | {"timezone": "Europe/Berlin"}
    reported("feed", "create", "named", "v", "--window", 40, "--settings", json.dumps(settings))
    shown = reported("feed", "run", "named", "epochs.csv", "--dry-run")
    assert shown["rows"][0] == {"time": "1704067200000", "v": "20.0"}
    local = ("feed", "run", "named", "serial_days.csv", "--zone", "Europe/Berlin")
    assert reported(*local, "--dry-run")["rows"][0]["time"] == "2024-01-01T00:00:00+01:00"
    assert reported(*local)["sent"] == 60
    with Client(service.url) as client:
        assert client.feed("named")["time"] == "2024-01-03T11:00:00+01:00"
    reported("feed", "delete", "named", "--yes")


def test_a_file_with_a_column_a_series_becomes_a_fleet(
    raw: Path, reported: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    create, run = (shlex.split(one)[1:] for one in reported("inspect", "wide.csv")["commands"] if " fleet " in one)
    content = (raw / "wide.csv").read_text()
    (raw / "wide.csv").write_text("".join(content.splitlines(keepends=True)[:41]))
    row = {"time": "2024-01-01T00:00:00", "series": "south", "value": "21.0"}
    assert reported(*create, "--dry-run")["rows"][1] == row
    assert reported(*create, *OPTIONS)["accepted"] == 120
    assert reported(*run, "--dry-run")["rows"][1] == row
    (raw / "wide.csv").write_text(content)
    again = reported(*run[:-1])  # which a fleet finds by itself
    assert (again["accepted"], again["ignored"]) == (60, 3)
    ahead = reported("fleet", "forecast", "wide")
    assert [one["series"] for one in ahead] == ["north", "south", "west"]
    reported("fleet", "delete", "wide", "--yes")
    create, run = (shlex.split(one)[1:] for one in reported("inspect", "influx.csv")["commands"])
    assert create == ["fleet", "create", "influx", "_value", "--from", "influx.csv"]
    assert reported(*create, *OPTIONS)["accepted"] == 120
    assert reported(*run)["accepted"] == 0
    reported("fleet", "delete", "influx", "--yes")
    reported("feed", "create", "one", "_value")
    assert main(["feed", "run", "one", "influx.csv"]) == 1
    assert (
        "influx.csv has several series, named by '_field'; `livesvm fleet create` takes them" in capsys.readouterr().err
    )
    reported("feed", "delete", "one", "--yes")


def test_what_is_understood_is_printed(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "latin-1.csv"]) == 0
    out = capsys.readouterr().out
    for line in (
        "encoding\tlatin-1", "separator\tsemicolon", "decimal mark\tcomma", "lines under the header\t[MEZ], [°C]",
        "time\tZeit: %d.%m.%Y %H:%M, without a zone; --zone gives it one", "Außentemperatur\tnumber\t60\t20.00",
        "livesvm feed create latin-1 'Außentemperatur' --from latin-1.csv",
    ):  # fmt: skip
        assert line in out
    assert main(["inspect", "swiss.csv", "--separator", "semicolon", "--zone", "Europe/Zurich", "--missing", "0"]) == 0
    options = "swiss.csv --separator semicolon --zone Europe/Zurich --missing 0\n"
    assert f"livesvm feed run swiss {options}" in capsys.readouterr().out
    (raw / "x.csv").write_text("time,v\n01/02/2024,1\n02/02/2024,2\n03/02/2024,2\n")
    assert main(["inspect", "x.csv"]) == 1
    assert "'%d/%m/%Y' and '%m/%d/%Y' fit all times, such as '01/02/2024'; say --time-format" in capsys.readouterr().err
    assert main(["inspect", "none.csv"]) == 1
    assert main(["inspect", "x.csv", "--separator", "ab"]) == 2
    assert main(["inspect", "x.csv", "--decimal", "x"]) == 2
    assert main(["feed", "create", "none"]) == 2
    (raw / "words.csv").write_text("".join(f"day {day} of it,{day}\n" for day in range(9)))
    assert main(["feed", "create", "none", "--from", "words.csv"]) == 1
    assert "has no times in a known format, such as 'day 0 of it'; say --time-format" in capsys.readouterr().err


def test_the_first_of_equal_columns_is_forecast_and_said(raw: Path, reported: Told) -> None:
    answer = reported("feed", "create", "first", "--from", "wide.csv", *map(str, OPTIONS[:2]))
    assert (answer["settings"]["target"], answer["understood"]["target"]) == (
        "north", "north; TARGET takes another: south, west",
    )  # fmt: skip
    reported("feed", "delete", "first", "--yes")


def test_a_feed_takes_the_columns_it_uses_of_very_many(
    raw: Path, reported: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [",".join([f"{when:{ISO}}", *(f"{v + at}" for at in range(600))]) for when, v in hours(60)]
    (raw / "many.csv").write_text("\n".join([",".join(["time", *(f"c{at}" for at in range(600))]), *lines]))
    create = ["feed", "create", "many", "c7", "--known", "c9", "--from", "many.csv", *map(str, OPTIONS[:2])]
    known, features = (",".join(f"c{at}" for at in range(begin, begin + 256)) for begin in (8, 300))
    assert main([*(known if one == "c9" else one for one in create), "--features", features]) == 1
    assert "many.csv: rows has 514 columns, the limit is 512; no feed is created" in capsys.readouterr().err
    assert reported(*create)["sent"] == 60
    assert reported("feed", "run", "many", "many.csv")["skipped"] == 60
    reported("feed", "delete", "many", "--yes")


def test_series_have_names_of_256_characters(raw: Path, reported: Told, service: ServiceProcess) -> None:
    names = ['{__name__="' + letter * 229 + '", job="node €"}' for letter in "ab"]
    lines = ["Time," + ",".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)]
    lines += [f"{when:%Y-%m-%d %H:%M:%S},{one},{one + 1}" for when, one in hours(60)]
    (raw / "grafana.csv").write_text("\n".join(lines))
    settings = json.dumps(json.loads(SMALL) | {"window": 40, "time": "Time"})
    reported("fleet", "create", "long", "value", "--settings", settings)
    assert reported("fleet", "run", "long", "grafana.csv")["accepted"] == 120
    forecasts = reported("fleet", "forecast", "long")
    assert [one["series"] for one in forecasts] == names
    assert reported("fleet", "forecast", "long", "--series", names[1]) == forecasts[1:]
    with Client(service.url) as client:
        feed = client.series("long")[1]["feed"]
        assert client.forecast(feed)["forecasts"][0]["value"] == forecasts[1]["value"]
    reported("fleet", "delete", "long", "--yes")


@pytest.mark.parametrize(
    ("name", "line", "given", "option"),
    [
        ("autumn.csv", 19, (), ("--zone", "America/Havana")),
        ("late.csv", 9, ("--align", "none"), ("--align", "nearest:1h")),
    ],
)
def test_a_file_that_is_refused_names_the_option_that_helps(
    name: str,
    line: int,
    given: tuple[str, ...],
    option: tuple[str, str],
    raw: Path,
    reported: Told,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = [f"{when + timedelta(days=306, hours=6):{ISO}}" for when, _ in hours(60)]
    times[line + 1 :] = times[line:-1] if name == "autumn.csv" else times[line + 1 :]
    times[line] = times[line - 1] if name == "autumn.csv" else times[line].replace(":00:00", ":29:00")
    (raw / name).write_text("\n".join(["time,v", *(f"{when},{at}" for at, when in enumerate(times))]))
    create = ["feed", "create", "hinted", "v", *map(str, OPTIONS[:2]), "--from", name]
    assert main([*create, *given]) == 1
    assert f"say {option[0]}" in capsys.readouterr().err  # and there is no feed
    assert reported(*create, *option)["sent"] == 60
    reported("feed", "delete", "hinted", "--yes")


def test_an_hour_that_comes_twice_row_by_row_is_sent_in_order(
    raw: Path, reported: Told, service: ServiceProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = datetime(2025, 10, 25, 12, tzinfo=ZoneInfo("UTC"))
    times = [begin + timedelta(minutes=30 * at) for at in range(60)]
    local = {when: when.astimezone(ZoneInfo("Europe/Lisbon")).strftime("%Y-%m-%d %H:%M") for when in times}
    mixed = [f"{local[when]},{times.index(when)}" for when in sorted(times, key=lambda when: (local[when], when))]
    (raw / "mixed.csv").write_text("\n".join(["time,v", *mixed]))
    create = ["feed", "create", "mixed", "--from", "mixed.csv", *map(str, OPTIONS[:2])]
    for option in ((), ("--zone", "Europe/Lisbon")):
        answer = reported(*create, *option)
        assert (answer["sent"], answer["corrected"], answer["every"]) == (60, 0, "30min")
        assert reported("feed", "run", "mixed", "mixed.csv")["sent"] == 0
        with Client(service.url) as client:
            rows = client.history("mixed", limit=100)
        held = [(datetime.fromisoformat(one["time"]), one["value"]) for one in rows]
        assert held == [*zip(times, range(60), strict=True)][-40:]  # both hours are among them
        reported("feed", "delete", "mixed", "--yes")
    (raw / "mixed.csv").write_text("\n".join(["time,v", *mixed[:20], f"{local[times[19]]},7", *mixed[20:]]))
    create += ["--zone", "Europe/Lisbon", "--align", "none"]
    assert main(create) == 1
    said = "row 20 of those under its names, counted from 0: time this time came before with other values; "
    assert f"{said}--late correct takes such rows" in (error := capsys.readouterr().err)
    assert error.endswith("; no feed is created\n")
    assert main([*create, "--late", "correct"]) == 0
    assert "61 readings sent, 0 were known, 1 took the place of others of the same time" in capsys.readouterr().out
    reported("feed", "delete", "mixed", "--yes")


def test_readings_of_a_jittering_sensor_are_put_on_a_grid_that_is_said(
    raw: Path, reported: Told, service: ServiceProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [when + timedelta(seconds=one % 7, minutes=35 * (at > 30)) for at, (when, one) in enumerate(hours(60))]
    lines = [f"{when:%Y-%m-%dT%H:%M:%S},{at},dry" for at, when in enumerate(times)]
    (raw / "jitter.csv").write_text("\n".join(["time,v,note", *lines[:50]]))
    create, run = (shlex.split(one)[1:] for one in reported("inspect", "jitter.csv")["commands"][:2])
    assert run[-2:] == ["--align", "nearest:1h"]
    answer = reported("feed", "create", "jitter", "--from", "jitter.csv", *map(str, OPTIONS[:2]))
    assert (answer["sent"], answer["every"]) == (50, "1h")
    assert answer["understood"]["aligned"] == "nearest, every 1h: 43 moved"
    (raw / "jitter.csv").write_text("\n".join(["time,v,note", *lines]))
    assert reported("feed", "run", "jitter", "jitter.csv")["sent"] == 10
    for command in (("push", "jitter", "jitter.csv"), ("backtest", "jitter", "jitter.csv")):
        assert reported("feed", *command, "--dry-run")["rows"][0]["time"] == "2024-01-01T00:00:00"
    reported("feed", "delete", "jitter", "--yes")
    names = [f"sensor.{'ab'[at % 2]},{one}" for at, one in enumerate(lines)]
    (raw / "two.csv").write_text("\n".join(["entity_id,time,v,note", *names]))
    create = ["fleet", "create", "two", "--from", "two.csv", *map(str, OPTIONS[:2])]
    assert main([*create, "--align", "none"]) == 1
    assert "say --align" in capsys.readouterr().out  # and there is no fleet
    assert reported(*create)["accepted"] == 60
    reported("fleet", "delete", "two", "--yes")
