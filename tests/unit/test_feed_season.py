"""The season of a series against what its documentation says, computed plainly, on random series."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.service.feeds.season import CYCLES, LEAST, LEAST_REST, NATURAL_CYCLES, autocorrelation, find_season

Floats = NDArray[np.float64]


def correlations(x: Floats) -> Floats:
    """Return the mean products of deviations 0, 1, ... apart, relative to their mean square."""
    d = x - x.mean()
    if not d.any():
        return np.zeros(x.size)
    return np.asarray(np.correlate(d, d, "full")[x.size - 1 :] / np.arange(x.size, 0, -1) / np.mean(d * d))


def clipped(x: Floats) -> Floats:
    low, high = np.quantile(x, 0.02), np.quantile(x, 0.98)
    return np.minimum(np.maximum(x, low), high)


def without_level(values: Floats, period: int) -> Floats:
    """Return each value less the mean of one period around it, where all of that is there."""
    around = np.lib.stride_tricks.sliding_window_view(values, period + 1 - period % 2)
    weights = np.ones(around.shape[1])
    if period % 2 == 0:
        weights[[0, -1]] = 0.5  # the ends count half each
    return np.asarray(values[period // 2 :][: len(around)] - around @ weights / period)


def season(values: Floats, natural: int, longest: int = 10**6) -> int:
    n, most = values.size, min(values.size // CYCLES, longest)
    beyond = min(n // NATURAL_CYCLES, longest)
    steps = clipped(np.diff(values))
    if most < 3 or steps.min() == steps.max():
        return 0
    r = correlations(steps).tolist()
    significant = 4 / math.sqrt(n - 1)
    peaks = [lag for lag in range(3, most) if r[lag - 1] <= r[lag] >= r[lag + 1]]
    high = max((r[lag] for lag in peaks), default=-1.0)
    found = min((lag for lag in peaks if r[lag] >= 0.8 * high), default=0) if high >= max(LEAST, significant) else 0
    if natural < 3 or natural > beyond:
        return found
    x = clipped(without_level(values, natural))
    rest = correlations(x).tolist()
    around = range(natural - natural // 4, natural + natural // 4 + 1)

    def stands_out(r: list[float], least: float, slack: float) -> bool:
        highest = max(r[lag] for lag in around if lag <= beyond + beyond // 4)
        return r[natural] > least and r[natural] >= highest - slack and r[natural] - min(r[:natural]) >= least

    if not stands_out(r, significant, 0.0) and not stands_out(rest, LEAST_REST, significant / 2):
        return found
    says_as_much = found and natural % found == 0 and rest[found] >= rest[natural] - significant / 2
    return found if says_as_much else natural


def series(seed: int) -> tuple[Floats, int]:
    """Return a series that may have a season, or two, and a period that may be its natural one."""
    random = np.random.default_rng(seed)
    n, period = int(random.integers(8, 120)), int(random.integers(2, 16))
    natural = period * int(random.choice([1, 1, 2, 3])) + int(random.choice([0, 0, -1, 1, 4]))
    t = np.arange(n)
    values = random.choice([0.0, 0.3, 1.0]) * random.normal(size=period)[t % period]
    values += random.choice([0.0, 1.0, 3.0]) * np.sin(2 * np.pi * t / (natural or 1))
    values += random.choice([0.0, 0.3, 1.0]) * random.normal(size=n)
    values += random.choice([0.0, 0.3]) * random.normal(size=n).cumsum() + random.choice([0.0, 0.1]) * t
    values[seed % n] += 20.0 * (seed % 3 == 0)
    if seed % 7 == 0:
        values = values.round()  # ties
    return values, natural


def test_the_season_is_the_one_of_its_definition() -> None:
    found = {seed: find_season(*series(seed)) for seed in range(550)}
    assert found == {seed: season(*series(seed)) for seed in found}
    assert len(set(found.values())) > 15


def test_no_season_is_longer_than_what_is_remembered() -> None:
    found = {seed: find_season(*series(seed), 8) for seed in range(100)}
    assert found == {seed: season(*series(seed), 8) for seed in found}
    assert 3 < max(found.values()) <= 8


@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_autocorrelation_is_the_mean_of_products(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n) * 1e200
    scale = x / np.abs(x).max()
    assert autocorrelation(x, n - 1) == pytest.approx(correlations(scale), abs=1e-9)
    assert autocorrelation(np.full(7, 3.0), 4).tolist() == [0.0] * 5
