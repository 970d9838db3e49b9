"""The two outlier paths: C-steps where no example switches, D-steps where an example does [Suzumura et al., Alg. 1].

Between two D-steps is a leg, on which the sides of examples are fixed, and the solution is piecewise linear in the
parameter, theta or s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.recorder import Log, empty_log
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.piecewise import Changes, Segments, joined, position
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.robust import c_step as tracks
from livesvm.solvers.robust.c_step import OVER_S, OVER_THETA, Constants, Course, Notes, Pull, course
from livesvm.solvers.robust.partition import Partition, Rounds
from livesvm.solvers.robust.ramp_losses import CutoffRule, Sides, conditional
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.interrupt import COPY, parts
from livesvm.solvers.runtime.types import Floats, Ints

Places = NDArray[np.integer[Any]]

AT_ONCE = 256  # solutions
JOINS, LEAVES, CROSSES = "joins margin", "leaves margin", "crosses margin"


class RobustSolution(NamedTuple):
    """Coefficients at one value of the parameter, by position in the window."""

    beta: Floats  #: (n,)
    segment: Places  #: (n,) places on the staircase, see ``livesvm.solvers.problem.state``
    b: float


class Nodes(NamedTuple):
    """A block of solutions at consecutive breakpoints of a leg."""

    values: Floats  #: (k,)
    beta: Floats  #: (k, n)
    b: Floats  #: (k,)


@dataclass(frozen=True)
class ConstantSegment:
    """A leg from ``start`` to ``end`` on which no coefficient changes, as outliers have no weight."""

    start: float
    end: float
    sides: Sides  #: (n,) on which side of its cutoffs each example counts
    solution: RobustSolution

    def at(self, value: float) -> RobustSolution:
        """Return the solution at a value of the leg."""
        return self.solution

    def nodes(self, last: bool) -> Iterator[Nodes]:
        """Yield one block with the only solution of the leg."""
        yield Nodes(np.array([self.start]), self.solution.beta[None, :], np.array([self.solution.b]))

    def breakpoints_within(self) -> list[tuple[float, int, str]]:
        """Return an empty list: on this leg no example moves."""
        return []


@dataclass(frozen=True)
class LinearSegment:
    """A leg on which the weights of outliers shrink in proportion to theta."""

    start: float
    end: float
    goal: float  #: the theta that the leg was heading for
    sides: Sides
    base: Losses
    before: Places  #: (n,) places on the staircase at the start
    segments: Segments  #: slots are positions here
    changes: Changes

    def at(self, value: float) -> RobustSolution:
        """Return the solution at a value of the leg."""
        tau = float(np.clip((value - self.goal) / (self.start - self.goal), 0.0, 1.0))
        return self._solution(tau, value)

    def nodes(self, last: bool) -> Iterator[Nodes]:
        """Yield the solutions at the breakpoints, in blocks that take little memory."""
        tau = self.segments.start_tau
        tau = np.append(tau, self.segments.end_tau[-1:]) if last else tau
        values = self.goal + (self.start - self.goal) * tau
        for start in range(0, tau.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found = [self._solution(r, value) for r, value in zip(tau[part], values[part], strict=True)]
            yield Nodes(values[part], np.array([x.beta for x in found]), np.array([x.b for x in found]))

    def breakpoints_within(self) -> list[tuple[float, int, str]]:
        """Return the examples that join, leave or cross the margin, each with the parameter's value at this event."""
        c = self.changes
        values = self.goal + (self.start - self.goal) * c.tau
        free_before, free_after = are_free(c.before), are_free(c.after)
        events = np.where(free_after > free_before, JOINS, np.where(free_after < free_before, LEAVES, CROSSES))
        return list(zip(values.tolist(), c.slot.tolist(), events.tolist(), strict=True))

    def _solution(self, tau: float, theta: float) -> RobustSolution:
        levels = conditional(self.base, self.sides, theta).levels
        segment, beta, b = position(self.before.astype(np.int64), self.segments, self.changes, tau, levels)
        return RobustSolution(beta, segment, b)


Leg = ConstantSegment | LinearSegment


