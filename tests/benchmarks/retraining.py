"""Predictions at a fixed rate on a model of a large window while that same model is retrained next to the service.

    python -m tests.benchmarks.retraining [--examples 50000] [--features 20] [--rate 100] [--limit 50]

The requests are sent at their appointed times whether or not earlier ones were answered, by a process of its own that
takes its share of the same cores; a latency counts from the appointed time. Predictions before, during the retraining,
and around the swap are distinguished. It exits 1 if a request fails, if an answer belongs to neither version, or if 99%
of the predictions under retraining are not under ``--limit`` milliseconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from livesvm.service.client import Client
from tests.benchmarks.printing import machine, table
from tests.service.process import ServiceProcess

UPDATE = 2000
"""Rows that are sent at once."""
CALM = 5.0
"""Seconds of predictions before the retraining, and after the swap."""


def examples(n: int, d: int) -> tuple[Any, Any]:
    """Return two overlapping classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n) > 0, 1, -1)


def predict(url: str, rate: float, row: list[float], over: Event, found: Queue[Any]) -> None:
    """Send predictions at their times until it is over; hand in (time sent, latency, status, version)."""
    place, seen, number, start = urlsplit(url), list[Any](), 0, time.monotonic()
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    body = json.dumps({"X": [row]}).encode()
    while not over.is_set():
        due = start + number / rate
        number += 1
        time.sleep(max(0.0, due - time.monotonic()))
        connection.request("POST", "/models/m/predict", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        reported = answer.read()
        version = json.loads(reported).get("version") if answer.status == 200 else None
        seen.append((due, time.monotonic() - due, answer.status, version))
    found.put(seen)


def measured(url: str, options: argparse.Namespace) -> tuple[list[Any], dict[str, float], dict[str, Any]]:
    """Return all predictions, when what happened, and the result of the retraining."""
    X, y = examples(options.examples, options.features)
    with Client(url, timeout=120) as client:
        client.create_model("m", task="l2svc", C=options.C, kernel={"name": "rbf", "gamma": 1 / options.features})
        for at in range(0, len(X), UPDATE):
            client.update("m", X[at : at + UPDATE], y[at : at + UPDATE])
        client.apply(client.wait(client.retrain("m", tol=1.0)["id"])["id"])
        over = multiprocessing.Event()
        found: Queue[Any] = multiprocessing.Queue()
        asking = multiprocessing.Process(target=predict, args=(url, options.rate, X[0].tolist(), over, found))
        asking.start()
        time.sleep(CALM)
        when = {"begin": time.monotonic()}
        job = client.wait(client.retrain("m", tol=options.tol, C=10 * options.C)["id"])
        when["end"] = time.monotonic()
        client.apply(job["id"])
        when["swapped"] = time.monotonic()
        time.sleep(CALM)
        over.set()
        seen = found.get()
        asking.join()
    return seen, when, job["result"]


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--limit", type=float, default=50.0)
    parser.add_argument("--tol", type=float, default=0.1)
    parser.add_argument("--C", type=float, default=1.0)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as place, ServiceProcess(Path(place), max_examples=options.examples) as service:
        seen, when, result = measured(service.url, options)
    print(
        f"{result['n_examples']} examples, {result['n_support']} support vectors, gap {result['relative_gap']:.2g}, "
        f"{result['seconds']:.1f} s in its process; {when['end'] - when['begin']:.1f} s for the job, "
        f"{when['swapped'] - when['end']:.2f} s for the swap"
    )
    parts = {
        "before": (0.0, when["begin"]),
        "retraining": (when["begin"], when["end"]),
        "swap": (when["end"], when["swapped"] + 0.5),
        "after": (when["swapped"] + 0.5, np.inf),
    }
    rows, p99 = list[list[str]](), dict[str, float]()
    for name, (start, end) in parts.items():
        latencies = [1e3 * latency for due, latency, _, _ in seen if start <= due < end]
        if latencies:
            p99[name] = float(np.percentile(latencies, 99))
            reported = (float(np.median(latencies)), p99[name], max(latencies))
            rows.append([name, str(len(latencies)), *(f"{value:.1f}" for value in reported)])
    print(table(["predictions", "number", "median ms", "p99 ms", "worst ms"], rows))
    failed = sum(status != 200 for _, _, status, _ in seen)
    versions = sorted({version for *_, version in seen})
    print(f"{failed} of {len(seen)} failed; versions that answered: {versions}")
    return int(failed > 0 or len(versions) != 2 or p99["retraining"] > options.limit)


if __name__ == "__main__":
    sys.exit(main())
