"""Robust losses: piecewise-linear convex losses with smaller slopes beyond a cutoff on either side [Suzumura et al.].

Beyond a cutoff the slope of a robust loss is only ``theta`` times the outermost slope of the convex loss ``L``::

    loss(f) = L(f) - (1 - theta) (a_first (low - f)_+ - a_last (f - high)_+)

where ``a_first >= 0 >= a_last`` are the outermost slopes of ``L``, with the sign changed. For the hinge of a positive
label the only cutoff is ``low = s``, for a negative one ``high = -s`` [eq. 5]; for regression ``low = y - s`` and
``high = y + s`` [eq. 9]. The robust loss is not convex at a cutoff. Each example is therefore assigned to a *side*:
within its cutoffs it has the convex loss, and beyond a cutoff a convex loss with all slopes changed by the same amount.
The convex loss of a side is nowhere below the robust loss, equals it where the assigned side is the true one, and needs
no further kink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats

Sides = NDArray[np.int8]

Parameter = Literal["theta", "s"]

TYPICAL = 3.7  # 2.5 standard deviations of normal residuals, in medians of their sizes [Rousseeuw & Leroy]
ROUNDING = 1e-6  # residuals of this share of the largest target are none
INNERMOST = 0.2  # part of the largest residual at which OP-s ends in regression [Suzumura et al., section 5.2]
BELOW, WITHIN, BEYOND = -1, 0, 1  #: the sides


@by_reference
class LossCutoffs(NamedTuple):
    """The values of f beyond which the slopes of losses are reduced; infinite if there is no such value."""

    low: Floats  #: (m,)
    high: Floats  #: (m,)


def label_cutoffs(y: Floats, s: float) -> LossCutoffs:
    """Return the cutoffs of hinge losses for labels ``y`` (m,) in {-1, +1}: examples with y f < ``s`` are beyond."""
    return LossCutoffs(np.where(y > 0, s, -np.inf), np.where(y > 0, np.inf, -s))


def residual_cutoffs(y: Floats, s: float) -> LossCutoffs:
    """Return the cutoffs of regression losses for targets ``y`` (m,): examples with abs(y - f) > ``s`` are beyond."""
    return LossCutoffs(y - s, y + s)


class CutoffRule(NamedTuple):
    """The rule that computes the cutoffs of one kind of loss from s."""

    cutoffs: Callable[[Floats, float], LossCutoffs]  #: of targets (m,) and s
    reach: Callable[[Floats, Floats], Floats]  #: at which s a cutoff comes to f: of targets (m,) and f (m,)
    inwards: float  #: 1: cutoffs come in as s grows; -1: as s falls
    tube: float = 0.0  #: residuals up to this have no loss; s is larger

    def at(self, s: float) -> Callable[[Floats], LossCutoffs]:
        """Return the function that computes the cutoffs of targets (m,) for one s."""
        return lambda y: self.cutoffs(y, s)

    def of(self, scale: Callable[[Floats], Floats]) -> CutoffRule:
        """Return the same rule for losses that take ``scale(targets)`` instead of the targets."""
        return self._replace(cutoffs=lambda y, s: self.cutoffs(scale(y), s), reach=lambda y, f: self.reach(scale(y), f))

    def default(self, parameter: Parameter, reach: Floats, y: Floats) -> float:
        """Return the default s; ``reach`` (m,) is the s at which each example, at the convex optimum, meets a cutoff.

        If all residuals are tiny compared with the targets ``y`` (m,), they count as rounding errors; no example is
        then beyond its cutoffs.
        """
        if self.inwards > 0:
            return 0.0
        typical, largest = float(np.median(reach)), float(reach.max())
        interpolated = typical <= 1e-6 * largest  # most residuals are zero, but for rounding
        s = TYPICAL * typical if parameter == "theta" and not interpolated else INNERMOST * largest
        return max(s, 2.0 * self.tube, ROUNDING * float(np.abs(y).max())) or 1.0


def residual_sizes(y: Floats, f: Floats) -> Floats:
    """Return ``|y - f|``."""
    return np.abs(y - f)


LABELS = CutoffRule(label_cutoffs, np.multiply, 1.0)  # margins, y f
RESIDUALS = CutoffRule(residual_cutoffs, residual_sizes, -1.0)


def true_sides(cutoffs: LossCutoffs, f: Floats) -> Sides:
    """Return the side of the cutoffs on which each ``f`` (m,) lies; an f at a cutoff counts as within."""
    return ((f > cutoffs.high).astype(np.int8) - (f < cutoffs.low)).astype(np.int8)


@compiled
def size_of(table: Floats) -> float:
    """Return the size of the largest finite entry (m, k); 0 if there is none."""
    size = 0.0
    for j in range(table.shape[0]):
        for q in range(table.shape[1]):
            entry = abs(table[j, q])
            if size < entry < np.inf:
                size = entry
    return size


def conditional(base: Losses, sides: Sides, theta: float) -> Losses:
    """Return the convex losses of a partition; beyond the cutoff, outliers have ``theta`` times the convex slope."""
    return Losses(base.kinks, base.levels - (1.0 - theta) * outermost(base, sides)[:, None], base.n_kinks)


def outermost(base: Losses, sides: Sides) -> Floats:
    """Return the outermost slope, sign changed, of each outlier's convex loss beyond the cutoff, (m,); 0 for others."""
    last = base.levels[np.arange(sides.size), base.n_kinks]
    return np.where(sides == BELOW, base.levels[:, 0], np.where(sides == BEYOND, last, 0.0))
