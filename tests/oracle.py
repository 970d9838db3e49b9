"""An independent judge of support vector machines: kernels, losses, objectives, a dense QP; no `solvers`.

Everything a model claims is recomputed here from its data, its parameters and ``(dual_coef, intercept)``
alone. Sums run in extended precision (``numpy.longdouble``), so a gap that is reported is a gap of the
answer and not of this file.

The problem is ``min 1/2 beta' K beta + sum_i loss_i(f_i) + total * b`` with ``f = K beta + b`` and
``sum beta = total``; each loss is convex and piecewise linear, see `Losses`. Its dual is
``max -1/2 beta' K beta - sum_i conj_i(-beta_i)`` over the same beta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import piqp
from numpy.typing import ArrayLike, NDArray

Wide = np.longdouble
WideArray = NDArray[np.longdouble]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Kernel:
    """A positive semi-definite kernel: ``linear``, ``rbf``, ``poly``, ``sigmoid`` or ``precomputed``."""

    name: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __call__(self, A: ArrayLike, B: ArrayLike) -> WideArray:
        """Return ``k(a_i, b_j)`` in extended precision: (n, d), (m, d) -> (n, m)."""
        a, b = np.asarray(A, Wide), np.asarray(B, Wide)
        if self.name == "rbf":
            squares = np.zeros((len(a), len(b)), Wide)
            for column in range(a.shape[1]):
                squares += np.square(a[:, column, None] - b[None, :, column])
            return np.asarray(np.exp(-Wide(self.gamma) * squares))
        products = np.asarray(a @ b.T)
        if self.name == "linear":
            return products
        scaled = Wide(self.gamma) * products + Wide(self.coef0)
        return np.asarray(scaled**self.degree if self.name == "poly" else np.tanh(scaled))


@dataclass(frozen=True)
class Losses:
    """n convex piecewise-linear losses by kinks (n, p), ascending, and slopes (n, p + 1), not descending.

    A kink where both slopes agree is no kink. Each loss is shifted so that its smallest value over the
    kinks is 0. ``total`` is what beta must sum to; ``None`` where there is no intercept.
    """

    kinks: Matrix
    slopes: Matrix
    total: float | None = 0.0

    @property
    def jumps(self) -> Matrix:
        """How much the slope grows at each kink, (n, p)."""
        return np.diff(self.slopes, axis=1)

    @property
    def lower(self) -> Vector:
        """The smallest beta each example may have, (n,)."""
        return -self.slopes[:, -1]

    @property
    def upper(self) -> Vector:
        """The largest beta each example may have, (n,)."""
        return -self.slopes[:, 0]

    def _unshifted(self, f: WideArray) -> WideArray:
        rises = np.maximum(f[:, None] - self.kinks, 0)
        return np.asarray(self.slopes[:, 0] * f + (self.jumps * rises).sum(axis=1))

    def _shift(self) -> WideArray:
        at_kinks = [self._unshifted(self.kinks[:, j].astype(Wide)) for j in range(self.kinks.shape[1])]
        return np.asarray(-np.min(at_kinks, axis=0))

    def values(self, f: WideArray) -> WideArray:
        """Return the loss of each example at decision value ``f``, (n,)."""
        return self._unshifted(f) + self._shift()

    def conjugates(self, beta: WideArray) -> WideArray:
        """Return the convex conjugate of each loss at ``-beta``, for beta inside its box, (n,)."""
        filled = np.clip(-beta[:, None] - self.slopes[:, :-1], 0, self.jumps)
        return np.asarray((self.kinks * filled).sum(axis=1) - self._shift())

    def misplacement(self, beta: WideArray, f: WideArray) -> WideArray:
        """Return how far each ``f`` is from where its ``beta`` says it must be, (n,).

        A beta within 1e-11 of its box from an end counts as being at that end.
        """
        snap = 1e-11 * (self.upper - self.lower)[:, None]
        below = np.where(-beta[:, None] > self.slopes[:, :-1] + snap, self.kinks, -np.inf)
        above = np.where(-beta[:, None] < self.slopes[:, 1:] - snap, self.kinks, np.inf)
        miss = np.maximum(below.max(axis=1) - f, f - above.min(axis=1))
        return np.asarray(np.maximum(miss, 0))


def _weights(y: Vector, weight: ArrayLike | None) -> Vector:
    return np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)


def _total(fit_intercept: bool) -> float | None:
    return 0.0 if fit_intercept else None


def hinge(y: ArrayLike, C: float, weight: ArrayLike | None = None, *, fit_intercept: bool = True) -> Losses:
    """Classification, labels -1 and +1: ``C w max(0, 1 - y f)``."""
    labels = np.asarray(y, np.float64)
    cost = C * _weights(labels, weight)
    slopes = np.column_stack([np.where(labels > 0, -cost, 0.0), np.where(labels > 0, 0.0, cost)])
    return Losses(labels[:, None].copy(), slopes, _total(fit_intercept))


def epsilon_insensitive(
    y: ArrayLike, C: float, epsilon: float, weight: ArrayLike | None = None, *, fit_intercept: bool = True
) -> Losses:
    """Regression with a tube: ``C w max(0, |f - y| - epsilon)``."""
    target = np.asarray(y, np.float64)
    cost = C * _weights(target, weight)
    kinks = np.column_stack([target - epsilon, target + epsilon])
    return Losses(kinks, np.column_stack([-cost, np.zeros_like(cost), cost]), _total(fit_intercept))


def pinball(
    y: ArrayLike, C: float, level: float, weight: ArrayLike | None = None, *, fit_intercept: bool = True
) -> Losses:
    """Quantile regression: ``C w (level (y - f)`` above, ``(1 - level) (f - y)`` below)."""
    target = np.asarray(y, np.float64)
    cost = C * _weights(target, weight)
    return Losses(target[:, None].copy(), np.column_stack([-level * cost, (1 - level) * cost]), _total(fit_intercept))


def absolute(y: ArrayLike, C: float, weight: ArrayLike | None = None, *, fit_intercept: bool = True) -> Losses:
    """Least absolute deviations: ``C w |f - y|``."""
    return pinball(y, 2.0 * C, 0.5, weight, fit_intercept=fit_intercept)


def one_class(weight: ArrayLike, nu: float) -> Losses:
    """Return the one-class loss: ``w max(0, -f)`` with ``sum beta = nu sum w`` and ``rho = -b``, in LIBSVM's scale."""
    cost = np.asarray(weight, np.float64)
    return Losses(np.zeros((len(cost), 1)), np.column_stack([-cost, np.zeros_like(cost)]), nu * float(cost.sum()))