SEGMENTS = 512  #: linear pieces with space at first; memory that is not written to costs nothing
LEGS = 256  #: legs likewise

STOPS_OF_S = (Exit.ITERATION, Exit.NOTES_FULL, Exit.STUCK)
STOPS_OF_THETA = (*STOPS_OF_S, Exit.LOG_FULL, Exit.AT_ONCE, Exit.TIED, Exit.LOST, Exit.WITH_TIES)


@dataclass
class Jump:
    """One D-step: the parameter's value, and the new side of each example that switched, by position."""

    value: float
    switched: list[tuple[int, int]]
    rounds: int
    drop: float  #: of the objective


@dataclass
class Walked:
    """The legs of a path in order, with a D-step between each two; both lists are built when first asked for."""

    made: Callable[[], tuple[list[Leg], list[Jump]]]
    events: int = 0
    stalls: int = 0  #: how often ties had to be spread

    @cached_property
    def _parts(self) -> tuple[list[Leg], list[Jump]]:
        return self.made()

    @property
    def legs(self) -> list[Leg]:
        """The parts of the path on which no example changes its side."""
        return self._parts[0]

    @property
    def jumps(self) -> list[Jump]:
        """The D-steps, one at the end of each leg except the last."""
        return self._parts[1]


def stay(partition: Partition, start: float, end: float) -> Walked:
    """Return the path without events, for a partition with no example beyond a cutoff."""
    legs: list[Leg] = [ConstantSegment(start, end, partition.sides.copy(), solution_of(partition))]
    return Walked(partial(_only, legs))


def _only(legs: list[Leg]) -> tuple[list[Leg], list[Jump]]:
    """Return the given legs, and an empty list of D-steps."""
    return legs, []


def solution_of(partition: Partition) -> RobustSolution:
    """Return the present coefficients of a partition's state, as a solution."""
    e, slots = partition.state.examples, partition.slots
    return RobustSolution(e.beta[slots].copy(), e.segment[slots].copy(), partition.state.b)


def walk_s(
    partition: Partition, cutoff_rule: CutoffRule, y: Floats, start: float, end: float, tell: Callable[[float], None]
) -> Walked:
    """Move s from ``start`` to ``end``; coefficients change only when a cutoff reaches an example.

    ``y`` (m,) are the targets. ``tell`` is called with the progress, from 0 to 1, and may raise Cancelled.

    Raises
    ------
    NotOptimal : a D-step failed, or the path stands still
    """
    rounds, m = Rounds(partition), partition.slots.size
    c = course(OVER_S, (start, end), LEGS, m)._replace(inwards=cutoff_rule.inwards, zero=cutoff_rule.cutoffs(y, 0.0))
    while True:
        exit_ = rounds.run(c, STOPS_OF_S)
        if exit_ == Exit.DONE:
            break
        tell((c.ends[0] - start) / (end - start))
        if exit_ == Exit.STUCK:
            raise NotOptimal(f"the path stands still at s = {c.ends[0]}")
        if exit_ == Exit.NOTES_FULL:
            c = _roomier(c)
        rounds.freshen()
    return Walked(partial(_constant_legs, c.notes, c.kept, rounds.switched), rounds.events, rounds.stalls)


def _constant_legs(notes: Notes, kept: Constants, switched: tuple[Ints, Sides]) -> tuple[list[Leg], list[Jump]]:
    """Return the legs and D-steps of a path over s."""
    notes = _trimmed(notes)
    legs: list[Leg] = [
        ConstantSegment(start, end, notes.sides[k], RobustSolution(kept.beta[k], notes.segment[k], b))
        for k, ((start, end, _), b) in enumerate(zip(notes.values.tolist(), kept.b.tolist(), strict=False))
    ]
    return legs, _jumps(notes, switched)


