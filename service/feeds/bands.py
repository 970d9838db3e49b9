"""Prediction intervals with a given coverage, by adaptive conformal inference [Gibbs & Candès, NeurIPS 2021].

A band is the prediction interval of one forecast step; its lower and its upper end are its sides. Each side keeps its
latest scores and a miss rate, called its level. A score is the distance by which a reading lay beyond the forecast on
that side. After a reading beyond this side of the band the level decreases, which widens the band; after any other
reading it increases a little. The next end of the band lies as far beyond the forecast as the quantile of the scores
that the level determines. In the long run the share of readings outside the band is the wanted one, even where the
series drifts. With quantile models, scores are distances from the forecast quantiles [Romano, Patterson & Candès,
2019].

A band reaches at least as far on each side as the band of the step before. The errors of a longer step overlap and are
known later, so they tell less about the errors to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.plausible import Bounds

Floats = NDArray[np.float64]

RATE = 0.006  #: of the level, a reading
BEYOND = 3.0  #: times the highest score and the share by which more scores are to lie inside than there are


class Band(NamedTuple):
    """A prediction interval; its ends are None before the first scores."""

    low: float | None
    high: float | None

    def inside(self, bounds: Bounds) -> Band:
        """Return the band with both ends clipped to the bounds."""
        if self.low is None or self.high is None:
            return self
        if bounds.low <= self.low and self.high <= bounds.high:
            return self
        return Band(bounds.inside(self.low), bounds.inside(self.high))

    def holding(self, value: float) -> Band:
        """Return the band extended so that it contains a value."""
        if self.low is None or self.high is None:
            return self
        return Band(min(self.low, value), max(self.high, value))


class Side:
    """One side of a band, with its scores: positive for a reading outside of the forecast on this side, else negative.

    Parameters
    ----------
    miss : the share of readings that may be beyond
    most : how many scores are kept
    """

    def __init__(self, miss: float, most: int) -> None:
        self.miss, self.level, self._most = miss, miss, most
        self.scores: Floats = np.empty(0)  #: the newest, oldest first

    def offset(self) -> float | None:
        """Return the distance from the forecast to this end of the band; None before the first scores."""
        n = self.scores.size
        if n == 0:
            return None
        behind = (n + 1) * (1.0 - self.level)  # so many scores lie inside
        if behind > n:
            top = float(self.scores.max())
            return top + BEYOND * (behind / n - 1.0) * abs(top)
        place = max(0, math.ceil(behind) - 1)
        scores = self.scores.copy()
        scores.partition(place)
        return scores.item(place)

    def learn(self, score: float, offset: float | None) -> None:
        """Add a reading's score, and adapt the level; ``offset`` is the distance from forecast to band end."""
        if offset is not None:
            missed = score > offset
            self.level += RATE * (self.miss - missed)
        kept = min(self.scores.size, self._most - 1)
        after = np.empty(kept + 1)
        after[:kept], after[kept] = self.scores[self.scores.size - kept :], score
        self.scores = after

    def take(self, scores: Floats) -> None:
        """Add scores, oldest first, without changing the level."""
        self.scores = np.concatenate([self.scores, scores])[-self._most :]

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Drop scores older than the last n, and those marked in ``which`` (n,); return whether any were older."""
        n, known = len(which), self.scores.size
        self.scores = self.scores[known - n :][~which]
        return known > n

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"level": self.level, "scores": self.scores}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        self.level = float(arrays["level"])
        self.scores = np.array(arrays["scores"], np.float64)


class ConformalBand:
    """The band of one step; each of its two sides has a level of its own, so that skewed errors give a skewed band.

    Parameters
    ----------
    coverage : the share of readings that it is to hold
    most : how many of the newest scores it is made of
    """

    def __init__(self, coverage: float, most: int) -> None:
        self.sides = Side((1.0 - coverage) / 2, most), Side((1.0 - coverage) / 2, most)

    @property
    def held_bytes(self) -> int:
        """The memory of the scores of both sides in bytes."""
        below, above = self.sides
        return below.scores.nbytes + above.scores.nbytes

    def around(self, low: float, high: float, least: tuple[float, float] = (-math.inf, -math.inf)) -> Band:
        """Return the band around a forecast, given as ``low`` equal to ``high``, or around its two outer quantiles.

        Its ends are at least the distances ``least`` from these.
        """
        below, above = self.sides[0].offset(), self.sides[1].offset()
        if below is None or above is None:
            return Band(None, None)
        low, high = low - max(below, least[0]), high + max(above, least[1])
        return Band(low, high) if low <= high else Band(high, low)

    def learn(self, actual: float, low: float, high: float, band: Band) -> None:
        """Learn from a reading, and from the forecast quantiles ``low`` and ``high`` and the ``band`` made for it."""
        below, above = self.sides
        below.learn(low - actual, None if band.low is None else low - band.low)
        above.learn(actual - high, None if band.high is None else band.high - high)

    def errors(self, n: int = 0) -> Floats:
        """Return the newest ``n`` errors, or all, oldest first: how far readings lay above the middle of forecasts."""
        below, above = self.sides
        return np.asarray((above.scores[-n:] - below.scores[-n:]) / 2)

    def has_one_sign(self, n: int) -> bool:
        """Say whether the newest ``n`` readings all lay above, or all below, their forecasts."""
        errors = self.errors(n)
        return errors.size > 0 and not errors.min() <= 0.0 <= errors.max()

    def follow_shift(self, change: float, missed: NDArray[np.bool_], *, is_single: bool) -> None:
        """Learn that the level had shifted by ``change`` before the newest n readings.

        After a single shift, their scores become those on one level, where that is nearer, and what the sides' levels
        learnt is taken back. After one of several shifts, both sides are to hold the next one. ``missed`` (2, n) says
        which readings lay below and above their bands.
        """
        n, worst = missed.shape[1], min(self.sides, key=lambda side: side.level)
        at, errors = worst.scores.size - n, self.errors()[worst.scores.size - n :]
        moved = np.where(np.abs(errors - change) < np.abs(errors), change, 0.0)
        for side, beyond, higher in zip(self.sides, missed, (moved, -moved), strict=True):
            newest = side.scores[at:] + higher if is_single else worst.scores[at:]
            side.scores = np.concatenate([side.scores[:at], newest])
            side.level = side.level + RATE * (int(beyond.sum()) - n * side.miss) if is_single else worst.level

    def seed(self, low: Floats, high: Floats) -> None:
        """Take residuals (n,) of both quantiles, as reading minus forecast, from the time before the first forecast."""
        self.sides[0].take(-low)
        self.sides[1].take(high)

    def forget(self, which: NDArray[np.bool_]) -> bool:
        """Drop scores older than the last n, and those marked in ``which`` (n,); return whether any were older."""
        begun = [side.forget(which) for side in self.sides]
        return any(begun)

    def reseed(self, low: Floats, high: Floats) -> None:
        """Insert residuals, in the form for :meth:`seed`, as scores older than all existing scores."""
        known = [side.scores for side in self.sides]
        for side in self.sides:
            side.scores = side.scores[:0]
        self.seed(low, high)
        for side, later in zip(self.sides, known, strict=True):
            side.take(later)

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        below, above = (side.to_arrays() for side in self.sides)
        return {f"below.{k}": v for k, v in below.items()} | {f"above.{k}": v for k, v in above.items()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        for side, name in zip(self.sides, ("below.", "above."), strict=True):
            side.restore({k.removeprefix(name): v for k, v in arrays.items() if k.startswith(name)})
