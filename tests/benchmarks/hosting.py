"""How many models one service hosts, and what each costs: awake, at rest, at a start, and when a call wakes it.

    python -m tests.benchmarks.hosting [--count 1000] [--stored 100000] [--parts made stored killed pace] [--redis]

``made``: models of 300 x 20 that were just made, and the same once they are at rest; threads. ``feeds``: the same of
feeds with a window of 500. ``stored``: so many at rest, whose store is written directly; a list, the metrics, a call
that wakes one, and a storm of calls to more of them than a small memory holds. ``killed``: from `kill -9` to ready, and
to an answer of a model. ``pace``: updates of one row, 20 models, 4 clients. Memory is resident, above an empty service.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from livesvm.service.history.journal import Source
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.registry import Registry
from livesvm.service.models.spec import ModelSpec
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.models.change import Batch, Change
from tests.benchmarks.printing import duration, machine, table
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.many_stored import fill

N, D = 300, 20
STORM_MB = 700
CLIENTS = 4
Row = list[str]


def examples(seed: int, n: int = N) -> tuple[Any, Any]:
    """Return two overlapping classes, (n, D) and (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    return rng.normal(size=(n, D)) + 0.4 * y[:, None], y


def resident(pid: int) -> float:
    """Return megabytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def threads(pid: int) -> int:
    """Return threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def update(http: httpx.Client, model: str, seed: int, n: int, **more: Any) -> None:
    """Add examples."""
    X, y = examples(seed, n)
    http.post(f"/models/{model}/update", json={"add": {"X": X.tolist(), "y": y.tolist()}, **more}).raise_for_status()


def predict(http: httpx.Client, model: str) -> float:
    """Return seconds of a prediction."""
    began = time.perf_counter()
    http.post(f"/models/{model}/predict", json={"X": [[0.1] * D]}).raise_for_status()
    return time.perf_counter() - began


def answered(http: httpx.Client, path: str) -> None:
    """Get an answer."""
    http.get(path).raise_for_status()


def replicas(http: httpx.Client) -> dict[str, float]:
    """Return how many are awake, and at rest."""
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith("livesvm_replicas{")]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}


def until_at_rest(http: httpx.Client) -> None:
    """Wait until nothing is awake."""
    while replicas(http)["awake"]:
        time.sleep(0.5)


@contextmanager
def serving(place: Path, **settings: object) -> Iterator[tuple[ServiceProcess, httpx.Client]]:
    """Yield a service, and a client of it."""
    service = ServiceProcess(place, None, page="false", compile_ahead="false", **settings)
    service.waits_for_models = False
    with service, service.http() as http:
        http.timeout = httpx.Timeout(300.0)
        yield service, http


def made(count: int, place: Path, create: Callable[[httpx.Client, int], None], **settings: object) -> list[Row]:
    """Memory and threads of what was just made, and of the same at rest."""
    rows = []
    with serving(place, rest_seconds=15.0, **settings) as (service, http):
        create(http, count)  # what the first of a kind loads
        before = resident(service.pid)
        began = time.perf_counter()
        for number in range(count):
            create(http, number)
        took = time.perf_counter() - began
        time.sleep(3.0)
        each = (resident(service.pid) - before) / count
        rows.append([f"{count} just made, in {took:.0f} s", f"{each:.3f} MB each", f"{threads(service.pid)} threads"])
        until_at_rest(http)
        time.sleep(2.0)
        at_rest = resident(service.pid)
        each = 1024 * (at_rest - before) / count
        rows.append(["the same at rest", f"{each:.1f} KB each", f"{threads(service.pid)} threads"])
        for number in range(count + 1, 2 * count + 1):  # the heap that the first ones have left is there already
            create(http, number)
        until_at_rest(http)
        time.sleep(2.0)
        each = 1024 * (resident(service.pid) - at_rest) / count
        rows.append([f"{count} more at rest", f"{each:.1f} KB each", f"{threads(service.pid)} threads"])
    return rows


def _model(http: httpx.Client, number: int) -> None:
    http.post("/models", json={"id": f"m{number:06}", "C": 1.0}).raise_for_status()
    update(http, f"m{number:06}", number, N)


def _feed(http: httpx.Client, number: int) -> None:
    rng = np.random.default_rng(number)
    http.post("/feeds", json={"id": f"f{number}", "target": "y", "window": 500, "steps": [1, 24]}).raise_for_status()
    hours = np.arange(600)
    y = np.sin(hours / 24 * 2 * np.pi) + 0.2 * rng.normal(size=600)
    rows = [{"time": float(3600 * hour), "y": float(value)} for hour, value in zip(hours, y, strict=True)]
    http.post(f"/feeds/f{number}/observations", json={"rows": rows}).raise_for_status()


def template(place: Path) -> tuple[bytes, bytes]:
    """Return a snapshot and a summary of a model as the service stores them."""
    store, metrics = SqliteStore(place / "store"), Metrics()
    registry = Registry(Context(Settings(), Source(store, Health(metrics), metrics), SolveScheduler(1)))
    model = registry.models.create("m000000", ModelSpec(C=1.0))
    model.update(Change(Batch(*examples(0))), None).result()
    found = model.current.encode(), model._summarize()
    registry.stop()
    store.close()
    return found


