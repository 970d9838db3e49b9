"""The whole regularization path on the sets of [Ong, Shao & Yang, Tables II-IV] that are at hand.

    python -m tests.benchmarks.regularization                    every set, linear and Gaussian kernel (minutes)
    python -m tests.benchmarks.regularization --quick            the sets of fewer than 500 examples
    python -m tests.benchmarks.regularization --doubled          every row twice
    python -m tests.benchmarks.regularization --qp 100           compares with a quadratic program at 100 random C

As there: lambda = 1/C from 1e4 to 1e-3, every feature of mean 0 and variance 1, sigma = 0.5 (gamma = 2). "free" is the
largest number of free examples, "pivots" counts moves along null directions, "resorts" ties that had to be spread.
"time" is that of training a model at C = 1 and of its path to both ends; "fits" is that over the median time of
scikit-learn's ``SVC`` at tolerance 1e-3 (five million iterations at most: on one-hot Monks data it does not end at
C = 1e3) and C = 1e-4, 1e-3, ..., 1e3, and, in brackets, over its time at C = 1. "gap"
is the largest relative duality gap at 100 random C, log-uniform, recomputed here: no answer is better by more than it.
"QP" is the largest relative difference to the objective of PIQP's answer in float64, for sets of up to 1,300 examples.
The figures of the paper, on splits of its own, stand next to: most free examples, events, largest nullity, seconds.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, RegularizationPath
from tests import oracle
from tests.benchmarks.printing import duration, machine, number, seconds, table
from tests.benchmarks.sets import DATA, available, read, standardised
from tests.oracle import Kernel, Matrix, Vector

C_MIN, C_MAX = 1e-4, 1e3
KERNELS = {"linear": Kernel("linear"), "rbf": Kernel("rbf", 2.0)}
LOOKS = 100
LARGEST_QP = 1300
MOST_ITERATIONS = 5_000_000


@dataclass(frozen=True)
class Source:
    """A file, which of its arrays hold the features, how many rows are used, and what the paper found.

    The paper's figures are by kernel: largest number of free examples, events, largest nullity, seconds.
    """

    file: str
    features: str = "X"
    rows: int | None = None
    both_parts: bool = False
    paper: tuple[str, str] = ("", "")


SOURCES = {
    "ionosphere": Source("ionosphere", paper=("34, 388, 0, 1.9", "193, 13, 1, 2.3")),
    "monks1": Source("monks1", paper=("105, 52, 98, 5.7", "432, 32, 0, 3.3")),
    "monks2": Source("monks2", paper=("290, 1, 283, 2.3", "432, 143, 0, 13")),
    "monks3": Source("monks3", paper=("119, 74, 86, 5.8", "432, 270, 0, 21")),
    "monks1 one-hot": Source("monks1", "X_onehot"),
    "wdbc": Source("wdbc"),
    "hill-valley": Source("hill_valley_clean", rows=606, paper=("17, 610, 0, 9.3", "172, 641, 2, 24")),
    "hill-valley noisy": Source("hill_valley_noise", rows=606),
    "diabetes": Source("diabetes", paper=("9, 350, 0, 3.6", "457, 180, 0, 18")),
    "german": Source("german_numer", paper=("28, 440, 3, 13", "800, 112, 0, 41")),
    "splice": Source("splice", paper=("62, 6340, 3, 674", "3149, 156, 179, 6964")),
    "svmguide1": Source("svmguide1", both_parts=True, paper=("6, 13287, 2, 1472", "606, 14107, 2, 4160")),
}


def load(source: Source, data: Path, *, doubled: bool) -> tuple[Matrix, Vector]:
    """Read a set, scale its features to mean 0 and variance 1, and leave out those that never vary."""
    X, y = read(source.file, data, features=source.features, both_parts=source.both_parts)
    X, y = standardised(X[: source.rows]), y[: source.rows]
    return (np.vstack([X, X]), np.tile(y, 2)) if doubled else (X, y)


@dataclass(frozen=True)
class Result:
    """What one path took and how good it is."""

    n: int
    path: RegularizationPath
    time: float
    svc: float
    svc_at_one: float
    gap: float
    difference: float | None


def run(X: Matrix, y: Vector, kernel: Kernel, looks_qp: int, repeats: int) -> Result:
    """Walk a path, time it next to ``SVC``, and judge it at random C."""
    found: list[RegularizationPath] = []

    def work() -> None:
        model = IncrementalSVC(C=1.0, kernel=kernel.name, gamma=kernel.gamma, classes=(-1, 1), cache_mb=1024)
        found[:] = [model.fit(X, y).regularization_path(C_MIN, C_MAX)]

    work()
    time = seconds(work, repeats)
    fits = [seconds(lambda C=C: _svc(kernel, C).fit(X, y), repeats) for C in 10.0 ** np.arange(-4, 4)]  # type: ignore[misc]
    K = np.asarray(kernel(X, X) if len(X) <= LARGEST_QP else _kernel_matrix(kernel, X), np.float64)
    random = 10.0 ** np.random.default_rng(0).uniform(-4, 3, LOOKS)
    gap = max(_gap(K, y, C, found[0].coefficients(C), found[0].intercept(C)) for C in random)
    difference = None
    if looks_qp and len(X) <= LARGEST_QP:
        difference = max(_difference(K, y, C, found[0]) for C in random[:looks_qp])
    return Result(len(X), found[0], time, float(np.median(fits)), fits[4], gap, difference)


def _svc(kernel: Kernel, C: float) -> SVC:
    """LIBSVM; on some sets it would not end."""
    return SVC(C=C, kernel=kernel.name, gamma=kernel.gamma, cache_size=1024, max_iter=MOST_ITERATIONS)


def _kernel_matrix(kernel: Kernel, X: Matrix) -> Matrix:
    """Return the kernel matrix in double precision, for sets that are too large for extended precision."""
    products = X @ X.T
    if kernel.name == "linear":
        return products
    squares = np.diag(products)
    return np.asarray(np.exp(-kernel.gamma * np.maximum(squares[:, None] + squares - 2 * products, 0.0)))


def _gap(K: Matrix, y: Vector, C: float, beta: Vector, b: float) -> float:
    """Return the relative duality gap of an answer that keeps its box and its sum but for rounding."""
    f = K @ beta
    primal = 0.5 * beta @ f + C * np.maximum(0.0, 1.0 - y * (f + b)).sum()
    dual = y @ beta - 0.5 * beta @ f
    outside = max(float((y * beta - C).max()), float((-y * beta).max()), abs(float(beta.sum())))
    if outside > 1e-8 * C * len(y):
        raise SystemExit(f"coefficients at C = {C:.6g} leave their box or their sum by {outside:.1e}")
    return float((primal - dual) / primal)


def _difference(K: Matrix, y: Vector, C: float, path: RegularizationPath) -> float:
    """Return the relative difference of the objective to that of PIQP's answer, each judged from the data."""
    asked = oracle.hinge(y, C)
    qp = oracle.solve(K, asked)
    theirs = oracle.gap(K, asked, qp.beta, qp.intercept).primal
    ours = oracle.gap(K, asked, path.coefficients(C), path.intercept(C)).primal
    return abs(ours - theirs) / theirs


