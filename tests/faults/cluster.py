"""Kill what models on Ray depend on, under load over many models, many times, and report.

    python -m tests.faults.cluster --kills 200 [--models 20] [--actors 4] [--nodes 3] [--seed 0] [--only node]

Each model has a client that sends one update after another, each under its own Idempotency-Key, to either of two front
ends, and repeats one until it is answered. Meanwhile an actor, all processes of a node, a front end or Redis is killed,
or a node is stopped until its actors are elsewhere, and comes back. The version in every answer tells what was lost or
applied twice; at the end each model is compared with one trained from nothing on what was acknowledged.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from livesvm.solvers import IncrementalSVC
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess, blobs
from tests.support.ray_cluster import RayCluster

SPEC: dict[str, Any] = {
    "C": 10.0,
    "kernel": {"name": "rbf", "gamma": 0.3},
    "n_features": 3,
    "window": {"max_examples": 60},
}
PROBE = np.random.default_rng(99).normal(size=(20, 3)).tolist()
PATIENCE = 180.0
AGREE = 1e-6
PAUSE_SECONDS = 0.2
"""Between two updates of one model."""


def rows(model: int, number: int) -> tuple[list[list[float]], list[int]]:
    """What the ``number``-th update of a model adds."""
    return blobs(np.random.default_rng([model, number]), 4)


@dataclass
class Client:
    """Who updates one model: when each update was acknowledged, and what was wrong with answers."""

    model: int
    fronts: Sequence[ServiceProcess]
    done: threading.Event
    moments: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/models/m{self.model}"

    def create(self) -> None:
        """Have the model made, by an actor that may have to be started first."""
        end = time.monotonic() + PATIENCE
        with self.fronts[0].http(PATIENCE) as http:
            while (answer := http.post("/models", json={"id": f"m{self.model}", **SPEC})).status_code not in (201, 409):
                if time.monotonic() > end:
                    answer.raise_for_status()

    def run(self) -> None:
        chosen = self.model
        while not self.done.wait(PAUSE_SECONDS):
            while not self.sent(self.fronts[chosen % 2]):
                chosen += 1
                time.sleep(0.05)

    def sent(self, front: ServiceProcess) -> bool:
        """Whether an update was acknowledged."""
        number = len(self.moments)
        X, y = rows(self.model, number)
        body = {"add": {"X": X, "y": y}}
        try:
            with httpx.Client(base_url=front.url, timeout=40.0, trust_env=False) as http:
                answer = http.post(f"{self.path}/update", json=body, headers={"idempotency-key": f"u{number}"})
        except (httpx.TransportError, httpx.InvalidURL):
            return False
        if answer.status_code != 200:
            if answer.status_code not in (429, 503):
                self.faults.append(f"{self.path}: update {number} was answered {answer.status_code}: {answer.text}")
            return False
        if (version := answer.json()["version"]) != number + 1:
            self.faults.append(f"{self.path}: update {number + 1} was acknowledged as version {version}")
        self.moments.append(time.monotonic())
        return True

    def check(self, http: httpx.Client) -> None:
        """Compare the model with one trained from nothing on what was acknowledged."""
        n = len(self.moments)
        if (version := http.get(self.path).json()["version"]) != n:
            self.faults.append(f"{self.path}: at version {version} after {n} updates")
        parts = [rows(self.model, number) for number in range(n)]
        X = np.concatenate([part[0] for part in parts])[-60:]
        y = np.concatenate([part[1] for part in parts])[-60:]
        expected = IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit(X, y).decision_function(PROBE)
        found = http.post(f"{self.path}/predict", json={"X": PROBE}).json()["decision"]
        if (off := float(np.abs(np.array(found) - expected).max())) > AGREE:
            self.faults.append(f"{self.path}: decisions are off by {off:.1e}")
        if (gap := http.get(f"{self.path}/certificate").json()["relative_gap"]) > 1e-8:
            self.faults.append(f"{self.path}: the gap is {gap:.1e}")


@dataclass
class Scene:
    """What can be killed."""

    cluster: RayCluster
    redis: RedisServer
    fronts: Sequence[ServiceProcess]
    chance: random.Random

    def actor(self) -> None:
        os.kill(self.chance.choice(self.cluster.actors()), signal.SIGKILL)

    def node(self) -> None:
        self.cluster.kill_node(self._one_with_actors())
        self.cluster.add_node()

    def front(self) -> None:
        front = self.chance.choice(self.fronts)
        front.kill()
        front.start()

    def store(self) -> None:
        self.redis.kill()
        time.sleep(self.chance.uniform(0.0, 1.0))
        self.redis.start()

    def stopped(self) -> None:
        """A node stands still until its actors are elsewhere, and then goes on."""
        node = self._one_with_actors()
        had = len(self.cluster.actors())
        self.cluster.raylets.remove(node)
        self.cluster.signal_node(node, signal.SIGSTOP)
        end = time.monotonic() + PATIENCE
        while len(self.cluster.actors()) < had and time.monotonic() < end:
            time.sleep(0.1)
        self.cluster.signal_node(node, signal.SIGCONT)
        self.cluster.add_node()

    def _one_with_actors(self) -> int:
        return self.chance.choice([node for node in self.cluster.raylets if self.cluster.actors(node)])


KINDS: dict[str, Callable[[Scene], None]] = {
    "actor": Scene.actor,
    "node": Scene.node,
    "front": Scene.front,
    "store": Scene.store,
    "stopped": Scene.stopped,
}


def seconds_until_all_answer(clients: Sequence[Client], since: float) -> list[float]:
    """Seconds from a moment to each model's next two acknowledged updates, as the first may have been under way."""
    end = time.monotonic() + PATIENCE
    found: list[float] = []
    for client in clients:
        while (after := sum(moment > since for moment in client.moments[-1000:])) < 2:
            if time.monotonic() > end:
                client.faults.append(f"{client.path}: no update was acknowledged for {PATIENCE:g} s")
                return [*found, PATIENCE]
            time.sleep(0.05)
        found.append(client.moments[-after] - since)
    return found


