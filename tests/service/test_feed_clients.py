"""Feeds from Python and from the command line."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import datetime
from functools import partialmethod
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import AsyncClient, Client, ServiceProblem
from livesvm.service.client.events import FeedEvents
from livesvm.service.client.feeds import rows_of as sent_rows
from tests.service.conftest import Told
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED, rows_of, series, without_experts


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[Client]:
    with Client(service.url) as client:
        client.create_feed("mine", **FEED)
        yield client
        client.delete_feed("mine")


def test_a_feed_from_python(client: Client) -> None:
    rows = rows_of(series(120))
    columns: dict[str, Any] = {name: [row[name] for row in rows[:72]] for name in ("time", "y")}
    columns["time"] = [datetime.fromisoformat(time) for time in columns["time"]]
    columns["y"] = np.array(columns["y"])
    answer = client.observe("mine", columns)
    assert (answer["position"], answer["state"]) == (72, "live")
    assert client.observe("mine", rows[72:84], idempotency_key="k") == client.observe(
        "mine", rows[72:84], idempotency_key="k"
    )
    assert client.feed("mine")["position"] == 84
    assert "mine" in [one["id"] for one in client.feeds()]
    assert client.forecast("mine")["forecasts"][0]["step"] == 1
    found = client.history("mine", 5, end=datetime.fromisoformat(rows[80]["time"]))
    assert [row["time"] for row in found] == [row["time"] for row in rows[76:81]]
    assert client.feed_certificate("mine")["relative_gap"] <= 1e-8
    assert client.feed_plot("mine", "png").startswith(b"\x89PNG")
    job = client.wait(client.backtest("mine", rows, represent="level")["id"])
    assert {step["represent"] for step in job["result"]["settings"]["chosen"]["steps"]} == {"level"}
    tuned = client.wait(client.tune("mine")["id"])
    assert client.apply(tuned["id"])["events"][0]["kind"] == "chosen"


def test_a_feed_from_asyncio(service: ServiceProcess, client: Client) -> None:
    async def talk() -> dict[str, Any]:
        async with AsyncClient(service.url) as other:
            await other.observe("mine", rows_of(series(3)))
            return await other.feed("mine")

    assert asyncio.run(talk())["rows"] == 3


def test_events_are_iterated_from_where_they_were_left(service: ServiceProcess, client: Client) -> None:
    rows = rows_of(series(72))
    for begin in range(0, 72, 12):
        client.observe("mine", rows[begin : begin + 12])
    events = client.feed_events("mine", 2)
    found = [next(events) for _ in range(5)]
    assert [(event["id"], event["kind"]) for event in found] == [
        (3, "readings"), (4, "readings"), (5, "live"), (6, "readings"), (7, "readings")
    ]  # fmt: skip
    assert next(client.feed_events("mine"))["id"] == 7

    async def newest() -> dict[str, Any]:
        async with AsyncClient(service.url) as other:
            return await anext(other.feed_events("mine", 6))

    assert asyncio.run(newest()) == found[-1]
    with pytest.raises(ServiceProblem):
        next(client.feed_events("nobody"))


def test_a_stream_that_broke_goes_on_behind_what_was_seen() -> None:
    events = FeedEvents(None)
    assert events.headers() == {}
    lines = ["id: 4", "event: readings", 'data: {"position": 3}', ": alive", "event: missed", 'data: {"events": 2}']
    assert [event for line in lines if (event := events.event_in(line))] == [
        {"id": 4, "kind": "readings", "position": 3},
        {"id": None, "kind": "missed", "events": 2},
    ]
    assert events.headers() == {"last-event-id": "4"}


class Frame:
    """What is used of a polars frame."""

    def to_dicts(self) -> list[dict[str, Any]]:
        return [{"time": 1, "y": 2.0}]


def test_rows_may_be_frames() -> None:
    assert sent_rows(Frame()) == [{"time": 1, "y": 2.0}]
    assert sent_rows({"y": (1, 2)}) == [{"y": 1}, {"y": 2}]
    with pytest.raises(TypeError):
        sent_rows(3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_are_rows(library: str) -> None:
    frames = import_module(library)
    frame = frames.DataFrame({"time": [datetime(2024, 1, 1), datetime(2024, 1, 2)], "y": [1.0, 2.0]})
    assert [row["y"] for row in sent_rows(frame)] == [1.0, 2.0]
    assert all(row["time"].year == 2024 for row in sent_rows(frame))


def _watched(capsys: pytest.CaptureFixture[str], feed: str) -> list[str]:
    assert main(["feed", "watch", feed, "--count", "1"]) == 0
    assert "readings" in capsys.readouterr().out
    assert main(["feed", "watch", feed, "--count", "1", "--json"]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_file_is_run_from_where_the_feed_stands(
    reported: Told, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(series(120))

    def written(name: str, n: int) -> Path:
        lines = ["time,y,remark", *(f"{row['time']},{row['y']!r},x" for row in rows[:n])]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    settings = {name: value for name, value in FEED.items() if name not in ("target", "window", "steps")}
    made = reported(
        "feed", "create", "lines", "y", "--steps", "1,3", "--window", 60, "--settings", json.dumps(settings)
    )
    assert (made["state"], made["settings"]["steps"]) == ("filling", [1, 3])
    assert reported("feed", "push", "lines", written("first.csv", 5))["accepted"] == 5
    part = reported("feed", "run", "lines", written("some.csv", 90))
    assert (part["sent"], part["skipped"], part["position"]) == (85, 5, 90)
    rest = reported("feed", "run", "lines", written("all.csv", 120), "--size", 7)
    assert (rest["sent"], rest["skipped"], rest["position"]) == (30, 90, 120)
    (event,) = (json.loads(line) for line in _watched(capsys, "lines"))
    assert (event["kind"], event["position"]) == ("readings", 120)
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    more = rows_of(series(126))
    columns = {"time": [datetime.fromisoformat(row["time"]) for row in more], "y": [row["y"] for row in more]}
    parquet.write_table(arrow.table(columns | {"remark": [None] * 126}), tmp_path / "more.parquet")
    more = reported("feed", "run", "lines", tmp_path / "more.parquet")
    assert (more["sent"], more["skipped"], more["position"]) == (6, 120, 126)
    few = reported("feed", "create", "few", "y", "--from", written("all.csv", 120), "--newest", 50)
    assert (few["sent"], few["older"], few["position"]) == (50, 70, 50)
    few = reported("feed", "run", "few", tmp_path / "more.parquet", "--newest", 3)
    assert (few["sent"], few["skipped"], few["older"]) == (6, 120, 0)
    (tmp_path / "none.parquet").write_text("x")
    assert main(["feed", "run", "lines", str(tmp_path / "none.parquet")]) == 1
    (tmp_path / "none.csv").write_text("")
    assert main(["feed", "push", "lines", str(tmp_path / "none.csv")]) == 1
    assert "is empty" in capsys.readouterr().err
    shown = reported("feed", "show", "lines")
    assert [one["step"] for one in shown["forecasts"]] == [1, 3]
    assert reported("feed", "forecast", "lines", "--steps", "3") == shown["forecasts"][1:]
    job = reported("feed", "backtest", "lines", written("all.csv", 120), "--settings", '{"represent": "change"}')
    assert job["result"]["scores"][0]["n"] > 0
    assert main(["feed", "show", "lines"]) == 0
    assert main(["feed", "run", "lines", str(written("all.csv", 120))]) == 0
    out = capsys.readouterr().out
    assert "seasonal_mae" in out
    assert "0 readings sent, 120 were known" in out
    tuned = reported("feed", "tune", "lines", "--apply")
    assert [event["kind"] for event in tuned["applied"]["events"]] == ["chosen"]
    with written("all.csv", 120).open("a") as file:
        file.write("\n".join(f"{row['time']},{row['y']},x" for row in rows_of(series(128))[120:127]) + "\n")
        file.write(f"{rows_of(series(128))[-1]['time']},high,x\n")
    assert main(["feed", "run", "lines", str(tmp_path / "all.csv")]) == 0
    out = capsys.readouterr().out
    assert "'high' 1 times, which are taken as missing" in out
    assert "2 readings sent, 126 were known" in out


def test_what_is_known_ahead_is_announced_by_the_command_run(
    reported: Told, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weather = np.cos(np.arange(130.0) ** 1.3)
    rows = [{**row, "w": float(w), "u": 1.0} for row, w in zip(rows_of(series(130)), weather, strict=True)]

    def written(name: str, rows: list[dict[str, Any]]) -> Path:
        lines = ["time,y,w,u", *(f"{row['time']},{row['y']},{row['w']},{row['u']}" for row in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    made = reported(
        "feed", "create", "sun", "y", "--steps", "1,3", "--window", 60, "--known", "w", "--features", "u",
        "--every", "1h", "--lags", 6, "--season", 12, "--settings", '{"rolling": {"mean": [12]}}', "--zone", "UTC",
    )  # fmt: skip
    assert FEED.items() <= made["settings"].items()
    assert [made["settings"][name] for name in ("known", "features", "timezone")] == [["w"], ["u"], "UTC"]
    ran = reported("feed", "run", "sun", written("all.csv", rows[:120]), "--size", 7)
    assert [(one["n"], one["assumes"]) for one in ran["scores"]] == [(60, "perfect"), (58, "perfect")]
    job = reported("feed", "backtest", "sun", tmp_path / "all.csv")
    assert [one["assumes"] for one in job["result"]["scores"]] == ["perfect", "perfect"]
    to_come = written("to come.csv", [{**row, "y": ""} for row in rows[120:123]])
    answer = reported("feed", "announce", "sun", to_come)
    assert (answer["announced"], answer["accepted"]) == (3, 0)
    assert [one["known"] for one in answer["forecasts"]] == ["announced", "announced"]
    assert without_experts(client.forecast("sun")["forecasts"]) == answer["forecasts"]
    hot = [{"time": row["time"], "w": 5.0} for row in rows[120:123]]
    if_so = client.forecast_if("sun", hot)["forecasts"]
    assert client.announce("sun", hot)["forecasts"] == without_experts(if_so) != answer["forecasts"]
    assert main(["feed", "announce", "sun", str(to_come)]) == 0
    assert "value" in capsys.readouterr().out
    assert main(["feed", "show", "sun"]) == 0
    assert "assumes" in capsys.readouterr().out
    client.delete_feed("sun")


def test_a_file_is_run_on_within_the_hour_that_comes_twice(reported: Told, tmp_path: Path) -> None:
    hours = [0, 1, 2, 2, 3, 4]

    def written(n: int) -> Path:
        lines = ["time,y", *(f"2025-10-26T{hour:02d}:00,{i}" for i, hour in enumerate(hours[:n]))]
        (tmp_path / "local.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "local.csv"

    reported("feed", "create", "local", "y", "--settings", '{"timezone": "Europe/Berlin", "every": "1h"}')
    for until, sent in ((3, 3), (4, 1), (6, 2)):
        assert reported("feed", "run", "local", written(until))["sent"] == sent
    reported("feed", "delete", "local", "--yes")


def test_a_file_with_dates_in_digits_is_run_on(reported: Told, client: Client, tmp_path: Path) -> None:
    lines = ["time,y", *(f"202401{day:02d}{hour:02d},{hour}" for day in (1, 2) for hour in range(24))]
    reported("feed", "create", "digits", "y", "--settings", '{"every": "1h"}')
    for until, sent in ((31, 30), (49, 18), (49, 0)):
        (tmp_path / "digits.csv").write_text("\n".join(lines[:until]) + "\n")
        assert reported("feed", "run", "digits", tmp_path / "digits.csv")["sent"] == sent
    client.erase_readings("digits", times=[line.partition(",")[0] for line in lines[1:]])
    assert reported("feed", "run", "digits", tmp_path / "digits.csv")["sent"] == 48  # of which it has none any more
    reported("feed", "delete", "digits", "--yes")


def test_a_feed_that_is_being_restored_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "y.csv").write_text("time,y\n" + "\n".join(f"{row['time']},{row['y']}" for row in rows_of(series(9))))
    with ServiceProcess(tmp_path) as process:
        with Client(process.url) as client:
            client.create_feed("slow", **FEED)
        process.kill()
        process.module, process.waits_for_models = "tests.service.held_feeds", False
        process.start()
        arguments = ["feed", "run", "slow", str(tmp_path / "y.csv"), "--url", process.url, "--json"]
        with monkeypatch.context() as hasty:
            hasty.setattr(Client, "__init__", partialmethod(Client.__init__, patience=0.1))
            assert main(arguments) == 1
        assert "feed slow is not served here: it is being restored" in capsys.readouterr().err
        (tmp_path / "go").touch()
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["sent"] == 9


def test_a_feed_is_deleted_after_a_question(
    reported: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported("feed", "create", "gone", "y")
    assert "gone" in [feed["id"] for feed in reported("feed", "list")]
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert main(["feed", "delete", "gone"]) == 1  # asked, and it is not wanted
    assert reported("feed", "show", "gone")["state"] == "filling"
    capsys.readouterr()
    assert reported("feed", "delete", "gone", "--yes") == {"deleted": "gone"}
    assert main(["feed", "delete", "gone", "--yes"]) == 1
    assert "There is no such feed" in capsys.readouterr().err
    assert main(["feed", "delete"]) == 2
