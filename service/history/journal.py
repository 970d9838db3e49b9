"""The writer's side of a model's log: records that are stored, and those still to be stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, Protocol, TypeVar

from livesvm.service.errors import IdempotencyConflict, ModelUnavailable, RequestErased
from livesvm.service.history.erasure import Remainder
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import (
    Appending,
    DocumentName,
    Durability,
    Fenced,
    Head,
    Idempotency,
    Lease,
    ModelGone,
    OutOfSequence,
    Remembered,
    Solution,
    Store,
    StoreBehind,
    StoreError,
    StoreUnavailable,
)

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Where models are stored, and what watches the store."""

    store: Store
    health: Health
    metrics: Metrics


class State(Protocol):
    """What a log makes: it goes up to a record, has a version, and can be written down."""

    @property
    def sequence(self) -> int: ...

    @property
    def version(self) -> int: ...

    @property
    def hot_bytes(self) -> int:
        """Bytes that ``cool`` gives back."""

    @property
    def held_bytes(self) -> int:
        """Bytes of all of it."""

    def cool(self) -> None:
        """Give up what the next call makes again."""

    def encode(self) -> bytes:
        """Encode the whole record."""

    def skip(self) -> None:
        """Pass over a record that has no effect."""


@dataclass
class Journal:
    """The log and the snapshots of one model, seen by its only writer.

    Invariant: no command is appended while a debt stands, a debt being a thing the store must know first (that a
    record was taken back, or how a request was answered). After a call whose outcome is not known, the first debt is
    a new epoch, so that what is still under way cannot take effect later.

    ``known`` is the newest record that the store has said to keep; ``behind`` says that it no longer has it.
    """

    source: Source
    lease: Lease
    keep: int
    fenced: bool = False
    behind: bool = False
    known: int = 0
    left: Remainder = field(default_factory=Remainder)
    _debts: list[Callable[[], None]] = field(default_factory=list)
    _is_unsure: bool = False
    _attempt: int = 0

    def owe(self, debt: Callable[[], None]) -> None:
        """Have ``debt`` paid before the next command."""
        self._debts.append(debt)

    @property
    def is_settled(self) -> bool:
        """Whether no debt stands."""
        return not self._debts

    def settle(self) -> None:
        """Pay every debt, oldest first; raises StoreError if the store does not take it."""
        if self._is_unsure:
            self._retake()
        while self._debts:
            self._debts[0]()
            self._debts.pop(0)

    def append(self, state: State, data: bytes, idempotency: Idempotency | None) -> Durability:
        """Log the command that follows ``state``; one that seems to fail is taken back before the next."""
        sequence = state.sequence + 1
        try:
            level = self._call("append", lambda s: s.append(self.lease, sequence, data, idempotency, keep=self.keep))
        except BaseException as error:
            self.lose_sight(state, is_unsure=not isinstance(error, StoreError))
            if isinstance(error, OutOfSequence):
                self.last_sequence()  # says so if the store is behind
            raise
        self.known = sequence
        return level

    def lose_sight(self, state: State, *, is_unsure: bool) -> None:
        """Know that an append behind ``state`` failed, and may have been written all the same: it is taken back.

        It may still be under way where the store has not said what became of it.
        """
        self._is_unsure |= is_unsure
        self.owe(lambda: self._take_back_unknown(state))

    def _take_back_unknown(self, state: State) -> None:
        """Take back what was written by an append that seemed to fail."""
        written = self.last_sequence()
        while state.sequence < written:
            self.abort(state.sequence + 1)
            state.skip()

    def appended(self, state: State, record: Appending, error: StoreError | None) -> None:
        """Know what came of a record that was appended with others; raises as :meth:`append`."""
        try:
            if error is not None:
                self._raise(error)
        except StoreError as raised:
            self.lose_sight(state, is_unsure=False)
            if isinstance(raised, OutOfSequence):
                self.last_sequence()  # says so if the store is behind
            raise
        self.known = record.sequence

    def abort(self, sequence: int) -> None:
        """Take a record back."""
        self._call("abort", lambda store: store.abort(self.lease, sequence))

    def last_sequence(self) -> int:
        """Return number of the newest record in the log.

        Raises StoreBehind if it is older than what is known to be kept.
        """
        newest = self._call("recall", lambda store: store.last_sequence(self.lease))
        self._compare(newest)
        return newest

    def recall(self, request: str, digest: bytes, *, is_stored: bool = True) -> bytes | None:
        """Return the answer that a request got before, None if it is new; raises IdempotencyConflict.

        The store is asked unless it is known that it has nothing of the request; see :func:`remembering`.
        """
        earlier = self._call("recall", lambda store: store.recall(self.lease.model, request)) if is_stored else None
        if earlier is None:
            if self.left.holds(request):
                raise RequestErased("this request had its effect; its answer named examples that were erased since")
            return None
        if earlier.body != digest:
            raise IdempotencyConflict(f"the key {request!r} came with another update before")
        if earlier.answer is None:
            raise ModelUnavailable(f"the update of {request!r} is record {earlier.sequence}; its answer is lost")
        return bytes(earlier.answer)

    def remember(self, request: str, answer: bytes) -> None:
        """Keep the answer to a request."""
        self._call("answer", lambda store: store.remember(self.lease, request, answer))

    def save_snapshot(self, sequence: int, data: bytes, version: int, summary: bytes) -> None:
        """Keep a snapshot that holds every record up to ``sequence``, and what is shown of it at rest."""
        try:
            self._call("snapshot", lambda store: store.save_snapshot(self.lease, sequence, data, version, summary))
        except StoreError:
            self.source.metrics.snapshots.labels("failed").inc()
            raise
        self.source.metrics.snapshots.labels("written").inc()

    def describe(self, sequence: int, summary: bytes) -> None:
        """Keep what is shown of the model at rest, true up to ``sequence``."""
        self._call("snapshot", lambda store: store.describe(self.lease, sequence, summary))

    def supersede(self, sequence: int, data: bytes, version: int, summary: bytes) -> None:
        """Let one snapshot stand for every record up to ``sequence``, and for all that was stored of them."""
        self._call("snapshot", lambda store: store.supersede(self.lease, sequence, data, version, summary))
        self.known = sequence

    def requests(self) -> dict[str, Remembered]:
        """Return everything that is remembered of requests."""
        return self._call("recall", lambda store: store.requests(self.lease.model))

    def forget_requests(self, names: Iterable[str]) -> None:
        """Forget what is remembered of these."""
        self._call("answer", lambda store: store.forget_requests(self.lease, names))

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Keep a document that belongs to the model."""
        self._call("document", lambda store: store.put_document(at, data))

    def save_solution(self, solution: Solution) -> None:
        """Keep a solution in place of the one before."""
        self._call("solution", lambda store: store.save_solution(self.lease, solution))

    def delete(self) -> None:
        """Remove the model from the store, or what is left of it there if the store has lost it or some of it."""
        with suppress(StoreBehind):
            self.check_writable()
            self._call("delete", lambda store: store.delete(self.lease))
            return
        with self.source.health.store_call("delete"), suppress(ModelGone):
            store = self.source.store
            store.delete(store.acquire(self.lease.model))

    def release(self) -> None:
        """Let another service take the model over at once."""
        self._call("lease", lambda store: store.release(self.lease))

    def check_writable(self) -> None:
        """Raise Fenced once another writer has taken the model over, StoreBehind while the store lacks records."""
        if self.fenced:
            raise Fenced(f"another writer has taken model {self.lease.model} over")
        if self.behind:
            raise StoreBehind(f"the store no longer has record {self.known} of model {self.lease.model}")

    def look(self) -> None:
        """Ask the store where it stands; raises StoreError."""
        known = self.known
        with self.source.health.store_call("watch"):
            heads = self.source.store.heads([self.lease.model])
        self.observe(known, heads.get(self.lease.model))

    def begin_again(self, sequence: int) -> None:
        """Go on from a store that has been given everything up to ``sequence`` under this lease; nothing is owed it."""
        self._debts.clear()
        self._is_unsure = self.behind = False
        self._attempt = 0
        self.known = sequence

    def observe(self, known: int, head: Head | None) -> None:
        """Learn from any thread where the store stands; ``known`` was read before the store was asked.

        A store that has less than it had acknowledged has lost it, whoever it says is the writer: an older backup names
        an older one.
        """
        is_behind = head is None or head.sequence < known
        if head is not None and not is_behind and head.lease.writer != self.lease.writer:
            self.fenced = True
        elif self.behind != is_behind:
            self.behind = is_behind
            say = log.error if self.behind else log.warning
            say("model %s: the store %s what it had acknowledged", self.lease.model, "lacks" if self.behind else "has")

    def _compare(self, newest: int) -> None:
        if newest < self.known:
            self.behind = True
            self.check_writable()

    def _retake(self) -> None:
        """Fence what may still be under way."""
        self._attempt += 1
        self.lease, newest = self._call("lease", lambda store: store.retake(self.lease, self._attempt))
        self._is_unsure = False
        self._compare(newest)

    def _call(self, operation: str, call: Callable[[Store], T]) -> T:
        try:
            with self.source.health.store_call(operation):
                return call(self.source.store)
        except StoreError as error:
            self._raise(error)

    def _raise(self, error: StoreError) -> NoReturn:
        """Raise what the store has said, after learning from it."""
        if isinstance(error, StoreUnavailable):
            self._is_unsure = True
        elif isinstance(error, Fenced):
            self._learn_why(error)
        raise error

    def _learn_why(self, error: Fenced) -> None:
        """Note that a lease is lost: another writer has the model, or the store lost it; then raise StoreBehind."""
        self.look()
        if self.behind:
            raise StoreBehind(str(error)) from error
        self.fenced = True


def remembering(source: Source, models: Sequence[str], request: str) -> set[str]:
    """Ask the store which of many models, by what they are stored under, remember a request."""
    with source.health.store_call("recall"):
        return source.store.remembering(models, request)


def append_together(
    source: Source, records: Sequence[Appending], keep: int
) -> tuple[Durability | None, list[StoreError | None]]:
    """Append a record to each of many logs in one step; the level they reached, and what each was refused for.

    Each journal learns of its own by :meth:`Journal.appended`. Where the store is away, that is what all are refused
    for, and there is no level.
    """
    try:
        with source.health.store_call("append"):
            return source.store.append_many(records, keep=keep)
    except StoreError as error:
        return None, [error] * len(records)


def remember_together(source: Source, answers: Sequence[tuple[Journal, str, bytes]]) -> None:
    """Keep answers to a request of many models, now or before their next calls."""
    try:
        with source.health.store_call("answer"):
            source.store.remember_many([(journal.lease, request, answer) for journal, request, answer in answers])
    except Exception as error:  # the log has what was done, whatever it is that failed
        if not isinstance(error, StoreError):
            log.exception("answers were not kept, which is tried again")
        for journal, request, answer in answers:
            journal.owe(partial(journal.remember, request, answer))