@dataclass(frozen=True)
class Gap:
    """What an answer is worth, recomputed from data.

    ``gap = primal - dual`` where the dual point is the answer moved into its box and onto its sum, so by
    weak duality ``gap`` bounds the distance to the optimum whatever the answer was. ``resolution`` is what the
    last bits of an answer in float64 change of the objective: a smaller gap is rounding.
    """

    primal: float
    dual: float
    gap: float
    resolution: float
    kink_violation: float
    box_violation: float
    sum_violation: float

    @property
    def strict(self) -> float:
        """``gap / max(|primal|, |dual|)``, also where both are nothing but rounding."""
        return self.gap / max(abs(self.primal), abs(self.dual), float(np.finfo(np.float64).tiny))

    @property
    def relative(self) -> float:
        """The same; but a gap below ``resolution`` counts as none."""
        return 0.0 if self.gap <= self.resolution else self.strict


def feasible(losses: Losses, beta: WideArray) -> WideArray:
    """Return the beta nearby that keeps its box and its sum; the rest is shared out by slack."""
    inside = np.clip(beta, losses.lower, losses.upper)
    if losses.total is None:
        return np.asarray(inside)
    missing = losses.total - inside.sum()
    slack = losses.upper - inside if missing > 0 else inside - losses.lower
    room = slack.sum()
    return np.asarray(inside if room <= 0 else inside + slack * (missing / room))


