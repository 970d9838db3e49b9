"""The concave-convex procedure, the baseline of the outlier paths [Yuille & Rangarajan; Collobert et al.].

At each candidate value, everyone is put on the side where he stands and the convex problem of that partition is
solved, again and again until nobody stands elsewhere. The first candidate starts from the convex model, each other one
from the solution before. The losses are those of the paths, and so is what solves the convex problems, the compiled
rounds of ``livesvm.solvers.robust.c_step``: the two differ in what they compute, not in how well it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.analyses.outlier.cccp_rounds import EVENTS, ROUNDS, Found, rounds_of_cccp
from livesvm.solvers.analyses.outlier.path import Begun, begin
from livesvm.solvers.analyses.outlier.result import arrays_at
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.robust.legs import Solution
from livesvm.solvers.robust.partition import Rounds
from livesvm.solvers.robust.ramp_losses import Parameter, Sides
from livesvm.solvers.robust.settings import Robustness


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
    rounds, n = Rounds(begun.partition), begun.y.size
    rounds.p = rounds.p._replace(near=-1.0)  # nobody is at a wall: whoever is not beyond it is within
    found = _empty(values.size, n)
    zero, inwards = begun.walling.walls(begun.y, 0.0), begun.walling.inwards if parameter == "s" else 0.0
    while rounds.run(rounds_of_cccp, found, values, zero, inwards, until=(Exit.STRIDE,)) != Exit.DONE:
        rounds.freshen()
    candidate = partial(_candidate, found, parameter, begun.fixed)
    return Candidates(tuple(candidate(k, value) for k, value in enumerate(values.tolist())), begun)


def _candidate(found: Found, parameter: Parameter, fixed: float, k: int, value: float) -> Candidate:
    """Return what was found at one value."""
    return Candidate(
        value,
        Robustness(value, fixed) if parameter == "theta" else Robustness(fixed, value),
        float(found.objective[k]),
        int(found.counts[k, ROUNDS]),
        int(found.counts[k, EVENTS]),
        Solution(found.beta[k], found.segment[k], float(found.b[k])),
        found.sides[k],
    )


def _empty(k: int, n: int) -> Found:
    """Return room for what ``k`` candidates find."""
    return Found(
        np.empty((k, n)),
        np.empty((k, n), np.int8),
        np.empty((k, n), np.int8),
        np.empty(k),
        np.empty(k),
        np.zeros((k, 2), np.int64),
        np.zeros(1, np.int64),
    )
