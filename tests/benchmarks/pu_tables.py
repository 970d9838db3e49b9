"""Tables III and IV of [Sansone, De Natale & Zhou], cell by cell: the F-measure of USMO and of a quadratic program.

Their protocol, as their paper and their program (github.com/emsansone/USMO: demo.m, performance.m, usmo.m) have it: the
features as they are in their files; a fifth of the positives is labelled, the rest hides among the negatives; the prior
is the share of positives; kernels x'z and exp(-|x - z|^2 / 2). Their measure is not the usual one:

- F belongs to that class which most of the unlabelled belong to, be it positive or not;
- labels of the unlabelled are compared with decisions on *the whole file*, of which the first are taken: row k of the
  unlabelled with row k of the file, which is another example;
- b is 0 where no coefficient is non-bound.

"as published" is that, "larger" is F of the larger class with each example compared with itself, "F+" that of the
positives. The objective is compared with that of the quadratic program, also on sets that are not the paper's.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from livesvm.solvers.pu.usmo import usmo
from tests.benchmarks.printing import duration, machine, number, table
from tests.benchmarks.pu import KERNELS, LABELLED, PAPER_SETS, cpu, scaled
from tests.benchmarks.sets import DATA, available, read
from tests.oracle import Matrix, Vector
from tests.pu_baselines.elkan_noto import elkan_noto
from tests.pu_baselines.metrics import scores
from tests.pu_baselines.quadratic_program import quadratic_program
from tests.pu_baselines.ramp import ramp_loss

Bools = NDArray[np.bool_]

LAMS = (1e-4, 1e-3, 1e-2, 1e-1)
OTHERS = (
    "wdbc",
    "german_numer",
    "monks1",
    "monks3",
    "svmguide1",
    "splice",
    "spambase",
)  #: sets that are not the paper's
MOST = 2500  #: rows of these
BOUND = 1e-8  #: of its box: a coefficient that near to an end or the middle is there

#: F of USMO for the four lam, with the linear, then the Gaussian kernel [Tables III, IV], in percent
PAPER = dict(
    zip(
        PAPER_SETS,
        (
            (68.3, 67.6, 69.3, 70.2, 64.7, 70.6, 59.4, 0.0),
            (70.2, 65.6, 73.0, 75.6, 77.6, 81.7, 76.6, 76.4),
            (70.1, 71.1, 79.3, 82.3, 70.0, 70.6, 80.1, 82.3),
            (59.9, 59.0, 56.8, 64.0, 56.5, 60.1, 54.2, 74.0),
            (59.6, 59.9, 57.2, 62.0, 61.2, 59.4, 57.5, 71.8),
            (65.1, 72.0, 73.7, 75.2, 65.3, 74.1, 65.7, 74.2),
            (93.7, 93.3, 94.7, 95.5, 75.3, 75.7, 76.4, 75.9),
            (81.1, 79.9, 82.9, 80.6, 82.5, 84.1, 73.2, 73.2),
        ),
        strict=True,
    )
)


class Split(NamedTuple):
    """A file (n, d), which of its rows are positive, and which of these are labelled, (n,)."""

    X: Matrix
    positive: Bools
    labelled: Bools

    @classmethod
    def of(cls, X: Matrix, positive: Bools, seed: int) -> Split:
        """Label a fifth of the positives at random."""
        known = np.random.default_rng(seed).permutation(np.flatnonzero(positive))
        labelled = np.zeros(len(X), bool)
        labelled[known[: int(LABELLED * known.size)]] = True
        return cls(X, positive, labelled)

    def problem(self, kernel: Kernel, lam: float) -> PUProblem:
        """Return the convex problem of this split."""
        P, U = self.X[self.labelled], self.X[~self.labelled]
        return pu_problem(kernel, P, U, *costs(float(self.positive.mean()), lam, np.ones(len(P)), np.ones(len(U))))


class Measures(NamedTuple):
    """F in percent, see the head of the file."""

    published: float
    larger: float
    positives: float


class Cell(NamedTuple):
    """One split of one set with one kernel and lam: F, the objective's relative distance and gap, and times."""

    by_usmo: Measures
    by_qp: Measures
    ramp: float
    off: float
    gap: float
    seconds: float
    qp_seconds: float


def f_measure(said: Bools, true: Bools) -> float:
    """Return F in percent of predicted members of a class, given the true ones; 0 without either."""
    count = np.count_nonzero(said) + np.count_nonzero(true)
    return 200 * np.count_nonzero(said & true) / count if count else 0.0


def measures(split: Split, problem: PUProblem, sigma: Vector, b: float) -> Measures:
    """Return what coefficients of the unlabelled and an intercept are worth."""
    X = np.concatenate([problem.P, problem.U])
    rows = KernelRows(problem.kernel, X, cache_bytes=2**20)
    f = rows.product(split.X, np.arange(len(X)), np.concatenate([problem.c1, -sigma])) + b
    middle = np.abs(sigma - 0.5 * problem.c2)
    non_bound = (middle > BOUND * problem.c2) & (middle < (0.5 - BOUND) * problem.c2)
    true = split.positive[~split.labelled]
    positives = 2 * np.count_nonzero(true) > true.size
    mine = f[~split.labelled] > 0
    theirs = (f if non_bound.any() else f - b)[: true.size] >= 0

    def of_larger(said: Bools) -> float:
        return f_measure(said == positives, true == positives)

    return Measures(of_larger(theirs), of_larger(mine), f_measure(mine, true))


