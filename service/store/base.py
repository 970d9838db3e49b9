"""The protocol of a store, which loses no acknowledged update. A store keeps bytes and knows nothing of models.

Each model has a *log* of records numbered 1, 2, 3, ... and a few *snapshots*, each of which says up to which record it
goes. Every write carries the writer's :class:`Lease`; a writer whose epoch is no longer the newest is refused, so two
writers never both succeed. Time only decides when a model may be taken over, never which writer is right, and it is
read from monotonic clocks alone. All calls block, and are safe from any thread.

Besides the models there are small *documents*, each under its kind and name. They have no leases: the document that was
put last under a name replaces the one before.
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
    """Another process holds this store."""


class Fenced(StoreError):
    """Another writer has taken this model over, or it was deleted; this one must stop."""


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
    """The process that holds the lease, where a store can forget epochs that it gave out."""


@dataclass(frozen=True)
class Head:
    """A model's state in the store: its writer, and its newest record."""

    lease: Lease
    sequence: int


@dataclass(frozen=True)
class SnapshotInfo:
    """A kept snapshot: its newest record and version, the Unix time of its writing, and its size in bytes.

    Only the record of a snapshot that ``is_damaged`` is known. Other damage is found when the snapshot is loaded.
    """

    sequence: int
    version: int
    saved_at: float
    size: int
    is_damaged: bool = False


@dataclass(frozen=True)
class Solution:
    """The solution of a model with all records up to ``sequence``, without the data that those records hold."""

    sequence: int
    data: bytes


@dataclass(frozen=True)
class StoredModel:
    """A model as it was created: its id and its specification; ``damage`` says what the store has lost of the model."""

    id: str
    spec: bytes
    damage: str = ""

    def check(self) -> None:
        """Raise StoreDamaged if the store has lost something of this model."""
        if self.damage:
            raise StoreDamaged(self.damage)


class Indexed(NamedTuple):
    """The entry of a stored model that a start reads: it has neither the specification nor the state."""

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
    """An earlier request: the SHA-256 of its body, its record's number, and its answer, None before there was one."""

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
    """A record that is to be appended together with records of other models."""

    lease: Lease
    sequence: int
    data: bytes
    idempotency: Idempotency | None = None


