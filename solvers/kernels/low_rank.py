"""Features whose inner products are the values of a kernel, where few suffice for the accuracy that is asked for.

A pivoted Cholesky factor: ``K = G G' + E`` with E positive semi-definite, so that ``|E_ij|`` is at most the root of
``E_ii E_jj``, and what is left of the diagonal bounds every error. A Gaussian kernel of few smooth features needs some
hundred columns for nine digits, whatever the number of examples; of many it needs as many as there are examples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.kernel import Kernel
from solvers.runtime.interrupt import check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLE = 2000  # examples among which pivots are sought at once
LEAST = 1e-12  # of the largest diagonal entry: what is left of it below is rounding


class LowRank(NamedTuple):
    """Features of examples, and how far their inner products may be from kernel values."""

    G: Floats  #: (n, r), column by column in memory
    error: float  #: no ``|k(x_i, x_j) - G_i G_j'|`` is larger, but for rounding


def low_rank(kernel: Kernel, X: Floats, tolerance: float, most: int) -> LowRank | None:
    """Return at most ``most`` features of examples ``X`` (n, d) that leave an error of ``tolerance``; None: more do.

    Takes ``O(n r (r + d))``, and much less where it finds that ``most`` are too few.
    """
    diagonal = kernel.diagonal(X)
    if tolerance < LEAST * diagonal.max(initial=0.0):
        return None
    left, rank = diagonal.copy(), 0
    columns = np.empty((most, X.shape[0]))  # what is not written to takes no memory
    candidates = np.random.default_rng(0).permutation(X.shape[0])[:SAMPLE]
    while True:
        before = np.ascontiguousarray(columns[:rank, candidates])
        pivots, corner = _pivots(kernel, X[candidates], before, left[candidates], tolerance, most - rank)
        if corner is None:
            return None
        _extend(kernel, X, columns, rank, candidates[pivots], corner)
        for column in columns[rank : rank + pivots.size]:
            left -= np.square(column)
        rank += pivots.size
        if left.max() <= tolerance:
            return LowRank(columns[:rank].T, max(0.0, float(left.max())))
        candidates = np.argpartition(-left, min(SAMPLE, left.size - 1))[:SAMPLE]


def _pivots(
    kernel: Kernel, X: Floats, before: Floats, left: Floats, tolerance: float, most: int
) -> tuple[Ints, Floats | None]:
    """Return who of some examples leaves least when taken out, one by one, and the lower factor of these (m, m).

    ``before`` (r, m) and ``left`` (m,) are what was taken out of them so far, and what is not; None: ``most`` are too
    few.
    """
    XT, columns = np.ascontiguousarray(X.T), np.empty((min(most, len(X)), len(X)))
    left, found = left.copy(), list[int]()
    while left.max() > 0.5 * tolerance and len(found) < len(X):
        k = len(found)
        if k == columns.shape[0]:
            return np.empty(0, np.int64), None
        check()
        i = int(left.argmax())
        row = kernel.matrix(X[i : i + 1], XT)[0] - before[:, i] @ before - columns[:k, i] @ columns[:k]
        columns[k] = row / np.sqrt(left[i])
        left -= np.square(columns[k])
        left[i] = 0.0
        found.append(i)
    pivots = np.array(found, np.int64)
    return pivots, np.tril(columns[: len(found), pivots].T)


def _extend(kernel: Kernel, X: Floats, columns: Floats, rank: int, pivots: Ints, corner: Floats) -> None:
    """Add a column for each pivot to the ``rank`` ones there are; their lower factor is ``corner``."""
    from scipy.linalg import solve_triangular  # only loaded where it is used

    Z, before = np.ascontiguousarray(X[pivots].T), columns[:rank, pivots].T
    for start in range(0, X.shape[0], SAMPLE):
        check()
        part = slice(start, start + SAMPLE)
        values = kernel.matrix(X[part], Z).T - before @ columns[:rank, part]
        columns[rank : rank + pivots.size, part] = solve_triangular(corner, values, lower=True, check_finite=False)
