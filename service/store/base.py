"""The contract of a store: no acknowledged update is lost. Bytes in, bytes out: it knows nothing of models.

Each model has a *log* of records numbered 1, 2, 3, ... and a few *snapshots*, each of which says up to which record it
goes. Every write carries the writer's :class:`Lease`; a writer whose epoch is no longer the newest is refused, so two
writers never both succeed. Time only decides when a model may be taken over, never which is right, and it is read from
monotonic clocks alone. All calls are safe from any thread, and block.

Besides the models there are small *documents*, each under its kind and name. They have no writer: what was put last is
what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


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


class ModelGone(Fenced):
    """The model is not stored: it was deleted, or the store lost it."""


ERASED = "erased"
"""The kind of documents in which models' writers say what erasures have left, each under the name of its model."""
WEBHOOK_WAITING, WEBHOOK_DEAD = "webhook-message", "webhook-dead-letter"
"""The kinds of documents that webhooks are sent, or were not; their names begin with what a model is stored under."""
DELETING = "deleting"
"""The kind of documents: of models and feeds that are being deleted, by what they are stored under; or of a fleet, by
its name, with the feeds that its series are. A store without space takes these all the same."""
SERVICE = "service"
"""The kind of documents in which services say, each under its name, where they are reached."""


class LeaseHeld(StoreError):
    """Another service that is alive holds this model."""


class StoreBehind(StoreError):
    """The store has lost records that it had said to keep; writing on would hide the loss."""


class OutOfSequence(StoreError):
    """The record does not follow the newest one in the log."""


class RequestKnown(StoreError):
    """A record with that idempotency key is in the log already."""


class ModelExists(StoreError):
    """A model of that id is stored already."""


class DocumentExists(StoreError):
    """Another document is stored under that kind and name already."""


@dataclass(frozen=True)
class Lease:
    """The right to write one model; the highest epoch wins."""

    model: str
    epoch: int
    writer: str = ""
    """The process that was given it, where a store can forget epochs that it gave out."""


@dataclass(frozen=True)
class Head:
    """A model's state in the store: its writer, and its newest record."""

    lease: Lease
    sequence: int


@dataclass(frozen=True)
class SnapshotInfo:
    """A kept snapshot: the record and the version it goes up to, its Unix time, its bytes.

    Of one that ``is_damaged`` only the record is known; one that is not may still turn out so when it is loaded.
    """

    sequence: int
    version: int
    saved_at: float
    size: int
    is_damaged: bool = False


@dataclass(frozen=True)
class Solution:
    """What the model was solved to with all records up to one; its bytes leave out what those records hold."""

    sequence: int
    data: bytes


@dataclass(frozen=True)
class StoredModel:
    """A model as it was created: its id and its specification; ``damage`` says what is known to be lost of it."""

    id: str
    spec: bytes
    damage: str = ""

    def check(self) -> None:
        """Raise StoreDamaged if something of it is lost."""
        if self.damage:
            raise StoreDamaged(self.damage)


class Indexed(NamedTuple):
    """What a start reads of each stored model: neither its specification nor its state."""

    id: str
    sequence: int
    """Number of the newest record."""
    summary: bytes
    """The short description that was stored last, empty if there is none or it is damaged."""
    described: int
    """The record up to which the summary is true, 0 without one."""
    holder: str = ""
    """The service that holds the model now, empty if none does or the store is not shared."""
    damage: str = ""
    """What is known to be lost of the model."""


class DocumentName(NamedTuple):
    """What a document is found by: a kind, which has no colon, and a name."""

    kind: str
    name: str


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


@dataclass(frozen=True)
class Appending:
    """A record that is to be appended with those of other models."""

    lease: Lease
    sequence: int
    data: bytes
    idempotency: Idempotency | None = None


