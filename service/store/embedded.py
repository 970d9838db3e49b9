"""The embedded store of a data directory.

Earlier versions could divide it among processes: models lay in 64 databases in ``shares/``, by a hash of their names.
A start moves those into the one database, once.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.files import put_in_place, unfinished
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_file import COPY, connect, copy_log, open_database, sqlite_errors, transaction
from livesvm.service.store.sqlite_marks import join_marks
from livesvm.service.store.sqlite_schema import DIVIDED, checked_schema, is_divided, mark_joined

SHARES = "shares"
"""The directory of the databases of a divided store, below the data directory."""
NAMES = [f"{number:02}.sqlite3" for number in range(64)]
TABLES = ("models", "specs", "log", "snapshots", "requests", "solutions", "documents")
VERSION_AT = 60
"""Where the header of a database has its PRAGMA user_version, by SQLite's description of the file format."""
_HEADS = "SELECT id, epoch, sequence FROM models"

log = logging.getLogger(__name__)


def open_embedded(data_dir: Path) -> SqliteStore:
    """Open the embedded store of a data directory, in one database again if it was divided; raises StoreError."""
    path, shares = data_dir / DATABASE, data_dir / SHARES
    with sqlite_errors():
        if unfinished(shares).exists():
            shutil.rmtree(unfinished(shares))
        if shares.exists() or _is_divided(path):
            _join(path, [shares / name for name in NAMES])
            _remove(path, shares)
    return SqliteStore(path)


def _is_divided(path: Path) -> bool:
    """Read what the header of a database says: SQLite would change it, and cannot where the disk is full."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        header = file.read(VERSION_AT + 4)
        if header.startswith(b"SQLite format 3"):
            return checked_schema(int.from_bytes(header[VERSION_AT:], "big")) == DIVIDED
    return False


def _join(path: Path, files: Sequence[Path]) -> None:
    """Move what the shares hold into the database, all or nothing; their marks follow. Raises StoreError.

    The shares stay, so that the next start does the rest whatever cuts this off.
    """
    if missing := [str(file) for file in (path, *files) if not file.exists()]:
        raise StoreDamaged(f"the store is divided, and has lost {', '.join(missing)}: restore a backup")
    for file in files:
        _check(file)
    db, marks = open_database(path)
    marks.close()
    with closing(db):
        if is_divided(db):
            log.info("the models in %s are moved into %s", files[0].parent, path)
            with transaction(db):
                for file in files:
                    _take(db, file)
                mark_joined(db)
        if sorted(row for file in files for row in _read(file, _HEADS)) != sorted(db.execute(_HEADS)):
            raise StoreDamaged(f"{path} and {files[0].parent} have different models: move away what is older")
        copy_log(db)
    join_marks(path, files)


def _check(file: Path) -> None:
    """Bring a share up to date, and compare it with its marks; raises StoreError, also if it cannot be written."""
    try:
        db, marks = open_database(file)
    except StoreDamaged as error:
        raise StoreDamaged(f"{file}: {error}") from error
    marks.close()
    db.close()


def _take(db: sqlite3.Connection, file: Path) -> None:
    """Copy all rows of a share, inside a transaction."""
    for table in TABLES:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        names, values = ", ".join(columns), ", ".join("?" * len(columns))
        db.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", _read(file, f"SELECT {names} FROM {table}"))
    db.executemany("UPDATE epochs SET newest = max(newest, ?)", _read(file, "SELECT newest FROM epochs"))


def _read(file: Path, query: str) -> Iterator[tuple[object, ...]]:
    with closing(connect(file)) as db:
        yield from db.execute(query)


def _remove(path: Path, shares: Path) -> None:
    """Remove the shares, but for copies of what was damaged, which are kept next to the database."""
    for copy in shares.glob(f"*{COPY}*"):
        copy.rename(path.with_name(path.name + COPY + copy.name))
    put_in_place(shares, unfinished(shares))
    shutil.rmtree(unfinished(shares))
