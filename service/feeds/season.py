"""The period of a series, found by autocorrelation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST = 0.2  #: autocorrelation at the period, of changes
LEAST_REST = 0.3  #: the same at a natural period, of values without their level
CYCLES, NATURAL_CYCLES = 4, 3  #: how often a period has to fit into the readings, and a natural one


def autocorrelation(x: Floats, most: int) -> Floats:
    """Return the autocorrelation of ``x`` (n,) at lags 0 to ``most``, as (most + 1,); zeros where ``x`` is constant."""
    centred = x - x.mean()
    scale = np.abs(centred).max(initial=0.0)
    if scale == 0.0:
        return np.zeros(most + 1)
    size = 1 << int(np.ceil(np.log2(2 * x.size)))
    power = np.abs(np.fft.rfft(centred / scale, size)) ** 2
    products = np.fft.irfft(power, size)[: most + 1]
    return np.asarray(products / products[0] * x.size / (x.size - np.arange(most + 1)))


def find_season(values: Floats, natural: int = 0, longest: int | None = None) -> int:
    """Return the seasonal period of ``values`` (n,) in readings; 0 if there is none.

    The autocorrelation is that of changes from reading to reading, which contain no level and hardly any trend. The
    changes are clipped against outliers. The period is the least lag with a significant peak that is nearly as high as
    the highest one. A ``natural`` period, like that of a day, needs less evidence, because it is not one of many lags
    that are tried. A significant peak at this lag is enough, in the changes, or in the values minus their moving
    average, where a smooth season stands out from noise. A period is at most ``longest``; the limit is needed because
    held gaps can make ``values`` longer than the window.
    """
    changes = np.diff(values)
    limit = values.size if longest is None else longest
    most, beyond = min(values.size // CYCLES, limit), min(values.size // NATURAL_CYCLES, limit)
    if most < 3 or not np.ptp(_clipped(changes)):
        return 0
    r = autocorrelation(_clipped(changes), beyond + beyond // 4)
    significant = 4 / float(np.sqrt(changes.size))
    peak = _least_peak(r, most, significant)
    if not 3 <= natural <= beyond:
        return peak
    rest = autocorrelation(_clipped(_without_level(values, natural)), beyond + beyond // 4)
    slack = significant / 2
    if not (_is_peak(r, natural, significant) or _is_peak(rest, natural, LEAST_REST, slack)):
        return peak
    return peak if peak and natural % peak == 0 and rest[peak] >= rest[natural] - slack else natural


def _clipped(x: Floats) -> Floats:
    return np.clip(x, *np.quantile(x, [0.02, 0.98]))


def _without_level(values: Floats, period: int) -> Floats:
    """Return values minus their centred moving average over one period, without both ends, where it is not defined."""
    weights = np.full(period + 1, 1 / period)
    weights[[0, -1]] /= 2
    if period % 2:
        weights = np.full(period, 1 / period)
    level = np.convolve(values, weights, "valid")
    first = len(weights) // 2
    return np.asarray(values[first : first + level.size] - level)


def _is_peak(r: Floats, lag: int, least: float, slack: float = 0.0) -> bool:
    """Say whether the autocorrelation has a peak at ``lag``: above ``least``, the highest nearby, and after a dip."""
    near = r[lag - lag // 4 : lag + lag // 4 + 1]
    return bool(r[lag] > least and r[lag] >= near.max() - slack and r[lag] - r[:lag].min() >= least)


def _least_peak(r: Floats, most: int, significant: float) -> int:
    peaks = [lag for lag in range(3, most) if r[lag] >= r[lag - 1] and r[lag] >= r[lag + 1]]
    if not peaks:
        return 0
    highest = max(float(r[lag]) for lag in peaks)
    if highest < max(LEAST, significant):
        return 0
    return next(lag for lag in peaks if r[lag] >= 0.8 * highest)
