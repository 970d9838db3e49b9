"""The walk of a D-step: a path on which an example that reaches a cutoff switches to the other side at once.

The coefficients that the example's loss demands then move linearly to those of the other side, as for the examples that
began the D-step. The coefficients of all examples that switch reach their final values at the end of the walk. The
optimal objective of these losses is a concave function of the remaining distance, and falls from the start of the walk.
Where an example joins the switch, its loss is the same on both sides, so the objective keeps falling at least as fast.
Thus a cascade of switches is one walk instead of one walk for each example, and the objective still falls.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.direction import resolve
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.loop import walk
from livesvm.solvers.active_set.ratio_test import jump
from livesvm.solvers.active_set.reactivation import another_pass
from livesvm.solvers.active_set.recorder import CLIPPED, clip_to_bounds, is_at_cutoff, jump_stops
from livesvm.solvers.active_set.shrinking import count_speeds, follow_path
from livesvm.solvers.active_set.workspace import Walk, add_to_bound_rate, balanced, set_limits
from livesvm.solvers.homotopy.motion import set_motion_of
from livesvm.solvers.robust.loss_pieces import Split, place_levels
from livesvm.solvers.robust.ramp_losses import BELOW, BEYOND, WITHIN
from livesvm.solvers.robust.walk_setup import has_arrived
from livesvm.solvers.runtime.compile import compiled

LEAST_WAY = 1e-6  #: of a walk: with less left, an example at a cutoff switches after it


@compiled
def follow_over_cutoffs(w: Walk, p: Split) -> int:
    """Follow the path to its end like ``follow_path``, but switch each example that reaches a cutoff on the way."""
    at = w.at[0]
    if at.passes > 0 or at.events >= at.whole:
        return follow_path(w)
    if at.started == CLIPPED:
        at.started = 1
    else:
        clip_to_bounds(w, p.stops)
    at.stride_end = at.whole
    while at.events < at.whole:
        outcome = walk(w, None, p.stops)
        if outcome == Exit.STOPPED:
            cross(w, p)
        elif outcome == Exit.DONE:
            return Exit.DONE if has_arrived(w, p) or not another_pass(w) else follow_path(w)
        elif outcome != Exit.ITERATION:
            return outcome
        elif at.events < at.whole:
            count_speeds(w)
            if not balanced(w):
                if not jump(w):
                    return Exit.UNBALANCED
                if jump_stops(w, p.stops):
                    cross(w, p)
    for j in range(w.n):
        if is_at_cutoff(w, p.stops, j, -1) or is_at_cutoff(w, p.stops, j, 1):
            set_limits(w, j)
    return follow_path(w)


@compiled
def cross(w: Walk, p: Split) -> None:
    """Switch the bound example at a cutoff; by the end of the walk its loss changes to that of the cutoff's other side.

    No cutoff stops the example a second time; if it ends on the wrong side, it switches after the walk.
    """
    e, motion, tau, j = w.examples, w.motion, w.at[0].tau, w.at[0].switching
    w.at[0].switching = -1
    p.stops.low[j], p.stops.high[j] = -np.inf, np.inf
    k = p.now[0].switched
    if tau < LEAST_WAY or w.row_of[j] < 0 or k == p.indices.size:
        set_limits(w, j)
        return
    f = e.f[j]
    outer = BELOW if abs(f - p.cutoffs.low[j]) < abs(f - p.cutoffs.high[j]) else BEYOND
    p.sides[j] = outer if p.sides[j] == WITHIN else WITHIN
    p.indices[k], p.to[k], p.wrong[j] = j, p.sides[j], True
    p.now[0].switched = k + 1
    place_levels(w, p, j, p.now[0].theta)
    before = motion.v[j]
    set_motion_of(e, motion, j)
    for q in range(e.dkinks.shape[1]):
        e.dkinks[j, q] /= tau
    for q in range(e.dlevels.shape[1]):
        e.dlevels[j, q] /= tau
    motion.v[j] /= tau
    w.at[0].sum_v += motion.v[j] - before
    add_to_bound_rate(w, j, motion.v[j] - before)
    set_limits(w, j)
    resolve(w)
