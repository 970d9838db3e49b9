"""Back up a data directory, even while its service runs, and restore a data directory from a backup.

A backup is a directory with the files of a data directory and a list of the files' SHA-256 checksums. A backup gets its
final name only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.catalogue import DIRECTORY as DATASETS
from livesvm.service.datasets.catalogue import KIND
from livesvm.service.history.rescue import DIRECTORY as UNSTORED
from livesvm.service.lifecycle.parts import JOBS
from livesvm.service.receipts.signing import FILE, PUBLIC
from livesvm.service.store.base import StoreDamaged, StoreInUse, StoreUnavailable
from livesvm.service.store.files import put_in_place, unfinished, write_whole
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_file import copy_database

LIST = "backup.json"
"""Name of the list of a backup's files with their SHA-256."""
PARTS = (DATASETS, JOBS, UNSTORED, FILE, PUBLIC)
"""Files and directories that are copied next to the database."""
TRIES = 5
"""How many copies are tried if datasets are replaced or deleted while they are copied."""
_BLOCK = 2**20

Document = dict[str, Any]


class _Changed(Exception):
    """A dataset was replaced or deleted while its files were copied."""


def back_up(data_dir: Path, to: Path, *, has_store: bool = True) -> Document:
    """Copy the store, the key for receipts, the datasets and the jobs into a new directory; return its file list.

    Parameters
    ----------
    has_store : True if the models are in this directory, False if they are in Redis

    Raises
    ------
    ValueError if there is no store, or ``to`` is there already; StoreError; OSError
    """
    if to.exists():
        raise ValueError(f"{to} is there already: name a new directory")
    if has_store and not (data_dir / DATABASE).is_file():
        reason = f"there is no store in {data_dir}: name the data directory, LIVESVM_DATA_DIR"
        raise ValueError(f"{reason}; if the models are in Redis, set LIVESVM_REDIS_URL")
    fresh = unfinished(to)
    try:
        with _at_rest(data_dir, has_store):
            for left in reversed(range(TRIES)):
                shutil.rmtree(fresh, ignore_errors=True)
                fresh.mkdir(parents=True, mode=0o700)
                try:
                    _copy(data_dir, fresh, has_store)
                    break
                except _Changed as error:
                    if not left:
                        raise StoreUnavailable(f"{error} again and again while it was copied") from error
        found: Document = {"made_at": datetime.now(UTC).isoformat(), "files": _sums(fresh)}
        write_whole(fresh / LIST, json.dumps(found, indent=1).encode())
        put_in_place(fresh, to)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return found


def restore(backup: Path, data_dir: Path) -> Document:
    """Create a data directory from a backup; return the backup's list of files.

    Raises ValueError if ``backup`` is no backup, or the data directory already has data of a service. Raises StoreInUse
    while a service uses the directory, StoreDamaged if a file of the backup was altered, and OSError.
    """
    try:
        found: Document = json.loads((backup / LIST).read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{backup} is no backup: it has no {LIST}") from None
    _check(backup, found["files"])
    lock = DirectoryLock(data_dir)
    try:
        if held := [path.name for path in data_dir.iterdir() if path.name.startswith((DATABASE, *PARTS))]:
            raise ValueError(f"{data_dir} holds {', '.join(sorted(held))} already: move that away first")
        try:
            for name in sorted(found["files"], key=lambda name: name == DATABASE):  # without it, nothing starts
                _copy_file(backup / name, data_dir / name)
        except BaseException:
            for name in (DATABASE, *PARTS):
                _remove(data_dir / name)
            raise
    finally:
        lock.release()
    return found


@contextmanager
def _at_rest(data_dir: Path, has_store: bool) -> Iterator[None]:
    """Lock the data directory during the block and check its store, unless a service runs on the directory."""
    try:
        lock = DirectoryLock(data_dir)
    except StoreInUse:
        yield
        return
    try:
        if has_store:
            SqliteStore(data_dir / DATABASE).close()
        yield
    finally:
        lock.release()


def _copy(data_dir: Path, to: Path, has_store: bool) -> None:
    if has_store:
        copy_database(data_dir / DATABASE, to / DATABASE)
        for described in _described(to / DATABASE):
            _copy_dataset(data_dir / DATASETS, to / DATASETS, described)
    else:
        _copy_tree(data_dir / DATASETS, to / DATASETS)
    _copy_jobs(data_dir / JOBS, to / JOBS)
    _copy_tree(data_dir / UNSTORED, to / UNSTORED)
    for name in (FILE, PUBLIC):
        if (data_dir / name).exists():
            _copy_file(data_dir / name, to / name)


def _described(database: Path) -> list[Document]:
    """Return the descriptions of all datasets in a database."""
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute("SELECT data FROM documents WHERE kind = ?", (KIND,)).fetchall()
    return [json.loads(data) for (data,) in rows]


def _copy_dataset(root: Path, to: Path, described: Document) -> None:
    """Copy the files of a dataset and check them; raises StoreDamaged, or _Changed if they were removed meanwhile."""
    name = str(described["directory"])
    try:
        for file in described["files"]:
            _copy_file(root / name / file, to / name / file)
    except FileNotFoundError as error:
        raise _Changed(f"dataset {described['name']} was replaced or deleted") from error
    Arrays(to / name, described)


def _copy_jobs(source: Path, to: Path) -> None:
    """Copy all jobs; of each, copy the record first, because a job writes its files before its record."""
    records = sorted(source.glob("*.job.json"))
    for record in records:
        _copy_tree(record, to / record.name)
    for path in source.iterdir() if records else ():
        if path not in records:
            _copy_tree(path, to / path.name)
    for record in records:
        if not record.exists():
            (to / record.name).unlink(missing_ok=True)


def _copy_tree(source: Path, to: Path) -> None:
    """Copy a file, or all finished files of a directory; skip files that are removed meanwhile."""
    try:
        if not source.is_dir():
            if source.exists() and source.suffix != ".new":
                _copy_file(source, to)
            return
        for path in source.iterdir():
            _copy_tree(path, to / path.name)
    except FileNotFoundError:
        pass


def _copy_file(source: Path, to: Path) -> None:
    """Copy a file with its mode, and sync the copy before it gets its final name; raises OSError."""
    to.parent.mkdir(parents=True, exist_ok=True)
    fresh = unfinished(to)
    shutil.copy(source, fresh)
    with fresh.open("rb") as file:
        os.fsync(file)
    put_in_place(fresh, to)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sums(directory: Path) -> dict[str, str]:
    """Map the path of each file in a directory and its subdirectories to the file's SHA-256."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != LIST)
    return {str(path.relative_to(directory)): _sum(path) for path in files}


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(backup: Path, files: dict[str, str]) -> None:
    """Raise StoreDamaged unless a backup has exactly the listed files."""
    found = _sums(backup)
    for name in sorted({*files, *found}):
        if name not in found:
            raise StoreDamaged(f"{backup} lacks {name}")
        if name not in files:
            raise StoreDamaged(f"{backup} holds {name}, which its list does not name")
        if files[name] != found[name]:
            raise StoreDamaged(f"{name} of {backup} does not match its checksum")
