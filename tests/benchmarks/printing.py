"""What the benchmarks share: naming the machine, timing, and printing tables."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1] for line in info.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Describe the machine and the load that other work puts on it."""
    load = os.getloadavg()[0]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, load {load:.1f}"
    )


Clock = Callable[[], float]


def seconds(work: Callable[[], object], repeats: int = 1, clock: Clock = time.perf_counter) -> float:
    """Return the median time of ``work`` over ``repeats`` runs, on the wall by default."""
    taken = []
    for _ in range(repeats):
        started = clock()
        work()
        taken.append(clock() - started)
    return float(np.median(taken))


def number(value: float) -> str:
    """Write a small quantity such as a gap in three places."""
    return "0" if value == 0 else f"{value:.1e}"


def duration(value: float) -> str:
    """Write seconds as microseconds, milliseconds or seconds."""
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is set left, the others right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(3, *(len(cell) for cell in column)) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = "| " + " | ".join("-" * w if j == 0 else "-" * (w - 1) + ":" for j, w in enumerate(widths)) + " |"
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return float(np.exp(np.mean(np.log(values))))
