"""High-water marks of the embedded store: what it has acknowledged, in a file beside the database.

A database that has less than its marks say has lost what it had acknowledged: the newest record of each model, a
deletion, or a document. Each mark is written once what it says is on the disk, and never before. It is not synced by
itself, so an update waits for the disk once: a crash of the process loses no mark, a loss of power the last seconds'.

The file is a row of slots of 128 bytes, each with a checksum. The first says since which boot of the machine it was
written; within that boot, nothing was acknowledged that it does not say.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.files import write_whole

ENDING = "-mark"
"""Of the file's name, behind that of the database."""
_SIZE = 128
_SLOT = struct.Struct(f"<BBQQ{_SIZE - 22}s")
_CHECKSUM = struct.Struct("<I")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DOCUMENTS = "documents:"
"""Name of the mark of all documents; no model has a colon in its id."""

log = logging.getLogger(__name__)


class Kind(IntEnum):
    """What a slot says."""

    BOOT = 1
    """Its name is the machine's boot."""
    STORED = 2
    """The model, or a document, is stored."""
    DELETING = 3
    """The model may be deleted."""
    DELETED = 4
    """The model is deleted."""
    LOST = 5
    """The database has less of the model than was acknowledged."""
    RETURNED = 6
    """The database has lost that a model of that id was deleted."""


_DAMAGE = (Kind.LOST, Kind.RETURNED)


@dataclass(frozen=True)
class Mark:
    """What is acknowledged of one name: its newest record, and the epoch of its making, deletion or change."""

    kind: Kind
    sequence: int = 0
    epoch: int = 0


