"""Optimality residuals and the duality gap, recomputed from data and coefficients without any solver state.

With ``f`` recomputed from ``beta``, every example contributes ``L(f) + L*(-beta) + beta f >= 0`` [Fenchel-Young];
their sum is the duality gap of the model.

The relative gap is the gap in units of the objective, primal or dual, whichever is larger. An objective can be 0 at the
optimum, as with constant targets; the relative gap would then be 1 after a single rounding. For this reason the unit is
never below a limit, see ``unit_of_gap``. This limit is the gap that appears if every decision value is rounded once,
divided by ``ROUNDING_COUNTS``. The limit is at least ``NOTHING`` times the cost of the model that is 0 everywhere, and
at most that cost. So if the true gap is a given share of the zero model's cost, the reported gap is at
least this share, whatever the coefficients are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.problem import piecewise_linear
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.types import Floats

EPS = float(np.finfo(np.float64).eps)
ROUNDING_COUNTS = 1e-8  #: relative gap, at most, that rounding each f once makes
NOTHING = 1e-9  #: part of the cost of the model that is 0 everywhere: the least value at which an objective counts


@compiled
def unit_of_gap(primal: float, gap: float, resolution: float, worth: float) -> float:
    """Return the unit by which a gap is divided to give the relative gap.

    Parameters
    ----------
    resolution : the gap that rounding each f once makes
    worth : the cost of the model that is 0 everywhere; where all kinks are 0, levels times the largest f that
        coefficients of such a sum can make
    """
    least = min(max(resolution / ROUNDING_COUNTS, NOTHING * worth), worth)
    return max(abs(primal), abs(primal - gap), least)


@dataclass(frozen=True)
class Certificate:
    """How far a model is from the optimum of its window, recomputed from the data.

    Attributes
    ----------
    max_violation : float
        Largest distance of an f from where its beta says it must be, in units of f; boxes and the sum of the betas
        count relative to the largest box, times the largest kink.
    duality_gap : float
        Primal minus dual, in units of the objective; an upper bound on how much better any other model is.
    relative_gap : float
        The gap divided by the larger of the two objectives, or by ``unit_of_gap`` where they are next to 0.
    primal, dual : float
        The objectives ``1/2 beta'K beta + sum of losses`` and its dual.
    n_examples : int
        How many examples were checked.
    rounding : float
        The largest gap that rounding each f once can make, in units of the objective: a gap below it is none. It grows
        with C times the sum of the sizes of the coefficients.
    """

    max_violation: float
    duality_gap: float
    relative_gap: float
    primal: float
    dual: float
    n_examples: int
    rounding: float = 0.0

    _repr_html_ = html_of


def certify(
    losses: Losses,
    beta: Floats,
    f: Floats,
    b: float,
    diagonal: Floats,
    *,
    total: float = 0.0,
    intercept: bool = True,
) -> Certificate:
    """Return the certificate of coefficients ``beta`` (n,) with decision values ``f`` (n,), intercept included.

    ``diagonal`` (n,) holds k(x, x). With an intercept, the betas must sum up to ``total``.
    """
    n = beta.size
    if n == 0:
        return Certificate(0.0, 0.0, 0.0, 0.0, 0.0, 0)
    _, levels, n_kinks = losses
    top = levels[:, 0]
    bottom = levels[np.arange(n), n_kinks]
    inside = np.clip(beta, bottom, top)
    kink, has_kink = piecewise_linear.nearest_kink(losses, inside)
    value = piecewise_linear.values(losses, f)
    slack = np.where(has_kink, value - piecewise_linear.values(losses, kink) + inside * (f - kink), 0.0)
    off_sum = float(beta.sum()) - total if intercept else 0.0
    off_box = np.abs(beta - inside)
    gap = float(np.maximum(slack, 0.0).sum() + np.abs(off_box * f).sum()) + abs(b * off_sum)
    primal = 0.5 * float(beta @ (f - b)) + float(value.sum()) + total * b
    kink_scale = float(np.abs(kink).max())
    level_scale = float(np.abs(levels).max())
    off_f = _kink_violations(losses, inside, f)
    relative_box = max(float(off_box.max()), abs(off_sum) / n) / level_scale if level_scale > 0 else 0.0
    mass, tallest = float(np.abs(beta) @ diagonal), np.abs(levels).max(axis=1)
    exposed = float(np.abs(inside - levels[np.arange(n), (f[:, None] > losses.kinks).sum(axis=1)])[has_kink].sum())
    size_of_f = kink_scale or mass
    resolution = EPS * (exposed * (kink_scale + mass) + float(np.abs(beta).sum()) * max(abs(b), size_of_f))
    worth = (
        float((tallest * np.abs(kink)).sum())
        if kink_scale > 0.0
        else float(tallest.sum() * np.abs(beta).sum() * diagonal.max())
    )
    unit = unit_of_gap(primal, gap, resolution, worth)
    return Certificate(
        max_violation=max(off_f, relative_box * max(kink_scale, 1.0)),
        duality_gap=gap,
        relative_gap=gap / unit if unit > 0.0 else 0.0,
        primal=primal,
        dual=primal - gap,
        n_examples=n,
        rounding=resolution,
    )


def _kink_violations(losses: Losses, beta: Floats, f: Floats) -> float:
    """Return by how much a decision value ``f`` is outside the interval that its coefficient allows, at worst."""
    kinks, levels, n_kinks = losses
    low = np.full(beta.size, -np.inf)
    high = np.full(beta.size, np.inf)
    for q in range(kinks.shape[1]):
        there = n_kinks > q
        high = np.where(there & (beta > levels[:, q + 1]), np.minimum(high, kinks[:, q]), high)
        low = np.where(there & (beta < levels[:, q]), np.maximum(low, kinks[:, q]), low)
    return float(max(0.0, np.max(low - f, initial=0.0), np.max(f - high, initial=0.0)))