def main() -> int:
    """Run it; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--actors", type=int, default=4, help="that share the models; 0: one for each")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(KINDS))
    given = parser.parse_args()
    chance, done = random.Random(given.seed), threading.Event()
    took: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(place / "redis"))
        cluster = stack.enter_context(RayCluster(given.nodes))
        settings: dict[str, Any] = {"redis_url": redis.url, "ray": cluster.address, "ray_actors": given.actors}
        settings |= {"ray_actor_mb": 128, "compile_ahead": "false"}
        fronts = [stack.enter_context(ServiceProcess(place / f"front-{i}", **settings)) for i in range(2)]
        clients = [Client(model, fronts, done) for model in range(given.models)]
        for client in clients:
            client.create()
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        try:
            seconds_until_all_answer(clients, time.monotonic())
            scene = Scene(cluster, redis, fronts, chance)
            for number in range(given.kills):
                kind = given.only or list(KINDS)[number % len(KINDS)]
                time.sleep(chance.uniform(0.0, 0.5))
                since = time.monotonic()
                KINDS[kind](scene)
                took[kind].append(seconds_until_all_answer(clients, since))
                print(f"{number + 1} {kind}: {max(took[kind][-1]):.1f} s", flush=True)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        with fronts[0].http(PATIENCE) as http:
            for client in clients:
                with suppress(httpx.TransportError):
                    client.check(http)
        acknowledged = sum(len(client.moments) for client in clients)
    faults = [fault for client in clients for fault in client.faults]
    print(f"\n{given.models} models, {acknowledged} updates acknowledged, {len(faults)} faults")
    for kind, found in took.items():
        if found:
            slowest, each = [max(one) for one in found], [seconds for one in found for seconds in one]
            print(
                f"{kind}: {len(found)} times; all models answered after {np.median(slowest):.1f} s at the median, "
                f"{max(slowest):.1f} s at most; one model after {np.median(each):.2f} s at the median"
            )
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
