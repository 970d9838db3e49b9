"""Computation of a regularization path on a private copy of a model, in parts (*legs*) up and down from its value."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from livesvm.solvers.analyses.regularization.intercept_interval import Tables, centered
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.parametric import track
from livesvm.solvers.homotopy.piecewise import Changes, Segments, places
from livesvm.solvers.homotopy.refresh import restore, take_checkpoint
from livesvm.solvers.homotopy.run import follow
from livesvm.solvers.models.model_view import View
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.runtime.progress import Teller
from livesvm.solvers.runtime.types import Floats, Ints

LEG = 10.0  # a leg goes from a value to at most this multiple of it
STEPS = 1000  # of a path, in reports of progress
ACCEPTABLE = 1e-7  # relative gap at the end of a leg, before correction, beyond which it is walked in two halves
MOST_HALVINGS = 6


class Leg(NamedTuple):
    """A leg: the recorded path from one value of the parameter to another, at most a factor of ten away."""

    start: float
    end: float
    places: Ints  #: (n,) every example's place at the start
    segments: Segments
    changes: Changes

    @property
    def low(self) -> float:
        return min(self.start, self.end)

    @property
    def high(self) -> float:
        return max(self.start, self.end)

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """Return every example's ``segment`` (n,) at the least parameter value of the leg, and at the largest value."""
        both = self.places, places(self.places, self.changes, self.changes.tau.size)
        return both if self.start < self.end else both[::-1]

    def value(self, tau: Floats) -> Floats:
        """Return the value of the parameter at ``tau``."""
        return self.end - tau * (self.end - self.start)

    def tau(self, value: float) -> float:
        """Return the tau at which the parameter has the given value."""
        return (self.end - value) / (self.end - self.start)


class Ended(NamedTuple):
    """The parameter value at which a path ended before its goal, and the reason."""

    value: float
    reason: str


@dataclass(frozen=True)
class PathReport:
    """The cost and the accuracy of a path."""

    events: int  #: changes of sides
    legs: int  #: number of tracked legs of the path
    exchanges: int  #: pivots along a null space, where an example depended on the free ones [Ong et al., eq. 30-34]
    last_resorts: int  #: how often only spreading the ties broke a cycle
    relative_gap: float  #: the largest duality gap at the end of a leg, from recomputed f, before any correction
    seconds: float  #: wall time
    #: the ends, of two, at which the path could not be followed to the acceptable gap any further
    ended: tuple[Ended, ...] = ()


class Walker:
    """Follows a regularization path leg by leg on a private copy of a model."""

    def __init__(self, copy: View, parameter: str, low: float, high: float, teller: Teller) -> None:
        self.copy = copy
        self.state: PathState = copy.state
        self.slots = copy.window.slots
        self.parameter = parameter
        self.low, self.high = low, high
        self.teller = teller
        self.done = 0.0
        self.legs: list[Leg] = []
        self.exchanges = self.last_resorts = 0
        self.gap = 0.0
        self.ended: list[Ended] = []

    def walk(self) -> list[Leg]:
        """Follow the path up and down from the model's value of the parameter; return the legs by ascending value.

        Raises
        ------
        NotOptimal : there is no leg in either direction
        """
        value = float(self.copy.value_of(self.parameter))
        start = min(max(value, self.low), self.high)
        if start != value:
            self.move_to(start)
        here = take_checkpoint(self.state)
        self.walk_to(start, self.high)
        if start > self.low:
            restore(self.state, here)
            self.walk_to(start, self.low)
        if not self.legs and start > self.low:  # the model itself is beyond the reach of the path
            restore(self.state, here)
            self.ended.clear()
            self.move_to(self.low)
            self.walk_to(self.low, self.high)
        if not self.legs:
            raise NotOptimal(self.ended[0].reason)
        self.tell()
        return sorted(self.legs, key=lambda leg: leg.low)

    def report(self, seconds: float) -> PathReport:
        """Return the report on the path: its cost and its accuracy."""
        legs = sorted(self.legs, key=lambda leg: leg.low)
        events = sum(leg.changes.tau.size for leg in legs)
        events += sum(int(np.count_nonzero(low.ends[1] != high.ends[0])) for low, high in pairwise(legs))
        counts = events, len(legs), self.exchanges, self.last_resorts
        return PathReport(*counts, self.gap, seconds, tuple(self.ended))

    def move_to(self, value: float) -> None:
        """Move the copy to its optimum for a value of the parameter, by a path that is not recorded."""
        self.state.set_losses(self.slots, self.copy.losses_at(self.parameter, value))
        self.state.total = self.total()
        follow(self.state)

    def total(self) -> float:
        """Return the required sum of the betas for the copy's present value of the parameter."""
        return self.copy.total_of(float(self.copy.window.weights.sum()))

    def walk_to(self, value: float, goal: float) -> None:
        """Follow the path leg by leg from ``value`` to ``goal``, or until a leg ends with too large a gap."""
        while value != goal:
            far = min(value * LEG, goal) if goal > value else max(value / LEG, goal)
            if (goal > value and self.is_at_rest()) or abs(np.log(goal / far)) < 1e-6:
                far = goal
            if not self.leg(value, far, MOST_HALVINGS):
                return
            self.done += abs(np.log(far / value)) / np.log(self.high / self.low)
            value = far

    def is_at_rest(self) -> bool:
        """Say whether a larger C changes nothing: every bound beta is 0, and every free beta is inside its box."""
        e, free = self.state.examples, self.state.free_slots()
        q = e.segment[free] // 2
        is_inside = (e.beta[free] < e.levels[free, q]) & (e.beta[free] > e.levels[free, q + 1])
        bound = ~are_free(e.segment[self.slots])
        return bool(self.parameter == "C" and not np.any(e.beta[self.slots][bound]) and np.all(is_inside))

    def leg(self, start: float, end: float, halvings: int) -> bool:
        """Follow one leg, or two halves of it if it ends with too large a gap; return whether its end was reached."""
        self.tell()
        before = take_checkpoint(self.state)
        try:
            self.legs.append(self.tracked(start, end))
        except NotOptimal as error:
            if halvings == 0:
                self.ended.append(Ended(start, str(error)))
                return False
            restore(self.state, before)
            middle = float(np.sqrt(start * end))
            return self.leg(start, middle, halvings - 1) and self.leg(middle, end, halvings - 1)
        return True

    def tracked(self, start: float, end: float) -> Leg:
        """Walk one leg.

        Raises
        ------
        NotOptimal : it ended with too large a gap
        """
        then = self.copy.losses_at(self.parameter, start)
        goal = self.copy.losses_at(self.parameter, end)
        share = abs(np.log(end / start)) / np.log(self.high / self.low)
        way = track(self.state, self.slots, goal, self.total(), tell=lambda part: self.tell(part * share))
        if way.relative_gap > ACCEPTABLE:
            raise NotOptimal(f"the path came to {self.parameter} = {end:.6g} with a gap of {way.relative_gap:.1e}")
        self.gap = max(self.gap, way.relative_gap)
        self.exchanges += way.trace.exchanges
        self.last_resorts += way.trace.stalls
        path = way.start, way.segments, way.changes
        if self.state.intercept:
            path = centered(self.state, *path, Tables(then, goal))
        return Leg(start, end, *path)

    def tell(self, more: float = 0.0) -> None:
        """Report the finished share of the path, including ``more`` from the present leg; may raise Cancelled."""
        self.teller(min(round((self.done + more) * STEPS), STEPS), STEPS)
