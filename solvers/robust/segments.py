"""Legs of an outlier path: between two D-steps sides are fixed, and the solution is linear in the value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.homotopy.piecewise import Changes, Segments, position
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.robust.ramp_losses import Sides, conditional
from livesvm.solvers.runtime.types import Floats

Places = NDArray[np.integer[Any]]

AT_ONCE = 256  # solutions
JOINS, LEAVES, CROSSES = "joins margin", "leaves margin", "crosses margin"


class RobustSolution(NamedTuple):
    """Coefficients at one value, by position in the window."""

    beta: Floats  #: (n,)
    segment: Places  #: (n,) places on the staircase, see ``livesvm.solvers.problem.state``
    b: float


class Nodes(NamedTuple):
    """The solutions at the breakpoints of a leg."""

    values: Floats  #: (k,)
    beta: Floats  #: (k, n)
    b: Floats  #: (k,)


@dataclass(frozen=True)
class ConstantSegment:
    """A segment from ``start`` to ``end`` on which nothing moves: outliers have no weight."""

    start: float
    end: float
    sides: Sides  #: (n,) on which side of its cutoffs each example counts
    solution: RobustSolution

    def at(self, value: float) -> RobustSolution:
        """Return the solution at a value of the leg."""
        return self.solution

    def nodes(self, last: bool) -> Iterator[Nodes]:
        """Yield the one solution there is."""
        yield Nodes(np.array([self.start]), self.solution.beta[None, :], np.array([self.solution.b]))

    def breakpoints_within(self) -> list[tuple[float, int, str]]:
        """Return nothing: no example moves."""
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
        """Yield the solutions at the breakpoints, as many at a time as are cheap to hold."""
        tau = self.segments.start_tau
        tau = np.append(tau, self.segments.end_tau[-1:]) if last else tau
        values = self.goal + (self.start - self.goal) * tau
        for start in range(0, tau.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found = [self._solution(r, value) for r, value in zip(tau[part], values[part], strict=True)]
            yield Nodes(values[part], np.array([x.beta for x in found]), np.array([x.b for x in found]))

    def breakpoints_within(self) -> list[tuple[float, int, str]]:
        """Return which examples join, leave or cross the margin, and at which value."""
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
