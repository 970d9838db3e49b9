"""Erasing on a disk that takes nothing, or that has no space for the database to be written again.

A limit on the size of files stands in for the full disk; see :mod:`tests.faults.test_disks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.faults.test_disks import let_write
from tests.service.process import ServiceProcess
from tests.support.erasing import KEYS, SPEC, bytes_of_directory, data, places
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="fills the disk beside the one file of the store")

ROOM = 2**20
"""Bytes that a file may have: more than the log of an erasure takes, less than the database."""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A small model, next to one of several megabytes."""
    X, y = data()
    with ServiceProcess(tmp_path, max_body_bytes=2**24) as service, service.http() as http:
        http.post("/models", json={"id": "large", "task": "oneclass", "nu": 0.01}).raise_for_status()
        rows = np.random.default_rng(0).normal(size=(300, 1000)).tolist()
        http.post("/models/large/update", json={"add": {"X": rows}}).raise_for_status()
        http.post("/models", json=SPEC).raise_for_status()
        http.post("/models/m/update", json={"add": {"X": X, "y": y, "keys": KEYS}}).raise_for_status()
        assert service.stop() == 0
    assert (tmp_path / "livesvm.sqlite3").stat().st_size > 2 * ROOM
    return tmp_path


def erase(http: httpx.Client) -> httpx.Response:
    return http.post("/models/m/erase", json={"keys": KEYS[:2]})


def receipts(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/receipts").json()["receipts"]
    return found


def metric(http: httpx.Client, name: str) -> str:
    return next(line for line in http.get("/metrics").text.splitlines() if line.startswith(name)).split()[-1]


def test_without_space_to_write_again_there_is_no_receipt_until_there_is(stored: Path) -> None:
    X, _ = data()
    with ServiceProcess(stored, lease_seconds=1) as service, service.http() as http:
        let_write(service, ROOM)
        refused = erase(http)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
        assert receipts(http) == []
        assert (metric(http, "livesvm_erasures_unfinished"), metric(http, 'livesvm_erasures_total{outcome="un')) == (
            "1.0",
            "1.0",
        )
        assert http.get("/models/m").json()["n_examples"] == len(KEYS) - 2  # it has begun, and is to be ended
        assert http.post("/models/m/predict", json={"X": X[:1]}).status_code == 200
        let_write(service)
        until(lambda: len(receipts(http)) == 1)
        assert metric(http, "livesvm_erasures_unfinished") == "0.0"
        assert receipts(http)[0]["places"]["database"] == "written anew"
        for indices, x in zip(KEYS[:2], X[:2], strict=True):
            assert places(bytes_of_directory(stored), indices, x) == set()


def test_a_retry_ends_what_was_begun_and_has_its_receipt(stored: Path) -> None:
    with ServiceProcess(stored, lease_seconds=60) as service, service.http() as http:  # nothing else ends it soon
        let_write(service, ROOM)
        name = {"idempotency-key": "officer"}
        assert http.post("/models/m/erase", json={"keys": KEYS[:2]}, headers=name).status_code == 503
        let_write(service)
        other = http.post("/models/m/erase", json={"keys": KEYS[:1]}, headers=name)
        assert (other.status_code, other.json()["type"]) == (409, "urn:livesvm:problem:idempotency-conflict")
        assert receipts(http) == []
        retried = http.post("/models/m/erase", json={"keys": KEYS[:2]}, headers=name).raise_for_status()
        assert (retried.json()["removed"], retried.headers["idempotent-replayed"]) == (2, "true")
        assert receipts(http) == [retried.json()["receipt"]]
        assert metric(http, "livesvm_erasures_unfinished") == "0.0"


def test_on_a_disk_that_takes_nothing_nothing_is_changed(stored: Path) -> None:
    with ServiceProcess(stored, lease_seconds=1) as service, service.http() as http:
        let_write(service, 0)
        refused = erase(http)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
        assert http.get("/models/m").json()["n_examples"] == len(KEYS)
        assert receipts(http) == []
        service.kill()
    with ServiceProcess(stored) as service, service.http() as http:
        assert http.get("/models/m").json()["n_examples"] == len(KEYS)
        assert receipts(http) == []
        assert erase(http).json()["removed"] == 2
