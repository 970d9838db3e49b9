"""A center for the features of a linear kernel: what they lose inside, so that little cancels far from the origin.

With an intercept a linear model is the same problem wherever the origin is, but double precision is not: years or
seconds since 1970 leave of x'z few digits that tell two examples apart. The Gaussian kernel needs none, as it is
computed from differences; polynomials change with the origin; sparse features would be filled.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, SparseRows

FAR = 8.0  #: a feature whose mean is no more spreads of all features from 0 has no center


def is_movable(kernel: Kernel, *, intercept: bool) -> bool:
    """Say whether the problem is the same wherever the origin of the features is; the coefficients sum up to 0."""
    return kernel.name == "linear" and intercept


def center_of(X: Features) -> Floats | None:
    """Return what the features of examples ``X`` (n, d) are to lose, (d,), 0 for those near 0; None: nothing.

    It is near their means, in whole powers of two of the size of their spread: features with few digits lose none.
    """
    if isinstance(X, SparseRows) or not len(X):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = X.mean(axis=0), X.std(axis=0)
        is_far = np.abs(mean) > FAR * np.linalg.norm(spread)
    varies = (X[0] != X).any(axis=0)
    if not varies.any() or not is_far.any():
        return None
    unit = np.exp2(np.floor(np.log2(np.where(spread > 0.0, spread, 1.0))))
    return np.where(is_far, np.where(varies, np.round(mean / unit) * unit, X[0]), 0.0)
