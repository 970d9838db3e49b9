"""Datasets on a Ray cluster: known to all front ends wherever their files are, and retrained on over shards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.npz import npz
from tests.support.ray_cluster import RayCluster
from tests.support.waiting import PATIENCE, until

SHARD = b"ray::ShardActor"
pytestmark = pytest.mark.slow

Fronts = tuple[httpx.Client, httpx.Client]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, cluster: RayCluster) -> Iterator[list[ServiceProcess]]:
    directory = tmp_path_factory.mktemp("ray")
    with RedisServer(directory / "redis") as server:
        common: dict[str, Any] = {"redis_url": server.url, "ray": cluster.address, "ray_actors": 1, "lease_seconds": 2}
        with (
            ServiceProcess(directory / "first", **common) as first,
            ServiceProcess(directory / "second", **common) as other,
        ):
            yield [first, other]


@pytest.fixture
def http(services: list[ServiceProcess]) -> Iterator[Fronts]:
    with services[0].http(PATIENCE) as first, services[1].http(PATIENCE) as second:
        first.post("/models", json={"id": "m", "task": "l2svc", "C": 5.0}).raise_for_status()
        yield first, second
        first.delete("/models/m")


def awaited(http: httpx.Client, job: str) -> dict[str, Any]:
    until(lambda: http.get(f"/jobs/{job}").json()["state"] not in ("queued", "running"))
    return dict(http.get(f"/jobs/{job}").json())


def upload(http: httpx.Client, name: str, n: int = 3000) -> tuple[Any, Any]:
    """Return two classes that overlap."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 6))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=n) > 0, 1.0, -1.0)
    body = npz(X=X, y=y)
    http.put(f"/datasets/{name}", content=body, headers={"content-type": "application/x-npz"}).raise_for_status()
    return X, y


def retrained(http: httpx.Client, **asked: Any) -> dict[str, Any]:
    answer = http.post("/models/m/retrain", json={"dataset": "d", **asked})
    assert answer.status_code == 202, answer.text
    return awaited(http, answer.json()["id"])


def decided(http: httpx.Client, job: dict[str, Any], X: Any) -> Any:
    """Return decisions once the result of a job is applied."""
    assert job["state"] == "done", job
    http.post(f"/jobs/{job['id']}/apply", json={}).raise_for_status()
    return np.array(http.post("/models/m/predict", json={"X": X.tolist()}).json()["decision"])


def test_a_dataset_of_another_front_end_is_retrained_on_whole_and_in_shards(http: Fronts) -> None:
    first, second = http
    X, _ = upload(first, "d")
    assert (first.get("/datasets/d").json()["is_here"], second.get("/datasets/d").json()["is_here"]) == (True, False)
    whole = retrained(second, tol=1e-3)
    assert first.get(f"/jobs/{whole['id']}").json()["result"] == whole["result"]
    expected = decided(second, whole, X[:50])
    shards = retrained(second, tol=1e-3, shards=2, hold_out=0.2)
    assert shards["state"] == "done", shards
    found = shards["result"]
    assert (found["shards"], found["n_examples"], found["held_back"]["n_examples"]) == (2, 3000, 600)
    assert found["relative_gap"] <= 1e-3
    assert found["held_back"]["accuracy"] > 0.85
    np.testing.assert_allclose(decided(second, shards, X[:50]), expected, atol=0.03 * np.abs(expected).max())
    refused = first.post("/models/m/retrain", json={"dataset": "d", "solver": "fw", "shards": 2})
    assert (refused.status_code, refused.json()["field"]) == (422, "shards")


