"""Predictions at a fixed rate on one model while two others are updated without pause, over loopback.

    python -m tests.benchmarks.service_load [--rate 200] [--seconds 10] [--examples 500] [--features 20] [--batch 30]

The requests are sent at their appointed times whether or not earlier ones were answered, and a latency counts from
the appointed time, so that a stall is seen by every request that fell into it. The clients run in processes of their
own and take their share of the same cores. It exits 1 if anything fails or if 99% of the predictions are not under
``--limit``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.client import Client
from tests.benchmarks.printing import duration, machine, table
from tests.service.process import ServiceProcess

LANES = 8
"""Connections that share the predictions."""


@dataclass(frozen=True)
class Load:
    """What is asked of the service."""

    rate: float
    seconds: float
    examples: int
    features: int
    batch: int
    rows: int


def examples(rng: np.random.Generator, n: int, d: int) -> tuple[Any, Any]:
    """Draw ``n`` examples of two overlapping classes."""
    y = rng.choice([-1.0, 1.0], n)
    return rng.normal(size=(n, d)) + 0.3 * y[:, None], y


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    """Return one call; its status and its answer."""
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def predict_lane(lane: int, port: int, load: Load, start: float, found: list[tuple[float, int]]) -> None:
    """Send every ``LANES``-th prediction at its time; note (latency, status)."""
    rng = np.random.default_rng(lane)
    bodies = [json.dumps({"X": examples(rng, load.rows, load.features)[0].tolist()}).encode() for _ in range(16)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for number in range(lane, int(load.rate * load.seconds), LANES):
        due = start + number / load.rate
        time.sleep(max(0.0, due - time.monotonic()))
        status, _ = post(connection, "/models/read/predict", bodies[number % 16])
        found.append((time.monotonic() - due, status))
    connection.close()


def predict(port: int, load: Load, start: float, results: Queue[Any]) -> None:
    """Send the predictions, in a process of its own."""
    found: list[tuple[float, int]] = []
    lanes = [threading.Thread(target=predict_lane, args=(k, port, load, start, found)) for k in range(LANES)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    results.put(("predict", found))


def slide(model: str, port: int, load: Load, start: float, results: Queue[Any]) -> None:
    """Update one model, one update after the other: a batch in, the oldest out."""
    rng = np.random.default_rng(len(model))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    found: list[tuple[float, int]] = []
    time.sleep(max(0.0, start - time.monotonic()))
    while time.monotonic() < start + load.seconds:
        X, y = examples(rng, load.batch, load.features)
        body = json.dumps({"add": {"X": X.tolist(), "y": y.tolist()}}).encode()
        sent = time.monotonic()
        status, _ = post(connection, f"/models/{model}/update", body)
        found.append((time.monotonic() - sent, status))
    connection.close()
    results.put((model, found))


def prepare(url: str, load: Load) -> None:
    """Create the three models and fill their windows."""
    rng = np.random.default_rng(0)
    with Client(url) as client:
        for model in ("read", "write-a", "write-bb"):
            kernel = {"name": "rbf", "gamma": 1.0 / load.features}
            client.create_model(model, C=1.0, kernel=kernel, window={"max_examples": load.examples})
            client.update(model, *examples(rng, load.examples, load.features))
        for _ in range(20):
            client.predict("read", examples(rng, load.rows, load.features)[0])


def run(load: Load) -> dict[str, list[tuple[float, int]]]:
    """Return (latency, status) of every call, by its sender."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory, ServiceProcess(Path(directory)) as service:
        prepare(service.url, load)
        port = int(service.url.rsplit(":", 1)[1])
        results: Queue[Any] = spawn.Queue()
        start = time.monotonic() + 4.0  # the processes are up by then
        processes = [spawn.Process(target=predict, args=(port, load, start, results))]
        processes += [
            spawn.Process(target=slide, args=(model, port, load, start, results)) for model in ("write-a", "write-bb")
        ]
        for process in processes:
            process.start()
        found = dict(results.get(timeout=load.seconds + 60) for _ in processes)
        for process in processes:
            process.join()
        return found


def report(name: str, found: list[tuple[float, int]]) -> list[str]:
    """Return one line of the table."""
    latencies = np.array([latency for latency, _ in found])
    errors = sum(status != 200 for _, status in found)
    quantiles = [duration(float(np.quantile(latencies, q))) for q in (0.5, 0.9, 0.99, 1.0)]
    return [name, str(len(found)), str(errors), *quantiles]


def main() -> int:
    """Run once and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200.0, help="predictions a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--examples", type=int, default=500, help="in each window")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--batch", type=int, default=30, help="examples that each update adds, and that leave")
    parser.add_argument("--rows", type=int, default=1, help="of each prediction")
    parser.add_argument("--limit", type=float, default=0.020, help="seconds that 99%% of the predictions may take")
    options = vars(parser.parse_args())
    limit = options.pop("limit")
    load = Load(**options)
    found = run(load)
    print(machine())
    print(load)
    print(
        table(
            ["calls", "number", "errors", "median", "90%", "99%", "largest"],
            [report(name, calls) for name, calls in sorted(found.items())],
        )
    )
    failed = any(status != 200 for calls in found.values() for _, status in calls)
    p99 = float(np.quantile([latency for latency, _ in found["predict"]], 0.99))
    return int(failed or p99 > limit)


if __name__ == "__main__":
    sys.exit(main())
