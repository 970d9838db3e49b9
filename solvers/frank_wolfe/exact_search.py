"""FW and MFW with the derivatives of all at hand: a kernel row and O(n) a step [Frandi et al., Algorithms 2, 3]."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.frank_wolfe import steps
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.options import STEPS, Options
from livesvm.solvers.frank_wolfe.problem import Problem, exact_parts, gap_of
from livesvm.solvers.frank_wolfe.solution import DualSolution, GapTrace, solution
from livesvm.solvers.frank_wolfe.steps import At
from livesvm.solvers.runtime.interrupt import AT_ONCE, check
from livesvm.solvers.runtime.scalars import One
from livesvm.solvers.runtime.types import Floats, Ints

AT_FIRST = 20  #: examples that share the first solution [Frandi et al., Section 5.2.2]
TOGETHER = 16  #: rows that are computed at once: those that come next are among those with the least g now
PROOFS = 5  #: at most: rounding may leave the recurrences apart from the data


def first(of_class: Ints, random: np.random.Generator) -> Floats:
    """Return coefficients (n,) on the simplex, equal for a few by chance, half of each class if there are."""
    b = np.zeros(of_class.size)
    for c in (0, 1):
        members = np.flatnonzero(of_class == c)
        b[random.choice(members, min(members.size, AT_FIRST // 2), replace=False)] = 1.0
    return np.asarray(b / b.sum())


def solve(problem: Problem, options: Options, a: Floats, random: np.random.Generator, trace: GapTrace) -> DualSolution:
    """Return a solution whose relative gap is ``options.tol``, unless rounding or ``max_steps`` end it sooner.

    Each step looks at all: FW, or with steps away from an example MFW. ``a`` (n,) is on the simplex.
    """
    at, most = At.of(), options.max_steps or STEPS
    examples, computed, goal = problem.quick(), 0, options.tol
    parts = problem.parts(examples, a)
    for _ in range(PROOFS):
        rows = ActiveRows(examples, options.cache_bytes, problem.threads, random, problem.n)
        a = _walk(problem, rows, a, parts.sum(axis=0), at, options.variant == "mfw", goal, most, trace)
        computed += rows.computed
        parts = exact_parts(problem, a)
        gap = gap_of(problem, a, parts).relative
        if gap <= options.tol or at[0].steps >= most:
            break
        examples, goal = problem.examples, 0.5 * goal
    return solution(problem, a, parts, options.tol, int(at[0].steps), computed, trace)


def _walk(
    problem: Problem,
    rows: ActiveRows,
    a: Floats,
    g: Floats,
    at: One[At],
    away: bool,
    tol: float,
    most: int,
    trace: GapTrace,
) -> Floats:
    """Take steps from ``a`` (n,), with ``g`` of the data, and return where they lead."""
    a, g = a.copy(), g.copy()
    now = at[0]
    now.scale, now.R, now.n_active = 1.0, float(a @ g), int(np.count_nonzero(a))
    arrays = rows.values, rows.place_of, problem.y, problem.ridge, problem.diagonal, a, g, at
    stretch = max(1, AT_ONCE // (8 * problem.n))
    while True:
        check()
        ended = steps.walk(*arrays, away, tol, min(stretch, most - now.steps))
        trace(now.gap)
        if ended == steps.DONE or now.steps >= most:
            return np.asarray(a * now.scale)
        if ended == steps.ROW:
            rows.fetch(_next(rows, now.wanted, g))
        else:
            now.R = now.scale**2 * float(a @ g)


def _next(rows: ActiveRows, wanted: int, g: Floats) -> Ints:
    """Return the example whose row is wanted, and those without one whose rows may be wanted next."""
    count = min(TOGETHER, rows.most, g.size - 1)
    if count < 2:
        return np.array([wanted])
    least = np.argpartition(g, count - 1)[: count - 1]
    return np.concatenate([[wanted], least[(least != wanted) & (rows.place_of[least] < 0)]])
