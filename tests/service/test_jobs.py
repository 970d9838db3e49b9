"""Jobs: every way they can go, and what is kept of them."""

from __future__ import annotations

import gc
import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from livesvm.service.api.problem_documents import problem_of_failure
from livesvm.service.errors import JobNotDone, NotApplicable, QueueFull, UnknownJob
from livesvm.service.hosting.handle import Description
from livesvm.service.hosting.model import HostedModel
from livesvm.service.jobs import log as job_log
from livesvm.service.jobs.files import JobFiles, JobRecord
from livesvm.service.jobs.kind import FOUND, Document, JobKind, Sharding, Workplace
from livesvm.service.jobs.kinds import KINDS
from livesvm.service.jobs.outlier_path import _check_share
from livesvm.service.jobs.plots import MOST_POINTS
from livesvm.service.jobs.queue import JobLimits, Jobs
from livesvm.service.jobs.retraining import Course
from livesvm.service.logs import calls
from livesvm.service.models.commands import Sizes
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.state import ModelCopy, ModelState
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.machine import give_back, resident_bytes
from livesvm.service.resources.memory import MEGABYTE, RESERVED, Budget
from livesvm.service.store import codec
from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import Cancelled, InvalidInput, NotOptimal
from livesvm.solvers.models.change import Change, Edits
from livesvm.solvers.runtime.progress import Progress
from tests.support.live_models import alive, batch, predicted
from tests.support.waiting import PATIENCE, until

GROWTH = 16 * MEGABYTE


