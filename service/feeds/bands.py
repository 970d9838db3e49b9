"""Bands that hold a given share of readings: adaptive conformal inference [Gibbs & Candès, NeurIPS 2021].

Each step keeps, for each side, its last scores, which are how far readings were beyond the forecast, and a level of its
own: after every reading the level moves by a rate times how much the miss differs from what is wanted, and the side of
the next band is the quantile of the scores at that level. Over time the share of misses is right whatever the series
does, and drift of any kind is followed. With pinball models scores are taken from their quantiles [Romano, Patterson &
Candès, 2019].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.plausible import Bounds

Floats = NDArray[np.float64]

RATE = 0.005  #: of the level, a reading
BEYOND = 1.5  #: times the highest score: the side of a band at level 0


class Band(NamedTuple):
    """An interval; None where nothing is known yet."""

    low: float | None
    high: float | None

    def inside(self, bounds: Bounds) -> Band:
        """Return what of it can be."""
        if self.low is None or self.high is None:
            return self
        return Band(bounds.inside(self.low), bounds.inside(self.high))

    def holding(self, value: float) -> Band:
        """Return the least band that holds a value, too."""
        if self.low is None or self.high is None:
            return self
        return Band(min(self.low, value), max(self.high, value))


class Side:
    """One side of a band: scores are signed, positive where the reading was beyond.

    Parameters
    ----------
    miss : the share of readings that may be beyond
    most : how many scores are kept
    """

    def __init__(self, miss: float, most: int) -> None:
        self.miss, self.level, self._most = miss, miss, most
        self.scores: Floats = np.empty(0)  #: the newest, oldest first

    @property
    def held_bytes(self) -> int:
        """Bytes of the scores."""
        return self.scores.nbytes

    def offset(self) -> float | None:
        """Return by how much the side lies beyond the forecast; None before the first scores."""
        n = self.scores.size
        if n == 0:
            return None
        place = math.ceil((n + 1) * (1.0 - self.level)) - 1
        if place >= n:
            top = float(self.scores.max())
            return top + (BEYOND - 1.0) * abs(top) if self.level <= 0.0 else top
        place = 0 if place < 0 else place
        scores = self.scores.copy()
        scores.partition(place)
        return scores.item(place)

    def learn(self, score: float, offset: float | None) -> None:
        """Take the score of a reading with its side at ``offset``."""
        if offset is not None:
            missed = score > offset
            self.level += RATE * (self.miss - missed)
        self.take(np.array([score]))

    def take(self, scores: Floats) -> None:
        """Take scores, oldest first, from which the level learns nothing."""
        self.scores = np.concatenate([self.scores, scores])[-self._most :]

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Forget some of the newest scores, (n,) in order, and all before these; whether there were any before."""
        n, known = len(which), self.scores.size
        self.scores = self.scores[known - n :][~which]
        return known > n

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return {"level": self.level, "scores": self.scores}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        self.level = float(arrays["level"])
        self.scores = np.array(arrays["scores"], np.float64)


class ConformalBand:
    """The band of one step: two sides with levels of their own, so that skewed errors get a skewed band.

    Parameters
    ----------
    coverage : the share of readings that it is to hold
    most : how many of the newest scores it is made of
    """

    def __init__(self, coverage: float, most: int) -> None:
        self.sides = Side((1.0 - coverage) / 2, most), Side((1.0 - coverage) / 2, most)

    @property
    def held_bytes(self) -> int:
        """Bytes of the scores of both sides."""
        below, above = self.sides
        return below.held_bytes + above.held_bytes

    def around(self, low: float, high: float) -> Band:
        """Return the band of a forecast, or of its two quantiles."""
        below, above = self.sides[0].offset(), self.sides[1].offset()
        if below is None or above is None:
            return Band(None, None)
        ends = low - below, high + above
        return Band(min(ends), max(ends))

    def learn(self, actual: float, low: float, high: float, band: Band) -> None:
        """Take a reading with its forecast, or quantiles ``low`` and ``high``, and its ``band``."""
        below, above = self.sides
        below.learn(low - actual, None if band.low is None else low - band.low)
        above.learn(actual - high, None if band.high is None else band.high - high)

    def seed(self, low: Floats, high: Floats) -> None:
        """Take residuals, reading minus forecast or its quantiles, (n,) each, from before the first forecast."""
        self.sides[0].take(-low)
        self.sides[1].take(high)

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Forget some of the newest scores, (n,) in order, and all before these; whether there were any before."""
        begun = [side.forget(which) for side in self.sides]
        return any(begun)

    def reseed(self, low: Floats, high: Floats) -> None:
        """Take residuals as :meth:`seed` does, as if they had come before all that is known."""
        known = [side.scores for side in self.sides]
        for side in self.sides:
            side.scores = side.scores[:0]
        self.seed(low, high)
        for side, later in zip(self.sides, known, strict=True):
            side.take(later)

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        below, above = (side.to_arrays() for side in self.sides)
        return {f"below.{k}": v for k, v in below.items()} | {f"above.{k}": v for k, v in above.items()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        for side, name in zip(self.sides, ("below.", "above."), strict=True):
            side.restore({k.removeprefix(name): v for k, v in arrays.items() if k.startswith(name)})
