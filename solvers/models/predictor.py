"""A model frozen for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.kernels.function import FunctionKernel, objects_for
from livesvm.solvers.kernels.kernel import Kernel, times
from livesvm.solvers.models.feature_scale import FeatureScale
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.interrupt import AT_ONCE, check
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, SparseRows, dense, like
from livesvm.solvers.tables.encoding import TableEncoding

Gate = Callable[[Any], None]
_BLOCK = 1024  # rows of X whose kernel values are held at once
_LEAST = 16  # least rows at once, however many products each takes: fewer would not make a matrix product


class ReadsRows:
    """What frozen models have in common, whether they have one decision function or one for every pair of classes."""

    kernel: Kernel
    support: Features
    n_features: int | None
    scale: FeatureScale | TableEncoding | None
    gate: Gate | None

    @taking_rows(
        "ndarray or SparseRows, shape (m, d)\n    Finite float64 rows.",
        """
        InvalidInput
            Names the row and column; of a data frame also where its columns are not those that the model knows.
        """,
    )
    def validate(self, X: ArrayLike | SparseRows) -> Features:
        """Check rows and return them."""
        if self.scale is not None and self.scale.columns is not None:
            return self.scale.read(X)
        return checked_rows(X, self.n_features, self.gate, is_given=self.kernel.gram is not None)

    @taking_rows(
        "ndarray, shape (m,), or of several classes (m, n_pairs)\n    f(x); of a pair positive for its first class.",
        """
        InvalidInput
            Names the row and column.
        """,
    )
    def decision_function(self, X: ArrayLike | SparseRows) -> Floats:
        """Return f(x)."""
        (kernel, rows), own = read(self, X), cast("Predictor", self)
        return (own if kernel is own.kernel else replace(own, kernel=kernel)).decide(rows)


@dataclass(frozen=True)
class Predictor(ReadsRows):
    """Decision function of a model at one moment; immutable, safe to share between threads.

    Attributes
    ----------
    kernel : Kernel
        The kernel function with its parameters.
    support : ndarray, shape (d, n_support), or sparse rows
        Features of the support vectors, transposed; of sparse ones rows; of the kernel "precomputed", (1,
        n_support) their places in the window.
    coefficients : ndarray, shape (n_support,)
        Signed beta.
    intercept : float
        b, in units of f.
    n_features : int or None
        Of a row to predict; None: before any were seen.
    boundary : float, default 0
        Decision values up to this far from 0 are 0; of one-class models, whose margin lies on the boundary.
    scale : FeatureScale, TableEncoding or None, default None
        What features go through first.
    gate : callable or None, default None
        Compares the names of features with those that the model knows: called with what rows come in.
    target_scale : str, default "none"
        Of f, see ``models.target_scale``.
    """

    kernel: Kernel
    support: Features
    coefficients: Floats
    intercept: float
    n_features: int | None
    boundary: float = 0.0
    scale: FeatureScale | TableEncoding | None = None
    gate: Gate | None = field(default=None, repr=False)
    target_scale: str = "none"

    n_support = property(attrgetter("coefficients.size"), doc="Number of support vectors.")

    def decide(self, rows: Features | list[Any]) -> Floats:
        """Return f(x) of rows that are checked.

        Parameters
        ----------
        rows : ndarray or SparseRows, shape (m, d)
            What :meth:`validate` returned.

        Returns
        -------
        ndarray, shape (m,)
            f(x).
        """
        if isinstance(rows, list):  # of objects
            return self.decision_function(rows)
        out = np.full(rows.shape[0], self.intercept)
        if self.n_support:
            for part in blocks(rows, self.n_support):
                out[part] += times(kernel_values(self.kernel, rows[part], self.support, self.scale), self.coefficients)
        if self.boundary:
            out[np.abs(out) <= self.boundary] = 0.0
        return out


def blocks(rows: Features, n_support: int) -> Iterator[slice]:
    """Yield slices of rows that are little work with ``n_support`` support vectors; check for interrupts each time."""
    products = max(1, n_support * rows.shape[1])
    step = min(_BLOCK, max(_LEAST, AT_ONCE // products))
    for start in range(0, rows.shape[0], step):
        check()
        yield slice(start, start + step)


def checked_rows(X: Any, width: int | None, gate: Gate | None, *, is_given: bool) -> Features:
    """Return given rows (m, d) after checks of their numbers, the names of their features, and their width.

    Raises
    ------
    InvalidInput : names the row and column
    """
    rows = validation.matrix(X) if is_given else validation.features(X)
    if gate is not None:
        gate(X)
    validation.check_width(rows.shape[1], width, "X")
    return rows


def read(predictor: ReadsRows, X: Any) -> tuple[Kernel, Features]:
    """Return the kernel and the checked rows; for objects, a kernel that knows these objects, and their numbers.

    Raises
    ------
    InvalidInput : names the row and column
    """
    kernel = predictor.kernel
    if not isinstance(kernel, FunctionKernel) or kernel.objects is None or not kernel.is_frozen:
        return kernel, predictor.validate(X)
    return kernel.only(predictor.support, objects_for(X, kernel.objects) or ())


def rows_of(predictor: ReadsRows, X: Any) -> Any:
    """Check rows and return them as :func:`read` takes them: features, or a list of objects; raises InvalidInput."""
    kernel = predictor.kernel
    if isinstance(kernel, FunctionKernel) and kernel.objects is not None:
        return objects_for(X, kernel.objects)
    return predictor.validate(X)


def kernel_values(
    kernel: Kernel, rows: Features, support: Features, scale: FeatureScale | TableEncoding | None
) -> Floats:
    """Return the kernel values of few ``rows`` (m, d) and all support vectors, (m, n_support)."""
    if kernel.gram is not None:
        return np.ascontiguousarray(dense(rows)[:, dense(support)[0].astype(np.int64)])
    part = like(rows, isinstance(support, SparseRows))
    return kernel.matrix(part if scale is None else scale.apply(part), support)
