"""The period of a series, found by autocorrelation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST = 0.2  #: autocorrelation at the period, of changes
CYCLES = 4  #: how often a period has to fit into the readings


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


def find_season(values: Floats, day: int = 0) -> int:
    """Return the period of ``values`` (n,) in readings, 0 where there is none.

    Changes from reading to reading, of which a trend or a level has no part, are clipped against outliers; the period
    is the least lag whose autocorrelation is a peak that comes near to the highest one, and is significant. Of a
    ``day``, so many readings, the peak needs to be significant only.
    """
    changes = np.diff(values)
    most = values.size // CYCLES
    if most < 3 or not changes.any():
        return 0
    low, high = np.quantile(changes, [0.02, 0.98])
    if low == high:
        return 0
    r = autocorrelation(np.clip(changes, low, high), most)
    significant = 4 / float(np.sqrt(changes.size))
    peak = _least_peak(r, most, significant)
    near = r[day - day // 4 : day + day // 4 + 1]
    is_day = 3 <= day <= most and r[day] == near.max() and r[day] > significant
    return day if is_day and not (peak and day % peak == 0) else peak


def _least_peak(r: Floats, most: int, significant: float) -> int:
    peaks = [lag for lag in range(3, most) if r[lag] >= r[lag - 1] and r[lag] >= r[lag + 1]]
    if not peaks:
        return 0
    highest = max(float(r[lag]) for lag in peaks)
    if highest < max(LEAST, significant):
        return 0
    return next(lag for lag in peaks if r[lag] >= 0.8 * highest)
