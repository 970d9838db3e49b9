"""The queue of jobs, which are long work on private copies of live models; no job outlives the process.

A job copies its model when it begins to run, so that waiting jobs hold no copies; the live model is not disturbed. Jobs
of other front ends are known from the documents that those front ends publish in the store.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from livesvm.service.datasets.arrays import memory_of
from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.errors import (
    JobElsewhere,
    JobInterrupted,
    JobNotDone,
    NoPlot,
    NotApplicable,
    QueueFull,
    UnknownJob,
)
from livesvm.service.history.journal import Source
from livesvm.service.hosting.handle import Description, ModelHandle
from livesvm.service.jobs.failures import is_foreseen, recorded
from livesvm.service.jobs.files import STATES, Document, JobFiles, JobRecord, State
from livesvm.service.jobs.kind import FOUND, KEY_FIELDS, Examples, JobKind, Sharding, Subject, Workplace
from livesvm.service.jobs.kinds import ALL_KINDS
from livesvm.service.jobs.log import ENDED, happened, log_end
from livesvm.service.jobs.other_front_ends import CANCEL, DELETE, GONE_SECONDS, OtherJob, SharedJobs, short
from livesvm.service.jobs.plots import Extension
from livesvm.service.logs.calls import current, note
from livesvm.service.models.arrays import Key
from livesvm.service.models.fields import Request
from livesvm.service.models.learners import task_of
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.trained_on import TrainedOn
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.compiling import Compiling
from livesvm.service.resources.memory import Budget, check_grown, model_bytes
from livesvm.service.store import codec
from livesvm.service.store.base import StoreError, StoreUnavailable
from livesvm.service.webhooks.outbox import Outbox
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.runtime.interrupt import Interrupt, interruptible
from livesvm.solvers.runtime.progress import Progress

log = logging.getLogger(__name__)

Elsewhere = Callable[[str, Document, Any, Progress, int, Callable[[], None]], Document]
"""Does a job's work in another process: takes kind, request, copy, ``progress``, bytes of memory, and ``check``."""
LOOK_SECONDS = 0.1
"""Interval of checks whether a job that waits for its copy has been cancelled."""


