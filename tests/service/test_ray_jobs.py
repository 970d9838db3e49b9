"""Jobs at any front end of a Ray cluster: run at the one that was asked for them, known to all."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.access.keys import digest
from livesvm.service.jobs.kind import without_keys
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.jobs_over_rest import awaited, of_seconds
from tests.support.ray_cluster import RayCluster
from tests.support.updates_under_faults import learnt
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PATIENCE = 60.0
ADMIN, READER = "a secret of the admin", "a secret of who reads"
PATH = {"minimum": 0.1, "maximum": 10.0}

Two = tuple[ServiceProcess, ServiceProcess]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    directory = tmp_path_factory.mktemp("ray")
    keys = f"boss:admin:{digest(ADMIN)},guest:read:{digest(READER)}"
    with RayCluster(1) as cluster, RedisServer(directory / "redis") as server:
        common: dict[str, Any] = {"redis_url": server.url, "ray": cluster.address, "ray_actors": 1, "lease_seconds": 2}
        common |= {"api_keys": keys, "ray_seconds": PATIENCE}
        first, second = (ServiceProcess(directory / name, **common) for name in ("first", "second"))
        with first, second, client(first) as http:
            learnt(http, updates=1)
            yield first, second


def client(service: ServiceProcess, secret: str = ADMIN) -> httpx.Client:
    found = service.http(PATIENCE)
    found.headers["authorization"] = f"Bearer {secret}"
    return found


def of_path(http: httpx.Client) -> str:
    """Return a regularization path that a front end was asked for, and has done."""
    asked = http.post("/models/m/regularization-path", json=PATH)
    assert asked.status_code == 202, asked.text
    assert awaited(http, asked.json()["id"])["state"] == "done"
    return str(asked.headers["location"])


def seconds_of_path(http: httpx.Client) -> float:
    began = time.monotonic()
    of_path(http)
    return time.monotonic() - began


def test_results_are_seen_and_applied_anywhere_by_allowed_callers(services: Two) -> None:
    first, second = services
    with client(first) as http, client(second) as other, client(first, READER) as guest:
        job = of_path(other)
        whole = other.get(job).json()
        result, withheld = without_keys(whole["result"])
        assert http.get(job).json() == whole
        assert guest.get(job).json() == whole | {"result": result, "withheld": sorted(withheld)}
        assert guest.get(f"{job}/plot.svg").content == other.get(f"{job}/plot.svg").content
        head = guest.head(job)
        assert (head.status_code, head.content) == (200, b"")
        for refused in (guest.post(f"{job}/apply", json={"choice": {"C": 1.0}}), guest.delete(job)):
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:livesvm:problem:forbidden")
        wrong = http.post(f"{job}/apply", json={"choice": {"C": "much"}})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "choice.C")
        before = http.get("/models/m").json()["version"]
        named = {"idempotency-key": "once"}
        done, again = (c.post(f"{job}/apply", json={"choice": {"C": 2.0}}, headers=named) for c in (http, other))
        assert (done.status_code, done.json()["version"]) == (200, before + 1), done.text
        assert (again.json(), again.headers["idempotent-replayed"]) == (done.json(), "true")


def test_what_runs_is_cancelled_from_anywhere(services: Two) -> None:
    first, second = services
    with client(first) as http, client(second) as other:
        long = of_seconds(other, "large")
        until(lambda: http.get(long).json()["state"] == "running")
        with http.stream("GET", f"{long}/events") as events:
            assert http.delete(long).status_code == 200
            assert '"state":"cancelled"' in events.read().decode()
        http.delete("/models/large").raise_for_status()


def test_the_end_of_a_job_and_its_cancelling_do_not_meet(services: Two) -> None:
    """Ray ends a process that cancels a task of its as that ends."""
    rng = np.random.default_rng(3)
    with client(services[0]) as http:
        of_path(http)
        took = np.median([seconds_of_path(http) for _ in range(300)])
        reported = set()
        for _ in range(20):
            of_path(http)  # there is a worker then
            job = http.post("/models/m/regularization-path", json=PATH).headers["location"]
            time.sleep(rng.uniform(0.5, 1.5) * took)
            reported.add(http.delete(job).raise_for_status().json()["state"])
        assert "done" in reported
        of_path(http)


def test_jobs_under_way_at_a_front_end_that_is_away_are_not_told_and_what_ended_is(services: Two) -> None:
    first, second = services
    with client(first) as http, client(second) as other:
        job, long = of_path(other), of_seconds(other, "large")
        until(lambda: http.get(long).json()["state"] == "running")
        whole = other.get(job).json()
        second.signal(signal.SIGSTOP)
        try:
            until(lambda: http.get(long).status_code == 503)
            away = http.get(long)
            assert (away.json()["type"], away.headers["retry-after"]) == ("urn:livesvm:problem:job-elsewhere", "5")
            assert f"front end {job[-8:]}" in away.json()["detail"]
            listed = http.get("/jobs").json()
            assert listed["unanswered"] == [job[-8:]]
            ids = [f"/jobs/{found['id']}" for found in listed["jobs"]]
            assert (job in ids, long in ids) == (True, False)
            assert http.get(job).json() == whole
        finally:
            second.signal(signal.SIGCONT)
        until(lambda: http.get(long).status_code == 200)
    assert second.stop() == 0
    with client(first) as http:
        assert http.get(job).json() == whole
        assert http.delete(job).status_code == 200
        assert http.get(job).status_code == 404
        second.start()
        until(lambda: http.get(long).json().get("state") == "failed")
        until(lambda: not list((second.data_dir / "jobs").glob(f"{job.rpartition('/')[2]}.*")))
