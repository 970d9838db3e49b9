"""Wrong labels: suspected labels next to cleanlab with ``SVC``, by average precision and processor time.

    python -m tests.benchmarks.suspects --live [--C 1] [--seeds 3]
    python -m tests.benchmarks.suspects [NAME ...] [--data DIR] [--C 1] [--rows 1200] [--seed 0] [--no-cleanlab]

Of each table 5% and 20% of labels are made wrong in three ways. *Uniform*: any other label. *Pair*: the next label, of
all classes but the last. *Boundary*: the second best label of ``SVC`` by cross-validation, of examples for which the
two are close. Both learners have the same C, the gamma of "scale", and a standard scale. cleanlab is used as its
manual says: ``cross_val_predict`` of ``SVC(probability=True)`` in five folds, then ``get_label_quality_scores``. With
``--C auto`` the model chooses its parameters, and cleanlab has C = 1. Needs the extra ``bench`` for cleanlab.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, suspected_labels
from tests.benchmarks.printing import machine, table
from tests.benchmarks.sets import DATA, read, there

OWN = {
    "digits": lambda: load_digits(return_X_y=True),
    "five_classes": lambda: make_classification(3000, 20, n_informative=8, n_classes=5, random_state=0),
    "wine": lambda: load_wine(return_X_y=True),
}  #: the tables that are always there, with ``wdbc``
TABLES = (
    "spambase", "splice", "german_numer", "diabetes", "australian", "svmguide1", "musk2", "wdbc", "usps", "letter",
    *OWN,
)  # fmt: skip
FEWEST = 10  #: examples of a class, without which it is left out
KINDS, RATES = ("uniform", "pair", "boundary"), (0.05, 0.2)

Rows = NDArray[np.float64]
Places = NDArray[np.int64]


def rows_of(name: str, folder: Path, most: int, seed: int) -> tuple[Rows, Places]:
    """Return at most so many rows of a table, shuffled, and the places of their classes."""
    X, y = OWN[name]() if name in OWN else read(name, folder)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    order = np.random.default_rng(seed).permutation(len(y))[:most]
    X, y = X[order], y[order]
    labels, counts = np.unique(y, return_counts=True)
    is_there = np.isin(y, labels[counts >= FEWEST])
    X, y = X[is_there], y[is_there]
    return X[:, X.std(axis=0) > 0.0], np.unique(y, return_inverse=True)[1]


def made_wrong(X: Rows, y: Places, kind: str, rate: float, seed: int) -> tuple[Places, NDArray[np.bool_]]:
    """Return labels of which a share is wrong, and which these are."""
    rng, given, n_classes, count = np.random.default_rng(seed), y.copy(), int(y.max()) + 1, round(rate * y.size)
    if kind == "uniform":
        wrong = rng.choice(y.size, count, replace=False)
        given[wrong] = (y[wrong] + rng.integers(1, n_classes, count)) % n_classes
    elif kind == "pair":
        may_be = np.flatnonzero(y < n_classes - 1)
        wrong = rng.choice(may_be, min(count, may_be.size // 2), replace=False)
        given[wrong] = y[wrong] + 1
    else:
        decisions = cross_val_predict(make_pipeline(StandardScaler(), SVC()), X, y, cv=5, method="decision_function")
        scores = np.column_stack([-decisions, decisions]) if decisions.ndim == 1 else decisions
        own = scores[np.arange(y.size), y]
        scores[np.arange(y.size), y] = -np.inf
        closest = np.argsort(np.abs(own - scores.max(axis=1)), kind="stable")[: 2 * count]
        wrong = rng.choice(closest, count, replace=False)
        given[wrong] = scores.argmax(axis=1)[wrong]
    return given, given != y


def by_cleanlab(X: Rows, given: Places, C: float) -> Rows:
    """Return the quality of each label."""
    from cleanlab.rank import get_label_quality_scores

    learner = make_pipeline(StandardScaler(), SVC(C=C, probability=True))
    chances = cross_val_predict(learner, X, given, cv=5, method="predict_proba")
    return np.asarray(get_label_quality_scores(given, chances))


def by_margin(X: Rows, given: Places, C: Any) -> tuple[Rows, Rows, str]:
    """Return the margin and the doubt of each label, and the method."""
    own: dict[str, Any] = {"columns": "auto"} if C == "auto" else {"scale": "standard"}
    found = suspected_labels(IncrementalSVC(C=C, **own).fit(X, given))
    order = np.argsort(found.keys)  # keys are places
    return found.margin[order], found.doubt[order], found.method


def compared(X: Rows, y: Places, kind: str, rate: float, chosen: Any) -> tuple[list[float], str, Rows]:
    """Return both average precisions and times, the method, and doubts with what is wrong, (n, 2)."""
    given, is_wrong = made_wrong(X, y, kind, rate, chosen.seed)
    began = process_time()
    margin, doubt, method = by_margin(X, given, chosen.C)
    mine, seconds = average_precision_score(is_wrong, -margin), process_time() - began
    theirs, began = np.nan, process_time()
    if chosen.cleanlab:
        quality = by_cleanlab(X, given, 1.0 if chosen.C == "auto" else chosen.C)
        theirs = average_precision_score(is_wrong, -quality)
    return [mine, theirs, seconds, process_time() - began], method, np.column_stack([doubt, is_wrong])


def stream(n: int, n_classes: int, step: int, count: int, seed: int) -> tuple[Rows, Places, NDArray[np.bool_]]:
    """Return rows of a window and of ``count`` updates of ``step`` rows, labels with a tenth wrong, and which are."""
    shape: Any = {"n_features": 12, "n_informative": 8, "n_classes": n_classes, "n_clusters_per_class": 1, "flip_y": 0}
    X, y = make_classification(n + count * step, random_state=seed, **shape)
    return X, *made_wrong(X, np.asarray(y, np.int64), "uniform", 0.1, seed)


def follow(n: int, step: int, rows: tuple[Rows, Places], C: float, look: Any = None) -> Rows:
    """Move a window along a stream; return the processor time of each update and of each ``look`` at the model."""
    X, y = rows
    model, seconds = IncrementalSVC(C=C, scale="standard").fit(X[:n], y[:n], keys=range(n)), []
    for start in range(n, len(y), step):
        part, began = range(start, start + step), process_time()
        model.update((X[part], y[part]), keys=part, remove=[key - n for key in part])
        seconds.append([process_time() - began, 0.0])
        if look is not None:
            began = process_time()
            look(model)
            seconds[-1][1] = process_time() - began
    return np.array(seconds)


class Rankings:
    """Rankings of one model, each of which begins from the one before."""

    def __init__(self, is_wrong: NDArray[np.bool_], every: int = 0) -> None:
        self.last: Any = None
        self.is_wrong, self.every = is_wrong, every  #: after so many rankings, one is compared; 0: none
        self.exact: list[float] = []  #: shares of exact margins
        self.off: list[float] = []  #: average precision less that of a fresh ranking of all

    def __call__(self, model: IncrementalSVC) -> None:
        """Rank the labels of the model."""
        self.last = suspected_labels(model, before=self.last)
        self.exact.append(float((self.last.age == 0).mean()))
        if self.every and len(self.exact) % self.every == 0:
            both = self.last, suspected_labels(model)
            mine, anew = (average_precision_score(self.is_wrong[list(one.keys)], -one.margin) for one in both)
            self.off.append(mine - anew)


def live(C: float, seeds: int, count: int = 120, skipped: int = 10) -> None:
    """Print what a ranking costs after an update, and its average precision less that of a fresh ranking of all.

    Updates are timed in a stream without rankings, by turns with one in which a ranking follows each update.
    """
    lines = []
    for n, n_classes, step in ((n, k, step) for n in (600, 1000, 3000) for k in (2, 5) for step in (1, 10)):
        times, off, exact = np.zeros((seeds, 3)), np.zeros(seeds), []
        for seed in range(seeds):
            X, given, is_wrong = stream(n, n_classes, step, count, seed)
            alone = follow(n, step, (X, given), C)[skipped:, 0].mean()
            ranking = follow(n, step, (X, given), C, Rankings(is_wrong))[skipped:, 1].mean()
            few = n + 5 * step
            anew = np.median(follow(n, step, (X[:few], given[:few]), C, suspected_labels)[:, 1])
            times[seed], found = (alone, ranking, anew), Rankings(is_wrong, skipped)
            follow(n, step, (X, given), C, found)
            off[seed] = np.mean(found.off)
            exact += found.exact
        update, ranking, anew = 1e3 * times.mean(axis=0)
        error = off.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
        cells = [str(n), str(n_classes), f"{step} in and {step} out", f"{update:.2f}", f"{ranking:.2f}"]
        cells += [f"{ranking / update:.1f}", f"{anew / update:.0f}", f"{np.mean(exact):.2f}"]
        lines.append([*cells, f"{off.mean():+.4f} ({error:.4f})"])
        print(*lines[-1], flush=True)
    heads = ["n", "classes", "what moves", "update, ms", "ranking, ms", "in updates", "anew, in updates", "exact"]
    print(table([*heads, "AP less anew's"], lines))


def main() -> int:
    """Print a line for each table, the means, and how many labels of each doubt are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables; by default all that are there")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--C", type=lambda text: text if text == "auto" else float(text), default=1.0)
    parser.add_argument("--rows", type=int, default=1200, help="of a table, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-cleanlab", dest="cleanlab", action="store_false")
    parser.add_argument("--live", action="store_true", help="what the ranking costs after an update, and nothing else")
    parser.add_argument("--seeds", type=int, default=3, help="streams of each kind, with --live")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    if chosen.live:
        with threadpool_limits(1):
            live(1.0 if chosen.C == "auto" else chosen.C, chosen.seeds)
        return 0
    lines: list[list[str]] = []
    every: list[Rows] = []
    doubts: list[Rows] = []
    with threadpool_limits(1):
        for name in chosen.names or [name for name in TABLES if name in OWN or there(name, chosen.data)]:
            X, y = rows_of(name, chosen.data, chosen.rows, chosen.seed)
            runs = [compared(X, y, kind, rate, chosen) for kind in KINDS for rate in RATES]
            found = np.array([run[0] for run in runs])
            every.append(found)
            doubts.extend(run[2] for run in runs)
            pairs = [f"{mine:.2f} {theirs:.2f}" if chosen.cleanlab else f"{mine:.2f}" for mine, theirs in found[:, :2]]
            methods = ", ".join(sorted({run[1] for run in runs}))
            means = [f"{value:.3f}" for value in found[:, :2].mean(axis=0)]
            times = [f"{value:.2f}" for value in found[:, 2:].sum(axis=0)]
            lines.append([name, f"{X.shape[0]} x {X.shape[1]}", str(y.max() + 1), methods, *pairs, *means, *times])
            print(name, *means, *times, flush=True)
    settings = [f"{kind} {100 * rate:.0f}%" for kind in KINDS for rate in RATES]
    print("\nAverage precision, LiveSVM and cleanlab, and seconds of six runs:\n")
    header = ["table", "size", "classes", "by", *settings, "mean", "cleanlab", "s", "cleanlab, s"]
    print(table(header, lines))
    whole = np.array(every)
    mine, theirs = whole[:, :, 0], whole[:, :, 1]
    tables = (mine.mean(axis=1) >= theirs.mean(axis=1)).sum()
    print(f"\nmean {mine.mean():.3f}, cleanlab {theirs.mean():.3f}; at least as good in {(mine >= theirs).sum()} of")
    print(f"{mine.size} runs and {tables} of {len(mine)} tables;", end=" ")
    print(f"seconds {whole[:, :, 2].sum():.1f}, cleanlab {whole[:, :, 3].sum():.1f}\n")
    doubt, is_wrong = np.concatenate(doubts).T
    edges = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    at = np.clip(np.digitize(doubt, edges) - 1, 0, edges.size - 2)
    bins = [(edges[i], edges[i + 1], at == i) for i in range(edges.size - 1) if (at == i).any()]
    cells = [[f"{low:g} to {high:g}", str(some.sum()), f"{is_wrong[some].mean():.2f}"] for low, high, some in bins]
    print(table(["doubt", "labels", "wrong"], cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
