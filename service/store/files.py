"""Files that are whole or not there, and on the disk when a call returns."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

_OF_OTHERS = 0o077
log = logging.getLogger(__name__)


def keep_private(directory: Path | None = None) -> None:
    """Take the rights of other users from what this process makes from now on, and from all that a directory holds.

    The directory itself stays as it is, as it may be a volume; a warning says where others can read it.
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
    """Put a file in place of the one before, with its directories; raises OSError and leaves the old one then."""
    fresh = unfinished(path)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with open(fresh, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(fresh, path)


def _private(path: str, flags: int) -> int:
    """Open a file that no other user can read when it is new, whatever the process leaves to them."""
    return os.open(path, flags, 0o600)


def unfinished(path: Path) -> Path:
    """Return where a file is while it is written."""
    return path.with_name(path.name + ".new")


def put_in_place(fresh: Path, path: Path) -> None:
    """Rename a file that is on the disk already; raises OSError."""
    fresh.replace(path)
    sync_names(path.parent)


def sync_names(directory: Path) -> None:
    """Have the disk know which files are in a directory; raises OSError."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