def _resolution(K: WideArray, losses: Losses, beta: WideArray, f: WideArray, b: float) -> float:
    """Return what the last bits of a problem and an answer in float64 can change of the objective.

    They are those of the kernel matrix, the intercept, the kinks, and each coefficient inside its box (one at
    the end of its box is exact), and they matter for the examples that these bits can move over a kink. The
    rounding of this file's own sums comes on top.
    """
    levels = -losses.slopes.astype(Wide)
    inside = (np.abs(beta[:, None] - levels) > 0).all(axis=1)
    least = ROUNDING * np.abs(K).max() * np.abs(beta).sum()
    of_kernel = np.sqrt(np.square(K) @ np.square(beta))
    carried = np.maximum(np.abs(K[:, inside]) @ np.abs(beta[inside]) + of_kernel, least)
    bit = 4 * ROUNDING * np.maximum(carried, np.maximum(np.abs(losses.kinks).max(axis=1), b))
    near = np.abs(f[:, None] - losses.kinks).min(axis=1) <= 4 * bit
    steepest = np.abs(losses.slopes).max(axis=1)
    own = 16 * np.finfo(Wide).eps * (np.abs(f) + np.abs(losses.kinks).max(axis=1))
    return float((steepest * (bit * near + own)).sum())


def gap(K: ArrayLike, losses: Losses, beta: ArrayLike, intercept: float) -> Gap:
    """Judge ``f = K beta + intercept`` for the window's kernel matrix K (n, n) and beta (n,)."""
    kernel, coef = np.asarray(K, Wide), np.asarray(beta, Wide)
    if len(coef) == 0:
        return Gap(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, abs(losses.total or 0.0))
    wf = kernel @ coef
    f = wf + Wide(intercept)
    proper = feasible(losses, coef)
    primal = coef @ wf / 2 + losses.values(f).sum() + (losses.total or 0.0) * Wide(intercept)
    dual = -(proper @ (kernel @ proper)) / 2 - losses.conjugates(proper).sum()
    outside = np.maximum(coef - losses.upper, losses.lower - coef)
    return Gap(
        primal=float(primal),
        dual=float(dual),
        gap=float(primal - dual),
        resolution=_resolution(kernel, losses, coef, f, abs(intercept)),
        kink_violation=float(losses.misplacement(coef, f).max()),
        box_violation=float(max(outside.max(), 0)),
        sum_violation=0.0 if losses.total is None else float(abs(coef.sum() - losses.total)),
    )


@dataclass(frozen=True)
class Solution:
    """What the QP solver found, and the optimal value as the QP solver itself counts it, with our sign."""

    beta: Vector
    intercept: float
    objective: float


def solve(K: ArrayLike, losses: Losses) -> Solution:
    """Minimize the dual with PIQP's dense interior point method; one variable for each kink that is one.

    It runs until it cannot get better, which it may call a failure; `gap` says what its answer is worth.
    Variables are measured in a unit between 1 and the mean width of a box, which measured best.
    """
    kernel = np.asarray(K, np.float64)
    rows, columns = np.nonzero(losses.jumps > 0)
    start = losses.upper
    unit = float(np.sqrt(losses.jumps[rows, columns].mean()))
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = 1e-15
    settings.iterative_refinement_always_enabled = True
    equality: dict[str, Matrix | Vector] = {}
    if losses.total is not None:
        equality = {"A": np.ones((1, len(rows))), "b": np.array([(start.sum() - losses.total) / unit])}
    solver.setup(
        np.asfortranarray(unit * kernel[np.ix_(rows, rows)]),
        losses.kinks[rows, columns] - (kernel @ start)[rows],
        **equality,
        x_l=np.zeros(len(rows)),
        x_u=losses.jumps[rows, columns] / unit,
    )
    solver.solve()
    moved = unit * np.bincount(rows, weights=np.asarray(solver.result.x), minlength=len(start))
    constant = 0.5 * float(start @ kernel @ start) - float(losses._shift().sum())
    return Solution(
        beta=start - moved,
        intercept=0.0 if losses.total is None else -float(solver.result.y[0]),
        objective=-(unit * float(solver.result.info.primal_obj) + constant),
    )
