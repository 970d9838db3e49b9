"""How the demonstration's C and gamma were chosen: on its first window alone.

Walks through the first 730 days a month at a time: trains on the ``--known`` days before, forecasts 30 days, and
counts. Later days are never looked at. Prints one accuracy a cell, and for the cells that are within one standard
error of the best the time that SVC takes to train the window. The demonstration shows the one of these where
training from nothing costs most; ``python -m livesvm.service.demo --C 1e4`` shows the most accurate. Under a minute.

    python -m tests.benchmarks.river_choice
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from sklearn.svm import SVC

from livesvm.service.demo.data.fisher_river import Examples, examples, load, scale_by
from livesvm.service.demo.rise import MONTH, WINDOW

GRID_C = [10.0**power for power in range(-1, 6)]
GRID_GAMMA = [10.0**power for power in range(-3, 1)]


def accuracy(days: Examples, known: int, C: float, gamma: float) -> float:
    """Return the share of days forecast right, each month by a model of the ``known`` days before it."""
    right = []
    for start in range(known, len(days) - MONTH + 1, MONTH):
        past, month = days[start - known : start], days[start : start + MONTH]
        right.append(SVC(C=C, gamma=gamma).fit(past.X, past.y).predict(month.X) == month.y)
    return float(np.mean(np.concatenate(right)))


def seconds(days: Examples, C: float, gamma: float) -> float:
    """Return the time SVC takes to train all the days."""
    start = perf_counter()
    SVC(C=C, gamma=gamma).fit(days.X, days.y)
    return perf_counter() - start


def main() -> None:
    """Print the grid and its best cells."""
    parser = argparse.ArgumentParser(description="Choose C and gamma on the first window of the demonstration")
    parser.add_argument("--known", type=int, default=WINDOW // 2, help="days each model is trained on")
    known = parser.parse_args().known
    days = examples(load())[:WINDOW]
    days = scale_by(days, days)
    print("C \\ gamma " + " ".join(f"{gamma:8g}" for gamma in GRID_GAMMA))
    scores: dict[tuple[float, float], float] = {}
    for C in GRID_C:
        scores |= {(C, gamma): accuracy(days, known, C, gamma) for gamma in GRID_GAMMA}
        print(f"{C:9g} " + " ".join(f"{scores[C, gamma]:8.3f}" for gamma in GRID_GAMMA))
    best = max(scores.values())
    error = (best * (1 - best) / (len(days) - known)) ** 0.5
    print(f"best: {best:.1%} right, with a standard error of {error:.1%}; within it:")
    for (C, gamma), score in sorted(scores.items(), key=lambda cell: -cell[1]):
        if score >= best - error:
            print(f"C = {C:<6g} gamma = {gamma:<5g} {score:.1%} right, SVC {1e3 * seconds(days, C, gamma):.0f} ms")


if __name__ == "__main__":
    main()
