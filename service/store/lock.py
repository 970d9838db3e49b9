"""The lock of a data directory: an advisory lock of one process, which the kernel releases when the process ends."""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from livesvm.service.store.base import StoreInUse, StoreUnavailable
from livesvm.service.store.files import write_whole


class DirectoryLock:
    """A lock on a directory, held until it is released or the process ends, even by a crash."""

    def __init__(self, directory: Path) -> None:
        """Make the directory if it is absent and lock it; raises StoreInUse or StoreUnavailable."""
        if fcntl is None:
            raise StoreUnavailable("the embedded store needs file locks of Linux or macOS: use it there, or in WSL")
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = _opened(directory / "lock")
        except OSError as error:
            raise StoreUnavailable(f"the data directory {directory} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreInUse(f"the data directory {directory} is in use by process {holder}") from None
        with suppress(OSError):  # a full disk does not take the holder's name either
            os.ftruncate(self._file, 0)
            os.write(self._file, str(os.getpid()).encode())

    def holder(self) -> str:
        """Return the name of the service on this directory, the same after a restart; raises StoreUnavailable."""
        path = self._directory / "holder"
        try:
            if not path.exists():
                write_whole(path, uuid.uuid4().hex.encode())
            return path.read_text()
        except OSError as error:
            raise StoreUnavailable(f"the data directory {self._directory} cannot be used: {error.strerror}") from error

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)


def _opened(path: Path) -> int:
    """Open the lock file, or make it if it is absent; on a read-only disk, open an existing file for reading."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
