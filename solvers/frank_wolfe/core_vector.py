"""The reduced problem of the core-vector machine, which is here for comparison [Tsang et al. 2005]."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Numbers

FLAT = 1e-300  #: the least curvature


@compiled
def minimize_pairwise(
    values: Numbers, y: Floats, ridge: Floats, diagonal: Floats, a: Floats, g: Floats, tol: float, most: int
) -> None:
    """Minimize ``a'K~a`` over the simplex of ``a`` (k,), with ``g = K~a``, to a relative gap of ``tol``: SMO, by pairs.

    ``values`` are kernel values, (k, k) or larger.
    """
    for _ in range(most):
        i, low, R = 0, np.inf, 0.0
        for k in range(a.size):
            R += a[k] * g[k]
            if g[k] < low:
                i, low = k, g[k]
        if 2.0 * (R - low) <= tol * R:
            return
        j, best, flat = -1, 0.0, FLAT
        for k in range(a.size):  # the partner that gains the most [Fan et al. 2005]
            if a[k] > 0.0 and g[k] > low:
                curvature = max(diagonal[i] + diagonal[k] - 2.0 * y[i] * y[k] * (values[i, k] + 1.0), FLAT)
                gain = (g[k] - low) ** 2 / curvature
                if gain > best:
                    j, best, flat = k, gain, curvature
        if j < 0:
            return
        step = min(a[j], (g[j] - low) / flat)
        a[i] += step
        a[j] = 0.0 if step == a[j] else a[j] - step
        s, t = step * y[i], step * y[j]
        for k in range(a.size):
            g[k] += y[k] * (s * (values[i, k] + 1.0) - t * (values[j, k] + 1.0))
        g[i] += step * ridge[i]
        g[j] -= step * ridge[j]
