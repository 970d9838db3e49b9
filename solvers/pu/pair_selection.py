"""Selection of violating pairs, and the descent on a working set, pair by pair.

With ``F = f - b``, a coefficient should grow if ``F + up`` is above ``-b``, and shrink if ``F + down`` is below ``-b``.
``up`` and ``down`` are +jump or -jump, depending on the half of the box in which the coefficient would move, or
infinite at an end of the box. At the optimum ``max(F + up) <= -b <= min(F + down)``. This inequality is equivalent to
the conditions of [Sansone et al., eq. 13], because examples of their set ``D_1`` may move in the lower half, of ``D_2``
in the upper half, and of ``D_3`` in either.

A step increases one coefficient by t and decreases another by t, so their sum is constant [Sansone et al., section
4.1]. The objective falls at the rate ``slope - curvature t``; where either coefficient crosses the middle of its box,
the rate drops by ``2 jump``, as the derivative of ``jump |sigma - c2/2|`` does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.types import Floats, Ints

STEPS, STOP = 0, 1  #: places among the counters of a descent: steps taken, and whether to stop
EXACT = 4.0 * float(np.finfo(np.float64).eps)  #: of its box: a coefficient that close to an end or the middle is there
DEPENDENT = 1e-14  #: of the diagonal: two examples whose difference is that short are the same


class WorkingSet(NamedTuple):
    """The q examples from which pairs are chosen, with their kernel matrix, f and coefficients."""

    K: Floats  #: (q, q) their kernel matrix
    F: Floats  #: (q,) f without intercept: the function cache
    sigma: Floats  #: (q,) coefficients
    top: Floats  #: (q,) upper bounds of these
    up: Floats  #: (q,) work: added to F if a coefficient grows
    down: Floats  #: (q,) work: added to F if it shrinks
    counters: Ints  #: (2,)


@compiled
def moved(sigma: float, t: float, top: float) -> float:
    """Return ``sigma + t``, rounded to an end or the middle of the coefficient's box if it is very close to one."""
    value, near = sigma + t, EXACT * top
    if abs(value - 0.5 * top) <= near:
        return 0.5 * top
    if value <= near:
        return 0.0
    return top if value >= top - near else value


@compiled
def step_of(slope: float, curvature: float, sigma_up: float, top_up: float, sigma_down: float, top_down: float,
            jump: float) -> float:  # fmt: skip
    """Return the step t with the least objective, if one coefficient of a pair grows and the other shrinks by t.

    The slope of the objective jumps where either coefficient reaches the middle of its box. With a curvature of 0, as
    for two duplicates, the step ends at a jump of the slope or at an end of a box.
    """
    limit = min(top_up - sigma_up, sigma_down)
    kink_up = 0.5 * top_up - sigma_up if sigma_up < 0.5 * top_up else np.inf
    kink_down = sigma_down - 0.5 * top_down if sigma_down > 0.5 * top_down else np.inf
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
def offset_up(sigma: float, top: float, jump: float) -> float:
    """Return the offset ``up``, which is added to F if the coefficient ``sigma`` grows."""
    if sigma >= top:
        return -np.inf
    return jump if sigma < 0.5 * top else -jump


@compiled
def offset_down(sigma: float, top: float, jump: float) -> float:
    """Return the offset ``down``, which is added to F if the coefficient ``sigma`` shrinks."""
    if sigma <= 0.0:
        return np.inf
    return jump if sigma <= 0.5 * top else -jump


@compiled
def write_offsets(sigma: Floats, top: Floats, jump: float, up: Floats, down: Floats) -> None:
    """Fill ``up`` and ``down`` (n,) for coefficients ``sigma`` (n,) in [0, ``top``]."""
    for k in range(sigma.size):
        up[k] = offset_up(sigma[k], top[k], jump)
        down[k] = offset_down(sigma[k], top[k], jump)


@compiled
def descend(w: WorkingSet, jump: float, tolerance: float, most: int) -> None:
    """Move violating pairs until no violation exceeds ``tolerance``, for at most ``most`` steps, or until interrupted.

    In each step the coefficient with the largest ``F + up`` grows. The coefficient that shrinks is the one with which
    the objective falls most, estimated without the jumps of the slope.
    """
    K, F, counters = w.K, w.F, w.counters
    write_offsets(w.sigma, w.top, jump, w.up, w.down)
    counters[STEPS] = 0
    i = _highest(F, w.up)
    while i >= 0 and counters[STEPS] < most and not is_stopped(counters, STOP):
        highest = F[i] + w.up[i]
        j, lowest = _partner(w, i, highest)
        if highest - lowest <= tolerance:
            return
        curvature = K[i, i] + K[j, j] - 2.0 * K[i, j]
        if curvature <= DEPENDENT * (K[i, i] + K[j, j]):
            curvature = 0.0
        slope = highest - (F[j] + w.down[j])
        t = step_of(slope, curvature, w.sigma[i], w.top[i], w.sigma[j], w.top[j], jump)
        before_i, before_j = w.sigma[i], w.sigma[j]
        w.sigma[i], w.sigma[j] = moved(before_i, t, w.top[i]), moved(before_j, -t, w.top[j])
        w.up[i], w.down[i] = offset_up(w.sigma[i], w.top[i], jump), offset_down(w.sigma[i], w.top[i], jump)
        w.up[j], w.down[j] = offset_up(w.sigma[j], w.top[j], jump), offset_down(w.sigma[j], w.top[j], jump)
        counters[STEPS] += 1
        i = _move(F, K[i], w.sigma[i] - before_i, K[j], w.sigma[j] - before_j, w.up)


@compiled
def _highest(F: Floats, up: Floats) -> int:
    """Return the index at which ``F + up`` is largest, or -1 if no coefficient can grow."""
    found, best = -1, -np.inf
    for k in range(F.size):
        if F[k] + up[k] > best:
            found, best = k, F[k] + up[k]
    return found


@compiled
def _partner(w: WorkingSet, i: int, highest: float) -> tuple[int, float]:
    """Return the index of the coefficient to shrink if that of ``i`` grows, and the least ``F + down``."""
    K, F, down = w.K, w.F, w.down
    row, own = K[i], K[i, i]
    found, best, lowest = i, 0.0, np.inf
    for k in range(F.size):
        value = F[k] + down[k]
        lowest = min(lowest, value)
        slope = highest - value
        if slope > 0.0:
            curvature = max(own + K[k, k] - 2.0 * row[k], DEPENDENT * own)
            if slope * slope > best * curvature:
                found, best = k, slope * slope / curvature
    return found, lowest


@compiled
def _move(F: Floats, row_i: Floats, d_i: float, row_j: Floats, d_j: float, up: Floats) -> int:
    """Update F for changes of two coefficients; return the index at which ``F + up`` is then largest."""
    found, best = -1, -np.inf
    for k in range(F.size):
        F[k] -= d_i * row_i[k] + d_j * row_j[k]
        if F[k] + up[k] > best:
            found, best = k, F[k] + up[k]
    return found


def working_set(K: Floats, F: Floats, sigma: Floats, top: Floats) -> WorkingSet:
    """Return a working set with new work arrays; ``descend`` changes its ``F`` and ``sigma`` (q,) in place."""
    return WorkingSet(K, F, sigma, top, np.empty(top.size), np.empty(top.size), np.zeros(2, np.int64))
