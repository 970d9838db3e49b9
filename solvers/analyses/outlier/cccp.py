"""The concave-convex procedure, the baseline of the outlier paths [Yuille & Rangarajan; Collobert et al.].

For each candidate value of the parameter the procedure repeats two steps until no example changes sides: it puts every
example on the side of its cutoffs where its f is, and solves the convex problem of this partition. The first candidate
starts from the convex model, and each later candidate from the previous solution. The losses are the same as for the
outlier paths, and the same compiled code solves the convex problems (``livesvm.solvers.robust.d_step``), so that a
comparison of the two methods does not depend on the implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.analyses.outlier.path import Begun, begin
from livesvm.solvers.analyses.outlier.result import arrays_at
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.robust.c_step import WITHOUT_CROSSING, course
from livesvm.solvers.robust.loss_pieces import RoundStage
from livesvm.solvers.robust.partition import Rounds
from livesvm.solvers.robust.path import RobustSolution
from livesvm.solvers.robust.ramp_losses import WITHIN, Parameter, Sides
from livesvm.solvers.robust.settings import Robustness


@dataclass(frozen=True)
class Candidate:
    """The solution of the procedure for one value of the parameter."""

    value: float  #: of theta or s
    robustness: Robustness
    objective: float
    rounds: int  #: convex problems
    events: int
    solution: RobustSolution
    sides: Sides  #: (n,)


@dataclass(frozen=True)
class Candidates:
    """The solutions of the procedure for all candidate values."""

    found: tuple[Candidate, ...]
    begun: Begun

    def at(self, i: int) -> LiveEstimator:
        """Return the model of candidate ``i`` as a fitted, live copy."""
        one = self.found[i]
        return self.begun.path.restored(arrays_at(self.begun.path.arrays, one.solution, one.sides, one.robustness))


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
    model : live estimator
        Fitted; it is not changed.
    parameter : {"theta", "s"}, default "theta"
        Which of the two runs: theta falls from 1 while the cutoffs stand at ``s``, or the cutoffs come in until ``s``
        while a loss keeps the share ``theta`` of its slope beyond them.
    candidates : int or sequence of float, default 5
        Values of the parameter; or how many, evenly from where ``outlier_path`` starts to where it ends: five are
        those of [Suzumura et al., section 5.2].
    theta : float, default 0
        The least share of slope, in [0, 1).
    s : float or None, default None
        Where the cutoffs end: of classes a margin, at most 0, by default 0; of regression the size of a residual, in
        units of y, by default with "theta" 3.7 times their median, with "s" a fifth of the largest.

    Returns
    -------
    Candidates
        A solution for each value, in their order.

    Raises
    ------
    InvalidInput
        A parameter cannot be used.
    NotOptimal
        A convex problem could not be solved, or the rounds do not end.
    """
    begun = begin(model, parameter, theta, s)
    start, end = begun.path.start, begun.path.end
    values = np.linspace(start, end, candidates) if isinstance(candidates, int) else np.array(candidates)
    rounds = Rounds(begun.partition)
    rounds.p = rounds.p._replace(near=-1.0)  # no example counts as at a cutoff: it is beyond it or within
    return Candidates(tuple(_solve(rounds, begun, parameter, value) for value in values.tolist()), begun)


def _solve(rounds: Rounds, begun: Begun, parameter: Parameter, value: float) -> Candidate:
    """Solve the robust problem for ``value``, starting from the solution for the previous value."""
    before = rounds.events
    _turn_to(rounds, begun, parameter, value)
    rounds.run(course(WITHOUT_CROSSING))
    state, now = rounds.state, rounds.p.now[0]
    found = Candidate(
        value,
        Robustness(value, begun.path.fixed) if parameter == "theta" else Robustness(begun.path.fixed, value),
        float(now.objective),
        int(now.rounds),
        rounds.events - before,
        RobustSolution(state.examples.beta[: rounds.w.n].copy(), state.examples.segment[: rounds.w.n].copy(), state.b),
        rounds.sides.copy(),
    )
    now.stage = RoundStage.AT_REST
    rounds.freshen()
    return found


def _turn_to(rounds: Rounds, begun: Begun, parameter: Parameter, value: float) -> None:
    """Set theta or the cutoffs to ``value``, and mark the examples with losses that this changes."""
    p, now = rounds.p, rounds.p.now[0]
    if parameter == "theta":
        now.theta = value
    else:
        cutoffs = begun.cutoff_rule.cutoffs(begun.y, value)
        p.cutoffs.low[:], p.cutoffs.high[:] = cutoffs.low, cutoffs.high
    rounds.look()
    p.wrong[:] = p.proper != p.sides
    if parameter == "theta":
        p.wrong[:] |= p.sides != WITHIN  # theta decides their levels
    now.rounds = now.switched = 0
    now.stage = RoundStage.CHOSEN
