"""``tune`` beside scikit-learn's grid search: accuracy on held-out rows, and processor time.

    python -m tests.benchmarks.tuning [--data DIR] [sets ...]

The grid is that of libsvm's guide: 11 values of C, 10 of gamma, 5 folds. Of a set 900 rows at most, 60% learnt.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC, tune
from tests.benchmarks.sets import DATA, available, read

SETS = (
    "wdbc", "australian", "diabetes", "german_numer", "ionosphere", "spambase", "splice", "svmguide1",
    "hill_valley_clean", "monks1", "monks2", "monks3",
)  # fmt: skip
GRID = {"svc__C": 2.0 ** np.arange(-5, 16, 2), "svc__gamma": 2.0 ** np.arange(-15, 4, 2)}


def main() -> None:
    """Print one line a set, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    print("set                accuracy %: ours  grid   seconds: ours   grid  ratio")
    rows = []
    for name in available(asked.sets, asked.data):
        X, y = read(name, asked.data)
        order = np.random.default_rng(0).permutation(len(X))[:900]
        learnt, rest = np.split(order, [int(0.6 * order.size)])
        started = time.process_time()
        model = IncrementalSVC(scale="standard").fit(X[learnt], y[learnt])
        tune(model).apply(model)
        between = time.process_time()
        grid = GridSearchCV(make_pipeline(StandardScaler(), SVC()), GRID).fit(X[learnt], y[learnt])
        ours, theirs = between - started, time.process_time() - between
        rows.append((100 * model.score(X[rest], y[rest]), 100 * grid.score(X[rest], y[rest]), ours, theirs))
        print(
            f"{name:20}{rows[-1][0]:15.2f}{rows[-1][1]:6.2f}{ours:16.2f}{theirs:7.2f}{theirs / ours:7.1f}", flush=True
        )
    a, b, ours, theirs = np.mean(rows, axis=0)
    print(f"{'mean':20}{a:15.2f}{b:6.2f}{ours:16.2f}{theirs:7.2f}{theirs / ours:7.1f}")


if __name__ == "__main__":
    main()