class Work:
    """Kinds of jobs whose course a test decides."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.kinds = {
            "wait": JobKind(self.wait, copies=3),
            "fail": JobKind(self.fail),
            "break": JobKind(self.break_down),
            "grow": JobKind(self.grow),
            "train": JobKind(self.count, swaps=True),
            "show": JobKind(in_process=self.show, plot=lambda result, extension: str(result["n"]).encode()),
            "wait to train": JobKind(self.wait, swaps=True),
            "count": JobKind(
                self.count, apply=lambda result, choice: Change(edits=Edits(C=result["n"] * choice["by"]))
            ),
        }

    def show(self, asked: Document, model: ModelCopy, progress: Progress, place: Workplace) -> Document:
        place.show({"n": 1})
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return {"n": 2}

    def wait(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        for step in range(10**6):
            self.begun.set()
            if not progress(step, 10**6):
                raise Cancelled("as asked")
            if self.go.wait(0.01):
                break
        return {"asked": asked}

    def fail(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        raise NotOptimal("no optimum was reached")

    def break_down(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        raise RuntimeError("not for the caller to read")

    def grow(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        written: list[bytes] = []
        while progress(len(written), 10**6):
            written.append(b"x" * GROWTH)
        return {}

    def count(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        return {"n": len(model.arrays["keys"])}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[HostedModel]:
    with closing(SqliteStore(tmp_path / "store")) as store:
        model = alive(store, store.create("m", b""))
        model.update(batch(0), None).result()
        yield model
        model.stop()


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def jobs(tmp_path: Path, work: Work) -> Iterator[Jobs]:
    made = Jobs(JobFiles(tmp_path / "jobs"), JobLimits(1, 2, 3), Metrics(), work.kinds)
    yield made
    made.stop()


def finished(jobs: Jobs, id: str) -> JobRecord:
    until(lambda: jobs.get(id).is_finished)
    return jobs.get(id)


def reopened(tmp_path: Path) -> Jobs:
    """Return the jobs as a new process knows them."""
    return Jobs(JobFiles(tmp_path / "jobs"), JobLimits(1, 2, 3), Metrics(), {})


def test_a_job_that_writes_down_too_much_fails_and_the_next_one_runs(
    tmp_path: Path, live: HostedModel, work: Work
) -> None:
    """Nothing tells beforehand how long a path is; the process never takes more than its limit for one."""
    gc.collect()
    give_back()  # what tests before have left behind
    budget = Budget((resident_bytes() + 8 * GROWTH) / (1.0 - RESERVED))
    jobs = Jobs(JobFiles(tmp_path / "jobs"), JobLimits(1, 2, 3), Metrics(), work.kinds, budget)
    record = finished(jobs, jobs.submit("grow", live, {}).id)
    assert record.state == "failed"
    assert record.error is not None
    assert problem_of_failure(record.error)["type"] == "urn:livesvm:problem:out-of-memory"
    assert "are in use" in problem_of_failure(record.error)["detail"]
    assert 0 < record.done <= 16
    assert resident_bytes() < budget.limit
    assert finished(jobs, jobs.submit("count", live, {}).id).state == "done"
    assert set(budget.held().values()) == {0}
    jobs.stop()


def test_a_job_runs_to_its_end_and_is_kept(jobs: Jobs, live: HostedModel, work: Work, tmp_path: Path) -> None:
    record = jobs.submit("wait", live, {"by": 2})
    assert work.begun.wait(PATIENCE)
    until(lambda: jobs.get(record.id).done > 3)
    running = jobs.get(record.id)
    assert (running.state, running.total, running.version) == ("running", 10**6, 1)
    assert 0 < running.progress < 1
    with pytest.raises(JobNotDone):
        jobs.result(record.id)
    work.go.set()
    ended = finished(jobs, record.id)
    assert (ended.state, ended.progress, ended.error) == ("done", 1.0, None)
    assert jobs.result(record.id) == {"asked": {"by": 2}}
    assert jobs.counts() == {"queued": 0, "running": 0, "done": 1, "failed": 0, "cancelled": 0}
    again = reopened(tmp_path)
    assert again.get(record.id) == ended
    assert again.result(record.id) == {"asked": {"by": 2}}


def test_the_time_of_a_job_is_from_its_start_to_its_end(jobs: Jobs, live: HostedModel, work: Work) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    waiting = [jobs.submit(kind, live, {}).id for kind in ("count", "fail")]
    time.sleep(0.05)
    work.go.set()
    ended = [finished(jobs, id) for id in (running.id, *waiting)]
    for job in ended:
        assert job.started_at is not None
        assert job.finished_at is not None
        reported = jobs._metrics.registry.get_sample_value("livesvm_job_seconds_sum", {"kind": job.kind})
        assert reported == job.finished_at - job.started_at
        assert job.started_at >= job.created_at


def test_jobs_that_fail_say_why_and_no_more_than_the_caller_may_know(jobs: Jobs, live: HostedModel) -> None:
    failed = finished(jobs, jobs.submit("fail", live, {}).id)
    assert failed.error is not None
    assert failed.state == "failed"
    assert problem_of_failure(failed.error)["type"] == "urn:livesvm:problem:not-optimal"
    broken = finished(jobs, jobs.submit("break", live, {}).id)
    assert broken.error is not None
    assert problem_of_failure(broken.error)["type"] == "urn:livesvm:problem:internal"
    assert "not for the caller" not in str(broken.error)
    assert finished(jobs, jobs.submit("count", live, {}).id).state == "done"


def test_running_and_waiting_jobs_can_be_cancelled(jobs: Jobs, live: HostedModel, work: Work) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    waiting = jobs.submit("wait", live, {})
    assert jobs.get(waiting.id).state == "queued"
    assert jobs.cancel(waiting.id).state == "cancelled"
    jobs.cancel(running.id)
    assert finished(jobs, running.id).state == "cancelled"
    assert jobs.cancel(running.id).state == "cancelled"
    assert jobs.get(waiting.id).started_at is None
    with pytest.raises(UnknownJob):
        jobs.cancel("j-000000000000")


@contextmanager
def crowded(live: HostedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yield an update under way that does not end inside, and as many behind it as may wait."""
    begun, go = threading.Event(), threading.Event()
    apply = ModelState.apply

    def held(state: ModelState, command: Any) -> Any:
        begun.set()
        go.wait(PATIENCE)
        return apply(state, command)

    monkeypatch.setattr(ModelState, "apply", held)
    updates = [live.update(batch(1), None)]
    try:
        assert begun.wait(PATIENCE)
        updates += [live.update(batch(seed, 1), None) for seed in range(2, 66)]
        with pytest.raises(QueueFull):
            live.update(batch(66, 1), None)
        yield
    finally:
        go.set()
    for update in updates:
        update.result()


