"""L2-SVMs by Frank-Wolfe methods on the paper's sets, next to their rivals: accuracy, time, support vectors.

    python -m tests.benchmarks.frank_wolfe --quick      small sets, some minutes
    python -m tests.benchmarks.frank_wolfe --parts sets quadratic        Tables 2, 3 and 8, next to the paper's figures
    python -m tests.benchmarks.frank_wolfe              every part on every set: an hour or two
    python -m tests.benchmarks.frank_wolfe --parts sets --sets ijcnn1 a9a w8a --C 10 --methods default LIBSVM
    python -m tests.benchmarks.frank_wolfe --parts growth --sets kddcup99_10pct --methods default --C 10

Parts, with the tables and sections of the paper [Frandi et al.] that they repeat: ``sets`` (Tables 2 and 3), ``growth``
with n on nested subsets (5.3, 5.4), ``C`` (5.7), ``quadratic`` (Table 8), and ``slide``: a warm start after a hundredth
of the examples has changed. The kernel is exp(-|x - z|^2 / 2 s), where s is the mean squared distance (``--narrow``:
exp(-|x - z|^2 / s), that of Tsang et al., whose width the paper takes over); C is chosen from 1, 2, ..., 4096 by the
accuracy on 30% of the training data (of 5,000 examples at most) unless ``--C`` says it. FW and MFW look at
samples of 59 and stop where the paper does, at 2 (R - min g) <= 2e-6 Delta^2, both alike; those named "sample" at the
first sample of 59 where that is so, as the paper's program, however far the optimum is. "gap" is
``2 (R - min g) / R`` in double precision; seconds are those on the wall, and of all processors. A trial that takes more
than ``--limit`` seconds of processors, in a process of its own, is given up and shown as such, so that every command
ends.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from livesvm.solvers import FrankWolfeSVC
from livesvm.solvers.warm_up import warm_up
from tests.benchmarks import frank_wolfe_paper
from tests.benchmarks.apart import apart
from tests.benchmarks.printing import machine, number, table
from tests.benchmarks.sets import DATA, OWN
from tests.oracle import Vector

ADULT_AND_WEB = ("a1a", "a2a", "a3a", "a8a", "a9a", "w1a", "w7a", "w8a")
SETS = (*ADULT_AND_WEB, "usps", "letter", "ijcnn1", "shuttle", "mnist_5k", "kddcup99_10pct")
QUICK = ("a1a", "w1a", "mnist_5k")
COSTS = tuple(2.0**k for k in range(13))
SAMPLE = 59  #: examples that are looked at
RULE = 2e-6  #: times Delta^2: the paper's epsilon of 1e-6
NESTED = (0.125, 0.25, 0.5, 1.0)
NARROW = 64  #: features below which sparse files are read as dense data, which suits every rival
MEASURED = ("accuracy %", "wall s", "processors s", "SVs", "gap")
OTHERS = ("LIBSVM", "Nystroem")  #: methods that do not need to know what the paper's rule means
CHOOSING = 10.0  #: times the limit of one trial that the choice of C may take
TESTED = 20_000  #: examples that the accuracy is measured on, at most
NORMAL = 11  #: the class of kddcup99_10pct that is no attack


@dataclass(frozen=True)
class Data:
    """Training and test part of a set, dense or CSR, and the gamma of the paper."""

    name: str
    X: Any
    y: Vector
    X_test: Any
    y_test: Vector

    @property
    def gamma(self) -> float:
        """One over twice the mean squared distance."""
        X = self.X
        mean = np.asarray(X.mean(axis=0)).ravel()
        squares = X.multiply(X).sum() if sparse.issparse(X) else np.einsum("ij,ij->", X, X)
        return float(0.25 / (squares / X.shape[0] - mean @ mean))

    def first(self, n: int) -> Data:
        """Return the set with its first ``n`` examples for training."""
        return Data(self.name, self.X[:n], self.y[:n], self.X_test, self.y_test)


def read(name: str, folder: Path) -> Data:
    """Return a set in an order by chance; a fifth of it is the test part where there is no other.

    Features are brought to [0, 1] unless none is above 1; those of kddcup99_10pct after a logarithm.
    """
    random = np.random.default_rng(0)
    if name in OWN:
        X, y = OWN[name]("X")
        parts = [(X, y)]
    else:
        with np.load(folder / f"{name}.npz") as archive:
            ends = ("", "_test") if "y_test" in archive else ("",)
            parts = [(_features(archive, end), np.asarray(archive["y" + end])) for end in ends]
    if name == "kddcup99_10pct":
        parts = [(np.log1p(X), np.where(y == NORMAL, 1, -1)) for X, y in parts]
    order = random.permutation(parts[0][1].size)
    X, y = parts[0][0][order], parts[0][1][order]
    if len(parts) == 1:
        cut = y.size // 5
        parts = [(X[cut:], y[cut:]), (X[:cut], y[:cut])]
    else:
        parts[0] = X, y
    (X, y), (X_test, y_test) = parts
    if not sparse.issparse(X) and np.abs(X).max() > 1.0:
        low, high = X.min(axis=0), X.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        X, X_test = (X - low) / width, (X_test - low) / width
    tested = random.permutation(y_test.size)[:TESTED]
    return Data(name, X, y, X_test[tested], y_test[tested])


def _features(archive: Any, end: str) -> Any:
    if "X" + end in archive:
        return np.asarray(archive["X" + end], np.float64)
    arrays = (archive[name + end] for name in ("data", "indices", "indptr"))
    found = sparse.csr_array(tuple(arrays), shape=archive["shape" + end], dtype=np.float64)
    return found.toarray() if found.shape[1] < NARROW else found


@dataclass(frozen=True)
class Trial:
    """What a method made of a set; of ``margin`` the mean over pairs."""

    accuracy: float
    wall: float
    processors: float
    support: int | None
    gap: float | None
    margin: float | None

    @property
    def cells(self) -> list[str]:
        """Accuracy in percent, both times, support vectors and gap, as text."""
        return [
            f"{100 * self.accuracy:.2f}",
            f"{self.wall:.2f}",
            f"{self.processors:.2f}",
            "" if self.support is None else str(self.support),
            "" if self.gap is None else number(self.gap),
        ]


def train(make: Callable[[], Any], data: Data) -> Trial:
    """Fit a model and measure it."""
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        wall, processors = time.perf_counter(), time.process_time()
        model.fit(data.X, data.y)
        wall, processors = time.perf_counter() - wall, time.process_time() - processors
    support, margin = getattr(model, "support_", None), getattr(model, "margin_", None)
    return Trial(
        float(model.score(data.X_test, data.y_test)),
        wall,
        processors,
        None if support is None else len(support),
        getattr(model, "relative_gap_", None),
        None if margin is None else float(margin.mean()),
    )


def gaussian(data: Data, *, narrow: bool = False) -> dict[str, Any]:
    """Return the kernel of Tables 2 and 3."""
    return {"kernel": "rbf", "gamma": (2.0 if narrow else 1.0) * data.gamma}


def squared(data: Data) -> dict[str, Any]:
    """Return the kernel of Table 8, (gamma x'z)^2, gamma one over the mean squared distance."""
    return {"kernel": "poly", "degree": 2, "gamma": 2.0 * data.gamma}


def largest_value(data: Data, kernel: dict[str, Any]) -> float:
    """Return the largest k(x, x)."""
    if kernel["kernel"] == "rbf":
        return 1.0
    return float((kernel["gamma"] * np.asarray((data.X * data.X).sum(axis=1))).max()) ** 2


def methods(C: float, kernel: dict[str, Any], rule: float) -> dict[str, Callable[[], Any]]:
    """Return how to make each of the rivals."""
    sampled = partial(FrankWolfeSVC, C=C, **kernel, tol=rule, sampling=SAMPLE)
    until = partial(sampled, full_pass=False)
    features = {"degree": None, "coef0": None, **kernel}
    if kernel["kernel"] != "rbf":
        features["coef0"] = 0.0
    return {
        "default": partial(FrankWolfeSVC, C=C, **kernel),
        "FW": partial(sampled, variant="fw"),
        "MFW": partial(sampled, variant="mfw"),
        "FW sample": partial(until, variant="fw"),
        "MFW sample": partial(until, variant="mfw"),
        "LIBSVM": partial(SVC, C=C, **kernel, cache_size=500),
        "Nystroem": lambda: make_pipeline(
            Nystroem(**features, n_components=300, random_state=0), LinearSVC(C=C, random_state=0)
        ),
    }


def paper_rule(C: float, margin: float, own: float = 1.0) -> float:
    """Return the tolerance that is the paper's stopping rule where R is the ``margin`` and k(x, x) its ``own``."""
    return float(min(1.0, RULE * (own + 1.0 + 1.0 / C) / margin))


def chosen_cost(data: Data, kernel: dict[str, Any]) -> float:
    """Return the C that is best on 30% of the training data."""
    n = min(data.y.size, 5000)
    cut = 3 * n // 10
    split = Data(data.name, data.X[cut:n], data.y[cut:n], data.X[:cut], data.y[:cut])
    return max(COSTS, key=lambda C: train(partial(FrankWolfeSVC, C=C, **kernel), split).accuracy)


def _cost(data: Data, kernel: dict[str, Any], asked: argparse.Namespace) -> float:
    if asked.C is not None:
        return float(asked.C)
    return apart(partial(chosen_cost, data, kernel), CHOOSING * asked.limit) or COSTS[3]


def trials(
    data: Data, C: float, kernel: dict[str, Any], asked: argparse.Namespace
) -> Iterator[tuple[str, Trial | None]]:
    """Return what each method that is asked for makes of a set, by its name; None: it takes more than the limit.

    The default, which tells what the paper's rule means here, comes first, whether it is asked for or not.
    """
    first = apart(partial(train, methods(C, kernel, 1.0)["default"], data), asked.limit)
    yield "default", first
    rule = 1.0 if first is None or first.margin is None else paper_rule(C, first.margin, largest_value(data, kernel))
    for name, make in methods(C, kernel, rule).items():
        if name in asked.methods and name != "default" and (first is not None or name in OTHERS):
            yield name, apart(partial(train, make, data), asked.limit)


def _cells(trial: Trial | None, limit: float) -> list[str]:
    return [f"over {limit:g} s", "", "", "", ""] if trial is None else trial.cells


def _beside_the_paper(
    asked: argparse.Namespace, kernel: Callable[[Data], dict[str, Any]], theirs: Callable[[str, str], list[str]]
) -> None:
    rows = []
    for data in _data(asked):
        own = kernel(data)
        C = _cost(data, own, asked)
        for name, trial in trials(data, C, own, asked):
            cells = _cells(trial, asked.limit)
            rows.append([data.name, str(data.y.size), f"{C:g}", name, *cells, *theirs(data.name, name)])
            print("  ".join(rows[-1]), flush=True)
    print(table(["set", "n", "C", "method", *MEASURED, "paper's %", "paper's s"], rows))


def sets(asked: argparse.Namespace) -> None:
    """Print Tables 2 and 3: every method on every set, next to the paper's figures."""
    _beside_the_paper(asked, partial(gaussian, narrow=asked.narrow), frank_wolfe_paper.gaussian)


def quadratic(asked: argparse.Namespace) -> None:
    """Table 8: the kernel (gamma x'z)^2, gamma one over the mean squared distance, next to the paper's figures."""
    _beside_the_paper(asked, squared, frank_wolfe_paper.quadratic)


def growth(asked: argparse.Namespace) -> None:
    """Print times on nested subsets, and the exponent of n between each and the one before."""
    rows = []
    for data in _data(asked):
        kernel = gaussian(data, narrow=asked.narrow)
        C = _cost(data, kernel, asked)
        before: dict[str, tuple[int, float]] = {}
        for share in NESTED:
            part = data.first(int(share * data.y.size))
            for name, trial in trials(part, C, kernel, asked):
                n, was = part.y.size, before.pop(name, None)
                power = ""
                if trial is not None:
                    power = "" if was is None else f"{np.log(trial.processors / was[1]) / np.log(n / was[0]):.2f}"
                    before[name] = n, trial.processors
                rows.append([data.name, str(n), name, *_cells(trial, asked.limit), power])
                print("  ".join(rows[-1]), flush=True)
    print(table(["set", "n", "method", *MEASURED, "exponent"], rows))


def costs(asked: argparse.Namespace) -> None:
    """Section 5.7: the effect of C."""
    rows = []
    for data in _data(asked):
        for C in COSTS:
            for name, trial in trials(data, C, gaussian(data, narrow=asked.narrow), asked):
                rows.append([data.name, f"{C:g}", name, *_cells(trial, asked.limit)])
                print("  ".join(rows[-1]), flush=True)
    print(table(["set", "C", "method", *MEASURED], rows))


def slide(asked: argparse.Namespace) -> None:
    """Slide a hundredth of the window: from the last solution, and from nothing."""
    rows = []
    for data in _data(asked):
        n = data.y.size
        moved = n // 100
        window = Data(data.name, data.X[moved:], data.y[moved:], data.X_test, data.y_test)
        settings: dict[str, Any] = {"C": asked.C or 10.0, "gamma": data.gamma}
        warm = FrankWolfeSVC(**settings, warm_start=True).fit(data.X[: n - moved], data.y[: n - moved])
        places = np.r_[moved : n - moved, np.full(moved, -1)]
        started = time.perf_counter(), time.process_time()
        warm.fit(window.X, window.y, places=places)
        taken = time.perf_counter() - started[0], time.process_time() - started[1]
        cold = train(partial(FrankWolfeSVC, **settings), window)
        gaps = [number(cold.gap or 0.0), number(warm.relative_gap_)]
        times = [f"{cold.wall:.2f}", f"{taken[0]:.2f}", f"{taken[1] / cold.processors:.2f}"]
        rows.append([data.name, str(n - moved), *times, *gaps])
        print("  ".join(rows[-1]), flush=True)
    print(table(["set", "n", "cold s", "warm s", "processors warm / cold", "gap cold", "gap warm"], rows))


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "sets": sets,
    "growth": growth,
    "C": costs,
    "quadratic": quadratic,
    "slide": slide,
}


def _data(asked: argparse.Namespace) -> Iterator[Data]:
    for name in asked.sets:
        if name not in OWN and not (asked.data / f"{name}.npz").is_file():
            print(f"there is no {name} in {asked.data}")
            continue
        yield read(name, asked.data)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(methods(1.0, {"kernel": "rbf"}, 1.0)))
    parser.add_argument("--C", type=float)
    parser.add_argument("--narrow", action="store_true", help="the kernel of Tsang et al.")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of processors that one trial may take")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    there = [name for name in (QUICK if asked.quick else SETS) if (asked.data / f"{name}.npz").is_file()]
    asked.sets = asked.sets or there or ["wdbc"]
    print(machine())
    warm_up("batch solvers")
    for part in asked.parts:
        print(f"\n{part}: {PARTS[part].__doc__}")
        PARTS[part](asked)


if __name__ == "__main__":
    main()
