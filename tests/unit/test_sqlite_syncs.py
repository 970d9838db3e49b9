"""A commit returns only after a sync that began later; commits that wait meanwhile share one."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from livesvm.service.store.base import Idempotency, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.service.store.sqlite_database import Syncs

SECONDS = 20.0


class Disk:
    """Syncs that are held until they are closed, and counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.syncs = 0
        self.fails = False
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, _file: int) -> None:
        self.begun.release()
        assert self.go.acquire(timeout=SECONDS)
        self.syncs += 1
        if self.fails:
            raise OSError("the disk broke")


def test_all_commits_during_a_sync_share_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wal").touch()
    disk, syncs = Disk(monkeypatch), Syncs(tmp_path / "wal")
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(syncs.wait)
        assert disk.begun.acquire(timeout=SECONDS)
        others = [pool.submit(syncs.wait) for _ in range(5)]
        while syncs._asked < 6:
            pass
        disk.go.release()
        first.result(SECONDS)
        assert disk.begun.acquire(timeout=SECONDS)
        assert not any(other.done() for other in others)  # the first sync began before they came
        disk.go.release()
        for other in others:
            other.result(SECONDS)
    assert disk.syncs == 2
    syncs.close()


def test_every_append_is_synced_and_answers_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    store = SqliteStore(tmp_path / "db")
    lease = store.create("m", b"spec")
    monkeypatch.setattr(os, "fdatasync", calls.append)
    for sequence in (1, 2, 3):
        store.append(lease, sequence, b"data", Idempotency(f"k{sequence}", b"digest"), keep=10)
        assert len(calls) == sequence
        store.remember(lease, f"k{sequence}", b"answer")
        assert len(calls) == sequence
    store.close()


def test_what_a_sync_refused_is_copied_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "db")
    lease = store.create("m", b"spec")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", lambda _file: (_ for _ in ()).throw(OSError("the disk broke")))
        with pytest.raises(StoreUnavailable):
            store.append(lease, 1, b"data", None, keep=10)
    assert (tmp_path / "db-wal").stat().st_size > 0
    assert store.last_sequence(lease) == 1  # it may be there: whoever wrote it takes it back
    store.abort(lease, 1)
    assert next(iter(store.log("m", 0))).aborted
    assert b"spec" in (tmp_path / "db").read_bytes()  # the log was copied into the database first
    store.close()
