"""One live model: a single writer, and an immutable snapshot that readers share.

Everything that changes the model runs in its writer's thread, in the order it was asked for: log, then apply, then
publish, then answer. Predictions take whatever was published last and never wait. Nothing above this module may
assume that the model is in this process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from livesvm.service import crash
from livesvm.service.errors import (
    EmptyModel,
    IdempotencyConflict,
    ModelUnavailable,
    NotSolved,
    OutOfMemory,
    OutOfTime,
    QueueFull,
    ServiceError,
    TurnMissed,
    UnknownModel,
    Withdrawn,
)
from livesvm.service.history.checkpoints import Checkpoints, Due
from livesvm.service.history.entries import Entry, Restoration, Retraining, digest_of_restore, digest_of_swap
from livesvm.service.history.erasure import Intent, left
from livesvm.service.history.journal import Journal, Source
from livesvm.service.history.recovery import Means, Recovered, recover
from livesvm.service.history.replay import Patience
from livesvm.service.history.rescue import rescue
from livesvm.service.history.versions import oldest_kept, state_at
from livesvm.service.history.writeback import Snapshot, encoded, write_back
from livesvm.service.live import erasing
from livesvm.service.live.handle import Description, Erased, Reply, Return
from livesvm.service.live.memory import ModelMemory
from livesvm.service.live.recent import Recent
from livesvm.service.live.writer import Writer
from livesvm.service.logs.audit import changed
from livesvm.service.logs.calls import stage
from livesvm.service.models.arrays import Key, Matrix
from livesvm.service.models.commands import Update
from livesvm.service.models.examples import Page, Wanted, page_of
from livesvm.service.models.learners import check_update, task_of
from livesvm.service.models.outcome import Outcome
from livesvm.service.models.published import Prediction, Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.types import ServingState
from livesvm.service.models.window import Limits
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.turns import Solve, Turns
from livesvm.service.settings import Settings
from livesvm.service.store.base import Head, Idempotency, Lease, StoreBehind, StoreError
from livesvm.solvers.errors import SolverError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """What the models of one service share."""

    settings: Settings
    source: Source
    turns: Turns
    budget: Budget = field(default_factory=Budget)


class LiveModel:
    """One model with its writer; made from what is stored. The handle of a model in this process."""

    is_served = True
    patience = None  #: it has come back

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
        self._deleted = False
        self._leaving: ServiceError | None = None
        self._is_broken = False
        self._under_way = Solve()
        self.recovered = self._recover(patience or Patience.at_last(settings.solve_seconds))
        self._checkpoints = Checkpoints(self._journal, Due.by(settings), self.recovered)
        self.published = Published.of(self._state)
        self._writer = Writer(self.id, settings.queue_size, self._rest, self._checkpoints.deadline)
        self._writer.start()

    # What readers ask, from any thread.

    def predict(self, X: Matrix) -> Prediction:
        """Decide rows X (m, d) by the newest version; raises EmptyModel or InvalidInput."""
        seen = self.published
        seen.check(self.spec, X, self._around.settings.max_predict_rows)
        decision, prediction = seen.decide(self.spec, X)
        self._metrics.predictions.labels(self.spec.task).inc(len(decision))
        self.recent.note_predicted(len(decision))
        return Prediction(seen.version, decision, prediction, self.stale)

    @property
    def stale(self) -> bool:
        """Whether updates are refused now, so that newer data may be unknown."""
        return self.state != "live" or not self._around.source.health.store_is_fresh

    @property
    def state(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""
        return "fenced" if self._journal.fenced else "behind" if self._journal.behind else "live"

    def serving(self) -> LiveModel:
        """The model itself; one that is not served raises."""
        return self

    def describe(self) -> Description:
        """The model as it is now."""
        seen, found = self.published, self.recovered
        return Description(
            state=self.state,
            version=seen.version,
            sizes=seen.sizes,
            n_features=seen.n_features,
            n_support=seen.n_support,
            C=seen.C,
            kernel=seen.kernel,
            robust=seen.robust,
            updated_at=seen.updated_at,
            queue_depth=self._writer.depth(),
            memory=self._memory.size,
            cache_mb=self._around.settings.cache_mb,
            predicted=self.recent.predicted,
            returned=Return(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside),
        )

    @property
    def known(self) -> int:
        """The newest record that the store has said to keep."""
        return self._journal.known

    def observe(self, known: int, head: Head | None) -> None:
        """Learn where the store stands; ``known`` was read before the store was asked."""
        if not self._deleted:
            self._journal.observe(known, head)

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
            queue_depth=self._writer.depth(),
            updated_at=seen.updated_at,
        )

    def prepare(self) -> None:
        """Have the writer do what the first update would do besides; returns at once, and nothing depends on it."""
        with suppress(QueueFull, ModelUnavailable):
            self._writer.submit(self._prepare, rests=False)

    # What the writer is asked; each returns at once and raises QueueFull or ModelUnavailable.

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is its Idempotency-Key, ``solve`` how long it may take."""
        return self._writer.submit(lambda: self._counted(lambda: self._apply(update, request, self._begun(solve))))

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Go back to a kept version, as a new one; ``request`` is its Idempotency-Key."""
        return self._writer.submit(lambda: self._counted(lambda: self._restore(version, request, self._begun(solve))))

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Put what a retraining has found in place of the model; ``request`` is its Idempotency-Key."""
        return self._writer.submit(lambda: self._counted(lambda: self._swap(found, request, self._begun(solve))))

    def erase(self, keys: list[Key], asked_by: str | None, solve: Solve | None = None) -> Future[Erased]:
        """Forget examples, in the window or not, and all that was stored of the model before; see ``live.erasing``."""
        return self._writer.submit(lambda: self._erase(keys, asked_by, self._begun(solve)))

    def finish_erasing(self, but: str = "") -> Future[list[Erased]]:
        """The same of every erasure that was begun and has not been ended, but for one by its id."""
        return self._writer.submit(lambda: self._finish_erasing(but), always=True)

    def versions(self) -> dict[str, Any]:
        """Which versions can be had; asks the store, so it belongs in a thread."""
        with self._around.source.health.store_call("load"):
            store = self._around.source.store
            snapshots, oldest = store.snapshots(self.id), oldest_kept(store, self.id)
        kept = [
            {"version": s.version, "saved_at": datetime.fromtimestamp(s.saved_at, UTC).isoformat(), "bytes": s.size}
            for s in snapshots
            if not s.is_damaged
        ]
        return {"current": self.published.version, "oldest": oldest, "snapshots": kept}

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of the version that is newest when its turn comes."""
        return self._writer.submit(lambda: self._certificate(self._begun(solve)))

    def copy(self) -> Future[ModelCopy]:
        """Copy the version that is newest when its turn comes, for a job; no queue is too full for that."""
        return self._writer.submit(self._copy, always=True)

    def examples(self, wanted: Wanted) -> Future[Page]:
        """Some of the examples of the version that is newest when its turn comes."""
        return self._writer.submit(lambda: self._examples(wanted), rests=False)

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""
        return self._writer.submit(self._checkpoint)

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this model again, should it have lost it; see ``writeback.write_back``."""
        return self._writer.submit(self._write_back, always=True)

    def delete(self) -> Future[None]:
        """Remove the model from the store; what is under way or waits is given up, every later command is refused."""
        self.give_up(UnknownModel(f"model {self.id} was deleted"))
        return self._writer.submit(self._delete, always=True)

    def give_up(self, reason: ServiceError) -> None:
        """End the solve that is under way, and refuse what waits, as nobody needs this model here any more."""
        self._leaving = reason
        self._under_way.end(Withdrawn(str(reason)))

    def stop(self) -> None:
        """Let the queue run empty, end the writer, write a snapshot if anything changed, and let go of the model."""
        self._writer.stop()
        self._memory.release()
        if self._deleted:
            return
        if self.state == "live" and self._around.source.health.store_up:
            if self._checkpoints.has_changes:
                self._checkpoints.save_quietly(self._state)
            with suppress(StoreError):  # another service then waits until the lease has run out
                self._journal.release()
        if self.state == "behind" and not self._is_broken:
            rescue(self._around.settings.data_dir, self.id, encoded(self.spec), self._snapshot())

    # The writer.

    def _begun(self, solve: Solve | None) -> Solve:
        """The solve that is under way now: within the service's own limit, whatever was asked."""
        self._under_way = solve = solve or Solve()
        solve.seconds = min(solve.seconds, self._around.settings.solve_seconds)
        if self._leaving is not None:
            raise self._leaving
        return solve

    def _counted(self, call: Callable[[], Reply]) -> Reply:
        count, task = self._metrics.updates, self.spec.task
        start = time.perf_counter()
        try:
            reply = call()
        except (SolverError, IdempotencyConflict, OutOfMemory):
            count.labels(task, "refused").inc()
            raise
        except NotSolved as error:
            count.labels(task, "timed-out" if isinstance(error, OutOfTime | TurnMissed) else "withdrawn").inc()
            raise self._leaving or error from error
        except Exception:
            count.labels(task, "failed").inc()
            raise
        count.labels(task, "replayed" if reply.replayed else "applied").inc()
        self._metrics.update_seconds.labels(task).observe(time.perf_counter() - start)
        crash.point("before-answer")
        return reply

    def _apply(self, update: Update, request: str | None, solve: Solve) -> Reply:
        self._check_open()
        digest = update.digest() if request is not None else b""
        if request is not None and (earlier := self._journal.recall(request, digest)) is not None:
            return Reply(earlier, replayed=True)
        check_update(self.spec, update)
        update = self._state.settled(update)
        command = self._state.window.plan(update, self._limits, time.time(), request)
        self._state.check_scale(command)
        with self._memory.growing(self._memory.after(self._state, command)):
            return self._execute(command, digest, solve)

    def _restore(self, version: int, request: str | None, solve: Solve) -> Reply:
        self._check_open()
        digest = digest_of_restore(version)
        if request is not None and (earlier := self._journal.recall(request, digest)) is not None:
            return Reply(earlier, replayed=True)
        self._journal.left.check(version)
        source, cache_mb = self._around.source, self._around.settings.cache_mb
        with self._around.turns.turn(solve), source.health.store_call("load"):
            found = state_at(source.store, self.spec, cache_mb, self.id, version)
        with self._memory.growing(self._memory.of(found)):
            return self._execute(Restoration(version, found.encode(), request, time.time()), digest, solve)

    def _swap(self, found: Retrained, request: str | None, solve: Solve) -> Reply:
        self._check_open()
        digest = digest_of_swap(found.job)
        if request is not None and (earlier := self._journal.recall(request, digest)) is not None:
            return Reply(earlier, replayed=True)
        with self._memory.growing(self._memory.size + found.size()):
            with self._around.turns.turn(solve):
                now, changed = found.brought_up_to(self._state)
            return self._execute(Retraining(found.job, now, request, time.time(), changed), digest, solve)

    def _execute(self, entry: Entry, digest: bytes, solve: Solve) -> Reply:
        """Log, then apply, then publish; all or nothing."""
        request = entry.request
        self._around.turns.check_open()
        solve.check()
        crash.point("before-log")
        stage("log")
        record = entry.encode()
        named = None if request is None else Idempotency(request, digest)
        durability = self._journal.append_next(self._state, record, named)
        crash.point("after-log")
        outcome = self._solve(entry, solve)
        crash.point("before-publish")
        stage("publish")
        self.published = Published.of(self._state)
        self._checkpoints.note_change(outcome.seconds, len(record))
        told = entry.told(outcome)
        self.recent.note_update(self._state.version, self._state.updated_at, outcome, told)
        changed(**told, model=self.id, version=self._state.version, durability=durability.value)
        answer = entry.answer(self._state.version, outcome, durability)
        if request is not None:
            self._journal.owe(lambda: self._journal.remember(request, answer))
            with suppress(StoreError):  # it is in the log; the store is told before the next command
                self._journal.settle()
        self._checkpoints.keep_solution(self._state, record, outcome.seconds)
        return Reply(answer)

    def _solve(self, entry: Entry, solve: Solve) -> Outcome:
        """Follow the path; on failure take the record back, with the model as it was."""
        sequence = self._state.sequence + 1
        try:
            stage("turn")
            with self._around.turns.turn(solve):
                stage("solve")
                outcome = entry.apply(self._state)
        except (SolverError, NotSolved):
            self._state.skip()
            self._journal.owe(lambda: self._journal.abort(sequence))
            self._journal.settle()
            raise
        except Exception:
            log.exception("model %s: an update failed in an unforeseen way; the model is rebuilt", self.id)
            self._is_broken = True
            self._journal.owe(lambda: self._journal.abort(sequence))
            self._journal.owe(self._rebuild)
            try:
                self._journal.settle()
            except Exception as error:
                log.warning("model %s: it is rebuilt before its next command: %s", self.id, error)
            raise
        self._metrics.solve_seconds.labels(self.spec.task).observe(outcome.seconds)
        self._metrics.update_events.labels(self.spec.task).observe(outcome.events)
        return outcome

    def _rebuild(self) -> None:
        self._under_way = Solve()
        self._recover(Patience.short(self._under_way))
        self.published = Published.of(self._state)
        self._is_broken = False

    def _erase(self, keys: list[Key], asked_by: str | None, solve: Solve) -> Erased:
        self._check_open()
        intent = erasing.begin(self._journal, self._state, keys, asked_by)
        try:
            return self._forget(intent, solve)
        except (SolverError, NotSolved):  # nothing was changed, and nothing is to be later
            self._journal.delete_document(intent.at_store)
            raise

    def _finish_erasing(self, but: str) -> list[Erased]:
        self._check_open()
        begun = [intent for intent in self._journal.begun() if intent.id != but]
        return [self._forget(intent, self._begun(Solve())) for intent in begun]

    def _forget(self, intent: Intent, solve: Solve) -> Erased:
        """Solve without, then have that stand for all that was stored; until then readers see what was before."""
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            outcome, certificate = erasing.solve(self._state, intent)
        crash.point("erase-solved")
        stage("log")
        try:
            size, requests = erasing.write(self._journal, self._state, intent, self._around.settings.idempotency_keep)
        except BaseException:
            self._is_broken = True
            self._journal.owe(self._rebuild)
            raise
        self.published = Published.of(self._state)
        self._checkpoints.saved(self._state, size)
        counts = {"asked": len(intent.keys), "removed": intent.found, "requests": requests}
        changed("erase", self.id, version=self._state.version, **counts)
        if outcome is not None:
            self._metrics.solve_seconds.labels(self.spec.task).observe(outcome.seconds)
        return Erased(intent, self._state.version, requests, certificate)

    def _prepare(self) -> None:
        with suppress(ServiceError), self._around.turns.turn(self._begun(Solve())):
            self._state.prepare()

    def _certificate(self, solve: Solve) -> dict[str, Any]:
        try:
            self._check_open()
        except StoreError:  # what is in memory can be judged without the store
            if self._is_broken:
                raise
        if self._state.sizes.n_examples == 0:
            raise EmptyModel(f"model {self.id} knows no example yet")
        stage("turn")
        with self._around.turns.turn(solve):
            stage("solve")
            return self._state.certificate()

    def _examples(self, wanted: Wanted) -> Page:
        self._check_exists()
        if self._is_broken:
            self._journal.settle()
        return page_of(self._state, wanted)

    def _copy(self) -> ModelCopy:
        self._check_exists()
        if self._is_broken:
            self._journal.settle()
        if self._state.sizes.n_examples == 0 and task_of(self.spec).is_exact:
            raise EmptyModel(f"model {self.id} knows no example yet")
        return self._state.copy()

    def _checkpoint(self) -> dict[str, Any]:
        self._check_open()
        start = time.perf_counter()
        self._checkpoints.save(self._state)
        return {"version": self._state.version, "seconds": time.perf_counter() - start}

    def _snapshot(self) -> Snapshot:
        return self._state.sequence, self._state.encode(), self._state.version

    def _write_back(self) -> dict[str, Any]:
        self._check_exists()
        if self._is_broken:
            raise ModelUnavailable(f"model {self.id} cannot be written back: its newest update has left it broken")
        start, snapshot = time.perf_counter(), self._snapshot()
        written = write_back(self._journal, self.spec, snapshot)
        if written:
            self._checkpoints.saved(self._state, len(snapshot[1]))
            changed("writeback", self.id, version=self._state.version)
        return {"version": self._state.version, "written": written, "seconds": time.perf_counter() - start}

    def _delete(self) -> None:
        try:
            self._check_exists()
            with suppress(StoreBehind):  # then nothing is owed
                self._check_open()
            self._journal.delete()
        except BaseException:
            self._leaving = None
            raise
        self._deleted = True
        self._memory.release()
        self._checkpoints.forget()

    def _check_open(self) -> None:
        """Raise unless the model can take a command, after telling the store what it is owed."""
        self._check_exists()
        self._journal.check_writable()
        self._journal.settle()

    def _check_exists(self) -> None:
        if self._deleted:
            raise UnknownModel(f"model {self.id} was deleted")

    def _rest(self) -> None:
        """Between two commands: write a snapshot when it is time for one."""
        if not self._deleted and self._checkpoints.is_due(self._state.version):
            self._checkpoints.save_quietly(self._state)

    def _recover(self, patience: Patience) -> Recovered:
        around = self._around
        means = Means(around.settings.cache_mb, around.turns, patience)
        found = recover(around.source, self._journal.lease, self.spec, means)
        self._state = found.state
        self._memory.restored(found.state)
        self._journal.known = found.state.sequence
        with around.source.health.store_call("load"):
            self._journal.left = left(around.source.store, self.id)
        return found
