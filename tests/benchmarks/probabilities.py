"""Probabilities next to scikit-learn's ``CalibratedClassifierCV`` with five folds: log loss on held-out rows.

    python -m tests.benchmarks.probabilities [--data DIR] [--n 150] [--method isotonic] [sets ...]

Both have the same C and gamma. "Agree" is the share of those rows for which the likeliest class is the one that
``predict`` returns. With ``--balanced`` all classes have equally many examples. The last column: by how much
probabilities after a slide of a third of the window are other than those of a model that learns the same window from
nothing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.sets import DATA, Set, available, read, standardised

CARRIED = {"iris": load_iris, "wine": load_wine, "digits": load_digits}  #: of several classes, by scikit-learn
SETS = (
    "wdbc", "australian", "diabetes", "german_numer", "ionosphere", "spambase", "splice", "svmguide1", "monks2",
    "iris", "wine", "digits",
)  # fmt: skip


def main() -> None:
    """Print one line a set, and the mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--n", type=int, default=150, help="examples that are learnt")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--method", choices=["sigmoid", "isotonic"], default="sigmoid")
    parser.add_argument("--balanced", action="store_true", help="as many examples of each class")
    parser.add_argument("sets", nargs="*", default=SETS)
    asked = parser.parse_args()
    print("set             log loss: ours  scikit-learn  ratio  agree   seconds: ours  scikit-learn   after a slide")
    own = [name for name in asked.sets if name in CARRIED]
    names = [*available([name for name in asked.sets if name not in CARRIED], asked.data), *own]
    found = np.array([_compare(name, _read(name, asked.data), asked) for name in names])
    print("mean ratio {:.4f}, agree {:.4f}; ".format(*found.mean(axis=0)), end="")
    print(f"largest ratio {found[:, 0].max():.4f}, least that agree {found[:, 1].min():.4f}")


def _read(name: str, folder: Path) -> Set:
    X, y = CARRIED[name](return_X_y=True) if name in CARRIED else read(name, folder)
    return standardised(X), np.asarray(y, np.float64)


def _compare(name: str, table: Set, asked: argparse.Namespace) -> tuple[float, float]:
    (X, y), C, method = table, asked.C, asked.method
    order = np.random.default_rng(0).permutation(len(X))
    n = min(asked.n, len(X) * 6 // 10)
    if asked.balanced:
        labels = np.unique(y)
        most = min(n // labels.size, *(np.count_nonzero(y == label) * 6 // 10 for label in labels))
        first = np.sort(np.concatenate([np.flatnonzero(y[order] == label)[:most] for label in labels]))
        order, n = np.concatenate([order[first], np.delete(order, first)]), first.size
    learnt, rest = order[:n], order[n : n + 1000]
    gamma = 1.0 / X.shape[1]
    started = time.process_time()
    ours = IncrementalSVC(C, gamma=gamma, probability=method).fit(X[learnt], y[learnt])
    found = ours.predict_proba(X[rest])
    between = time.process_time()
    theirs = CalibratedClassifierCV(SVC(C=C, gamma=gamma, tol=1e-6), method=method, cv=5, ensemble=False)
    expected = theirs.fit(X[learnt], y[learnt]).predict_proba(X[rest])
    seconds = between - started, time.process_time() - between
    agree = float(np.mean(ours.classes_[found.argmax(axis=1)] == ours.predict(X[rest])))
    losses = [log_loss(y[rest], p, labels=theirs.classes_) for p in (found, expected)]
    first = IncrementalSVC(C, gamma=gamma, probability=method).fit(X[rest[: n // 3]], y[rest[: n // 3]])
    first.update(add=(X[learnt[: n // 2]], y[learnt[: n // 2]]))
    first.predict_proba(X[rest])
    first.update(add=(X[learnt[n // 2 :]], y[learnt[n // 2 :]]), remove=first.keys_[: n // 3])
    moved = float(np.abs(first.predict_proba(X[rest]) - found).max())
    print(
        f"{name:16}{losses[0]:14.4f}{losses[1]:14.4f}{losses[0] / losses[1]:7.4f}{agree:7.3f}"
        f"{seconds[0]:16.2f}{seconds[1]:14.2f}{moved:16.1e}",
        flush=True,
    )
    return float(losses[0] / losses[1]), agree


if __name__ == "__main__":
    main()
