"""Entries of the log: how each is encoded, applied and answered.

A new kind of entry is a class here (or elsewhere, with its line in ``KINDS``) that does what :class:`LogEntry` says.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

from livesvm.service.models.arrays import Key
from livesvm.service.models.commands import RULES, Command, Outcome
from livesvm.service.models.state import ModelState
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.store import codec
from livesvm.service.store.base import Durability


class LogEntry(Protocol):
    """One entry; ``request`` is the Idempotency-Key that it came with, ``rules`` are what it was judged by."""

    @property
    def request(self) -> str | None: ...

    @property
    def rules(self) -> int: ...

    @property
    def plain(self) -> Command | None:
        """The command that the entry is, if it only adds and removes."""

    def encode(self) -> bytes:
        """Return bytes for the log."""

    def apply(self, state: ModelState) -> Outcome:
        """Bring a model from before the entry to after it; raises SolverError with the state as it was."""

    def apply_cold(self, state: ModelState) -> Outcome:
        """Return the same without the path there; raises SolverError with the state as it was."""

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to its caller."""

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return what it changed, in numbers, for the log."""

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return features by key after it; those of keys that have gone may be among them."""

    def named(self) -> Iterable[tuple[Key, Sequence[str]]]:
        """Return every key that it names, with tags where it gives any."""

    @property
    def whole(self) -> bytes | None:
        """The state of a model that it holds, if it does."""


class _Whole(ABC):
    """An entry that holds the state after it whole, so that no path leads there."""

    state: bytes
    rules = RULES
    plain = None

    @property
    def whole(self) -> bytes:
        """The state."""
        return self.state

    @abstractmethod
    def apply(self, state: ModelState) -> Outcome:
        """Make ``state`` that one, as the next version."""

    def apply_cold(self, state: ModelState) -> Outcome:
        """Return the same: there is no path."""
        return self.apply(state)

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return those of the state."""
        return features_of(codec.decode(self.state)["arrays"])

    def named(self) -> Iterable[tuple[Key, Sequence[str]]]:
        """Return the keys of the state, with their tags."""
        return named_in(codec.decode(self.state))


@dataclass(frozen=True)
class Restoration(_Whole):
    """Going back to ``version``; holds that version whole, as the log behind it may be trimmed first.

    ``at`` is the Unix time at which it was asked for.
    """

    version: int
    state: bytes
    request: str | None
    at: float

    def encode(self) -> bytes:
        """Return bytes for the log."""
        document = {"restored": self.version, "state": self.state, "request": self.request, "at": self.at}
        return codec.encode(document)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Restoration:
        """Return the entry that a document of the log tells of."""
        return cls(document["restored"], document["state"], document["request"], document["at"])

    def apply(self, state: ModelState) -> Outcome:
        """Make ``state`` what the version was, as the next version; keys that were ever handed out stay used."""
        began = time.perf_counter()
        found = ModelState.decode(state.spec, state.cache_mb, self.state)
        found.window.next_key = max(found.window.next_key, state.window.next_key)
        return replace(state.become(found, self.at), seconds=time.perf_counter() - began)

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to its caller."""
        return outcome.answer(version, durability, restored=self.version)

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return what it changed, in numbers, for the log."""
        return {"action": "restore", "restored": self.version}


@dataclass(frozen=True)
class Retraining(_Whole):
    """What a job has found, in place of the model; holds the new state whole, with the window as it is.

    Parameters
    ----------
    job : that found it
    changed : how many examples had to be added or released, as the window has slid since
    """

    job: str
    state: bytes
    request: str | None
    at: float
    changed: int = 0

    def encode(self) -> bytes:
        """Return bytes for the log."""
        document = {"retrained": self.job, "state": self.state, "request": self.request, "at": self.at}
        return codec.encode(document | {"changed": self.changed})

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Retraining:
        """Return the entry that a document of the log tells of."""
        return cls(*(document[name] for name in ("retrained", "state", "request", "at", "changed")))

    def apply(self, state: ModelState) -> Outcome:
        """Make ``state`` what was found, as the next version."""
        began = time.perf_counter()
        found = ModelState.decode(state.spec, state.cache_mb, self.state)
        return replace(state.become(found, self.at), seconds=time.perf_counter() - began, changed=self.changed)

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to its caller."""
        reported = {"added": [], "removed": [], "changed": outcome.changed, "events": 0, "seconds": outcome.seconds}
        return outcome.answer(version, durability, **reported)

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return what it changed, in numbers, for the log."""
        return {"action": "retrain", "job": self.job, "changed": self.changed}


KINDS: dict[str, Callable[[dict[str, Any]], LogEntry]] = {
    "restored": Restoration.from_document,
    "retrained": Retraining.from_document,
}
"""How entries are read, by the field that none but their kind has; what has none of these is a command."""


def decode_entry(data: bytes) -> LogEntry:
    """Return the entry in a record; raises StoreDamaged or StoreTooNew."""
    document: dict[str, Any] = codec.decode(data)
    for field, read in KINDS.items():
        if field in document:
            return read(document)
    return Command.from_document(document)


def features_of(arrays: dict[str, Any] | None) -> dict[Key, Any]:
    """Return features by key, of the arrays of a snapshot."""
    return {} if arrays is None else dict(zip(arrays["keys"], arrays["X"], strict=True))


def named_in(document: dict[str, Any]) -> Iterable[tuple[Key, Sequence[str]]]:
    """Return the keys of a snapshot, or of a solution, with their tags.

    They are of examples in the window, that left, and that the model is trained on.
    """
    tags, training = document.get("tags", {}), TrainedOn.in_arrays(document.get("arrays"))
    own = ((key, tags.get(key, ())) for key in (*document["keys"], *document.get("left", ())))
    return own if training is None else chain(own, training.named())
