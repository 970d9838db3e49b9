"""Products with the kernel matrix of the unlabelled examples, in memory that is linear in their number."""

from __future__ import annotations

from math import isqrt
from typing import Protocol

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.low_rank import LowRank, low_rank
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.linalg.products import add_rows
from livesvm.solvers.runtime.types import Floats, Ints

VALUE = 8  # bytes
FEW_EXAMPLES = 4000  # whose rows cost less than looking for pivots
RANK = 3  # pivots are worth it up to that many roots of the number of examples


class Products(Protocol):
    """The products with a kernel matrix K (n, n) that USMO needs."""

    @property
    def error(self) -> float:
        """Return the largest error, beyond rounding, of the entries of K that the products use."""

    def block(self, indices: Ints) -> Floats:
        """Return the submatrix ``K[indices, indices]``."""

    def times(self, indices: Ints, c: Floats) -> Floats:
        """Return the product ``K[:, indices] c``, (n,)."""

    def ahead(self, others: Ints, indices: Ints, c: Floats) -> Floats:
        """Return the product ``K[others, indices] c``."""

    def part(self, indices: Ints) -> Products:
        """Return products with the kernel matrix of the examples ``indices`` only."""


class Linear:
    """``K = U U'``: every product goes through the weights of the features of ``U`` (n, d)."""

    error = 0.0

    def __init__(self, U: Floats) -> None:
        self.U = U

    def block(self, indices: Ints) -> Floats:
        rows = self.U[indices]
        return np.ascontiguousarray(rows @ rows.T)

    def times(self, indices: Ints, c: Floats) -> Floats:
        return np.asarray(self.U @ (c @ self.U[indices]))

    def ahead(self, others: Ints, indices: Ints, c: Floats) -> Floats:
        return np.asarray(self.U[others] @ (c @ self.U[indices]))

    def part(self, indices: Ints) -> Linear:
        return Linear(self.U[indices])


class Whole:
    """Products by the stored matrix ``K`` (m, m) of few examples, in which every value is computed once."""

    error = 0.0

    def __init__(self, K: Floats) -> None:
        self.K = K

    def block(self, indices: Ints) -> Floats:
        return self.K if indices.size == len(self.K) else self.K[np.ix_(indices, indices)]

    def times(self, indices: Ints, c: Floats) -> Floats:
        out = np.zeros(len(self.K))
        add_rows(self.K, indices, c, out)
        return out

    def ahead(self, others: Ints, indices: Ints, c: Floats) -> Floats:
        return self.times(indices, c)[others]

    def part(self, indices: Ints) -> Whole:
        return Whole(self.block(indices))


class FromRows:
    """Products by rows that are computed when needed and partly cached, or by a low-rank approximation if given."""

    def __init__(self, rows: KernelRows, pivots: LowRank | None = None) -> None:
        self.rows = rows
        self.pivots = pivots
        self.error = pivots.error if pivots is not None else 0.0

    def block(self, indices: Ints) -> Floats:
        return self.rows.block(indices, indices)

    def times(self, indices: Ints, c: Floats) -> Floats:
        if self._by_pivots(indices) or 2 * indices.size > self.rows.max_rows:
            return self._product(self.rows.X, indices, c)
        out = np.zeros(self.rows.n)
        add_rows(self.rows.values, self.rows.fetch(indices), c, out)
        return out

    def ahead(self, others: Ints, indices: Ints, c: Floats) -> Floats:
        return self._product(self.rows.X[others], indices, c)

    def part(self, indices: Ints) -> Products:
        return exact(self.rows.kernel, self.rows.X[indices], self.rows.cache.limit)

    def _product(self, X: Floats, indices: Ints, c: Floats) -> Floats:
        if self.pivots is not None and self._by_pivots(indices):
            return self.pivots.product(self.rows, X, indices, c)
        return self.rows.product(X, indices, c)

    def _by_pivots(self, indices: Ints) -> bool:
        """Say whether a product with the examples ``indices`` is faster by the low-rank approximation."""
        return self.pivots is not None and indices.size > 2 * self.pivots.pivots.size


def exact(kernel: Kernel, U: Floats, cache_bytes: int) -> Products:
    """Return products that are exact up to rounding, by the whole matrix if it fits into ``cache_bytes``."""
    if kernel.name == "linear":
        return Linear(U)
    rows = KernelRows(kernel, U, cache_bytes=cache_bytes)
    return Whole(rows.matrix()) if VALUE * rows.n**2 <= cache_bytes else FromRows(rows)


def products(kernel: Kernel, U: Floats, cache_bytes: int, tolerance: float) -> Products:
    """Return the fastest products with the kernel matrix of ``U`` (n, d).

    If a low-rank approximation by few pivots has an error of at most ``tolerance``, products with many examples use it.
    """
    n = U.shape[0]
    if n >= FEW_EXAMPLES and kernel.name != "linear" and kernel.always_positive:
        pivots = low_rank(kernel, U, tolerance, RANK * isqrt(n))
        if pivots is not None:
            return FromRows(KernelRows(kernel, U, cache_bytes=cache_bytes), pivots)
    return exact(kernel, U, cache_bytes)
