"""Write files atomically and durably, and deny other users access to them."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

_OF_OTHERS = 0o077
log = logging.getLogger(__name__)


def keep_private(directory: Path | None = None) -> None:
    """Deny other users access to the files that this process makes from now on, and to all files in a directory.

    The mode of the directory itself is not changed, because it may be a mounted volume; if other users can read or
    write the directory, a warning is logged.
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
    """Replace a file atomically, and make its directories; if that raises OSError, the old file is still in place."""
    fresh = unfinished(path)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with open(fresh, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(fresh, path)


def _private(path: str, flags: int) -> int:
    """Open a file; only the owner can read a newly made file, whatever the umask of the process."""
    return os.open(path, flags, 0o600)


def unfinished(path: Path) -> Path:
    """Return the temporary path at which a file is written before it is renamed to ``path``."""
    return path.with_name(path.name + ".new")


def put_in_place(fresh: Path, path: Path) -> None:
    """Rename the synced file ``fresh`` to ``path``, and sync the directory; raises OSError."""
    fresh.replace(path)
    sync_names(path.parent)


def sync_names(directory: Path) -> None:
    """Sync a directory, so that the names of its files are on the disk; raises OSError."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
