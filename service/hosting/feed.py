"""One hosted feed: it defines the effect of each call in the feed's log, and publishes a view that all readers share.

A feed logs, applies and answers changes in the same way as a hosted model. One record of the feed's log holds one call,
for all forecasting steps. The feed's whole state follows from its log. Forecasts are read from the newest view and
never wait for a call that is being applied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import astuple
from functools import partial
from typing import Any, NamedTuple

from livesvm.service.errors import NoSource, OutOfTime, ServiceError, TurnMissed, UnknownFeed
from livesvm.service.feeds.batch import COUNTS
from livesvm.service.feeds.commands import Delivery, FeedCall, FeedTuning, FeedUpdate, Observations, Pause, Progress
from livesvm.service.feeds.forecaster import Preset, StepUpdate
from livesvm.service.feeds.past_forecasts import PastForecastsQuery, look_back, what_if
from livesvm.service.feeds.proofs import proofs_of, worst_of
from livesvm.service.feeds.recovery import FeedRecovery
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.source_reader import Flow, SourceReader
from livesvm.service.feeds.sources.base import SourceEntry
from livesvm.service.feeds.sources.opening import open_source
from livesvm.service.feeds.sources.spec import SourceSpec
from livesvm.service.feeds.spec import FeedSpec, stored_spec
from livesvm.service.feeds.state import FeedState, View, answer
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.timeline import Plan
from livesvm.service.feeds.wanted import WantedReadings
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import Patience
from livesvm.service.hosting.handle import Erased, FeedCopy, Glimpse, Reply, sample_of
from livesvm.service.hosting.happened import of_feed
from livesvm.service.hosting.replica import Replica, queued
from livesvm.service.hosting.summary import Summary
from livesvm.service.logs.calls import changed
from livesvm.service.monitoring.feeds import FeedSample, StepSample
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import Appending, Durability, Lease, StoreError
from livesvm.service.webhooks.messages import Happened
from livesvm.solvers.errors import SolverError
from livesvm.solvers.runtime.cached import cached_property

_SHOWN = ("version", "position", "rows", "state", "time", "every", "updated_at")
"""Fields of its view that are reported of a feed at rest."""

MOST_REPORTED = 48
"""Most forecasts that are reported of a feed at rest; a feed with more wakes when they are read."""

log = logging.getLogger(__name__)

WORTH = 0.03, 0.003
"""Seconds of learning: some twenty readings and two with a window of 500, where a snapshot takes 3 ms and 0.3 MB."""

UNKNOWN = FeedSpec(target="unknown")


class Planned(NamedTuple):
    """A checked call, with the plan of the call's effect on the timeline, and the digest of the call's content."""

    call: Observations
    plan: Plan
    digest: bytes

    @property
    def logged(self) -> tuple[Observations, bytes]:
        """The call and its digest, which the log records."""
        return self.call, self.digest

    def with_given(self, given: Preset) -> Planned:
        """Return the plan with the given settings, so that the feed chooses no settings when it applies the plan."""
        return self._replace(call=self.call.with_given(given))


class HostedFeed(Replica[FeedState]):
    """The handle of a feed in this process."""

    word, gone, spec_field, undoes, worth = "feed", UnknownFeed, "feed", False, WORTH

    shown: View | None = None  #: the feed as readers see it; None while it is at rest
    _pump: SourceReader | None = None

    @staticmethod
    def parse_spec(text: str) -> FeedSpec:
        """Parse a feed's specification from JSON."""
        return stored_spec(text)

    @classmethod
    def wakes(cls, spec: FeedSpec) -> bool:
        """Return whether the service wakes the feed when the service starts, as it does for feeds with a source."""
        return spec.source is not None

    @property
    def spec(self) -> FeedSpec:
        """The feed's specification, or a placeholder if it is unknown or damaged."""
        return self._spec or UNKNOWN

    @cached_property
    def _most_bytes(self) -> int:
        return feed_bytes(self.spec)

    # What readers ask, from any thread.

    @property
    def view(self) -> View:
        """The feed as readers see it, after its newest call; raises Restoring while it is at rest."""
        seen = self.shown
        if seen is None:
            self._refuse("restoring", "it wakes")
        return seen

    @property
    def glimpse(self) -> Glimpse | None:
        """The description of the feed at rest, which can be read without waking it."""
        return glimpse_of(self._summary)

    def news(self) -> Future[None] | None:
        """Return a future that ends when the feed is awake; None if the feed is awake already or cannot wake."""
        return None if self._fault is not None or self.shown is not None else self.wake()

    def stamp(self) -> object:
        """Return the feed's serving state, and the view of the feed that readers get."""
        return self.state, self.shown

    def sample(self) -> FeedSample | None:
        """Return the feed's sample for the metrics, None if the feed has neither a view nor a description."""
        return sample_of(self, self.shown or self.glimpse) if self.is_served else None

    @property
    def flow(self) -> Flow | None:
        """The state of the thread that reads the feed's source; None if the feed has no source, or is at rest."""
        return None if self._pump is None else self._pump.flow

    @property
    def is_open(self) -> bool:
        """Whether the feed accepts readings now, as far as this process knows."""
        return self.state == "live"

    @property
    def progress(self) -> Progress:
        """How far the feed has read its source."""
        return self.view.progress

    @property
    def may_rest(self) -> bool:
        """Whether the feed may go to rest: it reads no source, and no other reason keeps it awake."""
        return self._pump is None and super().may_rest

    # What the mailbox is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Add the rows of one call to the feed; ``request`` is the call's Idempotency-Key."""
        return self._ask(Observations.of(rows, request, time.time()))

    def deliver(self, entries: Sequence[SourceEntry], why: str | None = None) -> Future[Reply]:
        """Add entries of the source that are new to the feed; if ``why`` gives a reason, refuse all entries."""
        return self._submit(partial(self._changed, None, bytes, partial(self._deliver, entries, why)))

    def pause(self, paused: bool) -> Future[Reply]:
        """Pause or resume the reading of the feed's source; raises NoSource."""
        if self.spec.source is None:
            raise NoSource(f"{self} has no source")
        return self._ask(Pause(paused, time.time()))

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Train the feed's models again on the window, with the settings that a job has found."""
        return self._ask(FeedTuning(job, list(recipes), request, time.time()))

    def update(self, changes: Sequence[StepUpdate], request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Remove examples from the models of the given forecasting steps, or change the parameter C of these models."""
        return self._ask(FeedUpdate(list(changes), request, time.time()), solve)

    @queued(reads=True, always=True)
    def seen(self, wanted: WantedReadings | None) -> Seen:
        """Return the times of the requested readings, as text; raises InvalidInput if a reading is missing."""
        self.check_stored()
        state = self.current
        if wanted is None:
            return Seen(state.version, state.sequence)
        readings = state.readings()
        times, missing = wanted.among(state.forecaster.timeline, readings)
        found = sum(time in readings for time in times)
        return Seen(state.version, state.sequence, found, tuple(times), tuple(missing))

    @queued(always=True)
    def erase(self, intent: Intent, solve: Solve | None = None) -> Erased:
        """Erase readings, named by their times as text, and everything that the store holds of the feed's past.

        A time before the window stands for all readings before the window. A snapshot without the readings replaces the
        stored past; before this replacement, readers see the old state. After this method, the caller erases the
        readings in files, and makes the store overwrite deleted data.
        """
        solve = self.begun(solve)
        self.check_open()
        state = self.current
        try:
            with self.context.turns.turn(solve):
                if intent.by_time:
                    names = state.names()
                    leaving = [names[str(name)] for name in intent.leaving(self.stored, names, {})]
                    state.forget(leaving, beyond=len(leaving) < intent.count(self.stored))
                certificate = worst_of(state)
        except BaseException:
            self.breaks()
            raise
        requests = self.supersede(intent)
        removed = intent.part(self.stored).found
        changed("erase", f"{self}", version=state.version, asked=len(intent.keys), removed=removed)
        return Erased(state.version, requests, certificate)

    @queued(reads=True)
    def history(self, asked: PastForecastsQuery) -> dict[str, Any]:
        """Return past readings, each with the forecasts that were made for it.

        The returned future raises InvalidInput for an unknown step.
        """
        return look_back(self.current.forecaster, asked)

    @queued(reads=True)
    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Forecast with ``rows`` as the coming values of columns known in advance.

        The returned future raises InvalidInput for an invalid row.
        """
        return what_if(self.current.forecaster, rows)

    @queued(reads=True)
    def certificate(self, solve: Solve | None = None) -> dict[str, Any]:
        """Recompute the certificate of optimality of every step's models from the data in the window."""
        with self.context.turns.turn(self.begun(solve)):
            steps = proofs_of(self.current.forecaster)
        worst = max((step["relative_gap"] for step in steps), default=None)
        return {"position": self.current.position, "relative_gap": worst, "steps": steps}

    @queued(reads=True, always=True)
    def events(self) -> list[dict[str, Any]]:
        """Return all events that the feed still keeps, oldest first."""
        return list(self.view.events)

    @queued(reads=True, always=True)
    def copy(self) -> FeedCopy:
        """Copy the feed for a job; even a full mailbox accepts this call."""
        return FeedCopy(self.spec, self.current.encode(), self.current.version)

    def give_up(self, reason: ServiceError) -> None:
        """Abort the solve in progress, refuse waiting calls, and stop reading the source."""
        self.leave_source()
        super().give_up(reason)

    def leave_source(self) -> None:
        """Stop reading the feed's source; returns without waiting."""
        if self._pump is not None:
            self._pump.leave()

    def stop(self) -> None:
        """Run all waiting calls, write a snapshot if the feed has changed, and release the feed's lease."""
        pump = self._pump
        if pump is not None:
            pump.stop()
        super().stop()
        source = None if self._spec is None else self.spec.source
        if source is not None and self.deleted:
            (pump or self._pump_of(source)).forget()

    # In the mailbox.

    def _recover(self, lease: Lease, patience: Patience) -> Recovered[FeedState]:
        context = self.context
        return FeedRecovery(context.source, lease, self.spec, context.turns, patience.whole).run()

    def _publish(self, state: FeedState) -> None:
        self.shown = View.of(state)
        if self._pump is None and self.spec.source is not None:
            self._pump = self._pump_of(self.spec.source)
            self._pump.start()

    def _pump_of(self, source: SourceSpec) -> SourceReader:
        opened = partial(open_source, source, self.id, self.spec.layout, self.context.settings, self.context.holder)
        return SourceReader(f"{self}", self, opened, source.count)

    def _forget(self) -> None:
        self.shown = None

    def _tell(self) -> dict[str, Any]:
        seen = self.view
        reported = {name: getattr(seen, name) for name in _SHOWN}
        steps = [list(astuple(step)) for step in seen.steps]
        forecasts = seen.forecasts if len(seen.forecasts) <= MOST_REPORTED else None
        return reported | {"steps": steps, "forecasts": forecasts}

    def _happened(self) -> Iterable[Happened]:
        return of_feed(self.id, self.stored, self.current)

    def _count(self, became: str, seconds: float | None) -> None:
        metrics = self.context.source.metrics
        metrics.feed_calls_of[became].inc()
        if seconds is not None:
            metrics.feed_seconds.observe(seconds)

    def _ask(self, call: FeedCall, solve: Solve | None = None) -> Future[Reply]:
        return self._submit(partial(self._changed, call.request, call.digest, partial(self._execute, call), solve))

    def _deliver(self, entries: Sequence[SourceEntry], why: str | None, digest: bytes, solve: Solve) -> Reply:
        state = self.current
        new = state.progress.new(entries)
        if not new:
            return Reply(b"", replayed=True)
        in_flight = 0 if self.spec.source is None else self.spec.source.in_flight
        return self._execute(Delivery.of(new, state.forecaster, time.time(), why, in_flight), digest, solve)

    def _execute(self, call: FeedCall, digest: bytes, solve: Solve) -> Reply:
        """Log a call, apply it, publish the view, and return the answer."""
        state, began = self.current, time.thread_time()
        plan = call.check(state.forecaster)
        if isinstance(call, Observations | Delivery) and state.forecaster.choice_due:
            call = call.with_given(self._choice(solve))
        with self.held.growing(self._most_bytes):
            apply = partial(state.apply, call, plan)
            done, reported, record, durability = self.perform(call, digest, apply, self._answered, solve)
        self._follow(done, began, len(record))
        counts = {name: done[name] for name in ("accepted", "ignored", "corrected", "announced", "position")}
        changed(call.action, f"{self}", version=state.version, durability=durability.value, **counts)
        self.remember(call.request, reported)
        return Reply(reported)

    def _answered(self, done: dict[str, Any], durability: Durability) -> bytes:
        """Publish the view that a call has led to, and return the call's answer."""
        reported = answer(done, durability)
        self._show(done)
        return reported

    def _show(self, done: dict[str, Any]) -> None:
        """Publish the view that a call has led to."""
        before = self.view
        same = done["state"] == before.state == "live" and not done["events"]
        self.shown = View.of(self.current, before if same else None, done["forecasts"])

    def _follow(self, done: dict[str, Any], began: float, size: int, seconds: float | None = None) -> None:
        """Count a call and announce its events.

        ``began`` is the thread's CPU time when the call began, and ``size`` is the size of the call's record in bytes.
        If the call was made for many feeds, its ``seconds`` are counted in the metrics, too.
        """
        with self.following():
            self.checkpoints.record_change(time.thread_time() - began, size)
            self.announce()
            if seconds is not None:
                self._count("applied", seconds)
            for event in done["events"]:
                self.context.source.metrics.feed_events.labels(event["kind"]).inc()

    # With others, held: see :mod:`~livesvm.service.hosting.batch`.

    def plan_with(self, call: Observations, digest: bytes, *, is_stored: bool) -> Reply | Planned:
        """Return the checked plan of a call, or the answer to an identical one; raises the errors of a single call."""
        if call.request is not None:
            earlier = self.journal.recall(call.request, digest, is_stored=is_stored)
            if earlier is not None:
                return Reply(earlier, replayed=True)
        plan = call.check(self.current.forecaster)
        chosen = call.with_given(self._choice()) if self.current.forecaster.choice_due else call
        return Planned(chosen, plan, digest)

    def _choice(self, solve: Solve | None = None) -> Preset:
        """Choose the feed's settings again, because its errors have grown; the choice is logged with the call.

        Until the choice ends, it replaces ``solve`` as the solve in progress. If no settings are found within the time
        limit of a solve, the present settings stay.
        """
        feed, choosing = self.current.forecaster, self.begun()
        try:
            with self.held.growing(self._most_bytes), self.context.turns.turn(choosing):
                return feed.best_now()
        except (SolverError, OutOfTime, TurnMissed) as error:
            log.warning("%s: nothing was chosen again: %s", self, error)
            return feed.made_with
        finally:
            if solve is not None:
                self._under_way = solve

    def take_with(
        self, planned: Planned, logged: Appending, durability: Durability | None, error: StoreError | None
    ) -> bytes:
        """Apply a record that was logged in one step with records of other feeds; return the answer.

        Raises ``error`` if the store refused the record, and the errors of a single call.
        """
        state, began, worked = self.current, time.perf_counter(), time.thread_time()
        self.journal.appended(state, logged, error)
        assert durability is not None
        level, apply = durability, partial(state.apply, planned.call, planned.plan)

        def show(done: dict[str, Any]) -> bytes:
            """Publish the view that the call has led to, and return this feed's part of the answer to the batch."""
            self._show(done)
            return answer({name: done[name] for name in COUNTS}, level)

        with self.growing(self._most_bytes, logged.sequence):
            done, reported = self.applied(logged.sequence, apply, show, self.begun())
        self._follow(done, worked, len(logged.data), time.perf_counter() - began)
        return reported


def glimpse_of(found: Summary | None) -> Glimpse | None:
    """Return the description of a feed at rest from its summary, None if the summary has no description."""
    if found is None or found.reported is None:
        return None
    return Glimpse(**found.reported | {"steps": tuple(StepSample(*step) for step in found.reported["steps"])})
