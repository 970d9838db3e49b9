"""What a call over REST costs next to its solve, and how many updates a second 20 models take from four clients.

    python -m tests.benchmarks.call_cost [--updates 300] [--seconds 10] [--many 20]

JSON over kept connections, the embedded store, every update with an ``Idempotency-Key``. One model of 1,300 examples
with 21 features takes 30 + 30 at a time: the median of what the client waits, less what the solver says it took. The
20 models have 300 examples and take 5 + 5. Then ``--many`` models are updated by one client with one row each, by a
call for each and by one call for all. Exits 1 if a call fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.client import Client
from tests.benchmarks.first_requests import processor_seconds
from tests.benchmarks.printing import machine
from tests.service.process import ServiceProcess

FEATURES = 21
MODELS = 20
CLIENTS = 4


def examples(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Draw ``n`` examples of two overlapping classes."""
    y = rng.choice([-1.0, 1.0], n)
    return rng.normal(size=(n, FEATURES)) + 0.3 * y[:, None], y


def body(rng: np.random.Generator, n: int) -> bytes:
    """Return an update that adds ``n`` examples; the window makes as many leave."""
    X, y = examples(rng, n)
    return json.dumps({"add": {"X": X.tolist(), "y": y.tolist()}}).encode()


def post(connection: http.client.HTTPConnection, path: str, data: bytes, media: str = "application/json") -> Any:
    """Return one call; raises SystemExit if it is refused."""
    headers = {"content-type": media}
    if path.endswith(("/update", "/updates")):
        headers["idempotency-key"] = uuid.uuid4().hex
    connection.request("POST", path, data, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path} was answered {answer.status}: {text[:200]!r}")
    return json.loads(text)


def make(client: Client, model: str, n: int) -> None:
    """Make a model with a full window of ``n`` examples."""
    client.create_model(model, C=1.0, kernel={"name": "rbf", "gamma": 1.0 / FEATURES}, window={"max_examples": n})
    client.update(model, *examples(np.random.default_rng(len(model)), n))


def alone(port: int, updates: int) -> dict[str, float]:
    """Return medians in ms: what an update costs next to its solve, that solve, and a prediction of one row."""
    rng = np.random.default_rng(0)
    bodies = [body(rng, 30) for _ in range(64)]
    row = json.dumps({"X": examples(rng, 1)[0].tolist()}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    beside, solves, predictions = [], [], []
    for number in range(updates + 20):
        began = time.perf_counter()
        answer = post(connection, "/models/window/update", bodies[number % 64])
        took = time.perf_counter() - began
        began = time.perf_counter()
        post(connection, "/models/window/predict", row)
        predicted = time.perf_counter() - began
        if number >= 20:
            beside.append(took - answer["seconds"])
            solves.append(answer["seconds"])
            predictions.append(predicted)
    parts = {"beside the solve": beside, "solve": solves, "one-row prediction": predictions}
    return {name: 1e3 * float(np.median(values)) for name, values in parts.items()}


def drive(port: int, lane: int, seconds: float, done: Any) -> None:
    """Update models in turn for so long, as one client."""
    rng = np.random.default_rng(lane)
    bodies = [body(rng, 5) for _ in range(64)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    models = [f"m{k}" for k in range(lane, MODELS, CLIENTS)]
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        post(connection, f"/models/{models[count % len(models)]}/update", bodies[count % 64])
        count += 1
    done.put(count)


def together(port: int, seconds: float) -> float:
    """Return how many updates a second there were."""
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Queue()
    clients = [spawn.Process(target=drive, args=(port, lane, seconds, done)) for lane in range(CLIENTS)]
    for client in clients:
        client.start()
    counts = [done.get(timeout=seconds + 120) for _ in clients]
    for client in clients:
        client.join()
    return float(sum(counts)) / seconds


def in_one_call(port: int, models: int, seconds: float) -> dict[str, float]:
    """Return the updates of one row a second by a call for each model and by one call for all, tried alternately."""
    rng = np.random.default_rng(0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    names = [f"m{k}" for k in range(models)]
    spent, done = {"a call each": 0.0, "one call": 0.0}, dict.fromkeys(("a call each", "one call"), 0)
    while min(spent.values()) < seconds:
        bodies = {name: body(rng, 1) for name in names}
        began = time.perf_counter()
        for name, data in bodies.items():
            post(connection, f"/models/{name}/update", data)
        spent["a call each"] += time.perf_counter() - began
        lines = b"\n".join(b'{"model":"%b",%b' % (name.encode(), data[1:]) for name, data in bodies.items())
        began = time.perf_counter()
        answer = post(connection, "/updates", lines, "application/x-ndjson")
        spent["one call"] += time.perf_counter() - began
        if any(one["status"] != 200 for one in answer["updates"]):
            raise SystemExit("an update was refused")
        done = {name: count + models for name, count in done.items()}
    return {name: done[name] / spent[name] for name in spent}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.call_cost", description=__doc__)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--many", type=int, default=MODELS, help="models that are updated in one call")
    asked = parser.parse_args(arguments)
    print(machine())
    with tempfile.TemporaryDirectory() as directory, ServiceProcess(Path(directory)) as service:
        port = int(service.url.rsplit(":", 1)[1])
        with Client(service.url) as client:
            make(client, "window", 1300)
            for k in range(max(MODELS, asked.many)):
                make(client, f"m{k}", 300)
        for name, milliseconds in alone(port, asked.updates).items():
            print(f"{name}: {milliseconds:.2f} ms")
        used = processor_seconds(service.pid)
        rate = together(port, asked.seconds)
        used = (processor_seconds(service.pid) - used) / (rate * asked.seconds)
        each = f"{1e3 * used:.2f} ms of processor time each"
        print(f"{MODELS} models, {CLIENTS} clients: {rate:.0f} updates a second, {each}")
        rates = in_one_call(port, asked.many, asked.seconds / 2)
        ratio = rates["one call"] / rates["a call each"]
        told = ", ".join(f"{rate:.0f} by {how}" for how, rate in rates.items())
        print(f"{asked.many} models, one client, one row each: {told}: {ratio:.1f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
