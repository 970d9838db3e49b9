"""The motion of coefficients, kinks and levels that removes each violation of optimality by the end of the path."""

from __future__ import annotations

from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.linalg.products import add_rows
from livesvm.solvers.problem.state import Examples, Motion, is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

SLOTS, ROWS = range(2)  #: rows of ``Work.moving``: of the examples whose betas move


@compiled
def set_bound_rate(
    motion: Motion, fac: Factor, rows: Floats, row_of: Ints, used: Ints, clock: int, n: int, moving: Ints, m: int
) -> bool:
    """Compute the rate of f as ``m`` betas move; return False if a kernel row of a moving or free example is missing.

    The cached rows that it reads are marked as used at ``clock``.
    """
    for i in range(m):
        slot = moving[SLOTS, i]
        row = row_of[slot]
        if row < 0:
            return False
        used[row] = clock
        moving[ROWS, i] = row
        motion.work[i] = motion.v[slot]
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            row = row_of[fac.slot[k]]
            if row < 0:
                return False
            used[row] = clock
    motion.bound_rate[:n] = 0.0
    add_rows(rows, moving[ROWS, :m], motion.work[:m], motion.bound_rate[:n])
    return True


@compiled
def set_motion(e: Examples, motion: Motion, n: int, moving: Ints) -> int:
    """Give each example that violates optimality the motion that removes the violation; all others rest.

    Fills ``moving`` with the examples that have a moving beta, and returns their number.
    """
    e.dkinks[:n] = 0.0
    e.dlevels[:n] = 0.0
    motion.v[:n] = 0.0
    motion.dbeta[:n] = 0.0
    m = 0
    for j in range(n):
        if is_off(e, j):
            set_motion_of(e, motion, j)
            if motion.v[j] != 0.0:
                moving[m] = j
                m += 1
    return m


@compiled
def is_off(e: Examples, j: int) -> bool:
    """Say whether example ``j`` is free, or its beta is not at its level, or its f is beyond a kink."""
    off: bool = is_free(e.segment[j]) or e.beta[j] != e.levels[j, e.segment[j] // 2]
    for k in range(e.n_kinks[j]):
        off = off or is_beyond(e, j, k)
    return off


@compiled
def is_beyond(e: Examples, j: int, k: int) -> bool:
    """Say whether the f of a bound example is on the wrong side of its kink ``k``."""
    beyond: bool = e.f[j] > e.kinks[j, k] if k >= e.segment[j] // 2 else e.f[j] < e.kinks[j, k]
    return beyond


@compiled
def set_motion_of(e: Examples, motion: Motion, j: int) -> None:
    """Set the rates of beta, kinks and levels that remove the violation of example ``j`` by the end of the path."""
    q = e.segment[j] // 2
    p = e.n_kinks[j]
    e.dkinks[j, :] = 0.0
    e.dlevels[j, :] = 0.0
    motion.v[j] = 0.0
    motion.dbeta[j] = 0.0
    beta = e.beta[j]
    if is_free(e.segment[j]):
        # A box that does not contain beta starts widened to it, and shrinks along the path.
        e.dlevels[j, q] = min(0.0, e.levels[j, q] - beta)
        e.dlevels[j, q + 1] = max(0.0, e.levels[j, q + 1] - beta)
        return
    for k in range(p):
        if is_beyond(e, j, k):
            e.dkinks[j, k] = e.kinks[j, k] - e.f[j]
    gap = e.levels[j, q] - beta
    motion.v[j] = gap
    if gap == 0.0 or p == 0:
        return
    below = q == p or beta >= e.levels[j, q + 1]
    above = q == 0 or beta <= e.levels[j, q - 1]
    in_upper_box = q == p or (below and beta <= e.levels[j, q])
    in_lower_box = q == 0 or (above and beta >= e.levels[j, q])
    if in_upper_box and in_lower_box:
        return  # a pin: its box does not move, and it goes straight to its level [Karasuyama & Takeuchi, eq. 4]
    if below and above:
        e.dlevels[j, q] = gap
    else:
        for k in range(p + 1):
            e.dlevels[j, k] = e.levels[j, k] - beta
