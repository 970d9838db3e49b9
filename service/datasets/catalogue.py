"""The datasets of one service, with files in the service's data directory and descriptions in the store.

If services share the store, other services read the descriptions but do not have the files. On a Ray cluster,
:class:`FrontEnds` gets the files from the front end that has them, for as long as a job needs them; without Ray, other
services raise DatasetElsewhere.

The description of a dataset is written last and in one step, so that neither half an upload nor half a replacement is
visible. Files without a description are remains of a crash, and the next start removes these files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from livesvm.service import crash
from livesvm.service.datasets import rewriting
from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.disk_share import DiskShare
from livesvm.service.datasets.parsing import Format
from livesvm.service.errors import (
    BodyTooLarge,
    CutOff,
    DatasetElsewhere,
    MalformedBody,
    TooManyDatasets,
    UnknownDataset,
    UnsupportedMedia,
)
from livesvm.service.files import parquet
from livesvm.service.models.row_marks import among, from_text, marks_of, to_text
from livesvm.service.monitoring.health import Health
from livesvm.service.resources.memory import MEGABYTE, Budget
from livesvm.service.resources.subprocess_work import run_beside
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, Store, StoreDamaged, StoreError, StoreUnavailable
from livesvm.service.store.files import sync_names

KIND = "dataset"
DIRECTORY = "datasets"
"""Directory of all datasets, below the data directory."""
PARSING = "livesvm.service.datasets.parsing:parse"
PARSING_BYTES = 96 * MEGABYTE
"""Memory that reading a file takes, whatever its size."""
SALT = 32
"""Bytes of a salt."""
MOST_BYTES = 768 * MEGABYTE
"""Memory limit of the process that reads a file, with libraries and a reserve; at most the service's own."""

