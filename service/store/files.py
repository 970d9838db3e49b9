"""Files that are whole or not there, and on the disk when a call returns."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place of the one before, with its directories; raises OSError and leaves the old one then."""
    fresh = unfinished(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(fresh, path)


def unfinished(path: Path) -> Path:
    """Return where a file is while it is written."""
    return path.with_name(path.name + ".new")


def put_in_place(fresh: Path, path: Path) -> None:
    """Rename a file that is on the disk already; raises OSError."""
    fresh.replace(path)
    number = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
