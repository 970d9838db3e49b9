"""Small random classification problems on which active-set methods stumble, each made from one seed.

A problem is a table of rows and a sequence of updates that move rows of the table in and out of a window;
the key of an example is the number of its row. A family says what is degenerate about the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.oracle import Kernel, Matrix, Vector

Rows = NDArray[np.int64]
Random = np.random.Generator

C_VALUES = tuple(10.0**power for power in range(-4, 7))


@dataclass(frozen=True)
class Batch:
    """Rows of the table that come into the window, and rows that leave it."""

    add: Rows
    remove: Rows


@dataclass(frozen=True)
class Problem:
    """A table (N, d), its labels in {-1, +1}, weights and kernel, and the updates of the window."""

    seed: int
    family: str
    X: Matrix
    y: Vector
    weight: Vector
    C: float
    kernel: Kernel
    fit_intercept: bool
    batches: tuple[Batch, ...]

    def windows(self) -> list[Rows]:
        """Return the rows of the window after each update, oldest first."""
        window: list[int] = []
        found = []
        for batch in self.batches:
            gone = set(batch.remove.tolist())
            window = [row for row in window if row not in gone] + batch.add.tolist()
            found.append(np.array(window, dtype=np.int64))
        return found

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of `solvers.IncrementalSVC` for this problem."""
        kernel = self.kernel
        shape = {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}
        fixed = {"fit_intercept": self.fit_intercept, "classes": (-1, 1)}
        return {"C": self.C, "kernel": kernel.name, **shape, **fixed}


@dataclass(frozen=True)
class Table:
    """What a family makes: rows and labels, and where it insists on them, kernel and weights."""

    X: Matrix
    y: Vector
    kernel: Kernel | None = None
    weight: Vector | None = None


def _labels(random: Random, X: Matrix) -> Vector:
    """Noisy labels of a random linear rule; often unbalanced."""
    score = X @ random.normal(size=X.shape[1])
    score = (score - score.mean()) / (score.std() + 1e-300)
    return np.where(score + random.choice([0.0, 0.5, 2.0]) * random.normal(size=len(X)) > 0.3, 1.0, -1.0)


def _gaussian(random: Random, n: int, d: int | None = None) -> Matrix:
    return random.normal(size=(n, d or int(random.integers(1, 6))))


def regular(random: Random, n: int) -> Table:
    """Gaussian rows: the plain case, for comparison."""
    X = _gaussian(random, n)
    return Table(X, _labels(random, X))


