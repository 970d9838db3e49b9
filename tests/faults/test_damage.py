"""Damage on disk, full disks, and another writer: noticed, told, never silently wrong."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.store.sqlite import SqliteStore
from tests.service.process import ServiceProcess, blobs
from tests.support.feeds import FEED

pytestmark = pytest.mark.alone(reason="damages the one file of the store")

FILE = "livesvm.sqlite3"


def update(http: httpx.Client, seed: int, n: int = 10, d: int = 3) -> httpx.Response:
    X, y = blobs(np.random.default_rng(seed), n, d)
    return http.post("/models/m/update", json={"add": {"X": X, "y": y}})


def damage(path: Path, table: str, sequence: int) -> None:
    """Flip one bit in the middle of a stored blob."""
    where = "model = 'm' AND sequence = ?"
    with closing(sqlite3.connect(path / FILE)) as db:
        data = bytearray(db.execute(f"SELECT data FROM {table} WHERE {where}", (sequence,)).fetchone()[0])
        data[len(data) // 2] ^= 1
        db.execute(f"UPDATE {table} SET data = ? WHERE {where}", (bytes(data), sequence))
        db.commit()


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Any]:
    """A killed service's data: snapshots of versions 2 and 4, five updates; and its last predictions."""
    with ServiceProcess(tmp_path, snapshot_updates=2, solution_seconds=1e9) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        http.post("/models", json={"id": "other", "C": 1.0}).raise_for_status()
        for seed in range(5):
            update(http, seed).raise_for_status()
        decision = predict(http)
        service.kill()
    return tmp_path, decision


def predict(http: httpx.Client) -> Any:
    X, _ = blobs(np.random.default_rng(100), 20)
    return http.post("/models/m/predict", json={"X": X}).json()["decision"]


def test_a_damaged_snapshot_is_skipped_and_reported(stored: tuple[Path, Any]) -> None:
    path, decision = stored
    damage(path, "snapshots", 4)
    with ServiceProcess(path) as service, service.http() as http:
        described = http.get("/models/m").json()
        assert described["recovery"] == {"snapshot_version": 2, "replayed": 3, "damaged_snapshots": 1, "set_aside": 0}
        assert described["version"] == 5
        np.testing.assert_allclose(predict(http), decision, rtol=0, atol=1e-9)
        assert 'livesvm_snapshots_total{outcome="damaged"} 1.0' in http.get("/metrics").text
        assert "snapshot 4 is damaged" in service.errors


@pytest.mark.parametrize("both", ["snapshots", "log"])
def test_what_cannot_be_restored_is_reported_and_the_rest_goes_on(both: str, stored: tuple[Path, Any]) -> None:
    path, _ = stored
    for sequence in (4, 2) if both == "snapshots" else (5,):
        damage(path, both, sequence)
    with ServiceProcess(path) as service, service.http() as http:
        assert http.get("/health/ready").status_code == 200
        described = http.get("/models/m").json()
        assert described["state"] == "failed"
        assert described["error"]
        answer = update(http, 9)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:model-unavailable")
        assert 'livesvm_models{state="failed"} 1.0' in http.get("/metrics").text
        assert http.get("/models/other").json()["state"] == "live"
        assert http.delete("/models/m").status_code == 204
        assert http.get("/models/m").status_code == 404


@pytest.mark.parametrize(
    ("damage", "reasons"),
    [
        ("UPDATE specs SET spec = substr(spec, 1, length(spec) - 1) || x'00' WHERE model = 'm'", {"m": "checksum"}),
        ("UPDATE models SET id = 'n' WHERE id = 'm'", {"n": "lost the specification", "m": "does not have it"}),
    ],
)
def test_a_model_that_is_not_known_any_more_keeps_no_other_from_being_served(
    damage: str, reasons: dict[str, str], stored: tuple[Path, Any]
) -> None:
    path, _ = stored
    with closing(sqlite3.connect(path / FILE, isolation_level=None)) as db:
        assert db.execute(damage).rowcount == 1
    with ServiceProcess(path) as service, service.http() as http:
        for name in reasons:
            assert http.post(f"/models/{name}/predict", json={"X": [[0.0]]}).status_code == 503
        models = {model["id"]: model for model in http.get("/models").json()["models"]}
        assert models.pop("other")["state"] == "live"
        assert set(models) == set(reasons)
        for name, reason in reasons.items():
            assert models[name]["state"] == "failed"
            assert reason in models[name]["error"]
            assert http.delete(f"/models/{name}").status_code == 204


