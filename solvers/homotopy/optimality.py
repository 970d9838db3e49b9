"""Quality of a state, computed from tracked decision values; a certificate computes it from the data."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.certificate import unit_of_gap
from livesvm.solvers.problem.piecewise_linear import FIRST, LAST, MAX_KINKS, Losses, nearest_kink, values
from livesvm.solvers.problem.state import Examples, PathState, is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats

EPS = float(np.finfo(np.float64).eps)


class Scales(NamedTuple):
    """Sizes of a problem's quantities, by which tolerances are scaled."""

    kink: float  #: largest kink; with one class, the size that the kernel gives f
    level: float  #: largest level
    diagonal: float  #: largest k(x, x)
    speed: float  #: sum of the speeds of bound betas
    top_speed: float  #: largest speed of a bound beta
    mass: float  #: sum of the sizes of all betas
    sum_speed: float  #: sum of the signed velocities
    sum_beta: float  #: sum of the betas


def scales(state: PathState, v: Floats) -> Scales:
    """Return the sizes of a problem's quantities, given the velocities ``v`` at which its bound betas are to move."""
    return units_of(state.examples, v, state.n_slots, float(state.total))


@compiled
def is_close_to_kink(e: Examples, j: int, band: float) -> bool:
    """Say whether the f of an example is within ``band`` of a kink; unused kinks are infinite."""
    close: bool = min(abs(e.f[j] - e.kinks[j, FIRST]), abs(e.f[j] - e.kinks[j, LAST])) <= band
    return close


@compiled
def units_of(e: Examples, v: Floats, n: int, total: float) -> Scales:
    """Return the sizes of a problem's quantities, which scale tolerances; the betas are to sum up to ``total``."""
    kink_0, kink_1, level_0, level_1, level_2, diagonal = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    speed, top, mass, sum_speed, sum_beta = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        first, second = abs(e.kinks[j, FIRST]), abs(e.kinks[j, LAST])
        kink_0 = max(kink_0, first if first < np.inf else 0.0)
        kink_1 = max(kink_1, second if second < np.inf else 0.0)
        level_0 = max(level_0, abs(e.levels[j, FIRST]))
        level_1 = max(level_1, abs(e.levels[j, LAST]))
        level_2 = max(level_2, abs(e.levels[j, MAX_KINKS]))
        diagonal = max(diagonal, e.diagonal[j])
        top = max(top, abs(v[j]))
        speed += abs(v[j])
        mass += abs(e.beta[j])
        sum_speed += v[j]
        sum_beta += e.beta[j]
    kink, level = max(kink_0, kink_1), max(level_0, level_1, level_2)
    if not kink > 0.0:
        kink = max(total, level) * diagonal
    return Scales(kink, level, diagonal, speed, top, mass, sum_speed, sum_beta)


@compiled
def units_of_motion(e: Examples, v: Floats, n: int, kink: float, level: float, diagonal: float) -> Scales:
    """Return the sizes of a motion's quantities, given those of the losses: ``kink``, ``level`` and ``diagonal``."""
    speed, top, mass, sum_speed, sum_beta = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        top = max(top, abs(v[j]))
        speed += abs(v[j])
        mass += abs(e.beta[j])
        sum_speed += v[j]
        sum_beta += e.beta[j]
    return Scales(kink, level, diagonal, speed, top, mass, sum_speed, sum_beta)


BLUR = 0.01  # part of the kinks: if rounding of f may be more than this, f is not sharp
SLIGHT = 256.0  # roundings of an f: only violations up to that are excused by it
ROUGH = 1e-4  # largest relative gap that rounding excuses; also of a state whose f is not sharp


