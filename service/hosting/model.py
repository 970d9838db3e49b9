"""One hosted model: it defines the effect of each entry in the model's log, and publishes immutable versions for
readers.

The base class ``Replica`` logs, applies and answers changes; this module adds the parts that only models need.
Predictions use the version that was published last, and never wait for an update to finish. Code that uses models
through ``ModelHandle`` must not assume that a model is in this process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from livesvm.service.errors import EmptyModel, OutOfMemory, ServiceError, UnknownModel
from livesvm.service.history.entries import LogEntry, Restoration, Retraining
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.history.recovery import Means, Recovered, recover
from livesvm.service.history.replay import Patience
from livesvm.service.history.versions import oldest_kept, state_at
from livesvm.service.hosting.choice import TuningRun, choosing_bytes
from livesvm.service.hosting.handle import Description, Erased, OwnName, Reply
from livesvm.service.hosting.happened import of_model
from livesvm.service.hosting.replica import Replica, queued
from livesvm.service.hosting.summary import Summary
from livesvm.service.logs.calls import changed
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Command, Outcome, digest_of
from livesvm.service.models.examples import WantedExamples, WindowPage, page_of
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import ModelRecord, Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.self_tuning import Document
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy, ModelState
from livesvm.service.models.table_rows import TableRows
from livesvm.service.models.window import WindowLimits
from livesvm.service.resources.shared_threads import Steps
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.settings import Settings
from livesvm.service.store import codec
from livesvm.service.store.base import Appending, Durability, Lease, StoreError
from livesvm.service.webhooks.messages import Happened
from livesvm.solvers.errors import InvalidInput, SolverError
from livesvm.solvers.models.change import NO_EDITS, TUNED, Change, Edits
from livesvm.solvers.runtime.cached import cached_property


class PlannedUpdate(NamedTuple):
    """A checked update in the form of a command, with the update's digest and the time limit of its solve."""

    command: Command
    digest: bytes
    solve: Solve

    @property
    def logged(self) -> tuple[Command, bytes]:
        """The command and its digest, which the log records."""
        return self.command, self.digest