def cell(split: Split, kernel: Kernel, lam: float, *, baselines: bool) -> Cell:
    """Solve one problem by USMO and the quadratic program, and by the ramp loss where asked for."""
    problem = split.problem(kernel, lam)
    mine, seconds = cpu(lambda: usmo(problem))
    theirs, qp_seconds = cpu(lambda: quadratic_program(problem))
    first, second = (problem.certificate(s.sigma, s.b) for s in (mine, theirs))
    return Cell(
        measures(split, problem, mine.sigma, mine.b),
        measures(split, problem, theirs.sigma, theirs.b),
        _by_ramp(split, problem, lam) if baselines else math.nan,
        abs(first.primal - second.primal) / abs(second.primal),
        first.relative_gap,
        seconds,
        qp_seconds,
    )


def _by_ramp(split: Split, problem: PUProblem, lam: float) -> float:
    found = ramp_loss(problem.kernel, problem.P, problem.U, float(split.positive.mean()), lam)
    X = np.concatenate([problem.P, problem.U])
    f = KernelRows(problem.kernel, X, cache_bytes=2**20).product(problem.U, np.arange(len(X)), found.beta) + found.b
    return f_measure(f > 0, split.positive[~split.labelled])


def splits_of(name: str, folder: Path, count: int) -> list[Split]:
    """Return random splits of a set; of those that are not the paper's, with features in [0, 1]."""
    X, y = read(name, folder)
    if name not in PAPER:
        X, y = scaled(X[:MOST]), y[:MOST]
    return [Split.of(X, y > 0, seed) for seed in range(count)]


def elkan_noto_f(split: Split, kernel: Kernel) -> float:
    """Return F+ of the classifier of Elkan & Noto, in percent."""
    P, U = split.X[split.labelled], split.X[~split.labelled]
    return 100 * scores(elkan_noto(kernel, P, U).decision_function(U), split.positive[~split.labelled]).f_measure


def tables(names: list[str], folder: Path, count: int, baselines: bool) -> None:
    """Print F and how far objectives are from those of the quadratic program, means over splits."""
    header = ["as published", "paper", "larger", "F+", "F+ by QP", "F+ ramp", "F+ E-N"]
    rows, of_paper, worst, gaps = [], list[list[float]](), 0.0, 0.0
    for name in available(names, folder):
        splits, own = splits_of(name, folder, count), name in PAPER
        for k, (kernel_name, kernel) in enumerate(KERNELS.items()):
            noto = float(np.mean([elkan_noto_f(split, kernel) for split in splits])) if baselines else math.nan
            for j, lam in enumerate(LAMS):
                cells = [cell(split, kernel, lam, baselines=baselines) for split in splits]
                worst, gaps = max(worst, *(c.off for c in cells)), max(gaps, *(c.gap for c in cells))
                ours, theirs = (np.mean([c[which] for c in cells], axis=0) for which in (0, 1))
                paper = PAPER[name][4 * k + j] if own else math.nan
                ramp = float(np.mean([c.ramp for c in cells]))
                values = [ours[0], paper, ours[1], ours[2], theirs[2], ramp, noto]
                if own:
                    of_paper.append([float(v) for v in (*values, theirs[0])])
                times = (duration(float(np.mean([c[which] for c in cells]))) for which in (5, 6))
                reported = ["" if math.isnan(v) else f"{v:.1f}" for v in values]
                rows.append([f"{name} {kernel_name} {lam:g}", *reported, number(max(c.off for c in cells)), *times])
    print(table(["set", *header, "objective off", "USMO", "QP"], rows))
    _summary([*header, "as published by QP"], np.array(of_paper))
    print(f"largest relative distance of the objective from the quadratic program's: {worst:.1e}; gap {gaps:.1e}")


def _summary(header: list[str], cells: Matrix) -> None:
    """Print means over the cells of the paper, and how near single ones are."""
    if not len(cells):
        return
    means = [f"{name} {value:.1f}" for name, value in zip(header, cells.mean(axis=0), strict=True) if value == value]
    print("mean over the paper's cells: " + ", ".join(means))
    off = np.abs(cells[:, 0] - cells[:, 1])
    far = f"{off.mean():.1f} points on average, {np.median(off):.1f} in the median, {off.max():.1f} at most"
    print(f"single cells as published are off the paper's by {far}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=[*PAPER, *OTHERS], metavar="SET")
    parser.add_argument("--baselines", action="store_true", help="the ramp loss and Elkan & Noto as well")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    print(machine())
    tables(given.sets, given.data, given.splits, given.baselines)


if __name__ == "__main__":
    main()
