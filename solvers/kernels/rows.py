"""Kernel rows over a fixed set of examples, which are computed, cached and multiplied for solvers without a path.

Values are computed by matrix products if these lose few digits, else pair by pair.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from livesvm.solvers.kernels import matrix_products
from livesvm.solvers.kernels.kernel import Base, Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.kernels.row_cache import RowCache
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats, Ints

TALL = 64  #: rows whose values are held at once in a product pair by pair
WIDE = 2048  #: columns of these: one megabyte, which stays in the cache of the processor
FAR = 1e3  #: largest gamma |x|^2 for distances by matrix products, which then give 12 digits of a value


class KernelRows:
    """A cache of kernel rows over the examples of ``X`` (n, d); new rows replace the least recently used.

    Parameters
    ----------
    kernel : positive semi-definite; of the kernel "precomputed" ``X`` (n, 1) holds numbers in its ``gram``
    X : (n, d) features, finite, C-ordered; copied once
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
        self.examples = _examples(kernel, X)
        self.cache = RowCache(cache_bytes)
        self.cache.resize(self.n)

    @property
    def n(self) -> int:
        """How many examples there are."""
        return int(self.X.shape[0])

    @property
    def values(self) -> Floats:
        """The array of cached rows; ``fetch`` returns the indices of examples in this array."""
        return self.cache.values

    @property
    def max_rows(self) -> int:
        """How many rows the cache can hold."""
        return min(self.cache.max_rows, self.n)

    def fetch(self, indices: Ints) -> Ints:
        """Return the indices in ``values`` of the rows of the distinct ``indices`` (m,), valid until the next call.

        Raises
        ------
        MemoryLimit : they are more than can be kept at once
        """
        missing = self.cache.missing(indices)
        if missing.size:
            places = self.cache.vacate(missing.size, indices)
            if self.examples is None:
                self.kernel.write(self.X[missing], self._transposed, self.n, self.cache.values, places)
            else:
                rows = self.examples.take(missing)
                matrix_products.write(rows, self.examples, self.cache.values[:, : self.n], places, None)
            self.cache.hold(missing, places)
        return self.cache.row_of[indices]

    def block(self, indices: Ints, others: Ints) -> Floats:
        """Return ``k(x_i, x_j)`` for i in ``indices`` and j in ``others``, (m, k), without caching the values."""
        if self.examples is None:
            return self.kernel.matrix(self.X[indices], np.ascontiguousarray(self.X[others].T))
        return matrix_products.block(self.examples.take(indices), self.examples.take(others))

    def matrix(self) -> Floats:
        """Return the kernel matrix of all examples, (n, n), each pair computed once, without caching the values."""
        if self.examples is None:
            return self.kernel.matrix(self.X, self._transposed)
        return matrix_products.matrix(self.examples, None)

    def times(self, indices: Ints, c: Floats) -> Floats:
        """Return the sum over k of ``c[k]`` times the kernel row of ``indices[k]``, (n,), without caching rows.

        Takes ``O(n m d)`` for m rows, and memory for one tile of kernel values in each thread.
        """
        return self.product(self.X, indices, c)

    def product(self, X: Floats, indices: Ints, c: Floats) -> Floats:
        """Return the sum of ``c[k] k(x, x_i)``, i = indices[k], for every x of ``X`` (l, d), as (l,).

        For the linear kernel this takes ``O((l + m) d)``, because the m examples are summed before they are multiplied
        with ``X``.
        """
        if self.kernel.name == "linear":
            return np.asarray(X @ (c @ self.X[indices]))
        columns = self.examples
        if columns is not None and X is not self.X:
            columns = _examples(self.kernel, X, columns)
        if columns is not None and self.examples is not None:
            return matrix_products.product(columns, self.examples.take(indices), c[:, None], None)[:, 0]
        A, starts = self.X[indices], range(0, X.shape[0], WIDE)
        works = [partial(_product, self.kernel, A, c, X[start : start + WIDE]) for start in starts]
        return np.concatenate([np.empty(0), *together(works)])

    @cached_property
    def _transposed(self) -> Floats:
        return np.ascontiguousarray(self.X.T)


def _examples(kernel: Kernel, X: Floats, like: PreparedRows | None = None) -> PreparedRows | None:
    """Prepare examples for matrix products; None if these cannot compute the kernel or would lose too many digits."""
    if kernel.form.base not in (Base.PRODUCT, Base.SQUARES) or not X.size:
        return None
    found = PreparedRows.of(kernel, X, like=like)
    return found if found.largest_norm <= FAR else None


def _product(kernel: Kernel, A: Floats, c: Floats, X: Floats) -> Floats:
    """Return ``K(X, A) c`` for a few rows of ``X``, with kernel values computed pair by pair."""
    XT = np.ascontiguousarray(X.T)
    out, rows = np.zeros(X.shape[0]), np.arange(TALL)
    tile = np.empty((TALL, X.shape[0]))
    for start in range(0, A.shape[0], TALL):
        check()
        part = A[start : start + TALL]
        kernel.write(part, XT, XT.shape[1], tile, rows[: len(part)])
        out += c[start : start + TALL] @ tile[: len(part)]
    return out
