"""One live model: a single writer, and an immutable snapshot that readers share.

Its keeper logs, applies and answers what changes it; here is what that means for a model. Predictions take whatever
was published last and never wait. Nothing above this module may assume that the model is in this process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from livesvm.service import crash
from livesvm.service.errors import EmptyModel, ModelUnavailable, QueueFull, ServiceError, UnknownModel
from livesvm.service.history.entries import Entry, Restoration, Retraining, digest_of_restore, digest_of_swap
from livesvm.service.history.erasure import Intent, Seen, left
from livesvm.service.history.journal import Journal
from livesvm.service.history.recovery import Means, Recovered, recover
from livesvm.service.history.replay import Patience
from livesvm.service.history.versions import oldest_kept, state_at
from livesvm.service.history.writeback import encoded
from livesvm.service.live import erasing
from livesvm.service.live.handle import Description, Erased, Reply
from livesvm.service.live.keeper import Keeper, Kept
from livesvm.service.live.memory import ModelMemory
from livesvm.service.live.recent import Recent
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs.audit import changed
from livesvm.service.logs.calls import stage
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Update
from livesvm.service.models.examples import Page, Wanted, page_of
from livesvm.service.models.learners import check_update, task_of
from livesvm.service.models.published import Prediction, Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy, ModelState
from livesvm.service.models.types import ServingState
from livesvm.service.models.window import Limits
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.resources.turns import Solve
from livesvm.service.store.base import Head, Lease
from livesvm.solvers.errors import InvalidInput


class LiveModel:
    """One model with its writer; made from what is stored. The handle of a model in this process."""

    is_served = True
    patience = None  #: it has come back
    age = None  #: what is published here is the newest

    def __init__(self, spec: ModelSpec, lease: Lease, around: Surroundings, patience: Patience | None = None) -> None:
        """Restore the model and start its writer; raises StoreError if it cannot be restored.

        With limits to the ``patience`` it also raises OutOfTime.
        """
        settings = around.settings
        self.id = lease.model
        self.spec = spec
        self._around = around
        self._metrics = around.source.metrics
        window = spec.window
        self._limits = Limits(settings.max_examples, settings.max_features, window.max_examples, window.max_age_seconds)
        self._journal = Journal(around.source, lease, settings.idempotency_keep)
        self.recent = Recent()
        self._memory = ModelMemory(around.budget, self.id, settings.cache_mb if task_of(spec).is_exact else 0)
        self.recovered = self._recover(patience or Patience.at_last(settings.solve_seconds))
        self._keeper = Keeper(self._kept(), self._journal, self.recovered, around)
        self._publish()
        self._keeper.start()

    def _kept(self) -> Kept[ModelState]:
        return Kept(
            name=f"model {self.id}",
            audit=self.id,
            spec=encoded(self.spec),
            gone=UnknownModel,
            undoes=True,
            recover=lambda solve: self._recover(Patience.short(solve)),
            publish=self._publish,
            let_go=self._memory.release,
            count=self._count,
        )

    # What readers ask, from any thread.

    def predict(self, X: Rows) -> Prediction:
        """Decide rows X (m, d) by the newest version; raises EmptyModel or InvalidInput."""
        seen = self.published
        seen.check(self.spec, X, self._around.settings.max_predict_rows)
        decision, prediction = seen.decide(self.spec, X)
        self._metrics.predictions.labels(self.spec.task).inc(len(decision))
        self.recent.note_predicted(len(decision))
        return Prediction(seen.version, decision, prediction, self.stale)

    def reader(self, X: Rows) -> Published:
        """The newest version, whatever the rows."""
        return self.published

    @property
    def stale(self) -> bool:
        """Whether updates are refused now, so that newer data may be unknown."""
        return self._keeper.stale

    @property
    def state(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""
        return self._keeper.serving

    def serving(self) -> LiveModel:
        """The model itself; one that is not served raises."""
        return self

    def news(self) -> None:
        """There is none: it lives here."""

    def describe(self) -> Description:
        """The model as it is now."""
        seen = self.published
        return Description(
            state=self.state,
            version=seen.version,
            sizes=seen.sizes,
            n_features=seen.n_features,
            row_bytes=seen.row_bytes,
            n_support=seen.n_support,
            C=seen.C,
            kernel=seen.kernel,
            robust=seen.robust,
            classes=seen.counts,
            gamma=seen.gamma,
            parameters=seen.parameters,
            warnings=seen.warnings,
            updated_at=seen.updated_at,
            queue_depth=self._keeper.writer.depth(),
            memory=self._memory.size,
            cache_mb=self._around.settings.cache_mb,
            predicted=self.recent.predicted,
            returned=self._keeper.returned,
        )

    @property
    def known(self) -> int:
        """The newest record that the store has said to keep."""
        return self._journal.known

    def observe(self, known: int, head: Head | None) -> None:
        """Learn where the store stands; ``known`` was read before the store was asked."""
        self._keeper.observe(known, head)

    def sample(self) -> ModelSample:
        """What the metrics and the description show."""
        seen, sizes = self.published, self.published.sizes
        return ModelSample(
            id=self.id,
            state=self.state,
            version=seen.version,
            n_examples=sizes.n_examples,
            n_free=sizes.n_free,
            n_bound=sizes.n_bound,
            max_violation=sizes.max_violation,
            relative_gap=sizes.relative_gap,
            queue_depth=self._keeper.writer.depth(),
            updated_at=seen.updated_at,
        )

    def prepare(self) -> None:
        """Have the writer do what the first update would do besides; returns at once, and nothing depends on it."""
        with suppress(QueueFull, ModelUnavailable):
            self._keeper.writer.submit(self._prepare, rests=False)

    # What the writer is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is its Idempotency-Key, ``solve`` how long it may take."""
        return self._keeper.change(request, update.digest, partial(self._apply, update, request), solve)

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Go back to a kept version, as a new one; ``request`` is its Idempotency-Key."""
        digest = partial(digest_of_restore, version)
        return self._keeper.change(request, digest, partial(self._restore, version, request), solve)

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Put what a retraining has found in place of the model; ``request`` is its Idempotency-Key."""
        digest = partial(digest_of_swap, found.job)
        return self._keeper.change(request, digest, partial(self._swap, found, request), solve)

    def seen(self, keys: Sequence[Key]) -> Future[Seen]:
        """How many of these keys the window holds, of a model that takes changes now; raises StoreError otherwise."""
        return self._keeper.writer.submit(lambda: self._seen(keys), rests=False, always=True)

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget examples, in the window or not, and all that was stored of the model before; see ``live.erasing``."""
        return self._keeper.writer.submit(lambda: self._forget(intent, self._keeper.begun(solve)), always=True)

    def versions(self) -> dict[str, Any]:
        """Which versions can be had; asks the store, so it belongs in a thread."""
        with self._around.source.health.store_call("load"):
            store = self._around.source.store
            snapshots, oldest = store.snapshots(self.id), oldest_kept(store, self.id)
        snapshots = [snapshot for snapshot in snapshots if not snapshot.is_damaged]
        kept = [
            {"version": s.version, "saved_at": datetime.fromtimestamp(s.saved_at, UTC).isoformat(), "bytes": s.size}
            for s in snapshots
        ]
        served = self.published.version
        current = max([served, *(snapshot.version for snapshot in snapshots)])  # another service may have gone on
        return {"current": current, "oldest": oldest, "stale": self.stale or current > served, "snapshots": kept}

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of the version that is newest when its turn comes."""
        return self._keeper.read(lambda: self._certificate(self._keeper.begun(solve)))

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """The version that is newest when its turn comes, with its calibration; found once for each."""
        return self._keeper.read(lambda: self._calibrated(self._keeper.begun(solve)))

    def copy(self) -> Future[ModelCopy]:
        """Copy the version that is newest when its turn comes, for a job; no queue is too full for that."""
        return self._keeper.read(self._copy, always=True)

    def examples(self, wanted: Wanted) -> Future[Page]:
        """Some of the examples of the version that is newest when its turn comes."""
        return self._keeper.read(lambda: page_of(self._state, wanted))

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""
        return self._keeper.checkpoint()

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this model again, should it have lost it; see ``writeback.write_back``."""
        return self._keeper.write_back()

    def delete(self) -> Future[None]:
        """Remove the model from the store; what is under way or waits is given up, every later command is refused."""
        return self._keeper.delete()

    def give_up(self, reason: ServiceError) -> None:
        """End the solve that is under way, and refuse what waits, as nobody needs this model here any more."""
        self._keeper.give_up(reason)

    def stop(self) -> None:
        """Let the queue run empty, end the writer, write a snapshot if anything changed, and let go of the model."""
        self._keeper.stop()

    # The writer.

    @property
    def _state(self) -> ModelState:
        return self._keeper.state

    def _publish(self) -> None:
        self.published = Published.of(self._state)

    def _count(self, became: str, seconds: float | None) -> None:
        self._metrics.updates.labels(self.spec.task, became).inc()
        if seconds is not None:
            self._metrics.update_seconds.labels(self.spec.task).observe(seconds)

    def _apply(self, update: Update, request: str | None, digest: bytes, solve: Solve) -> Reply:
        check_update(self.spec, update)
        update = self._state.settled(update)
        self._state.check_labels(update, self._around.settings.max_classes)
        self._state.check_change(update)
        command = self._state.window.plan(update, self._limits, time.time(), request)
        self._state.check_scale(command)
        with self._memory.growing(self._memory.after(self._state, command)):
            return self._execute(command, digest, solve)

    def _restore(self, version: int, request: str | None, digest: bytes, solve: Solve) -> Reply:
        self._journal.left.check(version)
        source, cache_mb = self._around.source, self._around.settings.cache_mb
        with self._around.turns.turn(solve), source.health.store_call("load"):
            found = state_at(source.store, self.spec, cache_mb, self.id, version)
        with self._memory.growing(self._memory.of(found)):
            return self._execute(Restoration(version, found.encode(), request, time.time()), digest, solve)

    def _swap(self, found: Retrained, request: str | None, digest: bytes, solve: Solve) -> Reply:
        if found.version < self._journal.left.version:
            reason = "began before examples were erased, and knows them; retrain the model again"
            raise InvalidInput(reason, field="job")
        with self._memory.growing(self._memory.size + found.size()):
            with self._around.turns.turn(solve):
                now, changed = found.brought_up_to(self._state)
            return self._execute(Retraining(found.job, now, request, time.time(), changed), digest, solve)

    def _execute(self, entry: Entry, digest: bytes, solve: Solve) -> Reply:
        """Log, then apply, then publish, then answer."""
        keeper = self._keeper
        outcome, record, durability = keeper.perform(entry, digest, lambda: entry.apply(self._state), solve)
        self._metrics.solve_seconds.labels(self.spec.task).observe(outcome.seconds)
        self._metrics.update_events.labels(self.spec.task).observe(outcome.events)
        if outcome.more.get("abandoned"):
            self._metrics.abandoned.labels(self.spec.task).inc()
        self._publish()
        keeper.checkpoints.note_change(outcome.seconds, len(record))
        told = entry.told(outcome)
        self.recent.note_update(self._state.version, self._state.updated_at, outcome, told)
        changed(**told, model=self.id, version=self._state.version, durability=durability.value)
        answer = entry.answer(self._state.version, outcome, durability)
        keeper.remember(entry.request, answer)
        keeper.checkpoints.keep_solution(self._state, record, outcome.seconds)
        return Reply(answer)

    def _seen(self, keys: Sequence[Key]) -> Seen:
        self._keeper.check_open()
        state = self._state
        return Seen(state.version, state.sequence, sum(key in state.window.arrivals for key in keys))

    def _forget(self, intent: Intent, solve: Solve) -> Erased:
        """Solve without, then have that stand for all that was stored; until then readers see what was before."""
        self._keeper.check_open()
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            outcome, certificate = erasing.solve(self._state, intent, self.id)
        crash.point("erase-solved")
        stage("log")
        try:
            size, requests = erasing.write(self._journal, self._state, intent, self._around.settings.idempotency_keep)
        except BaseException:
            self._keeper.breaks()
            raise
        self._publish()
        self._keeper.checkpoints.saved(self._state, size)
        counts = {"asked": len(intent.all_keys), "removed": intent.part(self.id).found, "requests": requests}
        changed("erase", self.id, version=self._state.version, **counts)
        if outcome is not None:
            self._metrics.solve_seconds.labels(self.spec.task).observe(outcome.seconds)
        return Erased(self._state.version, requests, certificate)

    def _prepare(self) -> None:
        with suppress(ServiceError), self._around.turns.turn(self._keeper.begun()):
            self._state.prepare()

    def _certificate(self, solve: Solve) -> dict[str, Any]:
        if self._state.sizes.n_examples == 0:
            raise EmptyModel(f"model {self.id} knows no example yet")
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            return self._state.certificate()

    def _calibrated(self, solve: Solve) -> Published:
        if self.published.calibration is None:
            self.published.check_known(self.spec)
            stage("turn")
            with self._around.budget.holding("jobs", self._memory.size), self._around.turns.turn(solve):
                stage("solve")
                self.published = replace(self.published, calibration=self._state.calibration())
        return self.published

    def _copy(self) -> ModelCopy:
        if self._state.sizes.n_examples == 0 and task_of(self.spec).is_exact:
            raise EmptyModel(f"model {self.id} knows no example yet")
        return self._state.copy()

    def _recover(self, patience: Patience) -> Recovered[ModelState]:
        around = self._around
        means = Means(around.settings.cache_mb, around.turns, patience)
        found = recover(around.source, self._journal.lease, self.spec, means)
        self._memory.restored(found.state)
        self._journal.known = found.state.sequence
        with around.source.health.store_call("load"):
            self._journal.left = left(around.source.store, self.id)
        return found