class Wanted:
    """The flag that cancels a job; the code that works on the job checks it."""

    def __init__(self) -> None:
        self._interrupt: Interrupt | None = None
        self.call = current()
        self.key = None if self.call is None else self.call.key  #: of the caller
        self.is_over = False

    def end(self) -> None:
        """Cancel the job, and interrupt the solver that works on it."""
        self.is_over = True
        if self._interrupt is not None:
            self._interrupt.ask()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Make solvers that run in the block stop with Cancelled soon after :meth:`end`."""
        with interruptible(self.check) as self._interrupt:
            self.check()
            yield

    def check(self) -> None:
        """Raise Cancelled if :meth:`end` was called."""
        if self.is_over:
            raise Cancelled("the job was cancelled")


@dataclass(frozen=True)
class JobLimits:
    """How many jobs run at the same time, how many may wait, and how many finished jobs are kept."""

    running: int
    waiting: int
    kept: int


class Jobs:
    """The jobs of one service; its calls may wait for disk and store, except :meth:`get` and :meth:`all`.

    Invariant: records are never changed; they are replaced, which needs the lock, so that readers need no lock.
    """

    def __init__(
        self,
        files: JobFiles,
        limits: JobLimits,
        metrics: Metrics,
        kinds: Mapping[str, JobKind] = ALL_KINDS,
        budget: Budget | None = None,
        compiling: Compiling | None = None,
        datasets: Datasets | None = None,
        elsewhere: Elsewhere | None = None,
        sharding: Sharding | None = None,
        shared: SharedJobs | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        """Load earlier processes' jobs; unfinished jobs count as failed. ``shared`` has other front ends' jobs."""
        self._files = files
        self._limits = limits
        self._metrics = metrics
        self._kinds = kinds
        self._budget = budget or Budget()
        self._compiling = compiling or Compiling()
        self._datasets = datasets
        self._elsewhere, self._sharding = elsewhere, sharding
        self._shared, self._telling, self._looking = shared, threading.Lock(), threading.Lock()
        self._told: dict[str, tuple[JobRecord, Document | None]] = {}
        self._others: dict[str, OtherJob] = {}
        self._outbox = outbox or Outbox()
        self._lock = threading.RLock()
        self._stopping = False
        self._wanted: dict[str, Wanted] = {}
        self._under_way: dict[str, Future[None]] = {}
        self._shown: dict[str, Document] = {}
        self._copies: dict[str, Any] = {}
        self._carried: dict[str, Any] = {}  # of the newest finished job of each kind that carries, by job
        self._threads = ThreadPoolExecutor(limits.running, "job")
        self._records = {record.id: record for record in files.load()}
        for record in list(self._records.values()):
            if not record.is_finished:
                self._finish(record.id, "failed", JobInterrupted("the service ended while this job was under way"))

    def get(self, id: str) -> JobRecord:
        """Return a job of this front end, or of another one as the last :meth:`look` found it; raises UnknownJob."""
        found = self._records.get(id)
        if found is None and (other := self._others.get(id)) is not None:
            found = other.record
        if found is None:
            raise UnknownJob(f"there is no job {id[:64]!r}")
        return found

    def find(self, id: str) -> JobRecord:
        """Return the present record of a job of any front end; raises UnknownJob, JobElsewhere or StoreError."""
        if (other := self._other(id)) is not None:
            return other.record
        if self._shared is not None and self.get(id).is_finished:
            with suppress(StoreError):
                if not self._shared.is_known(id):
                    self.look()  # another front end has asked for its end
        return self.get(id)

    def _other(self, id: str) -> OtherJob | None:
        """Return a job of another front end, None for a job of this front end; raises the errors of :meth:`find`."""
        if self._shared is None or id in self._records:
            return None
        try:
            found = self._others[id] = self._shared.find(id)
        except UnknownJob:
            self._others.pop(id, None)
            raise
        return self._shared.check(found)

    def all(self) -> list[JobRecord]:
        """Return every job of this front end, oldest first."""
        return list(self._records.values())

    def everywhere(self) -> tuple[list[JobRecord], list[str]]:
        """Return all available jobs, oldest first, and the names of absent front ends that have unfinished jobs.

        Raises StoreError.
        """
        with suppress(StoreError):
            self.look()
        found, away = self.all(), set[str]()
        for other in list(self._others.values()):
            try:
                assert self._shared is not None
                found.append(self._shared.check(other).record)
            except JobElsewhere:
                away.add(short(other.holder))
        return sorted(found, key=lambda record: record.created_at), sorted(away)

    def look(self) -> None:
        """Read other front ends' jobs, publish this front end's jobs, and end those that others have asked to end.

        Raises StoreError.
        """
        if (shared := self._shared) is None:
            return
        with self._looking:
            self._look_at(shared)

    def _look_at(self, shared: SharedJobs) -> None:
        known, ends = shared.ids()
        own = {id for id in known | ends if id.endswith(shared.mark)} | self._records.keys()
        for id in ends:
            asked, at = shared.asked(id)
            if id in own:
                with self._lock, suppress(UnknownJob):
                    if asked == CANCEL:
                        self.cancel(id)
                    elif asked == DELETE and self.get(id).is_finished:
                        self._forget(id)
                        self._told.pop(id, None)
            if id in own or time.time() - at > GONE_SECONDS:
                shared.done(id)
        # Includes published jobs that this front end no longer has, which are then published as gone.
        for id in self._records.keys() | own & (known - ends):
            self._tell(id, again=id not in known)
        for id in self._others.keys() - known:
            self._others.pop(id, None)
        for id in known - own:
            if not (id in self._others and self._others[id].record.is_finished):
                with suppress(UnknownJob):
                    self._others[id] = shared.find(id)
        for id, other in list(self._others.items()):
            if shared.is_over(other):
                shared.forget(id)

    def _tell(self, id: str, *, again: bool = False) -> None:
        """Publish the present state of a job, or delete its documents if the job is gone; raises StoreError."""
        if self._shared is None:
            return
        with self._telling:
            record, shown = self._records.get(id), self._shown.get(id)
            if record is None:
                self._shared.forget(id)
                self._told.pop(id, None)
            elif again or self._told.get(id) != (record, shown):
                self._shared.tell(record, shown)
                self._told[id] = record, shown

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state."""
        found = Counter(record.state for record in self.all())
        return {state: found[state] for state in STATES}

    def result(self, id: str) -> Document:
        """Return the result of a job; raises UnknownJob, JobElsewhere, JobNotDone or StoreError."""
        record = self.find(id)
        if record.state != "done":
            raise JobNotDone(f"job {id} is {record.state}, and has no result")
        if (other := self._others.get(id)) is None:
            return self._files.result(id)
        assert self._shared is not None
        found: Document = json.loads(self._shared.file(other, self._files.result_path(id).name))
        return found

    def ask(self, kind: str, live: ModelHandle, request: Request) -> JobRecord:
        """Check a request for a job of a model, and queue the job; raises the errors of ``check`` and of ``submit``."""
        if self._kinds[kind].needs_exact and not task_of(live.spec).is_exact:
            raise NotApplicable(f"models of task {live.spec.task} have no {kind}: no update leads to an optimum")
        order = self._kinds[kind].check(request, live.spec, live.describe())
        if "dataset" in order.asked and self._datasets is not None:
            described = self._datasets.get(order.asked["dataset"])
            self._datasets.where(described)
            order.asked["dataset"], shards = _named(described), self._shards(order.asked, described)
            if shards > 1:
                order.asked["shards"] = shards
        return self.submit(kind, live, order.asked, order.given)

    def _shards(self, asked: Document, described: Document) -> int:
        """Return the number of shards into which a dataset is cut; raises InvalidInput."""
        wanted: int | None = asked.get("shards")
        if self._sharding is not None and asked.get("solver") == "blocks":  # the others search in one process
            found = self._sharding.count(memory_of(described)) if wanted is None else wanted
            return min(found, int(described["n_examples"]))
        if wanted is not None and wanted > 1:
            raise InvalidInput("are held by workers of a Ray cluster (LIVESVM_RAY); here is none", field="shards")
        return 1

    def submit(self, kind: str, live: Subject, asked: Document, given: dict[str, Any] | None = None) -> JobRecord:
        """Publish a job, and queue it; raises QueueFull, OutOfMemory or StoreError.

        ``given`` is data that came with the request; it is kept in memory until the job has ended.
        """
        given = dict(given or {})
        self._budget.check("jobs", self._needed(kind, live, asked, given))
        size = sum(examples.memory() for examples in given.values())
        self._budget.take("jobs", size)
        try:
            mark = "" if self._shared is None else self._shared.mark
            record = self._kept(JobRecord(f"j-{secrets.token_hex(6)}{mark}", kind, live.id, asked, time.time()))
            try:
                self._tell(record.id)
            except StoreError:
                with self._lock:
                    self._forget(record.id)
                    self._wanted.pop(record.id, None)
                raise
        except BaseException:
            self._budget.give("jobs", size)
            raise
        ended = self._threads.submit(copy_context().run, self._run, record.id, live, given)
        self._under_way[record.id] = ended
        ended.add_done_callback(lambda _: self._ended(record.id, given, size))
        return record

    def _tell_soon(self, id: str) -> None:
        """Publish the present state of a job; if the store cannot be reached, the next :meth:`look` publishes it."""
        with suppress(StoreError):
            self._tell(id)

    def _ended(self, id: str, given: dict[str, Any], size: int) -> None:
        self._under_way.pop(id, None)
        given.clear()  # a job that never runs stays in the pool's queue until its turn
        self._budget.give("jobs", size)

    def _kept(self, record: JobRecord) -> JobRecord:
        """Save a new job as waiting, and return it; raises QueueFull or StoreUnavailable."""
        with self._lock:
            waiting = [record.id for record in self._records.values() if record.state == "queued"]
            if self._stopping or len(waiting) >= self._limits.waiting:
                raise QueueFull(f"{len(waiting)} jobs wait already, LIVESVM_JOBS_WAITING is {self._limits.waiting}")
            wanted, most = Wanted(), max(1, self._limits.waiting // 2)
            if wanted.key is not None and sum(self._wanted[id_].key == wanted.key for id_ in waiting) >= most:
                raise QueueFull(f"{most} jobs of this key wait already; one may have half of LIVESVM_JOBS_WAITING")
            self._files.save(record)
            self._records[record.id] = record
            self._wanted[record.id] = wanted
            note(job=record.id)
            self._forget_oldest()
        return record

    def _needed(self, kind: str, live: Subject, asked: Document, given: dict[str, Any]) -> int:
        """Return the bytes that a job needs for copies of the model, or for models of its request's examples."""
        data = given.get("data")
        now = live.describe()
        needed = self._kinds[kind].needed
        if needed is not None:
            return needed(asked, now)
        one = now.memory if data is None else _of_data(data, now)
        return self._kinds[kind].copies * one

    def when_ended(self, id: str, call: Callable[[], None]) -> None:
        """Call a function in a job's thread when the job has ended, or immediately if it has ended already."""
        if (turn := self._under_way.get(id)) is None:
            call()
        else:
            turn.add_done_callback(lambda _: call())

    def remove(self, id: str) -> JobRecord:
        """Cancel a job that has not ended, or delete a job that has, with its result; return the job's record.

        If another front end has the job, this method only asks that front end to cancel or delete it. Raises
        UnknownJob, JobElsewhere or StoreError.
        """
        if (other := self._other(id)) is not None:
            assert self._shared is not None
            self._shared.end(other)
            return other.record
        with self._lock:
            record = self.get(id)
            if record.is_finished:
                self._forget(id)
            else:
                record = self.cancel(id)
        self._tell_soon(id)
        return record

    def cancel(self, id: str) -> JobRecord:
        """Cancel a job: if it waits, it never starts; if it runs, it stops at its next step."""
        with self._lock:
            record = self.get(id)
            if not record.is_finished:
                self._wanted[id].end()
            if record.state == "queued":
                self._finish(id, "cancelled")
                if (turn := self._under_way.get(id)) is not None:
                    turn.cancel()
            return self.get(id)

    def update_of(self, id: str, choice: Document) -> tuple[str, Any]:
        """Return a job's model and the update that applies the result.

        Raises NotApplicable, and the errors of :meth:`result`.
        """
        record = self.find(id)
        if self._kinds[record.kind].swaps:
            self.result(id)
            if choice:
                raise InvalidInput("there is nothing to choose of a retraining", field="choice")
            path, data = self._files.place(id) / FOUND, None
            if self._shared is not None and (other := self._others.get(id)) is not None:
                data = self._shared.file(other, f"{path.parent.name}/{FOUND}")
            return record.model, Retrained(id, path, data, version=record.version or 0)
        apply = self._kinds[record.kind].apply
        if apply is None:
            raise NotApplicable(f"the result of a job of kind {record.kind} cannot be applied to its model")
        return record.model, apply(self.result(id), choice)

    def plot(self, id: str, extension: Extension) -> bytes:
        """Return a picture of a job's result, or of its intermediate result while it runs.

        Raises NoPlot, and the errors of :meth:`result`.
        """
        kind = self.find(id).kind
        draw = self._kinds[kind].plot
        if draw is None:
            raise NoPlot(f"the result of a job of kind {kind} has no plot")
        other = self._others.get(id)
        shown = self._shown.get(id) if other is None else other.shown
        return draw(self.result(id) if shown is None else shown, extension)

    def forget(self, model: str) -> None:
        """Cancel and forget every job of a model."""
        with self._lock:
            mine = [record.id for record in self.all() if record.model == model]
            for id in mine:
                self.cancel(id)
                self._forget(id)
        for id in mine:
            self._tell_soon(id)

    def naming(self, model: str, keys: Collection[Key], tags: Collection[str] = ()) -> set[Key]:
        """Return which of the given keys and tags are in results of a model's jobs, or in copies that jobs use.

        If a result cannot be read, all given keys and tags are returned.
        """
        found: set[Key] = set()
        for record in self.all():
            if record.model == model and isinstance(copy := self._copies.get(record.id), ModelCopy):
                found |= _named_in(copy.arrays, keys, tags)
                found |= {tag for key, own in copy.window.tags.items() for tag in own if tag in tags}
            if record.model == model:
                found |= _keys_in(record.asked, keys)
            if record.model == model and record.state == "done":
                try:
                    found |= _keys_in(self.result(record.id), keys)
                    if (file := self._files.place(record.id) / FOUND).exists():
                        found |= _named_in(codec.decode(file.read_bytes())["arrays"], keys, tags)
                except UnknownJob:  # it has just been removed
                    continue
                except (StoreError, OSError):
                    return {*keys, *tags}
        return found

    def erase(self, model: str, directories: Container[str] = (), until: float = inf) -> int:
        """Delete a model's jobs, and all jobs that used a dataset in ``directories``; return the number of them.

        Jobs requested after ``until``, a Unix time, stay. When the call returns, no deleted job runs or has files.
        Raises StoreUnavailable if a file cannot be removed, and keeps the records of jobs with files.
        """
        with self._lock:
            then = [record for record in self.all() if record.created_at <= until]
            mine = [record for record in then if record.model == model or _uses(record, directories)]
            running = [record.id for record in mine if record.state == "running"]
            at_work = [self._under_way[id] for id in running if id in self._under_way]
            ended = [self.cancel(record.id) for record in mine]
            for record in mine:
                self._forget(record.id)
        # Without the lock, which the threads of these jobs take to end.
        wait(at_work)
        for record in ended:
            self._tell_soon(record.id)
            self._files.delete(record.id)
            if self._files.holds(record.id):
                self._records |= {each.id: each for each in ended if self._files.holds(each.id)}
                raise StoreUnavailable(f"the files of job {record.id} cannot be removed")
        return len(mine)

    def stop(self) -> None:
        """Stop the running jobs, which then count as failed, and end the threads."""
        with self._lock:
            self._stopping = True
            for wanted in self._wanted.values():
                wanted.end()
        self._threads.shutdown()

    # In a job's thread.

    def _run(self, id: str, live: Subject, given: dict[str, Any]) -> None:
        with self._lock:
            if self._records.get(id) is None or self._records[id].is_finished:
                return
            wanted = self._wanted[id]
            self._change(id, state="running", started_at=time.time())
        self._tell_soon(id)
        try:
            with wanted.heeded():
                self._work(id, live, given, wanted)
        except Cancelled:
            if self._stopping:
                self._finish(id, "failed", JobInterrupted("the service stopped while this job was under way"))
            else:
                self._finish(id, "cancelled")
        except Exception as error:
            if not is_foreseen(error):
                log.exception("job %s failed in an unforeseen way", id)
            self._finish(id, "failed", error)
        finally:
            self._copies.pop(id, None)
            self._tell_soon(id)

    def _work(self, id: str, live: Subject, given: dict[str, Any], wanted: Wanted) -> None:
        def progress(done: int, total: int) -> bool:
            """Record the progress, and return whether to go on; raises OutOfMemory if the process is too large."""
            self._change(id, done=done, total=total)
            check_grown(self._budget)
            return not wanted.is_over

        record = self.get(id)
        self._files.save(record)
        self._wait_for_solvers(id, record.kind, wanted)
        model = _copied(live, wanted)
        self._change(id, version=model.version)
        self._copies[id] = model
        needed, kind = self._needed(record.kind, live, record.asked, given), self._kinds[record.kind]
        last = next((id for id in reversed(self._carried) if self._is_alike(id, record)), "") if kind.carries else ""
        given = {**given, "before": self._carried.get(last)} if kind.carries else given
        with self._budget.holding("jobs", needed):
            if kind.in_process is not None:
                at, show = self._files.place(id), partial(self._show, id)
                place = Workplace(at, self._datasets, needed, wanted.check, self._sharding, show)
                result = kind.in_process(record.asked, model, progress, place)
            elif self._elsewhere is not None:
                asked = {**record.asked, **given}
                result = self._elsewhere(record.kind, asked, model, progress, needed, wanted.check)
            else:
                assert kind.run is not None
                result = kind.run({**record.asked, **given}, model, progress)
        carried = result.pop("carried", None) if kind.carries else None
        with self._lock:
            if id in self._records:
                self._files.save_result(id, result)
                if carried is not None:
                    self._carried.pop(last, None)
                    self._carried[id] = carried
                self._finish(id, "done")

    def _is_alike(self, id: str, record: JobRecord) -> bool:
        """Return whether a job is of the kind and of the model of ``record``."""
        other = self._records.get(id)
        return other is not None and (other.kind, other.model) == (record.kind, record.model)

    def _wait_for_solvers(self, id: str, kind: str, wanted: Wanted) -> None:
        """Wait until the solvers of a job are compiled; meanwhile its record says what it waits for."""
        needed = self._kinds[kind].family
        for family in (needed,) if isinstance(needed, str) else needed or ():
            if family in self._compiling.left():
                self._change(id, waits_for=f"the solvers of {family} to be compiled")
                self._compiling.wait_for(family, wanted.check)
                self._change(id, waits_for=None)

    def _change(self, id: str, **values: Any) -> None:
        with self._lock:
            if id in self._records:  # it may have been forgotten with its model
                self._records[id] = replace(self._records[id], **values)

    def _show(self, id: str, found: Document) -> None:
        with self._lock:
            if id in self._records:
                self._shown[id] = found

    def _finish(self, id: str, state: State, error: Exception | None = None) -> None:
        """Give a job its final state, and save it before it becomes visible.

        If the state cannot be saved, the job counts as interrupted after a restart.
        """
        with self._lock:
            wanted = self._wanted.pop(id, None)
            record = self._records.get(id)
            if record is None:
                return
            if state != "done":
                self._files.clear(id)
            reported = None if error is None else recorded(error)
            is_owed = bool(self._outbox.wants(ENDED, record.model))
            ended = replace(
                record, state=state, finished_at=time.time(), error=reported, waits_for=None, is_owed=is_owed
            )
            self._metrics.jobs_ended.labels(state).inc()
            if ended.started_at is not None and ended.finished_at is not None:
                self._metrics.job_seconds.labels(ended.kind).observe(max(0.0, ended.finished_at - ended.started_at))
            try:
                self._files.save(ended)
            except StoreError as failure:
                log.warning("the end of job %s could not be kept: %s", id, failure)
            self._records[id] = ended
            self._shown.pop(id, None)
            log_end(ended, None if wanted is None else wanted.call)
        if is_owed:
            self._outbox.rang.set()

    def announce(self, source: Source) -> None:
        """Put messages about ended jobs into the outbox, unless they are there already; raises StoreError."""
        for record in [one for one in self.all() if one.is_owed]:
            self._outbox.keep(source, self._outbox.messages([happened(record)]))
            with self._lock:
                self._change(record.id, is_owed=False)
                if record.id in self._records:
                    self._files.save(self._records[record.id])

    def _forget_oldest(self) -> None:
        finished = [record.id for record in self._records.values() if record.is_finished]
        for id in finished[: max(0, len(finished) - self._limits.kept)]:
            self._forget(id)

    def _forget(self, id: str) -> None:
        self._shown.pop(id, None)
        self._carried.pop(id, None)
        self._records.pop(id, None)
        self._files.delete(id)


def _copied(live: Subject, wanted: Wanted) -> Any:
    """Return a copy of the model when its writer has made it; raises Cancelled if the job is cancelled before."""
    copy = live.copy()
    while not wait([copy], LOOK_SECONDS).done:
        if wanted.is_over:
            copy.cancel()
        wanted.check()
    return copy.result()


def _keys_in(result: Any, keys: Collection[Key], field: str = "") -> set[Key]:
    """Return which of the given keys occur in those fields of a result that hold keys."""
    if isinstance(result, dict):
        return set[Key]().union(*(_keys_in(value, keys, name) for name, value in result.items()))
    if isinstance(result, list):
        return set[Key]().union(*(_keys_in(value, keys, field) for value in result))
    return {result} if field in KEY_FIELDS and type(result) in (int, str) and result in keys else set()


def _named_in(arrays: Document, keys: Collection[Key], tags: Collection[str]) -> set[Key]:
    """Return which of the given keys and tags a model's arrays name in its window or among its training examples."""
    found, training = set(keys).intersection(arrays["keys"]), TrainedOn.in_arrays(arrays)
    if training is None:
        return found
    found |= training.marks_among([*keys, *tags]).keys()
    for key, own in training.named():
        found |= ({key} & set(keys)) | (set(own) & set(tags))
    return found


def _uses(record: JobRecord, directories: Container[str]) -> bool:
    """Return whether a job uses a dataset in one of these directories."""
    dataset = record.asked.get("dataset")
    return isinstance(dataset, dict) and dataset.get("directory") in directories


def _named(described: Document) -> Document:
    """Return the part of a dataset's description that a job keeps; a dataset that is replaced gets a new directory."""
    names = ("name", "directory", "sha256", "bytes", "is_sparse", "n_examples", "n_features", "labels", "has_targets")
    return {name: described[name] for name in (*names, "n_encoded") if name in described}


def _of_data(data: Examples, model: Description) -> int:
    """Return the bytes of a model of these examples in the worst case, in which all are free support vectors."""
    n = len(data.features)
    return model_bytes(n, data.features.nbytes / n, n, model.cache_mb)
