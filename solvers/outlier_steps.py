"""The two outlier paths: C-steps where nobody switches, D-steps where somebody does [Suzumura et al., Alg. 1]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.errors import NotOptimal
from solvers.outlier_legs import ConstantLeg, Leg, Solution, linear_leg
from solvers.partition import Partition, descend
from solvers.robust_losses import WITHIN, Walling, conditional
from solvers.tracked import track
from solvers.tracking import Walls

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

STANDSTILL = 1e-12  #: a C-step that takes theta down by no more than this makes no progress
STANDSTILLS = 1000  #: C-steps without progress after which a path is given up


@dataclass
class Jump:
    """One D-step: at which value, and who went to which side, by position."""

    value: float
    switched: list[tuple[int, int]]
    rounds: int
    drop: float  #: of the objective


@dataclass
class Walked:
    """What a path is made of: legs in order, with a D-step between each two."""

    legs: list[Leg] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    events: int = 0
    stalls: int = 0  #: how often ties had to be spread

    def jump(self, partition: Partition, tied: Bools, value: float) -> None:
        """Make the D-step at a value."""
        done = descend(partition, tied)
        self.jumps.append(Jump(value, done.switched, done.rounds, done.drop))
        self.events += done.events


def stay(partition: Partition, start: float, end: float) -> Walked:
    """Return the path on which nobody is beyond a wall, and so nothing happens."""
    return Walked([ConstantLeg(start, end, partition.sides.copy(), solution_of(partition))])


def walk_theta(partition: Partition, end: float, tell: Callable[[float], None]) -> Walked:
    """Let theta fall from what it is to ``end``; ``tell`` hears where it is, from 0 to 1, and may raise Cancelled."""
    walked = Walked()
    start = partition.theta
    still = 0
    while True:
        tell((start - partition.theta) / (start - end))
        theta, sides = partition.theta, partition.sides.copy()
        losses = conditional(partition.base, sides, end)
        way = track(partition.state, partition.slots, losses, partition.state.total, walls=_by_slot(partition))
        partition.theta = end + (theta - end) * way.rho
        if way.segments.start_rho.size:
            walked.legs.append(linear_leg(partition, sides, theta, end, way))
        else:  # a wall was there at once
            walked.legs.append(ConstantLeg(theta, partition.theta, sides, solution_of(partition)))
        walked.events += way.trace.events
        walked.stalls += way.trace.stalls
        if way.rho == 0.0:
            return walked
        still = still + 1 if theta - partition.theta <= STANDSTILL else 0
        tied = way.tied
        if still:  # of several at their walls who hold each other, one at a time: then no partition comes twice
            tied = way.tied[:1]
            partition.resting = partition.look().at_wall
        walked.jump(partition, np.isin(partition.slots, tied), partition.theta)
        if still > STANDSTILLS:
            raise NotOptimal(f"the path stands still at theta = {theta}")


def _by_slot(partition: Partition) -> Walls:
    n = partition.state.n_slots
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    sides, slots = partition.sides, partition.slots
    low[slots] = np.where(sides > WITHIN, partition.walls.high, np.where(sides < WITHIN, -np.inf, partition.walls.low))
    high[slots] = np.where(sides < WITHIN, partition.walls.low, np.where(sides > WITHIN, np.inf, partition.walls.high))
    return Walls(low, high, partition.tolerance)


def walk_s(
    partition: Partition, walling: Walling, y: Floats, start: float, end: float, tell: Callable[[float], None]
) -> Walked:
    """Let s go from ``start`` to ``end``; nothing moves until a wall reaches somebody. ``y`` (m,): targets."""
    walked = Walked()
    inwards = walling.inwards
    s = start
    still = 0
    while True:
        tell((s - start) / (end - start))
        ahead = np.where(partition.sides == WITHIN, inwards * walling.reach(y, partition.f), np.inf)
        nearest = inwards * max(inwards * s, float(ahead.min()))
        over = inwards * nearest > inwards * end
        walked.legs.append(ConstantLeg(s, end if over else nearest, partition.sides.copy(), solution_of(partition)))
        if over:
            return walked
        still = still + 1 if nearest == s else 0
        if still > STANDSTILLS:
            raise NotOptimal(f"the path stands still at s = {s}")
        s = nearest
        partition.walls = walling.walls(y, s)
        walked.jump(partition, np.abs(ahead - inwards * s) <= partition.tolerance, s)


def solution_of(partition: Partition) -> Solution:
    """Return the coefficients that a partition's state has now."""
    e, slots = partition.state.examples, partition.slots
    return Solution(e.beta[slots].copy(), e.seg[slots].copy(), partition.state.b)
