"""FW and MFW by samples, where n is so large that a row a step takes too long.

An example that a sample finds joins the core [Frandi et al., Section 5.2.3], and steps among the core follow, until
these promise less than such an example did: kernel values of a sample take far longer than a step. (The paper samples
before every step.)
"""

from __future__ import annotations

import math

import numpy as np

from livesvm.solvers.frank_wolfe import steps
from livesvm.solvers.frank_wolfe.core_set import Core, SampledSearch
from livesvm.solvers.frank_wolfe.exact_search import PROOFS
from livesvm.solvers.frank_wolfe.options import CORE_STEPS, Options
from livesvm.solvers.frank_wolfe.problem import Problem, exact_parts, gap_of
from livesvm.solvers.frank_wolfe.solution import DualSolution, GapTrace, solution
from livesvm.solvers.frank_wolfe.steps import At
from livesvm.solvers.runtime.interrupt import AT_ONCE, check
from livesvm.solvers.runtime.types import Floats

LESS = 0.5  #: of the gap of the last example found: steps among the core that promise less wait for another
AT_MOST = 5  #: times as many of them for one example as the core is large, until the tolerance itself is asked for
SURE = 0.9  #: of the tolerance, to which they are taken at the end: others are computed with other digits
LAST_DIGITS = 1.0 + 1e-9  #: by which one gap may be above another that is the same
LEAST_CAPACITY = 64  #: examples that a core may always have


def solve(
    problem: Problem, options: Options, a: Floats, random: np.random.Generator, trace: GapTrace
) -> tuple[DualSolution, bool]:
    """Return a solution whose relative gap is ``options.tol``, as a full look has found, unless ``max_steps`` end it.

    Without looks at all a sample that holds no example to gain by ends it as well, as in the paper's program. The
    second answer is whether the kernel values of the core would take more than ``cache_bytes``, which ends it, too.
    ``a`` (n,) is on the simplex.
    """
    sampling, most = options.sampling or problem.n, options.max_steps or CORE_STEPS
    examples, goal, taken, computed = problem.quick(), options.tol, 0, 0
    for _ in range(PROOFS):
        capacity = min(problem.n, max(LEAST_CAPACITY, math.isqrt(options.cache_bytes // examples.dtype.itemsize)))
        is_full = int(np.count_nonzero(a)) > capacity
        if not is_full:
            core = Core(problem, examples, a, capacity)
            search = SampledSearch(core, sampling, random, options.looks_at_all)
            taken += _walk(core, search, options.variant == "mfw", goal, most - taken, trace)
            a, computed, is_full = core.coefficients(), computed + core.computed, core.is_full and capacity < problem.n
        parts = exact_parts(problem, a)
        is_there = gap_of(problem, a, parts).relative <= options.tol
        if is_there or is_full or taken >= most or not options.looks_at_all:
            break
        examples, goal = problem.examples, 0.5 * goal
    return solution(problem, a, parts, options.tol, taken, computed, trace), is_full


def _walk(core: Core, search: SampledSearch, away: bool, tol: float, most: int, trace: GapTrace) -> int:
    """Let examples join the core until no example is found whose gap is above ``tol``; return the steps taken."""
    goal, taken = np.inf, 0
    while taken < most:
        check()
        taken += _minimize(core, away, goal, tol, most - taken)
        found = search.find(tol)
        trace(found.gap)
        if found.gap <= tol:
            break
        goal = max(SURE * tol, LESS * found.gap)
        is_held = core.holds(found.i)
        if is_held and core.gap <= LAST_DIGITS * goal:
            break  # rounding: it has been stepped to as far as the core's digits tell
        if core.is_full and not is_held:
            break
        core.add(found.i, found.row)
    return taken


def _minimize(core: Core, away: bool, goal: float, tol: float, most: int) -> int:
    """Bring the gap of the core to ``goal``, or nearer to it; return the steps taken."""
    if core.gap <= goal:
        return 0
    few = AT_MOST * core.indices.size if goal > SURE * tol else most
    return _steps(core, away, goal, min(few, most))


def _steps(core: Core, away: bool, tol: float, most: int) -> int:
    """Step among the core until its gap is ``tol``; return how often."""
    at = At.of(1.0, core.R, np.inf, 0, int(np.count_nonzero(core.a)))
    arrays = core.values, np.arange(core.indices.size), core.y, core.ridge, core.diagonal, core.a, core.g, at
    now, stretch = at[0], max(1, AT_ONCE // (8 * core.indices.size))
    while now.steps < most:
        check()
        if steps.walk(*arrays, away, tol, min(stretch, most - now.steps)) == steps.DONE:
            break
        now.R = now.scale**2 * float(core.a @ core.g)
    core.a *= now.scale
    core.g *= now.scale
    return int(now.steps)
