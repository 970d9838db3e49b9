"""Readings are erased by their times: from a feed's models, its record, and every byte that is stored of it."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.crash import ERASE_POINTS
from livesvm.service.receipts.receipt import names, verified
from tests.service.process import ServiceProcess
from tests.support.erasing import Kept, keeping
from tests.support.feeds import FEED, Stream
from tests.support.jobs_over_rest import awaited

SPEC = {"id": "load", **FEED, "C": 1.0, "gamma": 0.05, "represent": "level"}
GONE = [10, 60, 84, 85]
"""Of 96 readings; the first has left the window of 60."""


def places(everything: dict[str, bytes], values: list[float]) -> list[str]:
    """Return where a reading's value stands, as float64 or as text."""
    traces = [part for value in values for part in (struct.pack("<d", value), repr(value).encode())]
    return [f"{trace!r} in {name}" for trace in traces for name, data in everything.items() if trace in data]


def lived(http: httpx.Client, components: int | None = None) -> Stream:
    """Return a feed with a history: calls with names, snapshots, a backtest."""
    http.post("/feeds", json={**SPEC, "components": components}).raise_for_status()
    stream = Stream(http)
    stream.send(8)
    awaited(http, http.post("/feeds/load/backtest", json={}).json()["id"])
    return stream


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    with keeping(request.param, tmp_path, snapshot_updates=3) as found:
        yield found


@pytest.mark.parametrize("components", [None, 12])
@pytest.mark.alone(reason="looks into the files of the one process; tests/service/test_ray.py does over Ray")
def test_nothing_of_a_reading_remains(kept: Kept, components: int | None) -> None:
    process, everything = kept
    with process as service, service.http() as http:
        stream = lived(http, components)
        values = stream.values[GONE].tolist()
        assert places(everything(), values[:1])
        assert places(everything(), values[1:])
        before = http.get("/feeds/load").json()
        asked = {"times": [*(stream.rows[slot]["time"] for slot in GONE), "2100-01-01T00:00"]}
        answer = http.post("/feeds/load/erase", json=asked, headers={"idempotency-key": "once"})
        assert answer.status_code == 200, answer.text
        reported = answer.json()
        assert places(everything(), values) == []
        assert (reported["removed"], reported["version"]) == (3, before["version"] + 1)
        assert reported["receipt"]["certificate"]["relative_gap"] <= 1e-8
        assert (reported["receipt"]["kind"], reported["receipt"]["model"]) == ("feed", "load")
        assert names(reported["receipt"], stream.rows[60]["time"])
        seen = {row["time"]: row for row in http.get("/feeds/load/history").json()["rows"]}
        assert [seen[stream.rows[slot]["time"]]["value"] for slot in GONE[1:]] == [None] * 3
        assert len(seen) == 60
        again = http.post("/feeds/load/observations", json={"rows": stream.rows[84:96]}, headers=named(8))
        assert (again.status_code, again.json()["type"]) == (409, "urn:livesvm:problem:request-erased")
        assert http.get("/jobs").json()["jobs"] == []
        assert reported["not_found"] == ["2100-01-01T00:00"]
        once_more = http.post("/feeds/load/erase", json=asked, headers={"idempotency-key": "once"})
        assert (once_more.json(), once_more.headers["idempotent-replayed"]) == (reported, "true")
        kept = http.get("/receipts").json()
        afresh = http.post("/feeds/load/erase", json={"times": [stream.rows[60]["time"], "2100-01-01T00:00"]})
        assert (afresh.status_code, afresh.json()["field"]) == (422, "times")  # a missing one, and one that never was
        assert (http.get("/feeds/load").json()["version"], http.get("/receipts").json()) == (reported["version"], kept)
        forecasts = http.get("/feeds/load/forecast").json()["forecasts"]
        service.kill()
    with process as service, service.http() as http:
        assert http.get("/feeds/load").json()["version"] == reported["version"]
        for mine, other in zip(http.get("/feeds/load/forecast").json()["forecasts"], forecasts, strict=True):
            assert mine["value"] == pytest.approx(other["value"], abs=1e-7)
        stream.http = http
        assert stream.send()["accepted"] == 12
        assert http.get("/feeds/load/certificate").json()["relative_gap"] <= 1e-8
        assert places(everything(), values) == []


