"""Backups: made while a service runs, checked, and made a data directory of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.cli.main import main
from livesvm.service.lifecycle import backup
from livesvm.service.lifecycle.backup import back_up, restore
from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from tests.service.process import ServiceProcess, blobs

TABLE = b"key,a,b,y\n1,1,2,1\n2,3,4,-1\n3,5,6,1\n"
CSV = {"content-type": "text/csv"}


def _add(http: httpx.Client, seed: int) -> None:
    X, y = blobs(np.random.default_rng(seed), 10, 3)
    http.post("/models/m/update", json={"add": {"X": X, "y": y}}).raise_for_status()


def _told(http: httpx.Client) -> dict[str, Any]:
    """Return what a service tells of all that is backed up."""
    X, _ = blobs(np.random.default_rng(100), 20)
    job = http.get("/jobs").json()["jobs"][0]
    return {
        "decision": http.post("/models/m/predict", json={"X": X}).json()["decision"],
        "version": http.get("/models/m").json()["version"],
        "dataset": http.get("/datasets/t").json(),
        "job": job,
        "result": http.get(f"/jobs/{job['id']}").json()["result"],
        "receipt": http.get("/receipts").json(),
        "key": http.get("/receipts/key").json(),
    }


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[ServiceProcess, httpx.Client]]:
    with ServiceProcess(tmp_path / "data") as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        X, y = blobs(np.random.default_rng(7), 10, 3)
        http.post("/models/m/update", json={"add": {"X": X, "y": y, "keys": list(range(10))}}).raise_for_status()
        http.post("/models/m/erase", json={"keys": [3]}).raise_for_status()
        http.put("/datasets/t?key=key&target=y", content=TABLE, headers=CSV).raise_for_status()
        job = http.post("/models/m/regularization-path", json={}).json()
        while http.get(f"/jobs/{job['id']}").json()["state"] != "done":
            time.sleep(0.02)
        yield service, http


def test_a_backup_of_a_running_service_is_all_of_it(
    running: tuple[ServiceProcess, httpx.Client], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, http = running
    before = _told(http)
    at = ["--data-dir", str(tmp_path / "data")]
    assert main(["backup", str(tmp_path / "kept"), *at]) == 0
    assert "files are backed up in" in capsys.readouterr().out
    assert main(["backup", str(tmp_path / "kept"), *at]) == 1
    assert "is there already: name a new directory" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "kept"), *at]) == 1
    assert "is in use by process" in capsys.readouterr().err
    _add(http, 1)
    http.delete("/datasets/t").raise_for_status()
    service.kill()
    assert main(["restore", str(tmp_path / "kept"), *at]) == 1
    assert "already: move that away first" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "kept"), "--data-dir", str(tmp_path / "again")]) == 0
    made = [path for place in ("kept", "again") for path in [tmp_path / place, *(tmp_path / place).rglob("*")]]
    assert {path for path in made if path.stat().st_mode & 0o077} == set()
    assert tmp_path / "again" / "receipts.key" in made
    with ServiceProcess(tmp_path / "again") as restored, restored.http() as again:
        assert _told(again) == before
        _add(again, 1)


def test_a_backup_under_load_is_one_moment(running: tuple[ServiceProcess, httpx.Client], tmp_path: Path) -> None:
    service, http = running
    stop = threading.Event()

    def load() -> None:
        with service.http() as mine:
            for seed in range(1000):
                if stop.is_set():
                    return
                _add(mine, seed)
                mine.put("/datasets/t?key=key&target=y", content=TABLE, headers=CSV).raise_for_status()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for number in range(3):
            before = http.get("/models/m").json()["version"]
            back_up(tmp_path / "data", tmp_path / f"kept-{number}")
            after = http.get("/models/m").json()["version"]
            with closing(SqliteStore(tmp_path / f"kept-{number}" / DATABASE)) as store:
                head = store.heads(["m"])["m"].sequence
                assert before <= head <= after + 1
                begin = store.snapshots("m")[0].sequence
                assert [record.sequence for record in store.log("m", begin)] == list(range(begin + 1, head + 1))
            assert len(list((tmp_path / f"kept-{number}" / "datasets").iterdir())) == 1
    finally:
        stop.set()
        thread.join()


def test_what_is_damaged_is_neither_backed_up_nor_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVESVM_DATA_DIR", str(tmp_path / "data"))
    assert main(["backup", str(tmp_path / "kept")]) == 1
    reported = capsys.readouterr().err
    assert "there is no store in" in reported
    assert "set LIVESVM_REDIS_URL" in reported
    (tmp_path / "data").mkdir()
    with closing(SqliteStore(tmp_path / "data" / DATABASE)) as store:
        lease = store.create("m", b"spec")
        store.append(lease, 1, b"data", None, keep=1)
        store._database.marks.reached("m", 2)  # as if the database had lost a record
    with pytest.raises(StoreDamaged, match="has lost what it had acknowledged of m"):
        back_up(tmp_path / "data", tmp_path / "kept")
    assert not list(tmp_path.glob("kept*"))
    (tmp_path / "data" / f"{DATABASE}-mark").unlink()
    assert main(["backup", str(tmp_path / "kept")]) == 0
    database, more = tmp_path / "kept" / DATABASE, tmp_path / "kept" / "more"

    def refused() -> str:
        """Return what is said of a backup that is refused."""
        assert main(["restore", str(tmp_path / "kept"), "--data-dir", str(tmp_path / "again")]) == 1
        assert not (tmp_path / "again").exists()
        return capsys.readouterr().err

    key = tmp_path / "redis" / "receipts.key"
    key.parent.mkdir()
    key.write_bytes(b"key")
    (key.parent / "datasets" / "d-1").mkdir(parents=True)
    (key.parent / "datasets" / "d-1" / "X").touch()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("LIVESVM_REDIS_URL", "redis://127.0.0.1:1/0")
        assert main(["backup", str(tmp_path / "rest"), "--data-dir", str(key.parent)]) == 0
    assert "The models are in Redis, as LIVESVM_REDIS_URL says: back that up too." in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "rest").iterdir()} == {"backup.json", "datasets", "receipts.key"}
    assert main(["restore", str(tmp_path / "rest"), "--data-dir", str(tmp_path / "there")]) == 0
    assert (tmp_path / "there" / "datasets" / "d-1" / "X").exists()

    more.touch()
    assert "holds more, which its list does not name" in refused()
    more.unlink()
    database.write_bytes(b"another")
    assert "does not match its checksum" in refused()
    database.unlink()
    assert f"lacks {DATABASE}" in refused()
    (tmp_path / "kept" / "backup.json").unlink()
    assert "is no backup" in refused()


def _stored(data: Path) -> None:
    """Return a data directory with a model, the key of receipts and two jobs."""
    (data / "jobs").mkdir(parents=True)
    for file in ("receipts.key", "jobs/j1.job.json", "jobs/j1.npz", "jobs/j2.job.json", "jobs/j2.npz"):
        (data / file).write_bytes(file.encode())
    with closing(SqliteStore(data / DATABASE)) as store:
        store.create("m", b"spec")


def test_a_job_that_is_deleted_while_it_is_copied_is_not_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tmp_path / "data" / "jobs"
    _stored(tmp_path / "data")
    copy = backup._copy_file

    def copied(source: Path, to: Path) -> None:
        copy(source, to)
        if source.name == "j2.job.json":
            for path in jobs.glob("j1.*"):
                path.unlink()

    monkeypatch.setattr(backup, "_copy_file", copied)
    found = back_up(tmp_path / "data", tmp_path / "kept")
    assert [name for name in found["files"] if name.startswith("jobs")] == ["jobs/j2.job.json", "jobs/j2.npz"]


def test_of_a_restore_that_fails_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database comes last: without it no service starts on half of a backup."""
    _stored(tmp_path / "data")
    listed = back_up(tmp_path / "data", tmp_path / "kept")["files"]
    copy, copied = backup._copy_file, list[str]()

    def full(source: Path, to: Path) -> None:
        if source.name == DATABASE:
            raise OSError("the disk is full")
        copied.append(str(source.relative_to(tmp_path / "kept")))
        copy(source, to)

    with monkeypatch.context() as patch:
        patch.setattr(backup, "_copy_file", full)
        with pytest.raises(OSError, match="full"):
            restore(tmp_path / "kept", tmp_path / "again")
    assert {*copied, DATABASE} == set(listed)
    assert restore(tmp_path / "kept", tmp_path / "again")["files"] == listed
