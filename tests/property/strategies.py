"""What Hypothesis draws: problems small enough to shrink to a picture, and the seeded families."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.oracle import Kernel
from tests.problems import FAMILIES, Batch, Problem, problem

COSTS = tuple(10.0**power for power in range(-3, 6))
KERNELS = (
    Kernel("linear"),
    Kernel("rbf", 0.5),
    Kernel("rbf", 10.0),
    Kernel("rbf", 1e-6),
    Kernel("poly", 0.25, 2, 1.0),
    Kernel("poly", 0.25, 3, 0.0),
)


def _batches(toggled: np.ndarray) -> tuple[Batch, ...]:
    """Turn (steps, n) flags into updates: a flagged row comes in when it is out, and leaves when it is in."""
    inside = np.zeros(toggled.shape[1], dtype=bool)
    found = []
    for flags in toggled:
        if flags.any():
            found.append(Batch(np.flatnonzero(flags & ~inside), np.flatnonzero(flags & inside)))
            inside ^= flags
    return tuple(found)


@st.composite
def tiny_problems(draw: st.DrawFn, steps: int = 5) -> Problem:
    """Up to 14 rows on a small grid of integers, so that rows repeat and meet ties, in up to five updates."""
    n, d = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    signs = arrays(np.float64, n, elements=st.sampled_from([-1.0, 1.0]))
    heavy = arrays(np.float64, n, elements=st.sampled_from([1.0, 0.5, 1e-3, 1e-6]))
    flags = draw(arrays(np.bool_, (draw(st.integers(1, steps)), n)))
    flags[0, 0] = True
    return Problem(
        seed=0,
        family="drawn",
        X=draw(arrays(np.float64, (n, d), elements=st.integers(-2, 2).map(float))),
        y=draw(signs),
        weight=draw(st.one_of(st.just(np.ones(n)), heavy)),
        C=draw(st.sampled_from(COSTS)),
        kernel=draw(st.sampled_from(KERNELS)),
        fit_intercept=draw(st.booleans()),
        batches=_batches(flags),
    )


def family_problems() -> st.SearchStrategy[Problem]:
    """Return the seeded families with up to 90 rows, C from 1e-4 to 1e6."""
    return st.builds(problem, st.integers(0, 2**20), st.sampled_from(sorted(FAMILIES)))


def problems() -> st.SearchStrategy[Problem]:
    """Either kind."""
    return st.one_of(tiny_problems(), family_problems())
