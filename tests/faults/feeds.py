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
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

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

    def send(self, times: int = 1) -> dict[str, Any]:
        """Return the next calls; the last answer."""


def until_killed(service: ServiceProcess, stream: Sender, chance: random.Random) -> None:
    """Send calls until a kill at a random moment, or until the service dies at the point that it was started for."""
    late = chance.uniform(0.0, 0.6) if "crash_at" not in service.settings else 30.0
    timer = threading.Timer(late, service.kill)
    timer.start()
    try:
        while True:
            stream.send()
    except httpx.TransportError:
        pass
    finally:
        timer.cancel()
        timer.join()
    service.kill()


def restarted(service: ServiceProcess, chance: random.Random) -> None:
    """Start the service again, now and then so that it dies at a named point."""
    service.settings.pop("crash_at", None)
    if chance.random() < 0.5:
        point = chance.choice((*POINTS, *SNAPSHOT_POINTS))
        service.settings["crash_at"] = f"{point}:{chance.randint(1, 2 if point in SNAPSHOT_POINTS else 6)}"
    service.start()


def repeated(http: httpx.Client, stream: Stream) -> str | None:
    """Send the call again that was under way; what is wrong then, if anything is."""
    before = int(http.get("/feeds/load").json()["position"])
    if before not in (SIZE * (stream.calls - 1), SIZE * stream.calls):
        return f"the feed has {before} readings, {SIZE * (stream.calls - 1)} were acknowledged"
    now = stream.send_again()["position"]
    return None if now == SIZE * stream.calls else f"the feed has {now} readings, {SIZE * stream.calls} were sent"


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


def main() -> None:
    """Run it; ends with 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--redis", action="store_true", help="On Redis, which is killed every fourth time too.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readings", type=int, help="Send so many, and look whether memory stays.")
    given = parser.parse_args()
    if given.readings is not None:
        grown = soak(given.readings)
        print("\n".join(f"FAILED: {one}" for one in grown) or "memory, and the gap, stay")
        sys.exit(bool(grown))
    chance, faults, times = random.Random(given.seed), [], []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, Any] = {"snapshot_updates": 5, "compile_ahead": "false", "max_body_bytes": 2**20}
        redis = None
        if given.redis:
            redis = stack.enter_context(RedisServer(place / "redis"))
            settings |= {"redis_url": redis.url, "lease_seconds": 1}
        service = stack.enter_context(ServiceProcess(place / "data", **settings))
        with service.http() as http:
            http.post("/feeds", json={"id": "load", **FEED}).raise_for_status()
        with service.http() as http:
            stream = Stream(http)
        for kill in range(given.kills):
            with service.http() as stream.http:
                until_killed(service, stream, chance)
            if redis is not None and kill % 4 == 0:
                redis.kill()
                redis.start()
            began = time.perf_counter()
            restarted(service, chance)
            times.append(time.perf_counter() - began)
            crash_at = service.settings.pop("crash_at", None)
            with service.http() as stream.http:
                try:
                    fault = repeated(stream.http, stream)
                except httpx.TransportError:  # it died at its point: the next round asks
                    fault = None
                    service.kill()
                    service.start()
                    with service.http() as stream.http:
                        fault = repeated(stream.http, stream)
                else:
                    if crash_at is not None:
                        service.settings["crash_at"] = crash_at
            if fault is not None:
                faults.append(f"kill {kill}: {fault}")
            if (kill + 1) % 20 == 0:
                print(f"{kill + 1} kills, {SIZE * stream.calls} readings, {len(faults)} faults", flush=True)
        service.settings.pop("crash_at", None)
        service.kill()
        service.start()
        with service.http() as http:
            faults += differences(http, stream.calls)
    print(
        f"{given.kills} kills, {stream.calls} calls, {SIZE * stream.calls} readings; "
        f"start {np.median(times):.2f} s, worst {max(times):.2f} s; {len(faults)} faults"
    )
    for fault in faults:
        print("FAILED:", fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
