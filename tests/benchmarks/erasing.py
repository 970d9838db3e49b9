"""Erasing 1,000 of 10,000 examples of 100 features from a running service while others predict.

python -m tests.benchmarks.erasing [--examples 10000] [--erased 1000] [--features 100]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.client import Client
from tests.service.process import ServiceProcess
from tests.support.erasing import bytes_of_directory, places


def run(n: int, erased: int, width: int) -> None:
    """Print how long the erasure took, and what those who predict saw of it."""
    rng = np.random.default_rng(2)
    y = rng.choice([-1, 1], n)
    X = rng.normal(size=(n, width)) + 0.25 * y[:, None]
    keys = [f"person-{number:06d}" for number in range(n)]
    settings: dict[str, Any] = {"max_body_bytes": 2**28, "solve_seconds": 600, "cache_mb": 1024}
    with (
        tempfile.TemporaryDirectory() as directory,
        ServiceProcess(Path(directory), **settings) as service,
        Client(service.url, timeout=600) as client,
    ):
        client.create_model("m", C=1.0, kernel={"name": "rbf", "gamma": 1.0 / width})
        began = time.perf_counter()
        for start in range(0, n, 1000):
            part = slice(start, start + 1000)
            client.update("m", X[part], y[part], keys=keys[part])
        told = client.model("m")
        free, bound = told["n_free"], told["n_bound"]
        print(f"{n} learnt in {time.perf_counter() - began:.1f} s, {free} free, {bound} at the bound")
        waits: list[float] = []
        done = threading.Event()
        watcher = threading.Thread(target=_predict, args=(service.url, X[:5], done, waits))
        watcher.start()
        gone = [keys[place] for place in rng.choice(n, erased, replace=False)]
        began = time.perf_counter()
        answer = client.erase("m", gone)
        took = time.perf_counter() - began
        done.set()
        watcher.join()
        kept = bytes_of_directory(Path(directory))
        left = [key for key in gone[:50] if places(kept, key, X[keys.index(key)])]
        gap = answer["receipt"]["certificate"]["relative_gap"]
        print(f"{answer['removed']} erased in {took:.2f} s, relative gap {gap:.1e}, traces of {len(left)} of 50")
        print(f"{len(waits)} predictions meanwhile, the slowest took {1e3 * max(waits):.0f} ms")


def _predict(url: str, X: Any, done: threading.Event, waits: list[float]) -> None:
    with Client(url) as client:
        while not done.is_set():
            began = time.perf_counter()
            client.predict("m", X)
            waits.append(time.perf_counter() - began)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.erasing", description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--erased", type=int, default=1000)
    parser.add_argument("--features", type=int, default=100)
    asked = parser.parse_args()
    run(asked.examples, asked.erased, asked.features)
