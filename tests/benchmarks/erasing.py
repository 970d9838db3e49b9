"""Erasing 1,000 of 10,000 examples of 100 features from a running service while others predict and erase.

python -m tests.benchmarks.erasing [--examples 10000] [--erased 1000] [--features 100] [--classes 2] [--scale none]

With ``--models 10000``: erasures of one key after the other from a service that has so many models at rest.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.spec import ModelSpec
from tests.benchmarks.first_requests import processor_seconds
from tests.benchmarks.hosting import template
from tests.benchmarks.printing import machine
from tests.service.process import ServiceProcess
from tests.support.erasing import bytes_of_directory, places
from tests.support.many_stored import fill


def run(n: int, erased: int, width: int, classes: int, scale: str) -> None:
    """Print how long the erasure took, and the latency of predictions and of another erasure meanwhile."""
    rng = np.random.default_rng(2)
    X, y = _examples(rng, n, width, classes)
    keys = [f"person-{number:06d}" for number in range(n)]
    settings: dict[str, Any] = {"max_body_bytes": 2**28, "solve_seconds": 600, "cache_mb": 1024}
    with (
        tempfile.TemporaryDirectory() as directory,
        ServiceProcess(Path(directory), **settings) as service,
        Client(service.url, timeout=600) as client,
    ):
        client.create_model("m", C=1.0, kernel={"name": "rbf", "gamma": 1.0 / width}, scale=scale)
        began, used = time.perf_counter(), processor_seconds(service.pid)
        for start in range(0, n, 1000):
            part = slice(start, start + 1000)
            client.update("m", X[part], y[part], keys=keys[part])
        reported = client.model("m")
        free, bound = reported["n_free"], reported["n_bound"]
        took, used = time.perf_counter() - began, processor_seconds(service.pid) - used
        print(f"{machine()}\n{n} x {width} of {classes} classes, scale {scale}: learnt in {took:.1f} s", end="")
        print(f" ({used:.1f} s of processors), {free} free, {bound} at the bound")
        waits: list[float] = []
        done = threading.Event()
        others = [
            threading.Thread(target=_predict, args=(service.url, X[:5], done, waits)),
            threading.Thread(target=_erase_another, args=(service.url, keys[0])),
        ]
        gone = [keys[place] for place in 1 + rng.choice(n - 1, erased, replace=False)]
        others[0].start()
        began, used = time.perf_counter(), processor_seconds(service.pid)
        threading.Timer(0.05, others[1].start).start()
        answer = client.erase("m", gone)
        took, used = time.perf_counter() - began, processor_seconds(service.pid) - used
        done.set()
        for other in others:
            other.join()
        kept = bytes_of_directory(Path(directory))
        left = [key for key in gone[:50] if places(kept, key, X[keys.index(key)])]
        gap = answer["receipt"]["certificate"]["relative_gap"]
        print(
            f"{answer['removed']} erased in {took:.2f} s ({used:.2f} s of processors), relative gap {gap:.1e}", end=""
        )
        print(f", traces of {len(left)} of 50")
        print(f"{len(waits)} predictions meanwhile, the slowest took {1e3 * max(waits):.0f} ms")


def run_among(count: int) -> None:
    """Print how long each of some erasures takes that one of many models names, and one that none does."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "one").mkdir()
        snapshot, summary = template(place / "one")
        data = place / "data"
        data.mkdir()

        def spec(id: str) -> bytes:
            """Return the specification of one."""
            return HostedModel.encode_spec(ModelSpec(id=id, C=1.0))

        ids = fill(data / "livesvm.sqlite3", count, spec, snapshot, summary)
        with ServiceProcess(data, compile_ahead="false") as service, Client(service.url, timeout=3600) as client:
            print(f"{machine()}\n{count} models of 300 examples at rest")
            for number, model in enumerate((*ids[:4], None)):
                key = f"person-{number}"
                if model is not None:
                    client.update(model, [[0.1] * 20], [1], keys=[key])
                began, used = time.perf_counter(), processor_seconds(service.pid)
                try:
                    reported = f"{client.erase_everywhere([key])['removed']} erased"
                except ServiceProblem as problem:
                    reported = f"answered {problem.status}"
                took, used = time.perf_counter() - began, processor_seconds(service.pid) - used
                print(f"{reported} in {took:.2f} s ({used:.2f} s of processors)", flush=True)


def _examples(rng: np.random.Generator, n: int, width: int, classes: int) -> tuple[Any, Any]:
    """Return features (n, width), and labels -1 and 1, or words."""
    if classes == 2:
        signs = rng.choice([-1, 1], n)
        return rng.normal(size=(n, width)) + 0.25 * signs[:, None], signs
    y = rng.integers(0, classes, n)
    return rng.normal(size=(n, width)) + 0.25 * rng.normal(size=(classes, width))[y], np.array(
        [f"class {k}" for k in y]
    )


def _erase_another(url: str, key: str) -> None:
    """Ask for a second erasure, and say what came of it."""
    began = time.perf_counter()
    with Client(url, timeout=600) as client:
        try:
            reported = f"waited, and was done ({client.erase('m', [key])['removed']} erased)"
        except ServiceProblem as problem:
            reported = f"was refused: {problem}"
    print(f"a second erasure, asked for meanwhile, {reported} after {time.perf_counter() - began:.2f} s")


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
    parser.add_argument("--classes", type=int, default=2, help="-1 and 1, or so many words")
    parser.add_argument("--scale", default="none", help="of features")
    parser.add_argument("--models", type=int, default=0, help="erase among so many models instead")
    asked = parser.parse_args()
    if asked.models:
        run_among(asked.models)
        raise SystemExit
    run(asked.examples, asked.erased, asked.features, asked.classes, asked.scale)
