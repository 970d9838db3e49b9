"""Low-rank approximation: the kernel functions of a few examples approximate those of all others, with a bounded error.

The kernel functions of all examples are projected onto the span of those of a few pivots Z, chosen by a Cholesky
factorization: ``K = K_XZ K_ZZ^-1 K_ZX + E``. E is positive semi-definite, so ``|E_ij|`` is at most the root of ``E_ii
E_jj``, and the diagonal of E bounds every error. A Gaussian kernel of few features needs some hundred pivots for nine
digits, whatever the number of examples; with many features it needs as many pivots as there are examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints

SAMPLE = 4000  # examples that are searched for pivots at once
FEW = 1000  # of these; if they alone need more than three in four of the allowed pivots, the search is given up
TILE = 1000  # examples that are projected at once
EARLY, HOPELESS = 8, 0.5  # if an eighth of the pivots leaves half of the diagonal, all will not suffice
LEAST = 1e-12  # part of the largest diagonal entry: a remainder below it is rounding


@dataclass(frozen=True)
class LowRank:
    """A low-rank approximation by r pivots out of n examples. A product computes at most 2 n r kernel values."""

    pivots: Ints  #: (r,) numbers of the examples
    factor: Floats  #: (r, r) lower Cholesky factor of their kernel matrix
    error: float  #: largest error of an entry of the kernel matrix, except for rounding

    def product(self, rows: KernelRows, X: Floats, indices: Ints, c: Floats) -> Floats:
        """Return approximate sums of ``c[k] k(x, x_i)``, i = indices[k], for every x of ``X`` (l, d), as (l,)."""
        from scipy.linalg import cho_solve  # only loaded where it is used

        onto = rows.product(rows.X[self.pivots], indices, c)
        return rows.product(X, self.pivots, cho_solve((self.factor, True), onto, check_finite=False))


def low_rank(kernel: Kernel, X: Floats, tolerance: float, most: int) -> LowRank | None:
    """Return up to ``most`` pivots of ``X`` (n, d) with an error of at most ``tolerance``; None if more are needed.

    Takes ``O(n r (r + d))``, and less if an early test finds that ``most`` pivots are too few.
    """
    diagonal = kernel.diagonal(X)
    if tolerance < LEAST * diagonal.max(initial=0.0):
        return None
    left, chosen = diagonal.copy(), np.empty(0, np.int64)
    factor: Floats = np.empty((0, 0))
    candidates = np.random.default_rng(0).permutation(X.shape[0])[:SAMPLE]
    few = candidates[:FEW]
    if len(X) > SAMPLE and _pivots(kernel, X[few], np.empty((0, FEW)), left[few], tolerance, 3 * most // 4) is None:
        return None
    while True:
        before = _projected(kernel, X[chosen], factor, X[candidates])
        found = _pivots(kernel, X[candidates], before, left[candidates], tolerance, most - chosen.size)
        if found is None:
            return None
        chosen = np.concatenate([chosen, candidates[found]])
        Z = X[chosen]
        try:
            factor = np.asarray(np.linalg.cholesky(kernel.matrix(Z, np.ascontiguousarray(Z.T))), np.float64)
        except np.linalg.LinAlgError:
            return None
        left = diagonal - _lengths(kernel, Z, factor, X)
        if left.max() <= tolerance:
            return LowRank(chosen, factor, max(0.0, float(left.max())))
        candidates = np.argpartition(-left, min(SAMPLE, left.size - 1))[:SAMPLE]


def _pivots(kernel: Kernel, X: Floats, before: Floats, left: Floats, tolerance: float, most: int) -> Ints | None:
    """Choose pivots one by one, each where the error's diagonal is largest; None if ``most`` pivots are too few.

    ``before`` (r, m) are the examples' coordinates by earlier pivots; ``left`` (m,) is the diagonal of the error with
    these pivots.
    """
    XT, columns = np.ascontiguousarray(X.T), np.empty((min(most, len(X)), len(X)))
    left, found, hopeless = left.copy(), list[int](), HOPELESS * left.sum()
    while left.max() > 0.5 * tolerance and len(found) < len(X):
        k = len(found)
        if k == columns.shape[0] or (k == max(1, columns.shape[0] // EARLY) and left.sum() > hopeless):
            return None
        check()
        i = int(left.argmax())
        row = kernel.matrix(X[i : i + 1], XT)[0] - before[:, i] @ before - columns[:k, i] @ columns[:k]
        columns[k] = row / np.sqrt(left[i])
        left -= np.square(columns[k])
        left[i] = 0.0
        found.append(i)
    return np.array(found, np.int64)


def _projected(kernel: Kernel, Z: Floats, factor: Floats, X: Floats) -> Floats:
    """Return the coordinates (r, m) of examples ``X`` (m, d) in the space of pivots ``Z`` (r, d)."""
    from scipy.linalg import solve_triangular  # only loaded where it is used

    if not len(Z):
        return np.empty((0, len(X)))
    values = kernel.matrix(Z, np.ascontiguousarray(X.T))
    return np.asarray(solve_triangular(factor, values, lower=True, overwrite_b=True, check_finite=False))


def _lengths(kernel: Kernel, Z: Floats, factor: Floats, X: Floats) -> Floats:
    """Return the squared lengths of the projections of ``X`` (n, d), (n,)."""
    out = np.empty(len(X))
    for start in range(0, len(X), TILE):
        check()
        part = slice(start, start + TILE)
        out[part] = np.square(_projected(kernel, Z, factor, X[part])).sum(axis=0)
    return out