def duplicates(random: Random, n: int) -> Table:
    """Return a few distinct rows, each many times, labels drawn per copy."""
    X = _gaussian(random, max(2, n // 6))[random.integers(0, max(2, n // 6), n)]
    return Table(X, _labels(random, X))


def both_labels(random: Random, n: int) -> Table:
    """Return every row twice, with both labels."""
    half = _gaussian(random, max(2, n // 2))
    return Table(np.repeat(half, 2, axis=0), np.tile([1.0, -1.0], len(half)))


def near_duplicates(random: Random, n: int) -> Table:
    """Return rows in clusters whose width goes from rounding up to 1e-5."""
    base = _gaussian(random, max(2, n // 5))
    X = base[random.integers(0, len(base), n)]
    X = X + 10.0 ** random.uniform(-16, -5) * random.normal(size=X.shape)
    return Table(X, _labels(random, X))


def grid(random: Random, n: int) -> Table:
    """Small integer features: ties and duplicates."""
    X = random.integers(0, random.integers(2, 6), size=(n, random.integers(1, 5))).astype(np.float64)
    return Table(X, _labels(random, X))


def monks_table() -> Matrix:
    """Return all 432 combinations of the six attributes of the Monks problems, counted from 1."""
    return np.array(list(product(*(range(1, k + 1) for k in (3, 3, 2, 3, 4, 2)))), dtype=np.float64)


def monks_labels(X: Matrix, which: int) -> Vector:
    """Return the labels of Monks problem 1, 2 or 3 without noise [Thrun et al., 1991]."""
    if which == 1:
        hit = (X[:, 0] == X[:, 1]) | (X[:, 4] == 1)
    elif which == 2:
        hit = (X == 1).sum(axis=1) == 2
    else:
        hit = ((X[:, 4] == 3) & (X[:, 3] == 1)) | ((X[:, 4] != 4) & (X[:, 1] != 3))
    return np.where(hit, 1.0, -1.0)


def one_hot(X: Matrix) -> Matrix:
    """Return each value of each column as a column of its own."""
    return np.column_stack([X[:, j] == value for j in range(X.shape[1]) for value in np.unique(X[:, j])]) * 1.0


def monks(random: Random, n: int) -> Table:
    """Return a part of a Monks problem, as integers or one-hot."""
    X = monks_table()
    rows = random.permutation(len(X))[:n]
    y = monks_labels(X, int(random.integers(1, 4)))
    return Table((one_hot(X) if random.random() < 0.5 else X)[rows], y[rows])


def linear(random: Random, n: int) -> Table:
    """Linear kernel with far more rows than features, sometimes rounded."""
    X = _gaussian(random, n, int(random.integers(1, 4)))
    return Table(np.round(X, 1) if random.random() < 0.3 else X, _labels(random, X), Kernel("linear"))


def tiny_gamma(random: Random, n: int) -> Table:
    """Gamma so small that all rows of the kernel matrix are the same to many digits."""
    X = _gaussian(random, n)
    return Table(X, _labels(random, X), Kernel("rbf", 10.0 ** random.uniform(-12, -4)))


def weights(random: Random, n: int) -> Table:
    """Return weights over six decades, at most 1: C times a weight stays where float64 can hold beta."""
    X = _gaussian(random, n)
    X = np.round(X) if random.random() < 0.3 else X
    return Table(X, _labels(random, X), weight=10.0 ** random.uniform(-6, 0, n))


def one_class(random: Random, n: int) -> Table:
    """Return one label only, or a single row of the other one."""
    y = np.full(n, random.choice([-1.0, 1.0]))
    y[random.integers(0, n)] *= random.choice([-1.0, 1.0])
    return Table(_gaussian(random, n), y)


def polynomial(random: Random, n: int) -> Table:
    """Polynomial kernels of low rank, on integers or reals."""
    X = _gaussian(random, n, int(random.integers(1, 4)))
    X = np.round(X) if random.random() < 0.5 else X
    coef0 = float(random.choice([0.0, 1.0]))
    return Table(X, _labels(random, X), Kernel("poly", 0.5, int(random.integers(2, 5)), coef0))


def constant(random: Random, n: int) -> Table:
    """Return all rows equal, or all zero."""
    X = np.full((n, int(random.integers(1, 4))), float(random.choice([0.0, 1.0, -3.0])))
    return Table(X, np.where(random.random(n) < 0.4, 1.0, -1.0))


def separable(random: Random, n: int) -> Table:
    """Return two far groups: few support vectors and, at large C, no example at the bound."""
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    X = _gaussian(random, n, 3) * 0.5
    X[:, 0] += 3.0 * y
    return Table(X, y)


def far_away(random: Random, n: int) -> Table:
    """RBF on features far from the origin, where squared distances lose digits."""
    X = _gaussian(random, n)
    return Table(X + 10.0 ** random.uniform(2, 6), _labels(random, X), Kernel("rbf", 0.5))


def identity(random: Random, n: int) -> Table:
    """Gamma so large that distinct rows do not see each other, with some rows repeated: nearly all are free."""
    X = _gaussian(random, max(2, 3 * n // 4))[random.integers(0, max(2, 3 * n // 4), n)]
    return Table(X, _labels(random, X), Kernel("rbf", 10.0 ** random.uniform(2, 5)))


def wide(random: Random, n: int) -> Table:
    """Linear kernel with more features than rows, some of them copies of others, and rows that are sums of others."""
    X = _gaussian(random, n, int(random.integers(n, 3 * n)))
    X[:, n // 2 :] = X[:, random.integers(0, max(1, n // 2), X.shape[1] - n // 2)]
    X[n // 2 :] = 0.5 * (X[: n - n // 2] + X[random.integers(0, n // 2, n - n // 2)])
    return Table(X / np.sqrt(X.shape[1]), _labels(random, X), Kernel("linear"))


def mixed(random: Random, n: int) -> Table:
    """Several of the above at once: repeated or rounded rows, weights, and a kernel of any smoothness."""
    names = ("regular", "duplicates", "both_labels", "near_duplicates", "grid", "separable")
    table = FAMILIES[str(random.choice(names))](random, n)
    smooth = 10.0 ** random.uniform(-9, 2)
    kernels = (Kernel("linear"), Kernel("rbf", smooth), Kernel("poly", 0.2, int(random.integers(2, 6)), 1.0))
    weight = 10.0 ** random.uniform(random.choice([-6, -2, 0]), 0, len(table.X))
    return Table(table.X, table.y, kernels[random.integers(0, 3)], weight)


def skewed(random: Random, n: int) -> Table:
    """Return a river's flow over days and whether it will rise: rows crowd in a corner, labels are nearly random."""
    drops = random.exponential(size=n + 7) * (random.random(n + 7) < 0.3)
    flow = np.zeros(n + 7)
    for day in range(1, n + 7):
        flow[day] = 0.9 * flow[day - 1] + np.expm1(2.0 * drops[day])
    rounded = np.round(flow, 2)
    X = np.lib.stride_tricks.sliding_window_view(rounded[:-1], 7)[:n] / max(rounded.max(), 1.0)
    return Table(X, np.where(rounded[7:] > rounded[6:-1], 1.0, -1.0), Kernel("rbf", 10.0 ** random.uniform(-3.5, 0)))


Family = Callable[[Random, int], Table]
FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        regular, duplicates, both_labels, near_duplicates, grid, monks, linear, tiny_gamma, weights,
        one_class, polynomial, constant, separable, far_away, identity, wide, mixed, skewed,
    )
}  # fmt: skip


def _any_kernel(random: Random, d: int) -> Kernel:
    if random.random() < 0.25:
        return Kernel("linear")
    return Kernel("rbf", float(10.0 ** random.uniform(-2, 0.5)) / d)


def _batches(random: Random, n: int) -> tuple[Batch, ...]:
    """Fill the window with about half of the table, then move rows in and out; sometimes empty it."""
    inside: Rows = np.zeros(0, dtype=np.int64)
    outside: Rows = random.permutation(n)
    found = []
    for step in range(int(random.integers(3, 9))):
        large = n // 2 if step == 0 else int(random.integers(0, max(2, n // 4)))
        come = outside[: max(large, 1 if step == 0 else 0)]
        leave = random.random()
        share = 0.0 if leave < 0.3 else 1.0 if leave > 0.95 else random.random() * 0.5
        gone = random.permutation(inside)[: int(np.ceil(share * len(inside)))]
        if len(come) + len(gone) == 0:
            come = outside[:1]
        inside = np.concatenate([np.setdiff1d(inside, gone), come])
        outside = random.permutation(np.concatenate([outside[len(come) :], gone]))
        if len(come) + len(gone):
            found.append(Batch(come, gone))
    return tuple(found)


def problem(seed: int, family: str | None = None, rows: int = 90) -> Problem:
    """Make the problem of a seed, with fewer than ``rows`` rows; without a name the family goes round."""
    name = family or list(FAMILIES)[seed % len(FAMILIES)]
    random = np.random.default_rng([seed, list(FAMILIES).index(name)])
    table = FAMILIES[name](random, int(random.integers(6, rows)))
    n, d = table.X.shape
    return Problem(
        seed=seed,
        family=name,
        X=np.ascontiguousarray(table.X),
        y=table.y,
        weight=np.ones(n) if table.weight is None else table.weight,
        C=float(random.choice(C_VALUES)),
        kernel=table.kernel or _any_kernel(random, d),
        fit_intercept=bool(random.random() < 0.85),
        batches=_batches(random, n),
    )
