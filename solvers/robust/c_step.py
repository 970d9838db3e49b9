"""The compiled loops of the two outlier paths: C-steps, on which no example switches sides, and D-steps.

A loop may stop early with a request, such as for kernel rows. ``robust.path`` answers the request and calls the loop
again, which then continues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.direction import resolve
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.loop import track_path
from livesvm.solvers.active_set.ratio_test import largest
from livesvm.solvers.active_set.recorder import Log, empty_log, record_places
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.linalg.products import add_scaled
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.robust.d_step import SINCE_EXACT, exact, note_events, set_out_for, take_sides
from livesvm.solvers.robust.loss_pieces import RoundStage, Split, look, outermost_level, place_cutoffs, place_levels
from livesvm.solvers.robust.ramp_losses import WITHIN, LossCutoffs, Sides
from livesvm.solvers.robust.walk_setup import place_stops, put_on_levels, rest, set_out_among_cutoffs
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints

PORTION = 64  #: D-steps between two looks at whether to go on
PORTION_EVENTS = 2000  #: or events of one C-step
STANDSTILL = 1e-12  #: a C-step that takes theta down by no more than this makes no progress
STANDSTILLS = 1000  #: C-steps without progress after which a path is given up

_SNAP = SETTINGS.snap

# Columns of the values, and of the counts: of the log at the start of the leg, and at the end of the D-step
START, END, DROP = range(3)
SEGMENTS_BEFORE, CHANGES_BEFORE, ROUNDS_MADE, SWITCHES_SO_FAR = range(4)


class NotesUsed(Scalars):
    """The numbers of recorded legs (C-steps) and jumps (D-steps), and how far the path has come."""

    legs: int
    jumps: int  #: D-steps
    still: int  #: C-steps in a row without progress
    first: int  #: the first example that reached a cutoff
    begun: int  #: 1: the walk has begun


@by_reference
class Notes(NamedTuple):
    """Notes on each leg and on the D-step at its end; space for k legs, n slots."""

    values: Floats  #: (k, 3) the parameter at the start and at the end of the leg; the drop of the objective
    counts: Ints  #: (k, 4) named above
    sides: Sides  #: (k, n) at the start
    segment: Sides  #: (k, n) places on the staircase at the start
    used: One[NotesUsed]


@by_reference
class Pull(NamedTuple):
    """The outliers and the rate at which they change f as theta moves, updated from one leg to the next."""

    by: Floats  #: (n,) the rate, per theta, of the betas of bound outliers
    sum: Floats  #: (n,) the sum of their kernel rows times these rates
    indices: Ints  #: (n,) outliers on this leg, in order
    changed: Ints  #: (n,) work: examples whose rate has changed since the leg before
    size: Ints  #: (1,) number of outliers


@by_reference
class Constants(NamedTuple):
    """The coefficients of legs on which coefficients are constant; space for k legs and n slots."""

    beta: Floats  #: (k, n)
    b: Floats  #: (k,)


@by_reference
class Course(NamedTuple):
    """The kind of steps that a run makes, and the records of the run; records that the kind does not need are empty."""

    kind: int  #: named below
    inwards: float  #: 1: cutoffs come in as s grows; -1: as s falls
    ends: Floats  #: (2,) s now, and the value at which s or theta ends
    notes: Notes
    kept: Constants  #: of runs of s
    zero: LossCutoffs  #: the cutoffs at s = 0
    log: Log  #: of runs of theta
    pull: Pull


CROSSING, WITHOUT_CROSSING, OVER_S, OVER_THETA = range(4)  # the first two: one D-step, see ``take_sides``
NONE, NO_EXAMPLE = np.empty(0), np.empty(0, np.int64)
NOTHING = LossCutoffs(NONE, NONE), empty_log(0, 0, 0), Pull(NONE, NONE, *3 * (NO_EXAMPLE,))  # which is only read


def course(kind: int, ends: tuple[float, float] = (0.0, 0.0), legs: int = 0, m: int = 0) -> Course:
    """Return a course with space for ``legs`` legs of ``m`` examples, without cutoffs or a log."""
    sides = np.empty((legs, m), np.int8), np.empty((legs, m), np.int8)
    notes = Notes(np.empty((legs, 3)), np.empty((legs, 4), np.int64), *sides, NotesUsed.of())
    kept = legs if kind == OVER_S else 0
    return Course(kind, 1.0, np.array(ends), notes, Constants(np.empty((kept, m)), np.empty(kept)), *NOTHING)


@compiled
def steps(w: Walk, p: Split, c: Course) -> int:
    """Make the steps of a course, of any kind, until all are made or a step has a request."""
    if c.kind == OVER_S:
        return steps_of_s(w, p, c.notes, c.kept, c.zero, c.inwards, c.ends)
    if c.kind == OVER_THETA:
        return steps_of_theta(w, p, c.notes, c.log, c.pull, c.ends[1])
    return take_sides(w, p, c.kind == CROSSING)


@compiled
def begin_leg(w: Walk, p: Split, notes: Notes, start: float) -> None:
    """Record the side and the segment of every example at the start of a leg."""
    k = notes.used[0].legs
    notes.values[k, START] = start
    for j in range(w.n):
        notes.sides[k, j] = p.sides[j]
        notes.segment[k, j] = w.examples.segment[j]


@compiled
def begin_jump(p: Split, notes: Notes) -> None:
    """Begin a D-step with the examples that were chosen to switch.

    If the path makes no progress, all examples count as tried, so that no example at a cutoff switches alone again.
    """
    p.now[0].start_objective = p.now[0].objective
    p.now[0].rounds = 0
    p.tried[:] = notes.used[0].still > 0
    p.now[0].stage = RoundStage.CHOSEN


@compiled
def finish_jump(w: Walk, p: Split, notes: Notes) -> int:
    """Make the D-step that begins with the chosen examples, and record it; return DONE, ITERATION or a request."""
    outcome = take_sides(w, p, True)
    if outcome != Exit.DONE:
        return outcome
    k = notes.used[0].jumps
    notes.values[k, DROP] = p.now[0].start_objective - p.now[0].objective
    notes.counts[k, ROUNDS_MADE] = p.now[0].rounds
    notes.counts[k, SWITCHES_SO_FAR] = p.now[0].switched
    notes.used[0].jumps = k + 1
    p.now[0].stage = RoundStage.AT_REST
    return Exit.ITERATION if (k + 1) % PORTION == 0 else Exit.DONE


@compiled
def steps_of_s(
    w: Walk, p: Split, notes: Notes, kept: Constants, zero: LossCutoffs, inwards: float, ends: Floats
) -> int:
    """Move s from ``ends[0]`` to ``ends[1]``; coefficients change only when a cutoff reaches an example.

    ``zero`` are the cutoffs at s = 0. ``inwards`` is 1 if the cutoffs move inwards as s grows, and -1 if they move
    inwards as s falls. The function returns DONE, NOTES_FULL, ITERATION, STUCK, or a request of ``take_sides``.
    """
    while True:
        if p.now[0].stage == RoundStage.AT_REST:
            k = notes.used[0].legs
            if k == len(notes.values):
                return Exit.NOTES_FULL
            begin_leg(w, p, notes, ends[0])
            for j in range(w.n):
                kept.beta[k, j] = w.examples.beta[j]
            kept.b[k] = w.at[0].b
            notes.used[0].legs = k + 1
            nearest = inwards * max(inwards * ends[0], nearest_cutoff(w, p, zero))
            if inwards * nearest > inwards * ends[1]:
                notes.values[k, END] = ends[1]
                return Exit.DONE
            notes.values[k, END] = nearest
            notes.used[0].still = notes.used[0].still + 1 if abs(nearest - ends[0]) <= p.near else 0
            if notes.used[0].still > STANDSTILLS or not abs(nearest) < np.inf:
                return Exit.STUCK
            ends[0] = nearest
            place_cutoffs(p, zero, inwards * nearest)
            look(w, p)
            for j in range(w.n):
                p.wrong[j] = p.sides[j] == WITHIN if p.at_cutoff[j] else p.proper[j] != p.sides[j]
            begin_jump(p, notes)
        outcome = finish_jump(w, p, notes)
        if outcome != Exit.DONE:
            return outcome


@compiled
def nearest_cutoff(w: Walk, p: Split, zero: LossCutoffs) -> float:
    """Return how far the cutoffs must move inwards to reach the first example that is within its cutoffs."""
    f, low, high, way = w.examples.f, zero.low, zero.high, w.motion.work
    for j in range(w.n):
        below, above = low[j] - f[j], f[j] - high[j]
        closest = below if below > above else above
        way[j] = closest if p.sides[j] == WITHIN else -np.inf
    return -largest(way, w.n, -np.inf)


@compiled
def steps_of_theta(w: Walk, p: Split, notes: Notes, log: Log, pull: Pull, end: float) -> int:
    """Lower theta to ``end``, and record every linear segment of the path in the log.

    Returns an ``Exit``. WITH_TIES means that an example is at a cutoff before the first leg. AT_ONCE means that a leg
    has no length. TIED means that a C-step stalls, and LOST that it has no end. NOTES_FULL, STUCK, ITERATION, and the
    requests of ``track_path`` and ``take_sides`` are returned too. INEXACT and NEED_ROWS may also come from the C-step.
    """
    now = p.now[0]
    if notes.used[0].begun == 0:
        notes.used[0].begun = 1
        look(w, p)
        if now.at_cutoffs > 0:
            return Exit.WITH_TIES
    while True:
        if now.stage == RoundStage.AT_REST:
            if notes.used[0].legs == len(notes.values):
                return Exit.NOTES_FULL
            begin_leg(w, p, notes, p.now[0].theta)
            notes.counts[notes.used[0].legs, SEGMENTS_BEFORE] = log.used[0].segments
            notes.counts[notes.used[0].legs, CHANGES_BEFORE] = log.used[0].changes
            leave_for(w, p, pull, end)
            now.stage = RoundStage.LEAVING
        if now.stage == RoundStage.LEAVING:
            if not set_rate_of_outliers(w, p, pull, end):
                return Exit.NEED_ROWS
            now.stage = RoundStage.LEFT
        if now.stage == RoundStage.LEFT:
            set_out_for(w, p)
            set_out_among_cutoffs(w, p)
            resolve(w)
            record_places(w, log)
            w.at[0].stride_end = PORTION_EVENTS
            now.stage = RoundStage.TRACKING
        if now.stage == RoundStage.TRACKING:
            outcome = track_path(w, log, p.stops)
            if outcome == Exit.STALLED:
                return Exit.TIED
            if outcome == Exit.EXHAUSTED:
                return Exit.LOST
            if outcome != Exit.DONE and outcome != Exit.STOPPED:
                return outcome
            nothing = log.used[0].segments == notes.counts[notes.used[0].legs, SEGMENTS_BEFORE]
            arrive(w, p, pull, notes, end, outcome == Exit.STOPPED)
            now.stage = RoundStage.STOPPING
            if nothing:
                return Exit.AT_ONCE
        if now.stage == RoundStage.STOPPING:
            if notes.used[0].first < 0:
                return Exit.DONE
            if now.since_audit >= SINCE_EXACT and not exact(w, p):
                return Exit.INEXACT
            now.stage = RoundStage.SWITCHING
        if now.stage == RoundStage.SWITCHING:
            if notes.used[0].still > STANDSTILLS:
                return Exit.STUCK
            choose_tied(w, p, notes)
            begin_jump(p, notes)
        outcome = finish_jump(w, p, notes)
        if outcome != Exit.DONE:
            return outcome


@compiled
def leave_for(w: Walk, p: Split, pull: Pull, end: float) -> None:
    """Set every example's losses at theta = ``end``, their rates of change, and the cutoffs that stop the walk."""
    e = w.examples
    rest(w)
    place_stops(p)
    many = 0
    for j in range(w.n):
        pull.indices[many] = j
        many += p.sides[j] != WITHIN
    pull.size[0] = many
    for i in range(many):
        j = pull.indices[i]
        place_levels(w, p, j, end)
        rate = (end - p.now[0].theta) * outermost_level(p, j)
        for q in range(e.dlevels.shape[1]):
            e.dlevels[j, q] = rate
        if not is_free(e.segment[j]):
            w.motion.v[j] = rate