class Store(Protocol):
    """The protocol of a store; ``tests/contract`` has the tests that every implementation must pass.

    The default answers here are those of a store on a disk that no other service uses and that syncs every commit.
    """

    @property
    def shared(self) -> bool:
        """Whether other services may use the store at the same time."""
        return False

    def durability(self) -> Durability:
        """Return the level that an append reaches now, as the store itself says."""
        return Durability.FSYNCED

    @property
    def weakness(self) -> str | None:
        """Why :meth:`durability` last returned no more than memory, and what to do; None if it returned more."""
        return None

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes that a store in memory uses, and its limit, 0 for no limit; raises StoreError.

        A store that is on a disk, or whose server does not say, returns None.
        """
        return None

    def ping(self) -> None:
        """Show that this service is alive; raise StoreUnavailable if the store could not take an update now.

        Checks that wear the disk by a write are made every few seconds, all others each time.
        """

    def begin_again(self) -> None:
        """Make an empty index and empty documents if the store has lost them, so that models can be written back."""
        return

    def create(self, model: str, spec: bytes, sequence: int = 0, summary: bytes = b"") -> Lease:
        """Store a new model whose log begins after ``sequence``, and take its lease; raises ModelExists.

        The ``summary`` describes the model for :meth:`index` up to the record ``sequence``.
        """

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Yield all stored models, or the stored models with these ids; the index is read in pages, in no order.

        A model that is created or deleted during the reading may be yielded or not.
        """

    def changes(self) -> int:
        """Return a number that rises whenever a service creates or deletes a model; 0 if no other service can."""
        return 0

    def describe(self, lease: Lease, sequence: int, summary: bytes) -> None:
        """Replace the summary by one that is true up to the record ``sequence``; raises Fenced.

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
        """Fence this writer's calls under way on its model; return a new lease, and the newest record's number.

        A writer raises ``attempt`` with every try, as the answers to its earlier ones may have been lost. Raises Fenced
        if another writer has the model.
        """

    def release(self, lease: Lease) -> None:
        """Let another service take the model over at once; raises Fenced."""

    def release_all(self) -> None:
        """Let other services take over every model of this service, until it takes or creates a model again."""

    def is_silent(self, holder: str) -> bool:
        """Return whether a service shows no life, so that its models can be taken; True if there can be no other."""
        return True

    def whereabouts(self, holder: str) -> str:
        """Return the address of a service, or its name if it has stored no address."""
        return holder

    def claim(self) -> str:
        """Become the active service, which takes the calls, or return the name of an active service that is alive.

        The name is empty if this service is active, as it always is where there can be no other.
        """
        return ""

    def resign(self) -> None:
        """Give up the place of the active service, if this service has it."""
        return None

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Return the writer and the newest record of each of these models; models that are not stored are left out."""

    def delete(self, lease: Lease) -> None:
        """Remove the model and all of its records."""

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Append a record and remember its idempotency key, both or neither; return the durability that it reached.

        Keys of records that are ``keep`` or more before this one are forgotten. Raises Fenced, OutOfSequence if
        ``sequence`` is not the newest + 1, or RequestKnown, before anything is written.
        """

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Append a record to each of many models as :meth:`append` does, each whole or not at all.

        Returns the durability that they reached, and for each record the error of its refusal or None.
        """

    def abort(self, lease: Lease, sequence: int) -> None:
        """Mark a record as one without effect and forget its idempotency key; no error if it was never written."""

    def last_sequence(self, lease: Lease) -> int:
        """Return the number of the newest record that was ever appended, 0 if none was."""

    def recall(self, model: str, key: str) -> Remembered | None:
        """Return the request that is remembered under an idempotency key, None if there is none."""

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Return which of these models remember a request under an idempotency key: the ones that can be recalled."""

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Keep the answer to the request that was appended under this key.

        A loss of power before the next append or snapshot may lose the answer; recovery makes it again from the log.
        """

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Keep answers to requests of many models as :meth:`remember` does, without those of a lease that is fenced."""

    def requests(self, model: str) -> dict[str, Remembered]:
        """Return all requests that are remembered of a model, by idempotency key."""

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Remember requests that were made to a model in another store."""

    def forget_requests(self, lease: Lease, keys: Iterable[str]) -> None:
        """Forget the requests under these idempotency keys; a key that is not known is no error."""

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Store a snapshot that holds every record up to ``sequence``; keep two, and trim the log below the older one.

        In the same step the ``summary`` replaces the earlier summary; an empty summary removes it.
        """

    def supersede(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Replace all that is stored of the records up to ``sequence`` by one snapshot, in one step.

        Older records, snapshots, solutions and the summary are removed; remembered requests stay, and the log goes on
        after ``sequence``. Raises OutOfSequence if the log has newer records already.
        """

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Return the kept snapshots, newest first."""

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Return the bytes of one snapshot as they were given; raises StoreDamaged if it is missing or altered."""

    def save_solution(self, lease: Lease, solution: Solution) -> None:
        """Store a solution, which replaces the earlier solution."""

    def solution(self, model: str) -> Solution | None:
        """Return the solution that is kept, as it was given, or None; raises StoreDamaged if it was altered."""

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Yield the records with a number above ``after``, in order, aborted ones too."""

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Store a document, which replaces the earlier document; it is as durable as an appended record."""

    def document(self, at: DocumentName) -> bytes | None:
        """Return the bytes of a stored document, None if it is missing; raises StoreDamaged if they were altered."""

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Return every document of a kind, or of all, by kind and name."""

    def delete_document(self, at: DocumentName) -> bool:
        """Remove a document; return whether there was one."""

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Erase the remains of removed data from the files that the store can write; return each place with its result.

        ``models`` lists the models with removed data; None stands for any model. Without ``wholly``, remains that
        would take long to find are left until new data overwrite them.
        """

    def close(self) -> None:
        """Release all connections and files; no call may follow."""
