"""An erasure as the store knows of it: that it has begun, and what it leaves of the model's history.

What is stored of either names no person: keys, tags and the names of requests are there as salted hashes.
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
"""Kinds of documents: erasures that are under way, and what they have left, by model."""
EVERYWHERE = "*"
"""In place of the model that an erasure was asked of: all of them, and the feeds."""
SALT = 32
"""Bytes."""


@dataclass(frozen=True)
class Seen:
    """What a writer knows when an erasure is about to begin.

    Parameters
    ----------
    found : how many of the examples or readings that were asked for the window holds
    times : of a feed's readings, as text; one from before the window stands for all that have left it
    missing : those that were asked for at which a feed has no reading
    rows : marks of rows of a dataset with these keys, which the last training of a model has
    """

    version: int
    sequence: int
    found: int = 0
    times: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErasurePart:
    """A model or a feed that an erasure is asked of, by what it is stored under.

    Parameters
    ----------
    version, sequence : its version and its newest record when the erasure began
    found : how many of the keys the window held then
    is_named : whether its history names any of them; otherwise it stays as it is
    in_jobs : whether its jobs go
    keys : salted hashes of keys that are sought here alone, as integers that a tag has led to
    rows : marks of rows of a dataset that its last training has
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
    """An erasure that has begun, and is finished whatever happens.

    Parameters
    ----------
    target : what the erasure was asked of is stored under, or :data:`EVERYWHERE`
    keys, tags : salted hashes of the examples to erase
    requests : of the names of requests that are to be forgotten with them; of a feed by its times all go
    by_time : whether the keys are times of a feed's readings
    not_found : of what was asked for, and nothing that is stored names
    elsewhere : models and feeds, in words, that name the keys and were not asked
    refused : models and feeds, in words, that could not be asked, and why
    asked_by : label of the API key
    request, body : of the name and the content of the request that asked for it
    rows : of datasets, as :class:`~livesvm.service.datasets.catalogue.Found` has them
    unsearched : names of datasets without keys, or that could not be read
    trainings : of models, in words, that could not be searched
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
        """Where it is kept."""
        return DocumentName(BEGUN, f"{self.target}:{self.id}")

    @property
    def all_keys(self) -> list[str]:
        """Salted hashes of all keys, each once."""
        return list(dict.fromkeys([*self.keys, *(key for part in self.parts for key in part.keys)]))

    @property
    def found(self) -> int:
        """How many examples of windows these were."""
        return sum(part.found for part in self.parts)

    def encode(self) -> bytes:
        """Return bytes for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Intent:
        """Return the erasure in a document."""
        document: dict[str, Any] = json.loads(data)
        parts = tuple(ErasurePart(**_tuples(part)) for part in document.pop("parts"))
        return cls(parts=parts, **_tuples(document))

    def hash(self, name: Key) -> str:
        """Return what stands for a key, a tag or the name of a request."""
        return hashed(bytes.fromhex(self.salt), name)

    def part(self, stored: str) -> ErasurePart:
        """Return the part of a model or feed."""
        return next(part for part in self.parts if part.stored == stored)

    def count(self, stored: str) -> int:
        """Return how many keys are sought in a model or feed."""
        return len({*self.keys, *self.part(stored).keys})

    def leaving(self, stored: str, keys: Iterable[Key], tags: Mapping[Key, Sequence[str]]) -> list[Key]:
        """Return the keys of a model that the erasure names, or that have one of its tags."""
        wanted, tagged = {*self.keys, *self.part(stored).keys}, set(self.tags)
        return [
            key for key in keys if self.hash(key) in wanted or not tagged.isdisjoint(map(self.hash, tags.get(key, ())))
        ]

    def is_of_training(self, stored: str, training: TrainedOn | None) -> bool:
        """Return whether the last training of a model rests on any of it; on what is not known, it may."""
        if training is None or not training.is_known:
            return training is not None
        rows = {*self.part(stored).rows, *directories_in(self.rows)}.union(*(one["marks"] for one in self.rows))
        return training.has_rows(rows) or bool(self.leaving(stored, training.keys, training.tags))

    def going(self, stored: str, requests: Mapping[str, Remembered]) -> dict[str, int]:
        """Return those of a model's requests that have to go, with their records.

        Of what came after the erasure had begun, those go that are named so or whose answers name a key.
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
    """Return the directories of the datasets that are known to have such rows."""
    return {str(found["directory"]) for found in rows if found["rows"] is not None}


def _tuples(document: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def names_in(known: Remembered) -> Iterator[Key] | None:
    """Return the keys that the answer to a request names, None where there is none that can be read."""
    try:
        answer = json.loads(known.answer or b"")
    except ValueError:
        return None
    lists = (value for value in answer.values() if isinstance(value, list))
    return (name for values in lists for name in values if isinstance(name, int | str))


@dataclass
class Remainder:
    """What erasures have left of a model's history: which version was the last, and requests that are known no more.

    ``requests`` are records by the salted hash of a request's name, so that none is done twice.
    """

    version: int = 0
    at: float = 0.0
    salt: str = field(default_factory=lambda: secrets.token_hex(SALT))
    requests: dict[str, int] = field(default_factory=dict)

    def holds(self, request: str) -> bool:
        """Return whether this request was answered before, and the answer is gone."""
        return bool(self.requests) and hashed(bytes.fromhex(self.salt), request) in self.requests

    def check(self, version: int) -> None:
        """Raise InvalidInput if an erasure has taken this version."""
        if version < self.version:
            when = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="seconds")
            what = f"version {version} went when examples were erased, at {when}; the oldest is {self.version}"
            raise InvalidInput(what, field="version")

    def bury(self, requests: Mapping[str, int], oldest: int) -> None:
        """Know requests by their hashes alone, and release records up to ``oldest``."""
        salt = bytes.fromhex(self.salt)
        known = self.requests | {hashed(salt, name): sequence for name, sequence in requests.items()}
        self.requests = {name: sequence for name, sequence in known.items() if sequence > oldest}

    def encode(self) -> bytes:
        """Return bytes for the store."""
        return json.dumps(asdict(self)).encode()


def begun(store: Store, stored: str | None = None) -> list[Intent]:
    """Return the erasures that are under way, of one model or feed or of all, oldest first; raises StoreError."""
    found = [Intent.decode(data) for at in store.documents(BEGUN) if (data := store.document(at)) is not None]
    mine = [one for one in found if stored is None or any(part.stored == stored for part in one.parts)]
    return sorted(mine, key=lambda intent: intent.at)


def left(store: Store, model: str) -> Remainder:
    """Return what earlier erasures have left of a model; raises StoreError."""
    data = store.document(DocumentName(LEFT, model))
    return Remainder() if data is None else Remainder(**json.loads(data))
