"""A process of models that is stopped, and not ended: others go on answering, and it is killed and started again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from livesvm.service.ray.places import place_of
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import RayCluster, children
from tests.support.waiting import until

pytestmark = pytest.mark.operations
LEASE = 3.0
PATIENCE = 90.0
MODELS = [f"m{number}" for number in range(8)]
PROBE = {"X": [[0.0, 1.0], [1.0, 0.0]]}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def send(http: httpx.Client, model: str, number: int) -> httpx.Response:
    """Add two examples; done twice, it is done once."""
    rows = [[0.1 * number, 1.0], [1.0, 0.1 * number]]
    body = {"add": {"X": rows, "y": [1, -1], "keys": [f"{number}a", f"{number}b"]}}
    return http.post(f"/models/{model}/update", json=body, headers={"idempotency-key": f"{model}-{number}"})


def version(http: httpx.Client, model: str) -> int:
    return int(http.get(f"/models/{model}").json()["version"])


@pytest.fixture(params=["snapshot", "actor"])
def service(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> Iterator[tuple[Any, RayCluster]]:
    """A front end with two actors."""
    common: dict[str, Any] = {"redis_url": redis.url, "redis_prefix": request.param, "lease_seconds": LEASE}
    with RayCluster(1) as cluster:
        common |= {"ray": cluster.address, "ray_actors": 2, "ray_seconds": PATIENCE}
        with ServiceProcess(tmp_path, ray_predictions=request.param, **common) as process:
            yield process, cluster


def test_others_answer_at_once_and_what_it_held_comes_back(service: tuple[ServiceProcess, RayCluster]) -> None:
    process, cluster = service
    with process.http(PATIENCE) as http:
        for model in MODELS:
            http.post("/models", json={"id": model, "C": 1.0}).raise_for_status()
            send(http, model, 0).raise_for_status()
            if model == MODELS[0]:
                (stopped,) = cluster.actors()
        there = [model for model in MODELS if place_of(model, 2) == place_of(MODELS[0], 2)]
        others = [model for model in MODELS if model not in there]
        os.kill(stopped, signal.SIGSTOP)
        answers: list[tuple[str, httpx.Response]] = []

        def ask(model: str, number: int) -> None:
            with process.http(PATIENCE) as own:
                predicts = number and own.post(f"/models/{model}/predict", json=PROBE)
                answers.append((model, predicts or send(own, model, 1)))

        waiting = [threading.Thread(target=ask, args=(model, number)) for model in there for number in range(6)]
        began = time.monotonic()
        for thread in waiting:
            thread.start()
        number, slowest = 1, 0.0
        while any(thread.is_alive() for thread in waiting) or number < 20:
            assert time.monotonic() - began < PATIENCE
            for model in others:
                since = time.monotonic()
                assert send(http, model, number).status_code == 200
                assert http.post(f"/models/{model}/predict", json=PROBE).status_code == 200
                assert http.get(f"/models/{model}/versions").status_code == 200
                slowest = max(slowest, time.monotonic() - since)
            number += 1
        for thread in waiting:
            thread.join()
        assert {answer.status_code for model, answer in answers} == {200}
        assert slowest < LEASE
        assert {model: version(http, model) for model in MODELS} == {
            model: 2 if model in there else number for model in MODELS
        }
        assert not Path(f"/proc/{stopped}").exists()  # so that it cannot write when it is continued
        assert "livesvm_actors_lost_total 1.0" in http.get("/metrics").text
    assert "is silent; it is killed and started again" in process.errors


def test_a_service_starts_ray_for_itself_starts_it_again_and_ends_it(tmp_path: Path, redis: RedisServer) -> None:
    common: dict[str, Any] = {"redis_url": redis.url, "redis_prefix": "local", "lease_seconds": LEASE}
    process = ServiceProcess(tmp_path, ray="local", ray_actors=2, ray_seconds=PATIENCE, **common)
    with process, process.http(PATIENCE) as http:
        for model in MODELS:
            http.post("/models", json={"id": model, "C": 1.0}).raise_for_status()
            send(http, model, 0).raise_for_status()
        ours = [pid for pid in children(process.pid) if b"gcs_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(ours[0], signal.SIGKILL)
        until(lambda: process.errors.count("this front end has joined the Ray cluster") == 2, PATIENCE)
        assert {send(http, model, 1).status_code for model in MODELS} == {200}
        assert {version(http, model) for model in MODELS} == {2}
        ours = children(process.pid)
        assert process.stop() == 0
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ours), PATIENCE)  # Ray's own end a little later
