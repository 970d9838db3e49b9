"""Kill the service, and Redis, in the middle of a stream of readings, many times, and report.

    python -m tests.faults.feeds --kills 200 [--redis] [--seed 0]
    python -m tests.faults.feeds --readings 100000

A client sends a feed's readings, twelve to a call, each call under its own Idempotency-Key, and repeats one until it is
answered. Kills come at random moments and at the named points. After each the position tells what is lost or doubled;
at the end forecasts and scores are compared with a feed that was never troubled, and every model's certificate is
computed from its data.

With ``--readings`` there are no kills: so many are sent, and memory, disk, the gap and the size of the longest answers
are reported along the way; memory must not grow after a fifth of them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import httpx
import numpy as np

from livesvm.service.crash import POINTS, SNAPSHOT_POINTS
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import spec_of
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED, Stream, series
from tests.support.feeds import rows_of as readings

GAP = 1e-8
AGREE = 1e-6
"""By how much forecasts may differ, over the spread of the readings: each restart finds the same optima again."""
SIZE = 12
GROWTH = 1.1
"""Times the memory after a fifth of many readings: what it may be in the end."""


class Sender(Protocol):
    """A sender of calls."""

    http: httpx.Client
    calls: int

    def send(self, times: int = 1) -> dict[str, Any]:
        """Return the next calls; the last answer."""


@dataclass
class Campaign:
    """Kills of a service in the middle of calls.

    Parameters
    ----------
    stream : sends the calls
    repeated : sends the call again that was under way, and returns what is wrong then
    differences : returns what is not as it would be untroubled
    dies : share of starts at which the service is told to die at a named point
    most : how often a point may be passed first
    """

    stream: Sender
    repeated: Callable[[], list[str]]
    differences: Callable[[], list[str]]
    dies: float
    most: Callable[[str], int]

    def run(self, given: argparse.Namespace, path: str, spec: dict[str, Any], per_call: int) -> NoReturn:
        """Create what is asked for at a path, kill the service again and again, and report; ends with 1 for a fault.

        Parameters
        ----------
        per_call : readings of a call
        """
        chance, faults, times = random.Random(given.seed), list[str](), list[float]()
        stream = self.stream
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            settings: dict[str, Any] = {"snapshot_updates": 5, "compile_ahead": "false", "max_body_bytes": 2**20}
            redis = stack.enter_context(RedisServer(place / "redis")) if given.redis else None
            settings |= {} if redis is None else {"redis_url": redis.url, "lease_seconds": 1}
            service = stack.enter_context(ServiceProcess(place / "data", **settings))
            with service.http() as http:
                http.post(path, json=spec).raise_for_status()
            for kill in range(given.kills):
                with service.http() as stream.http:
                    self._until_killed(service, chance)
                if redis is not None and kill % 4 == 0:
                    redis.kill()
                    redis.start()
                service.settings.pop("crash_at", None)
                if chance.random() < self.dies:
                    point = chance.choice((*POINTS, *SNAPSHOT_POINTS))
                    service.settings["crash_at"] = f"{point}:{chance.randint(1, self.most(point))}"
                began = time.perf_counter()
                service.start()
                times.append(time.perf_counter() - began)
                faults += [f"kill {kill}: {fault}" for fault in self._looked_at(service)]
                if (kill + 1) % 20 == 0:
                    print(f"{kill + 1} kills, {per_call * stream.calls} readings, {len(faults)} faults", flush=True)
            service.settings.pop("crash_at", None)
            service.kill()
            service.start()
            with service.http() as stream.http:
                faults += self.differences()
        sent = f"{given.kills} kills, {stream.calls} calls, {per_call * stream.calls} readings"
        print(f"{sent}; start {np.median(times):.2f} s, worst {max(times):.2f} s; {len(faults)} faults")
        ended(faults)

    def _until_killed(self, service: ServiceProcess, chance: random.Random) -> None:
        """Send calls until a kill at a random moment, or until the service dies at the point it was started for."""
        late = chance.uniform(0.0, 0.6) if "crash_at" not in service.settings else 30.0
        timer = threading.Timer(late, service.kill)
        timer.start()
        try:
            while True:
                self.stream.send()
        except httpx.TransportError:
            pass
        finally:
            timer.cancel()
            timer.join()
        service.kill()

    def _looked_at(self, service: ServiceProcess) -> list[str]:
        """Return what is wrong after a start; one that dies at its point is started again, and looked at then."""
        crash_at = service.settings.pop("crash_at", None)
        try:
            with service.http() as self.stream.http:
                found = self.repeated()
        except httpx.TransportError:
            service.kill()
            service.start()
            with service.http() as self.stream.http:
                return self.repeated()
        if crash_at is not None:
            service.settings["crash_at"] = crash_at
        return found


def ended(faults: Sequence[str]) -> NoReturn:
    """Print what was wrong, and end with 1 if anything was."""
    for fault in faults:
        print("FAILED:", fault)
    sys.exit(bool(faults))


def repeated(stream: Stream) -> list[str]:
    """Send the call again that was under way; what is wrong then, if anything is."""
    before = int(stream.http.get("/feeds/load").json()["position"])
    if before not in (SIZE * (stream.calls - 1), SIZE * stream.calls):
        return [f"the feed has {before} readings, {SIZE * (stream.calls - 1)} were acknowledged"]
    now = stream.send_again()["position"]
    return [] if now == SIZE * stream.calls else [f"the feed has {now} readings, {SIZE * stream.calls} were sent"]


def untroubled(calls: int, size: int, spec: dict[str, Any]) -> Forecaster:
    """Return a feed that took the same calls in one go."""
    one, rows = Forecaster(spec_of(spec)), readings(series(size * calls))
    for begin in range(0, len(rows), size):
        one.observe(rows[begin : begin + size])
    return one


def differences(
    http: httpx.Client, calls: int, size: int = SIZE, spec: dict[str, Any] = FEED, feed: str = "load"
) -> list[str]:
    """Return what of the feed is not as it would be untroubled."""
    one, found = untroubled(calls, size, spec), []
    reported = http.get(f"/feeds/{feed}/forecast").json()["forecasts"]
    spread = float(np.std(series(size * calls)))
    for mine, other in zip(reported, one.latest, strict=True):
        found += [
            f"step {mine['step']}: {name} is {mine[name]}, not {getattr(other, name)}"
            for name in ("value", "low", "high")
            if abs(mine[name] - getattr(other, name)) > AGREE * spread
        ]
    for scores, mine in zip(one.scores, http.get(f"/feeds/{feed}").json()["scores"], strict=True):
        expected = scores.overall("value")
        errors = [one.get("mae", 0.0) for one in (mine, expected)]  # none while nothing has been scored
        if mine["n"] != expected["n"] or abs(errors[0] - errors[1]) > AGREE * spread:
            found.append(f"step {mine['step']}: scores {mine['n']}, {errors[0]} are not {expected}")
    gap = http.get(f"/feeds/{feed}/certificate").json()["relative_gap"]
    return [*found, *([f"the gap is {gap}"] if gap > GAP else [])]


def resident(pid: int) -> int:
    """Return bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(service: ServiceProcess, http: httpx.Client) -> tuple[int, float, str]:
    """Return the memory of a service, the gap of its feed, and these and more as a line."""
    memory, gap = resident(service.pid), float(http.get("/feeds/load/certificate").json()["relative_gap"])
    disk = sum(file.stat().st_size for file in service.data_dir.rglob("*") if file.is_file())
    longest = len(http.get("/feeds/load/history?limit=100000").content)
    sizes = f"{memory / 2**20:.1f} MB of memory, {disk / 2**20:.1f} MB on disk, history {longest / 2**20:.2f} MB"
    return memory, gap, f"{sizes}, gap {gap:.1e}"


