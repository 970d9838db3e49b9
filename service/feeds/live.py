"""One live feed: a single writer, and a view that readers share.

As a model's, its calls run in its writer's thread, in the order they came: log, then apply, then publish, then answer.
One record of its log holds a call whatever the number of steps, and everything follows from that log. Forecasts are
read from the newest view and never wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    IdempotencyConflict,
    NotSolved,
    OutOfTime,
    ServiceError,
    TurnMissed,
    UnknownFeed,
    Withdrawn,
)
from livesvm.service.feeds.calls import Call, Observations, Tuning
from livesvm.service.feeds.recovery import Recovered, Recovery
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, View, answer, history
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.history.checkpoints import Checkpoints, Due
from livesvm.service.history.journal import Journal
from livesvm.service.history.names import FEEDS
from livesvm.service.history.rescue import rescue
from livesvm.service.live.handle import Reply, Return
from livesvm.service.live.model import Surroundings
from livesvm.service.live.writer import Writer
from livesvm.service.logs.audit import changed
from livesvm.service.logs.calls import stage
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample, StepSample
from livesvm.service.resources.turns import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import Head, Idempotency, Lease, StoreError
from livesvm.solvers.errors import SolverError

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class FeedCopy:
    """A feed as it was when it was copied, for a job: its specification, its state as bytes, its version."""

    spec: FeedSpec
    data: bytes
    version: int

    def state(self) -> FeedState:
        """A feed of one's own."""
        return FeedState.decode(self.spec, self.data)


def encoded(spec: FeedSpec) -> bytes:
    """A specification as stores keep it."""
    return codec.encode({"feed": spec.model_dump_json()})


