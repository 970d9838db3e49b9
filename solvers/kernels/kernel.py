"""Mercer kernels, computed pair by pair so that a value never depends on the batch in which it is computed.

Features are held transposed, ``XT`` of shape ``(d, slots)``: the inner loop runs over examples, along memory. Squared
distances are sums of squared differences, so duplicates give exactly equal rows and nothing cancels far from the
origin. Inner products far from the origin do lose digits, so a linear kernel may have a ``center``, which is subtracted
from the features of both examples.

A new kernel needs a row in ``TABLE``; ``CONTRIBUTING.md`` lists what else a new kernel needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import sparse_values
from livesvm.solvers.kernels.gram import Gram
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.compile import compiled_allocating, compiled_in_order, compiled_once_in_order
from livesvm.solvers.runtime.interrupt import AT_ONCE, COPY, check, parts
from livesvm.solvers.runtime.types import Floats, Ints, Numbers
from livesvm.solvers.sparse import Features, SparseRows, dense
from livesvm.solvers.validation import number_or_none, positive, whole

_OWN_WORK = 16  # cost of a kernel value besides its products, in products
_BLOCK = 512  # examples per block of the inner loops: five arrays of this length stay in the first-level cache


class Base(IntEnum):
    """The quantity from which the kernel value of two examples is computed, such as their inner product."""

    PRODUCT = 0  #: x'z
    SQUARES = 1  #: |x - z|^2, the sum of squared differences
    DIFFERENCES = 2  #: the sum of absolute differences
    GIVEN = 3  #: the value itself


@dataclass(frozen=True)
class Form:
    """A row of the table: one kernel function."""

    base: Base
    #: turns values of the base into those of the kernel, in place, with coef0 and degree: products times gamma,
    #: distances times minus gamma
    finish: Callable[[Numbers, float, int], None]
    is_positive: Callable[[float], bool]  #: whether every kernel matrix is positive semi-definite, for a coef0
    has_gamma: bool = True  #: whether there is a gamma; without one products are taken as they are
    #: a faster ``finish`` with other rounding; None: there is none
    quick: Callable[[Numbers, float, int], None] | None = None

    @cached_property
    def is_of_distances(self) -> bool:
        """Whether the kernel is a function of gamma times a distance, so that k(x, x) is 1."""
        return self.base in (Base.SQUARES, Base.DIFFERENCES)

    def scaled_gamma(self, of_squares: float, n_features: int) -> float:
        """Return the gamma called "scale", given its value for squared distances, ``of_squares`` = 1 / (d variance).

        For a kernel of absolute differences gamma is 1 / (d standard deviation), because their sum is about d standard
        deviations.
        """
        return (of_squares / n_features) ** 0.5 if self.base == Base.DIFFERENCES else of_squares


def _as_it_is(values: Numbers, coef0: float, degree: int) -> None:
    """Leave values as they are."""


def _exponential(values: Numbers, coef0: float, degree: int) -> None:
    np.exp(values, out=values)


def _power(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    np.power(values, degree, out=values)


def _quick_power(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    base = values.copy()
    for _ in range(degree - 1):
        values *= base


def _tanh(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    np.tanh(values, out=values)


class _Table(dict[str, Form]):
    def __missing__(self, name: str) -> Form:
        raise InvalidInput(f"unknown kernel {name!r}; one of {', '.join(self)}", field="kernel")


TABLE = _Table(
    linear=Form(Base.PRODUCT, _as_it_is, lambda coef0: True, has_gamma=False),
    rbf=Form(Base.SQUARES, _exponential, lambda coef0: True),
    laplacian=Form(Base.DIFFERENCES, _exponential, lambda coef0: True),
    poly=Form(Base.PRODUCT, _power, lambda coef0: coef0 >= 0, quick=_quick_power),
    sigmoid=Form(Base.PRODUCT, _tanh, lambda coef0: False),
    precomputed=Form(Base.GIVEN, _as_it_is, lambda coef0: False, has_gamma=False),
)

ALSO = {"polynomial": "poly"}  #: other names


def form_of(name: Any) -> Form:
    """Return the entry of a kernel by any of its names.

    Raises
    ------
    InvalidInput : there is none
    """
    return TABLE[ALSO.get(name, name)] if isinstance(name, str) else TABLE.__missing__(name)


def has_gamma(name: Any) -> bool:
    """Say whether a kernel, which may be a function, has a gamma; raises InvalidInput for an unknown name."""
    return not callable(name) and form_of(name).has_gamma


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters.

    ``linear``: x'z; ``rbf``: exp(-gamma |x - z|^2); ``laplacian``: exp(-gamma sum_k |x_k - z_k|); ``poly``:
    (gamma x'z + coef0)^degree; ``sigmoid``: tanh(gamma x'z + coef0), positive semi-definite only on some data;
    ``precomputed``: the only feature of an example is its number in ``gram``. See ``TABLE``.

    ``center`` (d,) is for the kernel "linear" of dense features: (x - center)'(z - center). If the coefficients sum up
    to 0, as with an intercept, a center changes only the intercept, by ``moved``; see ``models.scaling``.
    """

    name: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    gram: Gram | None = field(default=None, compare=False, repr=False)
    center: Floats | None = field(default=None, compare=False, repr=False)
    is_projected: ClassVar[bool] = False  #: whether features are mapped ones, see ``kernels.nystroem``

    def __post_init__(self) -> None:
        form_of(self.name)
        positive(self.gamma, "gamma")
        degree, coef0 = whole(self.degree, "degree"), number_or_none(self.coef0)
        if coef0 is None:
            raise InvalidInput(f"must be a finite number, not {self.coef0!r}", field="coef0")
        for attribute, value in (("name", ALSO.get(self.name, self.name)), ("degree", degree), ("coef0", coef0)):
            object.__setattr__(self, attribute, value)

    @cached_property
    def always_positive(self) -> bool:
        """Whether every kernel matrix of this kernel is positive semi-definite."""
        return TABLE[self.name].is_positive(self.coef0)

    @property
    def held(self) -> Gram | None:
        """The stored kernel values, which were given and may be rounded; None if all values are computed."""
        return self.gram

    @property
    def form(self) -> Form:
        """The kernel's entry in ``TABLE``."""
        return TABLE[self.name]

    @cached_property
    def is_of_distances(self) -> bool:
        """Whether the kernel is a function of gamma times a distance, so that k(x, x) is 1."""
        return TABLE[self.name].is_of_distances

    @cached_property
    def is_movable(self) -> bool:
        """Whether a problem stays the same when the origin of the features moves, if its coefficients sum up to 0."""
        return self.name == "linear" and not self.is_projected

    @cached_property
    def has_gamma(self) -> bool:
        """Whether the kernel has a parameter gamma."""
        return TABLE[self.name].has_gamma

    def matrix(self, A: Features, XT: Features, n: int | None = None) -> Floats:
        """Return ``K[i, j] = k(A[i], XT[:, j])`` for ``A`` (m, d) and the first ``n`` columns of ``XT``, as (m, n).

        Here and in all other methods, ``XT`` is not transposed if it is sparse: each row is one example.
        """
        if n is None:
            n = len(XT) if isinstance(XT, SparseRows) else XT.shape[1]
        out = np.empty((A.shape[0], n))
        self.write(A, XT, out.shape[1], out, np.arange(A.shape[0]))
        return out

    def write(self, A: Features, XT: Features, n: int, out: Floats, rows: Ints) -> None:
        """Write ``k(A[i], XT[:, j])`` to ``out[rows[i], j]`` for the first ``n`` columns; ``rows`` (m,) ascend."""
        products = _OWN_WORK + (sparse_values.products(A, XT, n) if isinstance(XT, SparseRows) else A.shape[1])
        if n * len(A) * products <= AT_ONCE:
            self._write(A, XT, 0, n, out, rows)
            return
        height, width = _tiles(n, products)
        for top in range(0, A.shape[0], height):
            for first in range(0, n, width):
                check()
                part = slice(top, top + height)
                self._write(A[part], XT, first, min(n, first + width), out, rows[part])

    def _write(self, A: Features, XT: Features, first: int, n: int, out: Floats, rows: Ints) -> None:
        """Write the kernel values as ``write`` does, but only for the columns from ``first`` up to ``n``."""
        base = TABLE[self.name].base
        if isinstance(A, SparseRows) or isinstance(XT, SparseRows):
            sparse_values.write(A, XT, first, n, base, 1.0 if base == Base.PRODUCT else -self.gamma, out, rows)
        elif base == Base.GIVEN:
            assert self.gram is not None
            out[rows, first:n] = self.gram.values[np.ix_(A[:, 0].astype(np.int64), XT[0, first:n].astype(np.int64))]
        elif base == Base.SQUARES:
            squared_distances(A, XT, first, n, -self.gamma, out, rows)
        elif base == Base.DIFFERENCES:
            _absolute_differences(A, XT, first, n, -self.gamma, out, rows)
        elif self.center is not None:
            _centered_products(A, XT, self.center, first, n, out, rows)
        else:
            _inner_products(A, XT, first, n, out, rows)
        self._finish(out, rows, first, n)

    def _finish(self, out: Floats, rows: Ints, first: int, n: int) -> None:
        """Turn inner products, or distances times minus gamma, into kernel values."""
        form = TABLE[self.name]
        if not form.has_gamma:
            return
        for values in _runs(out, rows, first, n):
            if form.base == Base.PRODUCT:
                values *= self.gamma
            form.finish(values, self.coef0, self.degree)

    def diagonal(self, X: Features) -> Floats:
        """Return ``k(X[i], X[i])`` for ``X`` (m, d)."""
        if self.is_of_distances:
            return np.ones(X.shape[0])
        if self.gram is not None:
            numbers = dense(X)[:, 0].astype(np.int64)
            return self.gram.values[numbers, numbers]
        if isinstance(X, SparseRows):
            own = sparse_values.own(X)
        else:
            own, fours = np.empty(X.shape[0]), 0 if self.center is not None else X.shape[1] // 4 * 4
            for part in parts(own.size, COPY * X.shape[1]):
                _own_products(self.centered(X[part]), fours, own[part])
        if self.has_gamma:
            with np.errstate(over="ignore"):  # a number that is not finite needs no warning
                self._finish(own[None], np.zeros(1, np.int64), 0, own.size)
        return own

    def kept(self) -> dict[str, Floats]:
        """Return what a checkpoint stores besides parameters: the center, and by how much a given matrix was raised."""
        kept = {} if self.center is None else {"center": self.center}
        return kept if self.gram is None else {**kept, "raised": np.array([self.gram.raised, self.gram.precision])}

    def moved(self, X: Features, beta: Floats) -> float:
        """Return by how much the center lowers decisions, for ``X`` (m, d) with coefficients ``beta`` that sum to 0.

        f(x) is w'x + b - moved, with w = sum_j beta_j x_j and the intercept b that belongs to this kernel.
        """
        return 0.0 if self.center is None else float(beta @ self.centered(X) @ self.center)

    def centered(self, X: Any) -> Any:
        """Return features ``X`` (m, d) less the center, or unchanged if the kernel has no center."""
        return X if self.center is None else dense(X) - self.center


