"""One database made into several, once: models go to shares of their own, documents that name none stay where they are.

The shares are made whole next to it, and appear under their name at once; only then are the models removed from the
database. Whatever a crash leaves behind is one or the other, and the next start does the rest.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.files import put_in_place, unfinished
from livesvm.service.store.sqlite_file import connect, copy_log, make_tables, sqlite_errors, transaction
from livesvm.service.store.sqlite_marks import DOCUMENTS, Marks, new_marks, read_marks
from livesvm.service.store.sqlite_schema import mark_divided

BY_MODEL = ("specs", "log", "snapshots", "requests", "solutions")
"""Tables with a column that names the model."""
Place = Callable[[str], int]
"""The number of the share of a model."""

log = logging.getLogger(__name__)


def divide(path: Path, shares: Path, names: Sequence[str], place: Place, kinds: Sequence[str]) -> None:
    """Move all models of a database, which is up to date and closed, to shares; raises StoreError.

    Parameters
    ----------
    shares : the directory of the shares, which is there if a crash has cut off an earlier try behind its making
    names : of the shares' files
    kinds : of documents that go with the models that they name
    """
    with closing(connect(path)) as db, sqlite_errors():
        if not shares.exists():
            log.info("the models in %s are moved to %d files in %s", path, len(names), shares)
            _make_shares(db, path, shares, names, place, kinds)
        _check(db, path, [shares / name for name in names])
        _empty(db, path, kinds)


def _make_shares(
    db: sqlite3.Connection, path: Path, shares: Path, names: Sequence[str], place: Place, kinds: Sequence[str]
) -> None:
    fresh, marks = unfinished(shares), read_marks(path) or new_marks(path)
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    db.execute("CREATE TEMP TABLE placed (model TEXT PRIMARY KEY, share INTEGER NOT NULL)")
    tables = " UNION ".join(f"SELECT model FROM {table}" for table in BY_MODEL)
    found = [
        str(id_) for (id_,) in db.execute(f"SELECT id FROM models UNION {tables} UNION SELECT name FROM documents")
    ]
    db.executemany("INSERT INTO placed VALUES (?, ?)", [(id_, place(id_)) for id_ in found])
    empty = fresh / "empty"
    make_tables(empty)
    for number, name in enumerate(names):
        shutil.copy(empty, fresh / name)
        _make_share(db, fresh / name, number, kinds)
        with closing(_part(marks, fresh / name, place, number)) as part:
            part.write()
    empty.unlink()
    put_in_place(fresh, shares)


def _make_share(db: sqlite3.Connection, file: Path, number: int, kinds: Sequence[str]) -> None:
    """Copy what belongs to one share, and have it on the disk."""
    db.execute("ATTACH ? AS share", (str(file),))
    try:
        db.execute("PRAGMA share.synchronous = OFF")  # nothing reads it before it is synced below
        with transaction(db):
            mine = "IN (SELECT model FROM temp.placed WHERE share = ?)"
            for table, column in (("models", "id"), *((table, "model") for table in BY_MODEL)):
                columns = ", ".join(row[1] for row in db.execute(f"PRAGMA share.table_info({table})"))
                copied = f"SELECT {columns} FROM main.{table} WHERE {column} {mine}"
                db.execute(f"INSERT INTO share.{table} ({columns}) {copied}", (number,))
            copied = f"SELECT * FROM main.documents WHERE name {mine} AND kind IN ({_places(kinds)})"
            db.execute(f"INSERT INTO share.documents {copied}", (number, *kinds))
            db.execute("UPDATE share.epochs SET newest = (SELECT newest FROM main.epochs)")
        db.execute("PRAGMA share.wal_checkpoint(TRUNCATE)")
    finally:
        db.execute("DETACH share")
    with file.open("rb") as opened:
        os.fsync(opened)


def _part(marks: Marks, file: Path, place: Place, number: int) -> Marks:
    """Return the marks of the models of one file."""
    return marks.of(new_marks(file), lambda name: name != DOCUMENTS and place(name.decode()) == number)


def _check(db: sqlite3.Connection, path: Path, files: Sequence[Path]) -> None:
    """Raise StoreDamaged unless the shares have each model as the database does."""
    found = sorted(row for file in files for row in _heads(file))
    if found != sorted(db.execute(_HEADS)):
        raise StoreDamaged(f"{path} and {files[0].parent} have different models: move away what is older")


_HEADS = "SELECT id, epoch, sequence FROM models"


def _heads(file: Path) -> Iterator[tuple[str, int, int]]:
    with closing(connect(file)) as db:
        yield from db.execute(_HEADS)


def _empty(db: sqlite3.Connection, path: Path, kinds: Sequence[str]) -> None:
    """Remove from the database what the shares have; a database without models is as its marks say meanwhile."""
    marks = read_marks(path) or new_marks(path)
    with closing(marks.of(new_marks(path), lambda name: name == DOCUMENTS)) as rest:
        rest.write()
    with transaction(db):
        for table in ("models", *BY_MODEL):
            db.execute(f"DELETE FROM {table}")
        db.execute(f"DELETE FROM documents WHERE kind IN ({_places(kinds)})", tuple(kinds))
        mark_divided(db)
    db.execute("VACUUM")
    copy_log(db)


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
