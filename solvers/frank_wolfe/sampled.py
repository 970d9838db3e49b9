"""FW and MFW by samples, where n is so large that a row a step takes too long [Frandi et al., Section 5.2.3]."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.frank_wolfe.core import Core, SampledSearch
from livesvm.solvers.frank_wolfe.exact_search import first
from livesvm.solvers.frank_wolfe.problem import Problem
from livesvm.solvers.frank_wolfe.solution import Solution, Trace, proved
from livesvm.solvers.frank_wolfe.steps import line_search
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats


def solve(
    problem: Problem,
    tol: float,
    *,
    away: bool,
    start: Floats | None,
    sampling: int,
    most_steps: int,
    looks_at_all: bool,
    random: np.random.Generator,
    trace: Trace,
) -> Solution:
    """Return a solution whose relative gap is ``tol``, as a full look has found, unless ``most_steps`` end it.

    Without looks at all a sample that holds nobody to gain by ends it as well, as in the paper's program.
    """
    core = Core(problem, first(problem.of_class, random) if start is None else start / start.sum())
    search = SampledSearch(core, sampling, random, looks_at_all)
    steps = 0
    while steps < most_steps:
        check()
        i, g = search.find(tol)
        R = core.R
        trace(2.0 * (R - g) / R)
        if 2.0 * (R - g) <= tol * R:
            break
        _step(core, i, g, away)
        steps += 1
    return proved(problem, core.coefficients(), tol, steps, core.computed, trace)


def _step(core: Core, i: int, g: float, away: bool) -> None:
    """Step towards ``i``, or away from the example of the core with the largest g where that promises more."""
    R = core.R
    if away and core.who.size > 1:
        held = np.flatnonzero(core.a > 0)
        at = int(held[core.g[held].argmax()])
        if held.size > 1 and core.g[at] - R > R - g:
            _step_away(core, at, R)
            return
    core.move(core.add(i), min(1.0, line_search(R, g, core.diagonal[i], R - g)))


def _step_away(core: Core, at: int, R: float) -> None:
    """Step away from the example at a place of the core; at the most it has no coefficient any more."""
    share, g = float(core.a[at]), float(core.g[at])
    step = line_search(R, g, core.diagonal[core.who[at]], g - R)
    drops = step * (1.0 - share) >= share
    core.move(at, -share / (1.0 - share) if drops else -step)
    if drops:
        core.a[at] = 0.0