class Marks:
    """The marks of one database; safe from any thread.

    Parameters
    ----------
    path : the file, which :meth:`write` makes
    found : the marks by name
    boot : the boot of the machine that they were written in
    """

    def __init__(self, path: Path, found: Mapping[str, Mark], boot: str = "") -> None:
        self._path = path
        self._marks = dict(found)
        self._boot = boot
        self._places: dict[str, int] = {}
        self._file: int | None = None
        self._lock = threading.Lock()
        self._is_synced = True
        self.damage: dict[str, str] = {}
        """What was lost, by the id of its model."""

    @property
    def is_exact(self) -> bool:
        """Whether nothing was acknowledged that the marks do not say."""
        return self._boot != "" and self._boot == _this_boot()

    @property
    def newest_epoch(self) -> int:
        """The newest epoch that any mark knows."""
        return max((mark.epoch for mark in self._marks.values()), default=0)

    @property
    def lost(self) -> list[str]:
        """Models that the database was found to have lost, or some of."""
        return sorted(name for name, mark in self._marks.items() if mark.kind in _DAMAGE)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored."""
        return all(mark.kind in (Kind.DELETING, Kind.DELETED) for mark in self._marks.values())

    def compare(self, heads: Mapping[str, int], epoch: int) -> list[str]:
        """Learn which models the database has lost, or some of; return those that were not known to be lost.

        Parameters
        ----------
        heads : the newest record of each model that the database has
        epoch : the newest epoch that the database has given out

        Raises
        ------
        StoreDamaged if it has lost documents
        """
        documents = self._marks.get(_DOCUMENTS)
        if documents is not None and documents.epoch > epoch:
            raise StoreDamaged(
                "descriptions of datasets, or receipts and traces of erasures, were acknowledged and are lost: "
                f"restore a backup, or remove {self._path} to go on without them"
            )
        self.damage.clear()
        new = []
        for name, mark in list(self._marks.items()):
            kind = mark.kind if name == _DOCUMENTS else _compared(mark, heads.get(name), epoch)
            if kind is None:
                del self._marks[name]
                continue
            self._marks[name] = replace(mark, kind=kind)
            if kind in _DAMAGE:
                self.damage[name] = self._reason(self._marks[name], heads.get(name))
                if mark.kind is not kind:
                    new.append(name)
        return new

    def adopt(self, heads: Mapping[str, int]) -> None:
        """Know that these records are on the disk; what is lost stays so."""
        for name, head in heads.items():
            mark = self._marks.get(name, Mark(Kind.STORED))
            self._marks[name] = replace(mark, sequence=max(head, mark.sequence))

    def _reason(self, mark: Mark, head: int | None) -> str:
        accept = f"stop the service and remove {self._path} to go on with what there is"
        if mark.kind is Kind.RETURNED:
            return f"it was deleted, and the database has lost that: delete it again, or {accept}"
        has = "does not have it" if head is None else f"has it up to record {head}"
        lost = f"it was acknowledged up to record {mark.sequence}, and the database {has}"
        return f"{lost}: restore a backup, delete the model, or {accept}"

    def write(self) -> None:
        """Write all marks anew, on the disk, without those of what is deleted; raises OSError."""
        with self._lock:
            self._marks = {name: mark for name, mark in self._marks.items() if mark.kind is not Kind.DELETED}
            self._boot = _this_boot()
            slots = {self._boot: Mark(Kind.BOOT)} | self._marks
            write_whole(self._path, b"".join(_packed(name, mark) for name, mark in slots.items()))
            self._forget()
            self._places = {name: place for place, name in enumerate(slots)}
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            self._is_synced = True

    def reached(self, model: str, sequence: int) -> None:
        """Know that a record is on the disk."""
        with self._lock:
            mark = self._marks.get(model, Mark(Kind.STORED))
            if sequence >= mark.sequence:
                self._put(model, replace(mark, kind=Kind.STORED, sequence=sequence))
                self.damage.pop(model, None)

    def created(self, model: str, sequence: int, epoch: int) -> None:
        """Know that a new model is on the disk."""
        with self._lock:
            self._put(model, Mark(Kind.STORED, sequence, epoch))
            self.damage.pop(model, None)

    def deleting(self, model: str) -> None:
        """Know that a model may be deleted from here on, until it is or its next record is on the disk."""
        with self._lock:
            before = self._marks.get(model)
            if before is not None and before.kind is not Kind.DELETED:
                self._put(model, replace(before, kind=Kind.DELETING))

    def deleted(self, model: str, epoch: int) -> None:
        """Know that the disk no longer has a model."""
        with self._lock:
            self._put(model, Mark(Kind.DELETED, 0, epoch))
            self.damage.pop(model, None)

    def documents_changed(self, epoch: int) -> None:
        """Know that a change of documents is on the disk."""
        with self._lock:
            before = self._marks.get(_DOCUMENTS, Mark(Kind.STORED))
            self._put(_DOCUMENTS, replace(before, epoch=max(epoch, before.epoch)))

    def sync(self) -> None:
        """Have the marks on the disk, so that a loss of power takes none of them; raises OSError."""
        with self._lock:
            if self._file is None or self._is_synced:
                return
            file, self._is_synced = os.dup(self._file), True
        try:
            os.fsync(file)  # outside of the lock, as updates are not to wait for it
        except OSError:
            self._is_synced = False
            raise
        finally:
            os.close(file)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._forget()

    def _put(self, name: str, mark: Mark) -> None:
        """Write one slot; where the disk does not take it, the mark is older than what it could say."""
        self._marks[name] = mark
        place = self._places.setdefault(name, len(self._places))
        if self._file is None:
            return
        try:
            os.pwrite(self._file, _packed(name, mark), place * _SIZE)
            self._is_synced = False
        except OSError as error:
            log.warning("the mark of %s was not written: %s", name, error)

    def _forget(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_marks(database: Path) -> Marks | None:
    """Return the marks beside a database, None if there are none that can be read; raises OSError."""
    path = database.with_name(database.name + ENDING)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    slots = [_unpacked(data[place : place + _SIZE]) for place in range(0, len(data), _SIZE)]
    good = dict(slot for slot in slots if slot is not None)
    if len(good) < len(slots):
        log.error(
            "%d of %d marks in %s are damaged; what they say is not compared", slots.count(None), len(slots), path
        )
    boots = [name for name, mark in good.items() if mark.kind is Kind.BOOT]
    marks = {name: mark for name, mark in good.items() if mark.kind is not Kind.BOOT}
    return Marks(path, marks, boots[0] if boots and None not in slots else "") if good else None


def new_marks(database: Path) -> Marks:
    """Return the marks of a database that had none."""
    return Marks(database.with_name(database.name + ENDING), {})


def _compared(mark: Mark, head: int | None, epoch: int) -> Kind | None:
    """What a model's mark says now that the database has it up to ``head``; None if there is nothing to say any more."""
    if mark.kind in (Kind.DELETED, Kind.RETURNED):
        is_back = head is not None and (mark.kind is Kind.RETURNED or mark.epoch > epoch)
        return Kind.RETURNED if is_back else None
    if head is None:
        return None if mark.kind is Kind.DELETING else Kind.LOST
    if mark.epoch > epoch:
        return Kind.RETURNED
    return Kind.LOST if head < mark.sequence else Kind.STORED


def _packed(name: str, mark: Mark) -> bytes:
    raw = name.encode()
    slot = _SLOT.pack(mark.kind, len(raw), mark.sequence, mark.epoch, raw)
    return _CHECKSUM.pack(zlib.crc32(slot)) + slot


def _unpacked(data: bytes) -> tuple[str, Mark] | None:
    """Name and mark of a slot, None if it is damaged."""
    slot = data[_CHECKSUM.size :]
    if len(data) != _SIZE or data[: _CHECKSUM.size] != _CHECKSUM.pack(zlib.crc32(slot)):
        return None
    kind, length, sequence, epoch, raw = _SLOT.unpack(slot)
    return raw[:length].decode(), Mark(Kind(kind), sequence, epoch)


def _this_boot() -> str:
    """What tells this boot of the machine from others; nothing where the system does not say."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""
