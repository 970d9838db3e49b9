"""Features that several problems share: stored once, by number; each problem refers to examples by their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.problem.state import FeatureTable, resized
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense

AT_HAND = 2**26  #: bytes of kernel rows of new examples that are computed once for all problems


class SharedFeatures(FeatureTable):
    """Features of numbered examples, and the kernel values between these examples.

    Parameters
    ----------
    kernel : of all the problems; one that is precomputed has its matrix here
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.diagonal = np.zeros(0)  #: (capacity,) k(x, x)
        self._row_of: Ints | None = None  # by number: the rows below that are ready
        self._rows = np.empty((0, 0))

    @cached_property
    def stop(self) -> Ints:
        """A flag (1,) that interrupts a compiled call that solves several problems."""
        return np.zeros(1, np.int64)

    def place(self, X: Features) -> Ints:
        """Store new examples ``X`` (m, d), dense or sparse like the stored ones, and return their numbers."""
        numbers = self._new_slots(X)
        if isinstance(self.XT, SparseRows):
            self.XT = self.XT.put(numbers, cast(SparseRows, X), self.vacant)
        else:
            self.XT[:, numbers] = dense(X).T
        self.diagonal[numbers] = self.kernel.diagonal(X)
        return numbers

    def resize(self, capacity: int) -> None:
        super().resize(capacity)
        self.diagonal = resized(self.diagonal, capacity)

    @property
    def _arrays(self) -> tuple[Floats, ...]:
        return (self.diagonal,)

    def make_positive(self, window: Ints, leave: Ints, come: Ints, limit: int) -> bool:
        """Correct stored kernel values to be positive semi-definite on a window without ``leave``; say if they changed.

        If the kernel stores no values, nothing is done: each problem checks its own examples.

        Raises
        ------
        NotPositiveSemidefinite, MemoryLimit : see ``definiteness.check_positive``
        """
        kernel = self.kernel
        is_new = isinstance(kernel, FunctionKernel) and kernel.hold(self.features(window), self.features(come))
        if kernel.held is None or not kernel.held.precision:
            return is_new
        stay = np.concatenate([np.setdiff1d(window, leave, assume_unique=True), come])
        is_new |= check_positive(kernel, self.features(stay), limit)
        self.measure(np.concatenate([window, come]))
        return is_new

    def measure(self, numbers: Ints) -> None:
        """If the kernel stores its values, read k(x, x) of examples again, because stored values may have changed."""
        if self.kernel.held is not None and numbers.size:
            self.diagonal[numbers] = self.kernel.diagonal(self.features(numbers))

    def release(self, numbers: Ints) -> None:
        """Release the numbers of examples that have left, for use by new examples."""
        self.vacant.extend(numbers[::-1].tolist())

    def values(self, X: Features, numbers: Ints) -> Floats:
        """Return the kernel values of ``X`` (m, d) with the examples ``numbers`` (k,), as (m, k)."""
        return self.kernel.matrix(X, self.columns(numbers))

    @contextmanager
    def at_hand(self, numbers: Ints) -> Iterator[None]:
        """Store the kernel rows of a few examples while the context lasts, so that all problems can copy these rows.

        Rows of mapped features are not stored, as large problems do not need them.
        """
        if self.kernel.is_projected or not 0 < 8 * numbers.size * self.n_slots <= AT_HAND:
            yield
            return
        row_of = np.full(self.capacity, -1, np.int64)
        row_of[numbers] = np.arange(numbers.size)
        self._rows = self.kernel.matrix(self.features(numbers), self.XT, self.n_slots)
        self._row_of = row_of
        try:
            yield
        finally:
            self._row_of, self._rows = None, np.empty((0, 0))

    def rows_at_hand(self) -> tuple[Ints, Floats] | None:
        """Return the row index of each example number, and the kernel rows, if ``at_hand`` stores any; else None."""
        return None if self._row_of is None else (self._row_of, self._rows)

    def write(self, numbers: Ints, columns: Ints, out: Floats, rows: Ints) -> None:
        """Write the kernel values of ``numbers`` (m,) with ``columns`` (n,) to the first n of ``out[rows]``."""
        if self._row_of is not None:
            at = self._row_of[numbers]
            if at.size and at.min() >= 0:
                _copy(self._rows, at, columns, out, rows)
                return
        self.kernel.write(self.features(numbers), self.columns(columns), columns.size, out, rows)


@compiled
def _copy(values: Floats, at: Ints, columns: Ints, out: Floats, rows: Ints) -> None:
    """Copy ``values[at[i], columns]`` to the first entries of ``out[rows[i]]``, for every i."""
    for i in range(at.size):
        source, target = values[at[i]], out[rows[i]]
        for j in range(columns.size):
            target[j] = source[columns[j]]


@dataclass(frozen=True)
class ByNumber(Kernel):
    """A kernel of examples with a single feature, which is the example's number in ``shared``."""

    shared: SharedFeatures = field(default_factory=lambda: SharedFeatures(Kernel()), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Skip the check of parameters, because the kernel of ``shared`` has checked them."""

    @property
    def is_of_distances(self) -> bool:
        """Whether the kernel of ``shared`` is a function of distances."""
        return self.shared.kernel.is_of_distances

    @property
    def has_gamma(self) -> bool:
        """Whether the kernel of ``shared`` has a parameter gamma."""
        return self.shared.kernel.has_gamma

    def write(self, A: Features, XT: Features, n: int, out: Floats, rows: Ints) -> None:
        """Write ``k(A[i], XT[:, j])`` to ``out[rows[i], j]`` for the first ``n`` columns; ``rows`` (m,) ascend."""
        self.shared.write(dense(A)[:, 0].astype(np.int64), dense(XT)[0, :n].astype(np.int64), out, rows)

    def diagonal(self, X: Features) -> Floats:
        """Return ``k(X[i], X[i])`` for ``X`` (m, 1)."""
        return self.shared.diagonal[dense(X)[:, 0].astype(np.int64)]


def by_number(shared: SharedFeatures) -> ByNumber:
    """Return a kernel that takes numbers of examples, with the values of the kernel of ``shared``."""
    kernel = shared.kernel
    return ByNumber(kernel.name, kernel.gamma, kernel.degree, kernel.coef0, shared=shared)
