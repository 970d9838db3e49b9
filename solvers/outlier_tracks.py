"""The compiled loops of the two outlier paths: C-steps where nobody switches, D-steps where somebody does, and notes.

Each is called again and again, and goes on where it stopped: `solvers.outlier_steps` gives it what it asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.compile import compiled, compiled_allocating
from solvers.motion import DONE, EXHAUSTED, RHO, STALLED, STRIDE, STRIDE_END, WHO, Walk
from solvers.outlier_rounds import (
    AT_REST,
    CHOSEN,
    INEXACT,
    LEAVING,
    LEFT,
    NEED_ROWS,
    OBJECTIVE,
    ROUNDS,
    STAGE,
    START_OBJECTIVE,
    STOPPING,
    SWITCHED,
    SWITCHING,
    THETA,
    TRACKING,
    Split,
    drive,
    exact,
    look,
    note_events,
    outermost_level,
    place_levels,
    set_clock,
    take_sides,
    within,
)
from solvers.robust_losses import BELOW, BEYOND, WITHIN, Sides, Walls
from solvers.tracking import CHANGES, SEGMENTS, STOPPED, Log, track_path
from solvers.tracking import Walls as Stops

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PORTION = 64  #: D-steps between two looks at whether to go on
PORTION_EVENTS = 2000  #: or events of one C-step
STANDSTILL = 1e-12  #: a C-step that takes theta down by no more than this makes no progress
STANDSTILLS = 1000  #: C-steps without progress after which a path is given up

# Exits, beyond those of outlier_rounds
NOTES_FULL, AT_ONCE, STUCK, TIED, LOST = range(30, 35)

# Entries of the sizes
LEGS, JUMPS, STILL, FIRST = range(4)


class Notes(NamedTuple):
    """What is written down of each leg and of the D-step at its end; room for k of them, m examples."""

    start: Floats  #: (k,) value of the parameter at the start of the leg
    end: Floats  #: (k,)
    sides: Sides  #: (k, m)
    seg: Sides  #: (k, m) places on the staircase at the start
    before: Ints  #: (k, 2) how many segments and changes the log had at the start
    drop: Floats  #: (k,) of the objective
    rounds: Ints  #: (k,)
    switched: Ints  #: (k,) how many switches there were up to the end of the D-step
    sizes: Ints  #: (4,) legs, D-steps; C-steps in a row without progress; who came to a wall first


class Constants(NamedTuple):
    """The coefficients on legs on which nothing moves; room for k of them, m examples."""

    beta: Floats  #: (k, m)
    b: Floats  #: (k,)


@compiled
def begin_leg(w: Walk, p: Split, notes: Notes, start: float) -> None:
    """Note how everyone stands at the start of a leg."""
    k = notes.sizes[LEGS]
    notes.start[k] = start
    for i in range(p.slots.size):
        notes.sides[k, i] = p.sides[i]
        notes.seg[k, i] = w.examples.seg[p.slots[i]]


@compiled
def begin_jump(p: Split, notes: Notes) -> None:
    """Those who are to switch have been chosen.

    Where the path stands still they have switched already, all at once and alone: now they rest where that leaves them.
    """
    p.numbers[START_OBJECTIVE] = p.numbers[OBJECTIVE]
    p.counts[ROUNDS] = 0
    p.tried[:] = notes.sizes[STILL] > 0
    p.counts[STAGE] = CHOSEN


@compiled
def end_jump(p: Split, notes: Notes) -> None:
    """Note what a D-step did."""
    k = notes.sizes[JUMPS]
    notes.drop[k] = p.numbers[START_OBJECTIVE] - p.numbers[OBJECTIVE]
    notes.rounds[k] = p.counts[ROUNDS]
    notes.switched[k] = p.counts[SWITCHED]
    notes.sizes[JUMPS] = k + 1
    p.counts[STAGE] = AT_REST


@compiled_allocating
def finish_jump(w: Walk, p: Split, notes: Notes) -> int:
    """Let those who switch take their sides and note the jump; STRIDE: so many have been that it is time to report."""
    outcome = take_sides(w, p)
    if outcome != DONE:
        return outcome
    end_jump(p, notes)
    return STRIDE if notes.sizes[JUMPS] % PORTION == 0 else DONE


@compiled_allocating
def steps_of_s(w: Walk, p: Split, notes: Notes, kept: Constants, zero: Walls, inwards: float, ends: Floats) -> int:
    """Let s go from ``ends[0]`` to ``ends[1]``; nothing moves until a wall reaches somebody.

    ``zero`` are the walls at s = 0, ``inwards`` is 1 where they come in as s grows, -1 where as it falls. Stops with
    NOTES_FULL, STRIDE, STUCK, and what ``take_sides`` asks for.
    """
    while True:
        if p.counts[STAGE] == AT_REST:
            k = notes.sizes[LEGS]
            if k == notes.start.size:
                return NOTES_FULL
            begin_leg(w, p, notes, ends[0])
            keep(w, p, kept, k)
            notes.sizes[LEGS] = k + 1
            nearest = inwards * max(inwards * ends[0], nearest_wall(w, p, zero))
            if inwards * nearest > inwards * ends[1]:
                notes.end[k] = ends[1]
                return DONE
            notes.end[k] = nearest
            notes.sizes[STILL] = notes.sizes[STILL] + 1 if nearest == ends[0] else 0
            if notes.sizes[STILL] > STANDSTILLS:
                return STUCK
            ends[0] = nearest
            place_walls(p, zero, inwards * nearest)
            look(w, p)
            for i in range(p.slots.size):
                p.wrong[i] = p.sides[i] == WITHIN if p.at_wall[i] else p.proper[i] != p.sides[i]
            begin_jump(p, notes)
        outcome = finish_jump(w, p, notes)
        if outcome != DONE:
            return outcome


@compiled
def keep(w: Walk, p: Split, kept: Constants, k: int) -> None:
    """Write the coefficients down."""
    for i in range(p.slots.size):
        kept.beta[k, i] = w.examples.beta[p.slots[i]]
    kept.b[k] = w.clock[0]


@compiled
def nearest_wall(w: Walk, p: Split, zero: Walls) -> float:
    """Return how far in walls must be to reach the first of those within."""
    nearest = np.inf
    for i in range(p.slots.size):
        if p.sides[i] == WITHIN:
            f = w.examples.f[p.slots[i]]
            nearest = min(nearest, f - zero.low[i], zero.high[i] - f)
    return nearest


@compiled
def place_walls(p: Split, zero: Walls, depth: float) -> None:
    """Put the walls ``depth`` further in than they are at zero."""
    for i in range(p.slots.size):
        p.walls.low[i] = zero.low[i] + depth
        p.walls.high[i] = zero.high[i] - depth


@compiled_allocating
def steps_of_theta(w: Walk, p: Split, notes: Notes, log: Log, stops: Stops, end: float) -> int:
    """Let theta fall to ``end``, and write every linear piece into the log.

    Stops with NOTES_FULL, STUCK, STRIDE, AT_ONCE where a leg has no length, TIED and LOST where a C-step stalls or has
    no end, and what ``track_path`` and ``take_sides`` ask for. INEXACT, and NEED_ROWS, may also be about the C-step.
    """
    counts = p.counts
    while True:
        if counts[STAGE] == AT_REST:
            if notes.sizes[LEGS] == notes.start.size:
                return NOTES_FULL
            begin_leg(w, p, notes, p.numbers[THETA])
            notes.before[notes.sizes[LEGS], 0] = log.sizes[SEGMENTS]
            notes.before[notes.sizes[LEGS], 1] = log.sizes[CHANGES]
            set_out(w, p, stops, end)
            counts[STAGE] = LEAVING
        if counts[STAGE] == LEAVING:
            if not drive(w):
                return NEED_ROWS
            counts[STAGE] = LEFT
        if counts[STAGE] == LEFT:
            set_clock(w, p, 1.0)
            w.counters[STRIDE_END] = PORTION_EVENTS
            counts[STAGE] = TRACKING
        if counts[STAGE] == TRACKING:
            outcome = track_path(within(w, p), log, stops)
            if outcome == STALLED:
                return TIED
            if outcome == EXHAUSTED:
                return LOST
            if outcome != DONE and outcome != STOPPED:
                return outcome
            nothing = log.sizes[SEGMENTS] == notes.before[notes.sizes[LEGS], 0]
            arrive(w, p, notes, end, outcome == STOPPED)
            counts[STAGE] = STOPPING
            if nothing:
                return AT_ONCE
        if counts[STAGE] == STOPPING:
            if notes.sizes[FIRST] < 0:
                return DONE
            if not exact(w, p):
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


@compiled
def set_out(w: Walk, p: Split, stops: Stops, end: float) -> None:
    """Give everyone the losses of the end, the rates that lead there, and the walls that stop the way."""
    e, motion = w.examples, w.motion
    e.dkinks[:] = 0.0
    e.dlevels[:] = 0.0
    motion.v[:] = 0.0
    motion.dbeta[:] = 0.0
    for i in range(p.slots.size):
        slot = p.slots[i]
        place_levels(w, p, i, end)
        rate = (end - p.numbers[THETA]) * outermost_level(p, i)
        for q in range(e.dlevels.shape[1]):
            e.dlevels[slot, q] = rate
        if e.seg[slot] & 1 == 0:
            motion.v[slot] = e.levels[slot, e.seg[slot] // 2] - e.beta[slot]
        stops.low[slot], stops.high[slot] = p.walls.low[i], p.walls.high[i]
        if p.sides[i] == BELOW:
            stops.low[slot], stops.high[slot] = -np.inf, p.walls.low[i]
        elif p.sides[i] == BEYOND:
            stops.low[slot], stops.high[slot] = p.walls.high[i], np.inf


@compiled
def arrive(w: Walk, p: Split, notes: Notes, end: float, stopped: bool) -> None:
    """Give everyone the losses of where the way has stopped, and end the leg."""
    e, k = w.examples, notes.sizes[LEGS]
    note_events(w, p)
    rho = w.clock[RHO] if stopped else 0.0
    theta = end + (notes.start[k] - end) * rho
    p.numbers[THETA] = theta
    notes.end[k] = theta
    notes.sizes[LEGS] = k + 1
    notes.sizes[FIRST] = w.counters[WHO] if stopped else -1
    notes.sizes[STILL] = notes.sizes[STILL] + 1 if notes.start[k] - theta <= STANDSTILL else 0
    e.dkinks[:] = 0.0
    e.dlevels[:] = 0.0
    for i in range(p.slots.size):
        slot = p.slots[i]
        place_levels(w, p, i, theta)
        level = e.levels[slot, e.seg[slot] // 2]
        if e.seg[slot] & 1 == 0 and abs(e.beta[slot] - level) <= 1e-13 * abs(p.base.levels[i, 0]):
            e.beta[slot] = level


@compiled
def choose_tied(w: Walk, p: Split, notes: Notes) -> None:
    """Choose all bound examples who stand at a wall, and whom a correction has taken beyond it.

    Of several who hold each other there, so that the path stands still, one at a time: then no partition comes twice.
    """
    look(w, p)
    still = notes.sizes[STILL] > 0
    for i in range(p.slots.size):
        slot = p.slots[i]
        tied = slot == notes.sizes[FIRST] or (not still and w.examples.seg[slot] & 1 == 0)
        p.wrong[i] = tied if p.at_wall[i] else p.proper[i] != p.sides[i]
        if still:
            p.resting[i] = p.at_wall[i]
