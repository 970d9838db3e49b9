"""The entries of a model's log: how each is encoded, applied and answered.

A new kind of entry is a class that implements :class:`LogEntry` and has a line in ``KINDS``.
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
    """A log entry; ``request`` is its Idempotency-Key, and ``rules`` is the version of the rules that accepted it."""

    @property
    def request(self) -> str | None: ...

    @property
    def rules(self) -> int: ...

    @property
    def plain(self) -> Command | None:
        """The entry itself if it is a command that only adds and removes examples, else None."""

    def encode(self) -> bytes:
        """Return the entry as bytes for the log."""

    def apply(self, state: ModelState) -> Outcome:
        """Apply the entry to ``state``, the state before the entry; after SolverError ``state`` is unchanged."""

    def apply_cold(self, state: ModelState) -> Outcome:
        """Apply the entry by a new solve without a path; after SolverError the state is unchanged."""

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to the request that caused the entry."""

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return the numbers of the entry's changes, for the service's log."""

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return the features by key after the entry, possibly with keys that have left the window."""

    def named(self) -> Iterable[tuple[Key, Sequence[str]]]:
        """Return every key in the entry, with the tags that the entry gives the key."""

    @property
    def whole(self) -> bytes | None:
        """The whole state that the entry holds; None if the entry does not hold a whole state."""


class _Whole(ABC):
    """An entry that holds the whole state after the entry, so that applying the entry needs no solve."""

    state: bytes
    rules = RULES
    plain = None

    @property
    def whole(self) -> bytes:
        """The state that the entry holds."""
        return self.state

    @abstractmethod
    def apply(self, state: ModelState) -> Outcome:
        """Replace the contents of ``state`` by the entry's state, as the next version."""

    def apply_cold(self, state: ModelState) -> Outcome:
        """Apply the entry like :meth:`apply`, which needs no solution path."""
        return self.apply(state)

    def features_after(self, features: dict[Key, Any]) -> dict[Key, Any]:
        """Return the features in the state that the entry holds."""
        return features_of(codec.decode(self.state)["arrays"])

    def named(self) -> Iterable[tuple[Key, Sequence[str]]]:
        """Return the keys in the state that the entry holds, with the tags of these keys."""
        return named_in(codec.decode(self.state))


@dataclass(frozen=True)
class Restoration(_Whole):
    """The restoration of ``version``, with the whole state of that version: the log may be trimmed before a replay.

    ``at`` is the Unix time at which the restoration was asked for.
    """

    version: int
    state: bytes
    request: str | None
    at: float

    def encode(self) -> bytes:
        """Return the entry as bytes for the log."""
        document = {"restored": self.version, "state": self.state, "request": self.request, "at": self.at}
        return codec.encode(document)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Restoration:
        """Return the entry from a decoded record of the log."""
        return cls(document["restored"], document["state"], document["request"], document["at"])

    def apply(self, state: ModelState) -> Outcome:
        """Replace the contents of ``state`` by those of the restored version, as a new version.

        Keys that were generated after the restored version are not generated again.
        """
        began = time.perf_counter()
        found = ModelState.decode(state.spec, state.cache_mb, self.state)
        found.window.next_key = max(found.window.next_key, state.window.next_key)
        return replace(state.become(found, self.at), seconds=time.perf_counter() - began)

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to the caller, with the version that was restored."""
        return outcome.answer(version, durability, restored=self.version)

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return the version that was restored, for the service's log."""
        return {"action": "restore", "restored": self.version}


@dataclass(frozen=True)
class Retraining(_Whole):
    """The replacement of a model's state by a job's result; the entry holds the whole new state, with the same window.

    Parameters
    ----------
    job : id of the job that found the state
    changed : how many examples had to be added or released, as the window has slid since the job began
    """

    job: str
    state: bytes
    request: str | None
    at: float
    changed: int = 0

    def encode(self) -> bytes:
        """Return the entry as bytes for the log."""
        document = {"retrained": self.job, "state": self.state, "request": self.request, "at": self.at}
        return codec.encode(document | {"changed": self.changed})

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Retraining:
        """Return the entry from a decoded record of the log."""
        return cls(*(document[name] for name in ("retrained", "state", "request", "at", "changed")))

    def apply(self, state: ModelState) -> Outcome:
        """Replace the contents of ``state`` by the job's result, as the next version."""
        began = time.perf_counter()
        found = ModelState.decode(state.spec, state.cache_mb, self.state)
        return replace(state.become(found, self.at), seconds=time.perf_counter() - began, changed=self.changed)

    def answer(self, version: int, outcome: Outcome, durability: Durability) -> bytes:
        """Return the answer to the caller, with the number of examples that changed."""
        reported = {"added": [], "removed": [], "changed": outcome.changed, "events": 0, "seconds": outcome.seconds}
        return outcome.answer(version, durability, **reported)

    def reported(self, outcome: Outcome) -> dict[str, Any]:
        """Return the job and the number of examples that changed, for the service's log."""
        return {"action": "retrain", "job": self.job, "changed": self.changed}


KINDS: dict[str, Callable[[dict[str, Any]], LogEntry]] = {
    "restored": Restoration.from_document,
    "retrained": Retraining.from_document,
}
"""The decoder of each kind of entry, by a field that only this kind has; a record without any of them is a command."""


def decode_entry(data: bytes) -> LogEntry:
    """Return the entry in a record; raises StoreDamaged or StoreTooNew."""
    document: dict[str, Any] = codec.decode(data)
    for field, read in KINDS.items():
        if field in document:
            return read(document)
    return Command.from_document(document)


def features_of(arrays: dict[str, Any] | None) -> dict[Key, Any]:
    """Return features by key from the arrays of a snapshot."""
    return {} if arrays is None else dict(zip(arrays["keys"], arrays["X"], strict=True))


def named_in(document: dict[str, Any]) -> Iterable[tuple[Key, Sequence[str]]]:
    """Return the keys in a snapshot, or in a solution, with the tags of these keys.

    The keys are those of examples in the window, of examples that have left, and of the model's last training.
    """
    tags, training = document.get("tags", {}), TrainedOn.in_arrays(document.get("arrays"))
    own = ((key, tags.get(key, ())) for key in (*document["keys"], *document.get("left", ())))
    return own if training is None else chain(own, training.named())