class HostedModel(Replica[ModelState]):
    """The handle of a model in this process."""

    word, gone, spec_field, undoes = "model", UnknownModel, "spec", True
    age = None  #: the version published here is always the newest

    _published: Published | None = None
    _choice: TuningRun | None = None

    @staticmethod
    def parse_spec(text: str) -> ModelSpec:
        """Parse a model's specification from JSON."""
        return ModelSpec.model_validate_json(text)

    @property
    def spec(self) -> ModelSpec:
        """The model's specification; a default one if the stored specification is unknown or damaged."""
        return self._spec or ModelSpec(id=self.id)

    @property
    def audit_name(self) -> str:
        """The model's id, which names the model in the audit log."""
        return self.id

    # What readers ask, from any thread.

    @property
    def published(self) -> Published:
        """The model's newest version, which has no predictor while the model is at rest."""
        seen = self._published
        return self.describe().published(self.spec) if seen is None else seen

    @cached_property
    def recent(self) -> Recent:
        """The model's newest updates, and its number of predicted rows, since the model woke."""
        return Recent()

    def reader(self, X: Rows | TableRows) -> Published:
        """Return the newest version, which can predict any rows; not for the event loop: this may wake the model."""
        self.used_at = time.monotonic()
        while (seen := self._published) is None:
            self.wake().result()
        return seen

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Return the model's newest version; the generator yields no intermediate steps."""
        return self.reader(X)
        yield

    def sample(self) -> Description:
        """Return the model's description as its sample for the metrics."""
        return self.describe()

    stamp = sample

    def describe(self) -> Description:
        """Return the model's present description."""
        seen = self._published
        if seen is None:
            return self._described_at_rest()
        return Description(
            self.state,
            **seen.fields(),
            id=self.id,
            queue_depth=self.queue_depth,
            memory=seen.needs(self._cache_mb),
            cache_mb=self.context.settings.cache_mb,
            predicted=self.recent.predicted,
            returned=self.returned,
            error=self.reason,
        )

    def _described_at_rest(self) -> Description:
        here = described_at_rest(self.spec, self._summary, self.context.settings)
        return replace(here, state=self.state, queue_depth=self.queue_depth, error=self.reason)

    # What the mailbox is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def update(self, update: Change, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is the update's Idempotency-Key, ``solve`` limits the time of its solve."""
        return self._submit(
            partial(self._changed, request, partial(digest_of, update), partial(self._apply, update, request), solve)
        )

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Make the contents of an earlier version the model's newest version; ``request`` is the Idempotency-Key."""
        digest = partial(codec.digest, {"restore": version})
        return self._submit(partial(self._changed, request, digest, partial(self._restore, version, request), solve))

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Replace the model by the result of a retraining; ``request`` is its Idempotency-Key."""
        digest = partial(codec.digest, {"retrained": found.job})
        return self._submit(partial(self._changed, request, digest, partial(self._swap, found, request), solve))

    def versions(self) -> dict[str, Any]:
        """Return the versions that can be restored; call it from a thread, because it reads the store."""
        with self.context.source.health.store_call("load"):
            store = self.context.source.store
            snapshots, oldest = store.snapshots(self.id), oldest_kept(store, self.id)
        snapshots = [snapshot for snapshot in snapshots if not snapshot.is_damaged]
        kept = [
            {"version": s.version, "saved_at": datetime.fromtimestamp(s.saved_at, UTC).isoformat(), "bytes": s.size}
            for s in snapshots
        ]
        served = self.describe().version
        current = max([served, *(snapshot.version for snapshot in snapshots)])  # another service may have newer ones
        left, stale = self.journal.left, self.stale or current > served
        erased_at = datetime.fromtimestamp(left.at, UTC).isoformat() if left.version else None
        return {"current": current, "oldest": oldest, "stale": stale, "erased_at": erased_at, "snapshots": kept}

    @queued(reads=True, always=True)
    def seen(self, keys: Sequence[Key], tags: Sequence[str] = ()) -> Seen:
        """Return how many of these keys are in the window; raises StoreError if the model is not live.

        If the model was last trained on a dataset, also return the hashes that mark the dataset's rows with these keys
        or tags.
        """
        self.check_stored()
        state = self.current
        training, found = state.trained_on, sum(key in state.window.arrivals for key in keys)
        rows = () if training is None else tuple(training.marks_among([*keys, *tags]).values())
        return Seen(state.version, state.sequence, found, rows=rows)

    @queued(always=True)
    def erase(self, intent: Intent, solve: Solve | None = None) -> Erased:
        """Erase examples, whether still in the window or not, and all stored history of the model.

        The model is solved without the erased examples, and a snapshot of the result replaces the stored history. Until
        the snapshot is stored, readers get the version before the erasure.
        """
        self._end_choice()
        solve = self.begun(solve)
        self.check_open()
        state = self.current
        training = state.trained_on
        with self.context.turns.turn(solve):
            window = state.window
            leaving = intent.leaving(self.id, [*window.arrivals, *window.left], window.tags)
            rests = intent.is_of_training(self.id, training)
            goes = state.is_retrained_without(leaving, is_trained_on=rests)
            outcome = state.forget(leaving, is_trained_on=rests)
            is_of_window = state.trained_on is None or state.trained_on.dataset is None
            certificate = state.certificate() if state.can_predict and is_of_window else None
        requests = self.supersede(intent)
        counts = {"asked": len(intent.all_keys), "removed": intent.part(self.id).found, "requests": requests}
        changed("erase", self.id, version=state.version, **counts)
        if outcome is not None:
            self.context.source.metrics.solve_seconds.labels(self.spec.task).observe(outcome.seconds)
        became = None if training is None and state.owed is None else _became(state, goes=goes)
        owed = None if state.owed is None else dict(state.owed.asked)
        return Erased(state.version, requests, certificate, became, owed)

    @queued(reads=True)
    def certificate(self, solve: Solve | None = None) -> dict[str, Any]:
        """Recompute the certificate of optimality of the newest version."""
        solve = self.begun(solve)
        if self.current.sizes.n_examples == 0:
            raise EmptyModel(f"model {self.id} knows no example yet")
        with self.context.turns.turn(solve):
            return self.current.certificate()

    @queued(reads=True)
    def calibrated(self, solve: Solve | None = None) -> Published:
        """Return the newest version with its probability calibration, which is computed once and then cached."""
        solve, seen = self.begun(solve), self.published
        if seen.calibration is None:
            seen.check_known(self.spec)
            with self.context.budget.holding("jobs", self.held.size), self.context.turns.turn(solve):
                self._published = seen = replace(seen, calibration=self.current.calibration())
        return seen

    @queued(reads=True, always=True)
    def copy(self) -> ModelCopy:
        """Copy the newest version for a job; even a full mailbox accepts this call."""
        if self.current.sizes.n_examples == 0 and task_of(self.spec).is_exact:
            raise EmptyModel(f"model {self.id} knows no example yet")
        return self.current.copy()

    @queued(reads=True)
    def examples(self, wanted: WantedExamples) -> WindowPage:
        """Return the requested examples from the window of the newest version."""
        return page_of(self.current, wanted)

    # In the mailbox.

    @property
    def _cache_mb(self) -> int:
        return _cached(self.spec, self.context.settings)

    def _recover(self, lease: Lease, patience: Patience) -> Recovered[ModelState]:
        context = self.context
        return recover(context.source, lease, self.spec, Means(context.settings.cache_mb, context.turns, patience))

    def _publish(self, state: ModelState) -> None:
        self._published = state.published()

    def _forget(self) -> None:
        self._published = None
        vars(self).pop("recent", None)

    def _opened(self, lease: Lease, found: Recovered[ModelState]) -> None:
        super()._opened(lease, found)
        self._choice = None
        with self.following():  # it is awake, whatever becomes of this
            self._consider()

    def give_up(self, reason: ServiceError) -> None:
        """Abort the solve and the choice of parameters that are in progress, and refuse waiting calls."""
        self._end_choice()
        super().give_up(reason)

    def stop(self) -> None:
        """Run all waiting calls, write a snapshot if the model has changed, and release the model's lease."""
        self._end_choice()
        super().stop()

    def _tell(self) -> dict[str, Any]:
        assert self._published is not None
        return self._published.document()

    def _happened(self) -> Iterable[Happened]:
        return of_model(self.id, self.current)

    def _count(self, became: str, seconds: float | None) -> None:
        metrics, task = self.context.source.metrics, self._spec.task
        metrics.updates.labels(task, became).inc()
        if seconds is not None:
            metrics.update_seconds.labels(task).observe(seconds)

    def _apply(self, update: Change, request: str | None, digest: bytes, solve: Solve) -> Reply:
        state = self.current
        command = self._planned(state, update, request)
        if isinstance(command, Reply):
            return command
        with self.held.growing(state.bytes_with(command.add)):
            return self._execute(state, command, digest, solve)

    def _planned(self, state: ModelState, update: Change, request: str | None) -> Command | Reply:
        """Return the command of an update, or the answer to an update that changes nothing."""
        settings = self.context.settings
        limits = limits_of(state.spec, settings)
        command = state.plan(update, limits, settings.max_classes, time.time(), request)
        by_age = update.remove is not None and update.remove.older_than is not None
        is_named = request is not None and not isinstance(request, OwnName)
        does_nothing = not (command.add or command.remove or command.dropped or command.ignored)  # a day had no data
        if does_nothing and command.edits in (None, NO_EDITS) and not (by_age and is_named):  # nor does a repetition
            return Reply(command.answer(state.version, Outcome(state.sizes), self.context.source.store.durability()))
        return command

    def _restore(self, version: int, request: str | None, digest: bytes, solve: Solve) -> Reply:
        self.journal.left.check(version)
        source, cache_mb = self.context.source, self.context.settings.cache_mb
        with self.context.turns.turn(solve), source.health.store_call("load"):
            found = state_at(source.store, self.spec, cache_mb, self.id, version)
        with self.held.growing(found.bytes_with(None)):
            return self._execute(
                self.current, Restoration(version, found.encode(), request, time.time()), digest, solve
            )

    def _swap(self, found: Retrained, request: str | None, digest: bytes, solve: Solve) -> Reply:
        if found.version < self.journal.left.version:
            reason = "began before examples were erased, and knows them; retrain the model again"
            raise InvalidInput(reason, field="job")
        with self.held.growing(self.held.size + found.size()):
            with self.context.turns.turn(solve):
                now, changed = found.brought_up_to(self.current)
            return self._execute(self.current, Retraining(found.job, now, request, time.time(), changed), digest, solve)

    def _consider(self) -> None:
        """Start a choice of parameters on a copy of the model, if a choice is due; no call waits for the choice."""
        state = self.current
        if state.encoding_due:
            self._apply(Change(edits=Edits(rescale=True)), None, b"", self.begun())
            return
        if self._choice is not None or (reason := state.tuning_due(self.context.settings.tune_share)) is None:
            return
        budget, n = self.context.budget, len(state.window.arrivals)
        size = self.held.size + choosing_bytes(n)
        try:
            budget.take("jobs", size)
        except OutOfMemory:
            state.tuning.refused(n)
            return
        self._choice = choice = TuningRun(state.copy(), state.basis, reason, self._chosen)
        self.context.tuners.submit(choice.run).add_done_callback(lambda _: budget.give("jobs", size))

    def _end_choice(self) -> None:
        if (choice := self._choice) is not None:
            choice.end()

    def _chosen(self, choice: TuningRun, found: Document | None) -> None:
        """Submit the chosen parameters as an update; the thread that has chosen the parameters calls this."""

        def ended(_: object = None) -> None:
            """Forget the finished choice of parameters, so that the next choice can begin when it is due."""
            if self._choice is choice:
                self._choice = None

        if not choice.is_over:
            take = partial(self._changed, None, bytes, partial(self._take_choice, choice, found), None)
            with suppress(ServiceError):
                self._submit(take, always=True).add_done_callback(ended)
                return
        ended()

    def _take_choice(self, choice: TuningRun, found: Document | None, digest: bytes, solve: Solve) -> Reply:
        """Apply the chosen parameters, unless the model changed its parameters or lost erased examples meanwhile."""
        state = self.current
        if choice.copy.version >= self.journal.left.version and choice.basis == state.basis:
            if found is not None:
                with suppress(SolverError):
                    return self._apply(Change(edits=Edits(change={TUNED: found})), None, digest, solve)
            state.tuning.refused(len(state.window.arrivals))
        return Reply(b"")

    def _execute(self, state: ModelState, entry: LogEntry, digest: bytes, solve: Solve) -> Reply:
        """Log an entry, apply the entry, publish the new version, and return the answer."""
        began = time.thread_time()
        show = partial(self._show, state, entry)
        outcome, answer, record, durability = self.perform(entry, digest, partial(entry.apply, state), show, solve)
        self._follow(state, entry, outcome, len(record), durability)
        self.remember(entry.request, answer)
        self.checkpoints.keep_solution(state, record, outcome.seconds)
        with self.following():
            self._reckon(state, entry, time.thread_time() - began)
        return Reply(answer)

    def _reckon(self, state: ModelState, entry: LogEntry, seconds: float) -> None:
        """Add an update's CPU time to the sum that limits the time for choices of parameters; start a due choice."""
        tunes_itself = self._published is not None and self._published.tuning is not None
        if tunes_itself and isinstance(entry, Command) and not (entry.edits and entry.edits.tuned):
            state.tuning.updates += seconds
        if tunes_itself or (state.estimator.columns is not None and state.encoding_due):
            self._consider()

    def _show(self, state: ModelState, entry: LogEntry, outcome: Outcome, durability: Durability) -> bytes:
        """Publish the newest version; return the answer to the request that caused the entry."""
        self._published = state.published()
        return entry.answer(state.version, outcome, durability)

    def _follow(self, state: ModelState, entry: LogEntry, outcome: Outcome, size: int, durability: Durability) -> None:
        """Count the result of an entry in the metrics, and announce its events; its record has ``size`` bytes."""
        metrics, task = self.context.source.metrics, state.spec.task
        with self.following():
            metrics.solve_seconds.labels(task).observe(outcome.seconds)
            metrics.update_events.labels(task).observe(outcome.events)
            if outcome.more.get("abandoned"):
                metrics.abandoned.labels(task).inc()
            if (alarm := outcome.more.get("drift")) is not None:
                metrics.drift_alarms.labels(task).inc()
                changed("drift", self.id, **alarm)
            if isinstance(entry, Command) and entry.edits is not None and (tuned := entry.edits.tuned) is not None:
                metrics.tunings.labels(task, tuned["reason"]).inc()
                metrics.tuning_seconds.labels(task).observe(tuned["seconds"])
            self.announce()
            self.checkpoints.record_change(outcome.seconds, size)
            reported = entry.reported(outcome)
            self.recent.note_update(state.version, state.updated_at, outcome, reported)
            changed(**reported, model=self.id, version=state.version, durability=durability.value)

    # With others, held: see :mod:`~livesvm.service.hosting.batch`.

    def plan_with(self, update: Change, request: str | None, solve: Solve, *, is_stored: bool) -> Reply | PlannedUpdate:
        """Return the checked plan of an update, or the answer to an identical one; raises what a single call raises."""
        with self._counted():
            solve.check()
            digest = b"" if request is None else digest_of(update)
            earlier = None if request is None else self.journal.recall(request, digest, is_stored=is_stored)
            planned = self._planned(self.current, update, request) if earlier is None else Reply(earlier, replayed=True)
        if isinstance(planned, Reply):
            self._count("replayed" if planned.replayed else "applied", 0.0)
            return planned
        return PlannedUpdate(planned, digest, solve)

    def take_with(
        self, planned: PlannedUpdate, logged: Appending, durability: Durability | None, error: StoreError | None
    ) -> bytes:
        """Apply a record that was logged in one step with records of other models; return the answer.

        Raises ``error`` if the store refused the record, and the errors of a single call.
        """
        state, command, began, worked = self.current, planned.command, time.perf_counter(), time.thread_time()
        with self._counted():
            self.journal.appended(state, logged, error)
            assert durability is not None
            solve, level = self.begun(planned.solve), durability
            with self.growing(state.bytes_with(command.add), logged.sequence):
                show = partial(self._show, state, command, durability=level)
                outcome, answer = self.applied(logged.sequence, partial(command.apply, state), show, solve)
        with self.following():
            self._count("applied", time.perf_counter() - began)
        self._follow(state, command, outcome, len(logged.data), level)
        try:
            self.checkpoints.keep_solution(state, logged.data, outcome.seconds)
        except BaseException:
            self.remember(command.request, answer)  # the update has had its effect
            raise
        with self.following():
            self._reckon(state, command, time.thread_time() - worked)
        return answer


