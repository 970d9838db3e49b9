"""An erasure as the store knows of it: that it has begun, and what it leaves of the model's history.

What is stored of either names nobody: keys and the names of requests are there as salted hashes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from livesvm.service.models.arrays import Key
from livesvm.service.receipts.receipt import hashed
from livesvm.service.store.base import DocumentName, Remembered, Store, StoreDamaged
from livesvm.solvers.errors import InvalidInput

BEGUN, LEFT = "erasing", "erased"
"""Kinds of documents: erasures that are under way, by model and id, and what they have left, by model."""
SALT = 32
"""Bytes."""


@dataclass(frozen=True)
class Asked:
    """What is asked of an erasure: ``keys``, ``by`` whom, and what was found around the model, as in an intent."""

    keys: list[Key]
    by: str | None
    rows: tuple[dict[str, Any], ...] = ()
    unsearched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Intent:
    """An erasure that has begun, and is finished whatever happens.

    Parameters
    ----------
    keys : salted hashes of those whose examples are to be forgotten
    requests : of the names of requests that are to be forgotten with them
    found : how many of the keys the window held; ``version`` is that of the model then
    asked_by : label of the API key
    rows : of datasets, as :class:`~livesvm.service.datasets.catalogue.Found` has them
    unsearched : names of datasets without keys, or that could not be read
    """

    id: str
    model: str
    salt: str
    keys: tuple[str, ...]
    requests: tuple[str, ...]
    found: int
    version: int
    at: float
    asked_by: str | None
    rows: tuple[dict[str, Any], ...] = ()
    unsearched: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: str, asked: Asked, window: Container[Key], version: int) -> Intent:
        """A new one, which knows of no requests yet."""
        salt = secrets.token_bytes(SALT)
        hashes = tuple(hashed(salt, key) for key in asked.keys)
        found = sum(key in window for key in asked.keys)
        id = f"e-{secrets.token_hex(6)}"
        by = asked.by, asked.rows, asked.unsearched
        return cls(id, model, salt.hex(), hashes, (), found, version, time.time(), *by)

    @property
    def at_store(self) -> DocumentName:
        """Where it is kept."""
        return DocumentName(BEGUN, f"{self.model}:{self.id}")

    def encode(self) -> bytes:
        """Bytes for the store."""
        return json.dumps(asdict(self)).encode()

    def with_requests(self, requests: Mapping[str, Remembered], keys: list[Key] | None) -> Intent:
        """The intent with the requests that have to go: all, or those whose answer or name tells of one of the keys."""
        salt, named, texts = bytes.fromhex(self.salt), set(keys or ()), [k for k in keys or () if isinstance(k, str)]
        going = [
            name
            for name, known in requests.items()
            if keys is None or any(text in name for text in texts) or _tells(known, named)
        ]
        return replace(self, requests=tuple(hashed(salt, name) for name in going))

    def leaving(self, names: Iterable[Key]) -> list[Key]:
        """Those of these keys that it is of."""
        salt, wanted = bytes.fromhex(self.salt), set(self.keys)
        return [key for key in names if hashed(salt, key) in wanted]

    def going(self, requests: Mapping[str, Remembered]) -> dict[str, int]:
        """Those of these requests that have to go, with their records."""
        salt, wanted = bytes.fromhex(self.salt), set(self.requests)
        return {name: known.sequence for name, known in requests.items() if hashed(salt, name) in wanted}


def _tells(known: Remembered, keys: set[Key]) -> bool:
    """Whether an answer names one of the keys; one that there is not, or that cannot be read, may."""
    try:
        answer = json.loads(known.answer or b"")
    except ValueError:
        return True
    lists = (value for value in answer.values() if isinstance(value, list))
    return any(name in keys for values in lists for name in values if isinstance(name, int | str))


@dataclass
class Left:
    """What erasures have left of a model's history: which version was the last, and requests that are known no more.

    ``requests`` are records by the salted hash of a request's name, so that none is done twice.
    """

    version: int = 0
    at: float = 0.0
    salt: str = field(default_factory=lambda: secrets.token_hex(SALT))
    requests: dict[str, int] = field(default_factory=dict)

    def holds(self, request: str) -> bool:
        """Whether this request was answered before, and the answer is gone."""
        return bool(self.requests) and hashed(bytes.fromhex(self.salt), request) in self.requests

    def check(self, version: int) -> None:
        """Raise InvalidInput if an erasure has taken this version."""
        if version < self.version:
            when = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="seconds")
            what = f"version {version} went when examples were erased, at {when}; the oldest is {self.version}"
            raise InvalidInput(what, field="version")

    def bury(self, requests: Mapping[str, int], oldest: int) -> None:
        """Know requests by their hashes alone, and let go of records up to ``oldest``."""
        salt = bytes.fromhex(self.salt)
        known = self.requests | {hashed(salt, name): sequence for name, sequence in requests.items()}
        self.requests = {name: sequence for name, sequence in known.items() if sequence > oldest}

    def encode(self) -> bytes:
        """Bytes for the store."""
        return json.dumps(asdict(self)).encode()


def begun(store: Store, model: str | None = None) -> list[Intent]:
    """The erasures that are under way, of one model or of all; raises StoreError."""
    found = []
    for at in store.documents(BEGUN):
        data = store.document(at) if model is None or at.name.startswith(f"{model}:") else None
        if data is not None:
            document: dict[str, Any] = json.loads(data)
            lists = {name: tuple(value) for name, value in document.items() if isinstance(value, list)}
            found.append(Intent(**document | lists))
    return sorted(found, key=lambda intent: intent.at)


def left(store: Store, model: str) -> Left:
    """What earlier erasures have left of a model; raises StoreError."""
    data = store.document(DocumentName(LEFT, model))
    return Left() if data is None else Left(**json.loads(data))


def forget_model(store: Store, model: str) -> None:
    """Remove what is known of erasures of a model that is gone; raises StoreError."""
    store.delete_document(DocumentName(LEFT, model))
    for intent in _begun_of(store, model):
        store.delete_document(intent)


def _begun_of(store: Store, model: str) -> list[DocumentName]:
    with suppress(StoreDamaged):
        return [at for at in store.documents(BEGUN) if at.name.startswith(f"{model}:")]
    return []
