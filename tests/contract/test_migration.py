"""A database of the schema before this one is read; what it holds is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.store import sqlite
from service.store.base import Fenced, Lease, Remembered, StoreUnavailable
from service.store.sqlite import SqliteStore

SCHEMA_1 = """
CREATE TABLE models (
    id TEXT PRIMARY KEY, spec BLOB NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, created REAL NOT NULL);
CREATE TABLE log (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, aborted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (model, sequence));
CREATE TABLE snapshots (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, sequence));
CREATE TABLE requests (
    model TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sequence INTEGER NOT NULL, answer BLOB,
    PRIMARY KEY (model, key));
CREATE INDEX requests_by_sequence ON requests (model, sequence);
INSERT INTO models VALUES ('m', x'01', 7, 2, 1.0);
INSERT INTO log VALUES ('m', 1, x'aa', 0), ('m', 2, x'bb', 1);
INSERT INTO snapshots VALUES ('m', 1, x'cc');
INSERT INTO requests VALUES ('m', 'k', x'dd', 1, x'ee');
PRAGMA user_version = 1;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_1)
    return tmp_path / "s"


def test_everything_is_kept_and_old_writers_are_fenced(path: Path) -> None:
    for _ in range(2):  # the second time there is nothing left to do
        with closing(SqliteStore(path)) as store:
            log = [(record.sequence, record.data, record.aborted) for record in store.log("m", 0)]
            assert log == [(1, b"\xaa", False), (2, b"\xbb", True)]
            assert store.load_snapshot("m", 1) == b"\xcc"
            assert store.recall("m", "k") == Remembered(b"\xdd", 1, b"\xee")
            lease = store.acquire("m")
            assert lease.epoch > 7
            assert store.last_sequence(lease) == 2
            with pytest.raises(Fenced):
                store.append(Lease("m", 7), 3, b"", None, keep=1)


def test_a_migration_that_is_interrupted_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sqlite._STEPS, 1, "ALTER TABLE models ADD COLUMN writer TEXT; no such statement")
        with pytest.raises(StoreUnavailable):
            SqliteStore(path)
    with closing(SqliteStore(path)) as store:
        assert store.heads(["m"])["m"].sequence == 2
