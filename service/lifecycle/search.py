"""Search for keys and tags to erase in all that is stored of a model or a feed.

The search reads only the store, so it does not wait for writers and includes models that are not served here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from livesvm.service.feeds.commands import decode_call
from livesvm.service.history.entries import decode_entry, named_in
from livesvm.service.history.erasure import names_in
from livesvm.service.history.names import is_feed
from livesvm.service.history.rescue import files_of, snapshot_in
from livesvm.service.models.arrays import Key
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.store import codec
from livesvm.service.store.base import Remembered, Solution, Store, StoreDamaged

T = TypeVar("T")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Sought:
    """The examples to find: all examples with one of these keys or one of these tags.

    The search also looks for trainings on datasets in ``directories``, which have rows with these keys.
    """

    keys: tuple[Key, ...]
    tags: tuple[str, ...] = ()
    directories: frozenset[str] = frozenset()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to find in names of requests: wanted tags, and wanted keys that are not numbers."""
        return (*(key for key in self.keys if isinstance(key, str)), *self.tags)


@dataclass
class Naming:
    """What the search found in one history.

    ``names`` are the wanted keys and tags in it, and ``tagged`` are all keys with a wanted tag. ``trainings`` are
    datasets with wanted rows on which a model was trained, and ``unsearched`` are trainings on unknown rows.
    ``respelled`` are keys that are stored as a number although the wanted key is a text, or vice versa. ``marks`` are
    the marks of all names in the history; None if they are not known, or may become more at any moment.
    """

    names: set[Key] = field(default_factory=set)
    tagged: set[Key] = field(default_factory=set)
    trainings: set[str] = field(default_factory=set)
    unsearched: set[str] = field(default_factory=set)
    respelled: set[Key] = field(default_factory=set)
    marks: set[int] | None = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.names or self.tagged or self.trainings)


def held(store: Store, data_dir: Path, stored: str, sought: Sought, *, behind: int = 0) -> Naming:
    """Return the wanted names that occur in the history of a model or a feed; raises StoreUnavailable.

    For a feed, the search reads only the names of requests, because readings have times instead of keys. With
    ``behind``, the search reads only log records after the one with this number, and no snapshot, solution or file.
    """
    found = _Looking(sought)
    is_of_keys = not is_feed(stored)
    for record in store.log(stored, behind):
        found.read(found.entry if is_of_keys else found.call, partial(bytes, record.data))
    if is_of_keys and not behind:
        for snapshot in store.snapshots(stored):
            found.read(found.snapshot, partial(_snapshot, store, stored, snapshot.sequence))
        found.read(found.solution, partial(store.solution, stored))
        for path in files_of(data_dir, stored):
            found.read(found.snapshot, partial(snapshot_in, path))
    for name, known in store.requests(stored).items():
        found.request(name)
        found.answer(known)
    return found.held


def respelled(key: Key) -> Key | None:
    """Return a number as a text, or a text as a number; None if the text is not the usual form of a number."""
    if isinstance(key, int):
        return str(key)
    return int(key) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", key) else None


def mark(name: Key) -> int:
    """Return the mark of a key, a tag or a word for the index of names; different names may have the same mark."""
    return crc32(str(name).encode())


def words(text: str) -> list[str]:
    """Return the words of a text; if a text contains another one as whole words, it has all words of that one."""
    return _WORDS.findall(text)


class _Looking:
    """A search that collects wanted names from stored values; a damaged value counts as naming all wanted names."""

    def __init__(self, sought: Sought) -> None:
        self.held = Naming()
        self._keys, self._tags, self._directories = set(sought.keys), set(sought.tags), sought.directories
        self._respelled = set(filter(None, map(respelled, sought.keys))) - self._keys
        self._as_words = {
            text: re.compile(rf"(?<![^\W_]){re.escape(text)}(?![^\W_])") for text in sought.texts
        }  # "customer-1" is no part of "customer-17"

    def read(self, look: Callable[[T], None], load: Callable[[], T]) -> None:
        """Load a stored value and search it with ``look``; a damaged value counts as naming all wanted names."""
        try:
            look(load())
        except StoreDamaged:
            self.held.names |= self._keys | self._tags
            self.held.marks = None

    def entry(self, data: bytes) -> None:
        """Search a record of a model's log."""
        entry = decode_entry(data)
        self.request(entry.request)
        self._note(entry.named())
        if entry.whole is not None:
            self._training(codec.decode(entry.whole))

    def call(self, data: bytes) -> None:
        """Search a record of a feed's log."""
        self.request(decode_call(data).request)

    def snapshot(self, data: bytes | None) -> None:
        """Search a snapshot of a model; do nothing for None."""
        if data is not None:
            document = codec.decode(data)
            self._note(named_in(document))
            self._training(document)

    def solution(self, solution: Solution | None) -> None:
        """Search the stored solution of a model; do nothing for None."""
        if solution is not None:
            self.snapshot(solution.data)

    def request(self, name: str | None) -> None:
        """Search the name of a request; do nothing for None."""
        self._mark(words(name or ""))
        for text, word in self._as_words.items():
            if name is not None and text in name and word.search(name):
                self.held.names.add(text)

    def answer(self, known: Remembered) -> None:
        """Search the keys in the answer to a request; if there is no answer yet, the marks count as unknown."""
        names = list(names_in(known) or ())
        self._mark(names)
        self.held.names |= self._keys.intersection(names)
        if known.answer is None:
            self.held.marks = None

    def _training(self, document: dict[str, Any]) -> None:
        """Search the last training of a model; after a training on a dataset, the marks count as unknown."""
        training = TrainedOn.in_arrays(document.get("arrays"))
        if training is None or (training.is_known and training.dataset is None):
            return
        self.held.marks = None
        if training.dataset is None:
            self.held.unsearched.add("examples that had left its window")
            return
        name, known = str(training.dataset["name"]), training.marks_among([*self._keys, *sorted(self._tags)])
        self.held.names |= known.keys()
        if known or training.dataset["directory"] in self._directories:
            self.held.trainings.add(name)
        elif training.marks is None:
            self.held.unsearched.add(f"dataset {name}")

    def _mark(self, names: Iterable[Key]) -> None:
        if self.held.marks is not None:
            self.held.marks.update(map(mark, names))

    def _note(self, named: Iterable[tuple[Key, Sequence[str]]]) -> None:
        named = list(named)
        self._mark(key for key, _ in named)
        for key, tags in named:
            if tags:
                self._mark(tags)
            if key in self._keys:
                self.held.names.add(key)
            elif key in self._respelled:
                self.held.respelled.add(key)
            if not self._tags.isdisjoint(tags):
                self.held.tagged.add(key)
                self.held.names |= self._tags.intersection(tags)


def _snapshot(store: Store, model: str, sequence: int) -> bytes | None:
    """Return the bytes of a snapshot; None if a newer snapshot has replaced it meanwhile; raises StoreDamaged."""
    try:
        return store.load_snapshot(model, sequence)
    except StoreDamaged:
        if any(snapshot.sequence == sequence for snapshot in store.snapshots(model)):
            raise
        return None


def requests_of(requests: Mapping[str, Remembered], keys: Iterable[Key], texts: Iterable[str]) -> Iterator[str]:
    """Yield requests that have a wanted text in their name, a wanted key in their answer, or an unreadable answer."""
    wanted, texts = set(keys), tuple(texts)
    for name, known in requests.items():
        answered = names_in(known)
        if answered is None or any(text in name for text in texts) or not wanted.isdisjoint(answered):
            yield name
