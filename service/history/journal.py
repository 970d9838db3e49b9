"""The writer's access to a model's log: it appends records, aborts failed records, and stores answers to requests."""

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
    """The store of all models, with its health and its metrics."""

    store: Store
    health: Health
    metrics: Metrics


class State(Protocol):
    """A state that the records of a log lead to, with the number of the last record, a version, and an encoding."""

    @property
    def sequence(self) -> int: ...

    @property
    def version(self) -> int: ...

    @property
    def hot_bytes(self) -> int:
        """The bytes that ``cool`` would free now."""

    @property
    def held_bytes(self) -> int:
        """The bytes of the whole state in memory."""

    def cool(self) -> int:
        """Free the caches, which the next call rebuilds; return the bytes that are still held."""

    def encode(self) -> bytes:
        """Return the bytes of a snapshot of the whole state."""

    def skip(self) -> None:
        """Advance past an aborted record, which has no effect."""


@dataclass
class Journal:
    """The log and the snapshots of one model; only the model's writer uses the journal.

    Invariant: no command is appended while there is a debt, which is a call to the store that must succeed first (to
    abort a record, or to store the answer to a request). If the outcome of a call is unknown, the journal first begins
    a new epoch, so that the call cannot take effect later.

    ``known`` is the number of the newest record that the store has acknowledged; ``behind`` says that the store has
    lost this record.
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
        """Add a debt, which is a call to the store that must succeed before the next command is appended."""
        self._debts.append(debt)

    @property
    def is_settled(self) -> bool:
        """Whether all debts, the calls to the store that must precede the next append, have succeeded."""
        return not self._debts

    def settle(self) -> None:
        """Make all calls that are debts, oldest first; raises StoreError if one of the calls fails."""
        if self._is_unsure:
            self._retake()
        while self._debts:
            # A debt that fails stays the first, and is tried again.
            self._debts[0]()
            self._debts.pop(0)

    def append(self, state: State, data: bytes, idempotency: Idempotency | None) -> Durability:
        """Log the command that follows ``state``; a record that may have failed is aborted before the next append."""
        record, failed = Appending(self.lease, state.sequence + 1, data, idempotency), None
        try:
            with self.source.health.store_call("append"):
                level = self.source.store.append(self.lease, record.sequence, data, idempotency, keep=self.keep)
        except StoreError as error:
            failed = error
        except BaseException:
            self.lose_sight(state, is_unsure=True)
            raise
        self.appended(state, record, failed)
        return level

    def lose_sight(self, state: State, *, is_unsure: bool) -> None:
        """Remember that an append after ``state`` failed: a record that was nevertheless written must be aborted.

        ``is_unsure`` says that the store gave no answer, so that it may still write the record.
        """
        self._is_unsure |= is_unsure
        self.owe(lambda: self._take_back_unknown(state))

    def _take_back_unknown(self, state: State) -> None:
        """Abort the records in the log after ``state``, which were written although their appends seemed to fail."""
        written = self.last_sequence()
        while state.sequence < written:
            self.abort(state.sequence + 1)
            state.skip()

    def appended(self, state: State, record: Appending, error: StoreError | None) -> None:
        """Record the result of an append to this log; raise ``error`` if the append failed."""
        try:
            if error is not None:
                self._raise(error)
        except BaseException as raised:
            self.lose_sight(state, is_unsure=not isinstance(raised, StoreError))
            if isinstance(raised, OutOfSequence):
                self.last_sequence()  # says so if the store is behind
            raise
        self.known = record.sequence

    def abort(self, sequence: int) -> None:
        """Mark a record as aborted, so that the record has no effect."""
        self._call("abort", lambda store: store.abort(self.lease, sequence))

    def last_sequence(self) -> int:
        """Return the number of the newest record in the log.

        Raises StoreBehind if the store had acknowledged a newer record.
        """
        newest = self._call("recall", lambda store: store.last_sequence(self.lease))
        self._compare(newest)
        return newest

    def recall(self, request: str, digest: bytes, *, is_stored: bool = True) -> bytes | None:
        """Return the answer that a request got before; None if the request is new; raises IdempotencyConflict.

        If ``is_stored`` is False, the store is not asked, because :func:`remembering` has shown that it has no such
        request.
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
        """Store the answer to a request."""
        self._call("answer", lambda store: store.remember(self.lease, request, answer))

    def save_snapshot(self, sequence: int, data: bytes, version: int, summary: bytes) -> None:
        """Store a snapshot, which includes all records up to number ``sequence``, and the model's summary."""
        try:
            self._call("snapshot", lambda store: store.save_snapshot(self.lease, sequence, data, version, summary))
        except StoreError:
            self.source.metrics.snapshots.labels("failed").inc()
            raise
        self.source.metrics.snapshots.labels("written").inc()

    def describe(self, sequence: int, summary: bytes) -> None:
        """Store the summary that describes the model at rest, which includes all records up to number ``sequence``."""
        self._call("snapshot", lambda store: store.describe(self.lease, sequence, summary))

    def supersede(self, sequence: int, data: bytes, version: int, summary: bytes) -> None:
        """Replace the stored records and snapshots up to number ``sequence`` by one snapshot."""
        self._call("snapshot", lambda store: store.supersede(self.lease, sequence, data, version, summary))
        self.known = sequence

    def requests(self) -> dict[str, Remembered]:
        """Return all requests that the store remembers for the model, by idempotency key."""
        return self._call("recall", lambda store: store.requests(self.lease.model))

    def forget_requests(self, names: Iterable[str]) -> None:
        """Remove the requests with these idempotency keys from the store."""
        self._call("answer", lambda store: store.forget_requests(self.lease, names))

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Store a document that belongs to the model."""
        self._call("document", lambda store: store.put_document(at, data))

    def save_solution(self, solution: Solution) -> None:
        """Store a solution in place of the previous solution."""
        self._call("solution", lambda store: store.save_solution(self.lease, solution))

    def delete(self) -> None:
        """Delete the model from the store; if the store has lost some of the model's data, delete the rest."""
        with suppress(StoreBehind):
            self.check_writable()
            self._call("delete", lambda store: store.delete(self.lease))
            return
        with self.source.health.store_call("delete"), suppress(ModelGone):
            store = self.source.store
            store.delete(store.acquire(self.lease.model))

    def release(self) -> None:
        """Release the lease, so that another service can take the model over immediately."""
        self._call("lease", lambda store: store.release(self.lease))

    def check_writable(self) -> None:
        """Raise Fenced if another writer has taken the model over, StoreBehind if acknowledged records are lost."""
        if self.fenced:
            raise Fenced(f"another writer has taken model {self.lease.model} over")
        if self.behind:
            raise StoreBehind(f"the store no longer has record {self.known} of model {self.lease.model}")

    def look(self) -> None:
        """Compare the model's head in the store with this journal; raises StoreError."""
        known = self.known
        with self.source.health.store_call("watch"):
            heads = self.source.store.heads([self.lease.model])
        self.observe(known, heads.get(self.lease.model))

    def begin_again(self, sequence: int) -> None:
        """Drop all debts, because the store has just received all data up to record ``sequence`` under this lease."""
        self._debts.clear()
        self._is_unsure = self.behind = False
        self._attempt = 0
        self.known = sequence

    def observe(self, known: int, head: Head | None) -> None:
        """Compare the model's ``head`` in the store with ``known``, which was read first; any thread may call this.

        If the store has fewer records than it had acknowledged, it has lost records, whichever writer it names: a
        backup that was restored names an older writer.
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
        """Begin a new epoch, after which the store refuses earlier calls that have not taken effect yet."""
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
        """Raise an error of the store, and record first whether the lease is lost or the call's outcome is unknown."""
        if isinstance(error, StoreUnavailable):
            self._is_unsure = True
        elif isinstance(error, Fenced):
            self._learn_why(error)
        raise error

    def _learn_why(self, error: Fenced) -> None:
        """Raise StoreBehind if the lease was lost because the store lost records; otherwise mark the model fenced."""
        self.look()
        if self.behind:
            raise StoreBehind(str(error)) from error
        self.fenced = True


