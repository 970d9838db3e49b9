"""A replica, which is a hosted model or feed: its states at rest, awake or unavailable, and its queue of calls.

A replica is *at rest* until a call needs its state; then the replica is rebuilt from its newest snapshot and its later
log records, and is *awake*. Calls run in the replica's mailbox, in the order of their submission; ``logged.py`` defines
how calls change the state.
"""

from __future__ import annotations

import logging
import math
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    ModelUnavailable,
    NoRoom,
    NotSolved,
    QueueFull,
    Restoring,
    ServiceError,
    Withdrawn,
)
from livesvm.service.history.checkpoints import Checkpoints, Due
from livesvm.service.history.erasure import left
from livesvm.service.history.journal import Journal
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import Patience
from livesvm.service.history.rescue import rescue
from livesvm.service.history.writeback import write_back
from livesvm.service.hosting import summary
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.handle import Return
from livesvm.service.hosting.logged import Logged, S
from livesvm.service.hosting.mailbox import Mailbox
from livesvm.service.logs.calls import changed, stage
from livesvm.service.models.types import ServingState
from livesvm.service.resources.memory import FIXED_BYTES, HeldMemory
from livesvm.service.store.base import (
    Appending,
    Head,
    Indexed,
    Lease,
    LeaseHeld,
    ModelGone,
    StoreBehind,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)

SOON_SECONDS = 1.0
"""Seconds for which calls wait for a replica that wakes; after that they are refused with Restoring."""

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Q = TypeVar("Q", bound="Replica[Any]")


