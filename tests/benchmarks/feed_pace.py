"""Readings a second through a feed over REST, durable, twelve to a call, with a window of 1,000 hourly readings.

The window is filled first. Processor time is that of the service, whatever else the machine does; the wall counts where
it is idle. The table also has the largest relative gap of all models at the end, computed from the data.

    python -m tests.benchmarks.feed_pace [--readings 1200] [--steps 24 1] [--size 12]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from tests.benchmarks.printing import duration, machine, number, table
from tests.service.process import ServiceProcess
from tests.support.feeds import Stream

WINDOW = 1000
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(http: httpx.Client, pid: int, steps: int, readings: int, size: int) -> list[str]:
    """Send the readings; a line of the table."""
    spec = {"id": "load", "target": "y", "every": "1h", "steps": steps, "window": WINDOW}
    http.post("/feeds", json=spec).raise_for_status()
    stream = Stream(http, size=size)
    stream.send(-(-WINDOW // size) + 1)
    stream.send(5)
    calls, walls = readings // size, []
    busy = processor_seconds(pid)
    for _ in range(calls):
        began = time.perf_counter()
        stream.send()
        walls.append(time.perf_counter() - began)
    busy = processor_seconds(pid) - busy
    gap = http.get("/feeds/load/certificate").json()["relative_gap"]
    http.delete("/feeds/load").raise_for_status()
    pace = size * calls / np.sum(walls)
    slow = duration(float(np.quantile(walls, 0.99)))
    return [str(steps), f"{pace:.0f}", duration(busy / (size * calls)), slow, number(gap)]


def main() -> None:
    """Run it for each number of steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--readings", type=int, default=1200, help="that are timed, behind the full window")
    parser.add_argument("--steps", type=int, nargs="+", default=[24, 1])
    parser.add_argument("--size", type=int, default=12, help="readings of a call")
    given = parser.parse_args()
    print(machine(), "\n")
    with tempfile.TemporaryDirectory() as place, ServiceProcess(Path(place)) as service, service.http(600.0) as http:
        rows = [measured(http, service.pid, steps, given.readings, given.size) for steps in given.steps]
    print(table(["steps", "readings/s", "processor time each", "call, 99%", "worst gap"], rows))


if __name__ == "__main__":
    main()
