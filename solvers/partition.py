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
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.compile import compiled
from solvers.errors import NotOptimal
from solvers.follow import follow
from solvers.incremental import convert
from solvers.losses import Losses
from solvers.robust_losses import BELOW, BEYOND, WITHIN, Sides, Walls, conditional
from solvers.state import PathState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AT_WALL = 1e-9  #: f this close to a wall, of the largest finite kink or wall, is at it
ROUNDING = 1e-9  #: a rise of the objective by this share of itself is rounding
MOST_ROUNDS = 500  #: switches in a row after which a D-step is given up


class Look(NamedTuple):
    """Where everyone stands."""

    objective: float  #: robust, not convex and with nothing dropped
    proper: Sides  #: (m,) the true side of everyone; of those at a wall, the other one than they count on
    at_wall: Bools  #: (m,)


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

    @cached_property
    def tolerance(self) -> float:
        """How close to its wall an f is at it, in units of f."""
        tables = (self.base.kinks, self.walls.low, self.walls.high)
        return AT_WALL * max(float(np.abs(t[np.isfinite(t)]).max(initial=0.0)) for t in tables)

    @property
    def f(self) -> Floats:
        """Decision values, (m,)."""
        return self.state.examples.f[self.slots]

    def look(self) -> Look:
        """Say where everyone stands, by the f that is tracked."""
        true, at_wall = np.empty(self.slots.size, np.int8), np.empty(self.slots.size, np.bool_)
        e, base, walls = self.state.examples, self.base, self.walls
        objective = _look(
            e.f, e.beta, self.state.b, self.slots, base, walls, self.theta, self.sides, self.tolerance, true, at_wall
        )
        return Look(objective, true, at_wall)

    def objective(self) -> float:
        """Return the robust objective, not convex and with nothing dropped."""
        return self.look().objective

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
    """Switch all ``tied`` examples (m,), who stand at a wall, at once; follow, until everyone is on the true side.

    Raises
    ------
    NotOptimal : the objective rose, or the switches do not end
    """
    seen = partition.look()
    return _descend(partition, seen, tied & seen.at_wall)


def settle(partition: Partition) -> Descent:
    """From the optimum of any partition, let examples switch until everyone is on the true side.

    Raises
    ------
    NotOptimal : see ``descend``
    """
    seen = partition.look()
    return _descend(partition, seen, misplaced(partition, seen))


def _descend(partition: Partition, seen: Look, wrong: Bools) -> Descent:
    """Switch who is ``wrong``, and so on.

    An example that stands at its wall in the end, because others hold its f there, is optimal on either side: that has
    been tried, and it rests there.
    """
    done = Descent([])
    start = seen.objective
    while wrong.any():
        who = np.flatnonzero(wrong)
        partition.switch(who, seen.proper[who])
        done.switched += zip(who.tolist(), seen.proper[who].tolist(), strict=True)
        done.rounds += 1
        if partition.theta == 1.0:
            break  # both sides are the same still: nothing moves, not even b where nobody is free
        done.events += follow(partition.state).events
        before, seen = seen.objective, partition.look()
        if seen.objective > before + ROUNDING * max(abs(before), abs(seen.objective)):
            raise NotOptimal(f"the objective rose from {before} to {seen.objective} at a D-step")
        if done.rounds > MOST_ROUNDS:
            raise NotOptimal(f"a D-step did not end within {MOST_ROUNDS} rounds")
        wrong = misplaced(partition, seen)
    done.drop = start - seen.objective
    return done


def misplaced(partition: Partition, seen: Look) -> Bools:
    """Say who is not on the side where he should be, (m,); who has come to a wall must try its other side."""
    wrong: Bools = (seen.proper != partition.sides) & ~(seen.at_wall & partition.resting)
    partition.resting = seen.at_wall
    return wrong


@compiled
def _look(
    f_of: Floats,
    beta_of: Floats,
    b: float,
    slots: Ints,
    base: Losses,
    walls: Walls,
    theta: float,
    sides: Sides,
    tolerance: float,
    proper: Sides,
    at_wall: Bools,
) -> float:
    objective = 0.0
    for i in range(slots.size):
        f, beta, p = f_of[slots[i]], beta_of[slots[i]], base.n_kinks[i]
        first, last = base.levels[i, 0], base.levels[i, p]
        low, high = walls.low[i], walls.high[i]
        objective += 0.5 * beta * (f - b)
        if p > 0:
            objective -= first * (f - base.kinks[i, 0])
            for q in range(p):
                objective += (base.levels[i, q] - base.levels[i, q + 1]) * max(0.0, f - base.kinks[i, q])
        proper[i] = WITHIN
        if f < low:
            objective += (1.0 - theta) * first * (f - low)
            proper[i] = BELOW
        elif f > high:
            objective += (1.0 - theta) * last * (f - high)
            proper[i] = BEYOND
        at_wall[i] = abs(f - low) <= tolerance or abs(f - high) <= tolerance
        if at_wall[i]:
            nearest = BELOW if abs(f - low) < abs(f - high) else BEYOND
            proper[i] = nearest if sides[i] == WITHIN else WITHIN
    return objective