def test_a_job_waits_for_its_turn_behind_a_full_queue(
    jobs: Jobs, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crowded(live, monkeypatch):
        record = jobs.submit("count", live, {})
        until(lambda: jobs.get(record.id).state == "running")
        until(lambda: live.sample().queue_depth == 65)
    assert finished(jobs, record.id).state == "done"
    assert jobs.get(record.id).version == 66
    assert jobs.result(record.id) == {"n": 80}


def test_a_job_that_waits_for_its_turn_can_be_cancelled(
    jobs: Jobs, live: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crowded(live, monkeypatch):
        record = jobs.submit("count", live, {})
        until(lambda: live.sample().queue_depth == 65)
        jobs.cancel(record.id)
        assert finished(jobs, record.id).state == "cancelled"


def test_one_that_is_cancelled_asks_its_model_for_nothing_any_more(jobs: Jobs, live: HostedModel) -> None:
    copy = Future[Any]()
    subject: Any = SimpleNamespace(id="m", describe=live.describe, copy=lambda: copy)
    record = jobs.submit("count", subject, {})
    until(lambda: jobs.get(record.id).state == "running")
    jobs.cancel(record.id)
    assert finished(jobs, record.id).state == "cancelled"
    assert copy.cancelled()


def test_only_so_many_wait_and_only_so_many_are_kept(jobs: Jobs, live: HostedModel, work: Work, tmp_path: Path) -> None:
    first = jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    others = [jobs.submit("count", live, {}) for _ in range(2)]
    with pytest.raises(QueueFull):
        jobs.submit("count", live, {})
    work.go.set()
    for record in (first, *others):
        finished(jobs, record.id)
    for _ in range(4):
        finished(jobs, jobs.submit("count", live, {}).id)
    finished(jobs, jobs.submit("count", live, {}).id)
    assert len(jobs.all()) == 4  # three that had ended, and the newest
    assert len(list((tmp_path / "jobs").glob("*.job.json"))) == 4
    assert len(list((tmp_path / "jobs").glob("*.result.json"))) == 4
    with pytest.raises(UnknownJob):
        jobs.get(first.id)


def test_one_key_has_half_of_the_jobs_that_may_wait(jobs: Jobs, live: HostedModel, work: Work) -> None:
    def submit(key: str) -> JobRecord:
        calls.begin(calls.Call("1"))
        calls.known_as(key)
        return jobs.submit("wait", live, {})

    first = copy_context().run(submit, "a")
    assert work.begun.wait(PATIENCE)
    waiting = [copy_context().run(submit, "a")]
    with pytest.raises(QueueFull, match="LIVESVM_JOBS_WAITING"):
        copy_context().run(submit, "a")
    waiting.append(copy_context().run(submit, "b"))
    work.go.set()
    for record in (first, *waiting):
        finished(jobs, record.id)


def test_what_an_orderly_stop_cuts_off_has_failed(jobs: Jobs, live: HostedModel, work: Work, tmp_path: Path) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    waiting = jobs.submit("count", live, {})
    jobs.stop()
    for id in (running.id, waiting.id):
        for known in (jobs, reopened(tmp_path)):
            record = known.get(id)
            assert record.error is not None
            assert (record.state, problem_of_failure(record.error)["type"]) == (
                "failed",
                "urn:livesvm:problem:interrupted",
            )


def test_what_a_crash_cut_off_has_failed_and_damaged_records_are_passed_over(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "jobs")
    files.save(JobRecord("j-00000000000a", "wait", "m", {}, 1.0, state="running", started_at=2.0))
    files.save(JobRecord("j-00000000000b", "wait", "m", {}, 0.5))
    (tmp_path / "jobs" / "j-00000000000c.job.json").write_text("{")
    known = reopened(tmp_path).all()
    assert [(record.id, record.state) for record in known] == [
        ("j-00000000000b", "failed"),
        ("j-00000000000a", "failed"),
    ]
    assert all(record.error and problem_of_failure(record.error)["type"].endswith(":interrupted") for record in known)


def test_a_job_goes_with_its_model(jobs: Jobs, live: HostedModel, work: Work, tmp_path: Path) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    jobs.submit("count", live, {})
    jobs.forget("other")
    assert len(jobs.all()) == 2
    jobs.forget("m")
    assert jobs.all() == []
    with pytest.raises(UnknownJob):
        jobs.get(running.id)
    assert finished(jobs, jobs.submit("count", live, {}).id).state == "done"  # as the one that ran has stopped
    jobs.forget("m")
    jobs.stop()
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_disk_that_takes_nothing_takes_no_job(live: HostedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    jobs = Jobs(JobFiles(tmp_path / "file" / "jobs"), JobLimits(1, 1, 1), Metrics())
    with pytest.raises(StoreUnavailable):
        jobs.submit("assessment", live, {"method": "leave-one-out"})
    assert jobs.all() == []
    jobs.stop()


class NotingFiles(JobFiles):
    """Notes, whenever a record is written, what was visible of the job just before."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.jobs: Jobs | None = None
        self.noted: list[tuple[str, str]] = []

    def save(self, record: JobRecord) -> None:
        assert self.jobs is not None
        seen = {known.id: known.state for known in self.jobs.all()}.get(record.id, "unknown")
        if record.state == "done":
            assert self.result(record.id)
        self.noted.append((record.state, seen))
        super().save(record)


@pytest.mark.parametrize(
    ("kind", "last"), [("count", "done"), ("fail", "failed"), ("break", "failed"), ("wait", "cancelled")]
)
def test_what_is_said_of_a_job_is_on_the_disk_by_then(
    kind: str, last: str, live: HostedModel, work: Work, tmp_path: Path
) -> None:
    files = NotingFiles(tmp_path / "jobs")
    files.jobs = jobs = Jobs(files, JobLimits(1, 2, 3), Metrics(), work.kinds)
    record = jobs.submit(kind, live, {})
    if kind == "wait":
        assert work.begun.wait(PATIENCE)
        jobs.cancel(record.id)
    ended = finished(jobs, record.id)
    assert files.noted == [("queued", "unknown"), ("running", "running"), (last, "running")]
    assert reopened(tmp_path).get(record.id) == ended
    jobs.stop()


def test_a_job_that_never_ran_is_cancelled_on_the_disk_first(live: HostedModel, work: Work, tmp_path: Path) -> None:
    files = NotingFiles(tmp_path / "jobs")
    files.jobs = jobs = Jobs(files, JobLimits(1, 2, 3), Metrics(), work.kinds)
    jobs.submit("wait", live, {})
    assert work.begun.wait(PATIENCE)
    waiting = jobs.submit("count", live, {})
    files.noted.clear()
    jobs.cancel(waiting.id)
    assert files.noted == [("cancelled", "queued")]
    jobs.stop()


def test_a_record_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []

    def note(number: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(number).st_mode), (tmp_path / "j-00000000000a.job.json").exists()))

    monkeypatch.setattr("os.fsync", note)
    JobFiles(tmp_path).save(JobRecord("j-00000000000a", "count", "m", {}, 1.0))
    assert synced == [(False, False), (True, True)]


def test_a_record_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a record is written the one before is there, and a crash in the middle leaves it."""
    files, first = JobFiles(tmp_path), JobRecord("j-00000000000a", "count", "m", {}, 1.0)
    files.save(first)

    def crash(number: int) -> None:
        assert files.load() == [first]
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(StoreUnavailable):
        files.save(JobRecord("j-00000000000a", "count", "m", {}, 1.0, state="done"))
    assert files.load() == [first]


def test_a_result_is_applied_as_an_update_where_its_kind_allows_that(jobs: Jobs, live: HostedModel, work: Work) -> None:
    record = jobs.submit("count", live, {})
    finished(jobs, record.id)
    model, update = jobs.update_of(record.id, {"by": 2})
    assert (model, update) == ("m", Change(edits=Edits(C=16.0)))
    assert isinstance(update, Change)
    live.update(update, None).result()
    assert live.published.C == 16.0
    waiting = jobs.submit("wait", live, {})
    with pytest.raises(NotApplicable):
        jobs.update_of(waiting.id, {})


def test_a_retraining_is_applied_with_the_version_that_it_worked_on(jobs: Jobs, live: HostedModel, work: Work) -> None:
    live.update(batch(1), None).result()
    record = jobs.submit("train", live, {})
    finished(jobs, record.id)
    model, found = jobs.update_of(record.id, {})
    assert isinstance(found, Retrained)
    assert (model, found.job, found.version) == ("m", record.id, 2)
    waiting = jobs.submit("wait to train", live, {})
    with pytest.raises(JobNotDone):
        jobs.update_of(waiting.id, {})
    with pytest.raises(InvalidInput):
        jobs.update_of(record.id, {"by": 2})


def test_a_plot_is_of_what_there_is_so_far_and_then_of_the_result(jobs: Jobs, live: HostedModel, work: Work) -> None:
    record = jobs.submit("show", live, {})
    assert work.begun.wait(PATIENCE)
    assert jobs.plot(record.id, "svg") == b"1"
    work.go.set()
    finished(jobs, record.id)
    assert jobs.plot(record.id, "svg") == b"2"


def test_the_course_of_a_training_is_bounded_and_begins_again_with_the_next_one() -> None:
    course, n = Course("fw"), 3 * MOST_POINTS
    for second in range(n):
        course.add(second, 1.0 / (second + 1))
    seconds, gaps = (course.document()["history"][name] for name in ("seconds", "relative_gap"))
    assert len(seconds) <= MOST_POINTS
    assert (seconds[0], seconds[-1], gaps[-1]) == (0, n - 1, 1.0 / n)
    course.add(0.5, 1.0)
    assert course.document() == {"solver": "fw", "history": {"seconds": (0.5,), "relative_gap": (1.0,)}}


def test_the_memory_of_a_retraining_is_that_of_its_copies() -> None:
    classes = dict.fromkeys("abcd", 25)
    now = Description("live", sizes=Sizes(100), row_bytes=80.0, memory=10**6, cache_mb=16, counts=classes)
    data: Document = {"bytes": 1000, "n_examples": 50, "labels": ["a", "b", "c"]}
    needed = KINDS["retrain"].needed
    assert needed is not None
    for asked, size in (
        ({"solver": "batch"}, 2 * 10**6),
        ({"solver": "fw"}, 2 * 10**6 + 2 * 8000 + 16 * MEGABYTE),
        ({"solver": "blocks", "dataset": data}, 5 * 1000 + 16 * MEGABYTE),
        ({"solver": "blocks", "dataset": data, "shards": 2}, 1000 + 16 * MEGABYTE),
    ):
        assert needed(asked, now) == size


def test_a_job_works_with_what_updates_have_changed(live: HostedModel) -> None:
    live.update(Change(edits=Edits(C=0.05)), None).result()
    copied = live.copy().result()
    assert copied.estimator().C == live.published.C == 0.05
    probe = np.random.default_rng(3).normal(size=(9, 2))
    mine = copied.estimator().predictor().decision_function(probe)
    np.testing.assert_allclose(mine, predicted(live, probe).decision, rtol=0, atol=1e-9)


def test_a_job_that_computes_leaves_the_live_model_alone(live: HostedModel, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "other")) as store:
        jobs = Jobs(JobFiles(tmp_path / "jobs"), JobLimits(2, 4, 9), Metrics(), KINDS)
        before = predicted(live, np.eye(2)).decision
        record = jobs.submit("assessment", live, {"method": "leave-one-out"})
        ended = finished(jobs, record.id)
        assert (ended.state, ended.version) == ("done", 1)
        assert live.published.version == 1
        np.testing.assert_array_equal(predicted(live, np.eye(2)).decision, before)
        jobs.stop()
        assert store.models() == []


def test_an_erasure_ends_the_jobs_of_a_model_and_those_that_use_a_dataset(
    jobs: Jobs, live: HostedModel, work: Work, tmp_path: Path
) -> None:
    used, other = ({"dataset": {"name": "d", "directory": place}} for place in ("d-1", "d-2"))
    ended = finished(jobs, jobs.submit("count", live, used).id)
    stays = finished(jobs, jobs.submit("count", live, other).id)
    running = jobs.submit("wait", live, used)
    assert work.begun.wait(PATIENCE)
    assert jobs.erase("another", {"d-1"}) == 2
    assert [record.id for record in jobs.all()] == [stays.id]
    assert not [path for path in (tmp_path / "jobs").iterdir() if ended.id in path.name or running.id in path.name]
    assert jobs.erase("m") == 1
    assert jobs.all() == []


def test_results_that_name_examples_are_found(jobs: Jobs, live: HostedModel, tmp_path: Path) -> None:
    done, files = finished(jobs, jobs.submit("count", live, {}).id), JobFiles(tmp_path / "jobs")
    files.save_result(done.id, {"keys": ["a"], "n": 3, "curve": [{"key": [7, ["b"]]}]})
    assert jobs.naming("m", ["a", "b", "c", 7, 3]) == {"a", "b", 7}
    assert jobs.naming("another", ["a"]) == set()
    files.place(done.id).mkdir()
    (files.place(done.id) / FOUND).write_bytes(codec.encode({"arrays": {"keys": ["c", 4]}}))
    assert jobs.naming("m", ["c", "d"]) == {"c"}
    files.save_result(done.id, {})
    (files.place(done.id) / FOUND).write_bytes(b"rubbish")
    assert jobs.naming("m", ["c", "d"]) == {"c", "d"}  # what cannot be read may name any


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 1), (100, 1), (101, 2), (200, 2), (201, 3)])
def test_a_dataset_is_cut_into_as_few_shards_as_may_be(size: int, count: int) -> None:
    assert Sharding("", "", 100, 1.0).count(size) == count


