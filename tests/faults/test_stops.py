"""Orderly ends, second processes, and more work than can be done."""

from __future__ import annotations

import signal
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.store.sqlite import SqliteStore
from tests.service.process import ServiceProcess, ServiceStartedAfresh, blobs
from tests.support.waiting import until


def add(rng: np.random.Generator, n: int = 10, d: int = 3) -> dict[str, Any]:
    X, y = blobs(rng, n, d)
    return {"add": {"X": X, "y": y}}


def test_sigterm_under_load_loses_nothing_and_exits_0(tmp_path: Path) -> None:
    """Updates are answered or refused, never forgotten; a snapshot makes the restart short."""
    acknowledged: list[int] = []
    with ServiceStartedAfresh(tmp_path) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0, "window": {"max_examples": 100}}).raise_for_status()

        def stream(seed: int) -> None:
            rng = np.random.default_rng(seed)
            with service.http() as own:
                try:
                    while True:
                        answer = own.post("/models/m/update", json=add(rng))
                        if answer.status_code == 200:
                            acknowledged.append(answer.json()["version"])
                except httpx.TransportError:
                    return

        threads = [threading.Thread(target=stream, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) > 10)
        assert service.stop() == 0
        for thread in threads:
            thread.join()
    assert len(set(acknowledged)) == len(acknowledged)
    with ServiceProcess(tmp_path) as restarted, restarted.http() as http:
        described = http.get("/models/m").json()
        assert described["version"] >= max(acknowledged)
        assert not described["awake"]  # nothing is to be replayed
        answer = http.post("/models/m/update", json=add(np.random.default_rng(9))).json()
        assert answer["version"] == described["version"] + 1
        assert restarted.stop() == 0


def test_an_update_that_outlasts_the_stop_is_reported_so_and_is_there_afterwards(tmp_path: Path) -> None:
    """Its solve is cut off, its client is asked to try again, and then it is done once."""
    process = ServiceStartedAfresh(tmp_path, shutdown_seconds=1)
    process.module = "tests.faults.held_update"
    body = add(np.random.default_rng(0), 10) | {"decay": 0.5}
    headers = {"idempotency-key": "held"}
    with process as service, service.http() as http, ThreadPoolExecutor(2) as pool:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        held = pool.submit(httpx.post, f"{service.url}/models/m/update", json=body, headers=headers, timeout=30)
        until((tmp_path / "held").exists)
        waiting = pool.submit(httpx.get, f"{service.url}/models/m/certificate", timeout=30)
        until(lambda: http.get("/models/m").json()["queue_depth"])
        service.signal(signal.SIGTERM)
        for cut_off in (held.result(), waiting.result()):
            assert cut_off.status_code == 503
            assert cut_off.headers["content-type"] == "application/problem+json"
            assert cut_off.json()["type"] == "urn:livesvm:problem:cut-off"
            assert int(cut_off.headers["retry-after"]) >= 1
        (tmp_path / "go").touch()
        assert service.wait() == 0
        assert "Traceback" not in service.errors
    with ServiceProcess(tmp_path) as restarted, restarted.http() as http:
        assert http.get("/models/m").json()["version"] in (0, 1)  # taken back, unless it had all but ended
        again = http.post("/models/m/update", json=body, headers=headers)
        assert (again.status_code, again.json()["version"]) == (200, 1)


def test_the_client_asks_again_for_what_a_stop_cut_off(tmp_path: Path) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = ServiceProcess(tmp_path, shutdown_seconds=1, port=port)
    process.module = "tests.faults.held_update"
    X, y = blobs(np.random.default_rng(0), 10)
    with ThreadPoolExecutor(1) as pool, Client(f"http://127.0.0.1:{port}", patience=60) as client:
        with process as service:
            client.create_model("m", C=1.0)
            asked = pool.submit(client.update, "m", X, y, decay=0.5)
            until((tmp_path / "held").exists)
            service.signal(signal.SIGTERM)
            until(lambda: "Cancel" in service.errors)  # so the server's log says
            (tmp_path / "go").touch()
            assert service.wait() == 0
        with process:
            assert asked.result()["version"] == 1
            assert client.model("m")["version"] == 1


