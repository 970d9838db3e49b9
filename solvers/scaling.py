"""What the scale of the features decides: gamma by default, and whether double precision suffices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidInput
from solvers.kernels import Kernel
from solvers.losses import Losses
from solvers.state import Examples

Floats = NDArray[np.float64]

LARGE = 1e12  # k(x, x) times a coefficient: f, a sum of such terms, has few digits left


def gamma(X: Floats, weights: Floats) -> float:
    """Return the gamma called "scale" of examples ``X`` (n, d) with ``weights`` (n,).

    It is 1 / (d * variance of all entries of ``X``, rows weighted), or 1 where they do not vary.

    Raises
    ------
    InvalidInput : that is not a positive finite number
    """
    total = weights.sum() * X.shape[1]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if total > 0:
            mean = (weights @ X).sum() / total
            variance = float((weights @ (X - mean) ** 2).sum() / total)
        else:
            variance = float(X.var())
    if variance == 0.0:
        return 1.0
    found: float = 1.0 / (X.shape[1] * variance)
    if not 0.0 < found < np.inf:
        raise InvalidInput(f"is 'scale', but the features have the variance {variance:g}; scale them", field="gamma")
    return found


def size_of_kernel(kernel: Kernel, X: Floats) -> float:
    """Return the largest k(x, x) of new examples ``X`` (m, d), 0 without any.

    Raises
    ------
    InvalidInput : it is not finite; names the row
    """
    if kernel.gram is not None or X.shape[0] == 0:
        return 0.0
    if kernel.name == "rbf":
        return 1.0
    with np.errstate(over="ignore"):
        own = kernel.diagonal(X)
    if not np.isfinite(own).all():
        reason = f"the {kernel.name} kernel of this example is not finite; scale the features"
        raise InvalidInput(reason, field="X", row=int(np.argmin(np.isfinite(own))))
    return float(own.max())


def advice(window: Examples, new: Losses, size: float) -> str:
    """Return what to do about a path that failed, if the features are too large for it; else nothing.

    Parameters
    ----------
    window, new : the examples of the window, and the losses of the new ones
    size : largest k(x, x) among the new ones
    """
    size = max(size, float(window.diagonal.max(initial=0.0)))
    slope = max(float(np.abs(levels).max(initial=0.0)) for levels in (window.levels, new.levels))
    if size * slope < LARGE:
        return ""
    return f"; k(x, x) goes up to {size:.1e} and coefficients to {slope:.1e}: scale the features"
