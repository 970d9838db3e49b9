"""Handling of degenerate states: spreading tied limits, moving betas to nearby bounds, and rebuilding the factor."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.direction import resolve
from livesvm.solvers.active_set.workspace import Walk, add_to_bound_rate, set_limits, set_velocity
from livesvm.solvers.linalg.cholesky import Factor, append, delete, schur
from livesvm.solvers.problem.state import Examples, is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints


@compiled
def leave_ends(e: Examples, fac: Factor, n: int, intercept: bool, snap: float, dust: float, rounding: float) -> bool:
    """Make free examples bound if their beta is within ``dust`` of an end of their box, or beyond it.

    Also set the beta of a bound example to the level of its piece if the two differ by at most ``snap``. Returns
    whether a free beta moved by more than ``rounding``, so that f must be recomputed. If only one example is free,
    ``dust`` and ``rounding`` are raised, because its beta has the rounding error of the sum of all other betas.
    """
    moved = False
    if intercept and fac.size[1] == 1:
        rounding *= n
        dust = max(dust, rounding)
    for j in range(n):
        q = e.segment[j] // 2
        if not is_free(e.segment[j]):
            if abs(e.beta[j] - e.levels[j, q]) <= snap:
                e.beta[j] = e.levels[j, q]
            continue
        high, low, beta = e.levels[j, q], e.levels[j, q + 1], e.beta[j]
        piece = q if beta >= high - dust else q + 1
        if low + dust < beta < high - dust:
            continue
        delete(fac, j)
        e.segment[j] = 2 * piece
        off = abs(beta - e.levels[j, piece])
        if off <= dust:
            e.beta[j] = e.levels[j, piece]
            moved = moved or off > rounding
    return moved


@compiled
def center(w: Walk) -> float:
    """Set b to the middle of the interval that is optimal when no example is free; return the change of b."""
    e = w.examples
    low, high = -np.inf, np.inf
    for j in range(w.n):
        q = e.segment[j] // 2
        if q > 0:
            low = max(low, e.kinks[j, q - 1] - e.f[j])
        if q < e.n_kinks[j]:
            high = min(high, e.kinks[j, q] - e.f[j])
    shift = 0.0
    if low > -np.inf and high < np.inf:
        shift = 0.5 * (low + high)
    elif low > -np.inf:
        shift = low
    elif high < np.inf:
        shift = high
    for j in range(w.n):
        e.f[j] += shift
    return shift


@compiled
def perturb(w: Walk, random: Floats, size_f: float, size_beta: float) -> None:
    """Move the limits of all examples outward by random amounts that vanish at the end of the path, to break ties.

    With the moved limits, no two examples reach a limit at the same time, every step is positive, and each set of free
    examples occurs at most once (rule 6).
    """
    e = w.examples
    tau = w.at[0].tau
    for j in range(w.n):
        q = e.segment[j] // 2
        if is_free(e.segment[j]):
            e.dlevels[j, q] -= (0.5 + random[j, 0]) * size_beta / tau
            e.dlevels[j, q + 1] += (0.5 + random[j, 1]) * size_beta / tau
        else:
            if q < e.n_kinks[j]:
                e.dkinks[j, q] -= (0.5 + random[j, 0]) * size_f / tau
            if q > 0:
                e.dkinks[j, q - 1] += (0.5 + random[j, 1]) * size_f / tau
        set_limits(w, j)


@compiled
def send_dependent(w: Walk, free: Ints) -> None:
    """Make each example of ``free`` that is not in the factor bound; its beta moves to the nearer end of its box."""
    e = w.examples
    for slot in free:
        if w.factor.position[slot] >= 0:
            continue
        q = e.segment[slot] // 2
        high, low = w.motion.high[slot], w.motion.low[slot]
        e.segment[slot] = 2 * q if high - e.beta[slot] < e.beta[slot] - low else 2 * q + 2
        w.motion.dbeta[slot] = 0.0
        w.motion.v[slot] = 0.0
        set_limits(w, slot)
        add_to_bound_rate(w, slot, set_velocity(w, slot))
    resolve(w)


@compiled
def clear(fac: Factor) -> None:
    """Remove all examples from a factor."""
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            fac.position[fac.slot[k]] = -1
    fac.size[0] = 0
    fac.size[1] = 0


@compiled
def extend(
    fac: Factor, rows: Floats, row_of: Ints, free: Ints, diagonal: Floats, kappa: float, dependent: float
) -> None:
    """Append to a factor each example of ``free`` with a squared pivot above ``dependent`` times the diagonal.

    If ``dependent`` is 0, every example is appended, and a pivot spoiled by rounding is replaced by the least usable
    pivot. The forward-solved right-hand sides of the factor are not computed.
    """
    for slot in free:
        n = fac.size[0]
        for k in range(n):
            fac.column[k] = rows[row_of[slot], fac.slot[k]] + kappa
        own = diagonal[slot] + kappa
        pivot2 = max(schur(fac, fac.column, own), 1e-15 * own)
        if pivot2 <= dependent * own:
            continue
        append(fac, fac.column, pivot2, slot, 0.0)
