"""The first request of its kind after a start, against the tenth: nothing may be imported or compiled late.

    python -m tests.benchmarks.first_requests [--starts 3] [--limit 3]

Each start is a process of its own in which one task is asked for one kind of request ten times, on a connection that
is open already. Updates have the same size each time, in a full window. The ratio is that of the processor
time that the service spends, which other work on the machine hardly changes, against the median of the requests from
the sixth to the tenth; medians over the starts. It exits 1 if a ratio is above ``--limit``.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from livesvm.service.models.arrays import Matrix
from tests.benchmarks.printing import duration, machine, table
from tests.service.process import ServiceProcess, blobs

CPUCLOCK_SCHED = 2
"""Which clock of another process Linux is asked for: the one of clock_getcpuclockid(3)."""
REPEATS = 10
LATER = 5
EXAMPLES = 10
"""Of each update."""
WINDOW = 60
RBF = {"name": "rbf", "gamma": 0.3}
MODELS: dict[str, dict[str, Any]] = {
    "svc": {"task": "svc", "C": 10.0, "kernel": RBF},
    "svc, linear": {"task": "svc", "C": 1.0, "kernel": {"name": "linear"}},
    "svr": {"task": "svr", "C": 10.0, "epsilon": 0.1, "kernel": RBF},
    "svr, pinball": {"task": "svr", "C": 10.0, "loss": "pinball", "quantile": 0.8, "kernel": RBF},
    "oneclass": {"task": "oneclass", "nu": 0.2, "kernel": RBF},
}
"""What is created; every window is bounded."""


def batch(task: str, number: int) -> dict[str, Any]:
    """Return the ``number``-th batch of a task, under keys of its own."""
    X, y = blobs(np.random.default_rng(WINDOW + number), EXAMPLES)
    keys = [f"{number}-{row}" for row in range(EXAMPLES)]
    return {"X": X, "keys": keys} if task == "oneclass" else {"X": X, "y": y, "keys": keys}


def newest(number: int) -> list[str]:
    """Return keys of three examples that the batch before added."""
    return [f"{number - 1}-{row}" for row in range(3)]


def edits(task: str, number: int) -> dict[str, dict[str, Any]]:
    """Return the verbs next to adding, as the ``number``-th update."""
    keys = newest(number)
    found: dict[str, dict[str, Any]] = {
        "remove": {"remove": {"keys": keys}},
        "reweight": {"reweight": {"keys": keys, "weights": [0.5 + number % 2] * 3}},
        "decay": {"decay": 0.9},
    }
    if task != "oneclass":
        found["relabel"] = {"relabel": {"keys": keys, "y": [1 - 2 * (number % 2)] * 3}}
        found["C"] = {"C": 5.0 + number % 2}
    return found


Ask = Callable[[httpx.Client, int], httpx.Response]


def asks(model: dict[str, Any]) -> dict[str, Ask]:
    """Return every kind of request to a model, as a function of a client and of how often it was asked before."""
    task = model["task"]

    def update(body: dict[str, Any]) -> Ask:
        return lambda http, number: http.post("/models/m/update", json=body)

    def edit(verb: str) -> Ask:
        def ask(http: httpx.Client, number: int) -> httpx.Response:
            return http.post("/models/m/update", json={"add": batch(task, number), **edits(task, number)[verb]})

        return ask

    found: dict[str, Ask] = {
        "update": lambda http, number: http.post("/models/m/update", json={"add": batch(task, number)}),
        "predict": lambda http, number: http.post("/models/m/predict", json={"X": batch(task, number)["X"]}),
        "certificate": lambda http, number: http.get("/models/m/certificate"),
        "describe": lambda http, number: http.get("/models/m"),
        "metrics": lambda http, number: http.get("/metrics"),
    }
    return found | {verb: edit(verb) for verb in edits(task, 0)}


def prepare(directory: Path, model: dict[str, Any]) -> None:
    """Store a model whose window is full."""
    with ServiceProcess(directory) as service, service.http() as http:
        http.post("/models", json={"id": "m", "window": {"max_examples": WINDOW}, **model}).raise_for_status()
        for number in range(-WINDOW // EXAMPLES - 1, 0):
            http.post("/models/m/update", json={"add": batch(model["task"], number)}).raise_for_status()
        service.stop()


def processor_seconds(pid: int) -> float:
    """Return seconds that a process has kept processors busy with, by all threads it has or has had."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def measure(directory: Path, ask: Ask) -> list[tuple[float, float]]:
    """Return (seconds, processor seconds of the service) of each of ten requests after a start."""
    taken = []
    with ServiceProcess(directory) as service, service.http() as http:
        http.get("/health/live").raise_for_status()
        for number in range(REPEATS):
            began, used = time.perf_counter(), processor_seconds(service.pid)
            ask(http, number).raise_for_status()
            taken.append((time.perf_counter() - began, processor_seconds(service.pid) - used))
    return taken


def compare(name: str, model: dict[str, Any], starts: int) -> Iterator[tuple[str, str, Matrix]]:
    """Return (model, request, (2, 2): seconds and processor seconds of the first and a later one, medians)."""
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place) / "filled", model)
        for kind, ask in asks(model).items():
            taken = []
            for start in range(starts):
                directory = Path(place) / f"{kind} {start}"
                shutil.copytree(Path(place) / "filled", directory)
                taken.append(measure(directory, ask))
            times = np.array(taken)  # (starts, requests, 2)
            yield name, kind, np.median([times[:, 0], np.median(times[:, LATER:], axis=1)], axis=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every kind of request and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3.0)
    parser.add_argument("--only", default="", help="the models whose name begins so")
    options = parser.parse_args(arguments)
    gc.disable()  # in the middle of a request it would take as long as several of them
    chosen = {name: model for name, model in MODELS.items() if name.startswith(options.only)}
    found = [row for name, model in chosen.items() for row in compare(name, model, options.starts)]
    ratios = [times[0] / times[1] for *_, times in found]  # of time, of processor time
    rows = [
        [name, kind, *map(duration, times.ravel().tolist()), *(f"{r:.1f}" for r in ratio.tolist())]
        for (name, kind, times), ratio in zip(found, ratios, strict=True)
    ]
    print(machine())
    print(table(["model", "request", "first", "its CPU", "later", "its CPU", "ratio", "ratio of CPU"], rows))
    return int(max(ratio[1] for ratio in ratios) > options.limit)


if __name__ == "__main__":
    sys.exit(main())
