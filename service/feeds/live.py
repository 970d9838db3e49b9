"""One live feed: a single writer, and a view that readers share.

Its keeper logs, applies and answers what changes it, as a model's. One record of its log holds a call whatever the
number of steps, and everything follows from that log. Forecasts are read from the newest view and never wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from livesvm.service import crash
from livesvm.service.errors import NoSource, ServiceError, UnknownFeed
from livesvm.service.feeds.calls import Call, Delivery, Observations, Pause, Progress, Tuning
from livesvm.service.feeds.handle import FeedCopy, sample_of
from livesvm.service.feeds.lookback import Lookback, look_back, what_if
from livesvm.service.feeds.pump import Flow, Pump
from livesvm.service.feeds.recovery import Recovery
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.sources.base import Entry
from livesvm.service.feeds.sources.opening import open_source
from livesvm.service.feeds.sources.spec import RedisStreamSpec
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, View, answer
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.wanted import Wanted
from livesvm.service.history.erasure import Intent, Seen, left
from livesvm.service.history.journal import Journal
from livesvm.service.history.names import FEEDS
from livesvm.service.history.recovery import Recovered
from livesvm.service.live import erasing
from livesvm.service.live.handle import Erased, Reply, Return
from livesvm.service.live.keeper import Keeper, Kept
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs.audit import changed
from livesvm.service.logs.calls import stage
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample
from livesvm.service.resources.turns import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import Head, Lease


def encoded(spec: FeedSpec) -> bytes:
    """A specification as stores keep it."""
    return codec.encode({"feed": spec.model_dump_json()})


class LiveFeed:
    """One feed with its writer; made from what is stored."""

    is_served = True
    reason = None  #: it is served

    def __init__(self, spec: FeedSpec, lease: Lease, around: Surroundings, solve: Solve | None = None) -> None:
        """Restore the feed and start its writer; raises StoreError, or NotSolved when ``solve`` is ended."""
        self.id = lease.model.removeprefix(FEEDS)
        self.spec = spec
        self.memory = feed_bytes(spec)
        self._around = around
        self._journal = Journal(around.source, lease, around.settings.idempotency_keep)
        self._keeper = Keeper(self._kept(), self._journal, self._recover(solve or Solve()), around)
        self._publish()
        around.budget.insist(self, self.memory)
        self._keeper.start()
        self._pump = None if spec.source is None else self._pump_of(spec.source)
        if self._pump is not None:
            self._pump.start()

    def _pump_of(self, source: RedisStreamSpec) -> Pump:
        settings, consumer = self._around.settings, self._around.holder
        opened = partial(open_source, source, self.id, self.spec.time, settings, consumer)
        return Pump(f"{self}", self, opened, source.count)

    def _kept(self) -> Kept[FeedState]:
        return Kept(
            name=f"{self}",
            audit=f"{self}",
            spec=encoded(self.spec),
            gone=UnknownFeed,
            undoes=False,
            recover=self._recover,
            publish=self._publish,
            let_go=lambda: self._around.budget.release(self),
            count=self._count,
        )

    def __str__(self) -> str:
        return f"feed {self.id}"

    # What readers ask, from any thread.

    @property
    def state(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""
        return self._keeper.serving

    @property
    def stale(self) -> bool:
        """Whether readings are refused now, so that newer ones may be unknown."""
        return self._keeper.stale

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""
        return self._keeper.writer.depth()

    @property
    def returned(self) -> Return:
        """How it came back."""
        return self._keeper.returned

    def sample(self) -> FeedSample:
        """What the metrics show."""
        return sample_of(self)

    @property
    def flow(self) -> Flow | None:
        """How its source flows; None if it has none."""
        return None if self._pump is None else self._pump.flow

    @property
    def is_open(self) -> bool:
        """Whether it takes readings now, as far as is known."""
        return self.state == "live"

    @property
    def progress(self) -> Progress:
        """How far it has come in its source."""
        return self.view.progress

    def serving(self) -> LiveFeed:
        """The feed itself; one that is not served raises."""
        return self

    @property
    def served(self) -> LiveFeed:
        """The feed itself."""
        return self

    @property
    def known(self) -> int:
        """The newest record that the store has said to keep."""
        return self._journal.known

    def news(self) -> None:
        """There is none: it lives here."""

    def watch(self, known: int, head: Head | None) -> None:
        """Learn where the store stands; ``known`` was read before the store was asked."""
        self._keeper.observe(known, head)

    # What the writer is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Take one call's rows; ``request`` is its Idempotency-Key."""
        return self._ask(Observations.of(rows, request, time.time()))

    def deliver(self, entries: Sequence[Entry], why: str | None = None) -> Future[Reply]:
        """Take what its source has handed out, but for what it has taken; if ``why``, refuse it all."""
        return self._keeper.change(None, bytes, partial(self._deliver, entries, why))

    def pause(self, paused: bool) -> Future[Reply]:
        """Take nothing more from its source, or go on; raises NoSource."""
        if self.spec.source is None:
            raise NoSource(f"{self} has no source")
        return self._ask(Pause(paused, time.time()))

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Learn the window anew with what a job has found."""
        return self._ask(Tuning(job, list(recipes), request, time.time()))

    def seen(self, wanted: Wanted | None) -> Future[Seen]:
        """The readings that are wanted, if any, by their times as text; raises InvalidInput where there is none."""
        return self._keeper.writer.submit(lambda: self._seen(wanted), rests=False, always=True)

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget readings, by their times as text, and all that was stored of the feed before.

        A time that the window does not hold means those before it. What is left to do then, of files and of the store
        as a whole, is for whoever asked.
        """
        return self._keeper.writer.submit(lambda: self._forget(intent, self._keeper.begun(solve)), always=True)

    def history(self, asked: Lookback) -> Future[dict[str, Any]]:
        """Readings with the forecasts that were made for them; the future may raise InvalidInput."""
        return self._keeper.read(lambda: look_back(self._keeper.state.forecaster, asked))

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast as if known columns were as ``rows`` announce them; the future may raise InvalidInput."""
        return self._keeper.read(lambda: what_if(self._keeper.state.forecaster, rows))

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of every step's models from the data of the window."""
        return self._keeper.read(lambda: self._certificate(self._keeper.begun(solve)))

    def events(self) -> Future[list[dict[str, Any]]]:
        """Every event that is kept, oldest first."""
        return self._keeper.read(lambda: list(self.view.events), always=True)

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed as it is when its turn comes, for a job; no queue is too full for that."""
        return self._keeper.read(self._copy, always=True)

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this feed again, should it have lost it; see ``history.writeback``."""
        return self._keeper.write_back()

    def delete(self) -> Future[None]:
        """Remove the feed from the store; what is under way or waits is given up, every later call is refused."""
        return self._keeper.delete()

    def give_up(self, reason: ServiceError) -> None:
        """End the solve that is under way, and refuse what waits, as nobody needs this feed here any more."""
        self.leave_source()
        self._keeper.give_up(reason)

    def leave_source(self) -> None:
        """Take nothing more from its source; returns at once."""
        if self._pump is not None:
            self._pump.leave()

    def stop(self) -> None:
        """Let the queue run empty, end the writer, write a snapshot if anything changed, and let go of the feed."""
        if self._pump is not None:
            self._pump.stop()
        self._keeper.stop()
        if self._pump is not None and self._keeper.deleted:
            self._pump.forget()

    # The writer.

    def _publish(self) -> None:
        self.view = View.of(self._keeper.state)

    def _count(self, became: str, seconds: float | None) -> None:
        metrics = self._around.source.metrics
        metrics.feed_calls.labels(became).inc()
        if seconds is not None:
            metrics.feed_seconds.observe(seconds)

    def _ask(self, call: Call) -> Future[Reply]:
        return self._keeper.change(call.request, call.digest, partial(self._execute, call))

    def _deliver(self, entries: Sequence[Entry], why: str | None, digest: bytes, solve: Solve) -> Reply:
        state = self._keeper.state
        taken = state.progress.taken
        new = [entry for entry in entries if taken is None or entry.position > taken]
        if not new:
            return Reply(b"", replayed=True)
        return self._execute(Delivery.of(new, state.forecaster, time.time(), why), digest, solve)

    def _execute(self, call: Call, digest: bytes, solve: Solve) -> Reply:
        """Log, then apply, then publish, then answer."""
        keeper, began = self._keeper, time.perf_counter()
        plan = call.check(keeper.state.forecaster)
        done, record, durability = keeper.perform(call, digest, lambda: keeper.state.apply(call, plan), solve)
        same = done["state"] == self.view.state == "live" and not done["events"]
        self.view = View.of(keeper.state, self.view if same else None)
        keeper.checkpoints.note_change(time.perf_counter() - began, len(record))
        for event in done["events"]:
            self._around.source.metrics.feed_events.labels(event["kind"]).inc()
        counts = {name: done[name] for name in ("accepted", "ignored", "corrected", "announced", "position")}
        changed("observe", f"{self}", version=keeper.state.version, durability=durability.value, **counts)
        told = answer(done, durability)
        keeper.remember(call.request, told)
        return Reply(told)

    def _recover(self, solve: Solve) -> Recovered[FeedState]:
        around = self._around
        found = Recovery(around.source, self._journal.lease, self.spec, around.turns, solve).run()
        with around.source.health.store_call("load"):
            self._journal.left = left(around.source.store, self._journal.lease.model)
        self._journal.known = found.state.sequence
        return found

    def _seen(self, wanted: Wanted | None) -> Seen:
        self._keeper.check_open()
        state = self._keeper.state
        if wanted is None:
            return Seen(state.version, state.sequence)
        readings = state.readings()
        times, missing = wanted.among(state.forecaster.timeline, readings)
        found = sum(time in readings for time in times)
        return Seen(state.version, state.sequence, found, tuple(times), tuple(missing))

    def _forget(self, intent: Intent, solve: Solve) -> Erased:
        """Learn without, then have that stand for all that was stored; until then readers see what was before."""
        self._keeper.check_open()
        state, stored = self._keeper.state, self._journal.lease.model
        try:
            stage("turn")
            with self._around.turns.turn(solve):
                stage("solve")
                if intent.by_time:
                    names = state.names()
                    leaving = [names[str(name)] for name in intent.leaving(stored, names, {})]
                    state.forget(leaving, beyond=len(leaving) < len(intent.keys))
                certificate = _worst(state)
            crash.point("erase-solved")
            stage("log")
            size, requests = erasing.write(self._journal, state, intent, self._around.settings.idempotency_keep)
        except BaseException:
            self._keeper.breaks()
            raise
        self._publish()
        self._keeper.checkpoints.saved(state, size)
        changed("erase", f"{self}", version=state.version, asked=len(intent.keys), removed=intent.part(stored).found)
        return Erased(state.version, requests, certificate)

    def _certificate(self, solve: Solve) -> dict[str, Any]:
        feed = self._keeper.state.forecaster
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            steps = [
                {"step": step, "model": name, **_proof(model)}
                for step, one in zip(feed.steps, feed.models, strict=False)
                for name, model in zip(_names(self.spec), one.models, strict=True)
            ]
        worst = max((step["relative_gap"] for step in steps), default=None)
        return {"position": self._keeper.state.position, "relative_gap": worst, "steps": steps}

    def _copy(self) -> FeedCopy:
        state = self._keeper.state
        return FeedCopy(self.spec, state.encode(), state.version)


def _worst(state: FeedState) -> dict[str, Any] | None:
    """What a receipt says of the optima of all models; None while there is none."""
    found = [_proof(model) for one in state.forecaster.models for model in one.models]
    if not found:
        return None
    worst = {name: max(one[name] for one in found) for name in ("relative_gap", "max_violation")}
    return {"version": state.version, **worst, "n_examples": max(one["n_examples"] for one in found)}


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
