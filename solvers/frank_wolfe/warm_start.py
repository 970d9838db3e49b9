"""A start from the solution of another problem that shares examples with this one: a window that has slid."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.frank_wolfe.problem import Known, Problem
from livesvm.solvers.runtime.types import Ints


def carried(problem: Problem, before: Problem, known: Known, places: Ints) -> Known:
    """Return the coefficients of ``before`` for those who stayed, 0 for those who came, and their parts of g.

    Only what has left is taken from g, and only for those who came it is computed: no more than their share of the time
    that g takes.

    Parameters
    ----------
    places : (n,) where the examples of ``problem`` were in ``before``, -1: nowhere. Where costs, labels
        or the kernel have changed, all of g is computed
    """
    stay = np.flatnonzero(places >= 0)
    was = places[stay]
    new = np.flatnonzero(places < 0)
    b = np.zeros(problem.n)
    b[stay] = known.b[was]
    same = (problem.y[stay] == before.y[was]) & (problem.costs[stay] == before.costs[was])
    if not same.all() or problem.examples.kernel != before.examples.kernel:
        return Known(b, problem.parts(problem.examples, b))
    gone = known.b.copy()
    gone[was] = 0.0
    parts = np.zeros((2, problem.n))
    parts[:, stay] = known.parts[:, was] - before.parts(before.examples, gone, was)
    parts[:, new] = problem.parts(problem.examples, b, new)
    return Known(b, parts)
