"""A database of the schema before this one is read; what it holds is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from livesvm.service.store import sqlite_schema
from livesvm.service.store.base import (
    Fenced,
    Idempotency,
    Lease,
    Remembered,
    SnapshotInfo,
    Solution,
    StoreDamaged,
    StoreUnavailable,
)
from livesvm.service.store.seals import sha256
from livesvm.service.store.sqlite import SqliteStore
from tests.contract.undo import UNDO_5, UNDO_6

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
SCHEMA_2 = """
CREATE TABLE models (
    id TEXT PRIMARY KEY, spec BLOB NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, created REAL NOT NULL,
    writer TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0);
CREATE TABLE log (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, aborted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (model, sequence));
CREATE TABLE snapshots (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL,
    sha256 BLOB, version INTEGER NOT NULL DEFAULT 0, saved REAL NOT NULL DEFAULT 0, PRIMARY KEY (model, sequence));
CREATE TABLE requests (
    model TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sequence INTEGER NOT NULL, answer BLOB,
    PRIMARY KEY (model, key));
CREATE INDEX requests_by_sequence ON requests (model, sequence);
CREATE TABLE epochs (newest INTEGER NOT NULL);
INSERT INTO epochs VALUES (7);
INSERT INTO models VALUES ('m', x'01', 7, 4, 1.0, 'me', 0), ('empty', x'02', 6, 0, 1.0, 'me', 0);
INSERT INTO log VALUES ('m', 3, x'aa', 0), ('m', 4, x'bb', 1);
PRAGMA user_version = 2;
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
        patched.setitem(sqlite_schema.STEPS, 2, ("ALTER TABLE models ADD COLUMN kept TEXT; no such statement", 3))
        with pytest.raises(StoreUnavailable):
            SqliteStore(path)
    with closing(SqliteStore(path)) as store:
        assert store.heads(["m"])["m"].sequence == 2


def test_rows_of_schema_2_are_sealed_and_a_damaged_snapshot_stays_damaged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_2)
        rows = [("m", 2, b"older", sha256(b"older"), 1, 5.5), ("m", 4, b"newer", sha256(b"other"), 3, 6.5)]
        db.executemany("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.commit()
    for _ in range(2):
        with closing(SqliteStore(tmp_path / "s")) as store:
            assert [(r.sequence, r.data, r.aborted) for r in store.log("m", 0)] == [
                (3, b"\xaa", False),
                (4, b"\xbb", True),
            ]
            assert store.snapshots("m") == [SnapshotInfo(4, 3, 6.5, 5), SnapshotInfo(2, 1, 5.5, 5)]
            assert store.load_snapshot("m", 2) == b"older"
            with pytest.raises(StoreDamaged):
                store.load_snapshot("m", 4)
            assert store.snapshots("empty") == []
            lease = store.acquire("m")
    with closing(SqliteStore(tmp_path / "s")) as store:
        store.save_snapshot(lease, 4, b"again", 3)
        assert [(s.sequence, s.is_damaged) for s in store.snapshots("m")] == [(4, False), (2, False)]


def test_requests_of_schema_3_are_sealed(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.create("m", b"")
        for sequence, key in ((1, "answered"), (2, "open")):
            store.append(lease, sequence, b"", Idempotency(key, b"body"), keep=10)
        store.remember(lease, "answered", b"answer")
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        for column in ("seal", "answer_seal"):
            db.execute(f"ALTER TABLE requests DROP COLUMN {column}")
        db.executescript(f"{UNDO_5} PRAGMA user_version = 3;")
    for _ in range(2):
        with closing(SqliteStore(tmp_path / "s")) as store:
            assert store.requests("m") == {
                "answered": Remembered(b"body", 1, b"answer"),
                "open": Remembered(b"body", 2, None),
            }
            assert store.recall("m", "answered") == Remembered(b"body", 1, b"answer")


def test_solutions_come_with_schema_5(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s")) as store:
        store.append(store.create("m", b""), 1, b"record", None, keep=1)
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(f"{UNDO_5} PRAGMA user_version = 4;")
    with closing(SqliteStore(tmp_path / "s")) as store:
        assert [record.data for record in store.log("m", 0)] == [b"record"]
        assert store.solution("m") is None
        store.save_solution(store.acquire("m"), Solution(1, b"solution"))
        assert store.solution("m") == Solution(1, b"solution")


def test_what_pings_write_comes_with_schema_6(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "s").close()
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(f"{UNDO_6} PRAGMA user_version = 5;")
    with closing(SqliteStore(tmp_path / "s", probe_seconds=0)) as store:
        store.ping()
        assert store._read("SELECT length(data) FROM probe") == [(1,)]
