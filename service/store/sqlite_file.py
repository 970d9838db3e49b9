"""Open, check and copy the file of the embedded store; a damaged or lost file is never replaced by a new one."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.service.store.files import put_in_place, unfinished
from livesvm.service.store.sqlite_marks import ENDING, LONGEST, Marks, marked, new_marks, read_marks
from livesvm.service.store.sqlite_schema import (
    add_functions,
    bring_up_to_date,
    checked_schema,
    is_old,
    make,
    missing_tables,
)
from livesvm.service.store.sqlite_wal import Walk, walk

ROOM = 2**20
"""Bytes that must be free on the disk: with less, the database and its log may not both grow by a common update."""
SMALL = 64 * 2**20
"""Largest size in bytes of a database that is rewritten in a moment."""
FREE = 0.25
"""Share of a larger database that must be free to make its rewriting worth the wait."""
COPY = "-damaged-"
"""Part of the name of a copy of a damaged database, behind the database's own name."""
_BUSY_SECONDS = 1.0
_VERSION = slice(60, 64)
"""Position of PRAGMA user_version in the header of a database, by SQLite's description of the file format."""
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_WHAT_TO_DO = "restore a backup, or remove {} to start anew without what it held"

log = logging.getLogger(__name__)


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turn errors of SQLite and of the disk into the store's errors."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE:
            raise StoreDamaged(f"the database is damaged: {error}") from error
        raise StoreUnavailable(f"the database cannot be used: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"the database cannot be used: {error}") from error


def open_database(path: Path) -> tuple[sqlite3.Connection, Marks]:
    """Return the database, opened and upgraded, and its high-water marks; make a new one if no older file exists.

    Raises StoreDamaged if the database has lost tables or documents, StoreTooNew, or StoreUnavailable if it cannot be
    written. The attribute ``damage`` of the marks lists the models of which records are lost.
    """
    with sqlite_errors():
        marks = _check_file(path)
        if not path.exists():
            _make(path)
        db = connect(path)
    try:
        with sqlite_errors():
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            heads = None if marks is None else _compare(db, path, marks)
            _bring_up_to_date(db, path)
            write_probe(db, 1)
            marks = marks or new_marks(path)
            db.execute("UPDATE epochs SET newest = max(newest, ?)", (marks.newest_epoch,))
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # a killed service leaves there what was deleted
            marks.adopt(_heads(db) if heads is None else heads)
            marks.write()
            db.execute("PRAGMA synchronous = NORMAL")  # from here on by Syncs
    except BaseException:
        db.close()
        raise
    return db, marks


def compare_marks(db: sqlite3.Connection, path: Path) -> Marks:
    """Return the high-water marks of a read-only database after comparing it with them; raises StoreDamaged."""
    with sqlite_errors():
        marks = read_marks(path) or new_marks(path)
        marks.compare(_heads(db), _newest_epoch(db))
    return marks


def _compare(db: sqlite3.Connection, path: Path, marks: Marks) -> dict[bytes, int]:
    """Compare an untouched database with its marks; return each model's newest record; raises StoreDamaged.

    If data are lost, or may be, the files are copied first, because SQLite later overwrites all that follows a damaged
    frame of the write-ahead log.
    """
    found = walk(write_ahead_log(path))
    try:
        with sqlite_errors():
            _report_missing(path, db)
            heads = _heads(db)
            new = marks.compare(heads, _newest_epoch(db))
    except StoreDamaged:
        _keep_copy(path, found)
        raise
    if new:
        _keep_copy(path, found)
        marks.write()
    elif found.behind and not marks.is_exact:
        log.error("nothing that is known to be acknowledged is lost, but the write-ahead log of %s is torn", path)
        _keep_copy(path, found)
    return heads


def _keep_copy(path: Path, found: Walk) -> None:
    """Copy the database, its log and its marks into a directory next to them, unless a copy of the same log exists."""
    wal = write_ahead_log(path)
    if found.behind:
        log.error("the write-ahead log %s is damaged: %s", wal, found)
    if not _size(wal):
        return
    with wal.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    copy = _beside(path, COPY + content[:16])
    if not copy.exists():
        _copy_files(path, copy)
    log.error(
        "the database and its log, as they were found, are kept in %s; remove them when they are not needed", copy
    )


def _copy_files(path: Path, copy: Path) -> None:
    """Copy a database's files into a new directory, which gets its name when all files are synced; raises OSError."""
    fresh = unfinished(copy)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        for ending in ("", "-wal", ENDING):
            with suppress(FileNotFoundError):
                file = Path(shutil.copy(_beside(path, ending), fresh))
                with file.open("rb") as opened:
                    os.fsync(opened)
        put_in_place(fresh, copy)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def damaged_copies(path: Path) -> list[Path]:
    """Return the directories of copies of a damaged database."""
    return sorted(path.parent.glob(f"{path.name}{COPY}*"))


def _heads(db: sqlite3.Connection) -> dict[bytes, int]:
    """Return the newest record of each model by its name in the marks; names are bytes, which are read faster."""
    query = "SELECT CAST(id AS BLOB), coalesce(CAST(sequence AS INTEGER), 0) FROM models WHERE length(id) > 0"
    found = dict(db.execute(query))
    for name in [name for name in found if len(name) > LONGEST]:
        found[marked(name.decode()).encode()] = found.pop(name)
    return found


def _newest_epoch(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT newest FROM epochs").fetchone()[0])


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a database for reading, with the commits in its write-ahead log; raises StoreUnavailable.

    In exclusive mode SQLite needs no shared-memory file next to the log, for which a full disk has no space. A
    read-only disk permits two other ways: with a shared-memory file that exists already, or without a log.
    """
    ways: list[Callable[[Path], sqlite3.Connection]] = [_alone, _read_only]
    if not _size(_beside(path, "-wal")):
        ways.append(_unchanging)
    failure: StoreUnavailable | None = None
    for way in ways:
        try:
            with sqlite_errors():
                return _checked(way(path), path)
        except StoreUnavailable as error:
            failure = error
    raise failure or StoreUnavailable("the database cannot be read")


def copy_database(path: Path, to: Path) -> None:
    """Copy a consistent state of a database, which may be in use, and check the copy.

    Raises StoreDamaged if something is lost or damaged, StoreTooNew, or StoreUnavailable.
    """
    with sqlite_errors():
        marks = read_marks(path)
        if marks is not None and marks.lost:
            raise StoreDamaged(f"{path} has lost what it had acknowledged of {', '.join(marks.lost)}")
        with closing(_read_only(path)) as source, closing(connect(to, "mode=rwc")) as target:
            source.backup(target)
        with closing(connect(to)) as target:
            _report_missing(path, target)
            found = target.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreDamaged(f"{path} is damaged: {found}")
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with to.open("rb") as file:
            os.fsync(file)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, which is rolled back after an error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled back already
            db.execute("ROLLBACK")
        raise


@contextmanager
def overwriting(db: sqlite3.Connection) -> Iterator[None]:
    """Make SQLite overwrite the rows that the block deletes with zeros, even where that takes extra writes."""
    db.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        db.execute("PRAGMA secure_delete = FAST")


def is_worthwhile(db: sqlite3.Connection) -> bool:
    """Return whether rewriting the database is quick, or would make its file much smaller."""
    size, pages, free = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    return bool(size * pages <= SMALL or free >= FREE * pages)


def write_probe(db: sqlite3.Connection, size: int) -> None:
    """Write ``size`` random bytes, to test whether the disk takes them."""
    db.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (size,))


def write_ahead_log(path: Path) -> Path:
    """Return the path of the write-ahead log, next to the database."""
    return _beside(path, "-wal")


def copy_log(db: sqlite3.Connection) -> None:
    """Copy all commits from the write-ahead log into the database, and sync it; raises StoreUnavailable."""
    is_busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise StoreUnavailable("the write-ahead log is in use, and cannot be copied now")


def check_room(path: Path) -> None:
    """Raise StoreUnavailable if the disk of a file is full or read-only."""
    with sqlite_errors():
        disk = os.statvfs(path)
    if disk.f_flag & os.ST_RDONLY:
        raise StoreUnavailable(f"the disk of {path} is read-only")
    left = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    if disk.f_blocks and left < ROOM:
        raise StoreUnavailable(f"the disk of {path} is full: {left} bytes are left, less than {ROOM}")


def connect(path: Path, options: str = "mode=rw") -> sqlite3.Connection:
    """Open a database, and register the functions that compute seals for its SQL statements."""
    db = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{options}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = _text
    add_functions(db)
    return db


def _text(data: bytes) -> str:
    """Decode stored text; invalid bytes are escaped, so that reading succeeds but the row's seal does not match."""
    return data.decode(errors="backslashreplace")


def _alone(path: Path) -> sqlite3.Connection:
    db = connect(path)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    return connect(path, "mode=ro")


def _unchanging(path: Path) -> sqlite3.Connection:
    return connect(path, "mode=ro&immutable=1")


def _checked(db: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        _report_missing(path, db)
        if is_old(db):
            raise StoreUnavailable("the database is of an older version, and cannot be brought up to date")
    except BaseException:
        db.close()
        raise
    return db


def _check_file(path: Path) -> Marks | None:
    """Return a database's high-water marks, or None; raises StoreDamaged if the database is missing or empty."""
    if path.exists() and not path.stat().st_size:
        raise StoreDamaged(f"{path} is empty, 0 bytes: {_WHAT_TO_DO.format('the file')}")
    _check_header(path)
    wal, marks = write_ahead_log(path), read_marks(path)
    if not path.exists() and _size(wal):
        raise StoreDamaged(f"{wal} is there, but not its database {path.name}: {_WHAT_TO_DO.format('it')}")
    if not path.exists() and marks is not None and not marks.is_empty:
        mark = _beside(path, ENDING)
        raise StoreDamaged(f"{mark} is there, but not its database {path.name}: {_WHAT_TO_DO.format('it')}")
    if marks is None and (found := walk(wal)).behind:
        raise StoreDamaged(f"{wal} is damaged: {found}; {_WHAT_TO_DO.format('it')}")
    return marks


def _check_header(path: Path) -> None:
    """Check the schema before SQLite can change the file; raise StoreTooNew, or StoreUnavailable if it is too old."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        header = file.read(_VERSION.stop)
        if header.startswith(b"SQLite format 3"):
            checked_schema(int.from_bytes(header[_VERSION], "big"))


def _report_missing(path: Path, db: sqlite3.Connection) -> None:
    if missing := missing_tables(db):
        lost = ", ".join(missing)
        raise StoreDamaged(f"{path} has lost its tables ({lost}): {_WHAT_TO_DO.format('the file')}")


def _bring_up_to_date(db: sqlite3.Connection, path: Path) -> None:
    with transaction(db):
        _report_missing(path, db)
        bring_up_to_date(db)


def _make(path: Path) -> None:
    """Make an empty database under another name and rename it, so that it never exists without all of its tables."""
    fresh = path.with_name(path.name + ".new")
    for ending in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            _beside(fresh, ending).unlink()
    make_tables(fresh)
    put_in_place(fresh, path)


def make_tables(path: Path) -> None:
    """Make a database with all tables and no rows."""
    with closing(connect(path, "mode=rwc")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        with transaction(db):
            make(db)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
