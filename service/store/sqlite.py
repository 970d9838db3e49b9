"""The embedded store: one SQLite file with a write-ahead log, which is synced after every commit that must last."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from livesvm.service import crash
from livesvm.service.store.base import (
    Appending,
    DocumentName,
    Durability,
    Fenced,
    Head,
    Idempotency,
    Indexed,
    Lease,
    LogRecord,
    ModelExists,
    ModelGone,
    OutOfSequence,
    Remembered,
    RequestKnown,
    SnapshotInfo,
    Solution,
    Store,
    StoreDamaged,
    StoredModel,
    StoreError,
    StoreUnavailable,
)
from livesvm.service.store.batches import batches
from livesvm.service.store.seals import (
    answer_seal,
    checked_summary,
    document_seal,
    open_summary,
    request_seal,
    seal,
    sha256,
    solution_seal,
)
from livesvm.service.store.sqlite_database import PROBE_SECONDS, Database
from livesvm.service.store.sqlite_file import overwriting, sqlite_errors, transaction
from livesvm.service.store.sqlite_marks import marked
from livesvm.service.store.sqlite_rows import Row, checked, damaged, is_sealed, remembered, request_rows
from livesvm.service.store.sqlite_schema import mend_requests, shows_requests

KEPT_SNAPSHOTS = 2
PAGE = 1000
"""Models that are read at once; other calls can run between two pages."""
DATABASE = "livesvm.sqlite3"
"""Name of the file in a data directory."""
_ROW_OF = "rowid IN (SELECT rowid FROM {0} WHERE model = ?"
"""A condition that finds rows by the index and reads them from the table, so that damage to either is noticed."""
_THESE = "(SELECT value FROM json_each(?))"
"""The names in one JSON array. With a placeholder for each name, SQLite would cache a statement for every count."""
_REQUEST = "model, key, sequence, body, seal, answer, answer_seal"
_REQUESTS = f"SELECT {_REQUEST} FROM requests"
_INSERT_SNAPSHOT = """INSERT OR REPLACE INTO snapshots (model, sequence, version, saved, sha256, data, seal)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_MODEL = "SELECT id, spec FROM models LEFT JOIN specs ON model = id"
_INDEX = "SELECT id, CAST(sequence AS INTEGER), described, summary FROM models"
_HEAD = "SELECT epoch, sequence FROM models WHERE id = ?"
_NEXT = "UPDATE models SET sequence = ? WHERE id = ? AND epoch = ? AND sequence = ?"
_INTO_REQUESTS = f"INTO requests ({_REQUEST}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_REQUEST = f"INSERT {_INTO_REQUESTS}"
_INSERT_RECORD = "INSERT INTO log (model, sequence, data, seal) VALUES (?, ?, ?, ?)"
_DELETE_OLD = "DELETE FROM requests WHERE model = ? AND sequence <= ?"
_ANSWER = """UPDATE requests SET answer = ?, answer_seal = ? WHERE model = ? AND key = ?
    AND EXISTS (SELECT 1 FROM models WHERE id = ? AND epoch = ?)"""
_DESCRIBE = "UPDATE models SET described = ?, summary = ? WHERE id = ? AND epoch = ?"
_KNOWN = "SELECT 1 FROM requests WHERE model = ? AND key = ?"
_KNOWING = "SELECT model FROM requests INDEXED BY sqlite_autoindex_requests_1 WHERE key = ?"
"""Queries that read the index alone."""

log = logging.getLogger(__name__)


def _described(model: str, sequence: int, summary: bytes) -> tuple[int, bytes]:
    """Return the values of the two columns that store a model's summary."""
    return (sequence if summary else 0), checked_summary(model, sequence, summary)


def _stored(model: str, spec: object) -> StoredModel:
    """Return a stored model; a specification that is no blob becomes text, so that its checksum does not match."""
    if spec is None:
        return StoredModel(model, b"", f"the database has lost the specification of model {model}")
    return StoredModel(model, spec if isinstance(spec, bytes) else str(spec).encode())


def _answered(lease: Lease, key: str, answer: bytes) -> tuple[bytes | str | int, ...]:
    """Return the parameters of the SQL statement that stores an answer if the lease holds."""
    return answer, answer_seal(lease.model, key, answer), lease.model, key, lease.model, lease.epoch


