"""The small problem of one block, solved by Newton's method on the coefficients that are not at their bound.

Coordinate descent alone would need hundreds of rounds, because the kernel and the penalized bias couple every example
in a block.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

ROUNDS = 60  #: most Newton steps; usually two or three are made
WELL_CONDITIONED = 1e5  #: number of examples times the ratio of their diagonal entries
LEFT = 1e-3  #: least part of a diagonal entry left as pivot for which single precision suffices: C is not large
SWEEPS = (30, 10)  #: rounds of coordinate descent before the first, and after each Newton step


def minimize(Q: Floats, x: Floats, slope: Floats, low: Floats, tol: float) -> None:
    """Minimize ``1/2 d'Qd + slope'd`` over ``x + d >= low``; ``x`` (m,) and ``slope`` are updated in place.

    The function returns when all derivatives are at most ``tol`` in the directions that the bounds allow, or after
    ``ROUNDS`` rounds, each of which lowers the objective. Coordinate descent determines which coefficients are free;
    projected Newton steps [Bertsekas 1982] optimize these.
    """
    descend(Q, x, slope, low, SWEEPS[0], tol)
    for _ in range(ROUNDS):
        if not derivatives(x, slope, low).max(initial=0.0) > tol:  # also ends at NaN
            return
        free = np.flatnonzero((x > low) | (slope < -tol))
        _newton(Q, x, slope, low, free)
        descend(Q, x, slope, low, SWEEPS[1], tol)


def derivatives(x: Floats, slope: Floats, low: Floats | float) -> Floats:
    """Return the sizes of the derivatives, but 0 where ``x`` is at its bound and the slope is upward."""
    return np.where(x > low, np.abs(slope), np.maximum(-slope, 0.0))


def _newton(Q: Floats, x: Floats, slope: Floats, low: Floats, free: Ints) -> None:
    """Take the Newton step of the ``free`` coefficients; shorten it where the bounds or the descent require that."""
    step = np.zeros(x.size)
    try:
        step[free] = -_solved(Q, slope, free)
    except LinAlgError:  # by rounding: kernel values much larger than 1 / C
        return
    slack = low - x
    bent = np.maximum(step, slack)
    change = Q @ bent
    rise, curve = float(bent @ slope), float(bent @ change)
    if rise >= 0.0 or not curve > 0.0:  # the bent step leads upwards: the straight one, up to the first bound
        towards = step < 0
        share = min(1.0, float((slack[towards] / step[towards]).min(initial=1.0)))
        bent = np.maximum(share * step, slack)
        change = Q @ bent
    elif -rise < curve:
        bent *= -rise / curve
        change *= -rise / curve
    np.maximum(x + bent, low, out=x)
    slope += change


def _solved(Q: Floats, slope: Floats, free: Ints) -> Floats:
    """Return minus the Newton step of the ``free`` coefficients, in single precision if that is accurate enough.

    The slope is updated in double precision, so the next step corrects the error of this one.
    """
    own = Q[np.ix_(free, free)]
    diagonal = own.diagonal()
    if float(diagonal.max()) * free.size < WELL_CONDITIONED * float(diagonal.min()):
        try:
            factor = cho_factor(own.astype(np.float32), lower=True, overwrite_a=True, check_finite=False)
            if (factor[0].diagonal() ** 2 > LEFT * diagonal).all():
                return np.asarray(cho_solve(factor, slope[free].astype(np.float32), check_finite=False), np.float64)
        except LinAlgError:
            pass
    factor = cho_factor(own, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, slope[free], check_finite=False))


@compiled
def descend(Q: Floats, x: Floats, slope: Floats, low: Floats, rounds: int, tol: float) -> None:
    """Minimize along one coordinate after the other, for ``rounds``, or until no slope changes by more than ``tol``."""
    for _ in range(rounds):
        most = 0.0
        for i in range(x.size):
            step = max(-slope[i] / Q[i, i], low[i] - x[i])
            if step == 0.0:
                continue
            x[i] += step
            most = max(most, abs(step) * Q[i, i])
            row = Q[i]
            for j in range(x.size):
                slope[j] += step * row[j]
        if most <= tol:
            return