class Store(Protocol):
    """The protocol; ``tests/contract`` holds what every implementation must pass.

    What it answers itself is so where no other service uses the store, and each commit waits until it is on the disk.
    """

    @property
    def shared(self) -> bool:
        """Whether other services may use what is stored at the same time."""
        return False

    def durability(self) -> Durability:
        """Return the level that an append reaches now, as the store itself says."""
        return Durability.FSYNCED

    @property
    def weakness(self) -> str | None:
        """Why that level is no more than memory, and what to do, as of the last time that it was asked for."""
        return None

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes that a store in memory holds, and those that it may, 0 for no limit; raises StoreError.

        None of a store that is on a disk, or that does not say.
        """
        return None

    def ping(self) -> None:
        """Write that this service is alive; raise StoreUnavailable if the store could not take an update now.

        What can be checked without wearing the disk is checked each time; what takes a write, every few seconds.
        """

    def begin_again(self) -> None:
        """Take what is written back although the store has lost what belongs to no model; otherwise do nothing."""
        return

    def create(self, model: str, spec: bytes, sequence: int = 0, summary: bytes = b"") -> Lease:
        """Store a new model whose log begins after ``sequence``, and take its lease; raises ModelExists.

        The ``summary`` describes the model for :meth:`index` up to the record ``sequence``.
        """

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Yield every stored model, or those of these ids that are stored; read page by page, in no order.

        A model that is created or deleted meanwhile may be missing or there.
        """

    def changes(self) -> int:
        """Return a number that rises whenever a service creates or deletes a model; 0 where no other service can."""
        return 0

    def describe(self, lease: Lease, sequence: int, summary: bytes) -> None:
        """Replace the summary by one that is true up to the record ``sequence``; raises Fenced.

        A loss of power before the next append or snapshot may take it back.
        """

    def models(self) -> list[StoredModel]:
        """Return every stored model with its specification, by id."""

    def model(self, model: str) -> StoredModel | None:
        """Return one stored model with its specification, None if it is not stored."""

    def acquire(self, model: str) -> Lease:
        """Take a model over: a new epoch, which fences every writer before.

        Raises ModelGone if there is no such model, LeaseHeld if another service holds it and is, or may be, alive.
        """

    def retake(self, lease: Lease, attempt: int) -> tuple[Lease, int]:
        """Take one's own model again, so that calls still under way are refused; the lease, the newest record.

        Every try of one writer has a higher ``attempt`` than those before, whose answers may have been lost. Raises
        Fenced if another writer has the model.
        """

    def release(self, lease: Lease) -> None:
        """Let another service take the model over at once; raises Fenced."""

    def release_all(self) -> None:
        """Let other services take every model of this one over at once, until it takes or creates a model again."""

    def is_silent(self, holder: str) -> bool:
        """Return whether a service shows no life, so that its models can be taken; True where no other can be."""
        return True

    def whereabouts(self, holder: str) -> str:
        """Return where people reach a service, or its name where it does not say."""
        return holder

    def claim(self) -> str:
        """Become the active service, which takes the calls, unless another one is that shows life; the other's name.

        Empty if this one is active, as where no other can be.
        """
        return ""

    def resign(self) -> None:
        """Be active no longer, if this service is."""
        return None

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Return where each of these models stands; those that are not stored are left out."""

    def delete(self, lease: Lease) -> None:
        """Remove the model and all of its records."""

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Append a record and remember its idempotency key, both or neither; the level that it reached.

        Keys of records more than ``keep`` before this one are forgotten. Checks before it writes: raises Fenced,
        OutOfSequence if ``sequence`` is not the newest + 1, or RequestKnown.
        """

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Append a record to each of many models as :meth:`append` does, each whole or not at all.

        The level that they reached, and of each record what :meth:`append` would have raised before it wrote.
        """

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark a record as one without effect and forget its idempotency key; no error if it was never written."""

    def last_sequence(self, lease: Lease) -> int:
        """Return number of the newest record ever appended, 0 before the first."""

    def recall(self, model: str, key: str) -> Remembered | None:
        """Return what is remembered under an idempotency key."""

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Return which of these models remember something under an idempotency key; of no other does :meth:`recall`."""

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Keep the answer of the request that was appended under this key.

        A loss of power before the next append or snapshot may take it back; recovery makes it again from the log.
        """

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Keep answers of requests of many models as :meth:`remember` does; of a lease that is fenced none is kept."""

    def requests(self, model: str) -> dict[str, Remembered]:
        """Return everything that is remembered, by idempotency key."""

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Remember requests of records that another store held."""

    def forget_requests(self, lease: Lease, keys: Iterable[str]) -> None:
        """Forget what is remembered under these idempotency keys; no error where nothing is."""

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Store a snapshot that holds every record up to ``sequence``; keep two; trim the log below the older.

        In the same step the ``summary`` takes the place of the one before; an empty one removes it.
        """

    def supersede(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Let one snapshot stand for every record up to ``sequence``, in one step, whatever was stored of them.

        Older records, snapshots, solutions and the summary go; remembered requests stay, and the log goes on after
        ``sequence``.
        Raises OutOfSequence if it has gone on already.
        """

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Return the kept snapshots, newest first."""

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Return the bytes of one snapshot as they were given; raises StoreDamaged if it is missing or altered."""

    def save_solution(self, lease: Lease, solution: Solution) -> None:
        """Keep a solution in place of the one before."""

    def solution(self, model: str) -> Solution | None:
        """Return the solution that is kept, as it was given; raises StoreDamaged if it was altered."""

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Return records with a number above ``after``, in order, aborted ones too."""

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Keep a document in place of the one before, whole; it is as durable as an appended record."""

    def document(self, at: DocumentName) -> bytes | None:
        """Return a document as it was given, None if there is none; raises StoreDamaged if it was altered."""

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Return every document of a kind, or of all, by kind and name."""

    def delete_document(self, at: DocumentName) -> bool:
        """Remove a document; whether there was one."""

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Have nothing remain, where that is in the store's hands, of what was removed before; what became of it where.

        ``models`` are those of which something was removed, None: any may be.
        Not ``wholly``, it is left where looking for it would take long, and overwritten by what comes.
        """

    def close(self) -> None:
        """Release everything; no call may follow."""
