"""High-water marks of the embedded store: a file next to the database that tells which records were acknowledged.

The marks name the newest acknowledged record of each model, and acknowledged deletions and changes of documents. If the
database lacks an acknowledged record, deletion or change, the database has lost data. A mark is written after its
record is on the disk, and never before. Updates do not sync the marks, so that each update waits for the disk only
once. A crash of the process thus loses no mark, but a loss of power loses the marks of the last seconds.

The file is a sequence of slots of 128 bytes, each with a checksum. The first slot has the id of the machine's boot in
which the file was made. Until the next boot, everything that was acknowledged has its mark.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from livesvm.service.store.base import StoreDamaged
from livesvm.service.store.files import write_whole

ENDING = "-mark"
"""End of the file's name, behind the name of the database."""
_SIZE = 128
LONGEST = _SIZE - 22
"""Most bytes of a name in a mark."""
_SLOT = struct.Struct(f"<BBqq{LONGEST}s")
_CHECKSUM = struct.Struct("<I")
_SLOTS = np.dtype(
    [("check", "<u4"), ("kind", "u1"), ("length", "u1"), ("sequence", "<i8"), ("epoch", "<i8"), ("name", f"S{LONGEST}")]
)
"""A checksum and a slot as a row of an array, as a start reads a hundred thousand of them at once."""
_HASH = 32
_BOOT = Path("/proc/sys/kernel/random/boot_id")
DOCUMENTS = b"documents:"
"""Name of the mark of all documents; no model has a colon in its id."""
_UNUSED = b""
"""Name in an unused slot, which the next new name takes; its mark says "deleted", of no model."""
Slots = npt.NDArray[np.void]

log = logging.getLogger(__name__)


def marked(model: str) -> str:
    """Return the name of a model in the marks: its id, or the beginning and a hash of an id that is too long.

    Two tildes, which no id has in a row, separate the beginning of a long id from the hash.
    """
    if len(model) <= LONGEST:
        return model
    return f"{model[: LONGEST - _HASH - 2]}~~{blake2b(model.encode(), digest_size=_HASH // 2).hexdigest()}"


class Kind(IntEnum):
    """The kind of a slot: what it says about the model, documents or boot that it names."""

    BOOT = 1
    """The name is the id of the machine's boot."""
    STORED = 2
    """The model, or the documents, are stored."""
    DELETING = 3
    """The model may be deleted."""
    DELETED = 4
    """The model is deleted."""
    LOST = 5
    """The database has less of the model than was acknowledged."""
    RETURNED = 6
    """The database has lost the deletion of a model of that id."""


_DAMAGE = (Kind.LOST, Kind.RETURNED)


class Mark(NamedTuple):
    """The acknowledged state of a model or the documents: newest record, and epoch of creation, deletion or change."""

    kind: Kind
    sequence: int = 0
    epoch: int = 0


