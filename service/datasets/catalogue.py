"""The datasets of one service: their files in its data directory, their descriptions in the store.

Where the store is shared, another service knows the descriptions and not the files. On a Ray cluster it gets them from
the front end that has them, by a :class:`Carrier`, for as long as a job needs them; else it says so by name.

A dataset is what its description says, and the description is written last and in one step: half an upload is never
seen, and one that replaces another is seen whole. Files that no description knows are what a crash has left, and go
with the next start.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from livesvm.service.datasets.parsing import Format
from livesvm.service.errors import (
    CutOff,
    DatasetElsewhere,
    TooManyDatasets,
)
from livesvm.service.resources.memory import MEGABYTE
from livesvm.service.store.base import DocumentName, StoreUnavailable

KIND = "dataset"
DIRECTORY = "datasets"
"""Below the data directory."""
PARSING = "livesvm.service.datasets.parsing:parse"
PARSING_BYTES = 96 * MEGABYTE
"""Memory that reading a file takes, whatever its size."""
SALT = 32
"""Bytes."""
MOST_BYTES = 768 * MEGABYTE
"""That it may have, with libraries and room to spare."""

Document = dict[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """How an upload is to be read: its format, and which columns of a table hold targets, weights and keys."""

    format: Format
    target: str | None = None
    weights: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Found:
    """Rows of one dataset that are to be forgotten: where it is, what stands for their keys, how many they are."""

    name: str
    directory: str
    marks: list[str]
    rows: int


class Carrier(Protocol):
    """What gets the files of a dataset from the front end that has them; raises DatasetElsewhere, StoreError."""

    holder: str
    """This front end, by a name that it keeps."""

    def announce(self) -> None:
        """Tell the others where the files of this one are."""

    def where(self, described: Document) -> Document:
        """Where on the cluster the files of a dataset are; raises as :meth:`directory`."""
        now = self.check(described)
        here = {} if self._carrier_of(now) else {"directory": str(self.directory(described).resolve())}
        return here if self._carrier is None else self._carrier.where({"held_by": self._carrier.holder} | now)

    def brought(self, described: Document, to: Path, check: Callable[[], None]) -> Path:
        """Where the files of a dataset are, here: brought ``to`` a directory if they are with another front end.

        Raises as :meth:`directory`, and what ``check`` does.
        """
        carrier = self._carrier_of(now := self.check(described))
        if carrier is None:
            return self.directory(described)
        with _on_disk():
            to.mkdir(parents=True, exist_ok=True)
            carrier.bring(now, to, check)
        return to

    def _carrier_of(self, described: Document) -> Carrier | None:
        """What gets the files of a dataset that another front end has; None for one that has to be here."""
        carrier = self._carrier
        if carrier is None or described["is_here"] or described.get("held_by", carrier.holder) == carrier.holder:
            return None
        return carrier

    def directory(self, described: Document) -> Path:
        """Where the files of a dataset are.

        Raises UnknownDataset if it is no longer the one that was described, DatasetElsewhere if they are not here.
        """
        self.check(described)
        directory = self._root / str(described["directory"])
        if not directory.is_dir():
            reason = "was uploaded to another machine that shares the store; upload it here too"
            raise DatasetElsewhere(f"dataset {described['name']} is not in {self._root}: it {reason}")
        return directory

    def _announce(self) -> None:
        if self._carrier is not None:
            self._carrier.announce()

    def close(self) -> None:
        """End what is being read."""
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
            raise TooManyDatasets(f"there are {self._settings.max_datasets} datasets, the limit")

    def _check_open(self) -> None:
        if self._closed:
            raise CutOff("the service stops")

    def _work(self, upload: Upload, asked: Asked, salt: str) -> Document:
        return {
            "salt": salt,
            "file": str(upload.path),
            "directory": str(upload.directory),
            "most_bytes": self._settings.dataset_bytes,
            "most_features": self._settings.max_features,
            "memory": MOST_BYTES,
            **vars(asked),
        }

    def _remove(self, described: Document) -> None:
        shutil.rmtree(self._root / str(described["directory"]), ignore_errors=True)


class _on_disk:  # noqa: N801 - a context, as a function would be
    """Turn what a disk refuses into StoreUnavailable."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise StoreUnavailable(f"the disk does not take the dataset: {error}") from error


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def copy_data(source: Path, target: Path) -> None:
    """Copy the files of all datasets from one data directory to another; raises OSError."""
    if (source / DIRECTORY).is_dir():
        shutil.copytree(source / DIRECTORY, target / DIRECTORY, dirs_exist_ok=True)
