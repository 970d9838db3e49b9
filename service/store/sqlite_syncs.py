"""Commits on the disk, with one wait for all that were committed before it began.

SQLite itself would wait for the disk inside each commit, one after the other. It is set not to
(``synchronous=NORMAL``: it still syncs whenever it copies its write-ahead log into the database or begins that log
again), and the log is synced here, outside of the database's lock; what was waited for survives a loss of power.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from livesvm.service.store.files import sync_names


class Syncs:
    """The disk of one write-ahead log; safe from any thread.

    Parameters
    ----------
    wal : the log, which is there once something has been committed
    """

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._file: int | None = None
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._asked = 0
        self._done = 0

    def wait(self) -> None:
        """Return when all that the calling thread has committed is on the disk; raises OSError."""
        with self._asking:
            self._asked += 1
            mine = self._asked
        with self._lock:
            if self._done >= mine:
                return
            with self._asking:
                all_so_far = self._asked
            self._sync()
            self._done = all_so_far

    def close(self) -> None:
        """Release the file."""
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
    """Return whether the file at ``path`` is not the open one."""
    there, ours = path.stat(), os.fstat(file)
    return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)
