"""One problem, by any of the variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from livesvm.solvers.frank_wolfe import by_blocks, exact_search, sampled
from livesvm.solvers.frank_wolfe.core_set import SAMPLE
from livesvm.solvers.frank_wolfe.problem import Known, Problem
from livesvm.solvers.frank_wolfe.solution import Solution, Trace
from livesvm.solvers.runtime.types import Floats

Variant = Literal["auto", "fw", "mfw", "core_vector"]

STEPS = 100_000  #: of one coefficient, where no number is given: each costs a kernel row of every example
CORE_STEPS = 100_000_000  #: of one coefficient of a core, or of examples that join it
BLOCKS = 1_000_000


@dataclass(frozen=True)
class Options:
    """How to solve."""

    variant: Variant = "auto"
    tol: float = 0.1  #: relative gap
    sampling: int | None = SAMPLE  #: examples of a sample; None: all are looked at; the default variant does not sample
    cache_bytes: int = 2**30  #: what kernel rows may take
    max_steps: int | None = None  #: None: the default of the variant
    seed: int = 0  #: of what is left to chance
    looks_at_all: bool = True  #: whether a sample without any example to gain by is followed by a look at all


def solve(problem: Problem, options: Options, trace: Trace, start: Known | None = None) -> Solution:
    """Return the solution of a problem, from ``start`` if that is given and has coefficients."""
    variant, tol = options.variant, options.tol
    random = np.random.default_rng(options.seed)
    if start is not None and not start.b.any():
        start = None
    if variant == "auto":
        most = options.max_steps or BLOCKS
        return by_blocks.solve(
            problem, tol, start=start, cache_bytes=options.cache_bytes, most_steps=most, random=random, trace=trace
        )
    a = None if start is None else start.b
    if variant != "core_vector" and options.sampling is None:
        return _exactly(problem, options, a, random, trace)
    found, is_full = sampled.solve(
        problem,
        tol,
        variant=variant,
        start=a,
        sampling=options.sampling or problem.n,
        cache_bytes=options.cache_bytes,
        most_steps=options.max_steps or CORE_STEPS,
        looks_at_all=options.looks_at_all,
        random=random,
        trace=trace,
    )
    if found.is_converged or not is_full or variant == "core_vector" or not options.looks_at_all:
        return found
    rest = _exactly(problem, options, found.a, random, trace)
    return replace(rest, steps=found.steps + rest.steps, kernel_values=found.kernel_values + rest.kernel_values)


def _exactly(
    problem: Problem, options: Options, start: Floats | None, random: np.random.Generator, trace: Trace
) -> Solution:
    """Return the solution by FW or MFW that look at all in every step, from coefficients ``start`` (n,)."""
    return exact_search.solve(
        problem,
        options.tol,
        away=options.variant == "mfw",
        start=start,
        cache_bytes=options.cache_bytes,
        most_steps=options.max_steps or STEPS,
        random=random,
        trace=trace,
    )
