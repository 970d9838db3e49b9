"""A kernel that is a function of the user's, of rows of numbers or of examples of any other type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any, Self

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, as_scipy, columns_of, dense

TILE = 64  # examples that are handed to the function with each other where each counts with itself alone


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel whose values ``function(A, B)`` (m, n) are, of rows ``A`` (m, d) and ``B`` (n, d), as scikit-learn asks.

    Of sparse rows it is given csr_arrays of scipy, and may return one. Examples that are no rows of numbers, as texts
    or graphs, have a number as their only feature, and the function is given lists of them.

    It has to be positive semi-definite on the examples of every window, which is checked whenever some come. A value
    should not depend on which others are computed with it; rounding may.
    """

    name: Any = "function"
    function: Callable[[Any, Any], Any] = lambda A, B: A @ B.T
    objects: Mapping[int, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check nothing: the parameters are the function's own."""

    is_of_distances = has_gamma = always_positive = False  # for all that is known

    def write(self, A: Features, XT: Features, n: int, out: Floats, rows: Ints) -> None:
        """Write ``k(A[i], XT[:, j])`` to ``out[rows[i], j]`` for the first ``n`` columns.

        Raises
        ------
        InvalidInput : the function returns something else than m x n finite numbers
        """
        if not (len(A) and n):
            return
        columns = XT[np.arange(n)] if isinstance(XT, SparseRows) else np.ascontiguousarray(XT[:, :n].T)
        values = self.function(self.given(A), self.given(columns))
        try:
            found = np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the function returns no array of numbers ({error})", field="kernel") from None
        if found.shape != (len(A), n):
            reason = (
                f"the function returns an array of shape {found.shape} for {len(A)} and {n} rows, not one value each"
            )
            raise InvalidInput(reason, field="kernel")
        if not np.isfinite(found).all():
            raise InvalidInput("the function returns values that are not finite", field="kernel")
        out[rows, :n] = found

    def diagonal(self, X: Features) -> Floats:
        """Return the value of each of ``X`` (m, d) with itself, (m,)."""
        parts = [X[start : start + TILE] for start in range(0, X.shape[0], TILE)]
        return np.concatenate([np.empty(0), *(self.matrix(part, columns_of(part)).diagonal() for part in parts)])

    def given(self, rows: Features) -> Any:
        """Return examples as the function takes them: rows of numbers, a csr_array, or a list."""
        if self.objects is None:
            return as_scipy(rows)
        some = next(iter(self.objects.values()), None)  # where examples have left, whose values do not count
        return [self.objects.get(number, some) for number in dense(rows)[:, 0].astype(np.int64).tolist()]

    def only(self, rows: Features, more: Sequence[Any] = ()) -> tuple[Self, Floats]:
        """Return a kernel of its own that knows the examples of ``rows`` (n, 1) and ``more``, and numbers of these."""
        known: Mapping[int, Any] = {} if self.objects is None else self.objects
        kept = {number: known[number] for number in np.ravel(dense(rows)).astype(np.int64).tolist()}
        numbers = unused_numbers(known, more)
        kept.update(zip(numbers, more, strict=True))
        return replace(self, objects=kept), np.array(numbers, np.float64)[:, None]


def unused_numbers(known: Mapping[int, Any], examples: Sequence[Any]) -> list[int]:
    """Return a number for each of some examples that none of those ``known`` has."""
    first = max(known, default=-1) + 1
    return list(range(first, first + len(examples)))


def objects_in(X: Any) -> list[Any] | None:
    """Return examples that are no rows of numbers, as texts or objects; None for anything else, as an array."""
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype.kind not in "OUS"):
        return None
    if not isinstance(X, np.ndarray | list | tuple) or not len(X):
        return None
    examples = list(X)
    return None if any(isinstance(one, Number) or np.ndim(one) for one in examples[:1]) else examples
