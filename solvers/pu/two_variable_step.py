"""The exact minimum of the dual along a pair of coefficients, over all pieces of its penalty.

One coefficient grows by t and another shrinks by t, so that the sum stays [Sansone et al., section 4.1]. The objective
falls at the rate ``slope - curvature t``; where either coefficient crosses the middle of its box, the rate drops by
``2 jump``, as the derivative of ``jump |sigma - c2/2|`` does.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled

EXACT = 4.0 * float(np.finfo(np.float64).eps)  #: of its box: a coefficient that close to an end or the middle is there


@compiled
def best_step(slope: float, curvature: float, kink_up: float, kink_down: float, limit: float, jump: float) -> float:
    """Return the t in [0, limit] at which the objective is least.

    ``kink_up`` and ``kink_down`` are the t at which the one that grows, and the one that shrinks, reaches its middle;
    infinite where it is beyond. A curvature of 0, that of two duplicates, goes on to the next kink or the limit.
    """
    near, far = min(kink_up, kink_down), max(kink_up, kink_down)
    for kink in (near, far):
        if kink >= limit:
            break
        if slope <= curvature * kink:
            return slope / curvature
        slope -= 2.0 * jump
        if slope <= curvature * kink:
            return kink
    return slope / curvature if slope < curvature * limit else limit


@compiled
def moved(sigma: float, t: float, top: float) -> float:
    """Return a coefficient that has moved by t, exactly at an end or in the middle of its box where it is that near."""
    value, near = sigma + t, EXACT * top
    if abs(value - 0.5 * top) <= near:
        return 0.5 * top
    if value <= near:
        return 0.0
    return top if value >= top - near else value


@compiled
def step_of(slope: float, curvature: float, sigma_up: float, top_up: float, sigma_down: float, top_down: float,
            jump: float) -> float:  # fmt: skip
    """Return how far a pair moves: the first coefficient up, the second down."""
    kink_up = 0.5 * top_up - sigma_up if sigma_up < 0.5 * top_up else np.inf
    kink_down = sigma_down - 0.5 * top_down if sigma_down > 0.5 * top_down else np.inf
    return best_step(slope, curvature, kink_up, kink_down, min(top_up - sigma_up, sigma_down), jump)
