"""A kernel that is a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel whose values ``function(A, B)`` (m, n) are, of rows ``A`` (m, d) and ``B`` (n, d), as scikit-learn asks.

    It has to be positive semi-definite on the examples of every window, which is checked whenever some come. A value
    should not depend on which others are computed with it; rounding may.
    """

    name: Any = "function"
    function: Callable[[Floats, Floats], Any] = lambda A, B: A @ B.T

    def __post_init__(self) -> None:
        """Nothing is known of its parameters."""

    @property
    def always_positive(self) -> bool:
        """Whether every kernel matrix is positive semi-definite: nobody knows."""
        return False

    def write(self, A: Features, XT: Features, n: int, out: Floats, rows: Ints) -> None:
        """Write ``k(A[i], XT[:, j])`` to ``out[rows[i], j]`` for the first ``n`` columns.

        Raises
        ------
        InvalidInput : the function returns something else than m x n finite numbers
        """
        if not (len(A) and n):
            return
        values = self.function(dense(A), np.ascontiguousarray(dense(XT)[:, :n].T))
        try:
            found = np.asarray(values, np.float64)
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
