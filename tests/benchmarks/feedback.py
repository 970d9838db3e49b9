"""What ten days of checked alerts are worth to a model of positive and unlabelled examples, by how they are fed back.

    python -m tests.benchmarks.feedback [--streams made spambase musk2 letter] [--seeds 3] [--data DIR]

A day has 1,500 cases, 8% of which are positive, of a window of the newest 4,000; 150 positives were known before, a
fair sample. Each day the 75 cases with the highest decisions are checked. ``untouched``: what they are is not told.
``negatives``: those that were no positives are relabelled -1, as the documentation advises. ``all``: those that were
are relabelled 1, too. ``made`` are generated clouds; of the other streams rows are drawn again and
again from one half of a set, and cases of the other half tell the precision among the highest 5% of decisions, the mean
after days 6 to 10. A model that tells everything apart reaches 100%.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from livesvm.solvers import IncrementalPUClassifier
from tests.benchmarks.printing import machine, table
from tests.benchmarks.sets import DATA, read
from tests.oracle import Matrix

DAYS, LATE, DAY, WINDOW, KNOWN = 10, 5, 1500, 4000, 150
ALERTS, PRIOR, TESTED = 75, 0.08, 20_000

Draw = Callable[[np.random.Generator, int], tuple[Matrix, np.ndarray]]


def made(seed: int) -> tuple[Draw, Draw]:
    """Return clouds of which three of five have positives nearby, to learn and to judge by."""
    rng, d = np.random.default_rng(seed), 8
    honest = rng.normal(0, 1.2, (5, d))
    frauds = honest[:3] + rng.normal(0, 1, (3, d))

    def draw(rng: np.random.Generator, n: int) -> tuple[Matrix, np.ndarray]:
        y = rng.random(n) < PRIOR
        of_positives = frauds[rng.integers(3, size=n)] + rng.normal(0, 0.7, (n, d))
        of_others = honest[rng.integers(5, size=n)] + rng.normal(0, 1, (n, d))
        return np.where(y[:, None], of_positives, of_others), y

    return draw, draw


def drawn(name: str, folder: Path, seed: int) -> tuple[Draw, Draw]:
    """Return the two halves of a set, its features scaled to unit variance, with a rare class of positives."""
    X, y = read(name, folder)
    X = np.asarray(X, np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    positive = y == (y.max() if np.unique(y).size == 2 else np.unique(y)[-1])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))

    def half(rows: np.ndarray) -> Draw:
        kinds = rows[~positive[rows]], rows[positive[rows]]

        def draw(rng: np.random.Generator, n: int) -> tuple[Matrix, np.ndarray]:
            y = rng.random(n) < PRIOR
            of_others, of_positives = (kind[rng.integers(kind.size, size=n)] for kind in kinds)
            chosen = np.where(y, of_positives, of_others)
            return X[chosen] + rng.normal(0, 0.05, (n, X.shape[1])), y

        return draw

    return half(order[::2]), half(order[1::2])


def precision(learn: Draw, judge: Draw, seed: int, way: str) -> float:
    """Return the mean precision after days 6 to 10, of cases that the model has not seen."""
    rng = np.random.default_rng(seed)
    P, y = learn(rng, 40 * KNOWN)
    P = P[y][:KNOWN]
    T, truth = judge(rng, TESTED)
    U, _ = learn(rng, WINDOW // 2)
    model = IncrementalPUClassifier(PRIOR, "auto", gamma="scale")
    model.fit(np.vstack([P, U]), np.repeat([1, 0], [KNOWN, len(U)]))
    found = []
    for day in range(DAYS + 1):
        if day > LATE:
            best = np.argsort(-model.decision_function(T))[: TESTED * ALERTS // DAY]
            found.append(float(truth[best].mean()))
        X, y = learn(rng, DAY)
        order = np.argsort(-model.decision_function(X))
        checked, labels = order[:ALERTS], np.zeros(DAY, int)
        labels[checked] = np.where(y[checked], way == "all", -(way != "untouched"))
        cases = list(model.keys_[KNOWN:])
        model.update((X, labels), cases[: max(0, len(cases) + DAY - WINDOW)])
    return float(np.mean(found))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.feedback", description=__doc__)
    parser.add_argument("--streams", nargs="+", default=["made", "spambase", "musk2", "letter"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of windows in which nothing is flagged
    print(machine())
    ways = ("untouched", "negatives", "all")
    lines = []
    for name in asked.streams:
        of_seeds = [made(seed) if name == "made" else drawn(name, asked.data, seed) for seed in range(asked.seeds)]
        cells = [np.mean([precision(*both, seed, way) for seed, both in enumerate(of_seeds)]) for way in ways]
        lines.append([name, *(f"{100 * cell:.1f}%" for cell in cells)])
        print(lines[-1], flush=True)
    print(table(["stream", *ways], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
