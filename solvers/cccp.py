"""The concave-convex procedure, the baseline of the outlier paths [Yuille & Rangarajan; Collobert et al.].

At each candidate value, everyone is put on the side where he stands and the convex problem of that partition is
solved, again and again until nobody stands elsewhere. The first candidate starts from the convex model, each other one
from the solution before. The losses are those of the paths, and so is what solves the convex problems: ``follow``,
which takes a few steps from a solution nearby.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.errors import NotOptimal
from solvers.follow import follow
from solvers.incremental import convert
from solvers.live_estimator import LiveEstimator
from solvers.outlier import Begun, begin
from solvers.outlier_legs import Solution
from solvers.outlier_path import arrays_at
from solvers.outlier_steps import solution_of
from solvers.robust_losses import Parameter, Sides, conditional, true_sides
from solvers.robustness import Robustness

Floats = NDArray[np.float64]

MOST_ROUNDS = 500  #: convex problems at one candidate after which it is given up


@dataclass(frozen=True)
class Candidate:
    """What the procedure found at one value."""

    value: float  #: of theta or s
    robustness: Robustness
    objective: float
    rounds: int  #: convex problems
    events: int
    solution: Solution
    sides: Sides  #: (n,)


@dataclass(frozen=True)
class Candidates:
    """What the procedure found at all of them."""

    found: tuple[Candidate, ...]
    begun: Begun

    def at(self, i: int) -> LiveEstimator:
        """Return the model of a candidate: a copy, fitted and live."""
        one = self.found[i]
        return self.begun.restored(arrays_at(self.begun.arrays, one.solution, one.sides, one.robustness))


def cccp(
    model: LiveEstimator,
    parameter: Parameter = "theta",
    candidates: int | Sequence[float] = 5,
    *,
    theta: float = 0.0,
    s: float | None = None,
) -> Candidates:
    """Solve the robust problems of several candidate values one after the other, each from the solution before.

    Parameters
    ----------
    candidates : values of the parameter; or how many, evenly from where ``outlier_path`` starts to where it ends: five
        are those of [Suzumura et al., section 5.2]
    parameter, theta, s : as in ``outlier_path``

    Raises
    ------
    InvalidInput : as ``outlier_path``
    NotOptimal : a convex problem could not be solved, or the rounds do not end
    """
    begun = begin(model, parameter, theta, s)
    values = np.linspace(begun.start, begun.end, candidates) if isinstance(candidates, int) else np.array(candidates)
    return Candidates(tuple(_solve(begun, parameter, float(value)) for value in values), begun)


def _solve(begun: Begun, parameter: Parameter, value: float) -> Candidate:
    partition = begun.partition
    if parameter == "theta":
        partition.theta = value
    else:
        partition.walls = begun.walling.walls(begun.y, value)
    rounds = events = 0
    losses = partition.state.losses(partition.slots)
    while True:
        sides = true_sides(partition.walls, partition.f)
        wanted = conditional(partition.base, sides, partition.theta)
        partition.sides = sides
        changed = np.flatnonzero((losses.levels != wanted.levels).any(axis=1))
        if changed.size == 0:
            break
        if rounds == MOST_ROUNDS:
            raise NotOptimal(f"no end within {MOST_ROUNDS} rounds at {parameter} = {value}")
        convert(partition.state, partition.slots[changed], wanted.of(changed))
        events += follow(partition.state).events
        losses = wanted
        rounds += 1
    robust = Robustness(value, begun.fixed) if parameter == "theta" else Robustness(begun.fixed, value)
    return Candidate(value, robust, partition.objective(), rounds, events, solution_of(partition), sides)
