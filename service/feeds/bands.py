"""Bands that hold a given share of readings: adaptive conformal inference [Gibbs & Candès, NeurIPS 2021].

Each step keeps, for each side, its last scores, which are how far readings were beyond the forecast, and a level of its
own: after every reading the level moves by a rate times how much the miss differs from what is wanted, and the side of
the next band is the quantile of the scores at that level. Over time the share of misses is right whatever the series
does, and drift of any kind is followed. With pinball models scores are taken from their quantiles [Romano, Patterson &
Candès, 2019].
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POINTER = 8  #: bytes of a place in a list
SCORE = getsizeof(0.0) + 2 * POINTER  #: of a number that stands in two
RATE = 0.005  #: of the level, a reading
BEYOND = 1.5  #: times the highest score: the side of a band whose level has reached 0


class Band(NamedTuple):
    """An interval; None where nothing is known yet."""

    low: float | None
    high: float | None


class Side:
    """One side of a band: scores are signed, positive where the reading was beyond.

    Parameters
    ----------
    miss : the share of readings that may be beyond
    most : how many scores are kept
    """

    def __init__(self, miss: float, most: int) -> None:
        self.miss, self.level, self._most = miss, miss, most
        self._scores: deque[float] = deque(maxlen=most)
        self._sorted: list[float] = []
        self._packed: Floats | None = None  # the scores, of a cool side

    @property
    def scores(self) -> deque[float]:
        """The newest scores, oldest first; those of a cool side come back from their array now."""
        if self._packed is not None:
            self._scores = deque(self._packed.tolist(), maxlen=self._most)
            self._sorted, self._packed = sorted(self._scores), None
        return self._scores

    def cool(self) -> None:
        """Keep scores as an array until they are asked for."""
        if self._packed is None:
            self._packed = np.array(self._scores)
            self._scores, self._sorted = deque(maxlen=self._most), []

    @property
    def held_bytes(self) -> int:
        """Bytes of the scores: each is a number that stands in two lists, or in an array."""
        return SCORE * len(self._scores) if self._packed is None else self._packed.nbytes

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` gives back."""
        return (SCORE - POINTER) * len(self._scores)

    def offset(self) -> float | None:
        """Return by how much the side lies beyond the forecast; None before the first scores."""
        n = len(self.scores)
        if n == 0:
            return None
        place = math.ceil((n + 1) * (1.0 - self.level)) - 1
        if place >= n:
            top = self._sorted[-1]
            return top + (BEYOND - 1.0) * abs(top) if self.level <= 0.0 else top
        return self._sorted[max(place, 0)]

    def learn(self, score: float, offset: float | None) -> None:
        """Take the score of a reading whose side was at ``offset``."""
        if offset is not None:
            missed = score > offset
            self.level += RATE * (self.miss - missed)
        scores = self.scores
        if len(scores) == scores.maxlen:
            del self._sorted[bisect_left(self._sorted, scores[0])]
        scores.append(score)
        insort(self._sorted, score)

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Forget some of the newest scores, (n,) in order, and all before these; whether there were any before."""
        known = list(self.scores)
        newest = known[len(known) - len(which) :]
        self.replace([score for score, goes in zip(newest, which, strict=True) if not goes])
        return len(known) > len(which)

    def replace(self, scores: list[float]) -> None:
        """Have these scores, in order, in place of those before."""
        self.scores.clear()
        self.scores.extend(scores)
        self._sorted = sorted(self.scores)

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return {"level": self.level, "scores": np.array(self._scores) if self._packed is None else self._packed}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        self.level = float(arrays["level"])
        self.scores.extend(np.asarray(arrays["scores"]).tolist())
        self._sorted = sorted(self.scores)


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
        return sum(side.held_bytes for side in self.sides)

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` gives back."""
        return sum(side.hot_bytes for side in self.sides)

    def cool(self) -> None:
        """Keep scores as arrays until they are asked for."""
        for side in self.sides:
            side.cool()

    def around(self, low: float, high: float) -> Band:
        """Return the band of a forecast, or of its two quantiles."""
        below, above = (side.offset() for side in self.sides)
        if below is None or above is None:
            return Band(None, None)
        ends = low - below, high + above
        return Band(min(ends), max(ends))

    def learn(self, actual: float, low: float, high: float, band: Band) -> None:
        """Take a reading whose forecast, or quantiles, were ``low`` and ``high``, and its ``band``."""
        below, above = self.sides
        below.learn(low - actual, None if band.low is None else low - band.low)
        above.learn(actual - high, None if band.high is None else band.high - high)

    def seed(self, low: Floats, high: Floats) -> None:
        """Take residuals, reading minus forecast or its quantiles, (n,) each, from before the first forecast."""
        for below, above in zip(low.tolist(), high.tolist(), strict=True):
            self.sides[0].learn(-below, None)
            self.sides[1].learn(above, None)

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Forget some of the newest scores, (n,) in order, and all before these; whether there were any before."""
        begun = [side.forget(which) for side in self.sides]
        return any(begun)

    def reseed(self, low: Floats, high: Floats) -> None:
        """Take residuals as :meth:`seed` does, as if they had come before all that is known."""
        known = [list(side.scores) for side in self.sides]
        for side in self.sides:
            side.replace([])
        self.seed(low, high)
        for side, later in zip(self.sides, known, strict=True):
            side.replace([*side.scores, *later])

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        below, above = (side.to_arrays() for side in self.sides)
        return {f"below.{k}": v for k, v in below.items()} | {f"above.{k}": v for k, v in above.items()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        for side, name in zip(self.sides, ("below.", "above."), strict=True):
            side.restore({k.removeprefix(name): v for k, v in arrays.items() if k.startswith(name)})
