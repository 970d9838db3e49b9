"""What only the embedded store does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.store.base import StoreDamaged, StoreInUse, StoreTooNew, StoreUnavailable
from service.store.lock import DirectoryLock
from service.store.sqlite import SqliteStore
from service.store.sqlite_schema import SCHEMA


def test_commits_reach_the_disk(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        assert store._read("PRAGMA journal_mode") == [("wal",)]
        lease = store.create("m", b"")
        store.append(lease, 1, b"record", None, keep=1)
        assert store._read("PRAGMA synchronous") == [(2,)]  # FULL


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
