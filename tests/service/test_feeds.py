"""Feeds over REST, in real processes: what is acknowledged stays, once, and its models are optimal."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from tests.contract.conftest import redis_server
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED, Stream, rows_of, series, without_experts
from tests.support.npz import parquet_of
from tests.support.waiting import until

__all__ = ["redis_server"]

GAP = 1e-8
CLOSE = 1e-7


@pytest.fixture
def feed(http: httpx.Client) -> Iterator[str]:
    http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
    yield "/feeds/load"
    http.delete("/feeds/load")


def problem(answer: httpx.Response) -> tuple[int, str | None, int | None]:
    reported = answer.json()
    return answer.status_code, reported.get("field"), reported.get("row")


def test_readings_become_forecasts_with_their_record(http: httpx.Client, feed: str) -> None:
    stream = Stream(http)
    filling = stream.send(3)
    assert filling["state"] == "filling"
    assert [f["served"] for f in filling["forecasts"]] == ["seasonal-naive", "seasonal-naive"]  # there were two seasons
    assert http.get(f"{feed}/forecast").json()["forecasts"] == filling["forecasts"]
    assert all(f["low"] < f["value"] < f["high"] for f in filling["forecasts"])
    live = stream.send(9)
    assert (live["state"], live["position"], live["ignored"]) == ("live", 144, 0)
    assert [f["step"] for f in live["forecasts"]] == [1, 3]
    assert all(f["low"] < f["value"] < f["high"] for f in live["forecasts"])
    now = http.get(f"{feed}/forecast").json()
    for one in now["forecasts"]:
        value = sum(expert["value"] * expert["weight"] for expert in one["experts"])
        assert (one["served"], value) == ("blend", pytest.approx(one["value"]))
    now["forecasts"] = without_experts(now["forecasts"])
    assert now == {**{name: live[name] for name in ("position", "time", "state", "forecasts")}, "stale": False}
    found = http.get(feed).json()
    assert (found["state"], found["every"], found["position"]) == ("live", "1h", 144)
    assert found["settings"]["window"] == 60
    chosen = found["settings"]["chosen"]["steps"]
    assert {step["represent"] for step in chosen} <= {
        "change",
        "level",
        "seasonal-change",
    }
    assert found["scores"][0]["n"] == 84
    assert found["recent"][0]["n"] == 60
    assert {"mae", "last_value_mae", "seasonal_mae", "coverage"} <= found["scores"][0].keys()
    assert found["events"][0]["kind"] == "live"
    proof = http.get(f"{feed}/certificate").json()
    assert [step["step"] for step in proof["steps"]] == [1, 3]
    assert proof["relative_gap"] <= GAP
    assert any(one["id"] == "load" for one in http.get("/feeds").json()["feeds"])
    assert all(one["id"] != "feed.load" for one in http.get("/models").json()["models"])


def test_history_holds_what_was_said_before(http: httpx.Client, feed: str) -> None:
    stream = Stream(http)
    reported = [stream.send() for _ in range(8)]
    said = {(f["time"], f["step"]): f["value"] for one in reported for f in one["forecasts"]}
    rows = http.get(f"{feed}/history", params={"limit": 20}).json()["rows"]
    assert [row["value"] for row in rows] == pytest.approx(stream.values[76:96])
    compared = 0
    for row in rows:
        for made in row["forecasts"]:
            assert made["made_at"] < row["time"]
            assert made["error"] == pytest.approx(row["value"] - made["value"])
            assert made["served"] == "blend"
            blended = sum(expert["value"] * expert["weight"] for expert in made["experts"])
            assert blended == pytest.approx(made["value"], abs=0.02 * np.ptp([one["value"] for one in made["experts"]]))
            if (row["time"], made["step"]) in said and made["made_at"] in {one["time"] for one in reported}:
                assert made["value"] == said[row["time"], made["step"]]
                compared += 1
    assert compared >= 2
    some = http.get(f"{feed}/history", params={"from": rows[3]["time"], "to": rows[7]["time"]}).json()["rows"]
    assert some == rows[3:8]
    thin = http.get(f"{feed}/history", params={"limit": 20, "points": 6, "step": 3}).json()
    assert thin["every"] == 4
    assert [row["time"] for row in thin["rows"]] == [row["time"] for row in rows[3::4]]
    assert [row["forecasts"] for row in thin["rows"]] == [
        [one for one in row["forecasts"] if one["step"] == 3] for row in rows[3::4]
    ]
    assert problem(http.get(f"{feed}/history", params={"step": 2}))[:2] == (422, "step")
    table = http.get(f"{feed}/history", params={"limit": 3}, headers={"accept": "application/vnd.apache.arrow.stream"})
    arrow = pa.ipc.open_stream(table.content).read_all().to_pylist()
    flat = [(row["time"], made["experts"]) for row in rows[-3:] for made in row["forecasts"]]
    assert [(row["time"], row["experts"]) for row in arrow] == flat
    for extension, begin in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        assert http.get(f"{feed}/plot.{extension}").content.startswith(begin)


def test_csv_npz_and_parquet_are_the_same_readings(http: httpx.Client) -> None:
    rows = rows_of(series(72))
    lines = ["time,y,note", *(f"{row['time']},{row['y']!r}," for row in rows)]
    arrays = io.BytesIO()
    np.savez(arrays, time=np.array([row["time"] for row in rows]), y=np.array([row["y"] for row in rows]))
    bodies = {
        "application/json": json.dumps({"rows": rows}).encode(),
        "text/csv": "\n".join(lines).encode(),
        "application/x-npz": arrays.getvalue(),
        "application/vnd.apache.parquet": parquet_of({name: [row[name] for row in rows] for name in ("time", "y")}),
    }
    found = []
    for number, (media, body) in enumerate(bodies.items()):
        http.post("/feeds", json={"id": f"same-{number}", **FEED}).raise_for_status()
        answer = http.post(f"/feeds/same-{number}/observations", content=body, headers={"content-type": media})
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        http.delete(f"/feeds/same-{number}").raise_for_status()
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0]["forecasts"]


def test_a_parquet_file_that_holds_no_readings_is_refused_by_its_column(http: httpx.Client, feed: str) -> None:
    import pyarrow as pa

    def refused(**columns: Any) -> tuple[Any, ...]:
        """Return the status and the field of a file of columns."""
        headers = {"content-type": "application/vnd.apache.parquet"}
        answer = http.post(f"{feed}/observations", content=parquet_of(columns), headers=headers)
        assert "/body.parquet" not in answer.text  # where it was on the disk
        return problem(answer)[:2]

    assert refused()[0] == 400
    assert refused(y=pa.array([], pa.float64())) == (422, "rows")
    assert refused(time=["2024-01-01T00:00"], y=[True]) == (422, "y")
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()):
        assert refused(time=pa.array([2**30 if kind == pa.date32() else 2**62], kind), y=[1.0]) == (422, "time")


def test_two_hundred_columns_come_in_any_form(http: httpx.Client) -> None:
    names = [f"column {number}" for number in range(200)]
    columns = dict(zip(names, np.random.default_rng(0).normal(size=(200, 60)).tolist(), strict=True))
    columns |= {"time": [row["time"] for row in rows_of(series(60))], "y": series(60).tolist()}
    arrays = io.BytesIO()
    packed: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    np.savez_compressed(arrays, **packed)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
    http.post("/feeds", json={"id": "wide", **FEED, "features": names, "gamma": 0.01, "C": 1.0}).raise_for_status()
    for media, body in (
        ("application/x-npz", arrays.getvalue()),
        ("text/csv", "\n".join(lines).encode()),
        ("application/json", json.dumps({"rows": rows}).encode()),
    ):
        answer = http.post("/feeds/wide/observations", content=body, headers={"content-type": media}).json()
        assert (answer["position"], answer["accepted"] + answer["ignored"]) == (60, 60)
    assert http.get("/feeds/wide/certificate").json()["relative_gap"] <= GAP
    http.delete("/feeds/wide").raise_for_status()


def test_what_is_refused_is_named_and_changes_nothing(http: httpx.Client, feed: str) -> None:
    stream = Stream(http)
    before = stream.send(2)
    rows = rows_of(series(40))[24:30]
    where = f"{feed}/observations"
    assert problem(http.post(where, json={"rows": [*rows, {**rows[0], "y": "high"}]})) == (422, "y", 6)
    assert problem(http.post(where, json={"rows": [rows[0], rows[1] | {"z": 1}]})) == (422, "z", 1)
    assert problem(http.post(where, json={"rows": [rows[0], rows[1] | {"y": True}]})) == (422, "y", 1)
    assert http.post(where, json={"rows": [rows[0] | {"y": [1]}]}).status_code == 422
    assert problem(http.post(where, json={"rows": [rows[0] | {"y": {}}]})) == (422, "y", 0)
    assert problem(http.post(where, json={"rows": [rows[0], {"y": 1.0}]}))[0] == 422
    assert problem(http.post(where, json={"rows": []}))[0] == 422
    assert http.post(where, json=[1]).status_code == 422
    huge = json.dumps({"rows": [rows[0] | {"y": 0.5}]}).replace("0.5", "1e999")
    assert problem(http.post(where, content=huge, headers={"content-type": "application/json"})) == (422, "y", 0)
    typed = {"content-type": "application/json"}
    for body, place in (
        (b'{"rows": [{"time": "2024-01-02T00:00", "y": 1.0}, {"y": 2, "time": "2024-01-02T01:00", "y": 3}]}', ("y", 1)),
        (b'{"rows": [{}]}', ("rows", 0)),
        (b'{"rows": [{"time": "9024-01-02T00:00", "y": 1.0}]}', ("time", 0)),
    ):
        assert problem(http.post(where, content=body, headers=typed)) == (422, *place)
    twice = b'{"rows": null, "settings": {"window": 40, "window": 50}}'
    assert problem(http.post(f"{feed}/backtest", content=twice, headers=typed))[:2] == (422, "window")
    csv = {"content-type": "text/csv"}
    assert problem(http.post(where, content=b"time,y,y\n2024-01-02T00:00,1,2\n", headers=csv))[:2] == (422, "y")
    assert problem(http.post(where, content=b"time,y\n2024-01-02T00:00,1_0\n", headers=csv)) == (422, "y", 0)
    assert http.post(where, content=b"", headers=csv).status_code == 400
    assert http.post(where, content=b"time,y\n2030-01-01T00:00,1,2\n", headers=csv).status_code == 422
    assert http.post(where, content=b"\xff\xfe", headers=csv).status_code == 400
    assert http.post(where, content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert http.post("/feeds", json={"id": "load", **FEED}).status_code == 409
    assert problem(http.post("/feeds", json={"target": "y", "window": 10**5}))[:2] == (422, "window")
    assert problem(http.post("/feeds", json={"target": "y", "every": "often"}))[:2] == (422, "every")
    for field, value in (("steps", 0), ("C", -1), ("gamma", "big"), ("lags", [0]), ("every", [])):
        assert problem(http.post("/feeds", json={"target": "y", field: value}))[:2] == (422, field)
    assert http.get("/feeds/nobody").status_code == 404
    assert http.get(feed).json()["position"] == before["position"]
    assert stream.send()["position"] == 36


def test_a_request_has_one_effect(http: httpx.Client, feed: str) -> None:
    stream = Stream(http)
    stream.send(2)
    key = {"idempotency-key": "one"}
    body = {"rows": rows_of(series(40))[24:36]}
    first = http.post(f"{feed}/observations", json=body, headers=key)
    again = http.post(f"{feed}/observations", json=body, headers=key)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    body["rows"][0]["y"] += 1
    assert http.post(f"{feed}/observations", json=body, headers=key).status_code == 409
    assert http.get(feed).json()["position"] == 36


def events(http: httpx.Client, feed: str, count: int, **headers: str) -> list[tuple[int | None, str, Any]]:
    """So many events of a feed's stream."""
    found: list[tuple[int | None, str, Any]] = []
    with http.stream("GET", f"{feed}/events", headers=headers) as answer:
        number, name = None, ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                number = int(value)
            elif field == "event":
                name = value
            elif field == "data":
                found.append((number, name, json.loads(value)))
                number = None
                if len(found) == count:
                    return found
    return found


