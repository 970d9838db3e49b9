"""What Ray adds to an update and to a prediction; and how many sleeping models a cluster on this machine holds.

    python -m tests.benchmarks.cluster [--rounds 5] [--updates 100]
    python -m tests.benchmarks.cluster --simulate 1000 [--nodes 20] [--actors 20]

The first compares, alternately and on one Redis that writes every update through, a service that holds its model itself
with front ends of a cluster of one node, of which one predicts by a copy and the other by the actor. Medians; run it on
a machine that does nothing else. The second creates models without updates, and times creation, lists, metrics and
a node that is drained.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from livesvm.client import Client
from tests.benchmarks.call_cost import alone, make
from tests.benchmarks.first_requests import processor_seconds
from tests.benchmarks.printing import machine
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import RayCluster

EXAMPLES = 300
MEGABYTE = 2**20
PATIENCE = 600.0
CALLS = 20


@contextmanager
def services(nodes: int, **settings: Any) -> Iterator[tuple[RayCluster, dict[str, ServiceProcess]]]:
    """Yield a service by itself, and two front ends of one cluster."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(place / "redis"))
        cluster = stack.enter_context(RayCluster(nodes))
        on_ray = {"redis_url": redis.url, "ray": cluster.address, "compile_ahead": "false", **settings}
        chosen: dict[str, dict[str, Any]] = {
            "by itself": {"redis_url": redis.url, "redis_prefix": "alone", "compile_ahead": "false"},
            "Ray, predicts by a copy": on_ray,
            "Ray, predicts by the actor": {**on_ray, "ray_predictions": "actor"},
        }
        yield (
            cluster,
            {name: stack.enter_context(ServiceProcess(place / name, **each)) for name, each in chosen.items()},
        )


def compare(rounds: int, updates: int) -> None:
    """Print the medians of each, over all rounds, and what Ray adds."""
    with services(1) as (_, made):
        for name in ("by itself", "Ray, predicts by a copy"):
            with Client(made[name].url) as client:
                make(client, "window", EXAMPLES)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in made}
        for _ in range(rounds):
            for name, service in made.items():
                found[name].append(alone(int(service.url.rsplit(":", 1)[1]), updates))
    medians = {name: {k: float(np.median([one[k] for one in all_])) for k in all_[0]} for name, all_ in found.items()}
    base = medians["by itself"]
    for name, numbers in medians.items():
        reported = ", ".join(f"{what} {value:.2f} ms ({value - base[what]:+.2f})" for what, value in numbers.items())
        print(f"{name}: {reported}")


def simulate(models: int, nodes: int, actors: int) -> None:
    """Print what it takes to create, list and scrape so many models."""
    settings = {"ray_actors": actors, "ray_actor_mb": 64, "max_models": 2 * models, "metrics_models": 50}
    settings["ray_seconds"] = 600  # so many actors take a while to start on one machine
    with services(nodes, **settings) as (cluster, made):
        first, second = made["Ray, predicts by a copy"], made["Ray, predicts by the actor"]
        with first.http(PATIENCE) as http, second.http(PATIENCE) as other:
            began = time.perf_counter()
            took = np.array([created(http, f"m{number}") for number in range(models)])
            middle, most = 1e3 * float(np.median(took)), took.max()
            print(
                f"created: {models} in {time.perf_counter() - began:.1f} s; one in {middle:.1f} ms at the median, "
                f"{most:.1f} s at most, where an actor had to start"
            )
            print(f"known to the other front end: {until_live(other, models):.2f} s later", flush=True)
            for path in ("/models", "/metrics", "/models/m0", "/health/ready"):
                before = processor_seconds(first.pid)
                took = 1e3 * np.array([timed(http, path) for _ in range(CALLS)])
                busy = 1e3 * (processor_seconds(first.pid) - before) / CALLS
                print(f"GET {path}: {np.median(took):.1f} ms; {busy:.1f} ms of the front end's processor", flush=True)
            pids = {"front end": [first.pid], "actors": cluster.actors()}
            used = {name: sum(processor_seconds(pid) for pid in group) for name, group in pids.items()}
            time.sleep(10.0)
            for name, group in pids.items():
                cores = (sum(processor_seconds(pid) for pid in group) - used[name]) / 10.0
                print(
                    f"{name}: {len(group)}, {cores:.3f} cores at rest, {memory(group) / MEGABYTE:.0f} MB of their own",
                    flush=True,
                )
            print(f"a node drained: its models live elsewhere {drained(cluster, http, models):.1f} s later")


def until_live(http: httpx.Client, models: int) -> float:
    """Return seconds until a front end says of so many models that they are live."""
    began = time.perf_counter()
    while len(live := [m for m in http.get("/models").json()["models"] if m["state"] == "live"]) < models:
        if time.perf_counter() - began > PATIENCE:
            raise SystemExit(f"of {models} models {len(live)} are live")
        time.sleep(0.1)
    return time.perf_counter() - began


def drained(cluster: RayCluster, http: httpx.Client, models: int) -> float:
    """Return seconds from draining a node with models until its actors are elsewhere, and all models are live."""
    left = next(raylet for raylet in cluster.raylets if cluster.actors(raylet))
    had, began = len(cluster.actors()), time.perf_counter()
    cluster.drain(left)
    while cluster.actors(left) or len(cluster.actors()) < had:
        if time.perf_counter() - began > PATIENCE:
            raise SystemExit("the node was not left")
        time.sleep(0.1)
    until_live(http, models)
    return time.perf_counter() - began


def created(http: httpx.Client, model: str) -> float:
    """Return seconds of making a model."""
    began = time.perf_counter()
    http.post("/models", json={"id": model, "C": 1.0}).raise_for_status()
    return time.perf_counter() - began


def timed(http: httpx.Client, path: str) -> float:
    """Return seconds of one request."""
    began = time.perf_counter()
    http.get(path).raise_for_status()
    return time.perf_counter() - began


def memory(pids: list[int]) -> int:
    """Return the private bytes of processes."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--simulate", type=int, default=0, metavar="MODELS")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--actors", type=int, default=20)
    asked = parser.parse_args(arguments)
    print(machine(), flush=True)
    if asked.simulate:
        simulate(asked.simulate, asked.nodes, asked.actors)
    else:
        compare(asked.rounds, asked.updates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
