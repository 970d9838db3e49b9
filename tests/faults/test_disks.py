"""Disks that take nothing, before the start and during it: told within seconds, and what can be read is served.

A limit on the size of files stands in for the full disk: it needs no rights, and is lifted while the service runs.
``tests/operations/test_watched.py`` does the same with real ones.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from livesvm.service.cli.main import main
from tests.service.process import ServiceProcess
from tests.support.updates_under_faults import check_whole, learnt, send
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="damages, fills and moves the one file of the store")

"""Seconds in which it has to be noticed on a busy machine; on an idle one it takes less than five."""


def nothing_can_be_written() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def let_write(service: ServiceProcess, size: int = resource.RLIM_INFINITY) -> None:
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def readiness(http: httpx.Client) -> tuple[int, list[str]]:
    answer = http.get("/health/ready")
    return answer.status_code, answer.json().get("reasons", [])


AWAY = (503, ["the store is not available"])


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Three updates, and the service killed: all of them are in SQLite's own log."""
    with ServiceProcess(tmp_path) as service, service.http() as http:
        learnt(http, updates=3)
        service.kill()
    return tmp_path


def test_an_idle_service_notices_that_its_disk_is_full_and_that_it_is_not(stored: Path) -> None:
    with ServiceProcess(stored) as service, service.http() as http:
        assert service.said.startswith("LiveSVM is ready at http://")
        let_write(service, 0)
        until(lambda: readiness(http) == AWAY)
        text = http.get("/metrics").text
        assert "livesvm_store_up 0.0" in text
        assert "livesvm_ready 0.0" in text
        refused = [send(http, 3) for _ in range(3)]
        assert {(one.status_code, one.json()["type"]) for one in refused} == {
            (503, "urn:livesvm:problem:store-unavailable")
        }
        for _ in range(20):  # and it stays so, whatever is read meanwhile
            assert http.get("/models/m/versions").status_code == 200
            assert readiness(http) == AWAY
            time.sleep(0.05)
        let_write(service)
        until(lambda: readiness(http)[0] == 200)
        assert send(http, 3).json()["version"] == 4
        check_whole(http, [0, 1, 2, 3])
        service.stop()
        assert service.errors.count("the store is not available, and updates are refused") == 1
        assert service.errors.count("the store is available again") == 1


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_can_be_read_is_served_until_the_disk_takes_something(end: str, stored: Path) -> None:
    if end == "stop":
        with ServiceProcess(stored) as service:
            service.stop()
    with ServiceProcess(stored, prepare=nothing_can_be_written) as service, service.http() as http:
        assert "; not ready: the store is not available" in service.said
        until(lambda: readiness(http) == AWAY)  # on a busy machine, models may still be on their way
        check_whole(http, [0, 1, 2])
        assert http.post("/models/m/predict", json={"X": np.zeros((1, 3)).tolist()}).json()["stale"] is True
        for answer in (send(http, 3), http.post("/models", json={"id": "new", "C": 1.0}), http.delete("/models/m")):
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
        let_write(service)
        until(lambda: send(http, 3).status_code == 200)
        until(lambda: readiness(http)[0] == 200)
        check_whole(http, [0, 1, 2, 3])
        assert http.get("/models/m").json()["state"] == "live"
        assert service.stop() == 0
        assert "Traceback" not in service.errors
    with ServiceProcess(stored) as service, service.http() as http:
        check_whole(http, [0, 1, 2, 3])


def test_a_new_service_on_a_disk_that_takes_nothing_says_so_in_a_line(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, prepare=nothing_can_be_written)
    service.launch()
    assert service.wait() == 1
    assert service.errors.startswith("livesvm: the d")
    assert service.errors.count("\n") == 1


def refusal(directory: Path) -> str:
    service = ServiceProcess(directory)
    service.launch()
    assert service.wait() == 1
    assert service.errors.count("\n") == 1
    return service.errors


def test_what_is_left_of_a_database_is_not_taken_for_a_new_one(stored: Path) -> None:
    database = stored / "livesvm.sqlite3"
    whole = database.read_bytes()
    database.write_bytes(b"")
    assert "is empty, 0 bytes: restore a backup, or remove the file to start anew" in refusal(stored)
    database.unlink()
    assert "livesvm.sqlite3-wal is there, but not its database" in refusal(stored)
    database.write_bytes(whole)
    with ServiceProcess(stored) as service, service.http() as http:
        check_whole(http, [0, 1, 2])
        http.post("/models/m/assessment", json={"method": "leave-one-out"}).raise_for_status()
        assert service.stop() == 0
    database.unlink()
    assert "holds jobs, but" in refusal(stored)


def test_a_database_that_is_moved_away_takes_no_update_and_its_models_are_kept(stored: Path, tmp_path: Path) -> None:
    with ServiceProcess(stored) as service, service.http() as http:
        (stored / "livesvm.sqlite3").rename(stored / "moved")
        assert send(http, 3).json()["type"] == "urn:livesvm:problem:store-unavailable"
        until(lambda: readiness(http) == AWAY)
        check_whole(http, [0, 1, 2])
        assert service.stop() == 0
    assert main(["store", "put", str(stored / "unstored" / "m-3.model"), str(tmp_path / "new")]) == 0
    with ServiceProcess(tmp_path / "new") as service, service.http() as http:
        check_whole(http, [0, 1, 2])
