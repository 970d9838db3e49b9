"""Forecasts before the window is full: the last or the seasonal value, with a band from the quantile of past errors.

These first forecasts are computed from the readings alone, and are neither stored nor scored.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import seasonal_back
from livesvm.service.feeds.forecasts import Served
from livesvm.service.feeds.plausible import Bounds

Floats = NDArray[np.float64]

ANY = Bounds(-math.inf, math.inf)


class NaiveForecast(NamedTuple):
    """The forecast of one step, half the width of its band, the naive values, and the kind of value that is served."""

    value: float
    half: float | None
    last: float
    seasonal: float | None
    served: Served


def naive_forecast(
    values: Floats, step: int, season: int, coverage: float | None, bounds: Bounds = ANY
) -> NaiveForecast:
    """Return the naive forecast of the reading that comes ``step`` readings after the last of ``values`` (n,).

    Parameters
    ----------
    values : the readings, oldest first, of which at least two are numbers; NaN: a missing reading
    season : the length of the season in readings; 0: no season
    bounds : say when 0 is forecast; differences of errors of less than a step apart count as one
    """
    real = np.isfinite(values)
    last = float(values[real][-1])
    reach = min(step, max(1, (len(values) - 1) // 2))  # errors further ahead would be one or two
    seasonal = _seasonal(values, step, season)
    if coverage is None and bounds.zero is not None and not (last or seasonal):  # no need to compare
        return NaiveForecast(0.0, None, last, seasonal, "zero")
    errors = _changes(values, reach)
    if not errors.size:  # gaps lie just so
        errors = np.diff(values[real])
    errors = errors * math.sqrt(step / reach)
    served: Served = "last-value"
    value, back, usual = last, reach, errors.mean()
    if seasonal is not None:
        phase = season * -(-step // season)
        others = _changes(values, phase)
        if others.size and others.mean() < min(usual, errors[-others.size :].mean()):
            value, served, back, usual = seasonal, "seasonal-naive", phase, others.mean()
            errors = others if others.size >= season else np.concatenate([errors, others])  # few are too small by luck
    sizes = np.abs(values[back:])[real[back:] & real[:-back]]  # of the readings that the errors are of
    if sizes.size and bounds.zero is not None and bounds.yields_to_zero(value, *_lead(values, back, step)):
        value, errors, served = 0.0, sizes, "zero"
    return NaiveForecast(value, None if coverage is None else _rank(errors, coverage), last, seasonal, served)


def _lead(values: Floats, back: int, step: int) -> tuple[float, float]:
    """Return how much smaller than those of 0 the errors of values ``back`` readings earlier are: sums, and of squares.

    Errors of less than ``step`` readings apart depend on each other, and are summed before they are squared.
    """
    better = np.abs(values[back:]) - np.abs(values[back:] - values[:-back])
    better[np.isnan(better)] = 0.0
    better = np.add.reduceat(better, range(0, better.size, step))
    return float(np.add.reduce(better)), float(better @ better)


def _changes(values: Floats, back: int) -> Floats:
    """Return the absolute differences between values and the values ``back`` readings earlier, if both are known."""
    found = np.abs(values[back:] - values[: max(0, len(values) - back)])
    return np.asarray(found[np.isfinite(found)])


def _seasonal(values: Floats, step: int, season: int) -> float | None:
    """Return the newest known value with the phase of the reading ``step`` ahead; None if there is none."""
    if not season:
        return None
    same = values[::-1][seasonal_back(season, step) :: season]
    same = same[np.isfinite(same)]
    return float(same[0]) if same.size else None


def _rank(errors: Floats, coverage: float) -> float:
    """Return the quantile of the errors at ``coverage``; for too few errors, a number above the largest error."""
    n = errors.size
    place = math.ceil((n + 1) * coverage) - 1
    if place >= n:
        return float(errors.max()) * (1.0 + 2.0 / n)
    return float(np.partition(errors, place)[place])
