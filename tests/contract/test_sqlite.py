"""What only the embedded store does."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.store import sqlite_file
from livesvm.service.store.base import Idempotency, StoreDamaged, StoreInUse, StoreTooNew, StoreUnavailable
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_schema import SCHEMA


def test_what_was_acknowledged_was_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, real = tmp_path / "disk", os.fdatasync

    def sync(file: int) -> None:
        """Sync, and keep what the disk has then."""
        real(file)
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(tmp_path / f"s{ending}", disk / f"s{ending}")

    monkeypatch.setattr(os, "fdatasync", sync)
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.create("m", b"")
        for sequence in range(1, 40):
            store.append(lease, sequence, bytes([sequence]) * 9000, None, keep=1)
            if sequence % 10 == 0:
                store.save_snapshot(lease, sequence, b"snapshot", sequence)
            with monkeypatch.context() as undisturbed, closing(_after_a_loss_of_power(disk, tmp_path)) as found:
                undisturbed.setattr(os, "fdatasync", real)
                assert found.heads(["m"])["m"].sequence == sequence
                *_, newest = found.log("m", 0)
                assert newest.data == bytes([sequence]) * 9000


def _after_a_loss_of_power(disk: Path, tmp_path: Path) -> SqliteStore:
    place = tmp_path / "again"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(disk, place)
    return SqliteStore(place / "s")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(StoreTooNew, match=f"schema {SCHEMA + 1}"):
        SqliteStore(tmp_path / "s")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"not a database, " * 1000)
    with pytest.raises(StoreDamaged):
        SqliteStore(tmp_path / "s")


def test_a_database_that_is_empty_or_has_lost_its_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(StoreDamaged, match="is empty, 0 bytes: restore a backup, or remove the file to start anew"):
        SqliteStore(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_size == 0
    SqliteStore(tmp_path / "lost").close()
    with closing(sqlite3.connect(tmp_path / "lost")) as db:
        db.executescript("DROP TABLE log; DROP TABLE requests;")
    with pytest.raises(StoreDamaged, match=r"lost its tables \(log, requests\): restore a backup"):
        SqliteStore(tmp_path / "lost")
    with closing(sqlite3.connect(tmp_path / "other")) as db:
        db.execute("CREATE TABLE other (x)")
    with pytest.raises(StoreDamaged, match=r"lost its tables \(models, "):
        SqliteStore(tmp_path / "other")


def test_a_log_without_its_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s-wal").write_bytes(b"frames")
    with pytest.raises(StoreDamaged, match="s-wal is there, but not its database s: restore a backup"):
        SqliteStore(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_making_that_was_cut_off_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "s.new").write_bytes(b"half a database")
    (tmp_path / "s.new-wal").write_bytes(b"half a log")
    SqliteStore(tmp_path / "s").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s-mark"]


def test_a_ping_commits_unless_that_was_done_lately(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s", probe_seconds=0)) as store:
        before = store._read("SELECT data FROM probe")
        store.ping()
        assert store._read("SELECT data FROM probe") != before
    with closing(SqliteStore(tmp_path / "s", probe_seconds=60)) as store:
        before = store._read("SELECT data FROM probe")
        store.ping()
        assert store._read("SELECT data FROM probe") == before


def test_a_ping_fails_until_what_was_refused_would_fit(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s", probe_seconds=60)) as store:
        lease = store.create("m", b"")
        pages = store._read("PRAGMA page_count")[0][0]
        store._read(f"PRAGMA max_page_count = {pages + 3}")
        store.append(lease, 1, b"small", None, keep=1)
        with pytest.raises(StoreUnavailable, match="full"):
            store.append(lease, 2, bytes(100_000), None, keep=1)
        with pytest.raises(StoreUnavailable, match="full"):
            store.ping()
        store._read("PRAGMA max_page_count = 100000")
        store.ping()
        assert store._read("SELECT length(data) FROM probe") == [(100_000,)]
        store.append(lease, 2, bytes(100_000), None, keep=1)


def test_a_ping_notices_that_the_file_was_removed_or_replaced(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        (tmp_path / "s").rename(tmp_path / "away")
        with pytest.raises(StoreUnavailable):
            store.ping()
        (tmp_path / "s").write_bytes((tmp_path / "away").read_bytes())
        with pytest.raises(StoreUnavailable, match="no longer at"):
            store.ping()
        (tmp_path / "away").rename(tmp_path / "s")
        store.ping()


def test_a_full_disk_leaves_nothing_half_written_and_passes(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.create("m", b"")
        pages = store._read("PRAGMA page_count")[0][0]
        store._read(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(StoreUnavailable, match="full"):
            store.append(lease, 1, bytes(100_000), None, keep=1)
        assert (store.last_sequence(lease), list(store.log("m", 0))) == (0, [])
        store._read("PRAGMA max_page_count = 100000")
        store.append(lease, 1, bytes(100_000), None, keep=1)
        assert store.last_sequence(lease) == 1


def test_a_locked_database_is_unavailable_and_comes_back(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store, closing(sqlite3.connect(tmp_path / "s")) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            store.ping()
        other.execute("ROLLBACK")
        store.ping()


def test_a_data_directory_has_one_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "data")
    with pytest.raises(StoreInUse, match="in use by process"):
        DirectoryLock(tmp_path / "data")
    lock.release()
    DirectoryLock(tmp_path / "data").release()


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        DirectoryLock(tmp_path / "file" / "data")


def test_a_ping_looks_how_much_space_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(tmp_path / "s", probe_seconds=60)) as store:
        store.ping()
        monkeypatch.setattr(sqlite_file, "ROOM", 2**60)
        with pytest.raises(StoreUnavailable, match=r"is full: [0-9]+ bytes are left"):
            store.ping()


@pytest.mark.parametrize("wholly", [False, True])
def test_what_was_deleted_is_in_no_byte_of_the_files_once_they_are_wiped(wholly: bool, tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    store = SqliteStore(path)
    stays, gone = store.create("stays", b""), store.create("gone", b"")
    for sequence in range(1, 200):
        for lease in (stays, gone):
            named = Idempotency(f"{lease.model} of {sequence}", b"body")
            store.append(lease, sequence, b"record of " + lease.model.encode() * 20, named, keep=1000)
    store.save_snapshot(gone, 199, b"snapshot of gone" * 10_000, 1)
    before = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert any(b"of gone" in file.read_bytes() for file in tmp_path.iterdir())
    store.delete(gone)
    store.wipe(wholly=wholly)
    assert not any(b"gone" in file.read_bytes() for file in tmp_path.iterdir())
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < before
    assert len(list(store.log("stays", 0))) == 199
    store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA freelist_count").fetchone() == (0,)
