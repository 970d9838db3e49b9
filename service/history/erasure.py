"""The documents of an erasure in the store: one while the erasure runs, and one on the history that remains of a model.

Neither document identifies a person, because keys, tags and the names of requests are stored as salted hashes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from livesvm.service.models.arrays import Key
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.receipts.receipt import hashed
from livesvm.service.store.base import ERASED, DocumentName, Remembered, Store
from livesvm.solvers.errors import InvalidInput

BEGUN, LEFT = "erasing", ERASED
"""Kinds of documents: erasures that are under way, and the remainder of each model's history after erasures."""
EVERYWHERE = "*"
"""Stands in place of a model's name for an erasure in all models and feeds."""
SALT = 32
"""Length of a salt in bytes."""


@dataclass(frozen=True)
class Seen:
    """What a model's or feed's writer knows before an erasure: the version, and which of the keys the window holds.

    Parameters
    ----------
    found : how many of the examples or readings that were asked for the window holds
    times : times of a feed's readings, as text; a time before the window stands for all readings that have left it
    missing : times that were asked for at which a feed has no reading
    rows : marks of the dataset rows with these keys that the model was last trained on
    """

    version: int
    sequence: int
    found: int = 0
    times: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErasurePart:
    """The part of an erasure in one model or feed; ``stored`` is the name of the model or feed in the store.

    Parameters
    ----------
    version, sequence : its version and its newest record when the erasure began
    found : how many of the keys the window held then
    is_named : whether its history names any of the keys; otherwise the history stays as it is
    in_jobs : whether its jobs are removed
    keys : salted hashes of keys that are sought here alone, such as integer keys that were found by a tag
    rows : marks of the dataset rows that the model was last trained on
    """

    stored: str
    version: int = 0
    sequence: int = 0
    found: int = 0
    is_named: bool = True
    in_jobs: bool = True
    keys: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Intent:
    """An erasure that has begun; a restart of the service finishes an interrupted erasure.

    Parameters
    ----------
    target : the name that the model, feed or fleet is stored under, or :data:`EVERYWHERE`
    keys, tags : salted hashes of the examples to erase
    requests : salted hashes of the names of requests that are forgotten too; an erasure by times forgets all
    by_time : whether the keys are times of a feed's readings
    not_found : salted hashes of the keys, tags or times that were asked for and not found
    elsewhere : models and feeds, in words, that name the keys but are not part of this erasure
    refused : models and feeds, in words, in which nothing could be erased, each with the reason
    asked_by : label of the API key
    request, body : salted hashes of the name and the content of the request for this erasure
    rows : rows of datasets, as :class:`~livesvm.service.datasets.catalogue.Found` has them
    unsearched : names of datasets without keys, or that could not be read
    trainings : models, in words, whose trainings could not be searched
    respelled : salted hashes of keys that are stored as a number in place of a text that was asked for, or vice versa
    """

    target: str
    parts: tuple[ErasurePart, ...]
    salt: str = field(default_factory=lambda: secrets.token_hex(SALT))
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    by_time: bool = False
    not_found: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    asked_by: str | None = None
    request: str | None = None
    body: str | None = None
    rows: tuple[dict[str, Any], ...] = ()
    unsearched: tuple[str, ...] = ()
    trainings: tuple[str, ...] = ()
    respelled: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: f"e-{secrets.token_hex(6)}")
    at: float = field(default_factory=time.time)

    @property
    def at_store(self) -> DocumentName:
        """The address of the erasure's document in the store."""
        return DocumentName(BEGUN, f"{self.target}:{self.id}")

    @property
    def all_keys(self) -> list[str]:
        """Salted hashes of all keys, each listed once."""
        return list(dict.fromkeys([*self.keys, *(key for part in self.parts for key in part.keys)]))

    @property
    def found(self) -> int:
        """The number of examples to erase that were found in windows, summed over all parts."""
        return sum(part.found for part in self.parts)

    def encode(self) -> bytes:
        """Return the document's bytes for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Intent:
        """Return the erasure that a document describes."""
        document: dict[str, Any] = json.loads(data)
        parts = tuple(ErasurePart(**_tuples(part)) for part in document.pop("parts"))
        return cls(parts=parts, **_tuples(document))

    def hash(self, name: Key) -> str:
        """Return the salted hash of a key, a tag or the name of a request."""
        return hashed(bytes.fromhex(self.salt), name)

    def part(self, stored: str) -> ErasurePart:
        """Return the part of the erasure in a model or feed."""
        return next(part for part in self.parts if part.stored == stored)

    def count(self, stored: str) -> int:
        """Return the number of keys to erase in a model or feed."""
        return len({*self.keys, *self.part(stored).keys})

    def leaving(self, stored: str, keys: Iterable[Key], tags: Mapping[Key, Sequence[str]]) -> list[Key]:
        """Return which of a model's keys must be erased: keys that the erasure names, or that have one of its tags."""
        wanted, tagged = {*self.keys, *self.part(stored).keys}, set(self.tags)
        return [
            key for key in keys if self.hash(key) in wanted or not tagged.isdisjoint(map(self.hash, tags.get(key, ())))
        ]

    def is_of_training(self, stored: str, training: TrainedOn | None) -> bool:
        """Return whether a model's last training used any example to erase; True if this is unknown."""
        if training is None or not training.is_known:
            return training is not None
        rows = {*self.part(stored).rows, *directories_in(self.rows)}.union(*(one["marks"] for one in self.rows))
        return training.has_rows(rows) or bool(self.leaving(stored, training.keys, training.tags))

    def going(self, stored: str, requests: Mapping[str, Remembered]) -> dict[str, int]:
        """Return the names of the model's requests that must be removed, each with the number of its log record.

        A request must be removed if its name equals an erased key or tag, or is among the erasure's ``requests``. A
        request that came after the erasure had begun must be removed too if its answer names an erased key.
        """
        part, wanted = self.part(stored), set(self.requests)
        if self.by_time:
            return {name: known.sequence for name, known in requests.items()}
        of_keys = {*self.keys, *self.tags, *part.keys}
        return {
            name: known.sequence
            for name, known in requests.items()
            if (mark := self.hash(name)) in wanted
            or mark in of_keys
            or (known.sequence > part.sequence and self._tells(known, of_keys))
        }

    def _tells(self, known: Remembered, of_keys: set[str]) -> bool:
        named = names_in(known)
        return named is None or any(self.hash(name) in of_keys for name in named)


