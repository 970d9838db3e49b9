"""``tune`` next to scikit-learn's grid search: accuracy on held-out rows, and processor time.

    python -m tests.benchmarks.tuning [--data DIR] [--splits 3] [--cells 7] [sets ...]

By default the grid is that of libsvm's guide: 11 values of C, 10 of gamma, 5 folds. ``--cells 7`` has 7 of each in its
place, C from .01 to 10,000 and gamma from 1e-5 to 10. Of a set 900 rows at most, 60% learnt. The error of a mean is
that over sets, each of them the mean of its splits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC, tune
from tests.benchmarks.sets import DATA, Set, available, read

CARRIED = {"wine": load_wine, "digits": load_digits}  #: of several classes, by scikit-learn
SETS = (
    "wdbc", "australian", "diabetes", "german_numer", "ionosphere", "spambase", "splice", "svmguide1",
    "hill_valley_clean", "monks1", "monks2", "monks3", "wine", "digits",
)  # fmt: skip
GUIDE = {"svc__C": 2.0 ** np.arange(-5, 16, 2), "svc__gamma": 2.0 ** np.arange(-15, 4, 2)}
Row = tuple[float, float, float, float]


def main() -> None:
    """Print one line a set, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--splits", type=int, default=1, help="of each set")
    parser.add_argument("--cells", type=int, help="values of C and of gamma")
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    grid = GUIDE
    if asked.cells is not None:
        grid = {"svc__C": np.logspace(-2, 4, asked.cells), "svc__gamma": np.logspace(-5, 1, asked.cells)}
    carried = [name for name in asked.sets if name in CARRIED]
    names = [*available([name for name in asked.sets if name not in CARRIED], asked.data), *carried]
    _compare(read("wdbc", asked.data), 0, {"svc__C": [1.0]})  # machine code is loaded
    print("set                accuracy %: ours  grid   seconds: ours   grid  ratio")
    rows = []
    for name in names:
        table = CARRIED[name](return_X_y=True) if name in CARRIED else read(name, asked.data)
        rows.append(np.mean([_compare(table, split, grid) for split in range(asked.splits)], axis=0))
        _print(name, rows[-1])
    _print("mean", np.mean(rows, axis=0))
    apart = np.array([row[0] - row[1] for row in rows])
    ratios = [row[3] / row[2] for row in rows]
    print(
        f"difference {apart.mean():+.2f} points, standard error {apart.std() / max(1, len(apart) - 1) ** 0.5:.2f}; "
        f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.1f}, least {min(ratios):.1f}"
    )


def _compare(table: Set, split: int, grid: Mapping[str, object]) -> Row:
    """Return both accuracies in percent, and both times."""
    X, y = table
    order = np.random.default_rng(split).permutation(len(X))[:900]
    learnt, rest = np.split(order, [int(0.6 * order.size)])
    started = time.process_time()
    model = IncrementalSVC(scale="standard").fit(X[learnt], y[learnt])
    tune(model).apply(model)
    between = time.process_time()
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid).fit(X[learnt], y[learnt])
    ours, theirs = between - started, time.process_time() - between
    return 100 * model.score(X[rest], y[rest]), 100 * search.score(X[rest], y[rest]), ours, theirs


def _print(name: str, row: np.ndarray) -> None:
    a, b, ours, theirs = row
    print(f"{name:20}{a:15.2f}{b:6.2f}{ours:16.2f}{theirs:7.2f}{theirs / ours:7.1f}", flush=True)


if __name__ == "__main__":
    main()
