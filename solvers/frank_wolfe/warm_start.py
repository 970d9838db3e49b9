"""A start from the solution of another problem that shares examples with this one: a window that has slid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from livesvm.solvers.frank_wolfe.problem import Known, Problem
from livesvm.solvers.runtime.types import Ints

WORST = 1e12  #: condition of the products of two classes that can still be distinguished
OLD = 100  #: times that g was brought along, after which it is computed again: rounding adds up


def carried(problem: Problem, before: Problem, known: Known, places: Ints) -> Known:
    """Return the coefficients of ``before`` for examples that stayed, 0 for new ones, and their parts of g.

    Only what has left is taken from g, and only for examples that came it is computed: no more than their share of the
    time that g takes. Whose label has changed has left and come; other costs change the diagonal alone. With another
    kernel, or if more left than stayed, all of g is computed.

    Parameters
    ----------
    places : (n,) where the examples of ``problem`` were in ``before``, -1: nowhere
    """
    stays = places >= 0
    stays[stays] = problem.y[stays] == before.y[places[stays]]
    stay, new = np.flatnonzero(stays), np.flatnonzero(~stays)
    was = places[stay]
    b, gone = np.zeros(problem.n), known.b.copy()
    b[stay], gone[was] = known.b[was], 0.0
    is_cheaper = np.count_nonzero(gone) < np.count_nonzero(b) and known.age < OLD
    if problem.examples.kernel != before.examples.kernel or not is_cheaper:
        return Known(b, problem.parts(problem.examples, b), come=new)
    parts = np.zeros((2, problem.n))
    parts[:, stay] = known.parts[:, was] - before.parts(before.examples, gone, was)
    parts[problem.of_class[stay], stay] += b[stay] * (problem.ridge[stay] - before.ridge[was])
    parts[:, new] = problem.parts(problem.examples, b, new)
    rough = np.zeros(problem.n, bool)
    if known.rough is not None:
        rough[stay] = known.rough[was]
    return Known(b, parts, known.age + 1, new, rough)


def balanced(problem: Problem, known: Known) -> Known:
    """Return the coefficients with those of each class scaled to where both scales are best.

    Examples that leave take more from one class than from the other, and as the intercept is penalized that moves the f
    of every example: nearly all would seem to violate, and be active from the start.
    """
    of_class = problem.of_class
    own = [np.where(of_class == c, known.b, 0.0) for c in (0, 1)]
    H = np.array([[own[c] @ known.parts[e] for e in (0, 1)] for c in (0, 1)])
    sums = np.array([part.sum() for part in own])
    if not (sums > 0).all() or np.linalg.cond(H) > WORST:
        return known
    scales = np.linalg.solve(0.5 * (H + H.T), sums)
    if not (scales > 0).all():
        return known
    return replace(known, b=known.b * scales[of_class], parts=known.parts * scales[:, None])