def row(name: str, kernel: str, found: Result, paper: str) -> list[str]:
    """Write a line of the table."""
    report = found.path.report
    return [
        name,
        kernel,
        str(found.n),
        str(int(found.path.breakpoints.n_free.max(initial=0))),
        str(report.events),
        str(report.exchanges),
        str(report.last_resorts),
        duration(found.time),
        f"{found.time / found.svc:.1f} ({found.time / found.svc_at_one:.1f})",
        number(found.gap),
        "" if found.difference is None else number(found.difference),
        paper,
    ]


HEADER = (
    "set", "kernel", "n", "free", "events", "pivots", "resorts", "time", "fits (C = 1)", "gap", "QP", "the paper's",
)  # fmt: skip


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the archives")
    parser.add_argument("--quick", action="store_true", help="only the sets of fewer than 500 examples")
    parser.add_argument("--doubled", action="store_true", help="take every row twice")
    parser.add_argument("--qp", type=int, default=0, help="how many random C are compared with a quadratic program")
    parser.add_argument("--repeats", type=int, default=3, help="how often each time is taken")
    parser.add_argument("--only", nargs="+", help="these sets")
    given = parser.parse_args()
    print(machine())
    files = available([source.file for source in SOURCES.values()], given.data)
    rows, ratios = [], []
    with threadpool_limits(1), warnings.catch_warnings(category=ConvergenceWarning, action="ignore"):
        for name, source in SOURCES.items():
            if source.file not in files or (given.only and name not in given.only):
                continue
            X, y = load(source, given.data, doubled=given.doubled)
            if given.quick and len(X) >= 500:
                continue
            for (kernel, shape), paper in zip(KERNELS.items(), source.paper, strict=True):
                found = run(X, y, shape, given.qp, given.repeats if len(X) < 2000 else 1)
                rows.append(row(name, kernel, found, paper))
                ratios.append(found.time / found.svc)
                print(" | ".join(rows[-1]), flush=True)
    print()
    print(table(HEADER, rows))
    print(f"\nmedian: {np.median(ratios):.1f} fits")


if __name__ == "__main__":
    main()
