"""Low-rank approximation: a few examples with kernel functions that approximate all others, to a bounded accuracy.

Pivots Z of a Cholesky factorization span a space onto which the kernel functions of all examples are projected:
``K = K_XZ K_ZZ^-1 K_ZX + E`` with E positive semi-definite, so that ``|E_ij|`` is at most the root of ``E_ii E_jj``:
what is left of the diagonal bounds every error. A Gaussian kernel of few features needs some hundred pivots for nine
digits, whatever the number of examples; of many features it needs as many as there are examples.
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
    """Pivots among n examples. Products take memory that is linear in n, and no more than twice n r kernel values."""

    pivots: Ints  #: (r,) numbers of the examples
    factor: Floats  #: (r, r) lower Cholesky factor of their kernel matrix
    error: float  #: largest error of an entry of the kernel matrix, except for rounding

    def product(self, rows: KernelRows, X: Floats, indices: Ints, c: Floats) -> Floats:
        """Return the sum of ``c[k] k(x, x_i)``, i = indices[k], for every x of ``X`` (l, d), (l,), with that error."""
        from scipy.linalg import cho_solve  # only loaded where it is used

        onto = rows.product(rows.X[self.pivots], indices, c)
        return rows.product(X, self.pivots, cho_solve((self.factor, True), onto, check_finite=False))


def low_rank(kernel: Kernel, X: Floats, tolerance: float, most: int) -> LowRank | None:
    """Return at most ``most`` pivots of examples ``X`` (n, d) that leave an error of ``tolerance``; None: too few.

    Takes ``O(n r (r + d))``, and less if it finds early that ``most`` are too few.
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
    """Return pivots, chosen one by one where most of the diagonal is left; None: ``most`` are too few.

    ``before`` (r, m) are the coordinates found so far, and ``left`` (m,) is what they leave of the diagonal.
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