class Audit(NamedTuple):
    """The quality of a state, computed from the decision values f that the state tracks."""

    violation: float  #: in units of f
    gap: float  #: in units of the objective; if f is not sharp, the largest that its rounding may cause
    size: float  #: the larger of primal and dual
    unit: float  #: the unit in which the gap is reported, see ``certificate.unit_of_gap``
    resolution: float  #: the effect on the gap of rounding of f; a smaller gap counts as 0
    balanced: bool  #: the betas have the right sum, or no free example can correct it
    is_sharp: bool  #: rounding of f is small compared with the kinks, so f tells on which side of them an example is
    mass: float  #: sum of |beta| k(x, x)
    blur: float  #: the rounding error of an f
    n_close: int  #: number of bound examples within the given band of a kink

    @property
    def relative_gap(self) -> float:
        """The duality gap as a share of the objective, as a certificate reports it."""
        return self.gap / self.unit if self.gap > 0.0 else 0.0

    def good(self, goal: float, roundings: float = 1.0) -> bool:
        """Say whether the duality gap is at most ``goal`` times the objective, or due to rounding (``is_good``)."""
        return is_good(self, goal, roundings)

    def optimal(self, goal: float, roundings: float = 1.0) -> bool:
        """Say whether the state is optimal up to a relative duality gap of ``goal`` or rounding (``is_optimal``)."""
        return is_optimal(self, goal, roundings)

    @property
    def is_finite(self) -> bool:
        """Whether the duality gap and the objective are finite numbers."""
        return self.gap + self.size < math.inf


@compiled
def is_good(audit: Audit, goal: float, roundings: float) -> bool:
    """Say whether the gap is at most ``goal`` times the objective, or ``roundings`` times the rounding error of f.

    Rounding never excuses a relative gap above ``ROUGH``.
    """
    if not audit.gap + audit.size < np.inf:
        return False
    if not audit.is_sharp:
        return audit.gap <= ROUGH * audit.size
    is_rounding = audit.violation <= SLIGHT * audit.blur and audit.gap <= roundings * audit.resolution
    return (is_rounding and audit.gap <= ROUGH * audit.unit) or audit.gap <= goal * audit.size


@compiled
def is_optimal(audit: Audit, goal: float, roundings: float) -> bool:
    """Say whether to accept a state: its duality gap is small enough, and its betas have the required sum."""
    return audit.balanced and is_good(audit, goal, roundings)


def audited(state: PathState, band: float = -1.0) -> Audit:
    """Return violation and duality gap from tracked decision values, and the number of bound examples near a kink.

    An example is near if its f is within ``band`` of a kink; with the default ``band`` the count is 0.
    """
    e, n, total, count = state.examples, state.n_slots, float(state.total), state.n
    audit = audit_of(e, n, float(state.b), band, 0.0, total, state.intercept, count, state.n_free)
    if audit.is_sharp:
        return audit
    worst = _gap_at_worst(state, EPS * audit.mass) if math.isfinite(audit.mass) else math.inf
    return audit_of(e, n, float(state.b), band, worst, total, state.intercept, count, state.n_free)


def _gap_at_worst(state: PathState, rounding: float) -> float:
    """Return the largest possible duality gap if each f has an error of at most ``rounding``.

    The contribution of an example to the gap is convex in its f, so it is largest at an end of the interval of f.
    """
    e, n = state.examples, state.n_slots
    losses, beta = Losses(e.kinks[:n], e.levels[:n], e.n_kinks[:n]), e.beta[:n]
    kink, has_kink = nearest_kink(losses, beta)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN is not an acceptable gap
        least = values(losses, kink) - beta * kink
        low, high = (values(losses, f) + beta * f - least for f in (e.f[:n] - rounding, e.f[:n] + rounding))
    return float(np.where(has_kink, np.maximum(np.maximum(low, high), 0.0), 0.0).sum())


