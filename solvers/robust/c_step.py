"""The compiled D-step: who is on the wrong side of a wall switches, the path is followed, until nobody is.

A path makes dozens of such steps of a few events each, so that everything around the events is compiled too, and a
whole run of steps is one call. A round costs little more than its events: what does not change along a path is
computed once, and what f is, is taken from what is tracked. The f of free examples is computed afresh every hundred
events, everybody's by the caller now and then, and at the end. All is by slot: who is not in the window has no loss, no
walls, and stays within.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.active_set.degeneracy import center, leave_ends
from solvers.active_set.shrinking import WHOLE_WORK, follow_path
from solvers.active_set.workspace import (
    BUDGET,
    CANCEL,
    DONE,
    EVENTS,
    LAPS,
    N_COUNTERS,
    RHO,
    SUM_RATE,
    SUM_V,
    THROUGH,
    WHO,
    WHOLE,
    B,
    Walk,
)
from solvers.active_set.workspace import Tolerances as Slack
from solvers.homotopy.optimality import gap_of
from solvers.homotopy.run import DEFAULT, EPS
from solvers.homotopy.target import set_motion_of
from solvers.robust.crossing import follow_over_walls
from solvers.robust.passes import is_at_an_end, place_stops_of_round, put_on_levels, rest, set_out
from solvers.robust.sides import (
    ALL_EVENTS,
    DIAGONAL,
    KINK,
    LEVEL,
    OBJECTIVE,
    ROUNDS,
    SINCE_AUDIT,
    SINCE_REFRESH,
    SPREADS,
    STAGE,
    SWITCHED,
    SWITCHED_BEFORE,
    THETA,
    TOL_BALANCE,
    TOL_F,
    TOTAL,
    Split,
    choose_loose,
    choose_misplaced,
    look,
    place_levels,
)
from solvers.runtime.compile import compiled, inlined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-9  #: a rise of the objective by this share of itself is rounding
MOST_ROUNDS = 500  #: switches in a row after which a D-step is given up
SINCE_EXACT = 100  #: events after which a round ends with an audit
FEW = 64  #: events that a round may have without being walked in strides
CROWD = 16  #: when more than so many switch at once, the walk is long and heeds no walls from its start

# Exits, beyond those of solvers.active_set.workspace and solvers.homotopy.recorder
NEED_ROWS, SWITCHES_FULL, INEXACT, ROSE, ENDLESS = range(20, 25)

# Stages of a D-step, and of a C-step
AT_REST, CHOSEN, SET_OUT, DRIVEN, WALKING, ARRIVED = range(6)
LEAVING, LEFT, TRACKING, STOPPING, SWITCHING = range(6, 11)

_RATIO_F, _RATIO_BETA, _DEPENDENT = DEFAULT.ratio_f, DEFAULT.ratio_beta, DEFAULT.dependent
_DUST, _GOAL = DEFAULT.dust, DEFAULT.goal
SNAP = 1e-13  #: of a level: a bound beta this close to its own is on it


@compiled
def take_sides(w: Walk, p: Split, crossing: bool) -> int:
    """Let who is ``wrong`` switch, follow, and go on with who is wrong then; DONE, or what is needed.

    With ``crossing`` who comes to a wall on the way switches there, otherwise at the end of it.
    NEED_ROWS: kernel rows of who moves, or the drive itself, and then the next stage. NEED_ROW, NEED_ROOM: see
    ``follow_path``. SWITCHES_FULL: room to write down. INEXACT, STALLED and the other exits of a walk: the state must
    be brought to its optimum by other means, and then comes the next stage. ROSE, ENDLESS: the D-step has failed.
    """
    counts, numbers = p.counts, p.numbers
    while True:
        if counts[STAGE] == CHOSEN:
            many = count(p.wrong)
            if many == 0:
                if not choose_loose(w, p):
                    return DONE
                many = 1
            if counts[SWITCHED] + many > p.who.size:
                return SWITCHES_FULL
            if counts[ROUNDS] >= MOST_ROUNDS:
                return ENDLESS
            switch(w, p)
            counts[ROUNDS] += 1
            if numbers[THETA] == 1.0:
                return DONE  # both sides are the same still: nothing moves, not even b where nobody is free
            send_off(w, p)
            counts[STAGE] = SET_OUT
        if counts[STAGE] == SET_OUT:
            if not drive(w, p):
                return NEED_ROWS
            counts[STAGE] = DRIVEN
        if counts[STAGE] == DRIVEN:
            set_clock(w, p, 1.0)
            if crossing:
                if counts[SWITCHED] - counts[SWITCHED_BEFORE] > CROWD:
                    w.counters[WHOLE] = 0
                place_stops_of_round(w, p)
            set_out(w, p)
            counts[STAGE] = WALKING
        if counts[STAGE] == WALKING:
            walk = within(w, p)
            outcome = follow_over_walls(walk, p) if crossing else follow_path(walk)
            if outcome != DONE:
                return outcome
            landed_well = landed(w, p)
            note_events(w, p)
            if not landed_well:
                return INEXACT
            counts[STAGE] = ARRIVED
        before = numbers[OBJECTIVE]
        look(w, p)
        if numbers[OBJECTIVE] > before + ROUNDING * abs(before) and numbers[OBJECTIVE] > before + roundings(w):
            return ROSE
        choose_misplaced(p)
        counts[STAGE] = CHOSEN


@compiled
def roundings(w: Walk) -> float:
    """Return what rounding of the sums that f are can do to the objective."""
    size, mass = 0.0, 0.0
    for j in range(w.n):
        beta = abs(w.examples.beta[j])
        size += beta
        mass += beta * w.examples.diagonal[j]
    return EPS * size * mass


@inlined
def count(flags: Bools) -> int:
    """Return how many are set."""
    total = 0
    for j in range(flags.size):
        total += flags[j]
    return total


@inlined
def switch(w: Walk, p: Split) -> None:
    """Let who is wrong count on the other side; the state is then not optimal."""
    first, last = p.counts[SWITCHED], p.counts[SWITCHED]
    for j in range(w.n):
        if p.wrong[j]:
            p.who[last] = j
            last += 1
    for i in range(first, last):
        j = p.who[i]
        p.sides[j] = p.to[i] = p.proper[j]
        place_levels(w, p, j, p.numbers[THETA])
    p.counts[SWITCHED_BEFORE], p.counts[SWITCHED] = first, last


@inlined
def send_off(w: Walk, p: Split) -> None:
    """Set those in motion whose levels have changed; everyone else is in his place."""
    rest(w)
    for i in range(p.counts[SWITCHED_BEFORE], p.counts[SWITCHED]):
        set_motion_of(w.examples, w.motion, p.who[i])


@inlined
def drive(w: Walk, p: Split) -> bool:
    """Sum up what the moving betas, of those who have switched, do to f; False: somebody's kernel row is missing."""
    motion, first, last = w.motion, p.counts[SWITCHED_BEFORE], p.counts[SWITCHED]
    for i in range(first, last):
        if motion.v[p.who[i]] != 0.0 and w.row_of[p.who[i]] < 0:
            return False
    for j in range(w.n):
        motion.drive[j] = 0.0
    for i in range(first, last):
        if motion.v[p.who[i]] != 0.0:
            add_row(w, p.who[i], motion.v[p.who[i]], motion.drive)
    return True


