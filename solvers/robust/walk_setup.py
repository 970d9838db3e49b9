"""Loops over all examples before and after a walk of an outlier path, compiled to vector instructions.

An outlier path has dozens of walks of a few events each, so work that is done once for each walk costs as much as the
events. On a walk only the losses of examples that have switched move. The limits of examples that have not switched do
not depend on rates: a bound example is limited by the kinks next to its f or by its cutoffs, whichever are nearer.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.direction import resolve
from livesvm.solvers.active_set.ratio_test import largest
from livesvm.solvers.active_set.reactivation import EVENTS_EACH, EVENTS_EACH_OF_LARGE, LARGE, LEAST_PACE, is_moving
from livesvm.solvers.active_set.recorder import CLIPPED
from livesvm.solvers.active_set.workspace import Walk, set_limits
from livesvm.solvers.problem.piecewise_linear import FIRST, LAST
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.robust.loss_pieces import FIRST_LIMIT, SECOND_LIMIT, Split
from livesvm.solvers.robust.ramp_losses import BELOW, BEYOND
from livesvm.solvers.runtime.compile import compiled

# Places on the staircase behind the first and the last kink
MIDDLE_PIECE, LAST_PIECE = 2 * (FIRST + 1), 2 * (LAST + 1)


@compiled
def rest(w: Walk) -> None:
    """Set the rates of all examples' losses and coefficients to 0."""
    e, motion = w.examples, w.motion
    for j in range(w.n):
        for q in range(e.dkinks.shape[1]):
            e.dkinks[j, q] = 0.0
    for j in range(w.n):
        for q in range(e.dlevels.shape[1]):
            e.dlevels[j, q] = 0.0
    for j in range(w.n):
        motion.v[j] = 0.0
        motion.dbeta[j] = 0.0


@compiled
def place_stops(p: Split) -> None:
    """Make a walk stop at the cutoffs of all examples."""
    sides, low, high, stop_low, stop_high = p.sides, p.cutoffs.low, p.cutoffs.high, p.stops.low, p.stops.high
    for j in range(sides.size):
        low_j, high_j = low[j], high[j]
        inner = high_j if sides[j] == BEYOND else low_j
        stop_low[j] = -np.inf if sides[j] == BELOW else inner
    for j in range(sides.size):
        low_j, high_j = low[j], high[j]
        inner = low_j if sides[j] == BELOW else high_j
        stop_high[j] = np.inf if sides[j] == BEYOND else inner


@compiled
def place_stops_of_round(w: Walk, p: Split) -> None:
    """Make a walk stop at the cutoffs of examples that neither switch nor are at a cutoff already.

    A walk that starts with outer iterations ignores cutoffs.
    """
    stop_low, stop_high, wrong, at_cutoff = p.stops.low, p.stops.high, p.wrong, p.at_cutoff
    place_stops(p)
    in_iterations = w.at[0].whole == 0
    for j in range(p.sides.size):
        low, high = stop_low[j], stop_high[j]
        passes = wrong[j] or at_cutoff[j] or in_iterations
        stop_low[j] = -np.inf if passes else low
        stop_high[j] = np.inf if passes else high


@compiled
def set_out_among_cutoffs(w: Walk, p: Split) -> None:
    """Set every example's limits at the start of a walk on which no bound example's kinks move.

    Bound examples are also limited by their cutoffs.
    """
    motion, slack, stop_low, stop_high = w.motion, p.stops.slack, p.stops.low, p.stops.high
    segment, f, first_kink, second_kink = (
        w.examples.segment,
        w.examples.f,
        p.tables[FIRST_LIMIT],
        p.tables[SECOND_LIMIT],
    )
    low, high, dlow, dhigh = motion.low, motion.high, motion.dlow, motion.dhigh
    for j in range(w.n):
        place, f_j, first, second = segment[j], f[j], first_kink[j], second_kink[j]
        kink = first if place < LAST_PIECE else second
        kink = kink if place >= MIDDLE_PIECE else -np.inf
        cutoff = stop_low[j] - slack
        near = kink if kink > cutoff else cutoff
        low[j] = near if near < f_j else f_j
    for j in range(w.n):
        place, f_j, first, second = segment[j], f[j], first_kink[j], second_kink[j]
        kink = first if place < MIDDLE_PIECE else second
        kink = kink if place < LAST_PIECE else np.inf
        cutoff = stop_high[j] + slack
        near = kink if kink < cutoff else cutoff
        high[j] = near if near > f_j else f_j
    for j in range(w.n):
        dlow[j] = 0.0
        dhigh[j] = 0.0
    for k in range(w.factor.size[0]):
        if w.factor.slot[k] >= 0:
            set_limits(w, w.factor.slot[k])
    w.at[0].started = CLIPPED


@compiled
def set_out(w: Walk, p: Split) -> None:
    """Start the walk of a round as ``reactivation.start`` does; only losses of examples just switched move."""
    set_out_among_cutoffs(w, p)
    moving = 0
    for i in range(p.now[0].switched_before, p.now[0].switched):
        set_limits(w, p.indices[i])
        moving += is_moving(w, p.indices[i])
    each = EVENTS_EACH if w.n <= LARGE else EVENTS_EACH_OF_LARGE
    w.at[0].pace, w.at[0].member_safety = max(LEAST_PACE, 1.0 / (each * max(moving, 1))), 1.0
    resolve(w)


@compiled
def has_arrived(w: Walk, p: Split) -> bool:
    """Say whether every example is within its limits at the end of a walk, so that no other pass is needed."""
    segment, f, beta, beyond = w.examples.segment, w.examples.f, w.examples.beta, w.motion.work
    first_kink, second_kink = p.tables[FIRST_LIMIT], p.tables[SECOND_LIMIT]
    for j in range(w.n):
        place, f_j, first, second = segment[j], f[j], first_kink[j], second_kink[j]
        next_one, last_one = first if place < MIDDLE_PIECE else second, first if place < LAST_PIECE else second
        above = f_j - next_one if place < LAST_PIECE else -np.inf
        below = last_one - f_j if place >= MIDDLE_PIECE else -np.inf
        further = above if above > below else below
        beyond[j] = further if not is_free(place) else -np.inf
    if largest(beyond, w.n, 0.0) > w.tol[0].f:
        return False
    if not w.intercept or w.factor.size[0] == 0:
        return True
    total = 0.0
    for j in range(w.n):
        total += beta[j]
    balanced: bool = abs(w.at[0].sum_end - total) <= w.tol[0].balance
    return balanced


@compiled
def put_on_levels(w: Walk, snap: float) -> None:
    """Set each bound beta that has moved and is within ``snap`` of its level to this level."""
    e, v = w.examples, w.motion.v
    for j in range(w.n):
        if v[j] != 0.0 and not is_free(e.segment[j]):
            level = e.levels[j, e.segment[j] // 2]
            if abs(e.beta[j] - level) <= snap:
                e.beta[j] = level