def test_a_flipped_bit_in_the_write_ahead_log_loses_nothing_unseen(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, snapshot_updates=1000, solution_seconds=1e9) as service, service.http() as http:
        for model in ("m", "other"):
            http.post("/models", json={"id": model, "C": 1.0}).raise_for_status()
            for seed in range(30):
                X, y = blobs(np.random.default_rng(seed), 10, 3)
                http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
        http.post("/feeds", json={**FEED, "id": "f"}).raise_for_status()
        service.kill()
    wal = tmp_path / f"{FILE}-wal"
    data = bytearray(wal.read_bytes())
    data[len(data) // 4] ^= 1
    wal.write_bytes(data)
    with ServiceProcess(tmp_path) as service, service.http() as http:
        m, other = (http.get(f"/models/{model}").json() for model in ("m", "other"))
        feed = http.get("/feeds/f").json()
        assert (m["state"], other["state"], feed["state"]) == ("failed", "failed", "failed")
        assert "acknowledged up to record 30, and the database has it up to record" in m["error"]
        assert "acknowledged up to record 30, and the database does not have it" in other["error"]
        assert "the database does not have it" in feed["error"]
        answer = update(http, 9)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:model-unavailable")
        assert "does not match its checksum" in service.errors
        assert "are kept in" in service.errors
        assert http.delete("/models/other").status_code == 204
        assert http.delete("/feeds/f").status_code == 204
        service.kill()
    with ServiceProcess(tmp_path) as service, service.http() as http:
        assert [(found["id"], found["state"]) for found in http.get("/models").json()["models"]] == [("m", "failed")]
        assert http.get("/feeds").json()["feeds"] == []


def test_a_missing_record_is_noticed(stored: tuple[Path, Any]) -> None:
    path, _ = stored
    with closing(sqlite3.connect(path / FILE)) as db:
        db.execute("DELETE FROM log WHERE model = 'm' AND sequence = 5")
        db.commit()
    with ServiceProcess(path) as service, service.http() as http:
        assert "ends at record 4 of 5" in http.get("/models/m").json()["error"]


def test_a_writer_that_was_taken_over_stops_writing_and_goes_on_predicting(stored: tuple[Path, Any]) -> None:
    path, decision = stored
    with ServiceProcess(path) as service, service.http() as http:
        with closing(SqliteStore(path / FILE)) as thief:
            thief.acquire("m")
        for _ in range(2):
            answer = update(http, 9)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:fenced")
        np.testing.assert_allclose(predict(http), decision, rtol=0, atol=1e-12)
        assert http.get("/models/m").json()["version"] == 5
        assert service.stop() == 0


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))


def test_a_full_disk_refuses_updates_changes_nothing_and_passes(tmp_path: Path) -> None:
    """The limit on file sizes stands in for the full disk; it is lifted while the service runs."""
    with ServiceProcess(tmp_path, prepare=_small_files) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0, "window": {"max_examples": 100}}).raise_for_status()
        answers = [update(http, seed, 100, 10) for seed in range(60)]
        good = [answer.json()["version"] for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} == {200, 503}
        assert good == list(range(1, len(good) + 1))
        assert http.get("/models/m").json()["version"] == len(good)
        assert http.get("/models/m/certificate").json()["relative_gap"] <= 1e-8
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert update(http, 99, 100, 10).json()["version"] == len(good) + 1
        service.kill()
    with ServiceProcess(tmp_path) as service, service.http() as http:
        assert http.get("/models/m").json()["version"] == len(good) + 1