def named(call: int) -> dict[str, str]:
    """Return the header of a call's name."""
    return {"idempotency-key": f"call-{call}"}


def points() -> Iterator[Any]:
    """Yield every point, alternately on one of the stores; all on both in the long form."""
    for number, point in enumerate(ERASE_POINTS):
        for other, store in enumerate(("sqlite", "redis")):
            marks = [pytest.mark.slow] if (number // 2 + other) % 2 or number % 2 else []
            yield pytest.param(point, store, marks=marks, id=f"{point}-{store}")


@pytest.mark.alone(reason="it is killed at crash points of the process that has the feed")
@pytest.mark.parametrize(("point", "store"), list(points()))
def test_killed_in_the_middle(point: str, store: str, tmp_path: Path) -> None:
    with keeping(store, tmp_path, snapshot_updates=3, crash_at=point) as (process, everything):
        with process as service, service.http() as http:
            stream = lived(http)
            begin, end = stream.rows[80]["time"], stream.rows[84]["time"]
            with pytest.raises(httpx.TransportError):
                http.post("/feeds/load/erase", json={"from": begin, "to": end})
            assert service.wait() == -9
        process.settings["crash_at"] = ""
        with process as service, service.http() as http:
            assert wait_for_receipts(http)[0]["keys"]["in_window"] == 5
            assert places(everything(), stream.values[80:85].tolist()) == []
            assert http.get("/feeds/load").json()["version"] == 9
            verified(http.get("/receipts").content[len(b'{"receipts":[') : -len(b"]}")])
            stream.http = http
            stream.send(2)
            service.kill()
        with process as service, service.http() as http:
            assert http.get("/feeds/load").json()["position"] == 120
            assert places(everything(), stream.values[80:85].tolist()) == []


def wait_for_receipts(http: httpx.Client) -> list[dict[str, Any]]:
    """Return the receipts; a feed may come back a little after the service."""
    while not (found := http.get("/receipts").json()["receipts"]):
        time.sleep(0.1)
    assert len(found) == 1
    return list(found)


def test_what_cannot_be_erased_of_a_feed(http: httpx.Client) -> None:
    assert http.post("/feeds/nobody/erase", json={"times": ["2024-01-01"]}).status_code == 404
    spec = SPEC | {"id": "erase-refusals"}
    http.post("/feeds", json=spec).raise_for_status()
    bodies: list[dict[str, Any]] = [{}, {"times": []}, {"times": ["soon"]}, {"times": [None]}, {"keys": ["a"]}]
    for body in [*bodies, {"from": "2024-01-01", "more": 1}, {"times": ["2024-01-01"]}]:  # it has no reading yet
        assert http.post("/feeds/erase-refusals/erase", json=body).status_code == 422, body
    http.delete("/feeds/erase-refusals").raise_for_status()


def test_readings_without_times_while_the_window_fills(service: ServiceProcess) -> None:
    with Client(service.url) as client:
        client.create_feed("erase-order", target="y", time=None, window=40)
        client.observe("erase-order", [{"y": float(value)} for value in np.arange(10.0)])
        reported = client.erase_readings("erase-order", [3.0, 4.0])
        assert (reported["removed"], reported["receipt"]["certificate"]) == (2, None)
        assert [row["value"] for row in client.history("erase-order")][2:6] == [2.0, None, None, 5.0]
        client.erase_readings("erase-order", end=9)
        assert [row["value"] for row in client.history("erase-order")] == [None] * 10
        client.delete_feed("erase-order")


def test_a_deleted_feed_leaves_nothing_behind(tmp_path: Path) -> None:
    with keeping("sqlite", tmp_path) as (process, everything), process as service, service.http() as http:
        stream = lived(http)
        http.delete("/feeds/load").raise_for_status()
        assert places(everything(), stream.values[:96].tolist()) == []
