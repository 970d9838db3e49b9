"""The compiled D-step, repeated until no example is on the wrong side of a cutoff.

Every example on the wrong side changes sides, and a path leads to the new optimum.

An outlier path makes dozens of D-steps of a few events each. So everything around the events is compiled too, and a
whole run of steps is one call. A round costs little more than its events: quantities that do not change along a path
are computed once, and f is not recomputed but tracked. The f of free examples is recomputed every hundred events. The
caller recomputes the f of all examples from time to time and at the end. Arrays are indexed by slot; an empty slot has
no loss and no cutoffs, and counts as an example within its cutoffs.
"""

from __future__ import annotations

from livesvm.solvers.active_set.degeneracy import center
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.shrinking import WHOLE_WORK, follow_path
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.motion import set_motion_of
from livesvm.solvers.homotopy.optimality import EPS
from livesvm.solvers.homotopy.solve import judge, land, start
from livesvm.solvers.linalg.products import add_scaled
from livesvm.solvers.robust.crossing import follow_over_cutoffs
from livesvm.solvers.robust.loss_pieces import RoundStage, Split, choose_loose, choose_misplaced, look, place_levels
from livesvm.solvers.robust.walk_setup import place_stops_of_round, rest, set_out
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Bools

ROUNDING = 1e-9  #: a rise of the objective by this share of itself is rounding
MOST_ROUNDS = 500  #: switches in a row after which a D-step is given up
SINCE_EXACT = 100  #: events after which a round ends with an audit
FEW = 64  #: events that a round may have without being walked in outer iterations
MANY_SWITCHES = 16  #: if more than this many switch at once, the walk is long and ignores cutoffs from its start


@compiled
def take_sides(w: Walk, p: Split, crossing: bool) -> int:
    """Switch the ``wrong`` examples, follow the path, and repeat until no example is wrong; return an ``Exit``.

    With ``crossing`` an example that reaches a cutoff on a walk switches at once, otherwise at the end of the walk.
    DONE: no example is wrong. NEED_ROWS: the caller must cache the kernel rows of the moving examples, or compute the
    rate of f and set the next stage. NEED_ROW, FACTOR_FULL: see ``follow_path``. SWITCHES_FULL: the caller must enlarge
    the record of switches. INEXACT, STALLED and other exits of a walk: the caller must bring the state to its optimum
    and set the next stage. ROSE, ENDLESS: the D-step failed.
    """
    now = p.now[0]
    while True:
        if now.stage == RoundStage.CHOSEN:
            many = count(p.wrong)
            if many == 0:
                if not choose_loose(w, p):
                    return Exit.DONE
                many = 1
            if now.switched + many > p.indices.size:
                return Exit.SWITCHES_FULL
            if now.rounds >= MOST_ROUNDS:
                return Exit.ENDLESS
            switch(w, p)
            now.rounds += 1
            if now.theta == 1.0:
                return Exit.DONE  # both sides have the same slope: nothing moves, not even b if no example is free
            rest(w)
            for i in range(now.switched_before, now.switched):
                set_motion_of(w.examples, w.motion, p.indices[i])
            now.stage = RoundStage.SET_OUT
        if now.stage == RoundStage.SET_OUT:
            if not set_bound_rate(w, p):
                return Exit.NEED_ROWS
            now.stage = RoundStage.DRIVEN
        if now.stage == RoundStage.DRIVEN:
            set_out_for(w, p)
            if crossing:
                if now.switched - now.switched_before > MANY_SWITCHES:
                    w.at[0].whole = 0
                place_stops_of_round(w, p)
            set_out(w, p)
            now.stage = RoundStage.WALKING
        if now.stage == RoundStage.WALKING:
            outcome = follow_over_cutoffs(w, p) if crossing else follow_path(w)
            if outcome != Exit.DONE:
                return outcome
            landed_well = landed(w, p)
            note_events(w, p)
            if not landed_well:
                return Exit.INEXACT
            now.stage = RoundStage.ARRIVED
        before = now.objective
        look(w, p)
        if now.objective > before + ROUNDING * abs(before) and now.objective > before + roundings(w):
            return Exit.ROSE
        choose_misplaced(p)
        now.stage = RoundStage.CHOSEN


@compiled
def roundings(w: Walk) -> float:
    """Return by how much rounding errors of f can change the objective."""
    size, mass = 0.0, 0.0
    for j in range(w.n):
        beta = abs(w.examples.beta[j])
        size += beta
        mass += beta * w.examples.diagonal[j]
    return EPS * size * mass


@compiled
def count(flags: Bools) -> int:
    """Return how many flags are set."""
    total = 0
    for j in range(flags.size):
        total += flags[j]
    return total


@compiled
def switch(w: Walk, p: Split) -> None:
    """Move the wrong examples to their other side; the state is then not optimal."""
    first, last = p.now[0].switched, p.now[0].switched
    for j in range(w.n):
        if p.wrong[j]:
            p.indices[last] = j
            last += 1
    for i in range(first, last):
        j = p.indices[i]
        p.sides[j] = p.to[i] = p.proper[j]
        place_levels(w, p, j, p.now[0].theta)
    p.now[0].switched_before, p.now[0].switched = first, last


@compiled
def set_bound_rate(w: Walk, p: Split) -> bool:
    """Compute the rate at which the moving betas, which belong to examples that have switched, change f.

    Returns False if the kernel row of an example that has switched is missing.
    """
    motion, first, last = w.motion, p.now[0].switched_before, p.now[0].switched
    for i in range(first, last):
        if motion.v[p.indices[i]] != 0.0 and w.row_of[p.indices[i]] < 0:
            return False
    for j in range(w.n):
        motion.bound_rate[j] = 0.0
    for i in range(first, last):
        if motion.v[p.indices[i]] != 0.0:
            add_scaled(w.rows[w.row_of[p.indices[i]]], motion.v[p.indices[i]], motion.bound_rate, w.n)
    return True


@compiled
def set_out_for(w: Walk, p: Split) -> None:
    """Initialize a walk; the units of the losses are measured only before the first walk."""
    p.work.now[0].whole = FEW if w.n * w.factor.size[1] < WHOLE_WORK else 0
    start(w, p.work)
    p.work.now[0].is_measured = 1  # later changes of the losses hardly change their units


@compiled
def note_events(w: Walk, p: Split) -> None:
    """Add the number of events of a walk to the counts."""
    at, now = w.at[0], p.now[0]
    now.all_events += at.events
    now.since_refresh += at.events
    now.since_audit += at.events
    at.events = 0


@compiled
def landed(w: Walk, p: Split) -> bool:
    """End a walk, and check the state if it may be inexact; return False if the state is not exact.

    A walk that let no example pass a limit and moved none to an end leaves f and beta in agreement, except for
    rounding. After such walks the state is checked only from time to time.
    """
    at, now = w.at[0], p.now[0]
    is_due = now.since_audit + at.events >= SINCE_EXACT
    if land(w, p.work) or is_due or at.passes + at.through + at.spreads > 0:
        return exact(w, p)
    if w.factor.size[1] == 0 and w.intercept:
        at.b += center(w)
    return True


@compiled
def exact(w: Walk, p: Split) -> bool:
    """Return whether the state is optimal; False also means that the check is too long for code without interrupts."""
    p.now[0].since_audit = -w.at[0].events
    outcome: bool = judge(w, p.work) == Exit.DONE
    return outcome
