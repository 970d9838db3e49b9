"""Features that several problems share: stored once, by number; each problem refers to examples by their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense

AT_HAND = 2**26  #: bytes of kernel rows of new examples that are computed once for all problems


class SharedFeatures:
    """Features of numbered examples, and the kernel values between these examples.

    Parameters
    ----------
    kernel : of all the problems; one that is precomputed has its matrix here
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.XT: Features = np.zeros((0, 1))  #: (d, capacity) features; of sparse examples capacity rows
        self.diagonal = np.zeros(1)  #: (capacity,) k(x, x)
        self.n_slots = 0  #: numbers 0 to n_slots - 1 are or were in use
        self.vacant: list[int] = []
        self._row_of: Ints | None = None  # by number: the rows below that are ready
        self._rows = np.empty((0, 0))

    @cached_property
    def stop(self) -> Ints:
        """A flag (1,) that interrupts a compiled call that solves several problems."""
        return np.zeros(1, np.int64)

    @property
    def capacity(self) -> int:
        """The number of examples for which there is space."""
        return self.diagonal.size

    @property
    def n_features(self) -> int:
        """How many features an example has."""
        return self.XT.width if isinstance(self.XT, SparseRows) else self.XT.shape[0]

    @property
    def is_sparse(self) -> bool:
        """Whether features are stored sparse: only those other than 0."""
        return isinstance(self.XT, SparseRows)

    def place(self, X: Features) -> Ints:
        """Store new examples ``X`` (m, d), dense or sparse like the stored ones, and return their numbers."""
        numbers = self._new_numbers(X.shape[0])
        self._put(X, numbers)
        self.diagonal[numbers] = self.kernel.diagonal(X)
        return numbers

    def make_positive(self, window: Ints, leave: Ints, come: Ints, limit: int) -> bool:
        """Make stored kernel values positive semi-definite, for a window without ``leave``; say if they changed.

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
        """Read k(x, x) of examples again, if the kernel stores values, as these may have changed."""
        if self.kernel.held is not None and numbers.size:
            self.diagonal[numbers] = self.kernel.diagonal(self.features(numbers))

    def release(self, numbers: Ints) -> None:
        """Release the numbers of examples that have left, for use by new examples."""
        self.vacant.extend(numbers[::-1].tolist())

    def _new_numbers(self, m: int) -> Ints:
        reused = [self.vacant.pop() for _ in range(min(m, len(self.vacant)))]
        fresh = m - len(reused)
        self.n_slots += fresh
        if self.n_slots > self.diagonal.size:
            more = np.zeros(64 + self.n_slots * 5 // 4)
            more[: self.diagonal.size] = self.diagonal
            self.diagonal = more
        return np.array([*reused, *range(self.n_slots - fresh, self.n_slots)], np.int64)

    def expect(self, X: Features) -> None:
        """Allocate space for features with the width of ``X`` (m, d), dense or sparse like ``X``."""
        is_sparse = isinstance(X, SparseRows)
        self.XT = SparseRows.empty(self.capacity, X.shape[1]) if is_sparse else np.zeros((X.shape[1], self.capacity))

    def _put(self, X: Features, numbers: Ints) -> None:
        if self.n_features != X.shape[1] or isinstance(X, SparseRows) != isinstance(self.XT, SparseRows):
            self.expect(X)
        if isinstance(self.XT, SparseRows):
            assert isinstance(X, SparseRows)
            self.XT = self.XT.resized(self.capacity).put(numbers, X, self.vacant)
            return
        if self.XT.shape[1] != self.capacity:
            XT = np.zeros((X.shape[1], self.capacity))
            XT[:, : self.XT.shape[1]] = self.XT
            self.XT = XT
        self.XT[:, numbers] = dense(X).T

    def cool(self) -> None:
        """Free the space that is reserved for more examples."""
        if self._spare:
            n = self.n_slots
            self.diagonal = self.diagonal[:n].copy()
            self.XT = self.XT.resized(n) if isinstance(self.XT, SparseRows) else self.XT[:, :n].copy()

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        return self._data_bytes * self._spare // self.capacity if self._spare else 0

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays and a precomputed kernel matrix take."""
        held = self.XT.values.nbytes + self.XT.indices.nbytes if isinstance(self.XT, SparseRows) else 0
        return self._data_bytes + held + (0 if self.kernel.gram is None else self.kernel.gram.values.nbytes)

    @property
    def _spare(self) -> int:
        """How many numbers have never been given to an example."""
        return self.capacity - self.n_slots

    @property
    def _data_bytes(self) -> int:
        """Bytes that the arrays indexed by number take, without the values of sparse rows."""
        features = 2 * self.XT.start.nbytes if isinstance(self.XT, SparseRows) else self.XT.nbytes
        return features + self.diagonal.nbytes

    def features(self, numbers: Ints) -> Features:
        """Return the features of examples, (m, d)."""
        found = self.columns(numbers)
        return found if isinstance(found, SparseRows) else np.ascontiguousarray(found.T)

    def columns(self, numbers: Ints) -> Features:
        """Return the features of examples in the form that kernels expect: transposed, (d, m), or sparse rows."""
        if isinstance(self.XT, SparseRows):
            return self.XT[numbers]
        return np.ascontiguousarray(np.take(self.XT, numbers, axis=1, mode="clip"))

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