def directories_in(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the directories of the datasets in which the rows of an erasure were found."""
    return {str(found["directory"]) for found in rows if found["rows"] is not None}


def _tuples(document: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def names_in(known: Remembered) -> Iterator[Key] | None:
    """Return the keys in the stored answer to a request; None if no readable answer is stored."""
    try:
        answer = json.loads(known.answer or b"")
    except ValueError:
        return None
    lists = (value for value in answer.values() if isinstance(value, list))
    return (name for values in lists for name in values if isinstance(name, int | str))


@dataclass
class Remainder:
    """What earlier erasures left of a model's history: the oldest version that is kept, and traces of removed requests.

    ``requests`` maps salted hashes of the names of removed requests to record numbers, so that none is applied twice.
    """

    version: int = 0
    at: float = 0.0
    salt: str = field(default_factory=lambda: secrets.token_hex(SALT))
    requests: dict[str, int] = field(default_factory=dict)

    def holds(self, request: str) -> bool:
        """Return whether this request was answered before, but an erasure has removed the answer."""
        return bool(self.requests) and hashed(bytes.fromhex(self.salt), request) in self.requests

    def check(self, version: int) -> None:
        """Raise InvalidInput if an erasure has removed this version."""
        if version < self.version:
            when = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="seconds")
            what = f"version {version} went when examples were erased, at {when}; the oldest is {self.version}"
            raise InvalidInput(what, field="version")

    def bury(self, requests: Mapping[str, int], oldest: int) -> None:
        """Add hashes of removed requests, and drop hashes of requests with records up to number ``oldest``."""
        salt = bytes.fromhex(self.salt)
        known = self.requests | {hashed(salt, name): sequence for name, sequence in requests.items()}
        self.requests = {name: sequence for name, sequence in known.items() if sequence > oldest}

    def encode(self) -> bytes:
        """Return the document's bytes for the store."""
        return json.dumps(asdict(self)).encode()


def begun(store: Store, stored: str | None = None) -> list[Intent]:
    """Return the unfinished erasures in one model or feed, or in all, oldest first; raises StoreError."""
    found = [Intent.decode(data) for at in store.documents(BEGUN) if (data := store.document(at)) is not None]
    mine = [one for one in found if stored is None or any(part.stored == stored for part in one.parts)]
    return sorted(mine, key=lambda intent: intent.at)


def left(store: Store, model: str) -> Remainder:
    """Return what earlier erasures have left of a model's history; raises StoreError."""
    data = store.document(DocumentName(LEFT, model))
    return Remainder() if data is None else Remainder(**json.loads(data))
