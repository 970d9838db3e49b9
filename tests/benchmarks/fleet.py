"""What a fleet of hourly series costs one service: filled from history, fed, killed, proved.

    python -m tests.benchmarks.fleet [--series 10000] [--calls 10] [--place DIRECTORY]

Window 500, steps 1 and 24. ``filled``: 500 readings of each series, in calls of 100 series. ``fed``: one of each
series at a time, in calls of 1,000, over HTTP; shown are the mean of so many rounds, and the quietest. Processor time
is the service's, all threads together; memory is resident. A directory is kept: what was filled there is fed on by the
next run. ``parts``: what the parts of such a call take, in one process without HTTP, with few series.
``killed``: from ``kill -9`` to ready. Then the certificates of 100 series at random, and how far the forecasts of some
are from those of single feeds with the same settings: a series gives up kernel rows between two calls, which rounds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.benchmarks.fleet_parts import parts
from tests.benchmarks.hosting import resident, serving
from tests.benchmarks.printing import duration, machine, table
from tests.service.process import ServiceProcess

WINDOW, FILLED_AT_ONCE, FED_AT_ONCE = 500, 100, 1000
PROVED, COMPARED, OF_PARTS = 100, 5, 60
BEGIN = np.datetime64("2024-01-01T00")
FLEET: dict[str, Any] = {"target": "load", "series": "meter", "every": "1h", "window": WINDOW, "steps": [1, 24]}
GAP, ROUNDING = 1e-8, 1e-12


def load_of(number: int, n: int) -> Any:
    """Return a made-up meter: a day and a week of its own strength, a level that wanders, noise; (n,)."""
    rng = np.random.default_rng(number)
    hours = np.arange(n)
    day, week = rng.uniform(0.5, 3.0), rng.uniform(0.0, 1.0)
    shift = rng.uniform(0.0, 24.0)
    season = day * np.sin(2 * np.pi * (hours - shift) / 24) + week * np.sin(2 * np.pi * hours / 168)
    return 10.0 + season + 0.05 * rng.normal(size=n).cumsum() + 0.3 * rng.normal(size=n)


def readings(numbers: range, first: int, last: int) -> bytes:
    """Return readings of series as CSV, by time and then by series."""
    loads = [load_of(number, last)[first:] for number in numbers]
    lines = ["meter,time,load"]
    for at in range(last - first):
        when = BEGIN + np.timedelta64(first + at, "h")
        lines += [f"m{number},{when},{float(load[at])!r}" for number, load in zip(numbers, loads, strict=True)]
    return "\n".join(lines).encode()


def processor(pid: int) -> Any:
    """Return seconds of processor time that a process has had: user, system; (2,)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return np.array([int(fields[11]), int(fields[12])]) / os.sysconf("SC_CLK_TCK")


def sent(http: httpx.Client, body: bytes, name: str) -> None:
    """Send a call, of which nothing may be refused."""
    headers = {"content-type": "text/csv", "idempotency-key": name}
    answer = http.post("/fleets/meters/observations", content=body, headers=headers).raise_for_status().json()
    assert not answer["refused"], answer["refused"][:3]


def some(count: int, size: int) -> Iterator[range]:
    """Yield numbers of series, so many at a time."""
    for first in range(0, count, size):
        yield range(first, min(first + size, count))


def filled(service: ServiceProcess, http: httpx.Client, count: int) -> list[list[str]]:
    """Fill every window, but for those that are."""
    if "meters" not in [one["id"] for one in http.get("/fleets").json()["fleets"]]:
        http.post("/fleets", json={"id": "meters", **FLEET}).raise_for_status()
    there = http.get("/fleets/meters").json()["series"]
    if there >= count:
        return [["resident at first", f"{resident(service.pid):.0f} MB", f"{there} series were filled before"]]
    began, before = time.perf_counter(), processor(service.pid)
    for numbers in some(count, FILLED_AT_ONCE):
        sent(http, readings(numbers, 0, WINDOW), f"fill-{numbers.start}")
    used, took = float((processor(service.pid) - before).sum()), time.perf_counter() - began
    for_all = f"{used / count * 10_000 / 60:.1f} minutes for 10,000"
    return [
        ["filled from history", f"{1000 * used / count:.1f} ms a series", f"{for_all}, in {took:.0f} s"],
        ["resident then", f"{resident(service.pid):.0f} MB", ""],
    ]