def _tiles(n: int, products: int) -> tuple[int, int]:
    """Return the numbers of rows and columns (at most ``n``) of a tile that is little work, at ``products`` a value.

    Rows are computed in pairs and columns in blocks, so that every value is computed as in the whole matrix.
    """
    width = min(n, _BLOCK * max(1, AT_ONCE // (2 * _BLOCK * products)))
    return 2 * max(1, AT_ONCE // (2 * width * products)), width


def _runs(out: Floats, rows: Ints, first: int, n: int) -> list[Floats]:
    """Return views of columns ``first`` to ``n`` of ascending ``rows`` of ``out``, one view for each run of rows."""
    if rows.size and rows[-1] - rows[0] == rows.size - 1:
        return [out[rows[0] : rows[-1] + 1, first:n]]
    runs: list[list[int]] = []
    for row in rows.tolist():
        if runs and row == runs[-1][1]:
            runs[-1][1] = row + 1
        else:
            runs.append([row, row + 1])
    return [out[start:end, first:n] for start, end in runs]


@compiled_once_in_order
def squared_distances(A: Floats, XT: Floats, first: int, n: int, factor: float, out: Floats, rows: Ints) -> None:
    """Write ``factor |A[i] - XT[:, j]|^2`` to ``out[rows[i], j]`` for the columns from ``first`` up to ``n``."""
    m, d = A.shape
    spare = np.empty(_BLOCK)
    for start in range(first, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for i in range(0, m, 2):  # two rows at once, four features a pass: each number read is used by all of them
            p = min(i + 1, m - 1)
            row, next_row = out[rows[i], start:stop], out[rows[p], start:stop] if p > i else spare[: stop - start]
            row[:] = 0.0
            next_row[:] = 0.0
            k = 0
            while k + 4 <= d:
                a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
                b0, b1, b2, b3 = A[p, k], A[p, k + 1], A[p, k + 2], A[p, k + 3]
                x0, x1 = XT[k, start:stop], XT[k + 1, start:stop]
                x2, x3 = XT[k + 2, start:stop], XT[k + 3, start:stop]
                for j in range(row.size):
                    d0, d1, d2, d3 = a0 - x0[j], a1 - x1[j], a2 - x2[j], a3 - x3[j]
                    row[j] = row[j] + d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
                    d0, d1, d2, d3 = b0 - x0[j], b1 - x1[j], b2 - x2[j], b3 - x3[j]
                    next_row[j] = next_row[j] + d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
                k += 4
            while k < d:
                a, b = A[i, k], A[p, k]
                x = XT[k, start:stop]
                for j in range(row.size):
                    row[j] += (a - x[j]) * (a - x[j])
                    next_row[j] += (b - x[j]) * (b - x[j])
                k += 1
            for j in range(row.size):
                row[j] *= factor
                next_row[j] *= factor


@compiled_in_order
def _absolute_differences(A: Floats, XT: Floats, first: int, n: int, factor: float, out: Floats, rows: Ints) -> None:
    m, d = A.shape
    for start in range(first, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for i in range(m):
            row = out[rows[i], start:stop]
            row[:] = 0.0
            for k in range(d):
                a, x = A[i, k], XT[k, start:stop]
                for j in range(row.size):
                    row[j] += abs(a - x[j])
            for j in range(row.size):
                row[j] *= factor


@compiled_in_order
def _inner_products(A: Floats, XT: Floats, first: int, n: int, out: Floats, rows: Ints) -> None:
    m, d = A.shape
    for start in range(first, n, _BLOCK):
        stop, k = min(n, start + _BLOCK), 0
        for i in range(m):
            out[rows[i], start:stop] = 0.0
        while k + 4 <= d:  # all rows use four features while these are in the first-level cache
            x0, x1 = XT[k, start:stop], XT[k + 1, start:stop]
            x2, x3 = XT[k + 2, start:stop], XT[k + 3, start:stop]
            for i in range(m):
                row = out[rows[i], start:stop]
                a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
                for j in range(row.size):
                    row[j] = row[j] + a0 * x0[j] + a1 * x1[j] + a2 * x2[j] + a3 * x3[j]
            k += 4
        while k < d:
            x = XT[k, start:stop]
            for i in range(m):
                a, row = A[i, k], out[rows[i], start:stop]
                for j in range(row.size):
                    row[j] += a * x[j]
            k += 1


@compiled_in_order
def _own_products(X: Floats, fours: int, out: Floats) -> None:
    """Write the product of each row with itself, summed as other products are: in fours up to column ``fours``."""
    out[:] = 0.0
    for k in range(0, fours, 4):
        for i in range(out.size):
            a0, a1, a2, a3 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            out[i] = out[i] + a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3
    for k in range(fours, X.shape[1]):
        for i in range(out.size):
            out[i] += X[i, k] * X[i, k]


@compiled_in_order
def _centered_products(A: Floats, XT: Floats, center: Floats, first: int, n: int, out: Floats, rows: Ints) -> None:
    m, d = A.shape
    for start in range(first, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for i in range(m):
            row = out[rows[i], start:stop]
            row[:] = 0.0
            for k in range(d):
                a, c = A[i, k] - center[k], center[k]
                x = XT[k, start:stop]
                for j in range(row.size):
                    row[j] += a * (x[j] - c)


@compiled_allocating
def times(K: Floats, coefficients: Floats) -> Floats:
    """Return ``K @ coefficients``, each row summed in one fixed order; the order of a BLAS may vary from run to run."""
    out = np.empty(K.shape[0])
    for i in range(K.shape[0]):
        row = K[i]
        total = 0.0
        for j in range(coefficients.size):
            total += row[j] * coefficients[j]
        out[i] = total
    return out
