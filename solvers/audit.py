"""How good a state is, judged by the f that it tracks; the certificate judges from the data instead."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.compile import compiled
from solvers.state import Examples, PathState

EPS = float(np.finfo(np.float64).eps)


class Audit(NamedTuple):
    """How good the state is by the f it tracks."""

    violation: float  #: in units of f
    gap: float  #: in units of the objective
    size: float  #: the larger of primal and dual
    resolution: float  #: what rounding of f makes of the gap; less than that counts as none
    kink_scale: float  #: largest kink
    level_scale: float  #: largest level
    balanced: bool  #: the betas sum up to what they should, or nobody is free to mend it

    @property
    def relative_gap(self) -> float:
        return self.gap / max(self.size, self.resolution) if self.gap > 0 else 0.0

    def good(self, goal: float, roundings: float = 1.0) -> bool:
        """Say whether the gap is as small as asked for, or as that many roundings of each f allow."""
        return self.gap <= max(goal * self.size, roundings * self.resolution)


def audited(state: PathState) -> Audit:
    """Return the violation and the duality gap of the state, judged by its own f."""
    found = _audit(state.examples, state.n_slots, state.b)
    off_f, off_beta, kink_scale, level_scale, gap, primal, resolution, sum_beta, sum_size = found
    if kink_scale == 0.0:  # one class: f has the scale that the kernel gives it
        kink_scale = max(state.total, level_scale) * float(state.examples.diagonal[: state.n_slots].max())
    off_sum = abs(sum_beta - state.total) if state.intercept else 0.0
    primal += state.total * state.b
    resolution += EPS * sum_size * max(abs(state.b), kink_scale)
    gap += max(abs(state.b), kink_scale) * off_sum
    relative_beta = max(off_beta, off_sum / max(1, state.n)) / max(level_scale, 1e-300)
    violation = max(off_f, relative_beta * max(kink_scale, 1.0))
    balanced = off_sum <= 1e-13 * level_scale * state.n or state.n_free == 0
    return Audit(violation, gap, max(abs(primal), abs(primal - gap)), resolution, kink_scale, level_scale, balanced)


@compiled
def _audit(e: Examples, n: int, b: float) -> tuple[float, float, float, float, float, float, float, float, float]:
    off_f = 0.0
    off_beta = 0.0
    kink_scale = 0.0
    level_scale = 0.0
    gap = 0.0
    primal = 0.0
    exposed = 0.0  # what the gap grows by per unit of f, over those whose f decides about it
    sum_beta = 0.0
    sum_size = 0.0
    mass = 0.0  # sum of |beta| k(x, x), and with it what rounding can do to an f
    for j in range(n):
        q = e.seg[j] // 2
        p = e.n_kinks[j]
        f, beta = e.f[j], e.beta[j]
        primal += 0.5 * beta * (f - b)
        sum_beta += beta
        sum_size += abs(beta)
        mass += abs(beta) * e.diagonal[j]
        level_scale = max(level_scale, abs(e.levels[j, 0]), abs(e.levels[j, p]))
        if p > 0:
            primal -= e.levels[j, 0] * (f - e.kinks[j, 0])
            for k in range(p):
                kink_scale = max(kink_scale, abs(e.kinks[j, k]))
                primal += (e.levels[j, k] - e.levels[j, k + 1]) * max(0.0, f - e.kinks[j, k])
        else:
            primal -= e.levels[j, 0] * f
        off, width = 0.0, 0.0
        if e.seg[j] & 1:
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
        gap += outside * abs(f)
    resolution = EPS * exposed * (kink_scale + mass)
    return off_f, off_beta, kink_scale, level_scale, gap, primal, resolution, sum_beta, sum_size


@compiled
def gap_of(e: Examples, n: int, b: float) -> tuple[float, float, float]:
    """Return the gap, the primal objective but for the part of the sum, and the resolution, for compiled callers."""
    _, _, _, _, gap, primal, resolution, _, _ = _audit(e, n, b)
    return gap, primal, resolution
