"""How a state in memory is changed: the change is logged, applied, published and answered; a snapshot may follow.

All these steps run in the mailbox of the model or feed. The subclasses for models and feeds define the entries of the
log, and the form in which readers get the state.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    IdempotencyConflict,
    NotSolved,
    OutOfMemory,
    OutOfTime,
    ServiceError,
    TurnMissed,
)
from livesvm.service.history.checkpoints import Checkpoints
from livesvm.service.history.erasure import LEFT, Intent, Remainder
from livesvm.service.history.journal import Journal, State
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import Patience
from livesvm.service.history.writeback import Snapshot
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.handle import Reply
from livesvm.service.hosting.summary import Summary
from livesvm.service.logs.calls import stage
from livesvm.service.resources.memory import HeldMemory
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import (
    Appending,
    DocumentName,
    Durability,
    Idempotency,
    Indexed,
    Lease,
    StoreDamaged,
    StoredModel,
    StoreError,
)
from livesvm.service.webhooks.messages import Happened
from livesvm.service.webhooks.outbox import forget_forecasts
from livesvm.solvers.errors import SolverError

log = logging.getLogger(__name__)
S = TypeVar("S", bound=State)
T = TypeVar("T")


class Loggable(Protocol):
    """An entry of a log; ``request`` is the Idempotency-Key of the request that caused the entry."""

    @property
    def request(self) -> str | None: ...

    def encode(self) -> bytes:
        """Encode the entry as the bytes of a log record."""


class Logged(ABC, Generic[S]):
    """A state in memory: each change is logged before it is applied, and snapshots of the state are saved from time to
    time.

    Invariant: the state agrees with the log, or it is marked as broken and is rebuilt from the log before the next
    call.

    Parameters
    ----------
    id, stored : the replica's id, and the name under which it is stored
    found : the replica's entry in the store's index
    context : the parts of the service that all replicas share
    """

    word: ClassVar[str]  #: name of the kind in messages
    gone: ClassVar[type[ServiceError]]  #: error that says that the replica does not exist
    spec_field: ClassVar[str]  #: field of a stored specification in its document
    undoes: ClassVar[bool]  #: whether an entry that is refused while it is applied leaves the state as it was
    worth: ClassVar[tuple[float, float]] = 0.0, 0.0
    """Least seconds of solving since a snapshot that make another one worthwhile: after its time, and before a rest."""

    journal: Journal
    checkpoints: Checkpoints

    def __init__(self, id: str, stored: str, found: Indexed, context: Context) -> None:
        self.id, self.stored = id, stored
        self.context = context
        self._found = found
        self._spec: Any = None
        self._state: S | None = None
        self._held: HeldMemory | None = None
        self._is_broken = self.deleted = False
        self._leaving: ServiceError | None = None
        self._under_way = Solve()
        self.hot: int | None = 0  #: bytes that cooling would free; None: not counted since the newest call
        self.due_at = math.inf  #: monotonic time from which a snapshot is due, after the newest call

    def __str__(self) -> str:
        return f"{self.word} {self.id}"

    # The differences between models and feeds.

    @staticmethod
    @abstractmethod
    def parse_spec(text: str) -> Any:
        """Parse a specification from JSON; raises ValueError."""

    @abstractmethod
    def _recover(self, lease: Lease, patience: Patience) -> Recovered[S]:
        """Recover the state from the store; raises StoreError or NotSolved."""

    @abstractmethod
    def _publish(self, state: S) -> None:
        """Make this state the one that readers get."""

    @abstractmethod
    def _tell(self) -> dict[str, Any]:
        """Return the description that readers get while the model or feed is at rest."""

    @abstractmethod
    def _count(self, became: str, seconds: float | None) -> None:
        """Count the result of a call in the metrics; record the call's seconds if it had an effect."""

    def _happened(self) -> Iterable[Happened]:
        """Return the webhook events of the newest log record, which follow from the state alone."""
        return ()

    @classmethod
    def wakes(cls, spec: Any) -> bool:
        """Return whether the service, when it starts, wakes a model or feed with this specification."""
        return False

    @classmethod
    def encode_spec(cls, spec: Any) -> bytes:
        """Encode a specification in the form in which the store keeps it."""
        return codec.encode({cls.spec_field: spec.model_dump_json()})

    @classmethod
    def decode_spec(cls, stored: StoredModel) -> Any:
        """Decode a stored specification; raises StoreError."""
        stored.check()
        try:
            return cls.parse_spec(codec.decode(stored.spec)[cls.spec_field])
        except (ValueError, KeyError) as error:
            raise StoreDamaged(f"its specification cannot be read: {error}") from error

    @property
    def audit_name(self) -> str:
        """The name of the model or feed in the audit log."""
        return str(self)

    # The steps of calls.

    @property
    def current(self) -> S:
        """The state; only calls that run in the mailbox may use it."""
        assert self._state is not None
        return self._state

    @property
    def held(self) -> HeldMemory:
        """The replica's share of the memory budget; only calls that run in the mailbox may use it."""
        assert self._held is not None
        return self._held

    def begun(self, solve: Solve | None = None) -> Solve:
        """Record a call's solve as the one in progress, limit its time to the service's maximum, and return it."""
        self._under_way = solve = solve or Solve()
        solve.seconds = min(solve.seconds, self.context.settings.solve_seconds)
        if self._leaving is not None:
            raise self._leaving
        return solve

    def check_open(self) -> None:
        """Make the store calls that earlier calls have left to do; raise an error if no call can be accepted."""
        self.journal.check_writable()
        self.journal.settle()

    def check_stored(self) -> None:
        """Raise an error if no call can be accepted, or if the store has lost data of this model or feed.

        In the mailbox the result is certain, because no deletion can run during the check.
        """
        self._check_exists()
        self.journal.look()
        self.check_open()

    def perform(
        self,
        entry: Loggable,
        digest: bytes,
        apply: Callable[[], T],
        show: Callable[..., bytes],
        solve: Solve,
    ) -> tuple[T, bytes, bytes, Durability]:
        """Log an entry, apply the entry and publish the state; if one of these fails, undo all of them.

        Return the result of ``apply``, the answer that ``show`` makes, the record's bytes, and the durability of the
        record.
        """
        state = self.current
        self.context.turns.check_open()
        solve.check()
        crash.point("before-log")
        stage("log")
        logged = self.appending(entry, digest)
        try:
            durability = self.journal.append(state, logged.data, logged.idempotency)
            done, reported = self.applied(logged.sequence, apply, partial(show, durability=durability), solve)
        except BaseException:
            self.check_applied(logged.sequence)
            raise
        return done, reported, logged.data, durability

    def check_applied(self, sequence: int) -> None:
        """If a logged record was not applied, for whatever reason, make the next call mark the record as aborted."""
        if self.journal.is_settled and self.current.sequence < sequence:
            self.journal.lose_sight(self.current, is_unsure=True)

    def appending(self, entry: Loggable, digest: bytes) -> Appending:
        """Return an entry as the next record for the log, together with the request's idempotency key."""
        named = None if entry.request is None else Idempotency(entry.request, digest)
        return Appending(self.journal.lease, self.current.sequence + 1, entry.encode(), named)

    def remember(self, request: str | None, answer: bytes) -> None:
        """Store the answer to a logged request now or, if that fails, before the next call."""
        if request is not None:
            self._owe(lambda: self.journal.remember(request, answer))

    def announce(self) -> None:
        """Store the webhook messages about the newest record now or, if that fails, before the next call."""
        outbox = self.context.outbox
        if outbox.webhooks and (messages := outbox.messages(self._happened())):
            crash.point("before-announce")
            self._owe(partial(outbox.keep, self.context.source, messages))

    def _owe(self, debt: Callable[[], None]) -> None:
        self.journal.owe(debt)
        with self.following():
            self.journal.settle()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Log the block's errors instead of raising them, because the call before the block has succeeded already."""
        try:
            yield
        except StoreError:
            pass  # the debts to the store are tried again before the next call
        except Exception:
            log.exception("%s: what follows a call failed in an unforeseen way; the call had its effect", self)

    def breaks(self) -> None:
        """Mark the state as broken, so that the state is rebuilt from the log before the next call."""
        self._is_broken = True
        self.journal.owe(self._rebuild)

    def supersede(self, intent: Intent) -> int:
        """Replace all stored data by the state after an erasure; publish it; return the number of removed requests."""
        crash.point("erase-solved")
        stage("log")
        state = self.current
        try:
            forget_forecasts(self.context.source, self.stored)
            size, requests = self._superseded(state, intent)
        except BaseException:
            self.breaks()
            raise
        self._publish(state)
        self.checkpoints.saved(state, size)
        self._found = Indexed(self.stored, state.sequence, b"", 0)  # rest, or stop, describes it
        return requests

    def _superseded(self, state: S, intent: Intent) -> tuple[int, int]:
        """Replace all stored data by a snapshot; return the snapshot's bytes and the number of removed requests.

        Raises StoreError; a repeated call has the same result.
        """
        journal, before = self.journal, self.journal.left
        requests = intent.going(self.stored, journal.requests())
        now = Remainder(state.version, intent.at, before.salt, dict(before.requests))
        now.bury(requests, state.sequence - self.context.settings.idempotency_keep)
        journal.put_document(DocumentName(LEFT, self.stored), now.encode())
        journal.left, data = now, state.encode()
        journal.supersede(state.sequence, data, state.version, first_summary(self._spec, self.wakes(self._spec)))
        crash.point("erase-superseded")
        journal.forget_requests(requests)
        crash.point("erase-forgotten")
        return len(data), len(requests)

    def applied(
        self, sequence: int, apply: Callable[[], T], show: Callable[[T], bytes], solve: Solve
    ) -> tuple[T, bytes]:
        """Apply a logged record and publish the new state; return the results of ``apply`` and of ``show``.

        After a failure the record is marked as aborted, and the state is again the one before the record.
        """
        crash.point("after-log")
        try:
            with self.context.turns.turn(solve):
                done = apply()
        except BaseException as error:
            if self.undoes and isinstance(error, SolverError | NotSolved):
                self.withdraw(sequence)
                raise
            self._take_back(sequence, error)
            raise
        crash.point("before-publish")
        stage("publish")
        try:
            return done, show(done)
        except BaseException as error:
            self._take_back(sequence, error)
            raise

    def withdraw(self, sequence: int) -> None:
        """Mark a logged record without effect as aborted; after a StoreError, the next call tries that again."""
        self.journal.owe(lambda: self.journal.abort(sequence))
        self.current.skip()
        self.journal.settle()

    @contextmanager
    def growing(self, size: int, logged: int) -> Iterator[None]:
        """Reserve memory to apply a logged record; if there is too little memory, mark the record as aborted."""
        held, before = self.held, self.held.size
        try:
            held.resize(max(size, before))
        except BaseException:
            self.withdraw(logged)
            raise
        try:
            yield
        except BaseException:
            held.resize(before)
            raise

    def _take_back(self, sequence: int, error: BaseException) -> None:
        """Mark a record that failed halfway as aborted, and rebuild the state from the log before the next call."""
        if not isinstance(error, SolverError | NotSolved):
            log.exception("%s: a call failed in an unforeseen way; it is recovered from the log", self)
        self.journal.owe(lambda: self.journal.abort(sequence))
        self.breaks()
        try:
            self.journal.settle()
        except Exception as failure:
            log.warning("%s: it is recovered from the log before its next call: %s", self, failure)

    def _rebuild(self) -> None:
        self._under_way = Solve()
        found = self._recover(self.journal.lease, Patience.short(self._under_way))
        self.journal.known = found.state.sequence
        self._state = found.state
        self._publish(found.state)
        self._is_broken = False

    def _changed(
        self,
        request: str | None,
        digest: Callable[[], bytes],
        call: Callable[[bytes, Solve], Reply],
        solve: Solve | None = None,
    ) -> Reply:
        """Run a call that changes the state, or return the answer to an earlier identical request; count the result.

        ``digest`` returns the digest of the request's content. ``call`` gets the digest, which is empty without a
        request, and the solve that limits the call's time.
        """
        start, earlier = time.perf_counter(), None
        with self._counted():
            solve = self.begun(solve)
            self.check_open()
            asked = b"" if request is None else digest()
            if request is not None:
                earlier = self.journal.recall(request, asked)
            reply = call(asked, solve) if earlier is None else Reply(earlier, replayed=True)
        with self.following():
            self._count("replayed" if reply.replayed else "applied", time.perf_counter() - start)
        crash.point("before-answer")
        return reply

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """If the block raises an error, count its call as refused, timed out, withdrawn or failed."""
        try:
            yield
        except (SolverError, IdempotencyConflict, OutOfMemory):
            self._count("refused", None)
            raise
        except NotSolved as error:
            self._count("timed-out" if isinstance(error, OutOfTime | TurnMissed) else "withdrawn", None)
            raise self._leaving or error from error
        except Exception:
            self._count("failed", None)
            raise

    def _save(self, save: Callable[[S, bytes], None]) -> None:
        reported, sequence = self._summarize(), self.current.sequence
        save(self.current, reported)
        if not self.checkpoints.has_changes:
            self._found = Indexed(self.stored, sequence, reported, sequence)

    def _summarize(self) -> bytes:
        spec, reported = self._spec, self._tell()
        return Summary(spec.model_dump_json(), int(self.current.held_bytes), reported, self.wakes(spec)).encode()

    def _write_down(self) -> bytes:
        """Store the summary, and a snapshot if the state has changed enough; return the summary; raises StoreError."""
        state, reported = self.current, self._summarize()
        self.journal.settle()
        if self.checkpoints.is_worthwhile:
            self.checkpoints.save(state, reported)
        elif reported != self._found.summary or state.sequence != self._found.described:
            self.journal.describe(state.sequence, reported)
        return reported

    def _snapshot(self) -> Snapshot:
        return self.current.sequence, self.current.encode(), self.current.version

    def _check_exists(self) -> None:
        if self.deleted:
            raise self._is_gone()

    def _is_gone(self) -> ServiceError:
        return self.gone(f"{self} was deleted")

    def _between(self) -> None:
        """Write a snapshot between two calls, if one is due; raises no error, because the next call must run anyway."""
        self.due_at = math.inf
        if self._state is None or self.deleted or self._is_broken:
            return
        with self.following():
            self.hot, self.due_at = None, self.checkpoints.deadline()
            if self.checkpoints.is_due(self._state.version, self.due_at) and self.journal.is_settled:
                self._save(self.checkpoints.save_quietly)
                self.due_at = self.checkpoints.deadline()


def first_summary(spec: Any, wakes: bool) -> bytes:
    """Return the summary of a model or feed that has no description yet: it holds the specification alone."""
    return Summary(spec.model_dump_json(), wakes=wakes).encode()