@inlined
def add_row(w: Walk, slot: int, factor: float, out: Floats) -> None:
    """Add a multiple of a cached kernel row to ``out``."""
    row = w.rows[w.row_of[slot]]
    for j in range(w.n):
        out[j] += factor * row[j]


@inlined
def set_clock(w: Walk, p: Split, rho: float) -> None:
    """Start a walk: ``rho`` of its way is ahead. Tolerances as in ``passage.walk_of``."""
    e, motion, clock, numbers = w.examples, w.motion, w.clock, p.numbers
    sum_v, sum_beta, speed, top = 0.0, 0.0, 0.0, 0.0
    for j in range(w.n):
        sum_v += motion.v[j]
        speed += abs(motion.v[j])
    for j in range(w.n if w.intercept else 0):
        top = max(top, abs(motion.v[j]))
        sum_beta += e.beta[j]
    numbers[TOL_F] = max(_RATIO_F * numbers[KINK], 8.0 * EPS * speed * numbers[DIAGONAL])
    numbers[TOL_BALANCE] = max(1e-12, EPS * w.n**1.5) * max(numbers[LEVEL], top)
    clock[RHO], clock[SUM_V] = rho, sum_v
    clock[SUM_RATE] = numbers[TOTAL] - sum_beta if w.intercept else 0.0
    for k in range(N_COUNTERS):
        if k != CANCEL:
            w.counters[k] = 0
    w.counters[WHO] = -1
    w.counters[WHOLE] = FEW if w.n * w.factor.size[1] < WHOLE_WORK else 0
    p.counts[SPREADS] = 0
    w.counters[BUDGET] = 50 * w.n + 10_000