def _became(state: ModelState, *, goes: bool) -> str:
    """Return the effect of an erasure on a model's last training, in the words that the erasure's receipt uses."""
    if state.owed is not None:
        return f"removed, as {state.owed.reason}; the model predicts nothing until it is retrained"
    if not goes:
        return "rests on none of them, and stays"
    gap = state.sizes.relative_gap
    return f"made again from nothing on the window without them, to a relative gap of {gap or 0.0:.1g}"


def _cached(spec: ModelSpec, settings: Settings) -> int:
    """Return how many megabytes of kernel rows a model with this specification may cache."""
    return settings.cache_mb if task_of(spec).is_exact else 0


def limits_of(spec: ModelSpec, settings: Settings) -> WindowLimits:
    """Return the limits of a model's window."""
    window = spec.window
    return WindowLimits(settings.max_examples, settings.max_features, window.max_examples, window.max_age_seconds)


def described_at_rest(spec: ModelSpec, found: Summary | None, settings: Settings) -> Description:
    """Return the description of a model at rest from its summary, without waking it."""
    reported = None if found is None else found.reported
    if reported is None:
        at_first: dict[str, Any] = {} if spec.epsilon is None else {"epsilon": spec.first("epsilon")}
        at_first |= {"target_scale": "none"} if spec.target_scale == "auto" else {}
        known: dict[str, Any] = {"n_features": spec.n_features, "C": spec.first("C"), "parameters": at_first}
    else:
        known = ModelRecord.in_document(reported)
    now = Description("live", **known, id=spec.id or "", cache_mb=settings.cache_mb, awake=False)
    return replace(now, memory=now.needs(_cached(spec, settings)))


KEPT = 50
"""How many updates are remembered."""


class Recent:
    """The newest updates, and the number of rows predicted, since the model woke; any thread may count predictions."""

    def __init__(self) -> None:
        self._updates: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._lock = Lock()
        self.predicted = 0  #: rows

    def note_update(self, version: int, at: float | None, outcome: Outcome, reported: dict[str, Any]) -> None:
        """Record an update: the version it led to, its Unix time, its outcome, and the numbers of changed examples."""
        self._updates.append(
            {"version": version, "at": at, "seconds": outcome.seconds, **vars(outcome.sizes), **reported}
        )

    def note_predicted(self, rows: int) -> None:
        """Count rows that were predicted."""
        with self._lock:
            self.predicted += rows

    def updates(self) -> list[dict[str, Any]]:
        """Return the newest updates, newest first."""
        return list(self._updates.copy())[::-1]
