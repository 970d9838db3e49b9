"""The compiled D-step: who is on the wrong side of a wall switches, the path is followed, until nobody is.

A path makes dozens of such steps of a few events each, so that everything around the events is compiled too, and a
whole run of steps is one call. What f is, is taken from what is tracked: the f of free examples is computed afresh in
each round, everybody's by the caller now and then, and at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.audit import gap_of, units_of
from solvers.compile import compiled, compiled_allocating
from solvers.factor import schur
from solvers.losses import Losses
from solvers.motion import (
    BUDGET,
    DONE,
    EVENTS,
    N_COUNTERS,
    RHO,
    SUM_RATE,
    SUM_V,
    WHO,
    WHOLE,
    B,
    Walk,
)
from solvers.motion import Tolerances as Slack
from solvers.passage import DEFAULT, EPS, set_motion
from solvers.robust_losses import BELOW, BEYOND, WITHIN, Sides, Walls
from solvers.settle import center, leave_ends
from solvers.strides import WHOLE_WORK, follow_path

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-9  #: a rise of the objective by this share of itself is rounding
MOST_ROUNDS = 500  #: switches in a row after which a D-step is given up
HELD = 1e-9  #: a squared distance to the span of examples at kinks, of the diagonal, that counts as none
FEW = 64  #: events that a round may have without being walked in strides

# Exits, beyond those of solvers.motion and solvers.tracking
NEED_ROWS, SWITCHES_FULL, INEXACT, ROSE, ENDLESS = range(20, 25)

# Stages of a D-step, and of a C-step
AT_REST, CHOSEN, SET_OUT, DRIVEN, WALKING, ARRIVED = range(6)
LEAVING, LEFT, TRACKING, STOPPING, SWITCHING = range(6, 11)

# Entries of the numbers
THETA, OBJECTIVE, START_OBJECTIVE, TOTAL, TOL_F, TOL_BETA, TOL_BALANCE = range(7)
N_NUMBERS = 7

# Entries of the counts
STAGE, ROUNDS, SWITCHED, ALL_EVENTS, SINCE_REFRESH, SPREADS = range(6)
N_COUNTS = 6

_RATIO_F, _RATIO_BETA, _DEPENDENT = DEFAULT.ratio_f, DEFAULT.ratio_beta, DEFAULT.dependent
_DUST, _GOAL = DEFAULT.dust, DEFAULT.goal


class Split(NamedTuple):
    """Everyone's convex loss, walls and side, by position (m,), and what a D-step works with and writes down."""

    slots: Ints
    base: Losses
    walls: Walls
    sides: Sides
    resting: Bools  #: who stands at a wall, and has tried both sides
    proper: Sides  #: the true side of everyone; of those at a wall, the other one than they count on
    at_wall: Bools
    wrong: Bools  #: who switches next
    tried: Bools  #: who has been looked at, in this D-step, whether he can leave his wall alone
    who: Ints  #: (switches,) who has switched, in order
    to: Sides  #: (switches,) and to which side
    near: float  #: how close to its wall an f is at it
    numbers: Floats
    counts: Ints


