"""Write files atomically, so that they are on the disk when a call returns, and keep them private."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

_OF_OTHERS = 0o077
log = logging.getLogger(__name__)


def keep_private(directory: Path | None = None) -> None:
    """Take the rights of other users from files that this process makes from now on, and from all in a directory.

    The rights of the directory itself stay, as it may be a volume; if other users can read it, a warning says so.
    """
    os.umask(_OF_OTHERS)
    if directory is None or not directory.exists():
        return
    for path in directory.rglob("*"):
        with suppress(OSError):  # another owner's, or on a disk that cannot be written to
            if (mode := path.lstat().st_mode) & _OF_OTHERS and not path.is_symlink():
                path.chmod(mode & 0o7700)
    if (mode := directory.stat().st_mode) & 0o007:
        what = "put files into" if mode & 0o002 else "read the names in"
        log.warning("other users can %s the data directory %s (mode %o): chmod 700 it", what, directory, mode & 0o7777)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole, and make its directories; raises OSError, which leaves the old file in place."""
    fresh = unfinished(path)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with open(fresh, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(fresh, path)


def _private(path: str, flags: int) -> int:
    """Open a file; a new one can be read by no other user, whatever the umask of the process."""
    return os.open(path, flags, 0o600)


def unfinished(path: Path) -> Path:
    """Return the path of a file while it is being written."""
    return path.with_name(path.name + ".new")


def put_in_place(fresh: Path, path: Path) -> None:
    """Rename a file that is on the disk already, and sync the directory; raises OSError."""
    fresh.replace(path)
    sync_names(path.parent)


def sync_names(directory: Path) -> None:
    """Sync a directory, so that the names of its files are on the disk; raises OSError."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
