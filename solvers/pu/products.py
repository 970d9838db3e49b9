"""Products with the kernel matrix of the unlabelled, in memory that is linear in their number."""

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
    """What USMO asks of a kernel matrix K (n, n)."""

    @property
    def error(self) -> float:
        """How far what stands for an entry of K in products may be from it, beyond rounding."""

    def block(self, who: Ints) -> Floats:
        """Return ``K[who, who]``."""

    def times(self, who: Ints, c: Floats) -> Floats:
        """Return ``K[:, who] c``, (n,)."""

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        """Return ``K[others, who] c``."""

    def part(self, who: Ints) -> Products:
        """Return the same for some of the examples."""


class Linear:
    """``K = U U'``: every product goes through the weights of the features of ``U`` (n, d)."""

    error = 0.0

    def __init__(self, U: Floats) -> None:
        self.U = U

    def block(self, who: Ints) -> Floats:
        rows = self.U[who]
        return np.ascontiguousarray(rows @ rows.T)

    def times(self, who: Ints, c: Floats) -> Floats:
        return np.asarray(self.U @ (c @ self.U[who]))

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        return np.asarray(self.U[others] @ (c @ self.U[who]))

    def part(self, who: Ints) -> Linear:
        return Linear(self.U[who])


class Whole:
    """The whole matrix ``K`` (m, m) of few examples, every value of which is computed once."""

    error = 0.0

    def __init__(self, K: Floats) -> None:
        self.K = K

    def block(self, who: Ints) -> Floats:
        return self.K if who.size == len(self.K) else self.K[np.ix_(who, who)]

    def times(self, who: Ints, c: Floats) -> Floats:
        out = np.zeros(len(self.K))
        add_rows(self.K, who, c, out)
        return out

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        return self.times(who, c)[others]

    def part(self, who: Ints) -> Whole:
        return Whole(self.block(who))


class FromRows:
    """Rows computed when they are asked for; a few are kept. Products with many go through pivots where these are."""

    def __init__(self, rows: KernelRows, pivots: LowRank | None = None) -> None:
        self.rows = rows
        self.pivots = pivots
        self.error = pivots.error if pivots is not None else 0.0

    def block(self, who: Ints) -> Floats:
        return self.rows.block(who, who)

    def times(self, who: Ints, c: Floats) -> Floats:
        if self._by_pivots(who) or 2 * who.size > self.rows.max_rows:
            return self._product(self.rows.X, who, c)
        out = np.zeros(self.rows.n)
        add_rows(self.rows.values, self.rows.fetch(who), c, out)
        return out

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        return self._product(self.rows.X[others], who, c)

    def part(self, who: Ints) -> Products:
        return exact(self.rows.kernel, self.rows.X[who], self.rows.cache.limit)

    def _product(self, X: Floats, who: Ints, c: Floats) -> Floats:
        if self.pivots is not None and self._by_pivots(who):
            return self.pivots.product(self.rows, X, who, c)
        return self.rows.product(X, who, c)

    def _by_pivots(self, who: Ints) -> bool:
        """Say whether a product with so many examples is cheaper through pivots."""
        return self.pivots is not None and who.size > 2 * self.pivots.pivots.size


def exact(kernel: Kernel, U: Floats, cache_bytes: int) -> Products:
    """Return products without an error beyond rounding: with the whole matrix where ``cache_bytes`` hold it."""
    if kernel.name == "linear":
        return Linear(U)
    rows = KernelRows(kernel, U, cache_bytes=cache_bytes)
    return Whole(rows.matrix()) if VALUE * rows.n**2 <= cache_bytes else FromRows(rows)


def products(kernel: Kernel, U: Floats, cache_bytes: int, tolerance: float) -> Products:
    """Return how products with the kernel matrix of ``U`` (n, d) are best computed.

    Where few pivots leave an error of at most ``tolerance``, those with many examples go through them.
    """
    n = U.shape[0]
    if n >= FEW_EXAMPLES and kernel.name != "linear" and kernel.always_positive:
        pivots = low_rank(kernel, U, tolerance, RANK * isqrt(n))
        if pivots is not None:
            return FromRows(KernelRows(kernel, U, cache_bytes=cache_bytes), pivots)
    return exact(kernel, U, cache_bytes)