@compiled_allocating
def take_sides(w: Walk, p: Split) -> int:
    """Let who is ``wrong`` switch, follow, and go on with who is wrong then; DONE, or what is needed.

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
            set_motion(w.examples, w.motion, w.n)
            counts[STAGE] = SET_OUT
        if counts[STAGE] == SET_OUT:
            if not drive(w):
                return NEED_ROWS
            counts[STAGE] = DRIVEN
        if counts[STAGE] == DRIVEN:
            set_clock(w, p, 1.0)
            counts[STAGE] = WALKING
        if counts[STAGE] == WALKING:
            outcome = follow_path(within(w, p))
            if outcome != DONE:
                return outcome
            note_events(w, p)
            if not landed(w, p):
                return INEXACT
            counts[STAGE] = ARRIVED
        before = numbers[OBJECTIVE]
        look(w, p)
        if numbers[OBJECTIVE] > before + ROUNDING * max(abs(before), abs(numbers[OBJECTIVE])):
            return ROSE
        choose_misplaced(p)
        counts[STAGE] = CHOSEN


@compiled
def count(flags: Bools) -> int:
    """Return how many are set."""
    total = 0
    for i in range(flags.size):
        total += flags[i]
    return total


@compiled
def switch(w: Walk, p: Split) -> None:
    """Let who is wrong count on the other side; the state is then not optimal."""
    for i in range(p.slots.size):
        if p.wrong[i]:
            p.sides[i] = p.proper[i]
            place_levels(w, p, i, p.numbers[THETA])
            k = p.counts[SWITCHED]
            p.who[k], p.to[k] = i, p.proper[i]
            p.counts[SWITCHED] = k + 1


@compiled
def place_levels(w: Walk, p: Split, i: int, theta: float) -> None:
    """Give an example the levels of its side at a theta, see ``robust_losses.conditional``."""
    cut = (1.0 - theta) * outermost_level(p, i)
    for q in range(p.base.levels.shape[1]):
        w.examples.levels[p.slots[i], q] = p.base.levels[i, q] - cut


@compiled
def outermost_level(p: Split, i: int) -> float:
    """Return the level of the piece beyond the wall of an outlier; 0 for who is within."""
    if p.sides[i] == WITHIN:
        return 0.0
    level: float = p.base.levels[i, 0 if p.sides[i] == BELOW else p.base.n_kinks[i]]
    return level


@compiled
def drive(w: Walk) -> bool:
    """Sum up what the moving betas do to f; False: somebody's kernel row is missing."""
    motion, rows, row_of = w.motion, w.rows, w.row_of
    for j in range(w.n):
        if motion.v[j] != 0.0 and row_of[j] < 0:
            return False
    total = motion.drive[: w.n]
    total[:] = 0.0
    for j in range(w.n):
        v = motion.v[j]
        if v != 0.0:
            row = rows[row_of[j], : w.n]
            for k in range(w.n):
                total[k] += v * row[k]
    return True


@compiled
def set_clock(w: Walk, p: Split, rho: float) -> None:
    """Start a walk: ``rho`` of its way is ahead. Tolerances as in ``passage.tolerances``."""
    e, motion, clock = w.examples, w.motion, w.clock
    kink, level, diagonal, speed, top = units_of(e, motion.v, w.n)
    if kink == 0.0:
        kink = max(p.numbers[TOTAL], level) * diagonal
    p.numbers[TOL_F] = max(_RATIO_F * kink, 8.0 * EPS * speed * diagonal)
    p.numbers[TOL_BETA] = _RATIO_BETA * level
    p.numbers[TOL_BALANCE] = max(1e-12, EPS * w.n**1.5) * max(level, top)
    clock[RHO], clock[SUM_V], clock[SUM_RATE] = rho, 0.0, 0.0
    sum_beta = 0.0
    for j in range(w.n):
        clock[SUM_V] += motion.v[j]
        sum_beta += e.beta[j]
    if w.intercept:
        clock[SUM_RATE] = p.numbers[TOTAL] - sum_beta
    for k in range(N_COUNTERS):
        w.counters[k] = 0
    w.counters[WHO] = -1
    w.counters[WHOLE] = FEW if w.n * w.factor.size[1] < WHOLE_WORK else 0
    p.counts[SPREADS] = 0
    w.counters[BUDGET] = 50 * w.n + 10_000


@compiled_allocating
def within(w: Walk, p: Split) -> Walk:
    """Return the walk with the tolerances that the clock was set with."""
    slack = Slack(
        p.numbers[TOL_F],
        p.numbers[TOL_BETA],
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
        w.columns,
        w.members,
        w.rows,
        w.row_of,
        w.scratch,
        w.clock,
        w.counters,
        slack,
    )


@compiled
def note_events(w: Walk, p: Split) -> None:
    """Count what a walk did."""
    p.counts[ALL_EVENTS] += w.counters[EVENTS]
    p.counts[SINCE_REFRESH] += w.counters[EVENTS]
    w.counters[EVENTS] = 0


