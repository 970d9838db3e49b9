"""What the attacks share: calls that are timed, memory that is watched, and promises that hold or do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from tests.benchmarks.printing import duration


@dataclass
class Calls:
    """Latencies of one kind of call, and how many did not end well."""

    name: str
    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def quantile(self, q: float) -> float:
        """Return a quantile in seconds; infinite where too many failed."""
        found = np.array(self.latencies + [np.inf] * self.failed)
        return float(np.quantile(found, q, method="higher")) if len(found) else np.inf

    def line(self) -> list[str]:
        """Return one line of the table."""
        shown = (self.quantile(q) for q in (0.5, 0.99, 1.0))
        count = len(self.latencies) + self.failed
        return [self.name, str(count), str(self.failed), *(reported(seconds) for seconds in shown)]


@dataclass(frozen=True)
class Verdict:
    """One promise, what was seen of it, and whether it holds."""

    promise: str
    seen: str
    holds: bool

    def line(self) -> list[str]:
        """Return one line of the table."""
        return [self.promise, self.seen, "yes" if self.holds else "NO"]


def within(promise: str, seconds: float, limit: float) -> Verdict:
    """Return the verdict on something that may take so long."""
    return Verdict(promise, f"{reported(seconds)}, limit {reported(limit)}", seconds <= limit)


def reported(seconds: float) -> str:
    """Return a duration, or that there was none."""
    return duration(seconds) if np.isfinite(seconds) else "failed"


def repeat(calls: Calls, call: Callable[[], httpx.Response], every: float, seconds: float) -> Calls:
    """Make calls that are due ``every`` so many seconds, one after the other.

    A latency counts from when its call was due, so that a stall is seen by all that fell into it.
    """
    start = time.monotonic()
    due = start
    while due < start + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            call().raise_for_status()
            calls.latencies.append(time.monotonic() - due)
        except httpx.HTTPError:
            calls.failed += 1
        due = max(due + every, time.monotonic() if calls.failed else 0.0)  # no call queues up behind one that failed
    return calls


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a process has had, since it was asked to :func:`forget_peak`."""
    return _megabytes(pid, "VmHWM")


def megabytes(pid: int) -> float:
    """Return the memory that a process has now."""
    return _megabytes(pid, "VmRSS")


def forget_peak(pid: int) -> None:
    """Let the most memory that a process has had be what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _megabytes(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))
