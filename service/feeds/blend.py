"""Blends: weighted means of a step's expert forecasts, from its model, naive rules, means and linear models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isnan
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import (
    MOST_BACK,
    YEAR,
    RowLayout,
    calendar_cycles,
    calendar_seasons,
    day_in,
    local_times,
    natural_period,
    seasonal_back,
)
from livesvm.service.feeds.interval import DAY, Every
from livesvm.service.feeds.plausible import Bounds
from livesvm.service.feeds.season import NATURAL_CYCLES
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.timeline import Timeline
from livesvm.solvers.models import blend
from livesvm.solvers.models.blend import Lookback

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Said = tuple[float | None, ...]

Expert = Literal[
    "model", "last-value", "seasonal-naive", "seasonal-mean", "weekly-mean", "linear", "linear-log", "daily-mean",
    "yearly-mean", "longer-naive",
]  # fmt: skip
EXPERTS: tuple[Expert, ...] = get_args(Expert)
NO_EXPERTS: Said = (None,) * len(EXPERTS)
MODEL, LAST, SEASONAL, MEAN, WEEK, LINEAR, LOG, DAILY, YEARLY, LONGER = range(len(EXPERTS))
SEASONS = 4  #: of which means are
LAGS = (1, 2, 3)  #: readings before the newest that linear experts see
WIDTHS = (24, 168)  #: of the means that they see
NO_LEAD = 0.0, 0.0  #: over 0: sums of the differences of errors, and of their squares, discounted
LEAST = 100  #: readings with all that experts look back on, from which those without are not learnt


@lru_cache(maxsize=512)
def lookback_of(seasons: tuple[int, ...], step: int, longest: int, cycles: tuple[float, ...], day: int = 0) -> Lookback:
    """Return which past readings the experts use, at most ``longest`` readings back; ``day`` is one of the seasons."""
    experts: list[list[int]] = [[0]]
    others = [[lag] for lag in LAGS] + [list(range(width)) for width in WIDTHS]
    phases = [seasonal_back(season, step) for season in seasons]
    experts += [[back] for back in phases[:1]]
    for season, back in zip(seasons, phases, strict=True):
        mean = [back + k * season for k in range(SEASONS)]
        (others if season == day != seasons[0] else experts).append(mean)
        others.append([k * season for k in range(SEASONS)])
    experts += [[back] for back in phases[1:2]]
    others += [[max(0, back + off)] for back in phases[:2] for off in (-1, 1, 2)]
    means = [[back for back in mean if back <= longest] or [0] for mean in experts + others]
    first = np.cumsum([0, *map(len, means)])
    return Lookback(np.concatenate(means).astype(np.int64), first, len(experts), np.array(cycles), step, day)


def seasons_of(spec: FeedSpec, layout: RowLayout, every: Every) -> tuple[int, ...]:
    """Return the ascending periods of seasonal experts, in readings: the feed's season, and longer calendar cycles.

    If the feed has no season, only calendar cycles are returned. Without a season, days and weeks are left out if the
    window is so long that the search for a season would have found them.
    """
    if not (spec.has_blends and spec.calendar) or spec.time is None or spec.season == 0:
        return layout.seasons
    found, least = layout.seasons[:1], max(layout.seasons[:1], default=0)
    if not found and NATURAL_CYCLES * natural_period(every) <= spec.window:
        least = round(7 * DAY / every.approximate_seconds())
    return (*found, *(season for season in calendar_seasons(every) if season > least))


def history_size(spec: FeedSpec, layout: RowLayout, every: Every) -> int:
    """Return how many readings of the target a feed stores: as many as its window has, or more if experts need them."""
    seasons, longest = seasons_of(spec, layout, every), max(spec.window, MOST_BACK)
    backs = [int(lookback_of(seasons, step, longest, ()).back.max()) + step for step in spec.horizons]
    return 1 + max(spec.window, *backs)


def cycles_of(spec: FeedSpec, layout: RowLayout, every: Every) -> tuple[float, ...]:
    """Return the calendar cycles that are features of linear experts, in readings; none if the feed has a season."""
    if layout.seasons or not spec.calendar or spec.time is None:
        return ()
    found = calendar_cycles(every)
    return tuple(cycle / every.approximate_seconds() for cycle in (*found, *(one / 2 for one in found if one == YEAR)))


class Blend:
    """The experts of one step, and their weights; ``state`` holds everything that the blend has learnt.

    Parameters
    ----------
    spec, layout, timeline : of the feed
    step : how many readings ahead
    """

    def __init__(self, spec: FeedSpec, layout: RowLayout, timeline: Timeline, step: int) -> None:
        every = timeline.every
        assert every is not None
        self.seasons = seasons_of(spec, layout, every)
        day = day_in(every) if spec.calendar and spec.time is not None and day_in(every) in self.seasons else 0
        self.look = lookback_of(self.seasons, step, max(spec.window, MOST_BACK), cycles_of(spec, layout, every), day)
        first = (timeline.time or 0.0) - timeline.slot * every.seconds
        self._begun = round(local_times(np.array([first]), timeline.zone)[0] % DAY / every.seconds) if day else 0
        self.state = blend.new_state(self.look)
        self.lead = NO_LEAD
        self.is_served = spec.has_blends
        seconds = every.approximate_seconds()
        longer = [WEEK if n * seconds < 30 * DAY else YEARLY for n in self.seasons[1:] if n != day]
        self._back = seasonal_back(self.seasons[-1], step) if self.seasons else None
        self._places = [MODEL, LAST, *([SEASONAL, MEAN] if self.seasons else []), *longer]
        self._places += [*([LONGER] if self.seasons[1:] else []), *([DAILY] if day else []), LINEAR, LOG]

    def longest_season(self, values: Floats) -> float | None:
        """Return the newest value with the step's phase in the longest season; None if there are too few ``values``."""
        return None if self._back is None or self._back >= values.size else values.item(-1 - self._back)

    def begin(self, values: Floats, newest: int, slots: Ints, actual: Floats, model: Floats) -> Floats:
        """Reset the state, and learn from past readings ``actual`` (n,) at ``slots`` (n,).

        Parameters
        ----------
        values, newest : the history up to a slot
        model : the model's forecasts from the newest of these readings, (m,)

        Returns
        -------
        The blended forecasts of these, (m,); NaN where there is none.
        """
        at = len(values) - 1 - (newest - slots)
        given = np.concatenate([np.full(len(at) - len(model), np.nan), model])
        here = at >= self._least_known(at)
        self.state, out, self.lead = blend.new_state(self.look), np.full(len(at), np.nan), NO_LEAD
        out[here] = blend.replay(
            self.look, values, at[here], slots[here] + self._begun, actual[here], given[here], self.state
        )
        return out[len(at) - len(model) :]

    def _least_known(self, at: Ints) -> int:
        """Return the first index with values of all means, except means with values at too few of ``at`` (n,)."""
        nearest = np.minimum.reduceat(self.look.back, self.look.first[:-1])
        known = nearest[nearest <= at[-LEAST]] if len(at) >= LEAST else nearest[:0]
        return int(known.max(initial=0))

    def compare(self, value: float, actual: float) -> None:
        """Count by how much the blend's forecast ``value`` of a reading was better than 0, unless it is NaN."""
        if not isnan(value):
            (gain, squares), better = self.lead, abs(actual) - abs(actual - value)
            self.lead = blend.DISCOUNT * gain + better, blend.DISCOUNT * squares + better * better

    def yields_to_zero(self, value: float, bounds: Bounds) -> bool:
        """Say whether 0 is forecast instead of ``value``, as the blend was not yet clearly better than 0."""
        return self.is_served and bounds.yields_to_zero(value, *self.lead)

    def forecast(self, values: Floats, slot: int, model: float, bounds: Bounds) -> tuple[float, Said, Said]:
        """Return the blended forecast from the newest of ``values``, each expert's forecast, and each expert's weight.

        Absent experts are None, and all forecasts are clipped to ``bounds``.
        """
        found, weights = blend.forecast(self.look, values, len(values) - 1, slot + self._begun, model, self.state)
        (low, high, _), said, shares, value = bounds, list(NO_EXPERTS), list(NO_EXPERTS), 0.0
        for place, one, weight in zip(self._places, found.tolist(), weights.tolist(), strict=True):
            if one == one:
                said[place] = one = low if one < low else high if one > high else one
            shares[place] = weight
            if weight > 0.0:
                value += weight * one
        if not self.is_served:
            value, shares = said[MODEL] or 0.0, [1.0, *NO_EXPERTS[1:]]
        return bounds.inside(value), tuple(said), tuple(shares)

    def learn(self, values: Floats, slot: int, said: Said, value: float, actual: float) -> None:
        """Learn from the ``actual`` reading; ``said`` are the experts' forecasts of it, ``value`` is the blend's."""
        if not self.is_served:
            return
        self.compare(value, actual)
        found = np.array([said[place] for place in self._places], np.float64)
        blend.learn(self.look, values, len(values) - 1, slot + self._begun, actual, self.state)
        blend.weigh(self.look, found, value, actual, self.state)

    def shift(self, change: float) -> None:
        """Adapt the linear models to a shift of the series by ``change``."""
        blend.shift(self.look, self.state, change)

    def doubt(self) -> None:
        """Reset the weights to their initial values."""
        blend.forget_record(self.look, self.state)
        self.lead = NO_LEAD

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"state": self.state.copy(), "lead": np.array(self.lead), "begun": self._begun}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        self.state, self._begun = np.array(arrays["state"], np.float64), int(arrays.get("begun", self._begun))
        wrong, zero = arrays.get("rare", (0.0, 0.0))  # of 0.2 feeds: the errors of the blend and of 0
        gain, squares = arrays.get("lead", (zero - wrong, 0.0))
        self.lead = float(gain), float(squares)
