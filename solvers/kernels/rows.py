"""Kernel rows over examples that do not change, for solvers without an engine: fetched, cached, multiplied."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.row_cache import RowCache
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats, Ints

TALL = 64  #: rows whose values are held at once in a product
WIDE = 2048  #: columns of these: one megabyte, which stays in the cache of the processor


class KernelRows:
    """Rows ``k(x_i, .)`` over the n examples of ``X`` (n, d); the least recently used give way.

    Parameters
    ----------
    kernel : positive semi-definite; of the kernel "precomputed" ``X`` (n, 1) holds numbers in its ``gram``
    X : (n, d) features, finite, C-ordered; not copied but for its transpose
    cache_bytes : what the rows that are kept may take

    Examples
    --------
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0], [2.0], [3.0]]), cache_bytes=2**20)
    >>> rows.values[rows.fetch(np.array([2, 0]))].tolist()
    [[3.0, 6.0, 9.0], [1.0, 2.0, 3.0]]
    >>> rows.times(np.array([0, 1]), np.array([1.0, -1.0])).tolist()
    [-1.0, -2.0, -3.0]
    """

    def __init__(self, kernel: Kernel, X: Floats, *, cache_bytes: int) -> None:
        self.kernel = kernel
        self.X = X
        self.XT = np.ascontiguousarray(X.T)
        self.cache = RowCache(cache_bytes)
        self.cache.resize(self.n)

    @property
    def n(self) -> int:
        """How many examples there are."""
        return int(self.X.shape[0])

    @property
    def values(self) -> Floats:
        """The rows that are kept, (places, n or more); ``fetch`` says which is whose."""
        return self.cache.values

    @property
    def max_rows(self) -> int:
        """How many rows can be kept at once."""
        return min(self.cache.max_rows, self.n)

    @cached_property
    def diagonal(self) -> Floats:
        """``k(x_i, x_i)``, (n,)."""
        return self.kernel.diagonal(self.X)

    def fetch(self, who: Ints) -> Ints:
        """Return where in ``values`` the rows of ``who`` (m,) are, all different; they stay there until the next call.

        Raises
        ------
        MemoryLimit : they are more than can be kept at once
        """
        missing = self.cache.missing(who)
        if missing.size:
            places = self.cache.vacate(missing.size, who)
            self.kernel.write(self.X[missing], self.XT, self.n, self.cache.values, places)
            self.cache.hold(missing, places)
        return self.cache.row_of[who]

    def row(self, i: int) -> Floats:
        """Return ``k(x_i, .)`` (n,), a view that is good until the next call."""
        return self.cache.values[self.fetch(np.array([i], np.int64))[0], : self.n]

    def block(self, who: Ints, others: Ints) -> Floats:
        """Return ``k(x_i, x_j)`` for i in ``who`` and j in ``others``, (m, k); nothing of it is kept."""
        return self.kernel.matrix(self.X[who], np.ascontiguousarray(self.XT[:, others]))

    def times(self, who: Ints, c: Floats) -> Floats:
        """Return the sum of ``c[k]`` times the row of ``who[k]``, (n,); rows are made in tiles, and none is kept.

        Takes ``O(n m d)`` for m of them, and memory for one tile a thread.
        """
        return self.product(self.X, who, c)

    def product(self, X: Floats, who: Ints, c: Floats) -> Floats:
        """Return the sum of ``c[k] k(x, x_who[k])`` for every x of ``X`` (l, d), as (l,).

        Of the linear kernel this is ``O((l + m) d)``: the sum of the examples comes first.
        """
        A = self.X[who]
        if self.kernel.name == "linear":
            return np.asarray(X @ (c @ A))
        starts = range(0, X.shape[0], WIDE)
        works = [partial(_product, self.kernel, A, c, X[start : start + WIDE]) for start in starts]
        return np.concatenate([np.empty(0), *together(works)])


def _product(kernel: Kernel, A: Floats, c: Floats, X: Floats) -> Floats:
    """Return ``K(X, A) c`` for few rows of ``X``."""
    XT = np.ascontiguousarray(X.T)
    out, rows = np.zeros(X.shape[0]), np.arange(TALL)
    tile = np.empty((TALL, X.shape[0]))
    for start in range(0, A.shape[0], TALL):
        check()
        part = A[start : start + TALL]
        kernel.write(part, XT, XT.shape[1], tile, rows[: len(part)])
        out += c[start : start + TALL] @ tile[: len(part)]
    return out
