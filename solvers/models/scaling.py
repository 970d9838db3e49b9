"""What the scale and location of features determine: gamma, a kernel's center, and whether double precision suffices.

A linear kernel has a center, which is subtracted from features, so that features far from the origin lose few digits.
With an intercept a linear model is the same problem wherever the origin is, but not in double precision: with years or
seconds since 1970, few digits of x'z are left to tell two examples apart. The Gaussian kernel needs no center, as it is
computed from differences. Polynomial kernels have no center, as they depend on the origin. Sparse features have no
center, as subtracting one would make them dense.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel, form_of
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Examples
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, SparseRows, dense

FAR = 8.0  #: a feature whose mean is no more spreads of all features from 0 has no center
LARGE = 1e10  # k(x, x) times a coefficient: f, a sum of such terms, has few digits left


def gamma(X: Features, weights: Floats, kernel: Any = "rbf") -> float:
    """Return the gamma called "scale" of examples ``X`` (n, d) with ``weights`` (n,), for a kernel by name.

    Gamma is 1 / (d * variance of all entries of ``X``, rows weighted), or for some kernels a value derived from this,
    and 1 if the entries do not vary; see ``Form.scaled_gamma``.

    Raises
    ------
    InvalidInput : that is not a positive finite number
    """
    weights = weights if weights.any() else np.ones(len(X))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if isinstance(X, SparseRows):
            variance = _variance(X, weights)
        else:
            total = weights.sum() * X.shape[1]
            mean = (weights @ X).sum() / total
            variance = float((weights @ (X - mean) ** 2).sum() / total)
    if variance == 0.0:
        return 1.0
    found: float = 1.0 / (X.shape[1] * variance)
    if not 0.0 < found < np.inf:
        raise InvalidInput(f"is 'scale', but the features have the variance {variance:g}; scale them", field="gamma")
    return found if callable(kernel) else form_of(kernel).scaled_gamma(found, X.shape[1])


def _variance(X: SparseRows, weights: Floats) -> float:
    """Return the variance of all entries of ``X`` (n, d), rows weighted, including entries that are 0."""
    rows = X.packed()
    counts = rows.stop - rows.start
    each, total = np.repeat(weights, counts), weights.sum() * X.shape[1]
    mean = float(each @ rows.values) / total
    zeros = float(weights @ (X.shape[1] - counts))
    return float((each @ (rows.values - mean) ** 2 + zeros * mean**2) / total)


def diagonal(kernel: Kernel, X: Features) -> Floats:
    """Return k(x, x) of new examples ``X`` (m, d), as (m,); a precomputed ``X`` has these in its last m columns.

    Raises
    ------
    InvalidInput : one is not finite; names the row
    """
    if kernel.gram is not None:
        m, columns = X.shape
        return dense(X)[:, columns - m :].diagonal() if columns >= m else np.zeros(m)
    own = kernel.diagonal(X)
    if not (math.isfinite(np.vdot(own, own)) or np.isfinite(own).all()):
        reason = f"the {kernel.name} kernel of this example is not finite; scale the features"
        raise InvalidInput(reason, field="X", row=int(np.argmin(np.isfinite(own))))
    return own


class Scale(NamedTuple):
    """The sizes of a window's numbers after an update."""

    n: int  #: examples
    kernel: float  #: largest k(x, x)
    C: float  #: cost of a unit of weight
    weight: float  #: largest weight

    @property
    def fits(self) -> bool:
        """Whether decisions and objective are finite in double precision if all coefficients are at their largest."""
        level = self.n * self.C * self.weight
        return math.isfinite(level * self.kernel) and math.isfinite(level * level * max(self.kernel, 1.0))

    @property
    def with_room(self) -> Scale:
        """This scale with all sizes doubled if that fits double precision, else this scale itself."""
        larger = Scale(2 * self.n, 2 * self.kernel, 2 * self.C, 2 * self.weight)
        return larger if larger.fits else self


NOTHING = Scale(0, 0.0, 0.0, 0.0)


def refusal(scale: Scale, diagonal: Floats, weights: Floats) -> InvalidInput:
    """Return the error for numbers too large to be summed in double precision; the error names the largest.

    ``diagonal`` (m,) holds k(x, x) of the new examples, ``weights`` (m,) their weights.
    """
    n, size, C, weight = scale
    worst = max(size, C, weight)
    numbers = f"k(x, x) goes up to {size:.1e}, C to {C:.1e} and weights to {weight:.1e}"
    reason = f"{numbers}, so that sums over {n} examples leave double precision"
    if worst == size:
        return InvalidInput(f"{reason}; scale the features", field="X", row=_place_of(size, diagonal))
    if worst == C:
        return InvalidInput(f"{reason}; choose a smaller C", field="C")
    row = _place_of(weight, weights)
    field = "reweight" if row is None else "sample_weight"
    return InvalidInput(f"{reason}; choose smaller weights", field=field, row=row)


def _place_of(largest: float, values: Floats) -> int | None:
    """Return the row of the new example with the ``largest`` number; None if an example of the window has it."""
    return int(values.argmax()) if values.max(initial=0.0) == largest else None


def advice(window: Examples, new: Losses, size: float) -> str:
    """Return advice for the error message of a failed path if the features are too large; else an empty text.

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


def center_of(X: Features) -> Floats | None:
    """Return the center (d,) of the features ``X`` (n, d), with entries near 0 set to 0; None if there is no center.

    The center is the mean of the features, rounded to multiples of a power of two near their spread, so that features
    with few digits lose none.
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
