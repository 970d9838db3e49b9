"""The embedded store: one SQLite file, write-ahead log, ``synchronous=FULL``."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.store.base import (
    Durability,
    Fenced,
    Idempotency,
    Lease,
    LogRecord,
    ModelExists,
    OutOfSequence,
    Remembered,
    StoreDamaged,
    StoredModel,
    StoreTooNew,
    StoreUnavailable,
)

SCHEMA = 1
KEPT_SNAPSHOTS = 2
_BUSY_SECONDS = 1.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TABLES = """
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
"""


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    """Turn SQLite's errors into the store's."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE:
            raise StoreDamaged(f"the database is damaged: {error}") from error
        raise StoreUnavailable(f"the database cannot be used: {error}") from error


class SqliteStore:
    """Store in one file; see :class:`service.store.base.Store` for what each call does.

    One connection, one lock: SQLite has a single writer anyway, and every call is short.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        with _sqlite_errors():
            self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._prepare()

    def _prepare(self) -> None:
        with self._transaction() as db:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found > SCHEMA:
                raise StoreTooNew(f"the database has schema {found}; this version reads up to {SCHEMA}")
            if found == 0:
                for statement in filter(str.strip, _TABLES.split(";")):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _transaction(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the block whole or not at all, alone; not ``synced``, it is on the disk with the next one that is."""
        with self._lock, _sqlite_errors():
            self._db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has rolled back already
                    self._db.execute("ROLLBACK")
                raise

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, _sqlite_errors():
            return self._db.execute(query, values).fetchall()

    @staticmethod
    def _held(db: sqlite3.Connection, lease: Lease) -> int:
        """The model's newest sequence number, if the lease still holds; raises Fenced."""
        row = db.execute("SELECT epoch, sequence FROM models WHERE id = ?", (lease.model,)).fetchone()
        if row is None:
            raise Fenced(f"model {lease.model} is no longer stored")
        if row[0] != lease.epoch:
            raise Fenced(f"model {lease.model} was taken over by another writer (epoch {row[0]})")
        return int(row[1])

    def durability(self) -> Durability:
        return Durability.FSYNCED

    def ping(self) -> None:
        with self._transaction():
            pass  # taking the write lock is the question

    def create(self, model: str, spec: bytes) -> Lease:
        with self._transaction() as db:
            row = db.execute("SELECT 1 FROM models WHERE id = ?", (model,)).fetchone()
            if row is not None:
                raise ModelExists(f"model {model} is stored already")
            db.execute("INSERT INTO models VALUES (?, ?, 1, 0, ?)", (model, spec, time.time()))
        return Lease(model, 1)

    def models(self) -> list[StoredModel]:
        rows = self._read("SELECT id, spec FROM models ORDER BY id")
        return [StoredModel(str(id_), bytes(spec)) for id_, spec in rows]

    def acquire(self, model: str) -> Lease:
        with self._transaction() as db:
            query = "UPDATE models SET epoch = epoch + 1 WHERE id = ? RETURNING epoch"
            row = db.execute(query, (model,)).fetchone()
            if row is None:
                raise Fenced(f"model {model} is not stored")
        return Lease(model, int(row[0]))

    def delete(self, lease: Lease) -> None:
        with self._transaction() as db:
            self._held(db, lease)
            db.execute("DELETE FROM models WHERE id = ?", (lease.model,))
            for table in ("log", "snapshots", "requests"):
                db.execute(f"DELETE FROM {table} WHERE model = ?", (lease.model,))

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        with self._transaction() as db:
            newest = self._held(db, lease)
            if sequence != newest + 1:
                raise OutOfSequence(f"record {sequence} of model {lease.model} does not follow record {newest}")
            db.execute("INSERT INTO log (model, sequence, data) VALUES (?, ?, ?)", (lease.model, sequence, data))
            db.execute("UPDATE models SET sequence = ? WHERE id = ?", (sequence, lease.model))
            old = "DELETE FROM requests WHERE model = ? AND sequence <= ?"
            db.execute(old, (lease.model, sequence - keep))
            if idempotency is not None:
                row = (lease.model, idempotency.key, idempotency.body, sequence)
                db.execute("INSERT INTO requests (model, key, body, sequence) VALUES (?, ?, ?, ?)", row)
        return Durability.FSYNCED

    def abort(self, lease: Lease, sequence: int) -> None:
        with self._transaction() as db:
            self._held(db, lease)
            where = "WHERE model = ? AND sequence = ?"
            db.execute(f"UPDATE log SET aborted = 1 {where}", (lease.model, sequence))
            db.execute(f"DELETE FROM requests {where}", (lease.model, sequence))

    def last_sequence(self, lease: Lease) -> int:
        with self._transaction() as db:
            return self._held(db, lease)

    def recall(self, model: str, key: str) -> Remembered | None:
        query = "SELECT body, sequence, answer FROM requests WHERE model = ? AND key = ?"
        rows = self._read(query, model, key)
        return Remembered(*rows[0]) if rows else None

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        with self._transaction(synced=False) as db:
            self._held(db, lease)
            query = "UPDATE requests SET answer = ? WHERE model = ? AND key = ?"
            db.execute(query, (answer, lease.model, key))

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes) -> None:
        with self._transaction() as db:
            self._held(db, lease)
            db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (lease.model, sequence, data))
            query = "SELECT sequence FROM snapshots WHERE model = ? ORDER BY sequence DESC LIMIT ?"
            kept = [row[0] for row in db.execute(query, (lease.model, KEPT_SNAPSHOTS))]
            db.execute("DELETE FROM snapshots WHERE model = ? AND sequence < ?", (lease.model, kept[-1]))
            if len(kept) == KEPT_SNAPSHOTS:  # with a single one, the whole log is what stands behind it
                db.execute("DELETE FROM log WHERE model = ? AND sequence <= ?", (lease.model, kept[-1]))

    def snapshots(self, model: str) -> list[int]:
        query = "SELECT sequence FROM snapshots WHERE model = ? ORDER BY sequence DESC"
        return [int(row[0]) for row in self._read(query, model)]

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        query = "SELECT data FROM snapshots WHERE model = ? AND sequence = ?"
        rows = self._read(query, model, sequence)
        if not rows:
            raise StoreDamaged(f"snapshot {sequence} of model {model} is missing")
        return bytes(rows[0][0])

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        query = "SELECT sequence, data, aborted FROM log WHERE model = ? AND sequence > ? ORDER BY sequence LIMIT 256"
        while rows := self._read(query, model, after):
            for sequence, data, aborted in rows:
                after = int(sequence)
                yield LogRecord(after, bytes(data), bool(aborted))

    def close(self) -> None:
        with self._lock:
            self._db.close()
