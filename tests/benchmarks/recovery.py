"""From `kill -9` to serving again, for one large model on each of the two stores; and what a log append costs.

    python -m tests.benchmarks.recovery [--examples 10000] [--features 100] [--shift 0.3] [--flip 0.0] [--C 1.0]

A recovery counts from the start of the process to the first prediction that the model answers with every acknowledged
update in it; readiness is asked for as a load balancer does, by its URL. The log has a tail of updates since the newest
snapshot, which are replayed; after one that took long a snapshot is written at once, for which ``--rest`` gives time.
CPU is what the process has used by then, which other work on the machine hardly changes.
It exits 1 if a recovery or an append is slower than its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from livesvm.service.store.base import Store
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from tests.benchmarks.printing import duration, machine, table
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess

FILL = 1000
"""Examples in each update that fills the window."""
TAIL = 10
"""Updates since the newest snapshot, of as many examples each."""
RECORD_BYTES = 4096
"""Of an appended record: about five examples with a hundred features."""


@dataclass
class Recovery:
    """Seconds from the start of the process until each stage, one entry a crash."""

    store: str
    n_free: int = 0
    n_support: int = 0
    ready: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def line(self) -> list[str]:
        """Return one line of the table."""
        return [
            self.store,
            str(self.n_free),
            str(self.n_support),
            str(len(self.served)),
            *(duration(float(np.median(found))) for found in (self.processor, self.ready, self.served)),
            duration(max(self.served)),
        ]


@dataclass(frozen=True)
class Problem:
    """Two classes whose means are ``2 * shift`` apart in each of ``d`` features, a share of labels flipped.

    ``rest`` is how many seconds after the last update the service is killed.
    """

    n: int
    d: int
    shift: float
    flip: float
    C: float
    rest: float = 0.0

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Draw ``n`` examples."""
        y = rng.choice([-1.0, 1.0], n)
        X = rng.normal(size=(n, self.d)) + self.shift * y[:, None]
        return X, np.where(rng.random(n) < self.flip, -y, y)


def fill(http: httpx.Client, rng: np.random.Generator, problem: Problem) -> None:
    """Create the model, fill its window, write a snapshot, and add the tail."""
    kernel, window = {"name": "rbf", "gamma": 1.0 / problem.d}, {"max_examples": problem.n}
    http.post("/models", json={"id": "m", "C": problem.C, "kernel": kernel, "window": window}).raise_for_status()
    for size in [FILL] * (problem.n // FILL):
        update(http, problem.draw(rng, size))
    http.post("/models/m/checkpoint").raise_for_status()
    for _ in range(TAIL):
        update(http, problem.draw(rng, TAIL))


def update(http: httpx.Client, drawn: tuple[Any, Any]) -> None:
    """Learn more examples."""
    X, y = drawn
    http.post("/models/m/update", json={"add": {"X": X.tolist(), "y": y.tolist()}}).raise_for_status()


def processor_seconds(pid: int) -> float:
    """Return seconds that a process has kept processors busy with."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def start(service: ServiceProcess, rows: list[list[float]]) -> tuple[float, float, dict[str, Any]]:
    """Start the service; seconds until it says by its URL that it is ready, and until a prediction; the prediction."""
    began = time.monotonic()
    service.start()
    with service.http() as http:
        while http.get("/health/ready").status_code != 200:
            time.sleep(0.005)
        ready = time.monotonic() - began
        answer = http.post("/models/m/predict", json={"X": rows}).raise_for_status().json()
        return ready, time.monotonic() - began, answer


def recover(name: str, directory: Path, problem: Problem, crashes: int, **settings: object) -> Recovery:
    """Fill a model, then kill the service and start it, again and again."""
    found = Recovery(name)
    rng = np.random.default_rng(0)
    rows = problem.draw(rng, 1)[0].tolist()
    service = ServiceProcess(directory, None, max_body_bytes=64 * 2**20, **settings)
    with service, service.http(timeout=600.0) as http:
        fill(http, rng, problem)
        before = http.post("/models/m/predict", json={"X": rows}).json()
        described = http.get("/models/m").json()
        found.n_free, found.n_support = described["n_free"], described["n_support"]
        time.sleep(problem.rest)
        service.kill()
    for _ in range(crashes):
        ready, served, answer = start(service, rows)
        if answer["version"] != before["version"] or not np.allclose(answer["decision"], before["decision"], atol=1e-6):
            raise RuntimeError(f"another model came back: {json.dumps(answer)} instead of {json.dumps(before)}")
        found.ready.append(ready)
        found.served.append(served)
        found.processor.append(processor_seconds(service.pid))
        service.kill()
    return found


def appends(store: Store, number: int) -> list[float]:
    """Return seconds of each of ``number`` appends to the log of one model."""
    lease = store.create("appends", b"")
    taken = []
    with closing(store):
        for sequence in range(1, number + 1):
            began = time.perf_counter()
            store.append(lease, sequence, bytes(RECORD_BYTES), None, keep=1)
            taken.append(time.perf_counter() - began)
    return taken


def append_line(name: str, taken: list[float]) -> list[str]:
    """Return one line of the table."""
    return [name, str(len(taken)), *(duration(float(np.quantile(taken, q))) for q in (0.5, 0.99, 1.0))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--shift", type=float, default=0.3, help="of the classes; less makes more support vectors")
    parser.add_argument("--flip", type=float, default=0.0, help="share of labels that are wrong")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds from the last update to the first crash")
    parser.add_argument("--crashes", type=int, default=5)
    parser.add_argument("--appends", type=int, default=5000)
    parser.add_argument("--recovery-limit", type=float, default=3.0, help="seconds that every recovery may take")
    parser.add_argument("--append-limit", type=float, default=0.002, help="seconds of 99%% of appends on everysec")
    options = parser.parse_args(arguments)
    problem = Problem(options.examples, options.features, options.shift, options.flip, options.C, options.rest)
    print(machine())
    with ExitStack() as stack:
        places = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3)]
        always = stack.enter_context(RedisServer(places[1] / "always"))
        everysec = stack.enter_context(RedisServer(places[1] / "everysec", appendfsync="everysec"))
        costs = {
            "Redis, everysec": appends(RedisStore(everysec.url, "benchmark"), options.appends),
            "Redis, always": appends(RedisStore(always.url, "benchmark"), options.appends),
            "SQLite": appends(SqliteStore(places[0] / "appends.sqlite3"), options.appends),
        }
        print(table(["append", "number", "median", "99%", "largest"], [append_line(*row) for row in costs.items()]))
        recoveries = [
            recover("SQLite", places[0] / "data", problem, options.crashes),
            recover(
                "Redis, always", places[2], problem, options.crashes, redis_url=always.url, redis_prefix="recovery"
            ),
        ]
        header = ["recovery", "n_free", "n_support", "crashes", "CPU", "ready", "first answer", "slowest"]
        print(table(header, [recovery.line() for recovery in recoveries]))
    slow = max(max(recovery.served) for recovery in recoveries) > options.recovery_limit
    return int(slow or float(np.quantile(costs["Redis, everysec"], 0.99)) > options.append_limit)


if __name__ == "__main__":
    sys.exit(main())
