"""The step: how far the state can move along the direction until an example reaches a limit, and the move itself."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.workspace import BEYOND, SPANNED, Walk
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

MANY_FREE = 100  #: free examples from which on one step may span several events, as each direction is much work
AT_ONCE = 8  #: events that a step spans at most
SPAN = 0.2  #: largest share of the rest of the path that such a step takes
LEAST_LEFT = 0.01  #: least share of the path that must be left for such a step
UNLIKELY = 0.2  #: an example whose direction takes it less than this part of its way to a limit may be left out


@compiled
def longest_step(w: Walk) -> tuple[float, int, int]:
    """Return the step to the next event, the example at it, and the side of the limit there (-1 low, +1 high).

    The example is -1 if the path, or the part of it for this outer iteration, ends first.

    There are two passes [Harris]: the first finds the longest step with every limit relaxed by its tolerance; the
    second finds, among the examples that would pass their exact limit within that step, the one with the highest speed.
    """
    motion = w.motion
    rest = w.at[0].tau - w.at[0].last
    frequencies(w, motion.work)
    highest = largest(motion.work, w.n, 0.0)
    if highest * rest <= 1.0:
        return rest, -1, 0
    bound = 1.0 / highest
    best = 0.0
    switching, side = -1, 0
    step = rest
    for j in range(w.n):
        # Half of `highest` suffices. The first example at its relaxed limit moves at `highest` tolerances or faster;
        # a preferred one is faster still, so it takes at most `bound` for its gap, and again for its tolerance.
        if motion.work[j] < 0.49 * highest:
            continue
        x, dx, tol = coordinate(w, j)
        up, gap = dx - motion.dhigh[j], motion.high[j] - x
        if gap <= bound * up and up > best * tol:
            best, switching, side = up / tol, j, 1
            step = gap / up
        down, gap = motion.dlow[j] - dx, x - motion.low[j]
        if gap <= bound * down and down > best * tol:
            best, switching, side = down / tol, j, -1
            step = gap / down
    return min(max(step, 0.0), rest), switching, side


@compiled
def largest(x: Floats, n: int, least: float) -> float:
    """Return the largest of ``least`` and the first ``n`` numbers, by four independent running maxima."""
    m0, m1, m2, m3 = least, least, least, least
    whole = n - n % 4
    for j in range(0, whole, 4):
        m0, m1, m2, m3 = max(m0, x[j]), max(m1, x[j + 1]), max(m2, x[j + 2]), max(m3, x[j + 3])
    for j in range(whole, n):
        m0 = max(m0, x[j])
    return max(max(m0, m1), max(m2, m3))


@compiled
def coordinate(w: Walk, j: int) -> tuple[float, float, float]:
    """Return the coordinate that has limits (beta of a free example, f of a bound one), its rate, and its tolerance."""
    if is_free(w.examples.segment[j]):
        return w.examples.beta[j], w.motion.dbeta[j], w.tol[0].beta
    return w.examples.f[j], w.motion.df[j], w.tol[0].f


@compiled
def frequencies(w: Walk, out: Floats) -> None:
    """Compute, for each example, 1 over the step at which it reaches the relaxed limit ahead of it.

    Loops here and below have no branches, as vector instructions require. The nearer of the two limits is chosen
    without a division. The distance from a missing limit is infinite, and an example at rest has the value 0.
    """
    e, motion = w.examples, w.motion
    segment, f, beta, df, dbeta = e.segment, e.f, e.beta, motion.df, motion.dbeta
    low, high, dlow, dhigh = motion.low, motion.high, motion.dlow, motion.dhigh
    tol_f, tol_beta = w.tol[0].f, w.tol[0].beta
    for j in range(w.n):
        free = is_free(segment[j])
        f_j, beta_j, df_j, dbeta_j = f[j], beta[j], df[j], dbeta[j]
        x = beta_j if free else f_j
        dx = dbeta_j if free else df_j
        tol = tol_beta if free else tol_f
        up, way_up = dx - dhigh[j], high[j] - x + tol
        down, way_down = dlow[j] - dx, x - low[j] + tol
        rises = up * way_down > down * way_up
        out[j] = (up if rises else down) / (way_up if rises else way_down)


@compiled
def find_likely(w: Walk, found: Ints) -> int:
    """Fill ``found`` with examples, except ``at.switching``, that may have an event soon and have no cached kernel row.

    Returns the number of examples found; ``motion.work`` holds 1 over the step after which each example has its event.
    """
    often, m = w.motion.work, 0
    frequencies(w, often)
    for j in range(w.n):
        is_missing = w.row_of[j] < 0 and w.factor.position[j] < 0 and j != w.at[0].switching
        if is_missing and often[j] * w.at[0].tau > UNLIKELY:
            found[m] = j
            m += 1
    return m


@compiled
def advance(w: Walk, step: float) -> None:
    """Move every example by ``step``; a limit that an example has passed within the tolerance moves to the example."""
    e, motion = w.examples, w.motion
    segment, f, beta, df, dbeta, v = e.segment, e.f, e.beta, motion.df, motion.dbeta, motion.v
    low, high, dlow, dhigh = motion.low, motion.high, motion.dlow, motion.dhigh
    for j in range(w.n):
        f[j] += step * df[j]
    for j in range(w.n):
        beta_j, v_j, dbeta_j = beta[j], v[j], dbeta[j]
        beta[j] = beta_j + step * (dbeta_j if is_free(segment[j]) else v_j)
    for j in range(w.n):
        f_j, beta_j = f[j], beta[j]
        x = beta_j if is_free(segment[j]) else f_j
        limit = low[j] + step * dlow[j]
        low[j] = x if x < limit else limit
    for j in range(w.n):
        f_j, beta_j = f[j], beta[j]
        x = beta_j if is_free(segment[j]) else f_j
        limit = high[j] + step * dhigh[j]
        high[j] = x if x > limit else limit
    pass_time(w, step)


@compiled
def pass_time(w: Walk, step: float) -> None:
    """Move b and tau by a step."""
    w.at[0].b += step * w.at[0].db
    w.at[0].tau = max(0.0, w.at[0].tau - step)


@compiled
def step_over_several(w: Walk, first: float, switching: int) -> bool:
    """Take one step over several events, the first of them at ``first``; return whether it was taken.

    Limits that examples pass stay where they are, so that ``find_beyond`` finds the examples beyond them (rule 9).
    """
    at, e, motion, often = w.at[0], w.examples, w.motion, w.motion.work
    few = w.factor.size[1] < MANY_FREE or switching < 0 or not first > w.tol[0].zero_step
    has_copies = at.exchanges > 0  # copies of an example leave its kink together
    if at.alone == 1 or few or has_copies or at.passes > 0 or at.tau < LEAST_LEFT:
        return False
    step, count = min(SPAN * at.tau, at.tau - at.last), w.n
    most = min(AT_ONCE, at.stride_end - at.events)
    while step > first and count > most:
        count = 0
        for j in range(w.n):
            count += often[j] * step > 1.0
        step = step if count <= most else 0.7 * step
    if count < 2 or not step > first:
        return False
    for j in range(w.n):
        motion.low[j] += step * motion.dlow[j]
        motion.high[j] += step * motion.dhigh[j]
        e.f[j] += step * motion.df[j]
        e.beta[j] += step * (motion.dbeta[j] if is_free(e.segment[j]) else motion.v[j])
    pass_time(w, step)
    at.several, at.zero_steps = BEYOND, 0
    return True


@compiled
def find_beyond(w: Walk) -> bool:
    """Set ``at.switching`` to an example that a step over several events took beyond its limit; False if there is none.

    If an example is beyond its limit by less than the tolerance, the limit moves to the example instead.
    """
    motion = w.motion
    for j in range(w.n):
        x, _, tol = coordinate(w, j)
        if x > motion.high[j] + tol or x < motion.low[j] - tol:
            w.at[0].switching, w.at[0].side = j, 1 if x > motion.high[j] else -1
            return True
        motion.low[j], motion.high[j] = min(motion.low[j], x), max(motion.high[j], x)
    w.at[0].several = SPANNED
    return False


@compiled
def jump(w: Walk) -> bool:
    """Move b until an example reaches a kink, when no example is free and the betas are out of balance (rule 4)."""
    e, motion = w.examples, w.motion
    up = w.at[0].sum_rate - w.at[0].sum_v < 0.0  # an example's beta must fall, so f must rise to a kink
    least = np.inf
    switching = -1
    for j in range(w.n):
        distance = motion.high[j] - e.f[j] if up else e.f[j] - motion.low[j]
        if distance < least:
            least, switching = distance, j
    if switching < 0:
        return False
    least = max(least, 0.0)
    shift = least if up else -least
    w.at[0].b += shift
    for j in range(w.n):
        e.f[j] += shift
    w.at[0].switching, w.at[0].side = switching, 1 if up else -1
    return True
