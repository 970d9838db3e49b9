"""The protocol of a store, which loses no acknowledged update. A store keeps bytes, and does not interpret them.

Each model has a *log* of records numbered 1, 2, 3, ... and a few *snapshots*: the model's state after a record, with
the number of that record. Every write carries the writer's :class:`Lease`; the store refuses a lease with an older
epoch than the model's newest, so two writers never both succeed. Monotonic clocks decide when a service may take over a
model of another service; no clock decides which of two writers may write. All calls block, and are safe from any
thread.

Besides models, a store keeps small *documents*, each under its kind and name. A document has no lease: a new document
replaces the earlier one with the same kind and name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class Durability(StrEnum):
    """The failures that an appended record survives."""

    FSYNCED = "fsynced"
    """A crash of the process, of the store, or of the machine."""
    LOGGED = "logged"
    """A crash of the process or of the store; a loss of power may take about one second."""
    MEMORY = "memory"
    """Nothing is promised."""


class StoreError(Exception):
    """Base class of the errors of a store."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write now; whether the call had an effect may be unknown."""


class StoreDamaged(StoreError):
    """Stored data do not match their checksum, or were not written by this program."""


class StoreTooNew(StoreError):
    """The stored data were written by a newer version of this program."""


class StoreInUse(StoreError):
    """Another process uses this store, and only one process may use it at a time."""


class Fenced(StoreError):
    """Another writer has taken over the model, or the model was deleted; the writer with the old lease must stop."""


class ModelGone(Fenced):
    """The model is not stored: it was deleted, or the store lost it."""


ERASED = "erased"
"""The kind of documents in which a model's writer lists what erasures have left, each under the name of its model."""
WEBHOOK_WAITING, WEBHOOK_DEAD = "webhook-message", "webhook-dead-letter"
"""The kinds of messages to webhooks, waiting and given up; their names begin with the name a model is stored under."""
DELETING = "deleting"
"""The kind of documents that name what is being deleted: a model or a feed by the name it is stored under, or a fleet
by its own name, with the feeds of its series. A store without space takes these all the same."""
SERVICE = "service"
"""The kind of documents with the addresses of services, each under the name of its service."""


class LeaseHeld(StoreError):
    """Another service that is alive holds this model."""


class StoreBehind(StoreError):
    """The store has lost records that it had acknowledged; to go on writing would hide the loss."""


class OutOfSequence(StoreError):
    """The record to append does not have the number that follows the newest record in the log."""


class RequestKnown(StoreError):
    """The log already has a record with the idempotency key of the record to append."""


class ModelExists(StoreError):
    """The store already has a model with the id of the model to create."""


class DocumentExists(StoreError):
    """The store already has a different document of the same kind and name."""


@dataclass(frozen=True)
class Lease:
    """The right to write one model; of several leases for a model, only the one with the highest epoch is valid."""

    model: str
    epoch: int
    writer: str = ""
    """The process that holds the lease, where a store can forget epochs that it gave out."""


@dataclass(frozen=True)
class Head:
    """A model's state in the store: its writer, and its newest record."""

    lease: Lease
    sequence: int


@dataclass(frozen=True)
class SnapshotInfo:
    """The description of a kept snapshot: newest record, version of the model, Unix time of writing, size in bytes.

    If a snapshot ``is_damaged``, only the number of its newest record is known. Damage to the snapshot's data is found
    only when the snapshot is loaded.
    """

    sequence: int
    version: int
    saved_at: float
    size: int
    is_damaged: bool = False


@dataclass(frozen=True)
class Solution:
    """The solver's solution for a model after log record ``sequence``, without the examples, which are in the log."""

    sequence: int
    data: bytes


@dataclass(frozen=True)
class StoredModel:
    """A model as it was created: its id and its specification; ``damage`` says what the store has lost of the model."""

    id: str
    spec: bytes
    damage: str = ""

    def check(self) -> None:
        """Raise StoreDamaged if the store has lost data of this model."""
        if self.damage:
            raise StoreDamaged(self.damage)