class Marks:
    """The high-water marks of one database; safe from any thread.

    Marks are kept in memory in the format of the file, which takes a third of the memory that Python objects would
    take.

    Parameters
    ----------
    path : the file, which :meth:`write` makes
    slots : the marks, without the slot of the boot
    boot : id of the boot of the machine in which they were written
    """

    def __init__(self, path: Path, slots: bytes = b"", boot: str = "") -> None:
        self._path = path
        self._boot = boot
        self._slots = bytearray(_packed(boot.encode(), Mark(Kind.BOOT)) + slots)
        self._find()
        self._file: int | None = None
        self._lock = threading.Lock()
        self._is_synced = True
        self.damage: dict[str, str] = {}
        """The loss of each model that has lost something, as a message, by the model's name in the marks."""

    def _find(self) -> None:
        """Find the slot of each mark, the unused slots, and the names of deleted models."""
        names: list[bytes] = self._rows()["name"].tolist()
        self._places = dict(zip(names[1:], range(1, len(names)), strict=True))
        self._places.pop(_UNUSED, None)
        is_full = len(self._places) == len(names) - 1
        self._unused = [] if is_full else sorted({*range(1, len(names))} - {*self._places.values()})
        self._deleted = {*self._named(Kind.DELETED)} - {_UNUSED}

    def _rows(self) -> Slots:
        return np.frombuffer(bytes(self._slots), _SLOTS)

    def _named(self, *kinds: Kind) -> list[bytes]:
        rows = self._rows()
        names: list[bytes] = rows["name"][np.isin(rows["kind"], kinds)].tolist()
        return names

    def _get(self, name: bytes) -> Mark | None:
        place = self._places.get(name)
        if place is None:
            return None
        kind, _, sequence, epoch, _ = _SLOT.unpack_from(self._slots, place * _SIZE + _CHECKSUM.size)
        return Mark(Kind(kind), sequence, epoch)

    @property
    def is_exact(self) -> bool:
        """Whether every acknowledged change has its mark: the machine has not restarted since the file was made."""
        return bool(self._boot) and self._boot == _this_boot()

    @property
    def newest_epoch(self) -> int:
        """The newest epoch in the marks."""
        return int(self._rows()["epoch"].max())

    @property
    def lost(self) -> list[str]:
        """The ids of models that the database has lost wholly or in part."""
        return sorted(name.decode() for name in self._named(*_DAMAGE))

    @property
    def is_empty(self) -> bool:
        """Whether the marks say that nothing is stored."""
        return not self._named(Kind.STORED, *_DAMAGE)

    def compare(self, heads: Mapping[bytes, int], epoch: int) -> list[str]:
        """Find the models that the database has lost wholly or in part; return the ids of newly found ones.

        Parameters
        ----------
        heads : the newest record of each model that the database has, by its name here as bytes
        epoch : the newest epoch that the database has given out

        Raises
        ------
        StoreDamaged if it has lost documents
        """
        documents = self._get(DOCUMENTS)
        if documents is not None and documents.epoch > epoch:
            raise StoreDamaged(
                "descriptions of datasets, or receipts and traces of erasures, were acknowledged and are lost: "
                f"restore a backup, or remove {self._path} to go on without them"
            )
        self.damage.clear()
        new = []
        rows, found = self._compared_with(heads)
        is_as_it_was = (rows["kind"] == Kind.STORED) & (rows["sequence"] <= found) & (rows["epoch"] <= epoch)
        for name in {*rows["name"][~is_as_it_was].tolist()} & self._places.keys() - {DOCUMENTS}:
            mark, head = self._get(name) or Mark(Kind.STORED), heads.get(name)
            kind = _compared(mark, head, epoch)
            if kind is None:
                self._forget(name)
                continue
            self._set(name, mark._replace(kind=kind))
            if kind in _DAMAGE:
                self.damage[name.decode()] = self._reason(mark._replace(kind=kind), head)
                if mark.kind is not kind:
                    new.append(name.decode())
        return new

    def adopt(self, heads: Mapping[bytes, int]) -> None:
        """Raise the marks to these newest records, which are on the disk; a mark that says "lost" keeps saying so."""
        rows, found = self._compared_with(heads)
        for name in {*rows["name"][found > rows["sequence"]].tolist()} | (heads.keys() - self._places.keys()):
            self._set(name, (self._get(name) or Mark(Kind.STORED))._replace(sequence=heads[name]))

    def _compared_with(self, heads: Mapping[bytes, int]) -> tuple[Slots, npt.NDArray[np.int64]]:
        """Return the rows of the marks, and for each row its model's newest record in the database, or -1."""
        rows = self._rows()
        return rows, np.array([heads.get(name, -1) for name in rows["name"].tolist()])

    def _reason(self, mark: Mark, head: int | None) -> str:
        accept = f"stop the service and remove {self._path} to go on with what there is"
        if mark.kind is Kind.RETURNED:
            return f"it was deleted, and the database has lost that: delete it again, or {accept}"
        has = "does not have it" if head is None else f"has it up to record {head}"
        lost = f"it was acknowledged up to record {mark.sequence}, and the database {has}"
        return f"{lost}: restore a backup, delete the model, or {accept}"

    def write(self) -> None:
        """Write all marks but those of deleted models into a new file, which is synced; raises OSError."""
        with self._lock:
            rows = self._rows()
            is_kept = rows["kind"] != Kind.DELETED
            is_kept[0] = False
            boot = _this_boot()
            slots = _packed(boot.encode(), Mark(Kind.BOOT)) + rows[is_kept].tobytes()
            write_whole(self._path, slots)
            self._close()
            if len(slots) < len(self._slots):
                self._slots = bytearray(slots)
                self._find()
            self._slots[:_SIZE], self._boot = slots[:_SIZE], boot
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            self._is_synced = True

    def forget_deleted(self) -> None:
        """Overwrite the marks of deleted models, and sync the file; raises OSError."""
        with self._lock:
            for name in list(self._deleted):
                if self._file is not None:
                    os.pwrite(self._file, _FREE, self._places[name] * _SIZE)
                    self._is_synced = False
                self._forget(name)
        self.sync()

    def reached(self, model: str, sequence: int) -> None:
        """Mark the record ``sequence`` of a model as one that is on the disk."""
        with self._lock:
            name = marked(model).encode()
            mark = self._get(name) or Mark(Kind.STORED)
            if sequence >= mark.sequence:
                self._put(name, mark._replace(kind=Kind.STORED, sequence=sequence))
                self.damage.pop(name.decode(), None)

    def reached_all(self, sequences: Mapping[str, int]) -> None:
        """Mark the given record of each of these models as one on the disk; adjacent marks take a single write."""
        with self._lock:
            places = []
            for model, sequence in sequences.items():
                name = marked(model).encode()
                mark = self._get(name) or Mark(Kind.STORED)
                if sequence >= mark.sequence:
                    places.append(self._set(name, mark._replace(kind=Kind.STORED, sequence=sequence)))
                    self.damage.pop(name.decode(), None)
            for first, last in _pieces(sorted(places)):
                self._put_slots(first, last)

    def created(self, model: str, sequence: int, epoch: int) -> None:
        """Record that a new model is on the disk."""
        with self._lock:
            self._put(marked(model).encode(), Mark(Kind.STORED, sequence, epoch))
            self.damage.pop(marked(model), None)

    def deleting(self, model: str) -> None:
        """Mark a model as perhaps deleted, until its deletion or its next record is on the disk."""
        with self._lock:
            name = marked(model).encode()
            before = self._get(name)
            if before is not None and before.kind is not Kind.DELETED:
                self._put(name, before._replace(kind=Kind.DELETING))

    def deleted(self, model: str, epoch: int) -> None:
        """Record that the deletion of a model is on the disk."""
        with self._lock:
            self._put(marked(model).encode(), Mark(Kind.DELETED, 0, epoch))
            self.damage.pop(marked(model), None)

    def documents_changed(self, epoch: int) -> None:
        """Record that a change of documents is on the disk."""
        with self._lock:
            before = self._get(DOCUMENTS) or Mark(Kind.STORED)
            self._put(DOCUMENTS, before._replace(epoch=max(epoch, before.epoch)))

    def sync(self) -> None:
        """Sync the file, so that a loss of power loses no mark; raises OSError."""
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
            self._close()

    def _put(self, name: bytes, mark: Mark) -> None:
        """Write one mark; if the disk does not take it, the file keeps the older mark."""
        place = self._set(name, mark)
        self._put_slots(place, place)

    def _put_slots(self, first: int, last: int) -> None:
        """Write the slots from the place ``first`` to ``last``; an error of the disk is logged."""
        try:
            if self._file is not None:
                os.pwrite(self._file, self._slots[first * _SIZE : (last + 1) * _SIZE], first * _SIZE)
                self._is_synced = False
        except OSError as error:
            log.warning("%d marks from place %d on were not written: %s", last - first + 1, first, error)

    def _set(self, name: bytes, mark: Mark) -> int:
        """Change one mark in memory; return the number of its slot."""
        place, slot = self._places.get(name), _packed(name, mark)
        if place is None:
            place = self._unused.pop() if self._unused else len(self._slots) // _SIZE
            self._places[name] = place
        self._slots[place * _SIZE : (place + 1) * _SIZE] = slot
        if mark.kind is Kind.DELETED:
            self._deleted.add(name)
        else:
            self._deleted.discard(name)
        return place

    def _forget(self, name: bytes) -> None:
        """Make the slot of one mark free in memory."""
        place = self._places.pop(name)
        self._deleted.discard(name)
        self._unused.append(place)
        self._slots[place * _SIZE : (place + 1) * _SIZE] = _FREE

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_marks(database: Path) -> Marks | None:
    """Return the high-water marks next to a database, None if there is no file or no whole mark; raises OSError."""
    path = database.with_name(database.name + ENDING)
    try:
        data = memoryview(path.read_bytes())
    except FileNotFoundError:
        return None
    whole = len(data) // _SIZE * _SIZE
    rows: Slots = np.frombuffer(data[:whole], _SLOTS)
    begin = _CHECKSUM.size
    sums = [zlib.crc32(data[place + begin : place + _SIZE]) for place in range(0, whole, _SIZE)]
    is_good = rows["check"] == np.array(sums, np.uint32)
    damaged = int(np.count_nonzero(~is_good)) + (whole < len(data))
    if damaged:
        log.error(
            "%d of %d marks in %s are damaged; what they say is not compared", damaged, -(-len(data) // _SIZE), path
        )
    is_boot = is_good & (rows["kind"] == Kind.BOOT)
    boots: list[Any] = rows["name"][is_boot].tolist()
    boot = boots[0].decode() if boots and not damaged else ""
    return Marks(path, rows[is_good & ~is_boot].tobytes(), boot) if is_good.any() else None


def new_marks(database: Path) -> Marks:
    """Return empty high-water marks for a database that has no file of them."""
    return Marks(database.with_name(database.name + ENDING))


def _compared(mark: Mark, head: int | None, epoch: int) -> Kind | None:
    """Return the new kind of a model's mark, or None to drop it; ``head`` is the newest record in the database."""
    if mark.kind in (Kind.DELETED, Kind.RETURNED):
        is_back = head is not None and (mark.kind is Kind.RETURNED or mark.epoch > epoch)
        return Kind.RETURNED if is_back else None
    if head is None:
        return None if mark.kind is Kind.DELETING else Kind.LOST
    if mark.epoch > epoch:
        return Kind.RETURNED
    return Kind.LOST if head < mark.sequence else Kind.STORED


def _pieces(places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of each run of consecutive places, ascending."""
    there = set(places)
    firsts = [place for place in places if place - 1 not in there]
    lasts = [place for place in places if place + 1 not in there]
    yield from zip(firsts, lasts, strict=True)


def _packed(name: bytes, mark: Mark) -> bytes:
    slot = _SLOT.pack(mark.kind, len(name), mark.sequence, mark.epoch, name)
    return _CHECKSUM.pack(zlib.crc32(slot)) + slot


_FREE = _packed(_UNUSED, Mark(Kind.DELETED))


def _this_boot() -> str:
    """Return the id of this boot of the machine, empty if the system has none."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""
