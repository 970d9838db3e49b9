"""A service with workers: one list, one log and one page of metrics; what a death of any process leaves."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from livesvm.service.store.shares import share_of
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import children

MODELS = [f"m{number}" for number in range(6)]
PATIENCE = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def service(place: Path) -> Iterator[ServiceProcess]:
    """With two workers, and data that a service of one process has left."""
    with ServiceProcess(place, workers=0) as before, before.http() as http:
        for model in MODELS[:3]:
            http.post("/models", json={"id": model}).raise_for_status()
            send(http, model)
        before.kill()
    with ServiceProcess(place, workers=2) as process:
        yield process


@pytest.fixture(scope="module")
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        for model in MODELS[3:]:
            client.post("/models", json={"id": model}).raise_for_status()
            send(client, model)
        client.post("/feeds", json={"id": "f", "target": "y", "window": 40, "steps": 1}).raise_for_status()
        yield client


def send(http: httpx.Client, model: str) -> int:
    """Add two examples; the version."""
    answer = http.post(f"/models/{model}/update", json={"add": {"X": [[0.0, 1.0], [1.0, 0.0]], "y": [1, -1]}})
    answer.raise_for_status()
    return int(answer.json()["version"])


def versions(http: httpx.Client) -> dict[str, int]:
    return {model["id"]: model["version"] for model in http.get("/models").json()["models"]}


def workers_of(service: ServiceProcess) -> list[int]:
    """Return the processes of workers."""
    return [worker for origin in children(service.pid) for worker in children(origin)]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_models_of_all_workers_are_one_list_by_pages(http: httpx.Client) -> None:
    assert {share_of(model) % 2 for model in MODELS} == {0, 1}
    assert list(versions(http)) == MODELS
    page = http.get("/models?limit=4").json()
    assert [model["id"] for model in http.get(f"/models?after={page['next']}").json()["models"]] == MODELS[4:]
    assert [feed["id"] for feed in http.get("/feeds").json()["feeds"]] == ["f"]
    assert http.get("/models/m9").status_code == http.get("/feeds/m0").status_code == 404
    assert http.post("/models", json={"id": "m0"}).status_code == 409


def test_metrics_are_summed_up_but_for_those_of_processes(http: httpx.Client) -> None:
    families = {family.name: family for family in text_string_to_metric_families(http.get("/metrics").text)}
    applied = [s for s in families["livesvm_updates"].samples if s.labels == {"task": "svc", "outcome": "applied"}]
    assert [sample.value for sample in applied] == [len(MODELS) - 3]
    assert {s.labels.get("worker") for s in families["process_open_fds"].samples} == {None, "0", "1"}
    assert {s.labels["model"] for s in families["livesvm_model_version"].samples} == set(MODELS)
    assert len([s for s in families["livesvm_update_seconds"].samples if s.name.endswith("_count")]) == 1


def test_the_log_is_one_and_names_the_request_wherever_a_line_is_from(
    service: ServiceProcess, http: httpx.Client
) -> None:
    names = {}
    for model in MODELS:
        answer = http.post(f"/models/{model}/checkpoint")
        names[model] = answer.headers["x-request-id"]
        send(http, model)
    until(lambda: service.errors.count('"version": 2') >= 2 * len(MODELS))
    lines = [json.loads(line) for line in service.errors.splitlines()]
    made = {line["model"]: line for line in lines if line["event"] == "create" and line["logger"] == "livesvm.audit"}
    assert {model: made[model]["worker"] for model in MODELS[3:]} == {
        model: str(share_of(model) % 2) for model in MODELS[3:]
    }
    asked = {line["request"] for line in lines if line["logger"] == "livesvm.requests"}
    assert {line["request"] for line in made.values()} | {*names.values()} <= asked


def test_a_worker_that_is_killed_is_started_again_and_no_call_notices(
    service: ServiceProcess, http: httpx.Client
) -> None:
    before, count, is_over = versions(http), dict.fromkeys(MODELS, 0), threading.Event()

    def update(mine: list[str]) -> None:
        with service.http() as client:
            while not is_over.is_set():
                for model in mine:
                    send(client, model)
                    count[model] += 1

    threads = [threading.Thread(target=update, args=(MODELS[k::2],)) for k in range(2)]
    for thread in threads:
        thread.start()
    for number in range(2):
        here = sum(count.values())
        until(lambda: sum(count.values()) > here + 10)  # noqa: B023
        killed = workers_of(service)[number]
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(workers_of(service)) == 2 and killed not in workers_of(service))  # noqa: B023
    here = sum(count.values())
    until(lambda: sum(count.values()) > here + 10)
    is_over.set()
    for thread in threads:
        thread.join()
    assert versions(http) == {model: before[model] + count[model] for model in MODELS}
    assert http.get("/health/ready").status_code == 200
    assert "livesvm_workers_lost_total 2.0" in http.get("/metrics").text


def test_workers_end_with_the_service_and_any_number_finds_all(
    service: ServiceProcess, http: httpx.Client, place: Path
) -> None:
    before, ended = versions(http), workers_of(service)
    with pytest.raises(RuntimeError, match="is in use by process"):
        ServiceProcess(place, workers=2).start()
    service.kill()
    with ServiceProcess(place, workers=3) as three, three.http() as client:
        assert not any(Path(f"/proc/{worker}").exists() for worker in ended)
        assert versions(client) == before
        assert [send(client, model) for model in MODELS] == [before[model] + 1 for model in MODELS]
        client.post("/erase", json={"keys": [0]}).raise_for_status()
        assert three.stop() == 0
    with ServiceProcess(place, workers=0) as one, one.http() as client:
        assert versions(client) == {model: before[model] + 2 for model in MODELS}