@pytest.mark.parametrize(
    ("started", "ended", "stages"),
    [
        (12.0, 17.5, {"wait": 2.0, "run": 5.5}),
        (None, 13.0, {"wait": 3.0, "run": 0.0}),
        (9.0, 11.0, {"wait": 0.0, "run": 2.0}),
    ],
)
def test_the_log_says_how_long_a_job_waited_and_ran(
    started: float | None, ended: float, stages: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[tuple[int, dict[str, Any]]]()
    monkeypatch.setattr(job_log, "tell", lambda log, level, what, facts: lines.append((level, facts)))
    record = JobRecord("j", "count", "m", {}, 10.0, "done", 3, 4, 7, started, ended)
    failed = replace(record, state="failed", error={"names": ["NotOptimal", "SolverError"]})
    for one, asked in ((record, None), (failed, SimpleNamespace(id="r", key="boss"))):
        job_log.log_end(one, cast(Any, asked))
    (level, facts), (worse, others) = lines
    whole = {"job": "j", "kind": "count", "model": "m", "version": 7, "outcome": "done", "done": 3, "total": 4}
    assert (level, facts) == (logging.INFO, whole | {"stages": stages})
    more = {"outcome": "failed", "request": "r", "key": "boss", "problem": "NotOptimal"}
    assert (worse, others) == (logging.WARNING, whole | {"stages": stages} | more)


@pytest.mark.parametrize(
    ("share", "n", "is_enough"), [(0.5, 2, True), (0.9, 1, False), (0.1, 10, True), (0.1, 9, False)]
)
def test_examples_are_held_out_where_a_share_is_at_least_one(share: float, n: int, is_enough: bool) -> None:
    with nullcontext() if is_enough else pytest.raises(InvalidInput):
        _check_share(share, n)


@pytest.mark.parametrize("is_refused", [False, True])
def test_memory_of_what_a_job_was_given_is_given_back(
    is_refused: bool, live: HostedModel, work: Work, tmp_path: Path
) -> None:
    budget = Budget()
    jobs = Jobs(JobFiles(tmp_path / "jobs"), JobLimits(1, 1, 3), Metrics(), work.kinds, budget)
    given = {"validation": SimpleNamespace(memory=lambda: 1000)}
    with ExitStack() as ending:
        ending.callback(jobs.stop)
        jobs.submit("wait", live, {}, given)
        assert work.begun.wait(PATIENCE)
        if is_refused:
            jobs.submit("wait", live, {}, given)
            before = budget.held()["jobs"]
            with pytest.raises(QueueFull):
                jobs.submit("wait", live, {}, given)
            assert budget.held()["jobs"] == before
        copies = work.kinds["wait"].copies * live.describe().memory
        assert budget.held()["jobs"] == 1000 * (1 + is_refused) + copies
    assert budget.held()["jobs"] == 0


def test_a_job_whose_files_cannot_be_removed_is_not_called_erased(
    jobs: Jobs, live: HostedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = finished(jobs, jobs.submit("count", live, {}).id)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        for _ in range(2):  # it is known on, and so asked for again
            with pytest.raises(StoreUnavailable, match="cannot be removed"):
                jobs.erase("m")
    assert [record.id for record in jobs.all()] == [stays.id]
    assert jobs.erase("m") == 1
    assert not list((tmp_path / "jobs").iterdir())
