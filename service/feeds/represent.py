"""The form in which models learn targets and features: relative to a reference value, and standardized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import RowLayout
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.spec import Represent
from livesvm.solvers.kernels.lines import Scaling, write_scaled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 6.0  #: widths from the median: features count as no further
FAR = 5.0  #: widths from the median: outliers are beyond
MOVED = 2.0  #: by which factor the spread of what is learnt has to move for it to be scaled again
SIXTHS = (1 / 6, 5 / 6)
LEAST_CORE = 0.02
TINY = 1e-9  #: a deviation below this share of the size of numbers is rounding


class StepScale(NamedTuple):
    """The centres that are subtracted from features and targets, and the widths by which these are divided."""

    centre: Floats  #: of features, (d,)
    width: Floats  #: of features, (d,)
    middle: float  #: of targets: their median
    unit: float  #: of targets: their width
    spreads: tuple[float, float]  #: of targets and of levels, as they were
    core: float = 1.0  #: of targets: below 1 where two thirds of them are the same


def base_of(layout: RowLayout, represent: Represent) -> int:
    """Return the index of the feature that is subtracted from all features that are values of the target."""
    return len(layout.lags) if represent == "level" else 0


def scaled(scale: StepScale, X: Floats) -> Floats:
    """Return features (n, d) scaled for models, and clipped to ``MOST`` widths from the median."""
    out = np.ascontiguousarray(X - scale.centre)
    out /= scale.width
    np.minimum(out, MOST, out=out)
    return np.maximum(out, -MOST, out=out)


def represented(layout: RowLayout, represent: Represent, shared: Floats, own: Floats) -> Floats:
    """Return unscaled model features (n, d) from raw rows, which are ``shared`` (n, s) and one step's ``own`` (n, o).

    The newest reading, or for "level" the mean of the lags, is subtracted from all features that are values of the
    target. Only the subtracted feature itself keeps its value, so that a shift of the series changes a single feature.
    """
    out = np.concatenate([shared, own], axis=1)
    base = base_of(layout, represent)
    level = shared[:, base : base + 1]
    out[:, : layout.levels] -= level
    out[:, layout.shared : layout.shared + layout.own_levels] -= level
    out[:, base] = level[:, 0]
    return out


def reference(layout: RowLayout, represent: Represent, shared: Floats, own: Floats) -> Floats:
    """Return the reference values (n,) that are subtracted from the targets of raw rows."""
    at = reference_at(layout, represent)
    return shared[:, at] if at < layout.shared else own[:, at - layout.shared]


def reference_at(layout: RowLayout, represent: Represent) -> int:
    """Return the index of the feature subtracted from targets: newest reading, mean of lags, or seasonal value."""
    if represent == "seasonal-change" and layout.seasons:
        return layout.shared
    return base_of(layout, represent)


def spread(x: Floats) -> float:
    """Return the robust standard deviation of ``x`` (n,); 0 if ``x`` is empty or constant."""
    return float(widths(x[:, None])[0]) if x.size and np.ptp(x) > TINY * np.abs(x).max() else 0.0


def widths(X: Floats) -> Floats:
    """Return robust standard deviations (d,) of the columns of ``X`` (n, d), on which outliers have little effect.

    Half the distance between the quantiles at one sixth and five sixths is nearly the standard deviation of normally
    distributed numbers. Values are clipped to ``FAR`` times this half distance from the median, unless it is 0. The
    width of a constant column is the size of its value, or 1 if that is 0.
    """
    low, middle, high = np.quantile(X, [SIXTHS[0], 1 / 2, SIXTHS[1]], axis=0)
    size = np.abs(X).max(axis=0, initial=0.0)
    most = np.where(high - low > TINY * size, FAR * (high - low) / 2, np.inf)
    width = np.clip(X, middle - most, middle + most).std(axis=0)
    return np.where(width > TINY * size, width, np.where(size > 0.0, size, 1.0))


def fitted(X: Floats, y: Floats, level: int = 0) -> StepScale:
    """Fit a scale to features ``X`` (n, d) and targets ``y`` (n,); column ``level`` holds the level of the series.

    Without examples, the scale changes nothing, and :func:`has_moved` asks for a new scale once there are some.
    """
    if not len(y):
        return StepScale(np.zeros(X.shape[1]), np.ones(X.shape[1]), 0.0, 1.0, (0.0, 0.0), 1.0)
    unit, middle = float(widths(y[:, None])[0]), float(np.median(y))
    low, high = np.quantile(y, SIXTHS)
    core = 1.0 if high - low > TINY * np.abs(y).max() else LEAST_CORE
    return StepScale(np.median(X, axis=0), widths(X), middle, unit, (spread(y), spread(X[:, level])), core)


def has_moved(scale: StepScale, y: Floats, levels: Floats) -> bool:
    """Say whether the spread of targets ``y`` (n,) or newest readings ``levels`` (n,) differs from that at the fit."""
    for before, now in zip(scale.spreads, (spread(y), spread(levels)), strict=True):
        least, most = sorted((before, now))
        if most > MOVED * least and most > TINY * float(np.abs(levels).max(initial=0.0)):
            return True
    return False


class StepFeatures(NamedTuple):
    """The features of examples in the window for the models of ``step``, an index; ordinals identify the examples."""

    rows: Rows
    step: int
    represent: Represent

    def of(self, ordinals: Sequence[int]) -> Floats:
        """Return the unscaled features of examples, (m, d)."""
        shared, own = self.rows.features(ordinals)
        return represented(self.rows.layout, self.represent, shared, own[:, self.step])

    def write(self, scale: StepScale, ordinals: Ints, out: Floats) -> None:
        """Write scaled features of examples, in ascending order, to the first columns of ``out`` (d, m or more)."""
        found = self.rows.lines(self.step)
        if found is None:
            out[:, : ordinals.size] = scaled(scale, self.of(ordinals.tolist())).T
            return
        lines, first = found
        base = base_of(self.rows.layout, self.represent)
        write_scaled(lines, Scaling(scale.centre, scale.width, MOST), base, ordinals - first, out)
