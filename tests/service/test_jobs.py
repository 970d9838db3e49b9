"""Jobs: every way they can go, what is kept of them, and the exact assessment of a live window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from service.client import Client, ServiceProblem
from service.commands import Edits, Update
from service.errors import JobNotDone, NotApplicable, QueueFull, UnknownJob
from service.job_files import JobFiles, JobRecord
from service.job_kinds import KINDS, Document, JobKind
from service.jobs import JobLimits, Jobs
from service.live import LiveModel
from service.metrics import Metrics
from service.model import ModelCopy, ModelState
from service.store.base import StoreUnavailable
from service.store.sqlite import SqliteStore
from solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from solvers.assessment import Progress
from solvers.errors import Cancelled, NotOptimal
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs
from tests.service.test_live import alive, batch

SECONDS = 30.0


class Work:
    """Kinds of jobs whose course a test decides."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.kinds = {
            "wait": JobKind(self.wait),
            "fail": JobKind(self.fail),
            "break": JobKind(self.break_down),
            "count": JobKind(
                self.count, apply=lambda result, choice: Update(edits=Edits(C=result["n"] * choice["by"]))
            ),
        }

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

    def count(self, asked: Document, model: ModelCopy, progress: Progress) -> Document:
        return {"n": len(model.arrays["keys"])}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveModel]:
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


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def finished(jobs: Jobs, id: str) -> JobRecord:
    until(lambda: jobs.get(id).is_finished)
    return jobs.get(id)


def reopened(tmp_path: Path) -> Jobs:
    """The jobs as a new process knows them."""
    return Jobs(JobFiles(tmp_path / "jobs"), JobLimits(1, 2, 3), Metrics(), {})


def test_a_job_runs_to_its_end_and_is_kept(jobs: Jobs, live: LiveModel, work: Work, tmp_path: Path) -> None:
    record = jobs.submit("wait", live, {"by": 2})
    assert work.begun.wait(SECONDS)
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


def test_jobs_that_fail_say_why_and_no_more_than_the_caller_may_know(jobs: Jobs, live: LiveModel) -> None:
    failed = finished(jobs, jobs.submit("fail", live, {}).id)
    assert failed.error is not None
    assert failed.state == "failed"
    assert failed.error["type"] == "urn:livesvm:problem:not-optimal"
    broken = finished(jobs, jobs.submit("break", live, {}).id)
    assert broken.error is not None
    assert broken.error["type"] == "urn:livesvm:problem:internal"
    assert "not for the caller" not in str(broken.error)
    assert finished(jobs, jobs.submit("count", live, {}).id).state == "done"