def queued(
    *, reads: bool = False, always: bool = False
) -> Callable[[Callable[Concatenate[Q, P], T]], Callable[Concatenate[Q, P], Future[T]]]:
    """Decorate a method so that its calls run in the replica's mailbox, and return a future of the result.

    The decorated method returns without waiting, or raises QueueFull or ModelUnavailable.

    Parameters
    ----------
    reads : whether the method only reads; then it needs no store, unless the state in memory is broken
    always : whether a full mailbox accepts the call too
    """

    def as_queued(method: Callable[Concatenate[Q, P], T]) -> Callable[Concatenate[Q, P], Future[T]]:
        @wraps(method)
        def submit(self: Q, /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
            return self._submit(partial(method, self, *arguments, **named), reads=reads, always=always)

        return submit

    return as_queued


class Replica(Logged[S]):
    """One hosted model or feed, which is at rest, awake or unavailable.

    Parameters
    ----------
    id, stored, found, context : as in :class:`~livesvm.service.hosting.logged.Logged`
    owner : the replica's collection, which is notified when the replica wakes or rests, and frees memory for it
    """

    _fault: tuple[ServingState, str] | None

    def __init__(self, id: str, stored: str, found: Indexed, context: Context, owner: Any) -> None:
        super().__init__(id, stored, found, context)
        self._owner = owner
        self.found_again(found)
        self._mailbox = Mailbox(context.threads, str(self), context.settings.queue_size)
        self.returned: Return | None = None  #: how it was recovered when it last woke
        self._patience: Patience | None = None
        self._is_going = False  # whether it is being deleted
        self._waking_since: float | None = None
        self.used_at = time.monotonic()

    # The differences between models and feeds.

    @abstractmethod
    def _forget(self) -> None:
        """Drop the published version, because the replica goes to rest."""

    @abstractmethod
    def sample(self) -> Any:
        """Return the replica's metrics sample; None if the replica's description is unknown."""

    @abstractmethod
    def stamp(self) -> object:
        """Return a value that changes whenever the replica's description changes."""

    # What readers ask, from any thread.

    @property
    def is_awake(self) -> bool:
        """Whether the replica's state is in memory."""
        return self._state is not None

    @property
    def state(self) -> ServingState:
        """``live`` if served, awake or at rest; ``fenced`` or ``behind`` if read-only; another state if not served."""
        if self._fault is not None:
            return self._fault[0]
        if self._state is not None:
            return "fenced" if self.journal.fenced else "behind" if self.journal.behind else "live"
        return "live" if self.is_known else "restoring"

    @property
    def is_known(self) -> bool:
        """Whether the stored description includes the effect of the newest record."""
        reported = None if self._summary is None else self._summary.reported
        return reported is not None and self._found.described >= self._found.sequence

    @property
    def indexed(self) -> Indexed | None:
        """The replica's index entry, if it is up to date and the replica is at rest and served; otherwise None."""
        return self._found if self._state is None and self._fault is None and self.is_known else None

    @property
    def reason(self) -> str | None:
        """The reason why the replica is not served; None if it is served."""
        if self._fault is not None:
            return self._fault[1]
        return "it is being restored" if self.state == "restoring" else None

    @property
    def is_served(self) -> bool:
        """Whether the replica answers read requests; it may still refuse changes."""
        return self.state in ("live", "fenced", "behind")

    def serving(self) -> Any:
        """Return this replica if it is served; raises ModelUnavailable, or Restoring if waking takes long."""
        self._check_served()
        since = self._waking_since
        if self._spec is None or (since is not None and time.monotonic() - since > SOON_SECONDS):
            self._refuse("restoring", "it is being restored")
        return self

    def _refuse(self, state: ServingState, reason: str) -> NoReturn:
        kind = Restoring if state == "restoring" else ModelUnavailable
        raise kind(f"{self} is not served here: {reason}")

    @property
    def stale(self) -> bool:
        """Whether the replica refuses changes now, because the store may have newer data than this process knows."""
        return self.state != "live" or not self.context.source.health.store_is_fresh

    @property
    def queue_depth(self) -> int:
        """The number of waiting calls."""
        return self._mailbox.depth

    def look_at(self, known: int, head: Head | None) -> None:
        """Compare the stored ``head`` with ``known``, the newest record that this process knew before it read the head.

        A replica that is being deleted is skipped, because a missing head is then no loss of data.
        """
        if self._state is not None and not (self.deleted or self._is_going):
            self.journal.observe(known, head)

    def news(self) -> Future[None] | None:
        """Return a future that ends when this process knows all announced changes; None if it already does."""
        return None if self._fault is not None or self._state is not None or self.is_known else self.wake()

    def begin(self, lease: Lease) -> None:
        """Wake the replica, which was just created in the store; raises StoreError."""
        with self._mailbox.borrowed():
            self._opened(lease, self._recover(lease, Patience.at_last(self.context.settings.solve_seconds)))

    # What the mailbox is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def wake(self) -> Future[None]:
        """Load the replica's state into memory."""
        self._check_served()
        self.used_at = time.monotonic()
        return self._mailbox.submit(self._be_awake, always=True)

    def hold(self) -> Future[None]:
        """Return a future that ends when all earlier calls are done; later calls wait until :meth:`let_go` is called.

        May raise QueueFull.
        """
        self._check_served()
        self.used_at = time.monotonic()
        return self._mailbox.hold()

    def let_go(self) -> None:
        """Write a snapshot if one is due, then let the waiting calls run."""
        try:
            self._between()
        finally:
            self._mailbox.let_go()

    # With others, held: see :mod:`~livesvm.service.hosting.batch`.

    def open_with(self) -> None:
        """Prepare the replica for a call on many replicas: wake it, and make the store calls that are still due."""
        self._be_awake()
        self.begun()
        self.check_open()

    def release_with(self, logged: Appending | None) -> None:
        """Release the replica after a call on many replicas; abort its record if this was logged but not applied."""
        try:
            if logged is not None:
                self.check_applied(logged.sequence)
        finally:
            self.let_go()

    @queued()
    def checkpoint(self) -> dict[str, Any]:
        """Write a snapshot; return the version in the snapshot, and how many seconds the writing took."""
        self.check_open()
        start = time.perf_counter()
        self._save(self.checkpoints.save)
        return {"version": self.current.version, "seconds": time.perf_counter() - start}

    @queued(always=True)
    def write_back(self) -> dict[str, Any]:
        """Write the replica into the store again if the store has lost its data; see ``writeback.write_back``."""
        if self._is_broken:
            raise ModelUnavailable(f"{self} cannot be written back: its newest call has left it broken")
        start, snapshot, version = time.perf_counter(), self._snapshot(), self.current.version
        written = write_back(self.journal, self.encode_spec(self._spec), snapshot)
        if written:
            self.checkpoints.saved(self.current, len(snapshot[1]))
            changed("writeback", self.audit_name, version=version)
        return {"version": version, "written": written, "seconds": time.perf_counter() - start}

    def delete(self) -> Future[None]:
        """Delete the replica from the store; abort running and waiting calls, and refuse later calls."""
        if self._fault is not None and self._fault[0] == "held":
            self._refuse(*self._fault)
        self._check_exists()
        self.give_up(self._is_gone())
        return self._mailbox.submit(self._delete, always=True)

    def give_up(self, reason: ServiceError) -> None:
        """Abort the solve in progress and refuse waiting calls, because this process no longer needs the replica."""
        self._leaving = reason
        ended = Withdrawn(str(reason))
        self._under_way.end(ended)
        if (patience := self._patience) is not None:
            patience.end(reason if isinstance(reason, NotSolved) else ended)

    def stop(self) -> None:
        """Run all waiting calls, write a snapshot if the state has changed, and release the replica's lease."""
        self._mailbox.close()
        state, held = self._state, self._held
        if held is not None:
            held.release()
        if self.deleted or state is None:
            return
        if self.state == "live" and self.context.source.health.store_up:
            if self._is_broken:
                with suppress(Exception):  # at least records without effect are taken back
                    self.journal.settle()
            else:
                try:
                    self._write_down()
                except Exception as error:  # a failure loses nothing, as the log has it all
                    log.warning("%s: no snapshot was written: %s", self, error)
            with suppress(StoreError):  # another service then waits until the lease has run out
                self.journal.release()
        if self.state == "behind" and not self._is_broken:
            rescue(self.context.settings.data_dir, self.stored, self.encode_spec(self._spec), self._snapshot())

    # Called between calls, by the thread that checks all replicas.

    @property
    def is_due(self) -> bool:
        """Whether a snapshot of the replica is due."""
        return time.monotonic() >= self.due_at

    def look_after(self) -> None:
        """Request a snapshot if one is due; the mailbox writes the snapshot later."""
        with suppress(QueueFull, ModelUnavailable):
            self._mailbox.submit(lambda: None, after=self._between, always=True)

    def count_hot(self) -> int:
        """Return the bytes that :meth:`cool` would free, as counted when the mailbox was last idle."""
        with self._mailbox.borrowed() as mine:
            if mine and self.hot is None and self._state is not None:
                self.hot = self._state.hot_bytes
        return self.hot or 0

    def cool(self) -> bool:
        """Free the caches, which the next update rebuilds, unless a call is running; return whether this was done."""
        with self._mailbox.borrowed() as mine:
            if not mine or self._state is None or self._is_broken:
                return False
            self.cool_held()
            return True

    def cool_held(self) -> None:
        """Free the caches, which the next call rebuilds; the caller must have put the mailbox on hold."""
        if self._state is None or self._is_broken:
            return
        size, self.hot = self._state.cool(), 0
        if self._held is not None:
            self._held.cooled(FIXED_BYTES + size)

    def rest(self) -> bool:
        """Store the state and drop it from memory, unless a call runs or storing fails; return whether it was done."""
        with self._mailbox.borrowed() as mine:
            return mine and self._rest()

    @property
    def may_rest(self) -> bool:
        """Whether the replica's state may be stored and dropped from memory."""
        return self.state == "live" and not (self.deleted or self._is_broken)

    def _rest(self) -> bool:
        state = self._state
        if state is None or not (self.may_rest and self.context.source.health.store_up):
            return False
        crash.point("before-rest")
        try:
            reported = self._write_down()
        except Exception as error:
            log.warning("%s stays awake: %s", self, error)
            return False
        now = Indexed(self.stored, state.sequence, reported, state.sequence)
        self._state, self.hot, self.due_at = None, 0, math.inf
        self._found, self._summary = now, summary.read(now.summary)
        self.held.release()
        self._held = None
        self._forget()
        self._owner.rested(self, now)
        self.context.source.metrics.rests.labels(self.word).inc()
        crash.point("after-rest")
        return True

    def take_again(self) -> Future[None]:
        """Take the replica over if the other service that held the replica has released it; raises ModelUnavailable."""
        return self._mailbox.submit(self._take_again, always=True)

    def set_aside(self, state: ServingState, reason: str) -> None:
        """Make the replica unavailable, with this state and reason."""
        self._fault = (state, reason)
        self._owner.woke(self)

    def held_elsewhere(self, reason: str) -> None:
        """Make the replica unavailable because another service holds it; raises StoreError."""
        self._fault = ("held", reason)
        if self._spec is None and (stored := self.context.source.store.model(self.stored)) is not None:
            with suppress(StoreDamaged):
                self._spec = self.decode_spec(stored)

    def found_again(self, found: Indexed) -> None:
        """Mark the replica as at rest, with ``found`` as its entry in the store's index, and clear its fault."""
        self._fault, self._found, self._summary = None, found, summary.read(found.summary)
        self._spec = None if self._summary is None else self.parse_spec(self._summary.spec)

    # Waking, in the mailbox.

    def _submit(self, call: Callable[[], T], *, reads: bool = False, always: bool = False) -> Future[T]:
        self._check_served()
        self.used_at = time.monotonic()

        def turn() -> T:
            """Run the call when the state is in memory and not broken; record its stages for the service's log."""
            stage("write")
            try:
                self._be_awake()
                if reads and self._is_broken:
                    self.journal.settle()
                return call()
            finally:
                stage("answer")

        return self._mailbox.submit(turn, after=None if reads else self._between, always=always)

    def _be_awake(self) -> None:
        self._check_served()
        if self._state is None:
            self._wake()

    def _check_served(self) -> None:
        """Raise an error if the replica is deleted or has a fault."""
        if self.deleted:
            raise self._is_gone()
        if self._fault is not None:
            self._refuse(*self._fault)

    def _wake(self) -> None:
        """Load the state into memory; raises StoreUnavailable, NotSolved, NoRoom or ModelUnavailable."""
        self._waking_since = time.monotonic()
        try:
            crash.point("before-wake")
            self._open()
            crash.point("after-wake")
        except LeaseHeld as error:
            self.set_aside("held", str(error))
            self._refuse("held", str(error))
        except (StoreUnavailable, NotSolved, NoRoom):
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
            unforeseen = None if isinstance(error, StoreError) else error
            log.error("%s could not be restored: %s", self, reason, exc_info=unforeseen)
            self.set_aside("failed", reason)
            raise ModelUnavailable(f"{self} is not served here: {reason}") from error
        else:
            self.context.source.metrics.wakes.labels(self.word).inc()
        finally:
            self._waking_since = None

    def _open(self) -> None:
        """Acquire the replica's lease and recover the state from the store."""
        source, settings = self.context.source, self.context.settings
        with source.health.store_call("load"):
            if (stored := source.store.model(self.stored)) is None:
                raise ModelGone("it is not stored any more")
            self._spec = self.decode_spec(stored)
            lease = source.store.acquire(self.stored)
        self._check_room(0 if self._summary is None else self._summary.memory)
        self._patience = Patience.at_last(settings.solve_seconds)
        try:
            if self._leaving is not None:
                raise Withdrawn(str(self._leaving))
            found = self._recover(lease, self._patience)
        finally:
            self._patience = None
        if found.state.sequence < self._found.sequence:
            raise StoreDamaged(f"its log ends at record {found.state.sequence} of {self._found.sequence}")
        self._opened(lease, found)

    def _check_room(self, size: int) -> None:
        """Raise NoRoom if the budget has fewer than ``size`` free bytes even after other replicas have freed memory."""
        budget = self.context.budget
        if not budget.has_room(size):
            self._owner.make_room(size)
            if not budget.has_room(size):
                raise NoRoom(f"{self} cannot wake now: {budget.reported()}")

    def _opened(self, lease: Lease, found: Recovered[S]) -> None:
        source, settings = self.context.source, self.context.settings
        journal = Journal(source, lease, settings.idempotency_keep, known=found.state.sequence)
        with source.health.store_call("load"):
            journal.left = left(source.store, self.stored)
        self.journal = journal
        self.checkpoints = Checkpoints(journal, Due.by(settings, self.worth), found)
        self.returned = Return.of(found)
        self._held = self._held or HeldMemory(self.context.budget, str(self), self._owner.make_room)
        self._held.insist(FIXED_BYTES + found.state.held_bytes)
        self._publish(found.state)  # before it counts as awake, so that no reader finds it without a version
        self._state, self._is_broken, self.hot = found.state, False, None
        self.due_at = self.checkpoints.deadline()
        self._owner.woke(self)
        if found.state.version != found.snapshot_version:  # the process may have died before it said what happened
            self.announce()

    def _take_again(self) -> None:
        if self._state is None or self.state != "fenced":
            return
        try:
            with self.context.source.health.store_call("load"):
                lease = self.context.source.store.acquire(self.stored)
            found = self._recover(lease, Patience.at_last(self.context.settings.solve_seconds))
        except LeaseHeld:
            return  # it goes on answering readers as of when it was taken
        except (StoreUnavailable, NotSolved) as error:
            log.warning("%s is not taken again yet: %s", self, error)
            return
        except Exception as error:
            log.error("%s could not be restored: %s", self, error)
            self._state = None
            self.set_aside("failed", str(error))
            return
        self._opened(lease, found)

    def _delete(self) -> None:
        self._check_exists()
        self._is_going = True
        try:
            if self._state is not None:
                with suppress(StoreBehind):  # then nothing is owed
                    self.check_open()
                self.journal.delete()
            else:
                source = self.context.source
                with source.health.store_call("delete"), suppress(ModelGone):
                    source.store.delete(source.store.acquire(self.stored))
        except BaseException as error:
            self._leaving, self._is_going = None, False
            if isinstance(error, LeaseHeld):
                raise ModelUnavailable(f"{self} is not served here: {error}") from error
            raise
        self.deleted = True
        if self._held is not None:
            self._held.release()
        if self._state is not None:
            self.checkpoints.forget()
