"""Jobs of two front ends on one store: what one tells, and what the other may ask of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from livesvm.service.errors import JobElsewhere, UnknownJob
from livesvm.service.hosting.model import HostedModel
from livesvm.service.jobs.files import JobFiles, JobRecord
from livesvm.service.jobs.other_front_ends import GONE_SECONDS, OtherJob, SharedJobs
from livesvm.service.jobs.queue import JobLimits, Jobs
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import DocumentName, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from tests.service.test_jobs import Work, finished
from tests.support.live_models import alive, batch
from tests.support.waiting import until

HERE, THERE = "here-front-end", "there-front-end"


@dataclass
class Fronts:
    """Front ends as one of them knows them; their files are below one directory."""

    holder: str
    place: Path
    away: set[str] = field(default_factory=set)

    def is_away(self, holder: str) -> bool:
        return holder in self.away

    def job_file(self, holder: str, name: str) -> bytes:
        return (self.place / holder / name).read_bytes()


@dataclass
class Two:
    """The jobs of two front ends."""

    store: SqliteStore
    place: Path
    live: HostedModel
    work: Work = field(default_factory=Work)
    fronts: dict[str, Fronts] = field(default_factory=dict)

    def jobs(self, holder: str) -> Jobs:
        self.fronts[holder] = fronts = Fronts(holder, self.place)
        shared = SharedJobs(self.store, Health(Metrics()), cast(Any, fronts))
        files = JobFiles(self.place / holder)
        return Jobs(files, JobLimits(1, 4, 3), Metrics(), self.work.kinds, shared=shared)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with closing(SqliteStore(tmp_path / "store")) as store:
        model = alive(store, store.create("m", b""))
        model.update(batch(0), None).result()
        yield Two(store, tmp_path, model)
        model.stop()


@pytest.fixture
def here(two: Two) -> Iterator[Jobs]:
    made = two.jobs(HERE)
    yield made
    made.stop()


@pytest.fixture
def there(two: Two) -> Iterator[Jobs]:
    made = two.jobs(THERE)
    yield made
    made.stop()


@contextmanager
def closing_jobs(jobs: Jobs) -> Iterator[Jobs]:
    yield jobs
    jobs.stop()


def listed(jobs: Jobs) -> tuple[list[str], list[str]]:
    """Return the ids of all jobs, and the front ends that are away."""
    records, away = jobs.everywhere()
    return [record.id for record in records], away


def test_a_job_is_known_everywhere_at_once_and_its_result_and_files_are_read_where_they_are(
    two: Two, here: Jobs, there: Jobs
) -> None:
    job = there.submit("count", two.live, {}).id
    assert here.find(job).kind == "count"
    assert finished(there, job).state == "done"
    until(lambda: here.find(job).is_finished)
    assert here.result(job) == there.result(job)
    assert here.update_of(job, {"by": 2}) == there.update_of(job, {"by": 2})
    trained = there.submit("train", two.live, {}).id
    finished(there, trained)
    until(lambda: here.find(trained).is_finished)
    file = two.place / THERE / f"{trained}.files" / "found"
    file.parent.mkdir()
    file.write_bytes(b"what it has found")
    model, found = here.update_of(trained, {})
    assert (model, found.carried().data) == ("m", b"what it has found")
    two.fronts[HERE].away.add(THERE)  # and its files are there
    assert here.result(job)["n"] == 8
    assert listed(here) == ([job, trained], [])
    assert listed(there) == ([job, trained], [])
    assert sum(here.counts().values()) == 0


def test_what_is_under_way_is_shown_and_cancelled_from_elsewhere(two: Two, here: Jobs, there: Jobs) -> None:
    job = there.submit("show", two.live, {}).id
    assert two.work.begun.wait(20)
    there.look()
    assert (here.find(job).state, here.plot(job, "svg")) == ("running", b"1")
    two.work.go.set()
    finished(there, job)
    two.work.go.clear()
    two.work.begun.clear()
    long = there.submit("wait", two.live, {}).id
    assert two.work.begun.wait(20)
    until(lambda: here.find(long).state == "running")
    assert here.remove(long).state == "running"
    there.look()
    assert finished(there, long).state == "cancelled"
    here.look()
    until(lambda: here.find(long).state == "cancelled")
    here.remove(long)
    for jobs in (here, there):
        with pytest.raises(UnknownJob):
            jobs.find(long)
    assert listed(here) == listed(there) == ([job], [])
    there.remove(job)
    assert listed(here) == ([], [])


def test_jobs_under_way_of_one_that_is_away_are_not_told_and_it_is_named(
    two: Two, here: Jobs, there: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = there.submit("wait", two.live, {}).id
    assert two.work.begun.wait(20)
    two.fronts[HERE].away.add(THERE)
    for ask in (here.find, here.remove, here.result):
        with pytest.raises(JobElsewhere, match=f"job {job} was asked for at front end {THERE[:8]}"):
            ask(job)
    assert listed(here) == ([], [THERE[:8]])
    there.stop()
    back = two.jobs(THERE)
    back.look()
    two.fronts[HERE].away.clear()
    here.look()
    assert here.find(job).state == "failed"
    two.fronts[HERE].away.add(THERE)
    now = here.find(job).created_at + GONE_SECONDS + 1
    monkeypatch.setattr("livesvm.service.jobs.other_front_ends.time.time", lambda: now)
    here.look()
    here.look()
    assert listed(here) == ([], [])
    back.look()  # it is there after all
    assert back.find(job).state == "failed"
    back.stop()


def test_a_job_that_others_cannot_be_told_of_is_refused_and_leaves_nothing(
    two: Two, here: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as away:
        away.setattr(two.store, "put_document", refuse)
        with pytest.raises(StoreUnavailable):
            here.submit("count", two.live, {})
    assert (here.all(), list((two.place / HERE).glob("*"))) == ([], [])
    other = f"j-000000000000-{HERE[:8]}"
    two.store.put_document(DocumentName("job", other), b"{}")
    here.look()  # which forgets what a crash has left
    assert two.store.documents("job") == []


def test_a_cancellation_that_comes_late_or_twice_deletes_nothing(two: Two, here: Jobs, there: Jobs) -> None:
    done = there.submit("count", two.live, {}).id
    until(lambda: there.find(done).is_finished)
    under_way = replace(here.find(done), state="running")  # as it was when it was asked to end
    cast(Any, here)._shared.end(OtherJob(under_way, THERE))
    there.look()
    assert there.find(done).state == here.find(done).state == "done"
    long = there.submit("wait", two.live, {}).id
    assert two.work.begun.wait(20)
    until(lambda: here.find(long).state == "running")
    here.remove(long)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: there.look(), range(8)))
    assert finished(there, long).state == "cancelled"
    until(lambda: here.find(long).state == "cancelled")
    assert there.result(done) == here.result(done)


@pytest.mark.parametrize("asked", ["cancel", "delete"])
def test_what_is_asked_of_a_job_is_forgotten_once_it_is_done(
    two: Two, here: Jobs, there: Jobs, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    job = there.submit("wait", two.live, {}).id
    assert two.work.begun.wait(20)
    if asked == "delete":
        two.work.go.set()
        finished(there, job)
    until(lambda: here.find(job).state == ("done" if asked == "delete" else "running"))
    here.remove(job)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as ending:
        ending.setattr(there, "cancel" if asked == "cancel" else "_forget", crash)
        with pytest.raises(KeyboardInterrupt):
            there.look()
    assert two.store.documents("job-end") == [DocumentName("job-end", job)]
    there.look()
    assert two.store.documents("job-end") == []
    if asked == "cancel":
        assert finished(there, job).state == "cancelled"
    else:
        assert there.all() == []


def test_what_is_asked_of_front_ends_that_never_return_is_forgotten_in_time(
    two: Two, here: Jobs, there: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = there.submit("count", two.live, {}).id
    until(lambda: here.find(job).is_finished)
    here.remove(job)
    here.look()
    assert two.store.documents() == [DocumentName("job-end", job)]
    now = time.time() + GONE_SECONDS + 1
    monkeypatch.setattr("livesvm.service.jobs.queue.time.time", lambda: now)
    here.look()
    assert two.store.documents() == []


def test_jobs_of_before_there_were_other_front_ends_are_listed_once_and_deleted_from_elsewhere(
    two: Two, there: Jobs
) -> None:
    records = [JobRecord(f"j-{number:012}", "count", "m", {}, float(number), "done") for number in range(2)]
    for record in records:
        JobFiles(two.place / HERE).save(record)
    with closing_jobs(two.jobs(HERE)) as here:
        here.look()
        here.look()
        there.look()
        assert listed(here) == listed(there) == ([record.id for record in records], [])
        there.remove(records[0].id)
        here.look()
        assert listed(here) == listed(there) == ([records[1].id], [])
    JobFiles(two.place / HERE).delete(records[1].id)  # and a crash came before others could be told
    with closing_jobs(two.jobs(HERE)) as here:
        here.look()
        assert listed(here) == ([], [])
        assert two.store.documents() == []
