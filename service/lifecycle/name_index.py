"""An index of models and feeds that may contain a key or a tag, so that an erasure need not read all stored histories.

For each history, the index has marks: 32-bit hashes of all keys, all tags and all words in names of requests. The index
is stored in documents. A history is read in vain if another name has the same mark, or if the name was removed after it
was marked. An index entry has the marks of all names that its history had when the entry was made. An entry is used
while its history is unchanged. An entry is also used while the history keeps the snapshot that was its newest when the
entry was made; in this case the log after the snapshot is read too.

No mark of an erased name remains, because entries with this mark are removed before the erasure begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from livesvm.service.history.erasure import BEGUN, begun
from livesvm.service.history.rescue import rescued
from livesvm.service.lifecycle.receipts import RECEIPT
from livesvm.service.lifecycle.search import Naming, Sought, held, mark, words
from livesvm.service.store import codec
from livesvm.service.store.base import DocumentName, Head, Store, StoreDamaged

KIND = "names"
"""The kind of documents, each with the entries of one bucket."""
BUCKETS = 32
LEAST = 8
"""With fewer histories in a bucket, to read them is as fast as to write the bucket's document."""
STALE = 8
"""A bucket is written when more than one in so many of its entries is new."""
FORMAT = 1

Marks = NDArray[np.uint32]


class LogPosition(NamedTuple):
    """A position in a history: its lease, its newest log record, and its newest snapshot's record and Unix time."""

    epoch: int
    writer: str
    sequence: int
    snapshot: int
    saved_at: float

    def is_at(self, head: Head) -> bool:
        """Return whether the history still has the lease and the newest record of this position."""
        return self[:3] == (head.lease.epoch, head.lease.writer, head.sequence)


class IndexEntry(NamedTuple):
    """The marks of the names in a history, and the position of the history when the marks were read."""

    position: LogPosition
    marks: Marks


class _Wanted:
    """The marks of the names to find: of each whole name, and of the words in each name."""

    def __init__(self, sought: Sought) -> None:
        texts = dict.fromkeys(sought.texts)
        self._names = {mark(name) for name in (*sought.keys, *sought.tags)}
        self._words = [set(map(mark, words(text))) for text in texts]
        self._all = np.array(sorted(self._names.union(*self._words)), np.uint32)

    def suspects(self, entries: dict[str, IndexEntry]) -> set[str]:
        """Return the ids of models and feeds with an index entry that may contain one of the names."""
        if not (entries and all(self._words)):  # a name without a word may be anywhere in that of a request
            return set(entries)
        ids, marks = list(entries), [entry.marks for entry in entries.values()]
        every, ends = np.concatenate(marks), np.cumsum(list(map(len, marks)))
        place = np.minimum(np.searchsorted(self._all, every), len(self._all) - 1)
        near = np.searchsorted(ends, np.flatnonzero(self._all[place] == every), side="right")
        return {ids[place] for place in set(near.tolist()) if self._may_be_in(set(marks[place].tolist()))}

    def _may_be_in(self, marks: set[int]) -> bool:
        return not self._names.isdisjoint(marks) or any(found <= marks for found in self._words)


