"""Kernel values by matrix products, of dense and of sparse examples: tile by tile, on several threads.

A value takes a tenth of the time that ``Kernel.matrix`` takes, but its last digits may differ, and may depend on the
batch in which it is computed. Sparse examples stay sparse: only one side of a tile is made dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import sparse_products
from livesvm.solvers.kernels.kernel import Base, Kernel
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

COLUMNS = 128  #: and ROWS: a tile of values, which stays in the cache of a core from the product to the sum
ROWS = 512
NARROW = 64  #: rows whose values are transposed at once
SHARE = 4096  #: columns that a thread takes at once
#: share of stored entries from which a dense array takes less memory, as each stored one also has a column number
DENSE = 0.5
WRITTEN_OUT = 2**24  #: most numbers of sparse examples that are made dense at once


@dataclass(frozen=True)
class PreparedRows:
    """Examples in the form that the products take."""

    kernel: Kernel
    #: features, dense or CSR: (n, d), for the kernel rbf (n, d + 2), where gamma |x|^2 and 1 come last; of the kernel
    #: "precomputed" the whole matrix of kernel values
    values: Any
    #: (n,) of the kernel "precomputed": the examples' rows and columns in ``values``; else empty
    numbers: Ints
    #: (d,) the center subtracted from dense features, so that little cancels in distances; None: none
    center: Floats | None = None

    @classmethod
    def of(cls, kernel: Kernel, X: Any, like: Self | None = None) -> Self:
        """Prepare ``X`` (n, d) for products; if ``like`` is given, for products with ``like`` and its parts.

        Sparse examples are made dense if that takes less memory, unless ``like`` is sparse.
        """
        no_example = np.empty(0, np.int64)
        base = kernel.form.base
        if base == Base.DIFFERENCES:
            reason = f"values of the {kernel.name} kernel are no matrix products, which this solver is made of"
            raise InvalidInput(f"{reason}; choose another kernel, or a smaller window", field="kernel")
        if base == Base.GIVEN:
            return cls(kernel, X, np.arange(X.shape[0]))
        stays = like is not None and sparse.issparse(like.values)
        if sparse.issparse(X) and not stays and X.nnz > DENSE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        if base == Base.PRODUCT:
            return cls(kernel, _own(X) if sparse.issparse(X) else X.astype(np.float64, copy=False), no_example)
        if sparse.issparse(X):
            last = sparse.csr_array(_with_one(kernel.gamma * _squares(X)))
            return cls(kernel, _own(sparse.hstack([X, last], format="csr")), no_example)
        center = X.mean(axis=0) if like is None or like.center is None else like.center
        values = np.empty((len(X), X.shape[1] + 2))
        moved = np.subtract(X, center, out=values[:, :-2])
        values[:, -2:] = _with_one(kernel.gamma * _squares(moved))
        return cls(kernel, values, no_example, center)

    @property
    def n(self) -> int:
        """The number of examples."""
        return int(self.numbers.size if self.kernel.name == "precomputed" else self.values.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the products."""
        found: np.dtype[Any] = self.values.dtype
        return found

    @property
    def largest_norm(self) -> float:
        """Largest gamma |x|^2 of any example for the kernel rbf; 0 for other kernels."""
        if self.kernel.form.base != Base.SQUARES or not self.n:
            return 0.0
        norms = self.values[:, [self.values.shape[1] - 2]]
        return float(norms.max())

    def single(self) -> Self:
        """Return a copy of these examples in single precision."""
        with np.errstate(over="ignore"):
            return replace(self, values=self.values.astype(np.float32))

    def take(self, chosen: Ints | slice) -> Self:
        """Return the ``chosen`` examples."""
        if self.kernel.name == "precomputed":
            return replace(self, numbers=self.numbers[chosen])
        return replace(self, values=self.values[chosen])

    def diagonal(self) -> Floats:
        """Return k(x, x) of all examples, (n,)."""
        kernel, form = self.kernel, self.kernel.form
        if form.is_of_distances:
            return np.ones(self.n)
        if form.base == Base.GIVEN:
            return np.asarray(self.values[self.numbers, self.numbers], np.float64)
        with np.errstate(over="ignore"):
            own = _squares(self.values)
            return np.asarray(_finished(kernel, kernel.gamma * own), np.float64) if form.has_gamma else own


