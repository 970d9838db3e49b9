"""kill -9 in the middle of erasing: a restart ends what was begun, and nothing of the erased remains."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.crash import DATASET_POINTS, ERASE_POINTS
from livesvm.service.receipts.receipt import names, verified
from livesvm.service.store.sqlite import DATABASE
from tests.support.erasing import KEYS, SPEC, data, keeping, lived, places, without
from tests.support.jobs_over_rest import awaited

pytestmark = pytest.mark.alone(reason="crash points end an actor alone; the campaign of kills over Ray kills those")

GONE = [KEYS[0], KEYS[1], KEYS[7], KEYS[33]]
"""The first has left the window before."""


def points() -> Iterator[Any]:
    """Yield every point on both stores; by default each on one of them."""
    for number, point in enumerate((*ERASE_POINTS, *DATASET_POINTS)):
        for other, store in enumerate(("sqlite", "redis")):
            marks = [pytest.mark.slow] if (number + other) % 2 else []
            yield pytest.param(point, store, marks=marks, id=f"{point}-{store}")


@pytest.mark.parametrize(("point", "store"), list(points()))
def test_killed_in_the_middle(point: str, store: str, tmp_path: Path) -> None:
    with keeping(store, tmp_path, crash_at=point) as (process, everything):
        with process as service, service.http() as http:
            X, y = lived(http)
            before = http.get("/models/m").json()["version"]
            with pytest.raises(httpx.TransportError):
                http.post("/models/m/erase", json={"keys": GONE}, headers={"idempotency-key": "officer"})
            assert service.wait() == -9
        process.settings["crash_at"] = ""
        with process as service, service.http() as http:
            for indices in GONE:
                assert places(everything(), indices, X[KEYS.index(indices)]) == set()
            assert http.get("/models/m").json()["version"] == before + 1
            assert http.get("/datasets/theirs").json()["n_examples"] == len(KEYS) - len(GONE)
            assert len(list((tmp_path / "data" / "datasets").iterdir())) == 1
            probe = data(30, seed=8)[0]
            decision = http.post("/models/m/predict", json={"X": probe}).json()["decision"]
            wanted = without(X, y, KEYS, GONE).decision_function(np.array(probe))
            np.testing.assert_allclose(decision, wanted, rtol=0, atol=1e-8)
            kept = http.get("/receipts").json()["receipts"]
            assert len(kept) == 1
            assert (kept[0]["version_before"], kept[0]["version_after"]) == (before, before + 1)
            assert all(names(kept[0], indices) for indices in GONE)
            verified(http.get("/receipts").content[len(b'{"receipts":[') : -len(b"]}")])
            assert service.stop() == 0
            if store == "sqlite":
                with closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as db:
                    assert db.execute("SELECT count(*) FROM documents WHERE kind = 'erasing'").fetchone() == (0,)
            else:
                assert b"erasing:" not in everything()["{livesvm}:documents"]
        with process as service, service.http() as http:
            again = {"add": {"X": X[10:20], "y": y[10:20], "keys": KEYS[10:20]}}
            headers = {"idempotency-key": f"of {KEYS[10]}"}
            assert http.post("/models/m/update", json=again, headers=headers).json()["added"] == KEYS[10:20]
            retry = http.post("/models/m/erase", json={"keys": GONE}, headers={"idempotency-key": "officer"})
            assert retry.json()["receipt"] == kept[0]
            assert http.post("/models/m/erase", json={"keys": GONE}).status_code == 404
            service.kill()
        with process as service, service.http() as http:
            assert http.get("/models/m").json()["version"] == before + 1


class Life:
    """A model whose clients add, remove, restore, checkpoint, ask for jobs and erase, and a service that is killed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows: dict[str, tuple[list[float], int]] = {}
        self.erased: dict[str, list[float]] = {}
        self.window: list[str] = []
        self.count = 0

    def step(self, http: httpx.Client) -> None:
        """Make one call, whose effect is known when this returns."""
        verb = self.rng.choice(["add", "add", "add", "remove", "checkpoint", "job", "back", "erase"])
        if verb == "add" or len(self.window) < 12:
            self.add(http)
        elif verb == "remove":
            gone = self.some(2)
            self.send(http, "update", {"remove": {"keys": gone}})
            self.window = [key for key in self.window if key not in gone]
        elif verb == "checkpoint":
            http.post("/models/m/checkpoint").raise_for_status()
        elif verb == "job":
            awaited(http, http.post("/models/m/assessment", json={"method": "k-fold", "folds": 2}).json()["id"])
        elif verb == "back":
            self.send(http, "restore", {"version": http.get("/models/m").json()["version"]})
        else:
            self.erase(http)

    def add(self, http: httpx.Client) -> None:
        y = self.rng.choice([-1, 1], 5)
        X = self.rng.normal(size=(5, 3)) + y[:, None]
        keys = [f"somebody-{self.count + number}!" for number in range(5)]
        self.count += 5
        self.send(http, "update", {"add": {"X": X.tolist(), "y": y.tolist(), "keys": keys}})
        self.rows |= dict(zip(keys, zip(X.tolist(), y.tolist(), strict=True), strict=True))
        self.window += keys

    def send(self, http: httpx.Client, call: str, body: dict[str, Any]) -> None:
        self.count += 1
        headers = {"idempotency-key": f"call {self.count}"}
        http.post(f"/models/m/{call}", json=body, headers=headers).raise_for_status()

    def some(self, count: int) -> list[str]:
        return [str(key) for key in self.rng.choice(self.window, count, replace=False)]

    def choose(self) -> list[str]:
        """Choose a key of the window, and one that left it before."""
        left = [key for key in self.rows if key not in self.window and key not in self.erased]
        return self.some(2) + left[:1]

    def erase(self, http: httpx.Client, gone: list[str] | None = None) -> None:
        gone = self.choose() if gone is None else gone
        http.post("/models/m/erase", json={"keys": gone}).raise_for_status()
        self.are_erased(gone)

    def are_erased(self, gone: list[str]) -> None:
        self.erased |= {key: self.rows[key][0] for key in gone}
        self.window = [key for key in self.window if key not in gone]

    def check(self, http: httpx.Client, everything: dict[str, bytes]) -> None:
        for key, x in self.erased.items():
            assert places(everything, key, x) == set()
        X, y = zip(*(self.rows[key] for key in self.window), strict=True)
        probe = self.rng.normal(size=(20, 3)).tolist()
        decision = http.post("/models/m/predict", json={"X": probe}).json()["decision"]
        wanted = without(X, y, self.window, []).decision_function(np.array(probe))
        np.testing.assert_allclose(decision, wanted, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_over_a_life_with_kills(store: str, tmp_path: Path) -> None:
    life = Life(11)
    with keeping(store, tmp_path, snapshot_updates=4) as (process, everything):
        with process as service, service.http() as http:
            http.post("/models", json=SPEC).raise_for_status()
            for _ in range(20):
                life.step(http)
            service.kill()
        for cycle, point in enumerate(life.rng.permutation(ERASE_POINTS)[:3]):
            process.settings["crash_at"] = f"{point}:{1 + cycle % 2}"
            with process as service, service.http() as http:
                life.check(http, everything())
                _erase_until_killed(life, http)
                assert service.wait() == -9
            process.settings["crash_at"] = ""
            with process as service, service.http() as http:
                life.check(http, everything())
                for _ in range(5):
                    life.step(http)
                service.kill()
        process.settings["crash_at"] = ""
        with process as service, service.http() as http:
            life.check(http, everything())
            life.erase(http)
            life.check(http, everything())


def _erase_until_killed(life: Life, http: httpx.Client) -> None:
    """Add and erase until the service dies of it."""
    while True:
        life.add(http)
        gone = life.choose()
        try:
            life.erase(http, gone)
        except httpx.TransportError:
            life.are_erased(gone)  # it had begun
            return


@pytest.mark.parametrize("store", ["sqlite", pytest.param("redis", marks=pytest.mark.slow)])
def test_killed_when_a_model_is_deleted_and_its_jobs_are_not(store: str, tmp_path: Path) -> None:
    with keeping(store, tmp_path, crash_at="deleted") as (process, everything):
        with process as service, service.http() as http:
            X, _ = lived(http)
            jobs = http.get("/jobs").json()["jobs"]
            assert {job["model"] for job in jobs} >= {"m"}
            with pytest.raises(httpx.TransportError):
                http.delete("/models/m")
            assert service.wait() == -9
        assert places(of_jobs(everything()), KEYS[5], X[5])
        process.settings["crash_at"] = ""
        with process as service, service.http() as http:
            assert http.get("/models/m").status_code == 404
            assert "m" not in {job["model"] for job in http.get("/jobs").json()["jobs"]}
            assert of_jobs(everything()) == {}


def of_jobs(everything: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of jobs."""
    return {name: found for name, found in everything.items() if "jobs/" in name}
