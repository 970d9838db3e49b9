"""Made-up series of the kinds that break forecasters: (name, readings)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator


def _trend_and_season(random: Random, t: Floats) -> Floats:
    return np.asarray(100 + 0.05 * t + 20 * np.sin(2 * np.pi * t / 24) + 4 * random.normal(size=len(t)))


def _growing_season(random: Random, t: Floats) -> Floats:
    level = (50 + 0.1 * t) * (1 + 0.4 * np.sin(2 * np.pi * t / 24))
    return np.asarray(level * np.exp(0.05 * random.normal(size=len(t))))


def _intermittent(random: Random, t: Floats) -> Floats:
    return np.asarray(np.where(random.random(len(t)) < 0.12, random.geometric(0.2, len(t)), 0), np.float64)


def _counts(random: Random, t: Floats) -> Floats:
    return np.asarray(random.poisson(4 + 3 * np.sin(2 * np.pi * t / 24)), np.float64)


def _walk(random: Random, t: Floats) -> Floats:
    return random.normal(size=len(t)).cumsum()


def _heavy_tails(random: Random, t: Floats) -> Floats:
    return np.asarray(10 * np.sin(2 * np.pi * t / 24) + random.standard_t(1.5, size=len(t)))


def _constant(random: Random, t: Floats) -> Floats:
    return np.full(len(t), 7.0)


def _nearly_constant(random: Random, t: Floats) -> Floats:
    return np.where(random.random(len(t)) < 0.01, 8.0, 7.0)


def _short_season(random: Random, t: Floats) -> Floats:
    return np.asarray(np.array([1.0, 5.0, 2.0])[t.astype(int) % 3] + 0.3 * random.normal(size=len(t)))


def _alternating(random: Random, t: Floats) -> Floats:
    return np.where(t % 2 == 0, 1.0, -1.0) + 0.2 * random.normal(size=len(t))


def _white_noise(random: Random, t: Floats) -> Floats:
    return random.normal(size=len(t))


def _steps(random: Random, t: Floats) -> Floats:
    levels = random.normal(size=len(t) // 150 + 1) * 10
    return np.asarray(levels[t.astype(int) // 150] + 0.5 * random.normal(size=len(t)))


def _huge(random: Random, t: Floats) -> Floats:
    return 1e12 + 1e6 * (np.sin(2 * np.pi * t / 24) + 0.2 * random.normal(size=len(t)))


def _tiny(random: Random, t: Floats) -> Floats:
    return 1e-9 * (3 + np.sin(2 * np.pi * t / 24) + 0.2 * random.normal(size=len(t)))


def _autoregressive(random: Random, t: Floats) -> Floats:
    out = np.zeros(len(t))
    for i in range(1, len(t)):
        out[i] = 0.8 * out[i - 1] + random.normal()
    return out


def _price(random: Random, t: Floats) -> Floats:
    volatility = np.exp(0.02 * random.normal(size=len(t)).cumsum().clip(-40, 40))
    return np.asarray(100 * np.exp((0.005 * volatility * random.normal(size=len(t))).cumsum()))


def _weekdays(random: Random, t: Floats) -> Floats:
    work = np.where((t // 24) % 7 < 5, 1.0, 0.5)
    return np.asarray(200 + 80 * work * np.sin(2 * np.pi * (t - 6) / 24) + 10 * work + 6 * random.normal(size=len(t)))


def _traffic(random: Random, t: Floats) -> Floats:
    mean = np.exp(3 + 0.8 * np.sin(2 * np.pi * t / 24) + 0.3 * ((t // 24) % 7 < 5))
    return np.asarray(random.negative_binomial(5, 5 / (5 + mean)), np.float64)


def _daylight(random: Random, t: Floats) -> Floats:
    clouds = np.clip(0.7 + 0.3 * (0.05 * random.normal(size=len(t)).cumsum() % 1), 0, 1)
    sun = np.maximum(0.0, np.sin(2 * np.pi * (t - 6) / 24))
    return np.asarray(500 * sun * clouds * (1 + 0.05 * random.normal(size=len(t))))


def _on_and_off(random: Random, t: Floats) -> Floats:
    return np.asarray((random.random(len(t)) < 0.02).cumsum() % 2, np.float64)


def _outages(random: Random, t: Floats) -> Floats:
    values = _trend_and_season(random, t)
    for begin in random.integers(0, len(t), len(t) // 150):
        values[begin : begin + random.integers(5, 60)] = np.nan
    return values


def _shifts(random: Random, t: Floats) -> Floats:
    values = _trend_and_season(random, t)
    values[len(t) // 2 :] += 150
    values[3 * len(t) // 4 :] -= 250
    return values


KINDS: dict[str, Callable[[Random, Floats], Floats]] = {
    "trend and season": _trend_and_season,
    "growing season": _growing_season,
    "intermittent demand": _intermittent,
    "counts": _counts,
    "random walk": _walk,
    "heavy tails": _heavy_tails,
    "constant": _constant,
    "nearly constant": _nearly_constant,
    "season of three": _short_season,
    "alternating": _alternating,
    "white noise": _white_noise,
    "levels": _steps,
    "huge": _huge,
    "tiny": _tiny,
    "autoregressive": _autoregressive,
    "price": _price,
    "weekdays": _weekdays,
    "traffic": _traffic,
    "daylight": _daylight,
    "on and off": _on_and_off,
    "outages": _outages,
    "shifts": _shifts,
}


def made_up(kind: str, n: int, seed: int = 0) -> Floats:
    """So many readings of a kind, hourly; what is missing is NaN."""
    return np.asarray(KINDS[kind](np.random.default_rng(seed), np.arange(n, dtype=np.float64)), np.float64)
