"""What a model and a feed have in common: a state that one thread changes, a log before it, a snapshot behind it.

Everything that changes the state runs in its writer's thread, in the order it was asked for: log, then apply, then
publish, then answer. What a log entry means, and what readers are shown, is for the one who is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    IdempotencyConflict,
    ModelUnavailable,
    NotSolved,
    OutOfMemory,
    OutOfTime,
    ServiceError,
    TurnMissed,
    Withdrawn,
)
from livesvm.service.history.checkpoints import Checkpoints, Due
from livesvm.service.history.journal import Journal
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.rescue import rescue
from livesvm.service.history.writeback import Snapshot, write_back
from livesvm.service.live.handle import Reply, Return
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.live.writer import Writer
from livesvm.service.logs.audit import changed
from livesvm.service.logs.calls import stage
from livesvm.service.models.types import ServingState
from livesvm.service.resources.turns import Solve
from livesvm.service.store.base import Durability, Head, Idempotency, StoreBehind, StoreError
from livesvm.solvers.errors import SolverError

log = logging.getLogger(__name__)
T = TypeVar("T")


class State(Protocol):
    """What a log makes: it goes up to a record, has a version, and can be written down."""

    @property
    def sequence(self) -> int: ...

    @property
    def version(self) -> int: ...

    def encode(self) -> bytes:
        """All of it."""

    def skip(self) -> None:
        """Pass over a record that has no effect."""


S = TypeVar("S", bound=State)


class Loggable(Protocol):
    """An entry of a log; ``request`` is the Idempotency-Key that it came with."""

    @property
    def request(self) -> str | None: ...

    def encode(self) -> bytes:
        """Bytes for the log."""


@dataclass(frozen=True)
class Kept(Generic[S]):
    """One that is kept.

    Parameters
    ----------
    name : for people, like "model m" or "feed load"
    audit : its name in the log's lines
    spec : its specification, as stores keep it
    gone : the error that says that it does not exist
    undoes : whether an entry that is refused while it is applied leaves the state as it was
    recover : the state from what is stored; raises StoreError or NotSolved
    publish : shows readers the state
    let_go : gives back what it has of the memory budget
    count : counts what became of a call, and its seconds if it had an effect
    """

    name: str
    audit: str
    spec: bytes
    gone: type[ServiceError]
    undoes: bool
    recover: Callable[[Solve], Recovered[S]]
    publish: Callable[[], None]
    let_go: Callable[[], None]
    count: Callable[[str, float | None], None]


class Keeper(Generic[S]):
    """Owns the state of one that is kept, its journal and its writer.

    Invariant: either ``state`` is what the log says, or it is broken and owed to be made anew before the next call.
    """

    def __init__(self, kept: Kept[S], journal: Journal, found: Recovered[S], around: Surroundings) -> None:
        self.state = found.state
        self.journal = journal
        self.returned = Return.of(found)
        self.checkpoints = Checkpoints(journal, Due.by(around.settings), found)
        self._kept = kept
        self._around = around
        self._is_broken = self._deleted = False
        self._leaving: ServiceError | None = None
        self._under_way = Solve()
        self.writer = Writer(kept.name, around.settings.queue_size, self._rest, self.checkpoints.deadline)

    def start(self) -> None:
        """Begin to take calls."""
        self.writer.start()

    # What readers ask, from any thread.

    @property
    def serving(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""
        return "fenced" if self.journal.fenced else "behind" if self.journal.behind else "live"

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, so that newer data may be unknown."""
        return self.serving != "live" or not self._around.source.health.store_is_fresh

    @property
    def deleted(self) -> bool:
        """Whether nothing is stored of it any more."""
        return self._deleted

    def observe(self, known: int, head: Head | None) -> None:
        """Learn where the store stands; ``known`` was read before the store was asked."""
        if not self._deleted:
            self.journal.observe(known, head)

    # What the writer is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def change(
        self,
        request: str | None,
        digest: Callable[[], bytes],
        call: Callable[[bytes, Solve], Reply],
        solve: Solve | None = None,
    ) -> Future[Reply]:
        """Have the writer make a call that changes the state, once; its answer of before to a ``request`` made before.

        ``digest`` is of what is asked; the call gets it, where there is a request, and the solve it has to end within.
        """
        return self.writer.submit(lambda: self._counted(lambda: self._once(request, digest, call, self.begun(solve))))

    def read(self, call: Callable[[], T], *, always: bool = False) -> Future[T]:
        """Have the writer make a call that only reads: what memory holds needs no store, unless it is broken."""
        return self.writer.submit(lambda: self._read(call), rests=False, always=always)

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot; of which version, and how many seconds that took."""
        return self.writer.submit(self._checkpoint)

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold it again, should it have lost it; see ``writeback.write_back``."""
        return self.writer.submit(self._write_back, always=True)

    def delete(self) -> Future[None]:
        """Remove it from the store; what is under way or waits is given up, every later call is refused."""
        self.give_up(self._is_gone())
        return self.writer.submit(self._delete, always=True)

    def give_up(self, reason: ServiceError) -> None:
        """End the solve that is under way, and refuse what waits, as nobody needs it here any more."""
        self._leaving = reason
        self._under_way.end(Withdrawn(str(reason)))

    def stop(self) -> None:
        """Let the queue run empty, end the writer, write a snapshot if anything changed, and let go of the lease."""
        self.writer.stop()
        self._kept.let_go()
        if self._deleted:
            return
        if self.serving == "live" and self._around.source.health.store_up:
            if self._is_broken:
                with suppress(Exception):  # what had no effect is taken back at least
                    self.journal.settle()
            elif self.checkpoints.has_changes:
                self.checkpoints.save_quietly(self.state)
            with suppress(StoreError):  # another service then waits until the lease has run out
                self.journal.release()
        if self.serving == "behind" and not self._is_broken:
            rescue(self._around.settings.data_dir, self.journal.lease.model, self._kept.spec, self._snapshot())

    # What the writer's calls are made of.

    def begun(self, solve: Solve | None = None) -> Solve:
        """The solve that is under way now: within the service's own limit, whatever was asked."""
        self._under_way = solve = solve or Solve()
        solve.seconds = min(solve.seconds, self._around.settings.solve_seconds)
        if self._leaving is not None:
            raise self._leaving
        return solve

    def check_open(self) -> None:
        """Raise unless a call can be taken, after telling the store what it is owed."""
        self._check_exists()
        self.journal.check_writable()
        self.journal.settle()

    def perform(
        self, entry: Loggable, digest: bytes, apply: Callable[[], T], solve: Solve
    ) -> tuple[T, bytes, Durability]:
        """Log, then apply, all or nothing; what came of it, the record, and how durable that is."""
        self._around.turns.check_open()
        solve.check()
        crash.point("before-log")
        stage("log")
        record = entry.encode()
        named = None if entry.request is None else Idempotency(entry.request, digest)
        durability = self.journal.append_next(self.state, record, named)
        crash.point("after-log")
        done = self._applied(apply, solve)
        crash.point("before-publish")
        stage("publish")
        return done, record, durability

    def remember(self, request: str | None, answer: bytes) -> None:
        """Have the store keep the answer to a request, now or before the next call: the log has what it did."""
        if request is None:
            return
        self.journal.owe(lambda: self.journal.remember(request, answer))
        with suppress(StoreError):
            self.journal.settle()

    def breaks(self) -> None:
        """Know that the state is no longer what the log says; it is made anew before the next call."""
        self._is_broken = True
        self.journal.owe(self._rebuild)

    def _applied(self, apply: Callable[[], T], solve: Solve) -> T:
        """Apply what was logged; where that fails the record is taken back, and the state is as it was before."""
        sequence = self.state.sequence + 1
        try:
            stage("turn")
            with self._around.turns.turn(solve):
                stage("solve")
                return apply()
        except Exception as error:
            foreseen = isinstance(error, SolverError | NotSolved)
            self.journal.owe(lambda: self.journal.abort(sequence))
            if foreseen and self._kept.undoes:
                self.state.skip()
                self.journal.settle()
                raise
            if not foreseen:
                log.exception("%s: a call failed in an unforeseen way; it is made anew", self._kept.name)
            self.breaks()
            try:
                self.journal.settle()
            except Exception as failure:
                log.warning("%s: it is made anew before its next call: %s", self._kept.name, failure)
            raise

    def _rebuild(self) -> None:
        self._under_way = Solve()
        self.state = self._kept.recover(self._under_way).state
        self._kept.publish()
        self._is_broken = False

    def _once(
        self, request: str | None, digest: Callable[[], bytes], call: Callable[[bytes, Solve], Reply], solve: Solve
    ) -> Reply:
        self.check_open()
        asked = b"" if request is None else digest()
        if request is not None and (earlier := self.journal.recall(request, asked)) is not None:
            return Reply(earlier, replayed=True)
        return call(asked, solve)

    def _counted(self, call: Callable[[], Reply]) -> Reply:
        count, start = self._kept.count, time.perf_counter()
        try:
            reply = call()
        except (SolverError, IdempotencyConflict, OutOfMemory):
            count("refused", None)
            raise
        except NotSolved as error:
            count("timed-out" if isinstance(error, OutOfTime | TurnMissed) else "withdrawn", None)
            raise self._leaving or error from error
        except Exception:
            count("failed", None)
            raise
        count("replayed" if reply.replayed else "applied", time.perf_counter() - start)
        crash.point("before-answer")
        return reply

    def _read(self, call: Callable[[], T]) -> T:
        self._check_exists()
        if self._is_broken:
            self.journal.settle()
        return call()

    def _checkpoint(self) -> dict[str, Any]:
        self.check_open()
        start = time.perf_counter()
        self.checkpoints.save(self.state)
        return {"version": self.state.version, "seconds": time.perf_counter() - start}

    def _snapshot(self) -> Snapshot:
        return self.state.sequence, self.state.encode(), self.state.version

    def _write_back(self) -> dict[str, Any]:
        self._check_exists()
        if self._is_broken:
            raise ModelUnavailable(f"{self._kept.name} cannot be written back: its newest call has left it broken")
        start, snapshot = time.perf_counter(), self._snapshot()
        written = write_back(self.journal, self._kept.spec, snapshot)
        if written:
            self.checkpoints.saved(self.state, len(snapshot[1]))
            changed("writeback", self._kept.audit, version=self.state.version)
        return {"version": self.state.version, "written": written, "seconds": time.perf_counter() - start}

    def _delete(self) -> None:
        try:
            self._check_exists()
            with suppress(StoreBehind):  # then nothing is owed
                self.check_open()
            self.journal.delete()
        except BaseException:
            self._leaving = None
            raise
        self._deleted = True
        self._kept.let_go()
        self.checkpoints.forget()

    def _check_exists(self) -> None:
        if self._deleted:
            raise self._is_gone()

    def _is_gone(self) -> ServiceError:
        return self._kept.gone(f"{self._kept.name} was deleted")

    def _rest(self) -> None:
        """Between two calls: write a snapshot when it is time for one."""
        if not self._deleted and not self._is_broken and self.checkpoints.is_due(self.state.version):
            self.checkpoints.save_quietly(self.state)