def test_running_and_waiting_jobs_can_be_cancelled(jobs: Jobs, live: LiveModel, work: Work) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(SECONDS)
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
def crowded(live: LiveModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An update under way that does not end inside, and as many behind it as may wait."""
    begun, go = threading.Event(), threading.Event()
    apply = ModelState.apply

    def held(state: ModelState, command: Any) -> Any:
        begun.set()
        go.wait(SECONDS)
        return apply(state, command)

    monkeypatch.setattr(ModelState, "apply", held)
    updates = [live.update(batch(1), None)]
    try:
        assert begun.wait(SECONDS)
        updates += [live.update(batch(seed, 1), None) for seed in range(2, 66)]
        with pytest.raises(QueueFull):
            live.update(batch(66, 1), None)
        yield
    finally:
        go.set()
    for update in updates:
        update.result()


def test_a_job_waits_for_its_turn_behind_a_full_queue(
    jobs: Jobs, live: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crowded(live, monkeypatch):
        record = jobs.submit("count", live, {})
        until(lambda: jobs.get(record.id).state == "running")
        until(lambda: live.sample().queue_depth == 65)
    assert finished(jobs, record.id).state == "done"
    assert jobs.get(record.id).version == 66
    assert jobs.result(record.id) == {"n": 80}


def test_a_job_that_waits_for_its_turn_can_be_cancelled(
    jobs: Jobs, live: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crowded(live, monkeypatch):
        record = jobs.submit("count", live, {})
        until(lambda: live.sample().queue_depth == 65)
        jobs.cancel(record.id)
        assert finished(jobs, record.id).state == "cancelled"


def test_only_so_many_wait_and_only_so_many_are_kept(jobs: Jobs, live: LiveModel, work: Work, tmp_path: Path) -> None:
    first = jobs.submit("wait", live, {})
    assert work.begun.wait(SECONDS)
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


def test_what_an_orderly_stop_cuts_off_has_failed(jobs: Jobs, live: LiveModel, work: Work, tmp_path: Path) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(SECONDS)
    waiting = jobs.submit("count", live, {})
    jobs.stop()
    for id in (running.id, waiting.id):
        for known in (jobs, reopened(tmp_path)):
            record = known.get(id)
            assert record.error is not None
            assert (record.state, record.error["type"]) == ("failed", "urn:livesvm:problem:interrupted")


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
    assert all(record.error and record.error["type"].endswith(":interrupted") for record in known)


def test_a_job_goes_with_its_model(jobs: Jobs, live: LiveModel, work: Work, tmp_path: Path) -> None:
    running = jobs.submit("wait", live, {})
    assert work.begun.wait(SECONDS)
    jobs.submit("count", live, {})
    jobs.forget("other")
    assert len(jobs.all()) == 2
    jobs.forget("m")
    assert jobs.all() == []
    with pytest.raises(UnknownJob):
        jobs.get(running.id)
    jobs.stop()
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_disk_that_takes_nothing_takes_no_job(live: LiveModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    jobs = Jobs(JobFiles(tmp_path / "file" / "jobs"), JobLimits(1, 1, 1), Metrics())
    with pytest.raises(StoreUnavailable):
        jobs.submit("assessment", live, {"method": "leave-one-out"})
    assert jobs.all() == []
    jobs.stop()


def test_a_result_is_applied_as_an_update_where_its_kind_allows_that(jobs: Jobs, live: LiveModel, work: Work) -> None:
    record = jobs.submit("count", live, {})
    finished(jobs, record.id)
    model, update = jobs.update_of(record.id, {"by": 2})
    assert (model, update) == ("m", Update(edits=Edits(C=16.0)))
    live.update(update, None).result()
    assert live.published.C == 16.0
    waiting = jobs.submit("wait", live, {})
    with pytest.raises(NotApplicable):
        jobs.update_of(waiting.id, {})


def test_a_job_that_computes_leaves_the_live_model_alone(live: LiveModel, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "other")) as store:
        jobs = Jobs(JobFiles(tmp_path / "jobs"), JobLimits(2, 4, 9), Metrics(), KINDS)
        before = live.predict(np.eye(2)).decision
        record = jobs.submit("assessment", live, {"method": "leave-one-out"})
        ended = finished(jobs, record.id)
        assert (ended.state, ended.version) == ("done", 1)
        assert live.published.version == 1
        np.testing.assert_array_equal(live.predict(np.eye(2)).decision, before)
        jobs.stop()
        assert store.models() == []


# Over REST.


def awaited(http: httpx.Client, job: str) -> dict[str, Any]:
    end = time.monotonic() + SECONDS
    while (found := http.get(f"/jobs/{job}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.01)
    return dict(found)


LEARNERS: dict[str, tuple[dict[str, Any], Any]] = {
    "svc": ({"task": "svc", "C": 3.0}, IncrementalSVC(C=3.0, gamma=0.4, classes=(-1, 1))),
    "svr": ({"task": "svr", "C": 3.0, "epsilon": 0.2}, IncrementalSVR(C=3.0, epsilon=0.2, gamma=0.4)),
    "oneclass": ({"task": "oneclass", "nu": 0.3}, IncrementalOneClassSVM(nu=0.3, gamma=0.4)),
}


@pytest.mark.parametrize("task", LEARNERS)
@pytest.mark.parametrize("folds", [None, 4])
def test_an_assessment_is_that_of_models_trained_without(
    task: str, folds: int | None, http: httpx.Client, make: Make
) -> None:
    spec, learner = LEARNERS[task]
    model = make(kernel={"name": "rbf", "gamma": 0.4}, **spec)
    X, labels = (np.array(part, dtype=float) for part in blobs(np.random.default_rng(9), 24))
    y = {"svc": labels, "svr": X[:, 0] ** 2, "oneclass": None}[task]
    add = {"X": X.tolist(), "keys": [f"k{i}" for i in range(24)]} | ({} if y is None else {"y": y.tolist()})
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    body = {"method": "leave-one-out"} if folds is None else {"method": "k-fold", "folds": folds}
    asked = http.post(f"/models/{model}/assessment", json=body)
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    assert asked.headers["location"] == f"/jobs/{asked.json()['id']}"
    job = awaited(http, asked.json()["id"])
    assert (job["state"], job["progress"], job["kind"], job["model"], job["version"]) == (
        ("done", 1.0, "assessment", model, 1)
    )
    result = job["result"]
    assert (result["keys"], result["n_examples"]) == (add["keys"], 24)
    parts = [[i] for i in range(24)] if folds is None else np.split(np.arange(24), folds)
    for out in parts:
        stay = np.setdiff1d(np.arange(24), out)
        retrained = learner.fit(X[stay], None if y is None else y[stay])
        wanted = retrained.predictor().decision_function(X[out])
        np.testing.assert_allclose(np.array(result["decisions"])[out], wanted, rtol=0, atol=1e-6)
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_what_no_job_can_be_made_of(http: httpx.Client, make: Make) -> None:
    model = make()
    url = f"/models/{model}/assessment"
    empty = http.post(url, json={"method": "leave-one-out"})
    assert (empty.status_code, empty.json()["type"]) == (409, "urn:livesvm:problem:empty-model")
    http.post(f"/models/{model}/update", json={"add": {"X": [[1.0]], "y": [1]}}).raise_for_status()
    one = http.post(url, json={"method": "leave-one-out"})
    assert (one.status_code, one.json()["field"]) == (422, "folds")
    http.post(f"/models/{model}/update", json={"add": {"X": [[0.0]], "y": [-1]}}).raise_for_status()
    for body, field in (
        ({"method": "bootstrap"}, "method"),
        ({}, "method"),
        ({"method": "k-fold", "folds": 1}, "folds"),
        ({"method": "k-fold", "folds": 3}, "folds"),
        ({"method": "k-fold"}, "folds"),
        ({"method": "leave-one-out", "folds": 2}, "folds"),
    ):
        answer = http.post(url, json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert http.post("/models/nobody/assessment", json={"method": "leave-one-out"}).status_code == 404


@pytest.mark.parametrize("job", ["j-000000000000", "nothing", "..%2F..%2Fmodels", "j-00000000000g"])
def test_a_job_that_does_not_exist(job: str, http: httpx.Client) -> None:
    answers = [
        http.get(f"/jobs/{job}"),
        http.get(f"/jobs/{job}/events"),
        http.delete(f"/jobs/{job}"),
        http.post(f"/jobs/{job}/apply", json={}),
    ]
    assert {answer.status_code for answer in answers} == {404}


def test_an_assessment_cannot_be_applied_and_is_listed_without_its_result(http: httpx.Client, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(9), 10)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    job = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 2}).json()["id"]
    awaited(http, job)
    refused = http.post(f"/jobs/{job}/apply", json={})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:livesvm:problem:not-applicable")
    listed = [found for found in http.get("/jobs").json()["jobs"] if found["id"] == job]
    assert [found["state"] for found in listed] == ["done"]
    assert "result" not in listed[0]
    assert http.delete(f"/jobs/{job}").json()["state"] == "done"
    text = http.get("/metrics").text
    assert 'livesvm_jobs{state="running"} 0.0' in text
    assert 'livesvm_job_seconds_count{kind="assessment"}' in text
    http.delete(f"/models/{model}").raise_for_status()
    assert http.get(f"/jobs/{job}").status_code == 404


def test_jobs_after_a_kill(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path)
    with process, Client(process.url) as client:
        client.create_model("m")
        client.update("m", *blobs(np.random.default_rng(9), 2000))
        done = client.wait(client.assess("m", folds=2)["id"])
        cut = [client.assess("m")["id"] for _ in range(4)]
        given_up = client.assess("m")["id"]
        assert client.cancel(given_up)["state"] == "cancelled"
        process.kill()
    with process, Client(process.url) as client:
        assert client.job(done["id"]) == done
        assert client.job(given_up)["state"] == "cancelled"
        for id in cut[1:]:
            found = client.job(id)
            assert (found["state"], found["error"]["type"]) == ("failed", "urn:livesvm:problem:interrupted")
        with pytest.raises(ServiceProblem, match="under way"):
            client.wait(cut[-1])
        assert client.wait(client.assess("m", folds=2)["id"])["state"] == "done"
        assert client.cancel(cut[-1])["state"] == "failed"


def test_a_running_job_is_cancelled_over_rest(http: httpx.Client, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(9), 2000)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    job = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 2000}).json()["id"]
    until(lambda: http.get(f"/jobs/{job}").json()["done"] > 0)
    http.delete(f"/jobs/{job}").raise_for_status()
    ended = awaited(http, job)
    assert (ended["state"], ended["total"]) == ("cancelled", 2000)
    assert 0 < ended["progress"] < 1
    assert "result" not in ended
