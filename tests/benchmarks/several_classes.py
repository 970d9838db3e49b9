"""Several classes side by side with scikit-learn's one-versus-one: a slide against a refit, and what both predict.

    python -m tests.benchmarks.several_classes [--data DIR] [--standardize] [sets ...]

Times are processor time, the median of up to 60 slides and of 9 refits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.sets import DATA, KEEL, read, standardised, there

SETS = ("digits", "usps", "letter", *KEEL)
BATCH = 30


def main() -> None:
    """Print one line a set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--n", type=int, default=1400)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--standardize", action="store_true")
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    print("set        n  classes  refit ms  slide ms  ratio  differing  gap")
    for name in asked.sets:
        if name == "digits":
            X, y = load_digits(return_X_y=True)
        elif there(name, asked.data):
            X, y = read(name, asked.data, both_parts=name == "usps")
        else:
            print(f"{name}: not there")
            continue
        X = standardised(X) if asked.standardize else X
        _compare(name, X, y, asked.n, asked.C, asked.classes)


def _compare(name: str, X: np.ndarray, y: np.ndarray, n: int, C: float, classes: int) -> None:
    kept = np.isin(y, np.unique(y)[:classes])
    order = np.random.default_rng(0).permutation(int(kept.sum()))
    X, y = X[kept][order], y[kept][order]
    n = min(n, len(X) // 2)
    gamma = 1.0 / (X.shape[1] * float(X[:n].var()))
    refit = _median(9, lambda i: SVC(C=C, gamma=gamma).fit(X[:n], y[:n]))
    model = IncrementalSVC(C=C, gamma=gamma).fit(X[:n], y[:n])
    steps = min(60, (len(X) - n) // (2 * BATCH))

    def slide(i: int) -> None:
        start = n + i * BATCH
        model.update(add=(X[start : start + BATCH], y[start : start + BATCH]), remove=model.keys_[:BATCH])

    ours = _median(steps, slide)
    rest = slice(n + steps * BATCH, None)
    theirs = SVC(C=C, gamma=gamma, tol=1e-6).fit(model.window_X, model.window_y)
    differing = float(np.mean(theirs.predict(X[rest]) != model.predict(X[rest])))
    gap = model.certificate().relative_gap
    print(
        f"{name:9}{n:4}  {np.unique(y).size:7}  {1e3 * refit:8.1f}  {1e3 * ours:8.1f}  {refit / ours:5.1f}  "
        f"{differing:9.5f}  {gap:.0e}"
    )


def _median(count: int, work: Callable[[int], object]) -> float:
    seconds = []
    for i in range(count):
        started = time.process_time()
        work(i)
        seconds.append(time.process_time() - started)
    return float(np.median(seconds))


if __name__ == "__main__":
    main()