class LiveFeed:
    """One feed with its writer; made from what is stored."""

    is_served = True

    def __init__(self, spec: FeedSpec, lease: Lease, around: Surroundings, solve: Solve | None = None) -> None:
        """Restore the feed and start its writer; raises StoreError, or NotSolved when ``solve`` is ended."""
        settings = around.settings
        self.id = lease.model.removeprefix(FEEDS)
        self.spec = spec
        self.memory = feed_bytes(spec)
        self._around = around
        self._journal = Journal(around.source, lease, settings.idempotency_keep)
        self._deleted = self._is_broken = False
        self._leaving: ServiceError | None = None
        self._under_way = Solve()
        self.recovered = self._recover(solve or Solve())
        self._checkpoints = Checkpoints(self._journal, Due.by(settings), self.recovered)
        self.view = View.of(self._state)
        around.budget.insist(self, self.memory)
        self._writer = Writer(f"feed-{self.id}", settings.queue_size, self._rest, self._checkpoints.deadline)
        self._writer.start()

    def __str__(self) -> str:
        return f"feed {self.id}"

    # What readers ask, from any thread.

    @property
    def state(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""
        return "fenced" if self._journal.fenced else "behind" if self._journal.behind else "live"

    @property
    def stale(self) -> bool:
        """Whether readings are refused now, so that newer ones may be unknown."""
        return self.state != "live" or not self._around.source.health.store_is_fresh

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""
        return self._writer.depth()

    @property
    def returned(self) -> Return:
        """How it came back."""
        found = self.recovered
        return Return(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside)

    def sample(self) -> FeedSample:
        """What the metrics show."""
        seen, wanted = self.view, self.spec.coverage
        steps = tuple(_sampled(scores) for scores in seen.recent if scores["n"])
        return FeedSample(self.id, seen.position, self.queue_depth, seen.updated_at, seen.every, wanted, steps)

    def serving(self) -> LiveFeed:
        """The feed itself; one that is not served raises."""
        return self

    @property
    def known(self) -> int:
        """The newest record that the store has said to keep."""
        return self._journal.known

    def watch(self, known: int, head: Head | None) -> None:
        """Learn where the store stands; ``known`` was read before the store was asked."""
        if not self._deleted:
            self._journal.observe(known, head)

    # What the writer is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Take one call's rows; ``request`` is its Idempotency-Key."""
        return self._writer.submit(
            lambda: self._counted(lambda: self._ask(Observations.of(rows, request, time.time())))
        )

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Learn the window anew with what a job has found."""
        call = Tuning(job, list(recipes), request, time.time())
        return self._writer.submit(lambda: self._counted(lambda: self._ask(call)))

    def history(self, limit: int, begin: float | None = None, end: float | None = None) -> Future[list[dict[str, Any]]]:
        """Readings with the forecasts that were made for them; see :func:`~livesvm.service.feeds.state.history`."""
        return self._writer.submit(lambda: self._read(lambda: history(self._state, limit, begin, end)), rests=False)

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of every step's models from the data of the window."""
        return self._writer.submit(lambda: self._read(lambda: self._certificate(self._begun(solve))), rests=False)

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed as it is when its turn comes, for a job; no queue is too full for that."""
        return self._writer.submit(lambda: self._read(self._copy), always=True)

    def delete(self) -> Future[None]:
        """Remove the feed from the store; what is under way or waits is given up, every later call is refused."""
        self.give_up(UnknownFeed(f"feed {self.id} was deleted"))
        return self._writer.submit(self._delete, always=True)

    def give_up(self, reason: ServiceError) -> None:
        """End the solve that is under way, and refuse what waits, as nobody needs this feed here any more."""
        self._leaving = reason
        self._under_way.end(Withdrawn(str(reason)))

    def stop(self) -> None:
        """Let the queue run empty, end the writer, write a snapshot if anything changed, and let go of the feed."""
        self._writer.stop()
        self._around.budget.release(self)
        if self._deleted:
            return
        if self.state == "live" and self._around.source.health.store_up:
            if self._checkpoints.has_changes and not self._is_broken:
                self._checkpoints.save_quietly(self._state)
            with suppress(StoreError):  # another service then waits until the lease has run out
                self._journal.release()
        if self.state == "behind" and not self._is_broken:
            snapshot = self._state.sequence, self._state.encode(), self._state.version
            rescue(self._around.settings.data_dir, self._journal.lease.model, encoded(self.spec), snapshot)

    # The writer.

    def _begun(self, solve: Solve | None = None) -> Solve:
        self._under_way = solve = solve or Solve()
        solve.seconds = min(solve.seconds, self._around.settings.solve_seconds)
        if self._leaving is not None:
            raise self._leaving
        return solve

    def _counted(self, call: Callable[[], Reply]) -> Reply:
        count, start = self._around.source.metrics.feed_calls, time.perf_counter()
        try:
            reply = call()
        except (SolverError, IdempotencyConflict):
            count.labels("refused").inc()
            raise
        except NotSolved as error:
            count.labels("timed-out" if isinstance(error, OutOfTime | TurnMissed) else "withdrawn").inc()
            raise self._leaving or error from error
        except Exception:
            count.labels("failed").inc()
            raise
        count.labels("replayed" if reply.replayed else "applied").inc()
        self._around.source.metrics.feed_seconds.observe(time.perf_counter() - start)
        crash.point("before-answer")
        return reply

    def _ask(self, call: Call) -> Reply:
        """Log, then apply, then publish; all or nothing."""
        self._check_open()
        solve, request = self._begun(), call.request
        digest = call.digest() if request is not None else b""
        if request is not None and (earlier := self._journal.recall(request, digest)) is not None:
            return Reply(earlier, replayed=True)
        plan = call.check(self._state.forecaster)
        self._around.turns.check_open()
        crash.point("before-log")
        stage("log")
        record = call.encode()
        named = None if request is None else Idempotency(request, digest)
        durability = self._journal.append_next(self._state, record, named)
        crash.point("after-log")
        began = time.perf_counter()
        done = self._solved(lambda: self._state.apply(call, plan), solve)
        crash.point("before-publish")
        stage("publish")
        same = done["state"] == self.view.state == "live" and not done["events"]
        self.view = View.of(self._state, self.view if same else None)
        self._checkpoints.note_change(time.perf_counter() - began, len(record))
        for event in done["events"]:
            self._around.source.metrics.feed_events.labels(event["kind"]).inc()
        counts = {name: done[name] for name in ("accepted", "ignored", "corrected", "position")}
        changed("observe", f"{self}", version=self._state.version, durability=durability.value, **counts)
        told = answer(done, durability)
        if request is not None:
            self._journal.owe(lambda: self._journal.remember(request, told))
            with suppress(StoreError):  # it is in the log; the store is told before the next call
                self._journal.settle()
        return Reply(told)

    def _solved(self, apply: Callable[[], T], solve: Solve) -> T:
        """Apply a logged call; where that fails the record is taken back, and the feed made anew from the others."""
        sequence = self._state.sequence + 1
        try:
            stage("turn")
            with self._around.turns.turn(solve):
                stage("solve")
                return apply()
        except Exception as error:
            if not isinstance(error, SolverError | NotSolved):
                log.exception("%s: a call failed in an unforeseen way; the feed is made anew", self)
            self._is_broken = True
            self._journal.owe(lambda: self._journal.abort(sequence))
            self._journal.owe(self._rebuild)
            try:
                self._journal.settle()
            except Exception as failure:
                log.warning("%s: it is made anew before its next call: %s", self, failure)
            raise

    def _rebuild(self) -> None:
        self._under_way = solve = Solve()
        self._recover(solve)
        self._is_broken = False

    def _recover(self, solve: Solve) -> Recovered:
        around = self._around
        found = Recovery(around.source, self._journal.lease, self.spec, around.turns, solve).run()
        self._state = found.state
        self._journal.known = found.state.sequence
        return found

    def _certificate(self, solve: Solve) -> dict[str, Any]:
        feed = self._state.forecaster
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            steps = [
                {"step": step, "model": name, **_proof(model)}
                for step, one in zip(feed.steps, feed.models, strict=False)
                for name, model in zip(_names(self.spec), one.models, strict=True)
            ]
        worst = max((step["relative_gap"] for step in steps), default=None)
        return {"position": self._state.position, "relative_gap": worst, "steps": steps}

    def _copy(self) -> FeedCopy:
        return FeedCopy(self.spec, self._state.encode(), self._state.version)

    def _read(self, call: Callable[[], T]) -> T:
        """What memory holds needs no store, unless the last call has left it broken."""
        self._check_exists()
        if self._is_broken:
            self._journal.settle()
        return call()

    def _delete(self) -> None:
        try:
            self._check_exists()
            self._journal.delete()
        except BaseException:
            self._leaving = None
            raise
        self._deleted = True
        self._around.budget.release(self)
        self._checkpoints.forget()

    def _check_open(self) -> None:
        """Raise unless the feed can take a call, after telling the store what it is owed."""
        self._check_exists()
        self._journal.check_writable()
        self._journal.settle()

    def _check_exists(self) -> None:
        if self._deleted:
            raise UnknownFeed(f"feed {self.id} was deleted")

    def _rest(self) -> None:
        """Between two calls: write a snapshot when it is time for one."""
        if not self._deleted and not self._is_broken and self._checkpoints.is_due(self._state.version):
            self._checkpoints.save_quietly(self._state)


def _sampled(scores: dict[str, Any]) -> StepSample:
    if "accuracy" in scores:
        naive = max(scores["last_change_accuracy"], scores["majority_accuracy"])
        return StepSample(scores["step"], 1.0 - scores["accuracy"], 1.0 - naive)
    naive = min(scores["last_value_mae"], scores["seasonal_mae"])
    return StepSample(scores["step"], scores["mae"], naive, scores.get("coverage"))


def _names(spec: FeedSpec) -> list[str]:
    """What each model of a step is of."""
    return ["forecast", *(f"quantile {level:g}" for level in spec.quantiles or [])]


def _proof(model: Any) -> dict[str, Any]:
    found = model.certificate()
    return {
        "relative_gap": float(found.relative_gap),
        "max_violation": float(found.max_violation),
        "n_examples": int(found.n_examples),
    }
