"""What other clients see of one client's hard update, and of a kill in the middle of it.

    python -m tests.faults.besides [--seconds 15] [--rows 20000] [--crashes 2]

A service with its default settings, on two cores, is sent one update of random rows that takes minutes to solve (rbf,
gamma = 2, C = 1e8), again whenever it has been answered. Next to it, another model is updated (2 in, the 2 oldest out,
n = 1,000), predicts one row at fixed times, and the control plane is asked for what never should wait. Then the busy
model is deleted, twice at once; then the service is killed in the middle of such an update, and each other model is
asked for a prediction from the start of the process on. A path over as many rows is asked for and cancelled, in every
part of it. It exits 1 if a promise does not hold.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.benchmarks.printing import machine, table
from tests.benchmarks.recovery import processor_seconds
from tests.contract.redis_server import free_port
from tests.faults.promises import Calls, Verdict, peak_megabytes, repeat, reported, within
from tests.service.process import ServiceProcess

FEATURES = 10
EXAMPLES = 1000
OTHERS = {"small": "svc", "svr": "svr", "oneclass": "oneclass"}
"""The models that are not busy, and what they learn."""
CALL_SECONDS = 10.0
"""After which a call counts as stuck."""
UNDER_WAY_SECONDS = 3.0
"""After which a hard update is surely being solved."""
RESTING_CORES = 0.3
"""A service that uses less is solving nothing."""


# What is sent.


def packed(**members: Any) -> bytes:
    """Return an npz file."""
    stream = io.BytesIO()
    np.savez(stream, **members)
    return stream.getvalue()


def hard_update(rows: int) -> bytes:
    """Random rows with random labels."""
    rng = np.random.default_rng(0)
    return packed(X=rng.normal(size=(rows, FEATURES)), y=rng.choice([-1.0, 1.0], rows))


def examples(rng: np.random.Generator, n: int, task: str) -> dict[str, Any]:
    """Return examples that are easy to learn."""
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, FEATURES)) + 0.5 * y[:, None]
    return {"X": X} if task == "oneclass" else {"X": X, "y": y}


def post_npz(http: httpx.Client, model: str, body: bytes) -> httpx.Response:
    """Return one update."""
    return http.post(f"/models/{model}/update", content=body, headers={"content-type": "application/x-npz"})


def create(http: httpx.Client, model: str, task: str, n: int, **spec: Any) -> None:
    """Create a model with ``n`` examples."""
    http.post("/models", json={"id": model, "task": task, **spec}).raise_for_status()
    body = packed(**examples(np.random.default_rng(n), n, task))
    post_npz(http, model, body).raise_for_status()


def predict(http: httpx.Client, model: str) -> httpx.Response:
    """Return one row."""
    return http.post(f"/models/{model}/predict", json={"X": [[0.1] * FEATURES]})


# What is measured.


def measure(service: ServiceProcess, seconds: float) -> dict[str, Calls]:
    """Return every kind of call at once, each in a thread of its own."""
    rng = np.random.default_rng(1)

    def add_and_remove() -> dict[str, Any]:
        """Return two in, two out."""
        return {name: column.tolist() for name, column in examples(rng, 2, "svc").items()}

    with service.http(CALL_SECONDS) as http, ThreadPoolExecutor(8) as pool:
        kinds: dict[str, tuple[float, Callable[[], httpx.Response]]] = {
            "update 2 + 2": (
                0.1,
                lambda: http.post("/models/small/update", json={"add": add_and_remove(), "remove": {"oldest": 2}}),
            ),
            "predict, one row": (0.02, lambda: predict(http, "small")),
            "certificate": (1.0, lambda: http.get("/models/small/certificate")),
            "GET /models": (0.5, lambda: http.get("/models")),
            "GET /models/busy": (0.5, lambda: http.get("/models/busy")),
            "GET /metrics": (0.5, lambda: http.get("/metrics")),
            "GET versions": (0.5, lambda: http.get("/models/busy/versions")),
            "create and delete": (1.0, lambda: _create_and_delete(http)),
        }
        running = [pool.submit(repeat, Calls(name), call, every, seconds) for name, (every, call) in kinds.items()]
        return {calls.name: calls for calls in (one.result() for one in running)}


def _create_and_delete(http: httpx.Client) -> httpx.Response:
    http.post("/models", json={"id": "brief", "C": 1.0})  # it may be there from a call that was given up
    return http.delete("/models/brief")


@contextmanager
def busy(service: ServiceProcess, body: bytes, answers: list[str]) -> Iterator[None]:
    """Keep a hard update under way; ``answers`` gets what came back."""
    leave = threading.Event()

    def keep() -> None:
        """Post, and post again."""
        with service.http(timeout=3600.0) as http:
            while not leave.wait(0.1):
                began = time.monotonic()
                with suppress(httpx.HTTPError):  # a kill ends it too
                    answer = post_npz(http, "busy", body)
                    answers.append(f"{answer.status_code} after {time.monotonic() - began:.1f} s")
                    if answer.status_code == httpx.codes.NOT_FOUND:
                        return

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    time.sleep(UNDER_WAY_SECONDS)
    yield
    leave.set()


def delete_busy(service: ServiceProcess) -> tuple[float, float, float]:
    """Return seconds until the busy model is deleted, the list's time meanwhile, and then until no solve runs."""
    with service.http(CALL_SECONDS) as http, ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        deletions = [pool.submit(http.delete, "/models/busy") for _ in range(2)]
        time.sleep(0.2)
        listed = repeat(Calls("list"), lambda: http.get("/models"), 0.02, 0.1).quantile(1.0)
        statuses = []
        for deletion in deletions:
            with suppress(httpx.HTTPError):
                statuses.append(deletion.result().status_code)
    deleted = time.monotonic() - began if httpx.codes.NO_CONTENT in statuses else np.inf
    return deleted, listed, until_it_rests(service)