@inlined
def within(w: Walk, p: Split) -> Walk:
    """Return the walk with the tolerances that the clock was set with."""
    slack = Slack(
        p.numbers[TOL_F],
        p.numbers[TOL_F],
        _RATIO_BETA * p.numbers[LEVEL],
        _DEPENDENT,
        p.numbers[TOL_BALANCE],
        1e-14,
        2 * w.factor.size[1] + 200,
    )
    return Walk(
        w.n,
        w.n,
        w.intercept,
        w.kappa,
        w.examples,
        w.motion,
        w.factor,
        w.rows,
        w.row_of,
        w.seen_rows,
        w.is_whole,
        w.members,
        w.rows,
        w.row_of,
        w.scratch,
        w.clock,
        w.counters,
        slack,
    )


@inlined
def note_events(w: Walk, p: Split) -> None:
    """Count what a walk did."""
    p.counts[ALL_EVENTS] += w.counters[EVENTS]
    p.counts[SINCE_REFRESH] += w.counters[EVENTS]
    p.counts[SINCE_AUDIT] += w.counters[EVENTS]
    w.counters[EVENTS] = 0


@inlined
def landed(w: Walk, p: Split) -> bool:
    """Put betas that are at an end there, b in its middle if nobody is free, and judge; False: not exact.

    A walk in which nobody was let beyond a limit, or moved to an end, keeps f and beta together, but for rounding: only
    now and then is it judged by more.
    """
    level, moved = p.numbers[LEVEL], False
    alone = w.intercept and w.factor.size[1] == 1
    astray = w.counters[LAPS] + w.counters[THROUGH] + p.counts[SPREADS] > 0
    if alone or astray or is_at_an_end(w, _DUST * level):
        moved = leave_ends(w.examples, w.factor, w.n, w.intercept, SNAP * level, _DUST * level, 4.0 * EPS * level)
    else:
        put_on_levels(w, SNAP * level)
    if w.factor.size[1] == 0 and w.intercept:
        w.clock[B] += center(w)
    due = p.counts[SINCE_AUDIT] + w.counters[EVENTS] >= SINCE_EXACT
    return exact(w, p) if moved or astray or due else True


@compiled
def exact(w: Walk, p: Split) -> bool:
    """Compute the f of free examples afresh, and say whether the state is optimal, as ``follow`` asks for."""
    e, b, level, total = w.examples, w.clock[B], p.numbers[LEVEL], p.numbers[TOTAL]
    p.counts[SINCE_AUDIT] = -w.counters[EVENTS]
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if slot >= 0:
            e.f[slot] = product(w.rows[w.row_of[slot]], e.beta, w.n) + b
    gap, primal, resolution = gap_of(e, w.n, b)
    off_sum = 0.0
    if w.intercept:
        off_sum = -total
        for j in range(w.n):
            off_sum += e.beta[j]
        off_sum = abs(off_sum)
        primal += total * b
    if off_sum > 1e-13 * level * w.n and w.factor.size[1] > 0:
        return False
    gap += max(abs(b), p.numbers[KINK]) * off_sum
    good: bool = gap <= max(_GOAL * max(abs(primal), abs(primal - gap)), resolution)
    return good


@compiled
def product(x: Floats, y: Floats, n: int) -> float:
    """Return the inner product of the first ``n`` entries."""
    total = 0.0
    for j in range(n):
        total += x[j] * y[j]
    return total
