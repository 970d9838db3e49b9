"""One process to a data directory: an advisory lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path

from service.store.base import StoreInUse, StoreUnavailable


class DirectoryLock:
    """Holds a directory until it is released or the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Make the directory if it is absent and take it; raises StoreInUse or StoreUnavailable."""
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the data directory {directory} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreInUse(f"the data directory {directory} is in use by process {holder}") from None
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())

    def holder(self) -> str:
        """A name for whoever holds this directory, the same after a restart."""
        path = self._directory / "holder"
        if not path.exists():
            fresh = path.with_suffix(".new")
            fresh.write_text(uuid.uuid4().hex)
            fresh.rename(path)
        return path.read_text()

    def release(self) -> None:
        """Let go of the directory."""
        os.close(self._file)
