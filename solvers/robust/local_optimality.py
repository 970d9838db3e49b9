"""Conditions of a robust local optimum [Suzumura et al., Theorems 4, 5], necessary and sufficient, from data alone.

Every coefficient must be one that the robust loss allows at its example's f (19a-d, 26a-c), and no example may stand at
a cutoff (19e, 26d). The condition on cutoffs has an exception that the paper's proof overlooks. An example is *held* if
its kernel row is a linear combination of the kernel rows of examples at kinks, for instance a row of zeros if there is
no intercept. The f of a held example cannot move unless an example at a kink leaves it. The coefficients of the
examples at kinks can compensate for a change of the held example's coefficient, so both of its sides may be optimal.
Held examples occur with the linear kernel on features of few values; the D-step tries both sides of such an example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.robust.ramp_losses import BELOW, BEYOND, LossCutoffs, outermost
from livesvm.solvers.runtime.types import Bools, Floats, Ints

DEPENDENT = 1e-9  # squared distance to the span of other examples, as part of the diagonal, that counts as 0

AT_CUTOFF = 1e-9  # f this close to a cutoff, of the largest finite kink or cutoff, is at it
ROUNDINGS = 16.0  # or within this many roundings of the sum that f is
EPS = float(np.finfo(np.float64).eps)
AT_KINK = 1e-7  # f this close to a kink, of the largest finite kink or cutoff, is at it


@dataclass(frozen=True)
class LocalOptimality:
    """The distance of a model from a local optimum of its robust problem."""

    #: largest distance of an example, as a point (f, beta), from the points that the robust loss allows; f in its own
    #: units, beta relative to the largest level, times the largest finite kink or cutoff; the sum of betas likewise
    violation: float
    #: distance of the closest example that can move from its cutoff, in units of f; must not be zero
    wall_distance: float
    held: Ints  #: positions of examples that examples at kinks hold at their cutoffs


def local_optimality(
    base: Losses,
    cutoffs: LossCutoffs,
    theta: float,
    f: Floats,
    beta: Floats,
    kernel: Callable[[Ints, Ints], Floats],
    *,
    intercept: bool,
) -> LocalOptimality:
    """Return how well coefficients ``beta`` (n,) and decision values ``f`` (n,) meet the conditions.

    Parameters
    ----------
    base : convex losses (n,) that the robust ones are made of
    kernel : kernel values (m, k) of so many examples with so many others, by position
    """
    finite = [table[np.isfinite(table)] for table in (base.kinks, cutoffs.low, cutoffs.high)]
    kink_scale = max(float(np.abs(part).max(initial=0.0)) for part in finite) or 1.0
    level_scale = float(np.abs(base.levels).max(initial=0.0)) or 1.0
    exchange = kink_scale / level_scale
    violation = float(distances(base, cutoffs, theta, f, beta, exchange).max(initial=0.0))
    off_sum = abs(float(beta.sum())) * exchange / max(beta.size, 1) if intercept else 0.0
    gaps = np.minimum(np.abs(f - cutoffs.low), np.abs(f - cutoffs.high))
    near = np.flatnonzero(gaps <= AT_KINK * kink_scale)
    rounding = ROUNDINGS * EPS * float(np.abs(beta).sum()) * float(np.diag(kernel(near, near)).max(initial=0.0))
    near = near[gaps[near] <= max(AT_CUTOFF * kink_scale, rounding)]
    at_kink = np.flatnonzero((np.abs(f[:, None] - base.kinks) <= AT_KINK * kink_scale).any(axis=1))
    held = near[_depend(kernel, near, at_kink, intercept)]
    gaps[held] = np.inf
    return LocalOptimality(max(violation, off_sum), float(gaps.min(initial=np.inf)), held)


def distances(base: Losses, cutoffs: LossCutoffs, theta: float, f: Floats, beta: Floats, exchange: float) -> Floats:
    """Return the distance of each (f, beta) from the pairs that the robust loss allows, in the maximum norm, (n,)."""
    n, pieces = base.levels.shape
    least = np.full(n, np.inf)
    edges = np.column_stack([np.full(n, -np.inf), np.sort(base.kinks, axis=1), np.full(n, np.inf)])
    for q in range(pieces):
        low, high = np.maximum(edges[:, q], cutoffs.low), np.minimum(edges[:, q + 1], cutoffs.high)
        off_f = np.maximum(np.maximum(low - f, f - high), 0.0)
        off_beta = exchange * np.abs(beta - base.levels[:, q])
        there = (q <= base.n_kinks) & (low <= high)
        least = np.where(there, np.minimum(least, np.maximum(off_f, off_beta)), least)
        if q + 1 < pieces:
            kink = np.where(base.n_kinks > q, base.kinks[:, q], 0.0)
            over = np.maximum(np.maximum(base.levels[:, q + 1] - beta, beta - base.levels[:, q]), 0.0)
            there = (q < base.n_kinks) & (cutoffs.low <= kink) & (kink <= cutoffs.high)
            least = np.where(there, np.minimum(least, np.maximum(np.abs(f - kink), exchange * over)), least)
    for side, off in ((BELOW, f - cutoffs.low), (BEYOND, cutoffs.high - f)):
        level = theta * outermost(base, np.full(n, side, np.int8))
        least = np.minimum(least, np.maximum(np.maximum(off, 0.0), exchange * np.abs(beta - level)))
    return least


def _depend(kernel: Callable[[Ints, Ints], Floats], indices: Ints, others: Ints, intercept: bool) -> Bools:
    """Say which of the kernel rows ``indices`` are linear combinations of ``others``, with sum 1 if ``intercept``."""
    if indices.size == 0:
        return np.empty(0, np.bool_)
    own = np.diag(kernel(indices, indices))
    unit = float(own.mean()) or 1.0
    shift = unit if intercept else 0.0
    cross = kernel(others, indices) + shift
    solved = np.linalg.lstsq(kernel(others, others) + shift, cross, rcond=1e-12)[0]
    left: Bools = own + shift - (cross * solved).sum(axis=0) <= DEPENDENT * np.maximum(own, unit)
    return left
