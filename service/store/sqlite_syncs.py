"""Sync commits to the disk; one sync serves all threads that committed before it began.

By default, SQLite waits for the disk inside each commit, one commit after the other. With ``synchronous=NORMAL``,
SQLite syncs only when it copies its write-ahead log into the database or begins that log again. This module syncs the
log instead, outside of the database's lock; a commit survives a loss of power once :meth:`Syncs.wait` has returned.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from livesvm.service.store.files import sync_names


class Syncs:
    """Syncs of one write-ahead log; safe from any thread.

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
            self._sync()
            self._done = all_so_far

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._forget()

    def _sync(self) -> None:
        if self._file is None or _is_other(self._wal, self._file):
            self._forget()
            self._file = os.open(self._wal, os.O_RDWR)
            sync_names(self._wal.parent)
        sync = getattr(os, "fdatasync", os.fsync)  # not every system has the first
        sync(self._file)

    def _forget(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None


def _is_other(path: Path, file: int) -> bool:
    """Return whether the file at ``path`` differs from the open ``file``."""
    there, ours = path.stat(), os.fstat(file)
    return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)
