"""The store's SQLite database: one connection, one lock, and commits that return when they are on the disk.

One connection is enough, because SQLite allows a single writer anyway and every call is short. Threads release the lock
before they wait for the disk, so that one sync serves several threads.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from livesvm.service.store.base import StoreError, StoreUnavailable
from livesvm.service.store.files import sync_names
from livesvm.service.store.sqlite_file import (
    check_room,
    compare_marks,
    copy_log,
    damaged_copies,
    is_worthwhile,
    open_database,
    open_for_reading,
    sqlite_errors,
    transaction,
    write_ahead_log,
    write_probe,
)

PROBE_SECONDS = 3.0
"""Seconds without a commit after which a ping writes; a commit shows as much, and an idle disk wears little."""


class Database:
    """The database, which is open for writing, or ``only_read`` until it can be written.

    ``writer`` is a random name of this process, which its leases carry.
    """

    def __init__(self, path: Path, probe_seconds: float) -> None:
        """Open the database, or make it; a database that cannot be written now is opened for reading.

        Raises StoreDamaged, StoreTooNew, or StoreUnavailable if the database cannot even be read.
        """
        self._path = path
        self._probe_seconds = probe_seconds
        self._lock = threading.Lock()
        self.writer = uuid.uuid4().hex
        self._refused = 0
        self._why_only_read = ""
        try:
            self._open()
        except StoreUnavailable as error:
            try:
                self._read_only()
                self._opened = path.stat()
            except StoreError as another:
                raise error from another
            self._why_only_read = str(error)

    def _open(self) -> None:
        self._db, self.marks = open_database(self._path)
        self._opened = self._path.stat()
        self._syncs = Syncs(write_ahead_log(self._path))
        self._unsynced = False
        self._written_at = self._marked_at = time.monotonic()

    def _read_only(self) -> None:
        self._db = open_for_reading(self._path)
        self.marks = compare_marks(self._db, self._path)

    def _reopen(self) -> None:
        """Open a database for writing that was read-only so far; new epochs fence the leases given out meanwhile."""
        with self._lock:
            self._db.close()
            try:
                self._open()
            except StoreError:
                self._read_only()
                raise
            self._why_only_read = ""
        with self.transaction() as db:
            db.execute("UPDATE models SET epoch = ?, writer = ?", (self.new_epoch(db), self.writer))

    @property
    def only_read(self) -> bool:
        """Whether the database cannot be written."""
        return bool(self._why_only_read)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file at the database's path was replaced or removed; raises OSError."""
        try:
            return not os.path.samestat(self._path.stat(), self._opened)
        except FileNotFoundError:
            return True

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block under the lock as one transaction, and return when the transaction is on the disk.

        After a failed sync, the transaction may be on the disk all the same; the next transaction first syncs it again.
        """
        with sqlite_errors():
            with self._lock:
                self._check_place()
                before = self._db.total_changes
                with transaction(self._db):
                    yield self._db
                has_changed = self._db.total_changes != before
            if has_changed:
                try:
                    self._syncs.wait()
                except OSError:
                    self._unsynced = True  # a second try might succeed falsely: what was to be written is forgotten
                    raise
                self._written_at = time.monotonic()

    @contextmanager
    def unsynced(self) -> Iterator[sqlite3.Connection]:
        """Run the block under the lock; each statement is committed alone, and synced with the next transaction."""
        with sqlite_errors(), self._lock:
            self._check_place()
            yield self._db

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._lock, sqlite_errors():
            return self._db.execute(query, values).fetchall()

    @staticmethod
    def new_epoch(db: sqlite3.Connection) -> int:
        """Return an epoch that no lease ever had."""
        return int(db.execute("UPDATE epochs SET newest = newest + 1 RETURNING newest").fetchone()[0])

    def refused(self, size: int) -> None:
        """Record that the disk refused a write of ``size`` bytes; the next probe writes as many bytes."""
        self._refused = max(1, size)

    def probe(self) -> None:
        """Check the disk's free space, take the write lock, and commit as many bytes as the last refused write had.

        If no write was refused, one byte is committed after each :data:`PROBE_SECONDS` without a commit.
        """
        if self._why_only_read:
            self._reopen()
        check_room(self._path.parent)
        with self.transaction() as db:
            if self._refused or time.monotonic() - self._written_at >= self._probe_seconds:
                write_probe(db, self._refused or 1)
        self._refused = 0
        if time.monotonic() - self._marked_at >= self._probe_seconds:
            with sqlite_errors():
                self.marks.sync()
            self._marked_at = time.monotonic()

    def wipe(self, *, wholly: bool) -> bool:
        """Rewrite the database without unused space, and empty its log; return whether the database was rewritten.

        All other calls wait until this one has ended. Without ``wholly``, a large database is rewritten only if many of
        its pages are free.
        """
        with self.unsynced() as db:
            is_rebuilt = wholly or is_worthwhile(db)
            if is_rebuilt:
                db.execute("VACUUM")
            copy_log(db)
            self.marks.forget_deleted()
        return is_rebuilt

    def damaged_copies(self) -> list[str]:
        """Return the names of the copies that were kept of a damaged database."""
        return [copy.name for copy in damaged_copies(self._path)]

    def close(self) -> None:
        """Close the database, its marks and its log."""
        with self._lock:
            if not self._why_only_read:
                self._syncs.close()
            self.marks.close()
            self._db.close()

    def _check_place(self) -> None:
        """Raise StoreUnavailable if the database cannot be used now: it is read-only, or its file was replaced."""
        if self._why_only_read:
            raise StoreUnavailable(self._why_only_read)
        if self.is_elsewhere:
            raise StoreUnavailable(f"the database in use is no longer at {self._path}")
        if self._unsynced:
            copy_log(self._db)
            self._unsynced = False


class Syncs:
    """Syncs of one write-ahead log; safe from any thread. One sync serves all commits that were made before it began.

    By default, SQLite waits for the disk inside each commit, one commit after the other. With ``synchronous=NORMAL``,
    SQLite syncs only when it copies its write-ahead log into the database or begins that log again. This class syncs
    the log instead, outside of the database's lock; a commit survives a loss of power when :meth:`wait` has returned.

    Parameters
    ----------
    wal : the log's path; the file exists once something has been committed
    """

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._file: int | None = None
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._asked = 0
        self._done = 0

    def wait(self) -> None:
        """Wait until all commits of the calling thread are on the disk; raises OSError."""
        with self._asking:
            self._asked += 1
            mine = self._asked
        with self._lock:
            if self._done >= mine:
                return
            # Read before the sync begins: it need not cover a commit that comes later.
            with self._asking:
                all_so_far = self._asked
            if self._file is None or not os.path.samestat(self._wal.stat(), os.fstat(self._file)):
                self._forget()
                self._file = os.open(self._wal, os.O_RDWR)
                sync_names(self._wal.parent)
            sync = getattr(os, "fdatasync", os.fsync)  # not every system has the first
            sync(self._file)
            self._done = all_so_far

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None