def walk_theta(partition: Partition, end: float, tell: Callable[[float], None]) -> Walked:
    """Lower theta to ``end``; ``tell`` is called with the progress, from 0 to 1, and may raise Cancelled.

    Raises
    ------
    NotOptimal : a C-step or a D-step failed, or the path stands still
    """
    rounds, state = Rounds(partition), partition.state
    n, start = state.n_slots, partition.theta
    log = empty_log(n, SEGMENTS, SEGMENTS * (state.n_free + 16) + n)
    pull = Pull(np.zeros(n), np.zeros(n), np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(1, np.int64))
    c = course(OVER_THETA, (start, end), LEGS, partition.slots.size)._replace(log=log, pull=pull)
    at_once: dict[int, RobustSolution] = {}
    while True:
        exit_ = rounds.run(c, STOPS_OF_THETA)
        if exit_ == Exit.DONE:
            break
        if exit_ == Exit.WITH_TIES:
            rounds.part_at_cutoffs()
            continue
        partition.theta = float(rounds.p.now[0].theta)
        tell((start - partition.theta) / (start - end))
        if exit_ in (Exit.STUCK, Exit.LOST):
            raise NotOptimal(f"the path stands still at theta = {partition.theta}")
        if exit_ == Exit.LOG_FULL:
            c = c._replace(log=Log._make([*_doubled(c.log[:-2]), c.log.used, c.log.seen]))
        elif exit_ == Exit.NOTES_FULL:
            c = _roomier(c)
        elif exit_ == Exit.AT_ONCE:
            at_once[int(c.notes.used[0].legs) - 1] = solution_of(partition)
        elif exit_ == Exit.TIED:
            if not rounds.spread_ties():
                raise NotOptimal(f"the path stalls at theta = {partition.theta}")
        else:
            rounds.w.at[0].stride_end += tracks.PORTION_EVENTS
        rounds.freshen()
    made = partial(_linear_legs, partition.base, c.notes, c.log, end, at_once, rounds.switched)
    return Walked(made, rounds.events, rounds.stalls)


def _linear_legs(
    base: Losses,
    notes: Notes,
    log: Log,
    goal: float,
    at_once: dict[int, RobustSolution],
    switched: tuple[Ints, Sides],
) -> tuple[list[Leg], list[Jump]]:
    """Return the legs and D-steps of a path over theta, in which slots equal positions in the window."""
    notes = _trimmed(notes)
    segments, changes = joined([log])
    legs: list[Leg] = []
    before = [*notes.counts[:, :2].tolist(), [segments.start_tau.size, changes.tau.size]]
    for k, (start, end, _) in enumerate(notes.values.tolist()):
        if k in at_once:
            legs.append(ConstantSegment(start, end, notes.sides[k], at_once[k]))
            continue
        (first, first_change), (last, last_change) = before[k], before[k + 1]
        mine = segments.part(slice(first, last), first_change)
        events = Changes._make(a[first_change:last_change] for a in changes)
        legs.append(LinearSegment(start, end, goal, notes.sides[k], base, notes.segment[k], mine, events))
    return legs, _jumps(notes, switched)


def _jumps(notes: Notes, switched: tuple[Ints, Sides]) -> list[Jump]:
    """Return the D-steps that ``notes`` recorded."""
    (indices, to), jumps, first = (a.tolist() for a in switched), [], 0
    for k in range(notes.used[0].jumps):
        _, value, drop = notes.values[k].tolist()
        _, _, rounds, last = notes.counts[k].tolist()
        jumps.append(Jump(value, list(zip(indices[first:last], to[first:last], strict=True)), rounds, drop))
        first = last
    return jumps


def _roomier(c: Course) -> Course:
    """Return a course with twice the space for notes."""
    notes, kept = Notes._make([*_doubled(c.notes[:-1]), c.notes.used]), Constants._make(_doubled(c.kept))
    return c._replace(notes=notes, kept=kept)


def _trimmed(notes: Notes) -> Notes:
    """Return notes without unused space."""
    legs = int(notes.used[0].legs)
    return Notes._make([*(a[:legs].copy() for a in notes[:-1]), notes.used])


def _doubled(arrays: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return copies with twice as many rows; the new rows are not initialized."""
    out = []
    for a in arrays:
        larger = np.empty((2 * len(a), *a.shape[1:]), a.dtype)
        for part in parts(len(a), COPY * a[:1].size):
            larger[: len(a)][part] = a[part]
        out.append(larger)
    return out
