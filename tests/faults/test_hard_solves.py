"""One client's hard update over real sockets: others go on, it ends in time, a kill within it harms no other."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.service.process import ServiceProcess, blobs
from tests.support.waiting import until

HARD = {"id": "hard", "C": 1e8, "kernel": {"name": "rbf", "gamma": 2.0}}
NPZ = {"content-type": "application/x-npz"}


def hard_update() -> bytes:
    """Return labels without any rule, which a cost of 1e8 wants learnt by heart: minutes of work."""
    rng = np.random.default_rng(0)
    stream = io.BytesIO()
    np.savez(stream, X=rng.normal(size=(6000, 10)), y=rng.choice([-1.0, 1.0], 6000))
    return stream.getvalue()


def add(seed: int) -> dict[str, Any]:
    X, y = blobs(np.random.default_rng(seed), 4)
    return {"add": {"X": X, "y": y}}


def is_busy(http: httpx.Client) -> bool:
    """Return whether the hard model's writer does not come to a certificate, as it solves."""
    answer = http.get("/models/hard/certificate", params={"max_seconds": 0.2})
    return answer.status_code == 503 and answer.json()["type"] == "urn:livesvm:problem:turn-missed"


def test_others_go_on_beside_a_hard_update_which_ends_when_it_is_reported_to(tmp_path: Path) -> None:
    body = hard_update()
    with (
        ServiceProcess(tmp_path, solve_seconds=600) as service,
        service.http() as http,
        ThreadPoolExecutor(2) as pool,
    ):

        def ask(**options: Any) -> httpx.Response:
            return httpx.post(f"{service.url}/models/hard/update", content=body, headers=NPZ, timeout=120, **options)

        for model in (HARD, {"id": "other", "C": 1.0}):
            http.post("/models", json=model).raise_for_status()
        too_long = ask(params={"max_seconds": 0.7})
        assert (too_long.status_code, too_long.json()["type"]) == (422, "urn:livesvm:problem:time-limit")
        assert http.get("/models/hard").json()["n_examples"] == 0

        hard = pool.submit(ask)
        until(lambda: is_busy(http))
        for seed in range(20):
            answer = http.post("/models/other/update", json=add(seed))
            assert (answer.status_code, answer.json()["version"]) == (200, seed + 1)
        assert http.get("/models/other/certificate").json()["relative_gap"] <= 1e-8
        with suppress(httpx.ReadTimeout):  # its caller leaves before its turn comes
            http.post("/models/hard/update", json=add(0), timeout=0.3)
        until(lambda: http.get("/models/hard").json()["queue_depth"] == 0)
        assert not hard.done()

        deletions = [pool.submit(http.delete, "/models/hard") for _ in range(1)]
        assert http.get("/models").status_code == http.get("/metrics").status_code == 200
        assert deletions[0].result().status_code == 204
        gone = hard.result()
        assert (gone.status_code, gone.json()["type"]) == (404, "urn:livesvm:problem:unknown-model")
        metrics = http.get("/metrics").text
        assert 'livesvm_updates_total{outcome="timed-out",task="svc"} 1.0' in metrics
        assert 'livesvm_updates_total{outcome="withdrawn",task="svc"} 1.0' in metrics

        http.post("/models", json=HARD).raise_for_status()
        hard = pool.submit(ask)
        until(lambda: is_busy(http))
        service.kill()
        assert isinstance(hard.exception(), httpx.TransportError)

    again = ServiceProcess(tmp_path, solve_seconds=600)
    again.waits_for_models = False
    with again as service, service.http() as http:
        assert http.post("/models/other/predict", json={"X": add(0)["add"]["X"]}).json()["version"] == 20
        assert http.post("/models/other/update", json=add(20)).json()["version"] == 21
        assert http.get("/models/hard").json()["state"] == "restoring"
        waits = http.post("/models/hard/update", json=add(0))
        assert (waits.status_code, waits.json()["type"]) == (503, "urn:livesvm:problem:restoring")
        assert waits.headers["retry-after"] == "1"
        assert http.delete("/models/hard").status_code == 204
        assert service.stop() == 0


def test_a_stop_ends_a_hard_update(tmp_path: Path) -> None:
    body = hard_update()
    with (
        ServiceProcess(tmp_path, solve_seconds=600, shutdown_seconds=1) as service,
        service.http() as http,
        ThreadPoolExecutor(1) as pool,
    ):
        http.post("/models", json=HARD).raise_for_status()
        url = f"{service.url}/models/hard/update"
        hard = pool.submit(httpx.post, url, content=body, headers=NPZ | {"idempotency-key": "hard"}, timeout=120)
        until(lambda: is_busy(http))
        assert service.stop() == 0
        answer = hard.result()
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:cut-off")
    with ServiceProcess(tmp_path) as service, service.http() as http:  # it is not tried again
        assert (http.get("/models/hard").json()["state"], http.get("/models/hard").json()["version"]) == ("live", 0)
        assert service.stop() == 0