@compiled
def set_rate_of_outliers(w: Walk, p: Split, pull: Pull, end: float) -> bool:
    """Update the rates at which bound outliers change every f as theta moves; return False if a kernel row is missing.

    Only examples that have become or ceased to be bound outliers change the rates. If the kernel row of a former bound
    outlier is missing, the rates are computed again from all bound outliers.
    """
    bound = w.motion.work
    for j in range(w.n):
        bound[j] = 0.0
    for i in range(pull.size[0]):
        j = pull.indices[i]
        bound[j] = outermost_level(p, j) if not is_free(w.examples.segment[j]) else 0.0
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
        add_scaled(w.rows[w.row_of[j]], bound[j] - pull.by[j], pull.sum, w.n)
        pull.by[j] = bound[j]
    way = end - p.now[0].theta
    for j in range(w.n):
        w.motion.bound_rate[j] = way * pull.sum[j]
    return True


@compiled
def differing(bound: Floats, pull: Pull) -> int:
    """Write the examples with a rate that differs from ``bound`` (n,) to ``pull.changed``; return their number."""
    many = 0
    for j in range(bound.size):
        pull.changed[many] = j
        many += bound[j] != pull.by[j]
    return many


@compiled
def arrive(w: Walk, p: Split, pull: Pull, notes: Notes, end: float, stopped: bool) -> None:
    """Give every example its losses at the theta at which the leg has stopped, and end the leg."""
    k = notes.used[0].legs
    note_events(w, p)
    tau = w.at[0].tau if stopped else 0.0
    start = notes.values[k, START]
    theta = end + (start - end) * tau
    p.now[0].theta = theta
    notes.values[k, END] = theta
    notes.used[0].legs = k + 1
    notes.used[0].first = w.at[0].switching if stopped else -1
    notes.used[0].still = notes.used[0].still + 1 if start - theta <= STANDSTILL else 0
    for i in range(pull.size[0]):
        place_levels(w, p, pull.indices[i], theta)
    put_on_levels(w, _SNAP * p.work.now[0].level)


@compiled
def choose_tied(w: Walk, p: Split, notes: Notes) -> None:
    """Choose for a switch all bound examples at a cutoff, and those that a correction has moved beyond a cutoff.

    If the path stalls because several examples at cutoffs block each other, one example at a time switches, so that no
    partition occurs twice.
    """
    look(w, p)
    still = notes.used[0].still > 0
    for j in range(w.n):
        p.wrong[j] = p.proper[j] != p.sides[j]
    for j in range(w.n if p.now[0].at_cutoffs > 0 else 0):
        if p.at_cutoff[j]:
            p.wrong[j] = j == notes.used[0].first or (not still and not is_free(w.examples.segment[j]))
    for j in range(w.n if still else 0):
        p.resting[j] = p.at_cutoff[j]
