"""Every loss, weighted, on real sets, against a quadratic program of another make.

    python -m tests.benchmarks.agreement                    every set of the directory, 250 rows of each (minutes)
    python -m tests.benchmarks.agreement --data DIR --rows 400 --sets housing mpg

Each model is filled in two updates, gives 30 rows up, and has 30 others reweighted. "gap" is its relative duality gap,
recomputed here in extended precision: no answer is better by more than it. "QP" is the relative difference of its
dual objective to that of the answer of PIQP's dense interior point method in float64, moved into its box and onto its
sum (as it stands it misses them by up to 1e-6). Both are the worst over linear and Gaussian kernel (gamma = 1/d) and C
from 0.01 to 1000; one-class has the Gaussian kernel only, as centred data seen from the origin have a linear optimum of
zero, and nu from 0.05 to 0.8. Where the two differ by more than the gap, it is PIQP's answer that is not optimal; the
last line counts those. Exit status 1 when a gap is above 1e-8.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests.benchmarks.printing import machine, number, table
from tests.benchmarks.sets import DATA, OWN, read, standardised
from tests.judge import coefficients
from tests.oracle import (
    Kernel,
    Losses,
    Matrix,
    Vector,
    absolute,
    epsilon_insensitive,
    gap,
    hinge,
    one_class,
    pinball,
    solve,
)

COSTS = (0.01, 1.0, 30.0, 1000.0)
FRACTIONS = (0.05, 0.2, 0.5, 0.8)
MOVED = 30
ALLOWED = 1e-8

Model = IncrementalSVC | IncrementalSVR | IncrementalOneClassSVM


@dataclass(frozen=True)
class Task:
    """A model for a level (C or nu) and a kernel, what the oracle calls its losses, and the levels."""

    make: Callable[..., Model]
    losses: Callable[[Vector, float, Vector], Losses]
    levels: tuple[float, ...] = COSTS
    kernels: tuple[str, ...] = ("linear", "rbf")
    has_targets: bool = True


REGRESSION = {
    "tube": Task(
        lambda C, **kernel: IncrementalSVR(C=C, epsilon=0.1, **kernel),
        lambda y, C, w: epsilon_insensitive(y, C, 0.1, w),
    ),
    "absolute": Task(lambda C, **kernel: IncrementalSVR(C=C, loss="absolute", **kernel), absolute),
    "pinball": Task(
        lambda C, **kernel: IncrementalSVR(C=C, loss="pinball", quantile=0.8, **kernel),
        lambda y, C, w: pinball(y, C, 0.8, w),
    ),
}
CLASSIFICATION = {
    "hinge": Task(lambda C, **kernel: IncrementalSVC(C=C, classes=(-1, 1), **kernel), hinge),
}
ONE_CLASS = Task(
    lambda nu, **kernel: IncrementalOneClassSVM(nu=nu, **kernel),
    lambda y, nu, w: one_class(w, nu),
    FRACTIONS,
    ("rbf",),
    has_targets=False,
)


@dataclass
class Worst:
    """The worst of some models, both relative, how many there are and in how many PIQP's answer is as good."""

    gap: float = 0.0
    difference: float = 0.0
    models: int = 0
    agreed: int = 0

    def include(self, other: Worst) -> None:
        """Take in others."""
        self.gap, self.difference = max(self.gap, other.gap), max(self.difference, other.difference)
        self.models, self.agreed = self.models + other.models, self.agreed + other.agreed


def updated(model: Model, X: Matrix, y: Vector | None, weight: Vector) -> Vector:
    """Teach a model the rows in two updates, remove 30, reweight 30; return what is left, and the weights."""
    half = len(X) // 2
    for rows in (slice(half), slice(half, None)):
        keys = list(range(*rows.indices(len(X))))
        model.update(add=(X[rows], None if y is None else y[rows]), sample_weight=weight[rows], keys=keys)
    changed = list(range(MOVED, 2 * MOVED))
    weight[changed] *= 2.5
    model.update(remove=list(range(MOVED)), reweight=dict(zip(changed, weight[changed].tolist(), strict=True)))
    return np.array(model.keys_, np.int64)


def examine(task: Task, X: Matrix, y: Vector, *, weighted: bool) -> Worst:
    """Judge a task on a set: all kernels and levels."""
    worst = Worst()
    for name in task.kernels:
        for level in task.levels:
            weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y)) if weighted else np.ones(len(y))
            gamma = 1.0 / X.shape[1]
            model = task.make(level, kernel=name, gamma=gamma)
            window = updated(model, X, y if task.has_targets else None, weight)
            K = Kernel(name, gamma)(X[window], X[window])
            losses = task.losses(y[window], level, weight[window])
            ours = gap(K, losses, coefficients(model), float(model.intercept_[0]))
            theirs = gap(K, losses, solve(K, losses).beta, 0.0)
            difference = abs(ours.dual - theirs.dual) / max(abs(ours.dual), abs(ours.primal))
            worst.include(Worst(ours.relative, difference, 1, int(difference <= ALLOWED)))
    return worst


def sets(folder: Path) -> list[str]:
    """Return the names of every set that can be read."""
    return sorted({*OWN, *(file.stem for file in folder.glob("*.npz"))})


def sample(name: str, folder: Path, rows: int) -> tuple[Matrix, Vector] | None:
    """Return ``rows`` random rows of a set, standardised; None if it has no targets or rows that are not whole."""
    try:
        X, y = read(name, folder)
    except KeyError:
        return None
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    X, y = standardised(X[chosen]), y[chosen]
    return (X, y) if len(y) > 2 * MOVED and X.shape[1] > 0 and np.isfinite(X).all() and np.isfinite(y).all() else None


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the archives")
    parser.add_argument("--sets", nargs="+", help="these sets; default: all")
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--quick", action="store_true", help="the sets that are always there, 120 rows")
    options = parser.parse_args(arguments)
    names, rows = (sorted(OWN), 120) if options.quick else (options.sets or sets(options.data), options.rows)
    lines, overall = [], Worst()
    with threadpool_limits(limits=1):
        for name in names:
            found = sample(name, options.data, rows)
            if found is None:
                print(f"{name}: no table of features and targets, left out", flush=True)
                continue
            X, y = found
            labels = len(np.unique(y)) == 2
            y = np.where(y == y.max(), 1.0, -1.0) if labels else (y - y.mean()) / max(float(y.std()), 1e-12)
            for kind, task in {**(CLASSIFICATION if labels else REGRESSION), "one class": ONE_CLASS}.items():
                for weighted in (False, True):
                    worst = examine(task, X, y, weighted=weighted)
                    figures = [number(worst.gap), number(worst.difference)]
                    lines.append([name, kind, "yes" if weighted else "", *figures])
                    overall.include(worst)
                    print(" | ".join(lines[-1]), flush=True)
    print()
    print(machine())
    print(table(["set", "task", "weights", "gap", "QP"], lines))
    print(
        f"{overall.models} models: worst gap {number(overall.gap)}; PIQP's answer is the same to {number(ALLOWED)} in "
        f"{overall.agreed}"
    )
    return int(overall.gap > ALLOWED or overall.models == 0)


if __name__ == "__main__":
    sys.exit(main())