def stored(count: int, place: Path) -> list[Row]:
    """Memory, lists and calls where so many are at rest."""
    (place / "one").mkdir()
    snapshot, summary = template(place / "one")
    with serving(place / "empty") as (service, http):
        time.sleep(2.0)
        empty = resident(service.pid)
    data = place / "data"
    data.mkdir()

    def spec(id: str) -> bytes:
        """Return the specification of one."""
        return HostedModel.encode_spec(ModelSpec(id=id, C=1.0))

    ids = fill(data / "livesvm.sqlite3", count, spec, snapshot, summary)
    rng = np.random.default_rng(0)
    rows = []
    began = time.perf_counter()
    with serving(data) as (service, http):
        ready = time.perf_counter() - began
        first = predict(http, ids[count // 2])
        rows.append([f"{count} stored: start to ready", duration(ready), f"first answer after {duration(first)} more"])
        time.sleep(2.0)
        each = resident(service.pid) - empty
        rows.append(["resident above an empty service", f"{each:.0f} MB", f"{1024 * each / count:.2f} KB each"])
        paths = "/models", f"/models?after={ids[count // 2]}", "/metrics", "/health/ready"
        rows += [[path, duration(median(partial(answered, http, path))), ""] for path in paths]
        some = [ids[i] for i in rng.choice(count, 200, replace=False)]
        waking = np.median([predict(http, id_) for id_ in some])
        awake = np.median([predict(http, id_) for id_ in some])
        rows.append(["a prediction that wakes", duration(waking), f"awake {duration(awake)}"])
    with serving(data, memory_mb=STORM_MB) as (service, http):
        rows.append(storm(service, ids[: min(count, 5000)]))
    return rows


def storm(service: ServiceProcess, ids: Sequence[str]) -> Row:
    """Call more models than memory holds, from several clients at once."""
    statuses: list[int] = []

    def call(mine: Sequence[str]) -> None:
        """Predict by each."""
        with service.http() as http:
            answers = (http.post(f"/models/{id_}/predict", json={"X": [[0.1] * D]}) for id_ in mine)
            statuses.extend(answer.status_code for answer in answers)

    began = time.perf_counter()
    in_threads([partial(call, ids[k::CLIENTS]) for k in range(CLIENTS)])
    took = time.perf_counter() - began
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    memory = f"{resident(service.pid):.0f} MB resident"
    return [f"{len(ids)} called once with {STORM_MB} MB", f"{len(ids) / took:.0f} a second", f"{counts}, {memory}"]


def killed(count: int, place: Path, **settings: object) -> list[Row]:
    """Measure from the kill of a service that had changed all of its models."""
    with serving(place, **settings) as (service, http):
        for number in range(count):
            _small(http, number)
        service.kill()
    began = time.perf_counter()
    with serving(place, **settings) as (service, http):
        ready = time.perf_counter() - began
        predict(http, f"k{count // 2}")
        first = time.perf_counter() - began
        slowest = max(predict(http, f"k{number}") for number in np.linspace(0, count - 1, 20, dtype=int))
        while "still being restored" in http.get("/health/ready").text:
            time.sleep(0.05)
        every = time.perf_counter() - began
    reported = f"to an answer {duration(first)}, others {duration(slowest)} at most, all back {duration(every)}"
    return [[f"kill -9, {count} models: to ready", duration(ready), reported]]


def _small(http: httpx.Client, number: int) -> None:
    http.post("/models", json={"id": f"k{number}", "C": 1.0}).raise_for_status()
    update(http, f"k{number}", number, 60)


def pace(place: Path, **settings: object) -> list[Row]:
    """Return how many updates of one row a second there were: 20 models, 4 clients."""
    seconds = 10.0
    with serving(place, **settings) as (service, http):
        for number in range(20):
            _model(http, number)
        counts = [0] * CLIENTS
        end = time.perf_counter() + seconds

        def slide(lane: int) -> None:
            """Slide one row in and the oldest out, model after model."""
            with service.http() as mine:
                while time.perf_counter() < end:
                    model = f"m{(lane + CLIENTS * counts[lane]) % 20:06}"
                    update(mine, model, counts[lane], 1, remove={"oldest": 1})
                    counts[lane] += 1

        in_threads([partial(slide, lane) for lane in range(CLIENTS)])
        return [["updates of one row, 20 models, 4 clients", f"{sum(counts) / seconds:.0f} a second", ""]]


def in_threads(work: Sequence[Callable[[], None]]) -> None:
    """Do all of it at once."""
    running = [threading.Thread(target=one) for one in work]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def median(work: Callable[[], object], repeats: int = 9) -> float:
    """Return the median of so many times."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--stored", type=int, default=100_000)
    parser.add_argument("--feeds", type=int, default=60)
    parser.add_argument("--parts", nargs="+", default=["made", "feeds", "stored", "killed", "pace"])
    parser.add_argument("--redis", action="store_true", help="for the parts killed and pace")
    options = parser.parse_args(arguments)
    print(machine(), flush=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, object] = {}
        if options.redis:
            settings["redis_url"] = stack.enter_context(RedisServer(place / "redis")).url
        parts: dict[str, Callable[[Path], list[Row]]] = {
            "made": lambda here: made(options.count, here, _model),
            "feeds": lambda here: made(options.feeds, here, _feed),
            "stored": lambda here: stored(options.stored, here),
            "killed": lambda here: killed(options.count, here, **settings),
            "pace": lambda here: pace(here, **settings),
        }
        for name in options.parts:
            (place / name).mkdir()
            print(table([name, "", ""], parts[name](place / name)), flush=True)
            print(json.dumps({"part": name}), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