def remembering(source: Source, models: Sequence[str], request: str) -> set[str]:
    """Return the stored names of those ``models`` for which the store remembers the request."""
    with source.health.store_call("recall"):
        return source.store.remembering(models, request)


def append_together(
    source: Source, records: Sequence[Appending], keep: int
) -> tuple[Durability | None, list[StoreError | None]]:
    """Append one record to each of many logs in one step; return the durability, and an error or None for each.

    The caller passes each record's error or None to :meth:`Journal.appended` of the record's journal. If the store is
    unreachable, each record gets the store's error, and the durability is None.
    """
    try:
        with source.health.store_call("append"):
            return source.store.append_many(records, keep=keep)
    except StoreError as error:
        return None, [error] * len(records)


def remember_together(source: Source, answers: Sequence[tuple[Journal, str, bytes]]) -> None:
    """Store the answers of many models to a request now or, if that fails, before each model's next command."""
    try:
        with source.health.store_call("answer"):
            source.store.remember_many([(journal.lease, request, answer) for journal, request, answer in answers])
    except Exception as error:  # the log has what was done, whatever it is that failed
        if not isinstance(error, StoreError):
            log.exception("answers were not kept, which is tried again")
        for journal, request, answer in answers:
            journal.owe(partial(journal.remember, request, answer))