@compiled
def landed(w: Walk, p: Split) -> bool:
    """Put betas that are at an end there, b in its middle if nobody is free, and judge; False: not exact."""
    e = w.examples
    _, level, _, _, _ = units_of(e, w.motion.v, w.n)
    rounding = 4.0 * EPS * level
    if leave_ends(w, 1e-13 * level, _DUST * level, rounding):
        return False
    if w.factor.size[1] == 0 and w.intercept:
        w.clock[B] += center(w)
    return exact(w, p)


@compiled
def exact(w: Walk, p: Split) -> bool:
    """Compute the f of free examples afresh, and say whether the state is optimal, as ``follow`` asks for."""
    e, b = w.examples, w.clock[B]
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if slot >= 0:
            e.f[slot] = product(w.rows[w.row_of[slot]], e.beta, w.n) + b
    gap, primal, resolution = gap_of(e, w.n, b)
    kink, level, _, _, _ = units_of(e, w.motion.v, w.n)
    off_sum = 0.0
    if w.intercept:
        off_sum = -p.numbers[TOTAL]
        for j in range(w.n):
            off_sum += e.beta[j]
        off_sum = abs(off_sum)
        primal += p.numbers[TOTAL] * b
    if off_sum > 1e-13 * level * w.n and w.factor.size[1] > 0:
        return False
    gap += max(abs(b), kink) * off_sum
    good: bool = gap <= max(_GOAL * max(abs(primal), abs(primal - gap)), resolution)
    return good


@compiled
def product(x: Floats, y: Floats, n: int) -> float:
    """Return the inner product of the first ``n`` entries."""
    total = 0.0
    for j in range(n):
        total += x[j] * y[j]
    return total


@compiled
def look(w: Walk, p: Split) -> None:
    """Say where everyone stands, and what the robust objective is, not convex and with nothing dropped."""
    e, base, b, theta = w.examples, p.base, w.clock[B], p.numbers[THETA]
    objective = 0.0
    for i in range(p.slots.size):
        f, beta, last = e.f[p.slots[i]], e.beta[p.slots[i]], base.n_kinks[i]
        low, high = p.walls.low[i], p.walls.high[i]
        objective += 0.5 * beta * (f - b)
        if last > 0:
            objective -= base.levels[i, 0] * (f - base.kinks[i, 0])
            for q in range(last):
                objective += (base.levels[i, q] - base.levels[i, q + 1]) * max(0.0, f - base.kinks[i, q])
        side = WITHIN
        if f < low:
            objective += (1.0 - theta) * base.levels[i, 0] * (f - low)
            side = BELOW
        elif f > high:
            objective += (1.0 - theta) * base.levels[i, last] * (f - high)
            side = BEYOND
        p.at_wall[i] = abs(f - low) <= p.near or abs(f - high) <= p.near
        if p.at_wall[i]:
            nearest = BELOW if abs(f - low) < abs(f - high) else BEYOND
            side = nearest if p.sides[i] == WITHIN else WITHIN
        p.proper[i] = side
    p.numbers[OBJECTIVE] = objective


@compiled
def choose_misplaced(p: Split) -> None:
    """Choose who is not on the side where he should be.

    Who has come to a wall must try its other side. An example that stands there in the end, because others hold its f,
    is optimal on either side: when that has been tried, it rests there.
    """
    for i in range(p.slots.size):
        p.wrong[i] = p.proper[i] != p.sides[i] and not (p.at_wall[i] and p.resting[i])
        p.resting[i] = p.at_wall[i]


@compiled
def choose_loose(w: Walk, p: Split) -> bool:
    """Of those who rest at a wall, choose one whom nobody at a kink holds there; False: there is none.

    Several who switch together may make up for each other, such as examples with the same features and different
    labels; one of them alone moves.
    """
    e, fac = w.examples, w.factor
    kappa = w.kappa if w.intercept else 0.0
    for i in range(p.slots.size):
        slot = p.slots[i]
        if not p.at_wall[i] or p.tried[i] or e.seg[slot] & 1:
            continue
        p.tried[i] = True
        for k in range(fac.size[0]):
            fac.column[k] = w.rows[w.row_of[fac.slot[k]], slot] + kappa if fac.slot[k] >= 0 else 0.0
        own = e.diagonal[slot] + kappa
        if schur(fac, fac.column, own) > HELD * own:
            p.wrong[i] = True
            return True
    return False