def test_keys_ages_and_counters_survive(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        http.post("/models", json={"id": "unused", "C": 3.0}).raise_for_status()
        http.post("/models", json={"id": "deleted", "C": 1.0}).raise_for_status()
        http.delete("/models/deleted").raise_for_status()
        rng = np.random.default_rng(0)
        http.post("/models/m/update", json=add(rng, 4)).raise_for_status()
        http.post("/models/m/update", json={"remove": {"oldest": 4}}).raise_for_status()
        service.stop()
    for _ in range(2):  # once from the snapshot, once from the snapshot and the log
        with ServiceProcess(tmp_path) as service, service.http() as http:
            assert [model["id"] for model in http.get("/models").json()["models"]] == ["m", "unused"]
            assert http.get("/models/unused").json()["C"] == 3.0
            refused = http.post("/models/m/update", json=add(rng, 2, d=4))
            assert refused.status_code == 422
            added = http.post("/models/m/update", json=add(rng, 2)).json()["added"]
            service.kill()
    assert added == [6, 7]


def test_the_time_of_the_newest_version_survives(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        for name in ("updated", "restored", "unused"):
            http.post("/models", json={"id": name, "C": 1.0}).raise_for_status()
        for name in ("updated", "restored"):
            http.post(f"/models/{name}/update", json=add(np.random.default_rng(0))).raise_for_status()
        http.post("/models/restored/restore", json={"version": 0}).raise_for_status()
        reported = {model["id"]: model["updated_at"] for model in http.get("/models").json()["models"]}
        assert None not in (reported["updated"], reported["restored"])
        assert reported["unused"] is None
        service.kill()
    for end in ("kill", "stop", "stop"):  # from the log, from the log again, from the snapshot
        with ServiceProcess(tmp_path) as service, service.http() as http:
            assert {model["id"]: model["updated_at"] for model in http.get("/models").json()["models"]} == reported
            metrics = http.get("/metrics").text
            assert 'livesvm_model_last_update_timestamp_seconds{model="restored"}' in metrics
            assert 'livesvm_model_last_update_timestamp_seconds{model="unused"}' not in metrics
            getattr(service, end)()


def test_a_second_process_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        second = ServiceProcess(tmp_path)
        second.launch()
        assert second.wait() == 1
        assert f"in use by process {service.pid}" in second.errors
        assert http.get("/health/ready").status_code == 200


def test_a_store_that_a_newer_version_wrote_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "livesvm.sqlite3").close()
    with closing(sqlite3.connect(tmp_path / "livesvm.sqlite3")) as db:
        db.execute("PRAGMA user_version = 99")
    service = ServiceProcess(tmp_path)
    service.launch()
    assert service.wait() == 1
    assert "schema 99" in service.errors


@pytest.mark.alone(reason="locks the one file of the store")
def test_without_its_store_the_service_predicts_refuses_updates_and_recovers(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        rng = np.random.default_rng(0)
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        http.post("/models/m/update", json=add(rng)).raise_for_status()
        X = add(rng)["add"]["X"]
        before = http.post("/models/m/predict", json={"X": X}).json()
        with closing(sqlite3.connect(tmp_path / "livesvm.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = http.post("/models/m/update", json=add(rng))
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:livesvm:problem:store-unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            assert http.get("/health/ready").status_code == 503
            assert http.get("/health/live").status_code == 200
            during = http.post("/models/m/predict", json={"X": X}).json()
            assert during == before | {"stale": True}
            other.execute("ROLLBACK")
        until(lambda: http.get("/health/ready").status_code == 200, 5)
        assert http.post("/models/m/update", json=add(rng)).json()["version"] == 2
        assert http.post("/models/m/predict", json={"X": X}).json()["stale"] is False


def test_more_work_than_can_be_done_is_refused_at_once(tmp_path: Path) -> None:
    """One update runs, two wait, the others are asked to come back; what was accepted is done."""
    with ServiceProcess(tmp_path, queue_size=2) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1000.0}).raise_for_status()
        bodies = [add(np.random.default_rng(seed), 400, 5) for seed in range(12)]
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda body: http.post("/models/m/update", json=body), bodies))
        accepted = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(accepted) + len(refused) == 12
        assert accepted
        assert refused
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert http.get("/models/m").json()["n_examples"] == 400 * len(accepted)


def test_a_client_that_is_too_slow_is_given_up(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, body_seconds=0.3) as service, service.http() as http:

        def slowly() -> Any:
            yield b'{"id":'
            time.sleep(1.0)
            yield b'"m"}'

        headers = {"content-type": "application/json"}
        with suppress(httpx.TransportError):  # the connection may be closed while the rest is being sent
            assert http.post("/models", content=slowly(), headers=headers).status_code == 408
        assert 'route="/models",status="408"' in http.get("/metrics").text
        assert http.get("/models").json()["models"] == []


@pytest.mark.parametrize("path", ["/models", "/models/m/update", "/models/m/predict", "/models/m/outlier-path"])
def test_a_client_that_leaves_while_it_sends_is_no_failure_of_the_service(path: str, tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        url = httpx.URL(service.url)
        with socket.create_connection((url.host, url.port)) as leaving:
            fields = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 50"
            leaving.sendall(f'POST {path} HTTP/1.1\r\n{fields}\r\n\r\n{{"add"'.encode())
        template = path.replace("/m/", "/{id}/")
        while f'method="POST",route="{template}",status="400"' not in (metrics := http.get("/metrics").text):
            assert f'route="{template}",status="500"' not in metrics
        assert service.stop() == 0
        assert "Traceback" not in service.errors


def test_a_stopped_process_goes_on_where_it_was(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        service.signal(signal.SIGSTOP)
        time.sleep(0.2)
        service.signal(signal.SIGCONT)
        assert http.post("/models/m/update", json=add(np.random.default_rng(0))).json()["version"] == 1


def test_after_sigterm_calls_are_answered_and_told_to_come_by_another_connection(tmp_path: Path) -> None:
    with ServiceStartedAfresh(tmp_path, drain_seconds=60) as service, service.http() as idle, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        assert "connection" not in idle.get("/health/serving").headers
        service.signal(signal.SIGTERM)
        until(lambda: http.get("/health/serving").status_code == 503, 20)
        assert http.get("/health/ready").json()["reasons"] == ["the service is stopping"]
        for client in (idle, http):  # on the connection from before, and on a new one
            for _ in range(2):
                added = client.post("/models/m/update", json={"add": {"X": [[0.0], [1.0]], "y": [-1, 1]}})
                assert (added.status_code, added.headers["connection"]) == (200, "close")
        assert http.get("/models/m").json()["version"] == 4
        assert service.stop() == 0  # the second signal
        assert "error" not in service.errors.lower()


def test_an_interrupt_does_not_drain(tmp_path: Path) -> None:
    with ServiceStartedAfresh(tmp_path, drain_seconds=600) as service:
        assert httpx.get(f"{service.url}/health/serving").json() == {"status": "serving"}
        service.signal(signal.SIGINT)
        assert service.wait() == 0