class Indexed(NamedTuple):
    """The entry of a model in the index that a starting service reads; it has no specification and no state."""

    id: str
    sequence: int
    """Number of the newest record."""
    summary: bytes
    """The short description that was stored last, empty if it is missing or damaged."""
    described: int
    """The record up to which the summary is true, 0 without one."""
    holder: str = ""
    """The service that holds the model now, empty if none does or the store is not shared."""
    damage: str = ""
    """What is known to be lost of the model."""


class DocumentName(NamedTuple):
    """The address of a document: a kind, which has no colon, and a name."""

    kind: str
    name: str


@dataclass(frozen=True)
class Idempotency:
    """The client's name for a request, and the SHA-256 of the request's body."""

    key: str
    body: bytes


@dataclass(frozen=True)
class Remembered:
    """A remembered request: SHA-256 of its body, number of its record, and its answer, None before this is stored."""

    body: bytes
    sequence: int
    answer: bytes | None


@dataclass(frozen=True)
class LogRecord:
    """One command in the log; an aborted command had no effect."""

    sequence: int
    data: bytes
    aborted: bool


@dataclass(frozen=True)
class Appending:
    """One record for a call that appends records of several models."""

    lease: Lease
    sequence: int
    data: bytes
    idempotency: Idempotency | None = None


