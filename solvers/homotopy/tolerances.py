"""Tolerances of a path: when two numbers count as equal, when a state counts as optimal, and the scales of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.active_set.degeneracy import perturb
from livesvm.solvers.active_set.workspace import Walk, count_again
from livesvm.solvers.homotopy.optimality import EPS, Scales
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats

ZERO_STEP = 1e-14  # of the path's length 1
_LITTLE = 1e-9  # also of the path's length


@dataclass(frozen=True)
class Settings:
    """The tolerances and limits of the path algorithm, relative to sizes of the problem's quantities."""

    ratio_f: float = 1e-11  #: relaxation of kinks in the ratio test, of the largest kink
    reentry: float = 1e-10  #: distance beyond a kink that is worth another pass, of the largest kink
    ratio_beta: float = 1e-12  #: relaxation of boxes, of the largest level
    snap: float = 1e-13  #: a bound beta this close to its level is put on it, of the largest level and longest motion
    dust: float = 1e-13  #: a free beta this close to an end of its box is at that end, of the largest level
    dependent: float = 2e-15  #: squared pivots below this, of the diagonal, mean dependence; more with many free
    spoiled: float = 1e-14  #: the same in a factor that rounding has spoiled; ten times more if that is not enough
    goal: float = 1e-10  #: relative gap that needs no further correction
    coarse: float = 1e-7  #: relative gap beyond which rounding is not the cause
    acceptable: float = 1e-8  #: relative gap beyond which a state is not called optimal
    roundings: float = 64.0  #: or within this many roundings of each f
    perturbation: float = 1e-8  #: size of the spread of ties when the loop stalls, three times as large each time ...
    widest: float = 1e-4  #: ... but less than this
    max_rounds: int = 12
    refresh_events: int = 20_000  #: events after which f is computed afresh from beta at the latest
    lighter: float = 100.0  #: f is also computed afresh if the sum of |beta| k(x, x) was this many times larger since


SETTINGS = Settings()

_RATIO_F, _REENTRY, _RATIO_BETA, _DEPENDENT = (
    SETTINGS.ratio_f,
    SETTINGS.reentry,
    SETTINGS.ratio_beta,
    SETTINGS.dependent,
)
_REFRESH_EVENTS, _LIGHTER = SETTINGS.refresh_events, SETTINGS.lighter
_PERTURBATION, _WIDEST = SETTINGS.perturbation, SETTINGS.widest


@compiled
def begin(w: Walk, units: Scales, total: float, precision: float) -> None:
    """Initialize a walk, after its motion has been set; at the end of the walk the betas must sum to ``total``.

    ``precision`` scales the tolerances of the ratio test: a round that corrects errors needs tolerances smaller than
    these errors. The caller sets b, kappa, and the options of the walk.
    """
    at = w.at[0]
    count_again(w)
    at.tau, at.sum_v, at.sum_end = 1.0, units.sum_speed, total
    at.sum_rate = total - units.sum_beta if w.intercept else 0.0
    at.budget = 50 * w.n + 10_000
    set_tolerances(w, units, precision)


@compiled
def set_tolerances(w: Walk, units: Scales, precision: float) -> None:
    """Set the tolerances from the settings, the scales of the problem, and the rounding errors of f and the motion."""
    tol, n_free = w.tol[0], w.factor.size[1]
    rounding = EPS * max(8.0 * units.speed, units.mass) * units.diagonal
    tol.f = max(precision * _RATIO_F * units.kink, rounding)
    tol.reentry = max(precision * _REENTRY * units.kink, rounding)
    tol.beta = max(precision * _RATIO_BETA, 1e-18) * units.level
    tol.dependent = _DEPENDENT * max(1.0, np.sqrt(n_free) / 4.0)
    tol.balance = max(1e-12, EPS * w.n**1.5) * max(units.level, units.top_speed)
    tol.zero_step, tol.stall = ZERO_STEP, 2 * n_free + 200


@compiled
def spread_ties(w: Walk, random: Floats, kink: float, level: float) -> bool:
    """Move tied limits of a stalled walk apart by ``random`` (n, 2) amounts, which grow with each call (rule 6).

    Returns False, and moves nothing, if the amounts would be too large or too little of the walk is left.
    """
    at = w.at[0]
    size = _PERTURBATION * 3.0**at.spreads
    if at.tau <= _LITTLE or size >= _WIDEST:
        return False
    perturb(w, random, size * kink, size * level)
    at.spreads += 1
    return True


@compiled
def is_due(since: int, events: int, heaviest: float, mass: float) -> bool:
    """Say whether to recompute every f, ``since`` events after the last recomputation, in a walk of ``events`` events.

    Every f is recomputed after ``_REFRESH_EVENTS`` events, or at the end of a single walk with more than half as many.
    A walk that fills a large window takes longer than recomputing every f, but a short walk takes less time. Every f is
    also recomputed when the betas have become much smaller, for instance with C, because earlier rounding errors are
    then no longer small.
    """
    is_long = since > _REFRESH_EVENTS or since >= events > _REFRESH_EVENTS // 2
    return is_long or heaviest > _LIGHTER * mass