def test_a_table_is_encoded_alike_whole_and_in_shards(http: Fronts) -> None:
    first, second = http
    random = np.random.default_rng(4)
    plans, ages = random.choice(["gold", "free", "new"], 2000), random.normal(40, 10, 2000).round()
    left = np.where((plans == "gold") ^ (ages > 42), "yes", "no")
    cells = zip(plans, ["", *ages[1:]], left, strict=True)
    lines = [f"{plan},{age},{y}" for plan, age, y in cells]
    body, media = "\n".join(["plan,age,left", *lines]).encode(), {"content-type": "text/csv"}
    first.put("/datasets/d?columns=auto", content=body, headers=media).raise_for_status()
    columns = [{"name": "age"}, {"name": "plan", "kind": "category"}]
    first.post("/models", json={"id": "table", "task": "l2svc", "columns": columns}).raise_for_status()
    rows = [{"plan": plan, "age": 30} for plan in ("gold", "free", "other")] + [{"plan": "gold"}]
    found: list[Any] = []
    for shards in (1, 2):
        asked = {"dataset": "d", "tol": 1e-4, "shards": shards, "hold_out": 0.2}
        job = awaited(second, second.post("/models/table/retrain", json=asked).json()["id"])
        assert job["state"] == "done", job
        assert (job["result"].get("shards", 1), job["result"]["held_back"]["accuracy"] > 0.85) == (shards, True)
        second.post(f"/jobs/{job['id']}/apply", json={}).raise_for_status()
        found.append(second.post("/models/table/predict", json={"rows": rows}).json()["decision"])
    np.testing.assert_allclose(found[0], found[1], atol=0.03 * np.abs(found).max())
    first.delete("/models/table")


def test_a_lost_shard_is_started_again_and_workers_go_with_their_job(http: Fronts, cluster: RayCluster) -> None:
    first, _ = http
    X, _ = upload(first, "d")
    hard = {"shards": 2, "tol": 1e-6, "C": 100.0}
    expected = decided(first, retrained(first, **hard), X[:50])
    job = first.post("/models/m/retrain", json={"dataset": "d", **hard}).json()["id"]
    until(lambda: first.get(f"/jobs/{job}").json()["done"] > 0)
    os.kill(cluster.workers(SHARD)[0], signal.SIGKILL)
    found = awaited(first, job)
    assert found["state"] == "done", found
    assert found["result"]["lost_shards"] == 1
    assert found["result"]["relative_gap"] <= 1e-6
    np.testing.assert_allclose(decided(first, found, X[:50]), expected, atol=1e-3 * np.abs(expected).max())
    until(lambda: not cluster.workers(SHARD))
    job = first.post("/models/m/retrain", json={"dataset": "d", **hard, "C": 1e6, "tol": 1e-9}).json()["id"]
    until(lambda: len(cluster.workers(SHARD)) == 2)
    first.delete(f"/jobs/{job}").raise_for_status()
    assert awaited(first, job)["state"] == "cancelled"
    until(lambda: not cluster.workers(SHARD))


def test_too_many_shards_and_a_front_end_that_is_gone_are_named(http: Fronts, cluster: RayCluster) -> None:
    first, second = http
    upload(first, "d")
    job = first.post("/models/m/retrain", json={"dataset": "d", "shards": 30}).json()["id"]
    found = awaited(first, job)
    assert found["state"] == "failed"
    assert "of 30 shards" in found["error"]["detail"]
    assert second.delete("/datasets/d").status_code == 204
    assert first.post("/models/m/retrain", json={"dataset": "d"}).status_code == 404


def test_an_erasure_ends_jobs_of_other_front_ends_on_its_dataset(http: Fronts) -> None:
    first, second = http
    X, y = np.random.default_rng(1).normal(size=(60, 2)), np.arange(60) % 2
    body = npz(X=X, y=y, keys=np.array([f"person-{number}" for number in range(60)]))
    first.put("/datasets/k", content=body, headers={"content-type": "application/x-npz"}).raise_for_status()
    second.post("/models", json={"id": "other", "task": "l2svc"}).raise_for_status()
    job = second.post("/models/other/retrain", json={"dataset": "k"}).json()["id"]
    assert awaited(second, job)["state"] == "done"
    first.post("/models/m/update", json={"add": {"X": [[0.0] * 2], "y": [1], "keys": ["person-3"]}}).raise_for_status()
    erased = first.post("/models/m/erase", json={"keys": ["person-3"]})
    assert erased.status_code == 200, erased.text
    until(lambda: second.get(f"/jobs/{job}").status_code == 404)
    assert first.get("/datasets/k").json()["n_examples"] == 59
    second.delete("/models/other").raise_for_status()


