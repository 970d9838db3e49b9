"""Robust losses: convex tables with smaller slopes beyond a cutoff on either side [Suzumura et al.].

Beyond its cutoff the slope of a loss is only ``theta`` times the outermost slope of the convex table ``L`` that it is
made of::

    loss(f) = L(f) - (1 - theta) (a_first (low - f)_+ - a_last (f - high)_+)

with the outermost levels ``a_first >= 0 >= a_last``. For the hinge of a positive label the only cutoff is ``low = s``,
for a negative one ``high = -s`` [eq. 5]; for regression ``low = y - s`` and ``high = y + s`` [eq. 9]. The loss is not
convex at a cutoff. Each example therefore counts on one *side*: within its cutoffs it keeps its table, beyond one its
levels are all shifted by the same amount. That majorizes the loss, touches it wherever the side is the true one, and
needs no further kink.
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
    """The f beyond which the slopes of losses are reduced; infinite where they are not."""

    low: Floats  #: (m,)
    high: Floats  #: (m,)


def label_cutoffs(y: Floats, s: float) -> LossCutoffs:
    """Return the cutoffs of hinge losses for labels ``y`` (m,) in {-1, +1}: margins below ``s`` are beyond."""
    return LossCutoffs(np.where(y > 0, s, -np.inf), np.where(y > 0, np.inf, -s))


def residual_cutoffs(y: Floats, s: float) -> LossCutoffs:
    """Return the cutoffs of regression losses for targets ``y`` (m,): residuals larger than ``s`` are beyond."""
    return LossCutoffs(y - s, y + s)


class CutoffRule(NamedTuple):
    """The rule by which s places the cutoffs of a kind of loss."""

    cutoffs: Callable[[Floats, float], LossCutoffs]  #: of targets (m,) and s
    reach: Callable[[Floats, Floats], Floats]  #: at which s a cutoff comes to f: of targets (m,) and f (m,)
    inwards: float  #: 1: cutoffs come in as s grows; -1: as s falls
    tube: float = 0.0  #: residuals up to this have no loss; s is larger

    def at(self, s: float) -> Callable[[Floats], LossCutoffs]:
        """Return the function that places the cutoffs of targets (m,) for one s."""
        return lambda y: self.cutoffs(y, s)

    def default(self, parameter: Parameter, reach: Floats, y: Floats) -> float:
        """Return the default s, from the ``reach`` (m,) of examples at the convex optimum.

        Residuals that are tiny compared with the targets ``y`` (m,) are rounding, and leave every example within.
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
    """Return the side on which each ``f`` (m,) lies; an f on a cutoff counts as within."""
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
    """Return the convex losses of a partition: shifted tables give outliers ``theta`` times their slope beyond."""
    return Losses(base.kinks, base.levels - (1.0 - theta) * outermost(base, sides)[:, None], base.n_kinks)


def outermost(base: Losses, sides: Sides) -> Floats:
    """Return the level of the piece beyond the cutoff of each outlier, (m,); 0 for the others."""
    last = base.levels[np.arange(sides.size), base.n_kinks]
    return np.where(sides == BELOW, base.levels[:, 0], np.where(sides == BEYOND, last, 0.0))
