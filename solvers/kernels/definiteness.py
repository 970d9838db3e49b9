"""Check whether a kernel is positive semi-definite on given examples; correct the effect of rounded kernel values."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import MemoryLimit, NotPositiveSemidefinite
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.linalg.cholesky import factor_block
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, columns_of

ROUNDING = 1e-10  #: of the sum of the diagonal: an eigenvalue that little below 0 is rounding in double precision
MOST = 0.01  #: part of the largest k(x, x) by which the diagonal is raised at most
STEPS = 4  #: amounts that are tried before, each an eighth of the next
EXAMINED = 2000  #: examples of which a message names the eigenvalue


def check_positive(kernel: Kernel, X: Features, limit: int) -> bool:
    """Raise an error unless the kernel matrix of ``X`` (m, d) is positive semi-definite; costs O(m^3).

    The test is whether the matrix has a Cholesky factor when ``ROUNDING`` is added to its diagonal. If the test fails
    and stored kernel values were rounded to less than double precision, the diagonal of the matrix is raised. If the
    diagonal was raised, the function returns True, and everything computed from stored values must be computed again.

    Raises
    ------
    NotPositiveSemidefinite : it is not
    MemoryLimit : the factor takes more than ``limit`` bytes
    """
    m, held = X.shape[0], kernel.held
    if 8 * m * m > limit:
        raise MemoryLimit(8 * m * m, limit)
    diagonal = np.abs(kernel.diagonal(X))
    least = ROUNDING * max(1.0, float(diagonal.sum()))
    R = np.zeros((m, m))
    if _has_factor(kernel, X, least, R):
        return False
    tolerance = least
    if held is not None and held.precision:
        tolerance = max(least, most_rounding(held.precision, diagonal - held.raised))
        for raised in _amounts(tolerance):
            if raised > held.raised and _has_factor(kernel, X, least + raised - held.raised, R):
                held.raise_to(raised)
                return True
    raise indefinite(kernel, kernel.matrix(X, columns_of(X)) if m <= EXAMINED else None, tolerance)


def most_rounding(precision: float, diagonal: Floats) -> float:
    """Return how much rounding to ``precision`` can lower an eigenvalue of a matrix with this diagonal (m,)."""
    return min(precision * float(diagonal.sum()), MOST * float(diagonal.max()))


def _amounts(most: float) -> list[float]:
    """Return powers of two up to ``most``, ascending: adding a power of two to a rounded value is exact."""
    last = float(np.exp2(np.floor(np.log2(most))))
    return [last / 8.0**step for step in range(STEPS, -1, -1)]


def _has_factor(kernel: Kernel, X: Features, plus: float, R: Floats) -> bool:
    """Say whether the kernel matrix of ``X`` (m, d) has a Cholesky factor after ``plus`` is added to its diagonal."""

    def block(rows: slice, columns: slice) -> Floats:
        values = kernel.matrix(X[rows], columns_of(X[columns]))
        if rows == columns:
            values[np.diag_indices_from(values)] += plus
        return values

    return factor_block(R, X.shape[0], block)


def indefinite(kernel: Kernel, values: Floats | None, tolerance: float) -> NotPositiveSemidefinite:
    """Return the error for an indefinite matrix ``values``; None if the matrix is too large to compute eigenvalues."""
    found = f"an eigenvalue below {-tolerance:.1g} on these examples"
    is_given, more = kernel.name in ("precomputed", "function"), tolerance
    if values is not None:
        lowest = float(np.linalg.eigvalsh(0.5 * (values + values.T))[0])
        found = f"the eigenvalue {lowest:.3g} on these examples, below -{tolerance:.1g}"
        more = -lowest
    way = f"add {more:.3g} to its diagonal" if is_given else "choose other parameters"
    return NotPositiveSemidefinite(
        f"the {kernel.name} kernel has {found}, which rounding does not explain; it must be positive semi-definite: "
        f"{way}, or choose another kernel",
        field="kernel",
    )