class Store(Protocol):
    """The protocol of a store; ``tests/contract`` has the tests that every implementation must pass.

    The defaults here fit a store that no other service uses and that syncs every commit to its disk.
    """

    @property
    def shared(self) -> bool:
        """Whether other services may use the store at the same time."""
        return False

    def durability(self) -> Durability:
        """Return the durability that an appended record has now, according to the store itself."""
        return Durability.FSYNCED

    @property
    def weakness(self) -> str | None:
        """The reason why :meth:`durability` last returned MEMORY, with advice; None if it returned a higher level."""
        return None

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes of memory that the store's server uses, and their limit (0: no limit); raises StoreError.

        Returns None if the store is on a disk, or if its server does not report its memory.
        """
        return None

    def ping(self) -> None:
        """Show other services that this one is alive; raise StoreUnavailable if the store could not take an update now.

        Checks that write to the disk are made every few seconds only, to spare the disk; all other checks are made at
        each call.
        """

    def begin_again(self) -> None:
        """Make a new index and an empty set of documents if these are lost, so that models can be written back."""
        return

    def create(self, model: str, spec: bytes, sequence: int = 0, summary: bytes = b"") -> Lease:
        """Store a new model with a log that begins after record ``sequence``, and take its lease; raises ModelExists.

        The ``summary`` describes the model after the record ``sequence``; :meth:`index` yields it.
        """

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Yield the index entries of all stored models, or of the stored models with these ids, in no particular order.

        The index is read in pages, so a model that is created or deleted meanwhile may be yielded or not.
        """

    def changes(self) -> int:
        """Return a number that rises whenever a service creates or deletes a model; 0 if no other service can."""
        return 0

    def describe(self, lease: Lease, sequence: int, summary: bytes) -> None:
        """Replace the model's summary by one that describes the model after record ``sequence``; raises Fenced.

        A loss of power before the next append or snapshot may bring the old summary back.
        """

    def models(self) -> list[StoredModel]:
        """Return every stored model with its specification, by id."""

    def model(self, model: str) -> StoredModel | None:
        """Return one stored model with its specification, None if it is not stored."""

    def acquire(self, model: str) -> Lease:
        """Take a model over with a new epoch, which fences all earlier writers.

        Raises ModelGone if there is no such model, LeaseHeld if another service that may be alive holds it.
        """

    def retake(self, lease: Lease, attempt: int) -> tuple[Lease, int]:
        """Fence this writer's unanswered calls on its model; return a new lease and the newest record's number.

        A writer raises ``attempt`` with every call of this method, because the answers to its earlier calls may have
        been lost. Raises Fenced if another writer has the model.
        """

    def release(self, lease: Lease) -> None:
        """Give the lease back, so that another service can take the model over immediately; raises Fenced."""

    def release_all(self) -> None:
        """Let other services take over every model of this service, until it takes or creates a model again."""

    def is_silent(self, holder: str) -> bool:
        """Return whether a service shows no sign of life, so that its models may be taken.

        Returns True if no other service can use the store.
        """
        return True

    def whereabouts(self, holder: str) -> str:
        """Return the address of a service, or its name if it has stored no address."""
        return holder

    def claim(self) -> str:
        """Become the active service, which answers clients, or return the name of another active service that is alive.

        Returns an empty name if this service is active, which it always is if no other service can use the store.
        """
        return ""

    def resign(self) -> None:
        """Stop being the active service, if this service is the active one."""
        return None

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Return the writer and the newest record of each of these models; models that are not stored are left out."""

    def delete(self, lease: Lease) -> None:
        """Remove the model and all of its records."""

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Append a record and remember its idempotency key, both or neither; return the durability of the record.

        The store forgets the keys of records that are ``keep`` or more records older than this one. Raises Fenced,
        OutOfSequence if ``sequence`` is not the newest + 1, or RequestKnown, before anything is written.
        """

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Append a record to each of many models as :meth:`append` does; a refused record does not stop the others.

        Returns the durability of the appended records, and for each record None or the error that refused it.
        """

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark a record as having no effect and forget its idempotency key; a record that is missing is no error."""

    def last_sequence(self, lease: Lease) -> int:
        """Return the number of the newest record that was ever appended, 0 if none was."""

    def recall(self, model: str, key: str) -> Remembered | None:
        """Return the request that is remembered under an idempotency key, None if there is none."""

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Return the models among these for which the store remembers a request under this idempotency key."""

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Store the answer to the remembered request with this idempotency key.

        A loss of power before the next append or snapshot may lose the answer; recovery computes it again from the log.
        """

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Store answers to requests of many models as :meth:`remember` does, except those under a fenced lease."""

    def requests(self, model: str) -> dict[str, Remembered]:
        """Return all remembered requests of a model, by idempotency key."""

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Store remembered requests of a model that come from another store."""

    def forget_requests(self, lease: Lease, keys: Iterable[str]) -> None:
        """Forget the requests under these idempotency keys; a key that is not known is no error."""

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Store a snapshot of the model after ``sequence``; keep two snapshots, and trim the log up to the older one.

        In the same step the ``summary`` replaces the earlier summary; an empty summary removes it.
        """

    def supersede(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Replace the log, the snapshots and the solution of a model by one snapshot after ``sequence``, in one step.

        The ``summary`` replaces the earlier summary; remembered requests stay, and the log continues after
        ``sequence``. Raises OutOfSequence if the log has newer records already.
        """

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Return the descriptions of a model's kept snapshots, newest first."""

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Return the bytes of one snapshot as they were saved; raises StoreDamaged if it is missing or altered."""

    def save_solution(self, lease: Lease, solution: Solution) -> None:
        """Store a solution, which replaces the earlier solution."""

    def solution(self, model: str) -> Solution | None:
        """Return the model's stored solution, None if there is none; raises StoreDamaged if it was altered."""

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Yield the records with a number above ``after``, in order, aborted ones too."""

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Store a document, which replaces the earlier document; it is as durable as an appended record."""

    def document(self, at: DocumentName) -> bytes | None:
        """Return the bytes of a stored document, None if it is missing; raises StoreDamaged if they were altered."""

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Return the names of all documents of a kind, or of every kind, sorted by kind and name."""

    def delete_document(self, at: DocumentName) -> bool:
        """Remove a document; return whether there was one."""

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Erase the remains of deleted data from the files that the store can write; return the outcome for each file.

        ``models`` lists the models that data were deleted from; None stands for any model. Without ``wholly``, remains
        that would take long to find are left until new data overwrite them.
        """

    def close(self) -> None:
        """Release all connections and files; no call may follow."""
