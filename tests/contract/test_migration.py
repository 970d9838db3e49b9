"""A store of an older schema is read; what it holds is kept."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.store import redis, sqlite_schema
from livesvm.service.store.base import (
    Fenced,
    Idempotency,
    Indexed,
    Lease,
    Remembered,
    SnapshotInfo,
    Solution,
    StoreDamaged,
    StoredModel,
    StoreUnavailable,
)
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.seals import seal, sha256
from livesvm.service.store.sqlite import SqliteStore
from livesvm.service.store.sqlite_marks import new_marks
from tests.contract.redis_server import RedisServer
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

SCHEMA_7 = """
CREATE TABLE models (
    id TEXT PRIMARY KEY, spec BLOB NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, created REAL NOT NULL,
    writer TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, kept TEXT NOT NULL DEFAULT '');
CREATE TABLE log (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, aborted INTEGER NOT NULL DEFAULT 0,
    seal BLOB NOT NULL DEFAULT x'', PRIMARY KEY (model, sequence));
CREATE TABLE snapshots (
    model TEXT NOT NULL, sequence INTEGER NOT NULL, data BLOB NOT NULL, sha256 BLOB, version INTEGER NOT NULL DEFAULT 0,
    saved REAL NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'', PRIMARY KEY (model, sequence));
CREATE TABLE requests (
    model TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sequence INTEGER NOT NULL, answer BLOB,
    seal BLOB NOT NULL DEFAULT x'', answer_seal BLOB, PRIMARY KEY (model, key));
CREATE INDEX requests_by_sequence ON requests (model, sequence);
CREATE TABLE epochs (newest INTEGER NOT NULL);
CREATE TABLE solutions (model TEXT PRIMARY KEY, sequence INTEGER NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE probe (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE documents (
    kind TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
INSERT INTO epochs VALUES (9);
INSERT INTO models VALUES ('m', x'01', 7, 4, 1.0, 'me', 2, '4'), ('empty', x'02', 9, 0, 1.0, 'me', 0, '');
PRAGMA user_version = 7;
"""
"""As 0.2.0 makes it."""


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


def test_summaries_come_with_schema_8(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_7)
        row = ("m", 4, 3, 6.5, sha256(b"state"))
        db.execute(
            "INSERT INTO snapshots (model, sequence, version, saved, sha256, data, seal) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, b"state", seal(*row)),
        )
        db.commit()
    marks = new_marks(tmp_path / "s")
    marks.created("m", 4, 7)
    marks.created("empty", 0, 9)
    marks.write()
    marks.close()
    for _ in range(2):
        with closing(SqliteStore(tmp_path / "s")) as store:
            assert list(store.index()) == [Indexed("empty", 0, b"", 0), Indexed("m", 4, b"", 0)]
            assert store.models() == [StoredModel("empty", b"\x02"), StoredModel("m", b"\x01")]
            assert store.snapshots("m") == [SnapshotInfo(4, 3, 6.5, 5)]
            assert store.heads(["m"])["m"].lease == Lease("m", 7, "me")
    with closing(SqliteStore(tmp_path / "s")) as store:
        lease = store.acquire("m")
        assert lease.epoch > 9
        store.append(lease, 5, b"record", None, keep=1)
        store.save_snapshot(lease, 5, b"newer", 4, b"summary")
        assert store.load_snapshot("m", 4) == b"state"
        assert list(store.index(["m"])) == [Indexed("m", 5, b"summary", 5)]


def test_a_move_of_specifications_that_is_interrupted_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "s")) as db:
        db.executescript(SCHEMA_7)
    statements, schema = sqlite_schema.STEPS[7]
    with monkeypatch.context() as patched:
        patched.setitem(sqlite_schema.STEPS, 7, (f"{statements} no such statement", schema))
        with pytest.raises(StoreUnavailable):
            SqliteStore(tmp_path / "s")
    with closing(SqliteStore(tmp_path / "s")) as store:
        assert store.model("m") == StoredModel("m", b"\x01")


def test_redis_of_layout_4_is_read_and_what_it_lacks_comes_with_the_next_writes(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client):
        client.mset({f"{{{prefix}}}:schema": 4, f"{{{prefix}}}:epochs": 7})
        client.hset(f"{{{prefix}}}:models", "m", b"spec")
        meta = {"lease": "7:writer", "holder": "me", "attempt": 0, "sequence": 0, "sealed": 1}
        client.hset(f"{{{prefix}}}:m:m:meta", mapping=meta)
        with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
            assert (list(store.index()), store.changes()) == ([Indexed("m", 0, b"", 0, "me")], 0)
            lease = store.acquire("m")
            store.save_snapshot(lease, 0, b"state", 0, b"summary")
            assert list(store.index()) == [Indexed("m", 0, b"summary", 0, "me")]
            store.delete(lease)
            assert (list(store.index()), store.changes()) == ([], 1)
        assert int(client.get(f"{{{prefix}}}:schema")) == redis.SCHEMA == 6
