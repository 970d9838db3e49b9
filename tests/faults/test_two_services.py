"""Two services on one Redis: both update one model while either is stopped past its lease; one stands by."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess, blobs
from tests.support.redis_services import is_ready, service_on, start_model
from tests.support.updates_under_faults import PROBE, send
from tests.support.updates_under_faults import check_whole as check_updates
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="of Redis without Ray")

STOPS = 4
"""Of the two in turn, so that the first has the model in the end."""
MODEL = {"id": "m", "C": 10.0, "kernel": {"name": "rbf", "gamma": 0.3}}


def batch(client: str, number: int) -> dict[str, Any]:
    """Return the ``number``-th update of a client: two examples under their own keys."""
    X, y = blobs(np.random.default_rng([len(client), number]), 2)
    return {"X": X, "y": y, "keys": [f"{client}-{number}-{row}" for row in range(2)]}


@dataclass
class Asker:
    """A client of one of the services: it repeats each update until it is answered, for as long as it may."""

    name: str
    service: ServiceProcess
    done: threading.Event
    versions: list[int] = field(default_factory=list)

    def run(self) -> None:
        with self.service.http(timeout=10.0) as http:
            while not self.done.is_set():
                answer = self.ask(http, len(self.versions))
                if answer is not None and answer.status_code == 200:
                    self.versions.append(answer.json()["version"])
                else:
                    time.sleep(0.02)

    def ask(self, http: httpx.Client, number: int) -> httpx.Response | None:
        """Return one try of the ``number``-th update; None if it was not answered in time."""
        try:
            headers = {"Idempotency-Key": f"{self.name}-{number}"}
            return http.post("/models/m/update", json={"add": batch(self.name, number)}, headers=headers)
        except httpx.TransportError:
            return None


def test_no_version_is_ever_acknowledged_twice(tmp_path: Path) -> None:
    done = threading.Event()
    with RedisServer(tmp_path / "redis") as server:
        services = [ServiceProcess(tmp_path / name, redis_url=server.url, lease_seconds=1) for name in ("1", "2")]
        with services[0] as one, services[1] as two, one.http() as http:
            http.post("/models", json=MODEL).raise_for_status()
            askers = [Asker("a", one, done), Asker("bb", two, done)]
            threads = [threading.Thread(target=asker.run) for asker in askers]
            for thread in threads:
                thread.start()
            for stop in range(STOPS):
                stopped = services[stop % 2]
                counts = [len(asker.versions) for asker in askers]
                stopped.signal(signal.SIGSTOP)
                end = time.monotonic() + 20.0
                while len(askers[1 - stop % 2].versions) <= counts[1 - stop % 2] + 3:
                    assert time.monotonic() < end
                    time.sleep(0.05)
                stopped.signal(signal.SIGCONT)
                time.sleep(0.3)
            done.set()
            for thread in threads:
                thread.join()
            acknowledged = sorted(askers[0].versions + askers[1].versions)
            assert len(acknowledged) == len(set(acknowledged)) > 4 * STOPS
            assert all(asker.versions == sorted(asker.versions) for asker in askers)
            check_whole(http, askers)


def test_a_standby_predicts_by_its_own_copy_and_names_the_active_service(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        services = [service_on(server, tmp_path / name) for name in ("1", "2")]
        with services[0] as one, services[1] as two, one.http() as holder, two.http() as standby:
            start_model(holder, 2)

            def predicted() -> dict[str, Any]:
                answer = standby.post("/models/m/predict", json={"X": PROBE})
                return dict(answer.json()) if answer.status_code == 200 else {"version": None}

            until(lambda: predicted()["version"] == 2)
            expected = holder.post("/models/m/predict", json={"X": PROBE}).json()
            assert expected.pop("stale") is False
            found = predicted()
            assert found.pop("stale") is True
            np.testing.assert_allclose(found.pop("decision"), expected.pop("decision"), rtol=0, atol=1e-9)
            assert found == expected
            answer = standby.post("/models/m/predict", json={"X": PROBE})
            assert float(answer.headers["livesvm-age"]) < 2.0
            refused = send(standby, 2)
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (503, "model-unavailable")
            assert f"held by another service, at {one.url} on " in refused.json()["detail"]
            assert standby.get("/models/m").json()["state"] == "held"
            assert standby.get("/health/ready").status_code == 503
            assert send(holder, 2).status_code == 200
            until(lambda: predicted()["version"] == 3)
            one.kill()
            until(lambda: is_ready(standby))
            assert predicted()["stale"] is False
            check_updates(standby, [0, 1, 2])


def check_whole(http: httpx.Client, askers: list[Asker]) -> None:
    """Check that the model has all acknowledged updates, and at most one more of each client."""
    for asker in askers:
        while (last := asker.ask(http, len(asker.versions))) is None or last.status_code != 200:
            time.sleep(0.05)
        asker.versions.append(last.json()["version"])
    total = sum(len(asker.versions) for asker in askers)
    described = http.get("/models/m").json()
    assert (described["version"], described["n_examples"]) == (total, 2 * total)
    batches = [batch(asker.name, number) for asker in askers for number in range(len(asker.versions))]
    X, y = (np.concatenate([one[name] for one in batches]) for name in ("X", "y"))
    fresh = IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit(X, y).decision_function(PROBE)
    answer = http.post("/models/m/predict", json={"X": PROBE}).json()
    np.testing.assert_allclose(answer["decision"], fresh, rtol=0, atol=1e-6)