def fed(service: ServiceProcess, http: httpx.Client, count: int, calls: int) -> list[list[str]]:
    """Feed every series, one reading at a time."""
    began, largest, rounds = time.perf_counter(), 0.0, list[Any]()
    first = fed_before(http)
    for at in range(first, first + calls):
        bodies = [(numbers.start, readings(numbers, at, at + 1)) for numbers in some(count, FED_AT_ONCE)]
        before = processor(service.pid)
        for start, body in bodies:
            sent(http, body, f"feed-{at}-{start}")
            largest = max(largest, resident(service.pid))
        rounds.append(1000 * (processor(service.pid) - before) / count)
    took = time.perf_counter() - began
    user, system = min(rounds, key=sum)
    return [
        [
            "a reading",
            f"{sum(map(sum, rounds)) / calls:.2f} ms",
            f"mean of {calls} rounds; {rounds[0].sum():.2f} the first; in {took:.0f} s",
        ],
        ["in the quietest", f"{user + system:.2f} ms", f"{user:.2f} user, {system:.2f} system"],
        ["resident at most", f"{largest:.0f} MB", f"{1024 * largest / count:.0f} KB a series"],
    ]


def fed_before(http: httpx.Client) -> int:
    """Return how many readings each series has had."""
    return int(http.get("/feeds/meters/m0").json()["position"])


def measured_parts(calls: int) -> list[list[str]]:
    """Return what the parts of a call take."""
    numbers = range(OF_PARTS)
    moments = [(0, WINDOW), *((WINDOW + at, WINDOW + at + 1) for at in range(calls))]
    with tempfile.TemporaryDirectory() as place:
        return parts(Path(place), FLEET, [readings(numbers, *moment) for moment in moments], OF_PARTS)


def proved(http: httpx.Client, count: int) -> list[list[str]]:
    """Ask for the certificates of some series at random."""
    rng, gaps = np.random.default_rng(1), []
    for number in rng.choice(count, min(count, PROVED), replace=False):
        found = http.get(f"/feeds/meters/m{number}/certificate").raise_for_status().json()
        gaps.append(found["relative_gap"])
    worst = max(gaps)
    assert worst < GAP, worst
    return [["largest relative gap", f"{worst:.1e}", f"of {len(gaps)} series"]]


def compared(http: httpx.Client, count: int) -> list[list[str]]:
    """Have single feeds with the same settings take the same readings."""
    calls = fed_before(http) - WINDOW
    chosen = http.get("/fleets/meters").json()["settings"]["chosen"]
    recipes = [{name: step[name] for name in ("represent", "gamma", "C")} for step in chosen["steps"]]
    settings = {name: value for name, value in FLEET.items() if name != "series"}
    settings |= {"season": chosen["season"], "recipes": recipes}
    worst = 0.0
    numbers = sorted(set(np.linspace(0, count - 1, COMPARED).astype(int).tolist()))
    for number in numbers:
        http.post("/feeds", json={"id": "alone", **settings}).raise_for_status()
        for first, last in [(0, WINDOW), *((WINDOW + at, WINDOW + at + 1) for at in range(calls))]:
            body = readings(range(number, number + 1), first, last)
            lines = [line.partition(b",")[2] for line in body.split(b"\n")]
            headers = {"content-type": "text/csv"}
            http.post("/feeds/alone/observations", content=b"\n".join(lines), headers=headers).raise_for_status()
        alone = http.get("/feeds/alone/forecast").json()["forecasts"]
        mine = http.get(f"/feeds/meters/m{number}/forecast").json()["forecasts"]
        for one, other in zip(alone, mine, strict=True):
            far = [abs(one[name] - other[name]) / abs(one[name]) for name in ("value", "low", "high")]
            worst = max(worst, *far)
        http.delete("/feeds/alone").raise_for_status()
    assert worst < ROUNDING, worst
    return [["forecasts beside single feeds'", f"{worst:.0e} apart", f"of {len(numbers)} series"]]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=10, help="readings of each series after its window is full")
    parser.add_argument("--place", type=Path, help="directory of the service's data, which is kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() if asked.place is None else nullcontext(asked.place) as place:
        settings = {"rest_seconds": 1e6, "solve_seconds": 3600, "max_body_bytes": 32 * 2**20}
        with serving(Path(place), **settings) as (service, http):
            rows = filled(service, http, asked.series)
            rows += fed(service, http, asked.series, asked.calls)
            rows += proved(http, asked.series)
            rows += compared(http, asked.series)
            rows += [["the fleet told", duration(_timed(http, "/fleets/meters")), ""]]
            rows += [["a page of forecasts", duration(_timed(http, "/fleets/meters/forecast")), "of 1,000 series"]]
            service.kill()
            began = time.perf_counter()
            service.start()
            rows += [["kill -9 to ready", duration(time.perf_counter() - began), ""]]
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        with serving(Path(place)):
            rows[-1][2] = f"an empty service {duration(time.perf_counter() - began)}"
    print(machine())
    print(table(["", "", f"{asked.series} series, {asked.calls} readings each"], rows), flush=True)
    print(table(["", "", f"{OF_PARTS} series"], measured_parts(asked.calls)))


def _timed(http: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    http.get(path).raise_for_status()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