def soak(total: int) -> list[str]:
    """Send so many readings to a feed with a window of 1,000 at most; what has grown that should not."""
    random, calls = np.random.default_rng(0), round(total / SIZE)
    noise = random.normal(size=(2, SIZE * calls))
    season = 3 * np.sin(2 * np.pi * np.arange(SIZE * calls) / 24)
    values = (10 + 0.1 * noise[0].cumsum() + season + 0.3 * noise[1]).tolist()
    marks = {round(calls * tenth / 10): tenth / 10 for tenth in range(1, 11)}
    found: list[tuple[int, float]] = []
    spec = {"id": "load", "target": "y", "every": "1h", "window": min(1000, max(40, total // 10))}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(ServiceProcess(place, compile_ahead="false"))
        http = stack.enter_context(service.http(timeout=120.0))
        http.post("/feeds", json=spec).raise_for_status()
        began = time.perf_counter()
        for call in range(calls):
            rows = [{"time": 3600 * i, "y": values[i]} for i in range(SIZE * call, SIZE * (call + 1))]
            http.post("/feeds/load/observations", json={"rows": rows}).raise_for_status()
            if call + 1 in marks:
                memory, gap, line = measured(service, http)
                found.append((memory, gap))
                pace = SIZE * (call + 1) / (time.perf_counter() - began)
                print(f"{marks[call + 1]:4.0%}: {line}, {pace:.0f} readings/s", flush=True)
    first, last, worst = found[0][0], found[-1][0], max(gap for _, gap in found)
    grown = [f"memory has grown from {first} to {last} bytes"] if last > GROWTH * first else []
    return grown + ([f"the gap is {worst}"] if worst > GAP else [])


def asked(kills: int, **more: int) -> argparse.ArgumentParser:
    """Return a parser of what is asked of a campaign: how many kills, and numbers by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", action="store_true", help="On Redis, which is killed every fourth time too.")
    for name, default in {"kills": kills, "seed": 0, **more}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


def main() -> None:
    """Run it; ends with 1 where a promise was broken."""
    parser = asked(200)
    parser.add_argument("--readings", type=int, help="Send so many, and look whether memory stays.")
    given = parser.parse_args()
    if given.readings is not None:
        grown = soak(given.readings)
        print("" if grown else "memory, and the gap, stay")
        ended(grown)
    stream = Stream(httpx.Client())
    campaign = Campaign(
        stream,
        lambda: repeated(stream),
        lambda: differences(stream.http, stream.calls),
        dies=0.5,
        most=lambda point: 2 if point in SNAPSHOT_POINTS else 6,
    )
    campaign.run(given, "/feeds", {"id": "load", **FEED}, SIZE)


if __name__ == "__main__":
    main()
