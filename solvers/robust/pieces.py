"""The compiled loops of the two outlier paths: C-steps where nobody switches, D-steps where somebody does, and notes.

Each is called again and again, and goes on where it stopped: `solvers.robust.d_step` gives it what it asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.active_set.direction import resolve
from solvers.active_set.ratio_test import largest
from solvers.active_set.workspace import DONE, EXHAUSTED, RHO, STALLED, STRIDE, STRIDE_END, WHO, Walk
from solvers.homotopy.recorder import CHANGES, SEGMENTS, STOPPED, Log, note_places, track_path
from solvers.robust.c_step import (
    AT_REST,
    CHOSEN,
    INEXACT,
    LEAVING,
    LEFT,
    NEED_ROWS,
    SINCE_EXACT,
    SNAP,
    STOPPING,
    SWITCHING,
    TRACKING,
    add_row,
    exact,
    note_events,
    set_clock,
    take_sides,
    within,
)
from solvers.robust.passes import place_stops, put_on_levels, rest, set_out_among_walls
from solvers.robust.ramp_losses import WITHIN, Sides, Walls
from solvers.robust.sides import (
    AT_WALLS,
    LEVEL,
    OBJECTIVE,
    ROUNDS,
    SINCE_AUDIT,
    STAGE,
    START_OBJECTIVE,
    SWITCHED,
    THETA,
    Split,
    look,
    outermost_level,
    place_levels,
    place_walls,
)
from solvers.runtime.compile import compiled, inlined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PORTION = 64  #: D-steps between two looks at whether to go on
PORTION_EVENTS = 2000  #: or events of one C-step
STANDSTILL = 1e-12  #: a C-step that takes theta down by no more than this makes no progress
STANDSTILLS = 1000  #: C-steps without progress after which a path is given up

# Exits, beyond those of outlier_rounds
NOTES_FULL, AT_ONCE, STUCK, TIED, LOST, WITH_TIES = range(30, 36)

# Entries of the sizes
LEGS, JUMPS, STILL, FIRST, BEGUN = range(5)
N_SIZES = 5

# Columns of the values, and of the counts: of the log at the start of the leg, and at the end of the D-step
START, END, DROP = range(3)
SEGMENTS_BEFORE, CHANGES_BEFORE, ROUNDS_MADE, SWITCHES_SO_FAR = range(4)


class Notes(NamedTuple):
    """What is written down of each leg and of the D-step at its end; room for k of them, n slots."""

    values: Floats  #: (k, 3) of the parameter where the leg starts, and where it ends; the drop of the objective
    counts: Ints  #: (k, 4) named above
    sides: Sides  #: (k, n) at the start
    seg: Sides  #: (k, n) places on the staircase at the start
    sizes: Ints  #: (5,) legs, D-steps; C-steps in a row without progress; who came to a wall first; 1: it has begun


class Pull(NamedTuple):
    """Who is an outlier, and what that does to f as theta moves, kept up from one leg to the next."""

    by: Floats  #: (n,) the rate, per theta, of the betas of bound outliers
    sum: Floats  #: (n,) their kernel rows times that
    who: Ints  #: (n,) outliers on this leg, in order
    changed: Ints  #: (n,) work: whose rate is another one than on the leg before
    size: Ints  #: (1,) how many outliers there are


class Constants(NamedTuple):
    """The coefficients on legs on which nothing moves; room for k of them, n slots."""

    beta: Floats  #: (k, n)
    b: Floats  #: (k,)


@inlined
def begin_leg(w: Walk, p: Split, notes: Notes, start: float) -> None:
    """Note how everyone stands at the start of a leg."""
    k = notes.sizes[LEGS]
    notes.values[k, START] = start
    for j in range(w.n):
        notes.sides[k, j] = p.sides[j]
        notes.seg[k, j] = w.examples.seg[j]


@inlined
def begin_jump(p: Split, notes: Notes) -> None:
    """Those who are to switch have been chosen.

    Where the path stands still they have switched already, all at once and alone: now they rest where that leaves them.
    """
    p.numbers[START_OBJECTIVE] = p.numbers[OBJECTIVE]
    p.counts[ROUNDS] = 0
    p.tried[:] = notes.sizes[STILL] > 0
    p.counts[STAGE] = CHOSEN


@inlined
def end_jump(p: Split, notes: Notes) -> None:
    """Note what a D-step did."""
    k = notes.sizes[JUMPS]
    notes.values[k, DROP] = p.numbers[START_OBJECTIVE] - p.numbers[OBJECTIVE]
    notes.counts[k, ROUNDS_MADE] = p.counts[ROUNDS]
    notes.counts[k, SWITCHES_SO_FAR] = p.counts[SWITCHED]
    notes.sizes[JUMPS] = k + 1
    p.counts[STAGE] = AT_REST


@inlined
def finish_jump(w: Walk, p: Split, notes: Notes) -> int:
    """Let those who switch take their sides and note the jump; STRIDE: so many have been that it is time to report."""
    outcome = take_sides(w, p, True)
    if outcome != DONE:
        return outcome
    end_jump(p, notes)
    return STRIDE if notes.sizes[JUMPS] % PORTION == 0 else DONE


@compiled
def steps_of_s(w: Walk, p: Split, notes: Notes, kept: Constants, zero: Walls, inwards: float, ends: Floats) -> int:
    """Let s go from ``ends[0]`` to ``ends[1]``; nothing moves until a wall reaches somebody.

    ``zero`` are the walls at s = 0, ``inwards`` is 1 where they come in as s grows, -1 where as it falls. Stops with
    NOTES_FULL, STRIDE, STUCK, and what ``take_sides`` asks for.
    """
    while True:
        if p.counts[STAGE] == AT_REST:
            k = notes.sizes[LEGS]
            if k == len(notes.values):
                return NOTES_FULL
            begin_leg(w, p, notes, ends[0])
            keep(w, p, kept, k)
            notes.sizes[LEGS] = k + 1
            nearest = inwards * max(inwards * ends[0], nearest_wall(w, p, zero))
            if inwards * nearest > inwards * ends[1]:
                notes.values[k, END] = ends[1]
                return DONE
            notes.values[k, END] = nearest
            notes.sizes[STILL] = notes.sizes[STILL] + 1 if nearest == ends[0] else 0
            if notes.sizes[STILL] > STANDSTILLS or not abs(nearest) < np.inf:
                return STUCK
            ends[0] = nearest
            place_walls(p, zero, inwards * nearest)
            look(w, p)
            for j in range(w.n):
                p.wrong[j] = p.sides[j] == WITHIN if p.at_wall[j] else p.proper[j] != p.sides[j]
            begin_jump(p, notes)
        outcome = finish_jump(w, p, notes)
        if outcome != DONE:
            return outcome


@inlined
def keep(w: Walk, p: Split, kept: Constants, k: int) -> None:
    """Write the coefficients down."""
    for j in range(w.n):
        kept.beta[k, j] = w.examples.beta[j]
    kept.b[k] = w.clock[0]


@inlined
def nearest_wall(w: Walk, p: Split, zero: Walls) -> float:
    """Return how far in walls must be to reach the first of those within."""
    f, low, high, way = w.examples.f, zero.low, zero.high, w.motion.work
    for j in range(w.n):
        below, above = low[j] - f[j], f[j] - high[j]
        closest = below if below > above else above
        way[j] = closest if p.sides[j] == WITHIN else -np.inf
    return -largest(way, w.n, -np.inf)


@compiled
def steps_of_theta(w: Walk, p: Split, notes: Notes, log: Log, pull: Pull, end: float) -> int:
    """Let theta fall to ``end``, and write every linear piece into the log.

    Stops with WITH_TIES if somebody stands at a wall before the first leg, NOTES_FULL, STUCK, STRIDE, AT_ONCE where a
    leg has no length, TIED and LOST where a C-step stalls or has no end, and what ``track_path`` and ``take_sides`` ask
    for. INEXACT, and NEED_ROWS, may also be about the C-step.
    """
    counts = p.counts
    if notes.sizes[BEGUN] == 0:
        notes.sizes[BEGUN] = 1
        look(w, p)
        if counts[AT_WALLS] > 0:
            return WITH_TIES
    while True:
        if counts[STAGE] == AT_REST:
            if notes.sizes[LEGS] == len(notes.values):
                return NOTES_FULL
            begin_leg(w, p, notes, p.numbers[THETA])
            notes.counts[notes.sizes[LEGS], SEGMENTS_BEFORE] = log.sizes[SEGMENTS]
            notes.counts[notes.sizes[LEGS], CHANGES_BEFORE] = log.sizes[CHANGES]
            leave_for(w, p, pull, end)
            counts[STAGE] = LEAVING
        if counts[STAGE] == LEAVING:
            if not drive_outliers(w, p, pull, end):
                return NEED_ROWS
            counts[STAGE] = LEFT
        if counts[STAGE] == LEFT:
            set_clock(w, p, 1.0)
            set_out_among_walls(w, p)
            resolve(w)
            note_places(w, log)
            w.counters[STRIDE_END] = PORTION_EVENTS
            counts[STAGE] = TRACKING
        if counts[STAGE] == TRACKING:
            outcome = track_path(within(w, p), log, p.stops)
            if outcome == STALLED:
                return TIED
            if outcome == EXHAUSTED:
                return LOST
            if outcome != DONE and outcome != STOPPED:
                return outcome
            nothing = log.sizes[SEGMENTS] == notes.counts[notes.sizes[LEGS], SEGMENTS_BEFORE]
            arrive(w, p, pull, notes, end, outcome == STOPPED)
            counts[STAGE] = STOPPING
            if nothing:
                return AT_ONCE
        if counts[STAGE] == STOPPING:
            if notes.sizes[FIRST] < 0:
                return DONE
            if counts[SINCE_AUDIT] >= SINCE_EXACT and not exact(w, p):
                return INEXACT
            counts[STAGE] = SWITCHING
        if counts[STAGE] == SWITCHING:
            if notes.sizes[STILL] > STANDSTILLS:
                return STUCK
            choose_tied(w, p, notes)
            begin_jump(p, notes)
        outcome = finish_jump(w, p, notes)
        if outcome != DONE:
            return outcome


@inlined
def leave_for(w: Walk, p: Split, pull: Pull, end: float) -> None:
    """Give everyone the losses of the end, the rates that lead there, and the walls that stop the way."""
    e = w.examples
    rest(w)
    place_stops(p)
    many = 0
    for j in range(w.n):
        pull.who[many] = j
        many += p.sides[j] != WITHIN
    pull.size[0] = many
    for i in range(many):
        j = pull.who[i]
        place_levels(w, p, j, end)
        rate = (end - p.numbers[THETA]) * outermost_level(p, j)
        for q in range(e.dlevels.shape[1]):
            e.dlevels[j, q] = rate
        if e.seg[j] & 1 == 0:
            w.motion.v[j] = rate


@inlined
def drive_outliers(w: Walk, p: Split, pull: Pull, end: float) -> bool:
    """Take up who has become a bound outlier, or is one no more; False: somebody's kernel row is missing.

    Without the row of one who is no more, all are summed up anew.
    """
    bound = w.motion.work
    for j in range(w.n):
        bound[j] = 0.0
    for i in range(pull.size[0]):
        j = pull.who[i]
        bound[j] = outermost_level(p, j) if w.examples.seg[j] & 1 == 0 else 0.0
    many = differing(bound, pull)
    for i in range(many):
        if bound[pull.changed[i]] == 0.0 and w.row_of[pull.changed[i]] < 0:
            pull.by[:] = 0.0
            pull.sum[:] = 0.0
            many = differing(bound, pull)
            break
    for i in range(many):
        if w.row_of[pull.changed[i]] < 0:
            return False
    for i in range(many):
        j = pull.changed[i]
        add_row(w, j, bound[j] - pull.by[j], pull.sum)
        pull.by[j] = bound[j]
    way = end - p.numbers[THETA]
    for j in range(w.n):
        w.motion.drive[j] = way * pull.sum[j]
    return True


@inlined
def differing(bound: Floats, pull: Pull) -> int:
    """Find whose rate is not that of ``bound`` (n,); return how many."""
    many = 0
    for j in range(bound.size):
        pull.changed[many] = j
        many += bound[j] != pull.by[j]
    return many


@inlined
def arrive(w: Walk, p: Split, pull: Pull, notes: Notes, end: float, stopped: bool) -> None:
    """Give everyone the losses of where the way has stopped, and end the leg."""
    k = notes.sizes[LEGS]
    note_events(w, p)
    rho = w.clock[RHO] if stopped else 0.0
    start = notes.values[k, START]
    theta = end + (start - end) * rho
    p.numbers[THETA] = theta
    notes.values[k, END] = theta
    notes.sizes[LEGS] = k + 1
    notes.sizes[FIRST] = w.counters[WHO] if stopped else -1
    notes.sizes[STILL] = notes.sizes[STILL] + 1 if start - theta <= STANDSTILL else 0
    for i in range(pull.size[0]):
        place_levels(w, p, pull.who[i], theta)
    put_on_levels(w, SNAP * p.numbers[LEVEL])


@inlined
def choose_tied(w: Walk, p: Split, notes: Notes) -> None:
    """Choose all bound examples who stand at a wall, and whom a correction has taken beyond it.

    Of several who hold each other there, so that the path stands still, one at a time: then no partition comes twice.
    """
    look(w, p)
    still = notes.sizes[STILL] > 0
    for j in range(w.n):
        p.wrong[j] = p.proper[j] != p.sides[j]
    for j in range(w.n if p.counts[AT_WALLS] > 0 else 0):
        if p.at_wall[j]:
            p.wrong[j] = j == notes.sizes[FIRST] or (not still and w.examples.seg[j] & 1 == 0)
    for j in range(w.n if still else 0):
        p.resting[j] = p.at_wall[j]