def until_it_rests(service: ServiceProcess) -> float:
    """Return seconds until the service uses next to nothing of its cores."""
    began = time.monotonic()
    while (before := time.monotonic()) < began + 2 * CALL_SECONDS:
        used = processor_seconds(service.pid)
        time.sleep(0.5)
        if (processor_seconds(service.pid) - used) / (time.monotonic() - before) < RESTING_CORES:
            return before - began
    return np.inf


def first_predictions(service: ServiceProcess, models: Sequence[str], patience: float) -> dict[str, float]:
    """Start the service; seconds from the start until each model predicts."""
    began = time.monotonic()
    service.launch()

    def until_it_predicts(model: str) -> float:
        """Ask again and again."""
        with service.http(CALL_SECONDS) as http:
            while time.monotonic() < began + patience:
                with suppress(httpx.HTTPError):
                    predict(http, model).raise_for_status()
                    return time.monotonic() - began
                time.sleep(0.02)
        return np.inf

    with ThreadPoolExecutor(len(models)) as pool:
        return dict(zip(models, pool.map(until_it_predicts, models), strict=True))


def on_two_cores() -> None:
    """Leave a new process two of the cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def cancellations(service: ServiceProcess, options: argparse.Namespace) -> list[Verdict]:
    """Ask for a regularization path over many rows and cancel it, each time later; how long each takes to end."""
    given = {name: column.tolist() for name, column in examples(np.random.default_rng(0), options.rows, "svc").items()}
    found = []
    with service.http(timeout=60.0) as http:
        for seconds in options.cancel_after:
            asked = http.post("/models/small/regularization-path", json={"data": given}).raise_for_status().json()
            time.sleep(seconds)
            job = http.get(f"/jobs/{asked['id']}").json()
            began = time.monotonic()
            http.delete(f"/jobs/{job['id']}").raise_for_status()
            while (state := http.get(f"/jobs/{job['id']}").json()["state"]) == "running":
                time.sleep(0.005)
            found.append(time.monotonic() - began if state == "cancelled" else np.inf)
            print(f"job cancelled after {seconds:g} s, {job['state']} at {job['progress']:.1%}: {reported(found[-1])}")
    return [within(f"path over {options.rows} rows, from DELETE to cancelled, slowest", max(found), 1.0)]


# The whole.


def besides(service: ServiceProcess, options: argparse.Namespace) -> list[Verdict]:
    """Measure at rest, next to a hard update, and at its deletion."""
    header = ["call", "number", "failed", "median", "99%", "largest"]
    print("\nat rest:\n" + table(header, [calls.line() for calls in measure(service, options.seconds / 3).values()]))
    answers: list[str] = []
    with busy(service, hard_update(options.rows), answers):
        found = measure(service, options.seconds)
        print("\nbeside a hard update:\n" + table(header, [calls.line() for calls in found.values()]))
        deleted, listed, rested = delete_busy(service)
    print(f"\nhard updates answered meanwhile: {', '.join(answers) or 'none'}")
    print(f"most memory: {peak_megabytes(service.pid):.0f} MB")
    asked = ("GET /models", "GET /models/busy", "GET /metrics", "GET versions")
    control = max(found[name].quantile(1.0) for name in asked)
    return [
        within("update of 2 + 2 on another model, median", found["update 2 + 2"].quantile(0.5), 1.0),
        within("one-row prediction, 99%", found["predict, one row"].quantile(0.99), 0.1),
        within("list, describe, metrics, versions, slowest", control, options.control_limit),
        within("certificate of another model, median", found["certificate"].quantile(0.5), options.control_limit),
        within("two DELETEs of the busy model at once", deleted, options.control_limit),
        within("GET /models meanwhile", listed, options.control_limit),
        within("then nothing is solved any more", rested, options.control_limit),
    ]


@contextmanager
def started(directory: Path, settings: dict[str, str]) -> Iterator[ServiceProcess]:
    """Yield a service with the models that shall not notice, and the busy one."""
    with ServiceProcess(directory, on_two_cores, port=free_port(), **settings) as service:
        with service.http(timeout=60.0) as http:
            for model, task in OTHERS.items():
                create(http, model, task, EXAMPLES, kernel={"name": "rbf", "gamma": 1.0 / FEATURES})
            create(http, "busy", "svc", 50, C=1e8, kernel={"name": "rbf", "gamma": 2.0})
        yield service


def crashes(service: ServiceProcess, options: argparse.Namespace) -> list[Verdict]:
    """Kill the service in the middle of a hard update, and again while it recovers; time the predictions."""
    with busy(service, hard_update(options.rows), []):
        service.kill()
    verdicts = []
    for number in range(1, options.crashes + 1):
        found = first_predictions(service, [*OTHERS, "busy"], options.patience)
        last = found.pop("busy")
        print(f"\ncrash {number}: " + ", ".join(f"{model} {reported(seconds)}" for model, seconds in found.items()))
        print(f"the busy one as it was before: {reported(last)}; {described(service)}")
        verdicts.append(within(f"crash {number}: every other model predicts", max(found.values()), 5.0))
        service.kill()
    return verdicts


def described(service: ServiceProcess) -> str:
    """Return what the service says of the busy model."""
    with service.http(CALL_SECONDS) as http:
        try:
            seen = http.get("/models/busy").raise_for_status().json()
        except httpx.HTTPError as error:
            return f"not described: {str(error).splitlines()[0]}"
        return f"state {seen['state']}, {seen['n_examples']} examples, version {seen['version']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure once and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="of measuring beside the hard update")
    parser.add_argument("--rows", type=int, default=20_000, help="of the hard update")
    parser.add_argument("--crashes", type=int, default=2)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for models after a start")
    parser.add_argument("--control-limit", type=float, default=5.0, help="seconds that control may take")
    parser.add_argument("--cancel-after", type=float, nargs="+", default=[0.1, 1, 5, 15, 40], help="seconds of a job")
    parser.add_argument("--setting", action="append", default=[], help="such as solve_seconds=5; may be repeated")
    options = parser.parse_args(arguments)
    settings = dict(setting.split("=", 1) for setting in options.setting)
    print(machine())
    verdicts = []
    for part in (besides, cancellations, crashes):
        with tempfile.TemporaryDirectory() as directory, started(Path(directory), settings) as service:
            verdicts += part(service, options)
    print("\n" + table(["promise", "seen", "holds"], [verdict.line() for verdict in verdicts]))
    return int(not all(verdict.holds for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
