"""The baseline: the same convex problem as a quadratic program with the whole kernel matrix [du Plessis et al. 2015].

Each coefficient is split at the middle of its box, ``sigma = a + b`` with costs -1 and +1, both in [0, c2/2], so that
the penalty is linear. The primal-dual method of Mehrotra [1992] solves it; its Newton systems have 2 n variables and
are solved with one factor of n rows, as the halves differ on the diagonal only. Memory is quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu.problem import JUMP, LITTLE, PUProblem
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats

MOST_ITERATIONS = 200
FRACTION = 0.995  # of the way to the nearest end that a step goes
SMALL = 1e-12  # complementarity and residuals at which there is nothing left to win, relative to their sizes


@dataclass(frozen=True)
class QPSolution:
    """Coefficients (n,) of the unlabelled, in [0, c2], the intercept, and how many Newton steps it took."""

    sigma: Floats
    b: float
    iterations: int


@dataclass
class _Point:
    """Both halves, (2, n), their distance to the upper end, the multipliers of both ends, and that of the sum."""

    x: Floats
    w: Floats
    z: Floats
    v: Floats
    y: float

    def moved(self, d: _Point, primal: float, dual: float) -> _Point:
        return _Point(
            self.x + primal * d.x, self.w + primal * d.w, self.z + dual * d.z, self.v + dual * d.v, self.y + dual * d.y
        )

    def mean(self) -> float:
        """Return the mean product of a distance and its multiplier, which is 0 at the optimum."""
        return float(np.mean(self.x * self.z + self.w * self.v)) / 2.0


def quadratic_program(problem: PUProblem, tolerance: float = 1e-8) -> QPSolution:
    """Solve the problem with its whole kernel matrix.

    Parameters
    ----------
    tolerance : of residuals and of complementarity, relative to the sizes of what they are made of

    Raises
    ------
    NotOptimal : it was not reached
    """
    K = KernelRows(problem.kernel, problem.U, cache_bytes=LITTLE).matrix()
    cost = np.stack([-problem.q - JUMP, -problem.q + JUMP])
    top = np.tile(0.5 * problem.c2, (2, 1))
    x = np.tile(0.5 * problem.total / problem.c2.sum() * problem.c2, (2, 1))
    size = max(1.0, float(np.abs(cost).max()))
    point = _Point(x, top - x, np.full(x.shape, size), np.full(x.shape, size), 0.0)
    best, found = np.inf, point
    for iterations in range(MOST_ITERATIONS):  # noqa: B007 - it is reported in the end
        check()
        gradient = K @ point.x.sum(axis=0) + cost
        residual = gradient - point.z + point.v - point.y
        off_sum = problem.total - float(point.x.sum())
        error = max(
            float(np.abs(residual).max()) / size, abs(off_sum) / problem.total, point.mean() / (size * top.mean())
        )
        if error < best:
            best, found = error, point
        elif best <= tolerance:
            break
        if error <= SMALL:
            break
        try:
            point = _step(K, point, residual, off_sum)
        except np.linalg.LinAlgError:
            break
    if best > tolerance:
        raise NotOptimal(f"the interior point method has stopped at a relative error of {best:.1e}")
    sigma = np.clip(found.x.sum(axis=0), 0.0, problem.c2)
    return QPSolution(sigma, found.y, iterations)


def _step(K: Floats, point: _Point, residual: Floats, off_sum: float) -> _Point:
    """Return the next point: Mehrotra's predictor, then the corrector with the factor that it has made."""
    from scipy.linalg import cho_factor, cho_solve  # only loaded where it is used

    D = point.z / point.x + point.v / point.w
    E = 1.0 / (1.0 / D).sum(axis=0)
    matrix = K.copy()
    matrix[np.diag_indices_from(matrix)] += E
    factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
    ones = cho_solve(factor, np.ones(E.size), check_finite=False)

    def direction(lower: Floats, upper: Floats) -> _Point:
        """Solve for what makes ``x z`` and ``w v`` change by these, and the residuals vanish, to first order."""
        right = -residual + lower / point.x - upper / point.w
        part = cho_solve(factor, E * (right / D).sum(axis=0), check_finite=False)
        dy = (off_sum - part.sum()) / ones.sum()
        ds = part + dy * ones
        dx = (right - K @ ds + dy) / D
        return _Point(dx, -dx, (lower - point.z * dx) / point.x, (upper + point.v * dx) / point.w, float(dy))

    guess = direction(-point.x * point.z, -point.w * point.v)
    after = point.moved(guess, *_lengths(point, guess, 1.0)).mean()
    target = (after / point.mean()) ** 3 * point.mean()
    step = direction(target - point.x * point.z - guess.x * guess.z, target - point.w * point.v - guess.w * guess.v)
    return point.moved(step, *_lengths(point, step, FRACTION))


def _lengths(point: _Point, d: _Point, fraction: float) -> tuple[float, float]:
    """Return how far primal and dual variables can go, in steps, that share of the way to 0; at most 1."""

    def length(value: Floats, change: Floats) -> float:
        shrinking = change < 0
        return min(1.0, fraction * float((-value[shrinking] / change[shrinking]).min(initial=np.inf)))

    return min(length(point.x, d.x), length(point.w, d.w)), min(length(point.z, d.z), length(point.v, d.v))
