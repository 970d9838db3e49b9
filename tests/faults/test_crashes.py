"""kill -9 at named points: what was acknowledged is there, once; what was not is there once or not at all."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.crash import POINTS, SNAPSHOT_POINTS, SOLUTION_POINTS
from tests.service.process import ServiceProcess
from tests.support.updates_under_faults import MODEL, batch, check_whole, learnt, send

pytestmark = pytest.mark.alone(reason="crash points end an actor alone; the campaign of kills over Ray kills those")

NO_SOLUTIONS: dict[str, Any] = {"snapshot_updates": 3, "solution_seconds": 1e9}
"""A snapshot after every third update, and nothing else however long they take."""


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(point: str, tmp_path: Path) -> None:
    """The 8th update dies; snapshots were written at the 3rd and the 6th."""
    answered: dict[int, bytes] = {}
    with ServiceProcess(tmp_path, crash_at=f"{point}:8", **NO_SOLUTIONS) as service, service.http() as http:
        http.post("/models", json=MODEL).raise_for_status()
        for number in range(7):
            answered[number] = send(http, number).raise_for_status().content
        with pytest.raises(httpx.TransportError):
            send(http, 7)
        assert service.wait() == -9
    with ServiceProcess(tmp_path, **NO_SOLUTIONS) as service, service.http() as http:
        described = http.get("/models/m").json()
        survived = described["version"]
        assert survived == (7 if point == "before-log" else 8)
        assert described["recovery"]["snapshot_version"] == 6
        assert described["recovery"]["replayed"] == survived - 6
        check_whole(http, list(range(survived)))
        for number, answer in answered.items():
            assert send(http, number).content == answer
        retried = send(http, 7)
        assert (retried.status_code, retried.json()["version"]) == (200, 8)
        assert send(http, 7).content == retried.content
        check_whole(http, list(range(8)))


@pytest.mark.parametrize("point", SNAPSHOT_POINTS)
def test_killed_while_a_snapshot_is_written(point: str, tmp_path: Path) -> None:
    """The second snapshot dies, after the 6th update: the one before it and the log are enough."""
    with ServiceProcess(tmp_path, crash_at=f"{point}:2", **NO_SOLUTIONS) as service, service.http() as http:
        learnt(http, updates=5)
        with suppress(httpx.TransportError):  # the snapshot comes after the answer, which may still arrive
            send(http, 5)
        assert service.wait() == -9
    with ServiceProcess(tmp_path, **NO_SOLUTIONS) as service, service.http() as http:
        http.get("/models/m/certificate").raise_for_status()  # it wakes
        recovery = http.get("/models/m").json()["recovery"]
        kept = 6 if point == "after-snapshot" else 3
        assert recovery == {"snapshot_version": kept, "replayed": 6 - kept, "damaged_snapshots": 0, "set_aside": 0}
        assert send(http, 5).json()["version"] == 6
        check_whole(http, list(range(6)))


@pytest.mark.parametrize("point", SOLUTION_POINTS)
def test_killed_while_a_solution_is_written(point: str, tmp_path: Path) -> None:
    """The 5th update dies when it is solved; behind a snapshot of the third, what has a solution is taken from it."""
    always: dict[str, Any] = {"snapshot_updates": 3, "solution_seconds": 1e-9}
    with ServiceProcess(tmp_path, crash_at=f"{point}:5", **always) as service, service.http() as http:
        learnt(http, updates=4)
        with pytest.raises(httpx.TransportError):
            send(http, 4)
        assert service.wait() == -9
    with ServiceProcess(tmp_path, **always) as service, service.http() as http:
        http.get("/models/m/certificate").raise_for_status()  # it wakes
        recovery = http.get("/models/m").json()["recovery"]
        replayed = 1 if point == "before-solution" else 0
        assert recovery == {"snapshot_version": 3, "replayed": replayed, "damaged_snapshots": 0, "set_aside": 0}
        assert send(http, 4).json()["version"] == 5
        assert send(http, 5).json()["version"] == 6
        check_whole(http, list(range(6)))


def test_killed_again_and_again_during_a_stream_of_updates(tmp_path: Path) -> None:
    """Clients retry until they are answered; each update has one effect, in the order of the answers."""
    number = 0
    versions: list[int] = []
    rng = np.random.default_rng(5)
    service = ServiceProcess(tmp_path, snapshot_updates=5)
    for cycle in range(4):
        with service, service.http() as http:
            if cycle == 0:
                http.post("/models", json=MODEL).raise_for_status()
            killer = threading.Timer(float(rng.uniform(0.05, 0.3)), service.kill)
            killer.start()
            try:
                while True:
                    versions.append(send(http, number).raise_for_status().json()["version"])
                    number += 1
            except httpx.TransportError:
                killer.join()
    assert number > 8
    assert versions == list(range(1, number + 1))
    with service, service.http() as http:
        version = http.get("/models/m").json()["version"]
        assert version - number in (0, 1)
        check_whole(http, list(range(version)))


def test_an_answer_that_was_lost_is_given_again_after_a_crash(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        http.post("/models", json=MODEL).raise_for_status()
        answer = send(http, 0)
        service.kill()
    with ServiceProcess(tmp_path) as service, service.http() as http:
        again = send(http, 0)
        assert (again.content, again.headers["idempotent-replayed"]) == (answer.content, "true")
        other = http.post("/models/m/update", json=batch(1), headers={"Idempotency-Key": "update-0"})
        assert other.status_code == 409
        check_whole(http, [0])


@pytest.mark.parametrize("name", [None, "poison"])
@pytest.mark.parametrize("crash_at", ["after-log:4", ""])
def test_an_update_that_fails_unforeseen_costs_nothing_but_itself(
    name: str | None, crash_at: str, tmp_path: Path
) -> None:
    """The service dies before it finds out, or at once after it has said so."""
    headers = {} if name is None else {"idempotency-key": name}
    poison = {"add": {"X": [[666.0, 0.0, 0.0]], "y": [1], "keys": ["poison"]}}
    process = ServiceProcess(tmp_path, crash_at=crash_at, **NO_SOLUTIONS | {"snapshot_updates": 100})
    process.module = "tests.faults.failing_update"
    with process as service, service.http() as http:
        learnt(http, updates=3)
        if crash_at:
            with pytest.raises(httpx.TransportError):
                http.post("/models/m/update", json=poison, headers=headers)
            assert service.wait() == -9
        else:
            assert http.post("/models/m/update", json=poison, headers=headers).status_code == 500
            service.kill()
    process.settings["crash_at"] = ""
    with process as service, service.http() as http:
        assert http.get("/models/m").json()["state"] == "live"
        check_whole(http, [0, 1, 2])
        assert http.post("/models/m/update", json=poison, headers=headers).status_code == 500
        send(http, 3).raise_for_status()
        check_whole(http, [0, 1, 2, 3])
