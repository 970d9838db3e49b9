"""Examples under robust losses, each on a side of its walls, and the D-step that settles who is on which.

With everyone's side fixed the problem is convex: its losses majorize the robust ones and touch them where an example is
on its true side. The D-step [Suzumura et al., section 4.4] switches all examples that stand at a wall to the other
side at once and follows the path to the optimum of the new losses. The majorant was the true objective where the step
began and is not below it where it ends, so the true objective falls, strictly if anybody moved. Who ends on the wrong
side switches next; partitions are finitely many, so this ends, and then everyone is on the true side: the model
satisfies the conditions of Theorems 4 and 5. The paper keeps everyone within walls meanwhile; this needs none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers import robust_losses
from solvers.errors import NotOptimal
from solvers.follow import follow
from solvers.incremental import convert
from solvers.losses import Losses
from solvers.robust_losses import WITHIN, Sides, Walls, conditional, true_sides
from solvers.state import PathState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AT_WALL = 1e-9  #: f this close to a wall, of the largest finite kink or wall, is at it
ROUNDING = 1e-9  #: a rise of the objective by this share of itself is rounding
MOST_ROUNDS = 500  #: switches in a row after which a D-step is given up


@dataclass
class Partition:
    """A state whose examples have the losses of the sides that they count on.

    ``base`` holds their convex losses, ``slots`` where they are; all by position, ``m`` examples.
    """

    state: PathState
    slots: Ints  #: (m,)
    base: Losses
    walls: Walls
    theta: float
    sides: Sides  #: (m,)
    resting: Bools = field(init=False)  #: (m,) who stands at a wall, and has tried both sides

    def __post_init__(self) -> None:
        self.resting = np.zeros(self.slots.size, np.bool_)

    @property
    def f(self) -> Floats:
        """Decision values, (m,)."""
        return self.state.examples.f[self.slots]

    @property
    def tolerance(self) -> float:
        """How close to its wall an f is at it, in units of f."""
        tables = (self.base.kinks, self.walls.low, self.walls.high)
        return AT_WALL * max(float(np.abs(t[np.isfinite(t)]).max(initial=0.0)) for t in tables)

    def objective(self) -> float:
        """Return the robust objective, not convex and with nothing dropped, by the f that is tracked."""
        state, f = self.state, self.f
        beta = state.examples.beta[self.slots]
        losses = robust_losses.values(self.base, self.walls, self.theta, f)
        return 0.5 * float(beta @ (f - state.b)) + float(losses.sum())

    def at_wall(self) -> Bools:
        """Say who stands at a wall, (m,)."""
        f, tolerance = self.f, self.tolerance
        near: Bools = (np.abs(f - self.walls.low) <= tolerance) | (np.abs(f - self.walls.high) <= tolerance)
        return near

    def across(self) -> Sides:
        """Return the side that everyone would have after crossing the wall next to it, (m,)."""
        f = self.f
        nearest = np.where(np.abs(f - self.walls.low) < np.abs(f - self.walls.high), -1, 1)
        return np.where(self.sides == WITHIN, nearest, WITHIN).astype(np.int8)

    def switch(self, who: Ints, sides: Sides) -> None:
        """Let examples count on other sides; the state is then not optimal until ``follow``."""
        self.sides[who] = sides
        convert(self.state, self.slots[who], conditional(self.base.of(who), self.sides[who], self.theta))


@dataclass
class Descent:
    """What D-steps did."""

    switched: list[tuple[int, int]]  #: position and new side, in order
    rounds: int = 0
    events: int = 0
    drop: float = 0.0  #: of the objective


def descend(partition: Partition, tied: Bools) -> Descent:
    """Switch all ``tied`` examples (m,) at once, follow, and go on until everyone is on the true side.

    Raises
    ------
    NotOptimal : the objective rose, or the switches do not end
    """
    return _descend(partition, partition.across(), tied)


def settle(partition: Partition) -> Descent:
    """From the optimum of any partition, let examples switch until everyone is on the true side.

    Raises
    ------
    NotOptimal : see ``descend``
    """
    return _descend(partition, *misplaced(partition))


def _descend(partition: Partition, sides: Sides, wrong: Bools) -> Descent:
    """Switch who is ``wrong`` to the ``sides`` (m,) named, and so on.

    An example that stands at its wall in the end, because others hold its f there, is optimal on either side: that has
    been tried, and it rests there.
    """
    done = Descent([])
    start = before = partition.objective()
    while wrong.any():
        who = np.flatnonzero(wrong)
        partition.switch(who, sides[who])
        done.switched += zip(who.tolist(), sides[who].tolist(), strict=True)
        done.rounds += 1
        if partition.theta == 1.0:
            break  # both sides are the same still: nothing moves, not even b where nobody is free
        done.events += follow(partition.state).events
        now = partition.objective()
        if now > before + ROUNDING * max(abs(before), abs(now)):
            raise NotOptimal(f"the objective rose from {before} to {now} at a D-step")
        if done.rounds > MOST_ROUNDS:
            raise NotOptimal(f"a D-step did not end within {MOST_ROUNDS} rounds")
        before = now
        sides, wrong = misplaced(partition)
    done.drop = start - before
    return done


def misplaced(partition: Partition) -> tuple[Sides, Bools]:
    """Return on which side everyone should be, and who is elsewhere; who has come to a wall must try its other side."""
    at = partition.at_wall()
    true = true_sides(partition.walls, partition.f)
    fresh = at & ~partition.resting
    partition.resting = at
    return np.where(at, partition.across(), true), np.where(at, fresh, true != partition.sides)
