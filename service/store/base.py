"""What a store must do so that no acknowledged update is lost. Bytes in, bytes out: it knows nothing of models.

Each model has a *log* of records numbered 1, 2, 3, ... and a few *snapshots*, each of which says up to which record it
goes. Every write carries the writer's :class:`Lease`; a writer whose epoch is no longer the newest is refused, so two
writers never both succeed. All calls are safe from any thread, and block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Durability(StrEnum):
    """What an appended record survives."""

    FSYNCED = "fsynced"
    """A crash of the process, of the store, or of the machine."""
    LOGGED = "logged"
    """A crash of the process or of the store; a loss of power may take about one second."""
    MEMORY = "memory"
    """Nothing is promised."""


class StoreError(Exception):
    """Base of what a store raises."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write now; whether the call had an effect may be unknown."""


class StoreDamaged(StoreError):
    """What is stored does not match its checksum, or is not what this program wrote."""


class StoreTooNew(StoreError):
    """What is stored was written by a newer version of this program."""


class StoreInUse(StoreError):
    """Another process holds this store."""


class Fenced(StoreError):
    """Another writer has taken this model over, or it was deleted; this one must stop."""


class OutOfSequence(StoreError):
    """The record does not follow the newest one in the log."""


class ModelExists(StoreError):
    """A model of that id is stored already."""


@dataclass(frozen=True)
class Lease:
    """The right to write one model; the highest epoch wins."""

    model: str
    epoch: int


@dataclass(frozen=True)
class StoredModel:
    """A model as it was created: its id and its specification."""

    id: str
    spec: bytes


@dataclass(frozen=True)
class Idempotency:
    """The client's name for a request, and the SHA-256 of what it asked."""

    key: str
    body: bytes


@dataclass(frozen=True)
class Remembered:
    """An earlier request: what it asked, its record, and its answer once there was one."""

    body: bytes
    sequence: int
    answer: bytes | None


@dataclass(frozen=True)
class LogRecord:
    """One command in the log; an aborted one had no effect."""

    sequence: int
    data: bytes
    aborted: bool


class Store(Protocol):
    """The protocol; ``tests/contract`` holds what every implementation must pass."""

    def durability(self) -> Durability:
        """The level that an append reaches now, as the store itself says."""

    def ping(self) -> None:
        """Return if the store could write now; raise StoreUnavailable otherwise."""

    def create(self, model: str, spec: bytes) -> Lease:
        """Store a new model and take its lease; raises ModelExists."""

    def models(self) -> list[StoredModel]:
        """Every stored model, by id."""

    def acquire(self, model: str) -> Lease:
        """Take a model over: a new epoch, which fences every writer before; raises Fenced if there is no such model."""

    def delete(self, lease: Lease) -> None:
        """Remove the model and all of its records."""

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Append a record and remember its idempotency key, both or neither; the level that it reached.

        Keys of records more than ``keep`` before this one are forgotten. Checks before it writes: raises Fenced, or
        OutOfSequence if ``sequence`` is not the newest + 1.
        """

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark a record as one without effect and forget its idempotency key; no error if it was never written."""

    def last_sequence(self, lease: Lease) -> int:
        """Number of the newest record ever appended, 0 before the first."""

    def recall(self, model: str, key: str) -> Remembered | None:
        """What is remembered under an idempotency key."""

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Keep the answer of the request that was appended under this key.

        A loss of power before the next append or snapshot may take it back; recovery makes it again from the log.
        """

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes) -> None:
        """Store a snapshot that holds every record up to ``sequence``; keep two; trim the log below the older."""

    def snapshots(self, model: str) -> list[int]:
        """Sequence numbers of the snapshots, newest first."""

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """The bytes of one snapshot as they were given; raises StoreDamaged if there are none."""

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Records with a number above ``after``, in order, aborted ones too."""

    def close(self) -> None:
        """Release everything; no call may follow."""