@compiled
def audit_of(
    e: Examples, n: int, b: float, band: float, worst: float, total: float, intercept: bool, count: int, n_free: int
) -> Audit:
    """Return the quality of a state with ``n`` slots, ``count`` of which hold an example.

    The duality gap is computed from f, but is reported as at least ``worst``.
    """
    off_f = 0.0
    off_beta = 0.0
    kink_scale = 0.0
    level_scale = 0.0
    gap = 0.0
    primal = 0.0
    worth = 0.0  # the cost of the model that is 0 everywhere
    tallest = 0.0  # sum of the largest levels
    widest = 0.0  # largest k(x, x)
    exposed = 0.0  # growth of the gap per unit of f, over examples whose f decides about it
    sum_beta = 0.0
    sum_size = 0.0
    mass = 0.0  # sum of |beta| k(x, x), which bounds the rounding error of an f
    n_close = 0
    for j in range(n):
        q = e.segment[j] // 2
        p = e.n_kinks[j]
        f, beta = e.f[j], e.beta[j]
        is_close = is_close_to_kink(e, j, band)
        n_close += is_close and not is_free(e.segment[j])
        primal += 0.5 * beta * (f - b)
        sum_beta += beta
        sum_size += abs(beta)
        mass += abs(beta) * e.diagonal[j]
        widest = max(widest, e.diagonal[j])
        level = max(abs(e.levels[j, 0]), abs(e.levels[j, p]))
        level_scale = max(level_scale, level)
        tallest += level
        if p > 0:  # piece by piece: far beyond a kink, the difference of two large terms would be rounding
            first, second = e.kinks[j, FIRST], e.kinks[j, LAST]
            kink = max(abs(first), abs(second) if p > 1 else 0.0)
            kink_scale = max(kink_scale, kink)
            if kink > 0.0:
                worth += level * kink
            primal -= e.levels[j, FIRST] * min(0.0, f - first) + e.levels[j, LAST] * max(0.0, min(f, second) - first)
            primal -= e.levels[j, MAX_KINKS] * max(0.0, f - second)
        else:
            primal -= e.levels[j, 0] * f
        off, width = 0.0, 0.0
        if is_free(e.segment[j]):
            off = abs(f - e.kinks[j, q])
            width = beta - e.levels[j, q + 1] if f > e.kinks[j, q] else e.levels[j, q] - beta
            outside = max(beta - e.levels[j, q], e.levels[j, q + 1] - beta, 0.0)
        else:
            outside = abs(beta - e.levels[j, q])
            if q > 0 and f < e.kinks[j, q - 1]:
                off, width = e.kinks[j, q - 1] - f, e.levels[j, q - 1] - e.levels[j, q]
            if q < p and f > e.kinks[j, q]:
                off, width = f - e.kinks[j, q], e.levels[j, q] - e.levels[j, q + 1]
        gap += off * max(width, 0.0)
        off_f = max(off_f, off)
        off_beta = max(off_beta, outside)
        exposed += max(width, 0.0)
        if outside > 0.0:
            way = abs(f)
            if q > 0:
                way = max(way, abs(f - e.kinks[j, q - 1]))
            if q < p:
                way = max(way, abs(f - e.kinks[j, q]))
            gap += outside * way
    resolution = EPS * exposed * (kink_scale + mass)
    if kink_scale == 0.0:
        worth = tallest * sum_size * widest
    is_sharp = kink_scale == 0.0 or EPS * mass <= BLUR * kink_scale
    blur = EPS * (kink_scale + mass)
    f_scale = kink_scale if kink_scale > 0.0 else mass  # if all kinks are 0, f is at most the mass
    off_sum = abs(sum_beta - total) if intercept else 0.0
    primal += total * b
    resolution += EPS * sum_size * max(abs(b), f_scale)
    gap = max(gap, worst) + max(abs(b), f_scale) * off_sum
    relative_beta = max(off_beta, off_sum / max(1, count)) / max(level_scale, 1e-300)
    violation = max(off_f, relative_beta * max(f_scale, 1.0))
    balanced = off_sum <= 1e-13 * level_scale * count or n_free == 0
    size, unit = max(abs(primal), abs(primal - gap)), unit_of_gap(primal, gap, resolution, worth)
    return Audit(violation, gap, size, unit, resolution, balanced, is_sharp, mass, blur, n_close)
