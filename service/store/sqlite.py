"""The embedded store: one SQLite file, write-ahead log, ``synchronous=FULL``."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service import crash
from service.store.base import (
    Durability,
    Fenced,
    Head,
    Idempotency,
    Lease,
    LogRecord,
    ModelExists,
    ModelGone,
    OutOfSequence,
    Remembered,
    RequestKnown,
    SnapshotInfo,
    StoreDamaged,
    StoredModel,
    StoreTooNew,
    StoreUnavailable,
)

SCHEMA = 2
KEPT_SNAPSHOTS = 2
DATABASE = "livesvm.sqlite3"
"""Name of the file in a data directory."""
_BUSY_SECONDS = 1.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TABLES = """
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
INSERT INTO epochs VALUES (0);
"""
_FROM_1 = """
ALTER TABLE models ADD COLUMN writer TEXT NOT NULL DEFAULT '';
ALTER TABLE models ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN sha256 BLOB;
ALTER TABLE snapshots ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN saved REAL NOT NULL DEFAULT 0;
CREATE TABLE epochs (newest INTEGER NOT NULL);
INSERT INTO epochs SELECT coalesce(max(epoch), 0) FROM models;
"""
"""What brings a database of schema 1 to schema 2. Its snapshots have no checksum here, only the one inside them."""
_STEPS = {0: _TABLES, 1: _FROM_1}


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
        self._writer = uuid.uuid4().hex
        with _sqlite_errors():
            self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._prepare()

    def _prepare(self) -> None:
        with self._transaction() as db:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found > SCHEMA:
                raise StoreTooNew(f"the database has schema {found}; this version reads up to {SCHEMA}")
            if found < SCHEMA:
                for statement in filter(str.strip, _STEPS[found].split(";")):
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
            raise ModelGone(f"model {lease.model} is no longer stored")
        if row[0] != lease.epoch:
            raise Fenced(f"model {lease.model} was taken over by another writer (epoch {row[0]})")
        return int(row[1])

    @staticmethod
    def _new_epoch(db: sqlite3.Connection) -> int:
        """An epoch that no lease ever had."""
        return int(db.execute("UPDATE epochs SET newest = newest + 1 RETURNING newest").fetchone()[0])

    @property
    def shared(self) -> bool:
        """False: one process to a data directory."""
        return False

    def durability(self) -> Durability:
        """Always fsynced: WAL with ``synchronous=FULL``."""
        return Durability.FSYNCED

    def ping(self) -> None:
        """Take the write lock and let it go."""
        with self._transaction():
            pass  # taking the write lock is the question

    def create(self, model: str, spec: bytes, sequence: int = 0) -> Lease:
        """Insert the model with its first epoch."""
        with self._transaction() as db:
            row = db.execute("SELECT 1 FROM models WHERE id = ?", (model,)).fetchone()
            if row is not None:
                raise ModelExists(f"model {model} is stored already")
            epoch = self._new_epoch(db)
            row = (model, spec, epoch, sequence, time.time(), self._writer)
            db.execute("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, 0)", row)
        return Lease(model, epoch, self._writer)

    def models(self) -> list[StoredModel]:
        """Read the table of models."""
        rows = self._read("SELECT id, spec FROM models ORDER BY id")
        return [StoredModel(str(id_), bytes(spec)) for id_, spec in rows]

    def acquire(self, model: str) -> Lease:
        """Take a new epoch; there is no other service to wait for."""
        with self._transaction() as db:
            epoch = self._new_epoch(db)
            query = "UPDATE models SET epoch = ?, writer = ?, attempt = 0 WHERE id = ?"
            if not db.execute(query, (epoch, self._writer, model)).rowcount:
                raise ModelGone(f"model {model} is not stored")
        return Lease(model, epoch, self._writer)

    def retake(self, lease: Lease, attempt: int) -> tuple[Lease, int]:
        """A new epoch, unless another writer has the model or a later attempt came first."""
        with self._transaction() as db:
            epoch = self._new_epoch(db)
            query = """UPDATE models SET epoch = ?, attempt = ? WHERE id = ? AND writer = ? AND attempt < ?
                RETURNING sequence"""
            rows = db.execute(query, (epoch, attempt, lease.model, lease.writer, attempt)).fetchall()
            if not rows:
                raise Fenced(f"model {lease.model} was taken over by another writer, or deleted")
        return Lease(lease.model, epoch, lease.writer), int(rows[0][0])

    def release(self, lease: Lease) -> None:
        """Check the lease: nobody else may hold the file, so there is nothing to let go of."""
        self.last_sequence(lease)

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Read where each stands."""
        wanted = set(models)
        rows = self._read("SELECT id, epoch, writer, sequence FROM models")
        return {id_: Head(Lease(id_, epoch, writer), n) for id_, epoch, writer, n in rows if id_ in wanted}

    def delete(self, lease: Lease) -> None:
        """Remove the model's rows from every table."""
        with self._transaction() as db:
            self._held(db, lease)
            db.execute("DELETE FROM models WHERE id = ?", (lease.model,))
            for table in ("log", "snapshots", "requests"):
                db.execute(f"DELETE FROM {table} WHERE model = ?", (lease.model,))

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Insert the record and its request in one transaction, fsynced."""
        with self._transaction() as db:
            newest = self._held(db, lease)
            if sequence != newest + 1:
                raise OutOfSequence(f"record {sequence} of model {lease.model} does not follow record {newest}")
            if idempotency is not None and self._knows(db, lease.model, idempotency.key):
                raise RequestKnown(f"a record of model {lease.model} has that idempotency key already")
            db.execute("INSERT INTO log (model, sequence, data) VALUES (?, ?, ?)", (lease.model, sequence, data))
            db.execute("UPDATE models SET sequence = ? WHERE id = ?", (sequence, lease.model))
            old = "DELETE FROM requests WHERE model = ? AND sequence <= ?"
            db.execute(old, (lease.model, sequence - keep))
            if idempotency is not None:
                row = (lease.model, idempotency.key, idempotency.body, sequence)
                db.execute("INSERT INTO requests (model, key, body, sequence) VALUES (?, ?, ?, ?)", row)
        return Durability.FSYNCED

    @staticmethod
    def _knows(db: sqlite3.Connection, model: str, key: str) -> bool:
        query = "SELECT 1 FROM requests WHERE model = ? AND key = ?"
        return db.execute(query, (model, key)).fetchone() is not None

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark the record and forget its request."""
        with self._transaction() as db:
            self._held(db, lease)
            where = "WHERE model = ? AND sequence = ?"
            db.execute(f"UPDATE log SET aborted = 1 {where}", (lease.model, sequence))
            db.execute(f"DELETE FROM requests {where}", (lease.model, sequence))

    def last_sequence(self, lease: Lease) -> int:
        """Read under the lease, so that a fenced writer is told."""
        with self._transaction() as db:
            return self._held(db, lease)

    def recall(self, model: str, key: str) -> Remembered | None:
        """Read one request."""
        query = "SELECT body, sequence, answer FROM requests WHERE model = ? AND key = ?"
        rows = self._read(query, model, key)
        return Remembered(*rows[0]) if rows else None

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Write without an fsync of its own."""
        with self._transaction(synced=False) as db:
            self._held(db, lease)
            query = "UPDATE requests SET answer = ? WHERE model = ? AND key = ?"
            db.execute(query, (answer, lease.model, key))

    def requests(self, model: str) -> dict[str, Remembered]:
        """Read every request of a model."""
        rows = self._read("SELECT key, body, sequence, answer FROM requests WHERE model = ?", model)
        return {key: Remembered(*rest) for key, *rest in rows}

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Insert or replace them in one transaction."""
        rows = [(lease.model, key, r.body, r.sequence, r.answer) for key, r in requests.items()]
        with self._transaction() as db:
            self._held(db, lease)
            query = "INSERT OR REPLACE INTO requests (model, key, body, sequence, answer) VALUES (?, ?, ?, ?, ?)"
            db.executemany(query, rows)

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int) -> None:
        """Insert it and trim what lies below the older one, in one transaction."""
        row = (lease.model, sequence, data, hashlib.sha256(data).digest(), version, time.time())
        with self._transaction() as db:
            self._held(db, lease)
            columns = "(model, sequence, data, sha256, version, saved)"
            db.execute(f"INSERT OR REPLACE INTO snapshots {columns} VALUES (?, ?, ?, ?, ?, ?)", row)
            query = "SELECT sequence FROM snapshots WHERE model = ? ORDER BY sequence DESC LIMIT ?"
            kept = [row[0] for row in db.execute(query, (lease.model, KEPT_SNAPSHOTS))]
            db.execute("DELETE FROM snapshots WHERE model = ? AND sequence < ?", (lease.model, kept[-1]))
            if len(kept) == KEPT_SNAPSHOTS:  # with a single one, the whole log is what stands behind it
                db.execute("DELETE FROM log WHERE model = ? AND sequence <= ?", (lease.model, kept[-1]))
            crash.point("in-snapshot")

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Read all but the bytes."""
        query = "SELECT sequence, version, saved, length(data) FROM snapshots WHERE model = ? ORDER BY sequence DESC"
        return [SnapshotInfo(*row) for row in self._read(query, model)]

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Read the bytes and check them; those of a database of schema 1 hold the only checksum in themselves."""
        query = "SELECT data, sha256 FROM snapshots WHERE model = ? AND sequence = ?"
        rows = self._read(query, model, sequence)
        if not rows:
            raise StoreDamaged(f"snapshot {sequence} of model {model} is missing")
        data, sha256 = rows[0]
        if sha256 is not None and hashlib.sha256(data).digest() != sha256:
            raise StoreDamaged(f"snapshot {sequence} of model {model} does not match its checksum")
        return bytes(data)

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Read page by page."""
        query = "SELECT sequence, data, aborted FROM log WHERE model = ? AND sequence > ? ORDER BY sequence LIMIT 256"
        while rows := self._read(query, model, after):
            for sequence, data, aborted in rows:
                after = int(sequence)
                yield LogRecord(after, bytes(data), bool(aborted))

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()