def kept(service: ServiceProcess) -> set[str]:
    """Return directories of datasets at a front end."""
    return {path.name for path in (service.data_dir / "datasets").iterdir()}


def of_people(http: httpx.Client, name: str, seed: int) -> bytes:
    """Upload examples of 60 people; what is there of the third's."""
    X, y = np.random.default_rng(seed).normal(size=(60, 2)), np.arange(60) % 2
    body = npz(X=X, y=y, keys=np.array([f"person-{number}" for number in range(60)]))
    http.put(f"/datasets/{name}", content=body, headers={"content-type": "application/x-npz"}).raise_for_status()
    return bytes(X[3].tobytes())


def holds(service: ServiceProcess, trace: bytes) -> bool:
    files = (service.data_dir / "datasets").rglob("*")
    return any(trace in path.read_bytes() for path in files if path.is_file())


def test_an_erasure_reaches_the_datasets_of_all_front_ends(http: Fronts, services: list[ServiceProcess]) -> None:
    first, second = http
    traces = of_people(first, "here", 1), of_people(second, "there", 2)
    upload(second, "d")
    assert all(holds(service, trace) for service, trace in zip(services, traces, strict=True))
    first.post("/models/m/update", json={"add": {"X": [[0.0] * 2], "y": [1], "keys": ["person-3"]}}).raise_for_status()
    job = first.post("/models/m/retrain", json={"dataset": "there"}).json()["id"]
    assert awaited(first, job)["state"] == "done"
    erased = first.post("/models/m/erase", json={"keys": ["person-3", "nobody"]})
    assert erased.status_code == 200, erased.text
    places = erased.json()["receipt"]["places"]
    assert places["datasets"].startswith("1 rows removed from here, 1 rows removed from there; ")
    assert places["datasets"].endswith("not searched, having no keys or not to be read here: d")
    assert places["other front ends"].endswith("their datasets with keys were searched")
    assert not any(holds(service, trace) for service, trace in zip(services, traces, strict=True))
    assert [second.get(f"/datasets/{name}").json()["n_examples"] for name in ("here", "there", "d")] == [59, 59, 3000]
    assert first.get(f"/jobs/{job}").status_code == 404
    before = kept(services[1])
    assert len(before) == 2
    assert [first.delete(f"/datasets/{name}").status_code for name in ("here", "there", "d")] == [204] * 3
    until(lambda: not kept(services[1]))


def test_a_front_end_that_was_away_forgets_when_it_is_back(http: Fronts, services: list[ServiceProcess]) -> None:
    first, second = http
    trace = of_people(second, "there", 3)
    first.post("/models/m/update", json={"add": {"X": [[0.0] * 2], "y": [1], "keys": ["person-3"]}}).raise_for_status()
    job = first.post("/models/m/retrain", json={"dataset": "there"}).json()["id"]
    assert awaited(first, job)["state"] == "done"
    assert services[1].stop() == 0
    erased = first.post("/models/m/erase", json={"keys": ["person-3"]})
    assert erased.status_code == 200, erased.text
    name = (services[1].data_dir / "holder").read_text()[:8]
    reported = erased.json()["receipt"]["places"]["other front ends"]
    assert reported.endswith(f"not searched yet, and done when their front end is back: there of {name}")
    assert holds(services[1], trace)
    assert first.get("/datasets/there").json()["n_examples"] == 60
    services[1].start()
    with services[1].http(PATIENCE) as back:
        until(lambda: back.get("/datasets/there").json()["n_examples"] == 59)
        assert not holds(services[1], trace)
        until(lambda: first.get(f"/jobs/{job}").status_code == 404)
        back.delete("/datasets/there").raise_for_status()