def _requested(model: str, sequence: int, asked: Idempotency) -> Row:
    """Return the row that remembers the request of a record."""
    return model, asked.key, sequence, asked.body, request_seal(model, asked.key, sequence, asked.body), None, None


def _logged(record: Appending) -> Row:
    """Return a record as a row of the log."""
    model, sequence, data = record.lease.model, record.sequence, record.data
    return model, sequence, data, seal(model, sequence, 0, sha256(data))


class SqliteStore(Store):
    """Store in one file; see :class:`livesvm.service.store.base.Store` for what each call does."""

    def __init__(self, path: Path, probe_seconds: float = PROBE_SECONDS) -> None:
        """Open the database, or make it; a database that cannot be written now is opened for reading.

        Raises StoreDamaged, StoreTooNew, or StoreUnavailable if the database cannot even be read.
        """
        self._database = Database(path, probe_seconds)
        self._read = self._database.read
        self._transaction = self._database.transaction

    @staticmethod
    def _held(db: sqlite3.Connection, lease: Lease) -> int:
        """Return the model's newest sequence number, if the lease still holds; raises Fenced."""
        return checked(lease, db.execute(_HEAD, (lease.model,)).fetchall())

    def ping(self) -> None:
        """Check the disk's free space, take the write lock, and now and then commit a few bytes as a test.

        After a refused append the test commits as many bytes as were refused.
        """
        self._database.probe()

    def create(self, model: str, spec: bytes, sequence: int = 0, summary: bytes = b"") -> Lease:
        """Insert the model with a new epoch."""
        with self._transaction() as db:
            lease = self._insert_model(db, model, spec, sequence, summary)
        self._database.marks.created(model, sequence, lease.epoch)
        return lease

    def _insert_model(self, db: sqlite3.Connection, model: str, spec: bytes, sequence: int, summary: bytes) -> Lease:
        if db.execute("SELECT 1 FROM models WHERE id = ?", (model,)).fetchone() is not None:
            raise ModelExists(f"model {model} is stored already")
        lease = Lease(model, self._database.new_epoch(db), self._database.writer)
        row = (model, lease.epoch, sequence, time.time(), lease.writer, *_described(model, sequence, summary))
        columns = "(id, epoch, sequence, created, writer, described, summary)"
        db.execute(f"INSERT INTO models {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT OR REPLACE INTO specs (model, spec) VALUES (?, ?)", (model, spec))
        return lease

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Read the table of models, page by page in the order of ids, and add entries of lost models."""
        damage = dict(self._database.marks.damage)
        if models is not None:
            models = list(models)
            damage = {name: damage[name] for name in map(marked, models) if name in damage}
        for id_, sequence, described, value in self._pages(models):
            yield Indexed(id_, sequence, *open_summary(id_, described, value), "", damage.pop(marked(id_), ""))
        for id_, reason in damage.items():
            yield Indexed(id_, 0, b"", 0, "", reason)

    def _pages(self, models: list[str] | None) -> Iterator[Row]:
        """Yield the index rows of all models, or of these models."""
        if models is not None:
            for batch in batches(models, PAGE):
                yield from self._read(f"{_INDEX} WHERE id IN {_THESE}", json.dumps(batch))
            return
        page = self._read(f"{_INDEX} ORDER BY id LIMIT {PAGE}")
        while page:
            yield from page
            page = self._read(f"{_INDEX} WHERE id > ? ORDER BY id LIMIT {PAGE}", page[-1][0])

    def describe(self, lease: Lease, sequence: int, summary: bytes) -> None:
        """Write the summary without an fsync of its own; do nothing while the database is read-only."""
        if self._database.only_read:
            return
        changed = (*_described(lease.model, sequence, summary), lease.model, lease.epoch)
        with self._database.unsynced() as db:
            if not db.execute(_DESCRIBE, changed).rowcount:
                self._held(db, lease)

    def models(self) -> list[StoredModel]:
        """Read the tables of models and specifications, and add the models that the database has lost."""
        found = {str(id_): _stored(str(id_), spec) for id_, spec in self._read(_MODEL)}
        known = {marked(id_): id_ for id_ in found}
        for name, damage in dict(self._database.marks.damage).items():
            id_ = known.get(name, name)
            found[id_] = StoredModel(id_, found[id_].spec if id_ in found else b"", damage)
        return [found[id_] for id_ in sorted(found)]

    def model(self, model: str) -> StoredModel | None:
        """Read the model's rows, and add the known damage of the model."""
        rows, damage = self._read(f"{_MODEL} WHERE id = ?", model), self._database.marks.damage.get(marked(model), "")
        if not (rows or damage):
            return None
        found = _stored(model, rows[0][1]) if rows else StoredModel(model, b"")
        return replace(found, damage=damage) if damage else found

    def acquire(self, model: str) -> Lease:
        """Take a new epoch; no other service can hold the model. A lost model gets an epoch too, for its deletion."""
        if self._database.only_read:
            return self._stored_lease(model)
        self._mend(model)
        with self._transaction() as db:
            epoch = self._database.new_epoch(db)
            query = "UPDATE models SET epoch = ?, writer = ?, attempt = 0 WHERE id = ?"
            is_there = db.execute(query, (epoch, self._database.writer, model)).rowcount
            if not is_there and marked(model) not in self._database.marks.damage:
                raise ModelGone(f"model {model} is not stored")
        return Lease(model, epoch, self._database.writer)

    def _mend(self, model: str) -> None:
        """Rebuild the indexes of the requests table if one of them lacks a request of this model."""
        with self._database.unsynced() as db:
            if shows_requests(db, model):
                return
        try:
            with self._transaction() as db:
                is_mended = mend_requests(db)
        except StoreDamaged as error:  # a caller that asks for what is damaged gets the error
            log.warning("%s", error)
            return
        if is_mended:
            log.warning("the index of requests was damaged; it was built from the table")

    def _stored_lease(self, model: str) -> Lease:
        """Return the lease of the last writer, which is enough to read while the database is read-only."""
        head = self.heads([model]).get(model)
        if head is None:
            raise ModelGone(f"model {model} is not stored")
        return head.lease

    def retake(self, lease: Lease, attempt: int) -> tuple[Lease, int]:
        """Take a new epoch, unless another writer has the model or a later attempt of this writer arrived before."""
        with self._transaction() as db:
            epoch = self._database.new_epoch(db)
            query = """UPDATE models SET epoch = ?, attempt = ? WHERE id = ? AND writer = ? AND attempt < ?
                RETURNING sequence"""
            rows = db.execute(query, (epoch, attempt, lease.model, lease.writer, attempt)).fetchall()
            if not rows:
                raise Fenced(f"model {lease.model} was taken over by another writer, or deleted")
        return Lease(lease.model, epoch, lease.writer), int(rows[0][0])

    def release(self, lease: Lease) -> None:
        """Check the lease, and do nothing else: no other process may use the file, so there is nothing to release."""
        self.last_sequence(lease)

    def release_all(self) -> None:
        """Do nothing: no other service may hold the file."""

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Read each model's writer and newest record; return nothing if the database's file was replaced or removed."""
        with sqlite_errors():
            if self._database.is_elsewhere:
                return {}
        found: dict[str, Head] = {}
        for batch in batches(models, PAGE):
            rows = self._read(f"SELECT id, epoch, writer, sequence FROM models WHERE id IN {_THESE}", json.dumps(batch))
            found |= {id_: Head(Lease(id_, epoch, writer), n) for id_, epoch, writer, n in rows}
        return found

    def delete(self, lease: Lease) -> None:
        """Remove the model's rows from every table."""
        marks = self._database.marks
        # Before the transaction: after a crash behind it, the missing model does not count as lost.
        marks.deleting(lease.model)
        try:
            with self._transaction() as db, overwriting(db):
                self._held(db, lease)
                db.execute("DELETE FROM models WHERE id = ?", (lease.model,))
                for table in ("specs", "log", "snapshots", "requests", "solutions"):
                    db.execute(f"DELETE FROM {table} WHERE model = ?", (lease.model,))
                epoch = self._database.new_epoch(db)
        except ModelGone:
            marks.deleted(lease.model, lease.epoch)
            raise
        marks.deleted(lease.model, epoch)

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Insert the record and its request in one transaction, fsynced.

        The method uses few SQL statements, because other Python threads may run between any two statements.
        """
        try:
            with self._transaction() as db:
                self._append_in(db, Appending(lease, sequence, data, idempotency), keep)
        except StoreUnavailable:
            self._database.refused(len(data))
            raise
        self._database.marks.reached(lease.model, sequence)
        return Durability.FSYNCED

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Insert all records and their requests in one transaction, fsynced once."""
        try:
            with self._transaction() as db:
                found: list[StoreError | None] = [None] * len(records)
                if not self._appended_all(db, records, keep):
                    found = [self._refusal(db, record, keep) for record in records]
        except StoreUnavailable:
            self._database.refused(sum(len(record.data) for record in records))
            raise
        taken = [record for record, error in zip(records, found, strict=True) if error is None]
        self._database.marks.reached_all({record.lease.model: record.sequence for record in taken})
        return Durability.FSYNCED, found

    def _appended_all(self, db: sqlite3.Connection, records: Sequence[Appending], keep: int) -> bool:
        """Append all records, table by table; return False, with nothing written, if one must be refused."""
        db.execute("SAVEPOINT many")
        following = [(one.sequence, one.lease.model, one.lease.epoch, one.sequence - 1) for one in records]
        try:
            is_whole = db.executemany(_NEXT, following).rowcount == len(records)
            if is_whole:
                asked = [(one.lease.model, one.sequence, one.idempotency) for one in records if one.idempotency]
                db.executemany(_INSERT_REQUEST, [_requested(*one) for one in asked])
                db.executemany(_INSERT_RECORD, [_logged(one) for one in records])
                old = [(one.lease.model, one.sequence - keep) for one in records if one.sequence > keep]
                db.executemany(_DELETE_OLD, old)
        except sqlite3.IntegrityError:
            is_whole = False
        if not is_whole:
            db.execute("ROLLBACK TO many")
        db.execute("RELEASE many")
        return is_whole

    def _refusal(self, db: sqlite3.Connection, record: Appending, keep: int) -> StoreError | None:
        """Append one record of many; if it is refused, write nothing of it and return the error."""
        lease, sequence = record.lease, record.sequence
        try:
            self._append_in(db, record, keep)
        except RequestKnown as error:
            db.execute(_NEXT, (sequence - 1, lease.model, lease.epoch, sequence))
            return error
        except (Fenced, OutOfSequence) as error:
            return error
        return None

    def _append_in(self, db: sqlite3.Connection, record: Appending, keep: int) -> None:
        lease, sequence = record.lease, record.sequence
        model = lease.model
        if not db.execute(_NEXT, (sequence, model, lease.epoch, sequence - 1)).rowcount:
            newest = self._held(db, lease)
            raise OutOfSequence(f"record {sequence} of model {model} does not follow record {newest}")
        try:
            if record.idempotency is not None:
                db.execute(_INSERT_REQUEST, _requested(model, sequence, record.idempotency))
        except sqlite3.IntegrityError as error:
            raise RequestKnown(f"a record of model {model} has that idempotency key already") from error
        db.execute(_INSERT_RECORD, _logged(record))
        if sequence > keep:
            db.execute(_DELETE_OLD, (model, sequence - keep))

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark the record as aborted and forget its request; on a read-only database, recovery does this later."""
        if self._database.only_read:
            return
        with self._transaction() as db:
            self._held(db, lease)
            where = "WHERE model = ? AND sequence = ?"
            resealed = "seal = seal(model, sequence, 1, sha256(CAST(data AS BLOB)))"
            db.execute(f"UPDATE log SET aborted = 1, {resealed} {where}", (lease.model, sequence))
            db.execute(f"DELETE FROM requests {where}", (lease.model, sequence))

    def last_sequence(self, lease: Lease) -> int:
        """Read the newest record's number and check the lease, so that a fenced writer gets Fenced."""
        return checked(lease, self._read(_HEAD, lease.model))

    def recall(self, model: str, key: str) -> Remembered | None:
        """Find the request by the index and read it from the table; a damaged answer is left out."""
        if not self._read(_KNOWN, model, key):
            return None
        rows = self._read(
            f"SELECT {_REQUEST} FROM requests WHERE {_ROW_OF.format('requests')} AND key = ?)", model, key
        )
        if not rows:
            raise StoreDamaged(f"what is remembered of request {key!r} of model {model} is missing")
        found, is_damaged = remembered(model, key, rows[0])
        if is_damaged:
            log.warning("model %s: the answer to request %r does not match its checksum", model, key)
        return found

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Look up the idempotency key in the index of the requests table, without reading the table."""
        found: set[str] = set()
        for batch in batches(models, PAGE):
            found.update(*self._read(f"{_KNOWING} AND model IN {_THESE}", key, json.dumps(batch)))
        return found

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Write the answer without an fsync of its own; on a read-only database, leave the write to recovery."""
        if self._database.only_read:
            return
        with self._database.unsynced() as db:
            if not db.execute(_ANSWER, _answered(lease, key, answer)).rowcount:
                self._held(db, lease)  # or no caller asked

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Write all answers in one transaction without an fsync of its own."""
        if self._database.only_read:
            return
        with self._database.unsynced() as db, transaction(db):
            db.executemany(_ANSWER, [_answered(*one) for one in answers])

    def requests(self, model: str) -> dict[str, Remembered]:
        """Read every request of a model; raises StoreDamaged if one or its answer is damaged."""
        found = {}
        for row in self._read(f"{_REQUESTS} WHERE model = ?", model):
            key = str(row[1])
            found[key], is_damaged = remembered(model, key, row)
            if is_damaged:
                raise StoreDamaged(f"the answer to request {key!r} of model {model} does not match its checksum")
        return found

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Insert or replace the rows of the requests in one transaction."""
        with self._transaction() as db:
            self._held(db, lease)
            db.executemany(f"INSERT OR REPLACE {_INTO_REQUESTS}", request_rows(lease.model, requests))

    def forget_requests(self, lease: Lease, keys: Iterable[str]) -> None:
        """Delete the rows of the requests in one transaction."""
        with self._transaction() as db, overwriting(db):
            self._held(db, lease)
            rows = [(lease.model, key) for key in keys]
            db.executemany("DELETE FROM requests WHERE model = ? AND key = ?", rows)

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Insert the snapshot, keep the newest two, and trim the log below the older one, in one transaction."""
        with self._transaction() as db:
            self._held(db, lease)
            self._insert_snapshot(db, lease.model, sequence, data, version, summary)
            crash.point("in-snapshot")

    @staticmethod
    def _insert_snapshot(
        db: sqlite3.Connection, model: str, sequence: int, data: bytes, version: int, summary: bytes
    ) -> None:
        columns = (model, sequence, version, time.time(), sha256(data))
        db.execute(_INSERT_SNAPSHOT, (*columns, data, seal(*columns)))
        query = "SELECT sequence FROM snapshots WHERE model = ? ORDER BY sequence DESC LIMIT ?"
        kept = [row[0] for row in db.execute(query, (model, KEPT_SNAPSHOTS))]
        db.execute("DELETE FROM snapshots WHERE model = ? AND sequence < ?", (model, kept[-1]))
        changed = (" ".join(map(str, kept)), *_described(model, sequence, summary), model)
        db.execute("UPDATE models SET kept = ?, described = ?, summary = ? WHERE id = ?", changed)
        if len(kept) == KEPT_SNAPSHOTS:  # with a single one, the whole log is what stands behind it
            db.execute("DELETE FROM log WHERE model = ? AND sequence <= ?", (model, kept[-1]))

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Read the snapshots' rows without data; a snapshot without a row is damaged if the model's row lists it."""
        query = f"""SELECT length(data), model, sequence, version, saved, sha256, seal FROM snapshots
            WHERE {_ROW_OF.format("snapshots")})"""
        found = []
        for size, *row in self._read(query, model):
            _, sequence, version, saved, *_ = row
            good = is_sealed(model, row)
            found.append(SnapshotInfo(sequence, version, saved, size) if good else damaged(sequence))
        there = {str(snapshot.sequence) for snapshot in found}
        rows = self._read("SELECT kept FROM models WHERE id = ?", model)
        listed = str(rows[0][0]).split() if rows else []
        found += [damaged(sequence) for sequence in listed if sequence not in there]
        return sorted(found, key=lambda snapshot: snapshot.sequence, reverse=True)

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Read the snapshot's row and check its seal."""
        query = f"""SELECT data, model, sequence, version, saved, sha256, seal FROM snapshots
            WHERE {_ROW_OF.format("snapshots")} AND sequence = ?)"""
        rows = self._read(query, model, sequence)
        if not rows:
            raise StoreDamaged(f"snapshot {sequence} of model {model} is missing")
        data, *row = rows[0]
        if not is_sealed(model, row) or row[-2] != sha256(data):
            raise StoreDamaged(f"snapshot {sequence} of model {model} does not match its checksum")
        return bytes(data)

    def supersede(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Remove log, snapshots and solution and insert the snapshot, in one transaction."""
        with self._transaction() as db, overwriting(db):
            if self._held(db, lease) > sequence:
                raise OutOfSequence(f"the log of model {lease.model} goes on after record {sequence}")
            for table in ("log", "snapshots", "solutions"):
                db.execute(f"DELETE FROM {table} WHERE model = ?", (lease.model,))
            db.execute("UPDATE models SET sequence = ? WHERE id = ?", (sequence, lease.model))
            self._insert_snapshot(db, lease.model, sequence, data, version, summary)
        self._database.marks.reached(lease.model, sequence)

    def save_solution(self, lease: Lease, solution: Solution) -> None:
        """Replace the row of the solution."""
        sealed = solution_seal(lease.model, solution.sequence, solution.data)
        with self._transaction() as db:
            self._held(db, lease)
            row = (lease.model, solution.sequence, solution.data, sealed)
            db.execute("INSERT OR REPLACE INTO solutions (model, sequence, data, seal) VALUES (?, ?, ?, ?)", row)

    def solution(self, model: str) -> Solution | None:
        """Read the row of the solution and check its seal."""
        where = _ROW_OF.format("solutions")
        rows = self._read(f"SELECT model, sequence, data, seal FROM solutions WHERE {where})", model)
        if not rows:
            return None
        stored, sequence, data, sealed = rows[0]
        if stored != model or sealed != solution_seal(model, sequence, data):
            raise StoreDamaged(f"the solution of model {model} does not match its checksum")
        return Solution(sequence, data)

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Read the log page by page; raises StoreDamaged at a record that does not match its checksum."""
        query = f"""SELECT data, seal, model, sequence, aborted FROM log
            WHERE {_ROW_OF.format("log")} AND sequence > ? ORDER BY sequence LIMIT 256) ORDER BY sequence"""
        while rows := self._read(query, model, after):
            for data, sealed, stored, sequence, aborted in rows:
                if not is_sealed(model, [stored, sequence, aborted, sha256(data), sealed]):
                    raise StoreDamaged(f"record {sequence} of model {model} does not match its checksum")
                after = sequence
                yield LogRecord(after, bytes(data), bool(aborted))

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Replace the row of the document."""
        with self._transaction() as db:
            row = (*at, data, document_seal(*at, data))
            db.execute("INSERT OR REPLACE INTO documents (kind, name, data, seal) VALUES (?, ?, ?, ?)", row)
            epoch = self._database.new_epoch(db)
        self._database.marks.documents_changed(epoch)

    def document(self, at: DocumentName) -> bytes | None:
        """Read the row of the document and check its seal."""
        rows = self._read("SELECT kind, name, data, seal FROM documents WHERE kind = ? AND name = ?", *at)
        if not rows:
            return None
        *stored, data, sealed = rows[0]
        if stored != [*at] or sealed != document_seal(*at, data):
            raise StoreDamaged(f"{at.kind} {at.name} does not match its checksum")
        return bytes(data)

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Read the names of all documents, and return the names of this kind."""
        rows = self._read("SELECT kind, name FROM documents ORDER BY kind, name")
        found = [DocumentName(str(stored), str(name)) for stored, name in rows]
        return [at for at in found if kind is None or at.kind == kind]

    def delete_document(self, at: DocumentName) -> bool:
        """Delete the row of the document."""
        with self._transaction() as db:
            if not db.execute("DELETE FROM documents WHERE kind = ? AND name = ?", at).rowcount:
                return False
            epoch = self._database.new_epoch(db)
        self._database.marks.documents_changed(epoch)
        return True

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Rewrite the database and empty its write-ahead log, or only empty the write-ahead log."""
        is_rebuilt = self._database.wipe(wholly=wholly)
        places = {"database": "written anew" if is_rebuilt else "overwritten in place", "write-ahead log": "emptied"}
        if copies := self._database.damaged_copies():
            places["copies of a damaged database"] = f"not searched, and to be removed: {', '.join(copies)}"
        return places

    def close(self) -> None:
        """Close the database."""
        self._database.close()
