"""A Redis that is killed, stopped, emptied, full or far away; and two services on one Redis."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.redis_server import RedisServer
from tests.faults.proxy import Proxy
from tests.service.process import ServiceProcess
from tests.support.redis_services import is_ready, service_on, start_model
from tests.support.updates_under_faults import PROBE, check_whole, send
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="of Redis without Ray")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


def decide(http: httpx.Client) -> Any:
    return http.post("/models/m/predict", json={"X": PROBE}).json()


@pytest.mark.parametrize("point", ["after-log", "before-answer"])
def test_a_service_killed_at_a_point_comes_back_from_redis(point: str, server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path, crash_at=f"{point}:8", snapshot_updates=3) as service, service.http() as http:
        start_model(http, 7)
        with pytest.raises(httpx.TransportError):
            send(http, 7)
        assert service.wait() == -9
    with service_on(server, tmp_path, snapshot_updates=3) as service, service.http() as http:
        check_whole(http, list(range(8)))
        assert send(http, 7).headers["idempotent-replayed"] == "true"
        assert service.stop() == 0


def test_redis_killed_during_updates_loses_nothing_that_was_acknowledged(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path, snapshot_updates=5) as service, service.http() as http:
        start_model(http, 3)
        number = 3
        for _ in range(3):
            server.kill()
            refused = send(http, number)
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
            server.start()
            while (answer := send(http, number)).status_code != 200:
                assert answer.status_code == 503
                time.sleep(0.05)
            assert answer.json()["version"] == number + 1
            number += 1
        check_whole(http, list(range(number)))
        service.kill()
    with service_on(server, tmp_path) as service, service.http() as http:
        check_whole(http, list(range(number)))


def test_without_redis_predictions_go_on_and_work_goes_on_after_it(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 2)
        before = decide(http)
        server.signal(signal.SIGSTOP)
        until(lambda: not is_ready(http))
        assert http.get("/health/live").status_code == 200
        assert decide(http) == before | {"stale": True}
        assert http.get("/models/m").json()["durability"] is None
        assert http.get("/models/m/certificate").json()["relative_gap"] <= 1e-8
        refused = send(http, 2)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        server.signal(signal.SIGCONT)
        until(lambda: send(http, 2).status_code == 200)
        until(lambda: is_ready(http))
        assert decide(http)["stale"] is False
        check_whole(http, [0, 1, 2])


def test_a_network_that_swallows_resets_or_delays_is_survived_without_leaks(
    server: RedisServer, tmp_path: Path
) -> None:
    with Proxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        process = ServiceProcess(tmp_path, redis_url=url, redis_seconds=0.3, lease_seconds=1)
        with process as service, service.http() as http:
            start_model(http, 1)
            number = 1
            for mode in ("swallow", "reset"):
                proxy.set(mode)
                assert send(http, number).status_code == 503
                assert decide(http)["decision"]
                proxy.set("pass")
                until(lambda wanted=number: send(http, wanted).status_code == 200)  # type: ignore[misc]
                number += 1
            proxy.delay = 0.02
            assert send(http, number).status_code == 200
            check_whole(http, list(range(number + 1)))
            assert proxy.connections() < 20


def test_a_stopped_writer_is_taken_over_and_fenced_when_it_goes_on(server: RedisServer, tmp_path: Path) -> None:
    first, second = service_on(server, tmp_path / "1"), service_on(server, tmp_path / "2")
    with first, first.http() as one, second, second.http() as two:
        start_model(one, 3)
        until(lambda: two.get("/models/m").json().get("state") == "held")
        assert two.get("/health/ready").status_code == 503
        assert send(two, 3).json()["type"] == "urn:livesvm:problem:model-unavailable"
        first.signal(signal.SIGSTOP)
        until(lambda: is_ready(two))
        assert send(two, 3).json()["version"] == 4
        first.signal(signal.SIGCONT)
        fenced = send(one, 4)
        assert (fenced.status_code, fenced.json()["type"]) == (503, "urn:livesvm:problem:fenced")
        assert decide(one)["stale"] is True
        assert 'livesvm_models{state="fenced"} 1.0' in one.get("/metrics").text
        assert send(two, 4).json()["version"] == 5
        check_whole(two, list(range(5)))
        assert second.stop() == 0
        until(lambda: send(one, 5).status_code == 200)
        check_whole(one, list(range(6)))


def test_a_store_that_lost_updates_makes_the_model_read_only(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 3)
        before = decide(http)["decision"]
        client = server.client()
        meta = "{livesvm}:m:m:meta"
        client.hset(meta, "sequence", 2)
        for _ in range(2):
            refused = send(http, 3)
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-behind")
        assert 'livesvm_models{state="behind"} 1.0' in http.get("/metrics").text
        assert decide(http) == {**decide(http), "decision": before, "stale": True}
        client.hset(meta, "sequence", 3)
        until(lambda: send(http, 3).status_code == 200)
        client.flushall()
        until(lambda: http.get("/models/m").json()["state"] == "behind")
        assert send(http, 4).json()["type"] == "urn:livesvm:problem:store-behind"
        assert decide(http)["decision"]
        assert service.stop() == 0


def test_redis_out_of_memory_refuses_whole_and_recovers(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 2)
        client = server.client()
        client.config_set("maxmemory", "1")
        assert send(http, 2).status_code == 503
        until(lambda: not is_ready(http))
        check_whole(http, [0, 1])
        client.config_set("maxmemory", "0")
        until(lambda: send(http, 2).status_code == 200)
        check_whole(http, [0, 1, 2])
        service.kill()
    with service_on(server, tmp_path) as service, service.http() as http:
        check_whole(http, [0, 1, 2])


def test_a_redis_that_is_not_there_at_the_start_is_reported(server: RedisServer, tmp_path: Path) -> None:
    server.kill()
    service = service_on(server, tmp_path)
    service.launch()
    assert service.wait() == 1
    assert "Redis cannot be used" in service.errors
