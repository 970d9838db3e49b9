"""Check whether a kernel is positive semi-definite on given examples."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import MemoryLimit, NotPositiveSemidefinite
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.linalg.blocked_cholesky import factor_block
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, columns_of

ROUNDING = 1e-10  #: of the sum of the diagonal: an eigenvalue that little below 0 is rounding


def check_positive(kernel: Kernel, X: Features, limit: int) -> None:
    """Raise unless the kernel matrix of ``X`` (m, d) is positive semi-definite; costs O(m^3).

    It is if the matrix has a Cholesky factor when ``ROUNDING`` is added to its diagonal.

    Raises
    ------
    NotPositiveSemidefinite : it is not
    MemoryLimit : the factor takes more than ``limit`` bytes
    """
    m = X.shape[0]
    if 8 * m * m > limit:
        raise MemoryLimit(8 * m * m, limit)
    least = ROUNDING * max(1.0, float(np.abs(kernel.diagonal(X)).sum()))

    def block(rows: slice, columns: slice) -> Floats:
        values = kernel.matrix(X[rows], columns_of(X[columns]))
        if rows == columns:
            values[np.diag_indices_from(values)] += least
        return values

    if not factor_block(np.zeros((m, m)), m, block):
        raise NotPositiveSemidefinite(
            f"the {kernel.name} kernel has an eigenvalue below {-least:.1g} on this window; "
            "it must be positive semi-definite",
            field="kernel",
        )
