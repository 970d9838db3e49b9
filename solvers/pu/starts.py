"""Starting points of USMO: coefficients within their bounds, with the required sum."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu.pair_selection import STOP, descend, working_set
from livesvm.solvers.pu.problem import LITTLE, TINY, PUProblem
from livesvm.solvers.runtime.interrupt import raise_what_stopped, watch
from livesvm.solvers.runtime.types import Floats

NU = 0.1  # share of the positives that the one-class machine may leave out
MOST_POSITIVES = 1000  # positives that this machine learns from: a start need not be exact
ROUGH = 1e-3  # tolerance of its optimality, as part of the largest f


def feasible_start(problem: PUProblem) -> Floats:
    """Return the coefficients ``prior c2``, (n,), which are feasible because they sum to ``sum c1``."""
    return np.asarray(problem.total / problem.c2.sum() * problem.c2)


def one_class_start(problem: PUProblem) -> Floats:
    """Return coefficients (n,) at the upper bound for the unlabelled most like the positives, else 0.

    A one-class support vector machine, trained on the positives, ranks the unlabelled examples [Sansone et al., section
    4.5]. The paper forms five groups of examples; the group sizes that give the required sum (its eq. 18) leave the
    middle group empty, unless the prior is 1/2.
    """
    return ranked(one_class_scores(problem), problem.c2, problem.total)


def one_class_scores(problem: PUProblem) -> Floats:
    """Return the score of each unlabelled example, (n,), by a one-class machine trained on the positives."""
    indices = np.sort(np.random.default_rng(0).permutation(problem.p)[:MOST_POSITIVES])
    every_example, m = np.arange(indices.size), indices.size
    positives = KernelRows(problem.kernel, problem.P[indices], cache_bytes=LITTLE)
    K = positives.block(every_example, every_example)
    a, top = np.full(m, 1.0 / m), np.full(m, 1.0 / (NU * m))
    w = working_set(K, -(K @ a), a, top)
    watch(w.counters, STOP)
    descend(w, 0.0, ROUGH * max(float(np.abs(w.F).max()), TINY), 100 * m)
    raise_what_stopped()
    return positives.product(problem.U, every_example, w.sigma)


def ranked(scores: Floats, tops: Floats, total: float) -> Floats:
    """Return coefficients (n,) with sum ``total``; those of the highest ``scores`` (n,) are set to ``tops`` (n,)."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(tops[order]) - tops[order]
    sigma = np.empty(tops.size)
    sigma[order] = np.clip(total - before, 0.0, tops[order])
    return sigma


def from_scores(F: Floats, c2: Floats, total: float) -> Floats:
    """Return the coefficients (n,) that are optimal for f = ``F + b`` (n,), with the b for which they sum to ``total``.

    A coefficient is half of its bound if f is between -1 and 1, and the whole bound if f is above 1.
    """
    filled = ranked(np.concatenate([F + 1.0, F - 1.0]), np.tile(0.5 * c2, 2), total)
    return filled[: c2.size] + filled[c2.size :]
