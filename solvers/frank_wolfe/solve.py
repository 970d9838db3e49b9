"""One problem, by any of the variants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from livesvm.solvers.frank_wolfe import by_blocks, single_steps
from livesvm.solvers.frank_wolfe.options import BLOCKS, Options, Variant
from livesvm.solvers.frank_wolfe.problem import Known, Problem
from livesvm.solvers.frank_wolfe.solution import DualSolution, GapTrace

__all__ = ["BLOCKS", "Options", "Variant", "solve"]


def solve(problem: Problem, options: Options, trace: GapTrace, start: Known | None = None) -> DualSolution:
    """Return the solution of a problem, from ``start`` if that is given and has coefficients."""
    random = np.random.default_rng(options.seed)
    if start is not None and not start.b.any():
        start = None
    if options.variant == "auto":
        return by_blocks.solve(problem, options, start, random, trace)
    a = single_steps.first(problem.of_class, random) if start is None else start.b / start.b.sum()
    if options.sampling is None:
        return single_steps.solve_by_rows(problem, options, a, random, trace)
    found, is_full = single_steps.solve_by_samples(problem, options, a, random, trace)
    if found.is_converged or not is_full or not options.looks_at_all:
        return found
    rest = single_steps.solve_by_rows(problem, options, found.a / found.a.sum(), random, trace)
    return replace(rest, steps=found.steps + rest.steps, kernel_values=found.kernel_values + rest.kernel_values)