def test_events_go_on_where_they_were_left(http: httpx.Client, feed: str) -> None:
    stream = Stream(http)
    answers = [stream.send() for _ in range(7)]
    newest = events(http, feed, 1)
    assert [name for _, name, _ in newest] == ["readings"]
    assert newest[0][2]["forecasts"] == answers[-1]["forecasts"]
    back = events(http, feed, 6, **{"last-event-id": "2"})
    assert [number for number, _, _ in back] == [3, 4, 5, 6, 7, 8]
    assert [name for _, name, _ in back] == ["readings"] * 2 + ["live"] + ["readings"] * 3


def ended(http: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """Return a job once it has ended."""
    assert answer.status_code == 202, answer.text
    where = answer.headers["location"]
    until(lambda: http.get(where).json()["state"] not in ("queued", "running"))
    found: dict[str, Any] = http.get(where).json()
    assert found["state"] == "done", found
    return found


def test_a_backtest_touches_nothing_live_and_a_tuning_is_taken_over(http: httpx.Client, feed: str) -> None:
    assert http.post(f"{feed}/tune").status_code == 409
    stream = Stream(http)
    stream.send(12)
    before = http.get(feed).json()
    own = ended(http, http.post(f"{feed}/backtest", json={"settings": {"window": 45}}))["result"]
    assert (own["own"], own["settings"]["window"]) == (True, 40)
    job = ended(http, http.post(f"{feed}/backtest", json={"rows": rows_of(series(144))}))
    assert job["result"]["scores"][0]["mae"] == pytest.approx(before["scores"][0]["mae"], rel=0.2)
    assert http.get(f"/jobs/{job['id']}/plot.svg").content.startswith(b"<?xml")
    tuned = ended(http, http.post(f"{feed}/tune"))
    assert http.get(feed).json() == before
    found = http.post(f"/jobs/{tuned['id']}/apply", json={})
    assert found.status_code == 200, found.text
    assert [event["kind"] for event in found.json()["events"]] == ["chosen"]
    chosen = http.get(feed).json()["settings"]["chosen"]["steps"]
    names = ("step", "represent", "gamma", "C")
    assert [[step[n] for n in names] for step in chosen] == [[s[n] for n in names] for s in tuned["result"]["steps"]]
    assert http.get(f"{feed}/certificate").json()["relative_gap"] <= GAP
    assert stream.send()["position"] == 156
    wrong = http.post(f"{feed}/backtest", json={"settings": {"steps": 10**3}})
    assert problem(wrong)[:2] == (422, "steps")


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {}
    server: RedisServer = request.getfixturevalue("redis_server")
    return {"redis_url": server.url, "lease_seconds": 1, "redis_prefix": os.urandom(4).hex()}


@pytest.mark.alone(reason="it is killed at crash points of the process that has the feed")
@pytest.mark.parametrize(
    "point",
    [
        "after-log:8",
        "before-publish:10",
        pytest.param("before-answer:9", marks=pytest.mark.slow),
        pytest.param("before-log:11", marks=pytest.mark.slow),
    ],
)
def test_a_kill_loses_nothing_and_doubles_nothing(
    tmp_path: Path, settings: dict[str, Any], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServiceProcess, "launch", keeping_crash_point(ServiceProcess.launch))
    monkeypatch.setenv("LIVESVM_CRASH_AT", point)
    with ServiceProcess(tmp_path, snapshot_updates=4, **settings) as service:
        reported: list[dict[str, Any]] = []
        with service.http() as http:
            http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
            stream = Stream(http)
            with pytest.raises(httpx.TransportError):
                reported.extend(iter(stream.send, None))
        service.wait()
        monkeypatch.delenv("LIVESVM_CRASH_AT")
        service.start()
        with service.http() as http:
            stream.http = http
            reported += [stream.send_again(), *(stream.send() for _ in range(3))]
            assert [one["position"] for one in reported] == [12 * n for n in range(1, stream.calls + 1)]
            assert http.get("/feeds/load/certificate").json()["relative_gap"] <= GAP
            http.post("/feeds", json={"id": "other", **FEED}).raise_for_status()
            other = Stream(http, "other")
            for one in reported:
                agree(one["forecasts"], other.send()["forecasts"])
            agree(made(http, "load"), made(http, "other"))


def keeping_crash_point(launch: Any) -> Any:
    """Take settings of services out of the environment; the crash point stays in it."""

    def launched(self: ServiceProcess) -> None:
        if "LIVESVM_CRASH_AT" in os.environ:
            self.settings["crash_at"] = os.environ["LIVESVM_CRASH_AT"]
        else:
            self.settings.pop("crash_at", None)
        launch(self)

    return launched


def made(http: httpx.Client, feed: str) -> list[dict[str, Any]]:
    rows = http.get(f"/feeds/{feed}/history?limit=60").json()["rows"]
    return [one for row in rows for one in row["forecasts"]]


def agree(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if name == "experts":  # which are rounded
                for mine, theirs in zip(value, other[name], strict=True):
                    assert mine == {
                        "expert": theirs["expert"],
                        "value": pytest.approx(theirs["value"], rel=1e-3),
                        "weight": pytest.approx(theirs["weight"], abs=0.005),
                    }
                continue
            assert value == (
                pytest.approx(other[name], rel=CLOSE, abs=CLOSE) if isinstance(value, float) else other[name]
            ), name


@pytest.mark.alone(reason="a front end that stops leaves the feed where it is: nothing is recovered")
def test_a_feed_is_the_same_after_a_stop(tmp_path: Path, settings: dict[str, Any]) -> None:
    with ServiceProcess(tmp_path, **settings) as service:
        with service.http() as http:
            http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
            Stream(http).send(8)
            before = http.get("/feeds/load").json()
            said, row = http.get("/feeds/load/forecast").json(), made(http, "load")
            numbered = events(http, "/feeds/load", 1)[0][0]
        assert service.stop() == 0
        service.start()
        with service.http() as http:
            after = http.get("/feeds/load").json()
            assert after["recovery"]["replayed"] == 0
            assert after["recovery"]["snapshot_version"] == before["version"]
            for name in ("version", "position", "time", "every", "season", "settings", "scores", "recent", "events"):
                assert after[name] == before[name], name
            assert http.get("/feeds/load/forecast").json() == said
            assert made(http, "load") == row
            assert events(http, "/feeds/load", 1)[0][0] == numbered
            http.delete("/feeds/load").raise_for_status()
            assert http.get("/feeds/load").status_code == 404
        service.stop()
        service.start()
        with service.http() as http:
            assert http.get("/feeds").json()["feeds"] == []


@pytest.mark.alone(reason="an actor keeps the settings that it was started by")
def test_a_call_that_takes_too_long_leaves_the_feed_as_it_was(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, solve_seconds=0.01) as service:
        with service.http() as http:
            http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
            stream = Stream(http)
            stream.send(4)
            body = {"rows": stream.rows[48:60]}
            for _ in range(2):
                refused = http.post("/feeds/load/observations", json=body, headers={"idempotency-key": "call-5"})
                assert (refused.status_code, refused.json()["type"]) == (422, "urn:livesvm:problem:time-limit")
                found = http.get("/feeds/load").json()
                assert (found["position"], found["state"], found["version"]) == (48, "filling", 4)
        service.stop()
        service.settings["solve_seconds"] = 30
        service.start()
        with service.http() as stream.http:
            assert (stream.send()["position"], stream.send_again()["state"]) == (60, "live")


def test_a_standby_takes_a_feed_over(tmp_path: Path, redis_server: RedisServer) -> None:
    settings: dict[str, Any] = {
        "redis_url": redis_server.url,
        "lease_seconds": 1,
        "redis_prefix": os.urandom(4).hex(),
    }
    with ServiceProcess(tmp_path / "one", **settings) as one:
        with one.http() as http:
            http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
            stream = Stream(http)
            stream.send(7)
        standby = ServiceProcess(tmp_path / "two", **settings)
        with standby, standby.http() as http:
            assert http.get("/feeds/load").json()["state"] == "held"
            one.kill()
            until(lambda: http.get("/feeds/load").json()["state"] == "live")
            stream.http = http
            assert stream.send()["position"] == 96
            assert http.get("/feeds/load/certificate").json()["relative_gap"] <= GAP


def test_known_columns_are_announced_and_asked_what_if(http: httpx.Client) -> None:
    http.post("/feeds", json={"id": "warm", **FEED, "known": ["w"]}).raise_for_status()
    readings = [{**row, "w": float(np.cos(i))} for i, row in enumerate(rows_of(series(90)))]
    to_come = [{**row, "y": None} for row in readings[75:78]]
    answer = http.post("/feeds/warm/observations", json={"rows": [*readings[:75], *to_come]}).json()
    assert (answer["accepted"], answer["announced"], answer["position"]) == (75, 3, 75)
    assert [one["known"] for one in answer["forecasts"]] == ["announced", "announced"]
    before = http.get("/feeds/warm/forecast").json()
    cold = {"rows": [{"time": row["time"], "w": -9.0} for row in to_come]}
    if_so = http.post("/feeds/warm/forecast", json=cold).json()
    assert http.get("/feeds/warm/forecast").json() == before
    assert if_so["time"] == before["time"]
    assert [one["value"] for one in if_so["forecasts"]] != [one["value"] for one in before["forecasts"]]
    lines = ["time,y,w", *(f"{row['time']},,-9.0" for row in to_come)]
    for _ in range(2):  # under one name it has one effect
        headers = {"content-type": "text/csv", "idempotency-key": "cold"}
        reported = http.post("/feeds/warm/announce", content="\n".join(lines), headers=headers).json()
        assert (reported["announced"], reported["accepted"], reported["time"]) == (3, 0, before["time"])
        assert if_so["forecasts"] == http.get("/feeds/warm/forecast").json()["forecasts"]
        assert reported["forecasts"] == without_experts(if_so["forecasts"])
    assert problem(http.post("/feeds/warm/announce", json={"rows": readings[75:76]}))[:2] == (422, "y")
    assert problem(http.post("/feeds/warm/forecast", json={"rows": readings[75:76]}))[:2] == (422, "y")
    late = {"rows": [{"time": readings[70]["time"], "w": 0.0}]}
    assert http.post("/feeds/warm/announce", json=late).status_code == 422
    assert http.post("/feeds/warm/observations", json={"rows": readings[75:]}).json()["accepted"] == 15  # none is lost
    found = http.get("/feeds/warm").json()
    assert {one["assumes"] for one in found["scores"]} == {"announced"}  # and not as it came
    assert found["settings"]["chosen"]["known_ahead"] == 3
    http.delete("/feeds/warm").raise_for_status()
    http.post("/feeds", json={"id": "bare", **FEED}).raise_for_status()
    assert problem(http.post("/feeds/bare/announce", json=cold))[:2] == (422, "known")
    http.delete("/feeds/bare").raise_for_status()


def body_of(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return rows as a request has them."""
    if kind == "json":
        return {"json": {"rows": rows}}
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(str(cell) for cell in row.values()) for row in rows)]
        return {"content": "\n".join(lines), "headers": {"content-type": "text/csv"}}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.array([row[name] for row in rows]) for name in rows[0]})
    return {"content": file.getvalue(), "headers": {"content-type": "application/x-npz"}}


@pytest.mark.parametrize("late", ["refuse", "correct"])
@pytest.mark.parametrize("kind", ["feeds", "fleets"])
def test_readings_of_the_hour_that_comes_twice_may_be_sent_again(http: httpx.Client, kind: str, late: str) -> None:
    named = {"series": "a"} if kind == "fleets" else {}
    times = [f"2025-10-26T0{hour}:00" for hour in (0, 1, 2, 2)]
    rows = [{**named, "time": time, "y": float(i)} for i, time in enumerate(times)]
    spec = {"id": "local", "target": "y", "timezone": "Europe/Berlin", "every": "1h", "late": late}
    http.post(f"/{kind}", json=spec).raise_for_status()
    path, feed = f"/{kind}/local/observations", "/feeds/local/a" if named else "/feeds/local"
    for row in rows:
        assert http.post(path, json={"rows": [row]}).json()["accepted"] == 1
    before = http.get(f"{feed}/history").json()["rows"]
    assert [row["value"] for row in before] == [0.0, 1.0, 2.0, 3.0]
    for media in ("json", "csv", "npz"):
        for again in (rows, rows[3:], rows[2:3], rows[:3], rows[:1:-1], [rows[3], rows[3], rows[1]]):
            answer = http.post(path, **body_of(again, media))
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert (found["accepted"], found["corrected"], found["ignored"]) == (0, 0, len(again)), (media, again)
    assert http.get(f"{feed}/history").json()["rows"] == before
    if kind == "feeds":
        answer = http.post("/feeds/local/erase", json={"times": [times[2]]})
        assert (answer.status_code, answer.json()["field"]) == (422, "times")
        assert "comes twice" in answer.json()["reason"]
    http.delete(f"/{kind}/local")


def test_a_stamp_far_ahead_is_refused_and_erasing_one_gives_the_clock_back(http: httpx.Client) -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rows = [{"time": (now + timedelta(hours=hour)).isoformat(), "y": float(hour % 5)} for hour in range(-70, 3)]
    stray = {"time": (now + timedelta(days=120)).isoformat(), "y": 1.0}
    for ahead in ("refuse", "accept"):
        http.post("/feeds", json={"id": "clock", **FEED, "ahead": ahead}).raise_for_status()
        path = "/feeds/clock/observations"
        http.post(path, json={"rows": rows[:70]}).raise_for_status()
        answer = http.post(path, json={"rows": [rows[70], stray]})
        if ahead == "refuse":
            assert problem(answer) == (422, "time", 1)
            assert "ahead of the service's clock" in answer.json()["reason"]
            assert problem(http.post(path, json={"rows": [stray]})) == (422, "time", 0)
        else:
            assert answer.json()["accepted"] == 2
            assert problem(http.post(path, json={"rows": [rows[71]]})) == (422, "time", 0)
            http.post("/feeds/clock/erase", json={"times": [stray["time"]]}).raise_for_status()
            assert http.get("/feeds/clock/forecast").status_code == 200
        assert http.post(path, json={"rows": rows[70:]}).json()["forecasts"][0]["step"] == 1
        assert http.get("/feeds/clock").json()["time"] == rows[-1]["time"]
        http.delete("/feeds/clock")


@pytest.mark.parametrize(
    ("column", "every"),
    [
        ([2024010100 + i for i in range(10)], "1h"), ([202401010000 + i for i in range(10)], "1min"),
        ([20240101 + i for i in range(10)], "1d"), ([20240101000000 + i for i in range(10)], "1s"),
        ([1704067200 + 60 * i for i in range(10)], "1min"), ([1704067200000 + 60000 * i for i in range(10)], "1min"),
        ([202401 + i for i in range(10)], "1mo"), ([1990 + i for i in range(10)], "1y"),
        ([1871 + i for i in range(10)], "1y"),
    ],
)  # fmt: skip
def test_times_in_digits(http: httpx.Client, column: list[int], every: str) -> None:
    for media in ("json", "csv", "npz"):
        for values in (column, [str(value) for value in column]):
            http.post("/feeds", json={"id": "digits", "target": "y"}).raise_for_status()
            rows = [{"time": value, "y": 1.0} for value in values]
            http.post("/feeds/digits/observations", **body_of(rows, media)).raise_for_status()
            found = http.get("/feeds/digits").json()
            assert found["every"] == every
            assert found["time"][:4] in ("2024", "1999", "1880")
            http.delete("/feeds/digits")


def test_an_irregular_sensor_has_a_reading_an_hour(http: httpx.Client) -> None:
    spec = {"id": "irregular", "target": "y", "every": "1h", "align": "mean", "window": 40, "steps": 1}
    http.post("/feeds", json=spec).raise_for_status()
    begin, rng = datetime(2024, 1, 1), np.random.default_rng(0)
    minutes = np.cumsum(rng.integers(5, 50, 150))
    rows: list[dict[str, Any]] = [
        {"time": f"{begin + timedelta(minutes=int(at)):%Y-%m-%dT%H:%M}", "y": float(y)}
        for at, y in zip(minutes, rng.normal(size=150).round(3), strict=True)
    ]
    for piece in (rows[:50], rows[30:100], rows[90:]):  # some are sent again
        http.post("/feeds/irregular/observations", json={"rows": piece}).raise_for_status()
    hours = [time[:13] for time in (row["time"] for row in rows)]
    means = {hour: np.mean([row["y"] for row, h in zip(rows, hours, strict=True) if h == hour]) for hour in hours}
    told = http.get("/feeds/irregular/history").json()["rows"]
    found = {row["time"][:13]: row["value"] for row in told if not row["held"]}
    assert found == {hour: pytest.approx(means[hour]) for hour in [*means][-41:-1] if hour in found}
    assert len(found) > 30
    for row in (rows[-20], rows[-1]):  # the last hour is not over
        receipt = http.post("/feeds/irregular/erase", json={"times": [row["time"]]})
        assert (receipt.status_code, receipt.json().get("missing", [])) == (200, [])
    told = http.get("/feeds/irregular/history").json()["rows"]
    assert hours[-20] not in {row["time"][:13] for row in told if not row["held"]}
    assert http.get("/feeds/irregular/certificate").json()["relative_gap"] <= GAP
    http.delete("/feeds/irregular").raise_for_status()
