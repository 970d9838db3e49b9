"""The season of a series against what its documentation says, computed plainly, on random series."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from livesvm.service.feeds.season import CYCLES, LEAST, LEAST_REST, autocorrelation, find_season

Floats = NDArray[np.float64]


def correlation(x: Floats, lag: int) -> float:
    """Return the mean product of deviations ``lag`` apart, relative to their mean square."""
    d = x - x.mean()
    pairs = [d[i] * d[i + lag] for i in range(x.size - lag)]
    return float(np.mean(pairs) / np.mean(d * d)) if d.any() else 0.0


def clipped(x: Floats) -> Floats:
    low, high = np.quantile(x, 0.02), np.quantile(x, 0.98)
    return np.array([min(max(v, low), high) for v in x])


def without_level(values: Floats, period: int) -> Floats:
    """Return each value less the mean of one period around it, where all of that is there."""
    half, out = period // 2, []
    for i in range(half, values.size - half):
        around = values[i - half : i + half + 1].copy()
        if period % 2 == 0:  # the ends count half each
            around[[0, -1]] /= 2
        out.append(values[i] - around.sum() / period)
    return np.array(out)


def season(values: Floats, natural: int) -> int:
    n, most = values.size, values.size // CYCLES
    steps = clipped(np.diff(values))
    if most < 3 or steps.min() == steps.max():
        return 0
    r = [correlation(steps, lag) for lag in range(most + 1)]
    significant = 4 / math.sqrt(n - 1)
    peaks = [lag for lag in range(3, most) if r[lag - 1] <= r[lag] >= r[lag + 1]]
    high = max((r[lag] for lag in peaks), default=-1.0)
    found = min((lag for lag in peaks if r[lag] >= 0.8 * high), default=0) if high >= max(LEAST, significant) else 0
    if natural < 3 or natural > most:
        return found
    x = clipped(without_level(values, natural))
    rest = [correlation(x, lag) for lag in range(most + 1)]
    around = range(natural - natural // 4, natural + natural // 4 + 1)

    def stands_out(r: list[float], least: float, slack: float) -> bool:
        highest = max(r[lag] for lag in around if lag < len(r))
        return r[natural] > least and r[natural] >= highest - slack and r[natural] - min(r[:natural]) >= least

    if not stands_out(r, significant, 0.0) and not stands_out(rest, LEAST_REST, significant / 2):
        return found
    says_as_much = found and natural % found == 0 and rest[found] >= rest[natural] - significant / 2
    return found if says_as_much else natural


SERIES = st.tuples(
    st.integers(0, 10**6), st.integers(8, 160), st.integers(2, 30), st.floats(0, 3), st.floats(0, 3), st.booleans()
)


@given(SERIES, st.integers(0, 45), st.booleans())
def test_the_season_is_the_one_of_its_definition(
    drawn: tuple[int, int, int, float, float, bool], other: int, fits: bool
) -> None:
    seed, n, period, noise, smooth, walks = drawn
    random, t = np.random.default_rng(seed), np.arange(n)
    values = random.normal(size=period)[t % period] + smooth * np.sin(2 * np.pi * t / period)
    values += noise * random.normal(size=n) + (0.3 * random.normal(size=n).cumsum() if walks else 0.01 * t)
    values[seed % n] += 20.0 * (seed % 3 == 0)  # an outlier
    natural = period * (1 + other % 3) if fits else other
    assert find_season(values, natural) == season(values, natural)


@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_autocorrelation_is_the_mean_of_products(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n) * 1e200
    scale = x / np.abs(x).max()
    for lag, found in enumerate(autocorrelation(x, n - 1)):
        assert found == pytest.approx(correlation(scale, lag), abs=1e-9)
    assert autocorrelation(np.full(7, 3.0), 4).tolist() == [0.0] * 5
