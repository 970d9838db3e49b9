"""The head of a Ray cluster is lost: what goes on meanwhile, what is said of it, and how front ends come back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from livesvm.service.monitoring.health import CLUSTERLESS, HEADLESS
from tests.contract.redis_server import RedisServer, free_port
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import RayCluster
from tests.support.updates_under_faults import MODEL, check_whole, learnt, send
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PATIENCE = 60.0
HEAD_SECONDS = 10

Parts = tuple[RayCluster, ServiceProcess]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with (
        RedisServer(tmp_path / "redis") as server,
        RedisServer(tmp_path / "known") as known,
        RayCluster(1, f"127.0.0.1:{known.port}", HEAD_SECONDS) as cluster,
    ):
        settings: dict[str, Any] = {"redis_url": server.url, "ray": cluster.address, "ray_actors": 1}
        settings |= {"ray_seconds": PATIENCE, "compile_ahead": "false"}
        with ServiceProcess(tmp_path / "front", **settings) as front:
            yield cluster, front


def is_told(http: httpx.Client) -> bool:
    """Return whether readiness and the metrics soon say that the head is away."""

    def says() -> set[bool]:
        degraded = http.get("/health/ready").json().get("degraded", [])
        return {HEADLESS in degraded, "livesvm_ray_head_up 0.0" in http.get("/metrics").text}

    while len(said := says()) > 1:
        time.sleep(0.01)
    return said.pop()


def test_models_go_on_without_the_head_and_are_started_again_when_it_is_back(parts: Parts) -> None:
    cluster, front = parts
    with front.http(PATIENCE) as http:
        http.post("/models", json=MODEL).raise_for_status()
        assert send(http, 0).json()["version"] == 1
        assert not is_told(http)
        cluster.behead()
        until(lambda: is_told(http))
        assert send(http, 1).json()["version"] == 2
        cluster.crown()
        until(lambda: not is_told(http))
        for pid in cluster.actors():
            os.kill(pid, signal.SIGKILL)
        assert send(http, 2).json()["version"] == 3
        check_whole(http, [0, 1, 2])
        assert front.status is None


def test_a_front_end_outlives_the_cluster_and_joins_the_next(parts: Parts) -> None:
    cluster, front = parts
    with front.http(PATIENCE) as http:
        learnt(http, updates=1)
        cluster.behead()
        until(cluster.lose)  # nodes end that do not find the head
        assert is_told(http)
        cluster.crown()
        cluster.add_node()
        assert send(http, 1).json()["version"] == 2
        until(lambda: not is_told(http))
        check_whole(http, [0, 1])
        assert front.status is None


def reasons(http: httpx.Client) -> list[str]:
    """Return why the front end is not ready, which readiness and calls say alike."""
    try:
        answer = http.get("/health/ready")
    except httpx.TransportError:
        return ["nobody listens yet"]
    return list(answer.json().get("reasons", []))


def test_a_front_end_that_starts_before_the_cluster_waits_for_it_and_can_be_ended_meanwhile(parts: Parts) -> None:
    cluster, front = parts
    with front.http(PATIENCE) as http:
        learnt(http, updates=1)
    cluster.behead()
    front.stop()
    front.settings["port"] = port = free_port()
    front.url = f"http://127.0.0.1:{port}"
    with front.http(PATIENCE) as http:
        front.launch()
        until(lambda: CLUSTERLESS in reasons(http))
        assert http.get("/models").status_code == 503
        assert "livesvm_ray_head_up 0.0" in http.get("/metrics").text
        assert front.stop() == 0
        front.launch()
        until(lambda: CLUSTERLESS in reasons(http))
        cluster.crown()
        until(lambda: not reasons(http))
        assert send(http, 1).json()["version"] == 2
        check_whole(http, [0, 1])
