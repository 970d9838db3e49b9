"""Products with the kernel matrix of the unlabelled, in memory that is linear in their number."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.kernel import Kernel
from solvers.kernels.low_rank import low_rank
from solvers.kernels.rows import KernelRows
from solvers.linalg.products import add_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEW_EXAMPLES = 4000  # whose rows cost less than looking for features
SHARE = 8  # features are worth it where there are that many examples for each


class Products(Protocol):
    """What USMO asks of a kernel matrix K (n, n)."""

    @property
    def error(self) -> float:
        """How far an entry of K may be from the kernel's value, beyond rounding."""

    def block(self, who: Ints) -> Floats:
        """Return ``K[who, who]``."""

    def times(self, who: Ints, c: Floats) -> Floats:
        """Return ``K[:, who] c``, (n,)."""

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        """Return ``K[others, who] c``."""

    def part(self, who: Ints) -> Products:
        """Return the same for some of the examples."""


class FromFeatures:
    """``K = G G'`` with features ``G`` (n, r): of the linear kernel those of the examples."""

    def __init__(self, G: Floats, error: float = 0.0) -> None:
        self.G = G
        self.error = error

    def block(self, who: Ints) -> Floats:
        rows = self.G[who]
        return np.ascontiguousarray(rows @ rows.T)

    def times(self, who: Ints, c: Floats) -> Floats:
        return np.asarray(self.G @ (c @ self.G[who]))

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        return np.asarray(self.G[others] @ (c @ self.G[who]))

    def part(self, who: Ints) -> FromFeatures:
        return FromFeatures(self.G[who], self.error)


class FromRows:
    """Rows computed when they are asked for: those of few examples are kept, if there is room for them."""

    error = 0.0

    def __init__(self, kernel: Kernel, U: Floats, cache_bytes: int) -> None:
        self.rows = KernelRows(kernel, U, cache_bytes=cache_bytes)

    def block(self, who: Ints) -> Floats:
        return self.rows.block(who, who)

    def times(self, who: Ints, c: Floats) -> Floats:
        if 2 * who.size > self.rows.max_rows:
            return self.rows.times(who, c)
        out = np.zeros(self.rows.n)
        add_rows(self.rows.values, self.rows.fetch(who), c, out)
        return out

    def ahead(self, others: Ints, who: Ints, c: Floats) -> Floats:
        return self.rows.product(self.rows.X[others], who, c)

    def part(self, who: Ints) -> FromRows:
        return FromRows(self.rows.kernel, self.rows.X[who], self.rows.cache.limit)


def products(kernel: Kernel, U: Floats, cache_bytes: int, tolerance: float) -> Products:
    """Return how products with the kernel matrix of ``U`` (n, d) are best computed.

    By features where some with an error of at most ``tolerance`` are few, and fit into ``cache_bytes``; else by rows.
    """
    n = U.shape[0]
    if kernel.name == "linear":
        return FromFeatures(U)
    most = min(n // SHARE, cache_bytes // (8 * n))
    if n >= FEW_EXAMPLES and kernel.always_positive and most > 0:
        found = low_rank(kernel, U, tolerance, most)
        if found is not None:
            return FromFeatures(found.G, found.error)
    return FromRows(kernel, U, cache_bytes)