Document = dict[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UploadFormat:
    """The way to read an upload: its format, and which columns of a table have targets, weights and keys.

    Parameters
    ----------
    options : those of :class:`.FileOptions` that describe a text table, as far as they are set
    columns : of a table that keeps words, times and missing cells: "auto", or a mapping for each; None: numbers only
    """

    format: Format
    target: str | None = None
    weights: str | None = None
    key: str | None = None
    options: Mapping[str, Any] | None = None
    columns: Any = None


@dataclass(frozen=True)
class Found:
    """Rows of one dataset to erase: the dataset's directory, the marks of the rows' keys, and the number of rows.

    ``held_by`` names another front end that has the dataset; until it has searched the dataset, ``rows`` is None, and
    ``marks`` has the marks of all keys to erase.
    """

    name: str
    directory: str
    marks: list[str]
    rows: int | None
    held_by: str | None = None


class FrontEnds(Protocol):
    """One front end's access to the others of a Ray cluster. All methods wait for the store, and raise StoreError."""

    holder: str
    """Name of this front end, which stays the same after a restart."""

    def announce(self) -> None:
        """Publish the location of this front end's files."""

    def keep(self) -> None:
        """Publish the location of this front end's files, if the location has changed."""

    def leave(self) -> None:
        """Publish that this front end has left; errors of the store are not raised."""

    def is_away(self, holder: str) -> bool:
        """Return whether a front end has left, or shows no sign of life."""

    def where(self, described: Mapping[str, Any]) -> Document:
        """Return the location of a dataset's files, for processes with access to it; raises DatasetElsewhere."""

    def bring(self, described: Mapping[str, Any], to: Path, check: Callable[[], None]) -> None:
        """Copy the files of a dataset to a directory; raises DatasetElsewhere, and any error of ``check``."""

    def job_file(self, holder: str, name: str) -> bytes:
        """Return the content of a job's file from another front end, which may be away."""


class Upload:
    """A file that is being received, in a directory of its own."""

    def __init__(self, directory: Path, limit: int, room: DiskShare) -> None:
        self.directory, self._limit, self._share = directory, limit, room
        self._digest = hashlib.sha256()
        self.size = 0
        with _on_disk():
            directory.mkdir(parents=True)
            self._file: BinaryIO = self.path.open("wb")

    @property
    def path(self) -> Path:
        """File to which the received bytes are written."""
        return self.directory / "upload"

    def write(self, data: bytes) -> None:
        """Append bytes; raises BodyTooLarge, TooManyDatasets or StoreUnavailable."""
        self.size += len(data)
        if self.size > self._limit:
            raise BodyTooLarge(f"the dataset has more than {self._limit} bytes (LIVESVM_DATASET_BYTES)")
        self._digest.update(data)
        with _on_disk():
            self._share.check()
            self._file.write(data)

    def received(self, expected: str | None) -> str:
        """Close the file, and return its SHA-256; raises MalformedBody if that differs from ``expected``."""
        with _on_disk():
            self._file.close()
        found = self._digest.hexdigest()
        if expected is not None and expected.lower() != found:
            raise MalformedBody(f"the body has the SHA-256 {found}, not the one that was announced")
        return found

    def discard(self) -> None:
        """Remove the upload, unless it has become a dataset."""
        with suppress(OSError):
            self._file.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Datasets:
    """The datasets of one service; its methods wait for disk and store, so the event loop must not call them."""

    def __init__(
        self, settings: Settings, store: Store, health: Health, budget: Budget, fronts: FrontEnds | None = None
    ) -> None:
        self._settings, self._store, self._health, self._budget = settings, store, health, budget
        self._fronts = fronts
        self._root = settings.data_dir / DIRECTORY
        self._share = DiskShare(self._root, settings.datasets_share, settings.disk_room_mb * MEGABYTE)
        self._lock = threading.Lock()
        self._closed = False
        self._known: set[str] = set()
        """Local directories of the datasets that existed at the last look."""

    def tidy(self) -> None:
        """Remove files without a description, before the first upload; does nothing while the store is away."""
        if not self._root.is_dir():
            return
        try:
            with self._health.store_call("load"):
                self._announce()
                described = [self._described(at.name) for at in self._store.documents(KIND)]
        except (StoreUnavailable, StoreDamaged) as error:
            log.warning("datasets are left as they are: %s", error)
            return
        known = {found["directory"] for found in described if found is not None}
        for directory in self._root.iterdir():
            if directory.name not in known:
                log.warning("%s belongs to no dataset and is removed", directory)
                shutil.rmtree(directory, ignore_errors=True)

    def begin(self, name: str) -> Upload:
        """Create a directory for an upload; raises TooManyDatasets, StoreUnavailable."""
        self._check_room(name)
        return self.passing()

    def passing(self) -> Upload:
        """Create a directory for an upload that is used once and not kept; raises StoreUnavailable."""
        return Upload(self._root / f"d-{secrets.token_hex(8)}", self._settings.dataset_bytes, self._share)

    def worked(self, work: str, asked: Document) -> Document:
        """Process an upload in a separate process, and return the result.

        Raises InvalidInput, MemoryBusy, CutOff, WorkerLost, TooManyDatasets or StoreError.
        """
        limits = {"most_bytes": self._settings.dataset_bytes, "memory": self._memory}
        with self._budget.holding("bodies", PARSING_BYTES):
            return run_beside(work, asked | limits, lambda _: None, self._check)

    @property
    def _memory(self) -> int:
        return min(MOST_BYTES, self._settings.memory_mb * MEGABYTE)

    def finish(self, upload: Upload, name: str, asked: UploadFormat, expected: str | None) -> tuple[Document, bool]:
        """Turn a complete upload into a dataset; return the dataset's description, and whether its name is new.

        Raises InvalidInput, with row and column, MalformedBody, UnsupportedMedia, TooManyDatasets, MemoryBusy, CutOff,
        WorkerLost or StoreError; a dataset with this name then stays as it was.
        """
        if asked.format == "parquet" and not parquet.is_there():
            raise UnsupportedMedia("parquet files are read where livesvm[parquet] is installed; here it is not")
        sha256 = upload.received(expected)
        salt = secrets.token_hex(SALT)
        found = self.worked(PARSING, self._work(upload, asked, salt))
        self._check()
        with _on_disk():
            upload.path.unlink()
            sync_names(upload.directory)
            sync_names(self._root)
        described = {"name": name, "format": asked.format, "created_at": time.time(), "sha256": sha256}
        described |= {"uploaded_bytes": upload.size, "directory": upload.directory.name, **found}
        described |= {"salt": salt} if found["has_keys"] else {}
        described |= {"held_by": self._fronts.holder} if self._fronts is not None else {}
        with self._lock:
            self._check_room(name)
            before = self._described(name)
            with self._health.store_call("document"):
                self._announce()
                self._store.put_document(DocumentName(KIND, name), json.dumps(described).encode())
            self._known.add(upload.directory.name)
        if before is not None:
            self._remove(before)
        return described | {"is_here": True}, before is None

    @property
    def most_classes(self) -> int:
        """The largest number of classes that a model may learn from a dataset."""
        return self._settings.max_classes

    def all(self) -> list[Document]:
        """Return the descriptions of all datasets by name, except damaged descriptions, which are logged."""
        found = []
        with self._health.store_call("load"):
            names = [at.name for at in self._store.documents(KIND)]
        for name in names:
            with suppress(UnknownDataset):
                try:
                    found.append(self.get(name))
                except StoreDamaged as error:
                    log.warning("%s", error)
        return found

    def get(self, name: str) -> Document:
        """Return the description of one dataset; raises UnknownDataset or StoreError."""
        found = self._described(name)
        if found is None:
            raise UnknownDataset(f"there is no dataset {name[:64]!r}")
        return found

    def delete(self, name: str) -> None:
        """Delete a dataset and its files, even if its description is damaged; raises UnknownDataset or StoreError."""
        with self._lock:
            try:
                before = self.get(name)
            except StoreDamaged as error:
                log.warning("%s; its files go with the next start", error)
                before = None
            with self._health.store_call("document"):
                self._store.delete_document(DocumentName(KIND, name))
        if before is not None:
            self._remove(before)

    def find(self, keys: Sequence[int | str]) -> tuple[list[Found], list[str], set[int | str]]:
        """Return the rows with these keys in all datasets, the datasets that could not be searched, and the keys found.

        Other front ends must still search their own datasets. Raises StoreUnavailable.
        """
        found, unsearched = [], []
        known: set[int | str] = set()
        with self._lock:
            for described in self.all():
                try:
                    rows = self._wanted(described, keys) if described["has_keys"] else None
                except (StoreError, UnknownDataset) as error:
                    log.warning("dataset %s cannot be searched: %s", described["name"], error)
                    unsearched.append(str(described["name"]))
                else:
                    if rows is not None:
                        found.append(rows)
                        known |= set() if rows.rows is None else _named(described["salt"], keys, rows)
                    unsearched += [] if described["has_keys"] else [str(described["name"])]
        return found, unsearched, known

    def _wanted(self, described: Document, keys: Sequence[int | str]) -> Found | None:
        wanted = to_text(marks_of(described["salt"], keys))
        found = Found(described["name"], described["directory"], wanted, None, described.get("held_by"))
        return self._found(described, found) if self._holder_of(described) is None else found

    def _found(self, described: Document, asked: Found) -> Found | None:
        arrays, wanted = Arrays(self.directory(described), described), from_text(asked.marks)
        marks = arrays.marks()
        assert marks is not None
        rows = int(among(marks, wanted).sum())
        return replace(asked, marks=to_text(wanted[among(wanted, marks)]), rows=rows) if rows else None

    def narrowed(self, asked: Found) -> Found | None:
        """Search a local dataset for rows, and return the rows found; None if it has no such rows or was replaced.

        Raises StoreError.
        """
        with self._lock:
            described = self._described(asked.name)
            is_there = described is not None and described["directory"] == asked.directory
            return self._found(described, asked) if described is not None and is_there else None

    def look(self) -> None:
        """Remove the local files of datasets that another front end has deleted or replaced; raises StoreError."""
        with self._lock:
            with self._health.store_call("load"):
                described = [self._described(at.name) for at in self._store.documents(KIND)]
            now = {str(found["directory"]) for found in described if found is not None and found["is_here"]}
            for directory in self._known - now:
                shutil.rmtree(self._root / directory, ignore_errors=True)
            self._known = now | {directory for directory in self._known if (self._root / directory).exists()}

    def erase(self, found: Sequence[Found]) -> None:
        """Erase rows from the files of datasets, one dataset after the other; a StoreError stops the erasure.

        New files are written next to the old ones. A new description then names the new files, and the old files are
        removed.
        """
        for each in found:
            with self._lock:
                described = self._described(each.name)
                if described is not None and described["directory"] == each.directory:
                    self._rewrite(described, each)
                shutil.rmtree(self._root / each.directory, ignore_errors=True)
                if (self._root / each.directory).exists():
                    raise StoreUnavailable(f"the old files of dataset {each.name} cannot be removed")

    def _rewrite(self, described: Document, found: Found) -> None:
        at = DocumentName(KIND, described["name"])
        fresh = self._root / f"d-{secrets.token_hex(8)}"
        with _on_disk():
            fresh.mkdir()
            arrays = Arrays(self._root / found.directory, described)
            now = rewriting.without(arrays, from_text(found.marks), fresh)
            sync_names(fresh)
            sync_names(self._root)
        crash.point("erase-rewritten")
        with self._health.store_call("document"):
            if now is None:
                self._store.delete_document(at)
            else:
                renewed = {**described, **now, "directory": fresh.name, "sha256": rewriting.checksum(now)}
                self._store.put_document(at, json.dumps(renewed).encode())
        if now is None:
            shutil.rmtree(fresh, ignore_errors=True)

    def check(self, described: Document) -> Document:
        """Return the present description of a dataset; raises UnknownDataset if it was deleted or replaced."""
        now = self._described(described["name"])
        if now is None or now["directory"] != described["directory"]:
            what = "deleted" if now is None else "replaced"
            raise UnknownDataset(f"dataset {described['name']} was {what} since this was asked for")
        return now

    def where(self, described: Document) -> Document:
        """Return the location of a dataset's files on the cluster; raises the errors of :meth:`directory`."""
        now = self.check(described)
        here = {} if self._holder_of(now) else {"directory": str(self.directory(described).resolve())}
        return here if self._fronts is None else self._fronts.where({"held_by": self._fronts.holder} | now)

    def brought(self, described: Document, to: Path, check: Callable[[], None]) -> Path:
        """Return a local directory with a dataset's files; if another front end has the files, copy them into ``to``.

        Raises the errors of :meth:`directory`, and any error of ``check``.
        """
        others = self._holder_of(now := self.check(described))
        if others is None:
            return self.directory(described)
        with _on_disk():
            to.mkdir(parents=True, exist_ok=True)
            others.bring(now, to, check)
        return to

    def _holder_of(self, described: Document) -> FrontEnds | None:
        """Return the front ends if another of them has a dataset's files; None if the files must be here."""
        own = None if self._fronts is None else self._fronts.holder
        return None if described["is_here"] or described.get("held_by", own) == own else self._fronts

    def directory(self, described: Document) -> Path:
        """Return the local directory with the files of a dataset.

        Raises UnknownDataset if the dataset was deleted or replaced, DatasetElsewhere if its files are not here.
        """
        self.check(described)
        directory = self._root / str(described["directory"])
        if not directory.is_dir():
            reason = "was uploaded to another machine that shares the store; upload it here too"
            raise DatasetElsewhere(f"dataset {described['name']} is not in {self._root}: it {reason}")
        return directory

    def _announce(self) -> None:
        if self._fronts is not None:
            self._fronts.announce()

    def close(self) -> None:
        """Stop the processing of uploads."""
        self._closed = True

    def _described(self, name: str) -> Document | None:
        with self._health.store_call("load"):
            data = self._store.document(DocumentName(KIND, name))
        if data is None:
            return None
        found: Document = json.loads(data)
        return found | {"is_here": (self._root / str(found["directory"])).is_dir()}

    def _check_room(self, name: str) -> None:
        with self._health.store_call("load"):
            names = {at.name for at in self._store.documents(KIND)} | {name}
        if len(names) > self._settings.max_datasets:
            most = self._settings.max_datasets
            raise TooManyDatasets(f"there are {most} datasets, as many as LIVESVM_MAX_DATASETS allows")

    def _check(self) -> None:
        """Raise CutOff or TooManyDatasets if an upload must not continue."""
        if self._closed:
            raise CutOff("the service stops")
        with _on_disk():
            self._share.check()

    def _work(self, upload: Upload, asked: UploadFormat, salt: str) -> Document:
        return {
            "salt": salt,
            "file": str(upload.path),
            "directory": str(upload.directory),
            "most_features": self._settings.max_features,
            **vars(asked),
        }

    def _remove(self, described: Document) -> None:
        shutil.rmtree(self._root / str(described["directory"]), ignore_errors=True)


def _named(salt: str, keys: Sequence[int | str], rows: Found) -> set[int | str]:
    """Return the keys of the found rows."""
    wanted = among(marks_of(salt, keys), from_text(rows.marks))
    return {key for key, is_there in zip(keys, wanted.tolist(), strict=True) if is_there}


@contextmanager
def _on_disk() -> Iterator[None]:
    """Convert disk errors in the ``with`` block to StoreUnavailable."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the disk does not take the dataset: {error}") from error


def copy_data(source: Path, target: Path) -> None:
    """Copy the files of all datasets from one data directory to another; raises OSError."""
    if (source / DIRECTORY).is_dir():
        shutil.copytree(source / DIRECTORY, target / DIRECTORY, dirs_exist_ok=True)
