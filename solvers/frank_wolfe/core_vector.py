"""The core-vector machine: the reduced problem solved anew for every example that joins the core [Tsang et al. 2005].

It is here for comparison. Each round looks for an example outside of the ball, in a sample or among all, and minimizes
over the simplex of the core by pairs of coefficients, starting from where it was.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.frank_wolfe.core import Core, SampledSearch
from livesvm.solvers.frank_wolfe.exact_search import first
from livesvm.solvers.frank_wolfe.problem import Problem
from livesvm.solvers.frank_wolfe.solution import Solution, Trace, proved
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats

REDUCED = 0.5  #: to which part of the tolerance each reduced problem is solved
PAIRS = 100_000  #: steps of one reduced problem, at most


def solve(
    problem: Problem,
    tol: float,
    *,
    start: Floats | None,
    sampling: int | None,
    most_steps: int,
    looks_at_all: bool,
    random: np.random.Generator,
    trace: Trace,
) -> Solution:
    """Return a solution whose relative gap is ``tol``, as a full look has found, unless ``most_steps`` end it.

    Without looks at all a sample that holds nobody to gain by ends it as well, as in the paper's program.
    """
    core = Core(problem, first(problem.of_class, random) if start is None else start / start.sum())
    search = SampledSearch(core, problem.n if sampling is None else sampling, random, looks_at_all)
    steps = 0
    while steps < most_steps:
        check()
        minimize_pairwise(core.matrix, core.a, core.g, REDUCED * tol, PAIRS)
        i, g = search.find(tol)
        R = core.R
        trace(2.0 * (R - g) / R)
        if 2.0 * (R - g) <= tol * R:
            break
        core.add(i)
        steps += 1
    return proved(problem, core.coefficients(), tol, steps, core.computed, trace)


@compiled
def minimize_pairwise(K: Floats, a: Floats, g: Floats, tol: float, most: int) -> None:
    """Minimize ``a'Ka`` over the simplex of ``a`` (k,), with ``g = Ka``, to a relative gap of ``tol``: SMO, by pairs.

    ``K`` is (k, k) or larger.
    """
    for _ in range(most):
        i, low, R = 0, np.inf, 0.0
        for k in range(a.size):
            R += a[k] * g[k]
            if g[k] < low:
                i, low = k, g[k]
        if 2.0 * (R - low) <= tol * R:
            return
        j, best = -1, 0.0
        for k in range(a.size):  # the partner that gains the most [Fan et al. 2005]
            if a[k] > 0.0 and g[k] > low:
                curvature = max(K[i, i] + K[k, k] - 2.0 * K[i, k], 1e-300)
                gain = (g[k] - low) ** 2 / curvature
                if gain > best:
                    j, best = k, gain
        if j < 0:
            return
        step = min(a[j], (g[j] - low) / max(K[i, i] + K[j, j] - 2.0 * K[i, j], 1e-300))
        a[i] += step
        a[j] = 0.0 if step == a[j] else a[j] - step
        for k in range(a.size):
            g[k] += step * (K[i, k] - K[j, k])