def joined(parts: Sequence[PreparedRows]) -> PreparedRows:
    """Return the examples of all ``parts``, which were prepared alike, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    values = [part.values for part in parts]
    put = sparse.vstack(values, format="csr") if sparse.issparse(values[0]) else np.concatenate(values)
    return replace(parts[0], values=put)


def _own(X: Any) -> Any:
    """Return CSR rows in arrays that compiled code accepts: writable, and with 32-bit indices if these suffice."""
    short = np.int32 if max(X.nnz, X.shape[1]) <= np.iinfo(np.int32).max else np.int64
    kinds = {"data": np.float64, "indices": short, "indptr": short}
    parts = (getattr(X, name).astype(kind, copy=False) for name, kind in kinds.items())
    data, indices, indptr = (part if part.flags.writeable else part.copy() for part in parts)
    return sparse.csr_array((data, indices, indptr), shape=X.shape)


def _squares(values: Any) -> Floats:
    if sparse.issparse(values):
        return np.asarray(values.multiply(values).sum(axis=1), np.float64).reshape(-1)
    return np.asarray(np.einsum("ij,ij->i", values, values, dtype=np.float64))


def _with_one(norms: Floats) -> Floats:
    return np.stack([norms, np.ones(norms.size)], axis=1)


def block(rows: PreparedRows, columns: PreparedRows) -> Numbers:
    """Return the kernel values k(x, z) of a few examples x in ``rows`` and a few z in ``columns``, (m, n)."""
    return _tile(_written_out(rows), rows, columns, slice(0, columns.n))


def write(
    rows: PreparedRows, columns: PreparedRows, out: Numbers, places: Ints, threads: int | None = 1, first: int = 0
) -> None:
    """Write k(x, z) to ``out[places[i], first + j]``, where x is example i of ``rows`` and z example j of ``columns``.

    Places ascend.
    """
    shares, is_sparse = _shares(columns, 4 * COLUMNS), sparse.issparse(columns.values)

    def work(share: list[slice], left: Numbers, these: PreparedRows, at: Ints) -> None:
        to = slice(at[0], at[-1] + 1) if at[-1] - at[0] == at.size - 1 else at
        for part in share:
            tile = _tile(left, these, columns, part)
            if is_sparse:
                sparse_products.put(tile.T, out, at, first + part.start)
            else:
                out[to, first + part.start : first + part.stop] = tile

    for piece in _pieces(rows):
        these = rows.take(piece)
        left = _written_out(these)
        together([partial(work, share, left, these, places[piece]) for share in shares], threads)


def matrix(examples: PreparedRows, threads: int | None = 1) -> Numbers:
    """Return the kernel matrix of dense examples, (n, n); the value of each pair is computed once."""
    n, columns = examples.n, examples.values.T
    out = np.empty((n, n), examples.dtype)

    def work(start: int) -> None:
        stop = min(n, start + ROWS)
        rows = examples.take(slice(start, stop))
        _finished(rows.kernel, np.matmul(_written_out(rows), columns[:, start:], out=out[start:stop, start:]))
        for first in range(start, stop, NARROW):
            last = min(stop, first + NARROW)
            out[last:, first:last] = out[first:last, last:].T

    together([partial(work, start) for start in range(0, n, ROWS)], threads)
    np.fill_diagonal(out, examples.diagonal())
    return out


def product(columns: PreparedRows, rows: PreparedRows, weights: Floats, threads: int | None = 1) -> Floats:
    """Return ``sum_i weights[i, q] k(x_i, z_j)`` for x in ``rows`` and z in ``columns``, (n, p); weights are (m, p).

    The kernel values are not stored: each tile of values is computed, multiplied and dropped.
    """
    out = np.zeros((columns.n, weights.shape[1]))
    shares = _shares(columns, COLUMNS)

    def work(share: list[slice], left: Numbers, these: PreparedRows, w: Numbers) -> None:
        for part in share:
            out[part] += (w @ _tile(left, these, columns, part)).T

    for piece in _pieces(rows):
        these = rows.take(piece)
        left = _written_out(these)
        w = np.ascontiguousarray(weights[piece].T, rows.dtype)
        together([partial(work, share, left, these, w) for share in shares], threads)
    return out


def _shares(columns: PreparedRows, size: int) -> list[list[slice]]:
    """Return the columns in slices of ``size``, grouped into shares of ``SHARE`` columns."""
    n = columns.n
    parts = [slice(start, min(n, start + size)) for start in range(0, n, size)]
    count = SHARE // size
    return [parts[start : start + count] for start in range(0, len(parts), count)]


def _pieces(rows: PreparedRows) -> Sequence[slice]:
    """Return slices of the rows, at most a tile long, and if the rows are sparse, short enough to be made dense."""
    size = ROWS
    if sparse.issparse(rows.values):
        size = max(1, min(ROWS, WRITTEN_OUT // max(1, rows.values.shape[1])))
    return [slice(start, min(rows.n, start + size)) for start in range(0, rows.n, size)]


def _written_out(rows: PreparedRows) -> Numbers:
    """Return the left factor of matrix products with ``rows``, (m, d), or (d, m) for sparse examples.

    The product of this factor with prepared examples gives the inner products of the features, times gamma if the
    kernel has one, or minus gamma |x - z|^2.
    """
    kernel, values = rows.kernel, rows.values
    base = kernel.form.base
    if base == Base.GIVEN:
        return np.empty((0, 0))
    is_sparse = sparse.issparse(values)
    left: Numbers = values.toarray() if is_sparse else values
    if base == Base.SQUARES:
        left = np.hstack([left[:, :-2] * left.dtype.type(2.0 * kernel.gamma), -left[:, :-3:-1]])
    elif kernel.form.has_gamma:
        left = left * left.dtype.type(kernel.gamma)
    return np.ascontiguousarray(left.T) if is_sparse else left


def _tile(left: Numbers, rows: PreparedRows, columns: PreparedRows, part: slice) -> Numbers:
    """Return kernel values of ``rows`` with a ``part`` of ``columns``, (m, k); ``left`` is computed from ``rows``."""
    values = columns.values
    if rows.kernel.form.base == Base.GIVEN:
        return np.asarray(values[np.ix_(columns.numbers[part], rows.numbers)].T)
    if sparse.issparse(values):
        return _finished(rows.kernel, sparse_products.times(values, part, left).T)
    return _finished(rows.kernel, left @ values[part].T)


def _finished(kernel: Kernel, values: Numbers) -> Numbers:
    """Turn inner products times gamma, or squared distances times minus gamma, into kernel values, in place."""
    form = kernel.form
    (form.quick or form.finish)(values, kernel.coef0, kernel.degree)
    return values
