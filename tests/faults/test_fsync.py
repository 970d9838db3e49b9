"""A disk whose fsync fails: nothing is said to be fsynced that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.process import ServiceProcess
from tests.support.updates_under_faults import MODEL, PROBE, check_whole, send
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="fails fsync in the one process")


def break_disk(directory: Path) -> None:
    """Return when every fsync of the service fails."""
    broken = directory / "broken"
    broken.touch()
    until(lambda: not broken.exists(), 10)


def test_an_update_whose_fsync_fails_is_refused_and_the_model_stays(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path, snapshot_updates=3)
    process.module = "tests.faults.failing_fsync"
    with process as service, service.http() as http:
        http.post("/models", json=MODEL).raise_for_status()
        for number in range(5):
            assert send(http, number).json()["durability"] == "fsynced"
        before = http.post("/models/m/predict", json={"X": PROBE}).json()
        break_disk(tmp_path)
        for number in (5, 5, 6):
            refused = send(http, number)
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
            assert int(refused.headers["retry-after"]) >= 1
        assert http.post("/models/m/predict", json={"X": PROBE}).json()["decision"] == before["decision"]
        check_whole(http, list(range(5)))
        service.kill()
    with ServiceProcess(tmp_path) as service, service.http() as http:  # on another disk
        assert http.get("/models/m").json()["version"] in (5, 6)  # what was refused last may have reached the disk
        for number in (5, 6):
            assert send(http, number).json()["version"] == number + 1
        check_whole(http, list(range(7)))
