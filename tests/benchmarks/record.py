"""What a record adds to an update that adds one example and removes one: two models in step, with it and without."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from livesvm import IncrementalSVC, IncrementalSVR

CASES = (
    ("values", 200, 0),
    ("values", 1000, 0),
    ("two", 200, 2),
    ("two", 1000, 2),
    ("several", 200, 3),
    ("several", 200, 5),
    ("several", 600, 4),
    ("several", 1000, 10),
)
UPDATES = 400
RUNS = 5


def measured(n: int, k: int) -> tuple[float, float]:
    """Return the processor time of a mean update without a record, and with it, in seconds.

    Each of the same updates counts with the least time of several runs, so that what the machine does besides is left
    out and the updates at which a record counts its notes are not.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + UPDATES, 8))
    scores = X @ rng.normal(size=(8, max(k, 1))) + rng.normal(size=(len(X), max(k, 1)))
    y: Any = scores[:, 0] if k == 0 else (scores[:, 0] > 0).astype(int) if k == 2 else scores.argmax(axis=1)
    seconds = np.empty((RUNS, UPDATES, 2))
    for run in range(RUNS):
        models: list[Any] = [IncrementalSVR(gamma=0.1) if k == 0 else IncrementalSVC(gamma=0.1) for _ in range(2)]
        models[0].keeps_record = False
        for model in models:
            model.fit(X[:n], y[:n], keys=range(n))
        for i in range(UPDATES):
            for j in (0, 1) if (i + run) % 2 else (1, 0):
                began = time.process_time()
                models[j].update(add=(X[n + i : n + i + 1], y[n + i : n + i + 1]), remove=[i], keys=[n + i])
                seconds[run, i, j] = time.process_time() - began
    without, with_it = seconds.min(axis=0).mean(axis=0)
    return float(without), float(with_it)


def main() -> None:
    """Print a row for each kind of model."""
    argparse.ArgumentParser(prog="python -m tests.benchmarks.record", description=__doc__).parse_args()
    for name, n, k in CASES:
        without, with_it = measured(n, k)
        share = 100 * (with_it / without - 1)
        print(f"{name:8} n {n:5} classes {k:2}  {1e6 * without:7.1f} us  {1e6 * with_it:7.1f} us  {share:+.1f}%")


if __name__ == "__main__":
    main()