class NameIndex:
    """The index of names in a store; its methods wait for the store, and raise StoreError."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store, self._data_dir = store, data_dir

    def holding(self, sought: Sought) -> dict[str, Naming]:
        """Return the names found in each model or feed; read in full every history that may contain one of the names.

        The result includes histories that have only a key in another spelling, or a training that cannot be searched.
        """
        before, ids = self._erasures(), [found.id for found in self._store.index()]
        unfit = rescued(self._data_dir, ids) | {part.stored for one in begun(self._store) for part in one.parts}
        buckets: list[list[str]] = [[] for _ in range(BUCKETS)]
        for id_ in ids:
            buckets[_bucket(id_)].append(id_)
        wanted, found = _Wanted(sought), dict[str, Naming]()
        for number, those in enumerate(buckets):
            found |= self._of_bucket(number, those, sought, wanted, unfit)
        if self._erasures() != before:  # another service may have erased what was just read
            for at in self._store.documents(KIND):
                self._store.delete_document(at)
        return found

    def drop(self, stored: Iterable[str]) -> None:
        """Remove the index documents that have entries of these models and feeds."""
        for number in {_bucket(one) for one in stored}:
            self._store.delete_document(_at(number))

    def _erasures(self) -> set[DocumentName]:
        """Return the names of the documents of all erasures and receipts; none if no other service can erase."""
        return {at for kind in (BEGUN, RECEIPT) for at in self._store.documents(kind)} if self._store.shared else set()

    def _of_bucket(
        self, number: int, ids: Sequence[str], sought: Sought, wanted: _Wanted, unfit: set[str]
    ) -> dict[str, Naming]:
        before, heads = self._load(number), self._store.heads(ids)
        suspects, found, now, n_new = (
            wanted.suspects(before) | unfit,
            dict[str, Naming](),
            dict[str, IndexEntry](),
            0,
        )
        for id_ in ids:
            head, entry = heads.get(id_), None if id_ in suspects else before.get(id_)
            if head is not None and entry is not None and entry.position.is_at(head):
                now[id_] = entry
                continue
            what, entry = self._mended(id_, entry, head, sought) or self._read(id_, head, sought)
            if what or what.respelled or what.unsearched:
                found[id_] = what
            if not what and entry is not None and id_ not in unfit:
                now[id_], n_new = entry, n_new + 1
        is_to_go = not suspects.isdisjoint(before) or not before.keys() <= now.keys()
        if is_to_go or n_new * STALE > len(ids) >= LEAST:
            self._write(number, now)
        return found

    def _mended(
        self, id_: str, entry: IndexEntry | None, head: Head | None, sought: Sought
    ) -> tuple[Naming, IndexEntry] | None:
        """Read the log after the snapshot of an index entry; return None if the whole history must be read instead."""
        if entry is None or head is None:
            return None
        known = entry.position.snapshot, entry.position.saved_at
        if known not in [(one.sequence, one.saved_at) for one in self._store.snapshots(id_)]:
            return None
        what = held(self._store, self._data_dir, id_, sought, behind=entry.position.snapshot)
        if what or what.marks is None:
            return None
        return what, IndexEntry(_position(head, *known), np.union1d(entry.marks, _array(what.marks)))

    def _read(self, id_: str, head: Head | None, sought: Sought) -> tuple[Naming, IndexEntry | None]:
        """Read the whole history of a model or feed."""
        newest = [(one.sequence, one.saved_at) for one in self._store.snapshots(id_)[:1] if not one.is_damaged]
        what = held(self._store, self._data_dir, id_, sought)
        if head is None or what.marks is None:
            return what, None
        return what, IndexEntry(_position(head, *(newest or [(0, 0.0)])[0]), _array(what.marks))

    def _load(self, number: int) -> dict[str, IndexEntry]:
        try:
            if (data := self._store.document(_at(number))) is None:
                return {}
            document = codec.unpack(data)
        except StoreDamaged:
            return {}
        if document["format"] != FORMAT:
            return {}
        marks = np.split(np.frombuffer(document["marks"], "<u4"), np.cumsum(document["sizes"])[:-1])
        positions = (LogPosition(*one) for one in document["stands"])
        return dict(zip(document["ids"], map(IndexEntry, positions, marks), strict=True))

    def _write(self, number: int, entries: dict[str, IndexEntry]) -> None:
        if not entries:
            self._store.delete_document(_at(number))
            return
        marks = [entry.marks for entry in entries.values()]
        document = {
            "format": FORMAT,
            "ids": list(entries),
            "stands": [list(entry.position) for entry in entries.values()],
            "sizes": list(map(len, marks)),
            "marks": np.concatenate(marks).astype("<u4").tobytes(),
        }
        self._store.put_document(_at(number), codec.pack(document))


def _bucket(stored: str) -> int:
    return crc32(stored.encode()) % BUCKETS


def _at(number: int) -> DocumentName:
    return DocumentName(KIND, f"{number:02}")


def _position(head: Head, snapshot: int, saved_at: float) -> LogPosition:
    return LogPosition(head.lease.epoch, head.lease.writer, head.sequence, snapshot, saved_at)


def _array(marks: set[int]) -> Marks:
    return np.fromiter(marks, np.uint32, len(marks))
