"""Raw features at one reading; the time to compute them grows only with the number of lags and the rolling widths.

A row of raw features is computed once, when its reading arrives; ``represent`` transforms and scales it for models.
Features in units of the target, apart from spreads, come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import tzinfo
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.holidays import is_holiday
from livesvm.service.feeds.interval import DAY, Every, moment
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.timeline import Reading
from livesvm.solvers.runtime.cached import cached_property

Floats = NDArray[np.float64]

EPOCH_WEEKDAY, SATURDAY = 3, 5  #: weekdays of the first day of 1970, and of the first of a weekend
YEAR = 365.2425 * DAY
SPREADS = 3
AROUND = (-2, -1, 1, 2)  #: readings around the seasonal value that are features, of a season of so many at least:
LEAST_AROUND = 8
AROUND_WEEK = (-1, 1)
WAVES = (2, 3)  #: of a day, besides the whole one; where there is no day, of a year:
YEAR_WAVES = (2,)
MOST_BACK = 20_000  #: readings that are held of the target, for seasons beyond a window
LEAST_LINE, SPARE = 128, 4  #: readings of a history at first, and which part of the most it may hold besides
TOLERANCE = 0.01  #: by how much of a day, or of a week, so many readings may differ from it


@dataclass(frozen=True)
class RowLayout:
    """The features of rows, in the order of the columns; feeds with equal layouts share one object."""

    lags: tuple[int, ...]
    rolling: tuple[tuple[str, int], ...]  #: those in units of the target first
    others: int  #: columns known up to now
    known: int  #: columns known ahead
    seasons: tuple[int, ...]  #: periods in readings: the season, and the week of a series with days
    cycles: tuple[float, ...]  #: of the calendar, in seconds
    phases: tuple[int, ...] = ()  #: how many readings back the newest one's phase came before
    near: tuple[tuple[int, int], ...] = ()  #: seasons with offsets: readings around the seasonal values
    spread: int = 0  #: over so many readings: standard deviation, and what the least and the largest are off the mean
    weekend: bool = False  #: whether the newest reading and the one to come lie in one
    changes: bool = False  #: whether a step sees by how much known columns change until then, too
    holidays: str | None = None  #: of which place the same is said of holidays

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self)))

    @cached_property
    def levels(self) -> int:
        """How many of the shared features are values of the target, not differences or spreads."""
        return len(self.lags) + 1 + len(self.phases) + sum(name != "std" for name, _ in self.rolling)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The negative indices of lagged and seasonal values in the newest values, with -1 in the mean's place."""
        return np.array([*(-lag for lag in self.lags), -1, *(-1 - back for back in self.phases)], np.int64)

    @cached_property
    def shared(self) -> int:
        """How many features all steps share."""
        spreads = SPREADS if self.spread else 0
        return len(self.lags) + 1 + len(self.phases) + len(self.rolling) + spreads + self.others

    @cached_property
    def own_levels(self) -> int:
        """How many of a step's own features are values of the target: seasonal values and their neighbours."""
        return len(self.seasons) + len(self.near)

    @cached_property
    def calendar(self) -> int:
        """How many of a step's own features are calendar features."""
        return 2 * (len(self.cycles) + self.weekend + (self.holidays is not None))

    @cached_property
    def own(self) -> int:
        """How many features each step has of its own: seasonal values, calendar features, columns known ahead."""
        return self.own_levels + self.calendar + self.known * (1 + self.changes)

    @cached_property
    def reach(self) -> int:
        """The number of newest readings from which the features of a row are computed."""
        backs = (self.lags[-1], *self.seasons, *(back + 1 for back in self.phases), self.spread)
        return max(*backs, *(season + offset for season, offset in self.near), *(width for _, width in self.rolling), 1)


def layout_of(spec: FeedSpec, season: int, every: Every) -> RowLayout:
    """Return the layout of a feed's rows, given its season and the interval between readings."""
    rolling = sorted(spec.rolling_widths(), key=lambda pair: pair[0] == "std")
    has_calendar = spec.calendar and spec.time is not None
    cycles = calendar_cycles(every) if has_calendar else ()
    seasons = (season, *_weeks(season, spec.window, every)) if season else ()
    layout = RowLayout(spec.lag_list, tuple(rolling), len(spec.features), len(spec.known), seasons, cycles)
    if spec.generation == 1:
        return _the_same(layout)
    more = replace(layout, changes=bool(spec.known), holidays=spec.holidays)
    return _the_same(_with_more(more, spec.window))


@lru_cache(maxsize=256)
def _the_same(layout: RowLayout) -> RowLayout:
    """Return the layout object that all equal layouts share."""
    return layout


def _with_more(layout: RowLayout, window: int) -> RowLayout:
    """Return a layout with features that only second-generation feeds have: values around earlier seasons, weekends."""
    cycles = layout.cycles
    if DAY in cycles:
        cycles = (*cycles, *(DAY / wave for wave in WAVES))
    elif YEAR in cycles:
        cycles = (*cycles, *(YEAR / wave for wave in YEAR_WAVES))
    layout = replace(layout, cycles=cycles, weekend=7 * DAY in cycles)
    if not layout.seasons:
        return layout
    season, *weeks = layout.seasons
    backs = {back for back in (season, 2 * season, *weeks) if back <= window // 2}
    near = [(season, offset) for offset in AROUND] if season >= LEAST_AROUND else []
    near += [(week, offset) for week in weeks for offset in AROUND_WEEK]
    phases = tuple(sorted(back for back in backs if back + 1 not in layout.lags))
    return replace(layout, phases=phases, near=tuple(near), spread=season)


def _weeks(season: int, window: int, every: Every) -> tuple[int, ...]:
    """Return the period of a week in readings if the season is a day, and the window has two weeks; else nothing."""
    is_day = season == day_in(every)
    return (7 * season,) if is_day and 7 * season <= window // 2 else ()


def day_in(every: Every) -> int:
    """Return how many readings a day has; 0 unless that is a whole number of at least three."""
    return _count_in(DAY, every)


def _count_in(cycle: float, every: Every) -> int:
    count = 0 if every.months else round(cycle / every.seconds)
    return count if count >= 3 and abs(count * every.seconds - cycle) < TOLERANCE * cycle else 0


def natural_period(every: Every) -> int:
    """Return the length of the shortest calendar cycle of at least three readings, in readings; 0 if there is none."""
    if every.months:
        return 12 // every.months if every.months in (1, 2, 3, 4) else 0
    return day_in(every) or _count_in(7 * DAY, every)


def calendar_seasons(every: Every) -> tuple[int, ...]:
    """Return the lengths of calendar seasons in readings, ascending: of day and week, or of week and year.

    Seasons longer than ``MOST_BACK`` are left out; a year is rounded to whole readings.
    """
    week, year = _count_in(7 * DAY, every), round(YEAR / every.approximate_seconds())
    day = day_in(every)
    seasons = (day, week) if day else (week, 12 // every.months if every.months else year)
    return tuple(season for season in seasons if 3 <= season <= MOST_BACK)


def calendar_cycles(every: Every) -> tuple[float, ...]:
    """Return the calendar cycles of at least three readings, in seconds, out of day, week and year."""
    seconds = every.approximate_seconds()
    return tuple(cycle for cycle in (DAY, 7 * DAY, YEAR) if seconds <= cycle / 3)


def waves(clock: Floats, cycles: tuple[float, ...]) -> Floats:
    """Return the sine and the cosine of the phase of times (n,) in every cycle, (n, 2 cycles)."""
    angles = 2 * np.pi * (clock[:, None] / np.array(cycles) % 1.0)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(clock), -1)


def local_times(when: Floats, zone: tzinfo | None) -> Floats:
    """Return times as local wall-clock seconds in ``zone``."""
    if zone is None:
        return when
    offsets = [moment(time, zone).utcoffset() for time in when.tolist()]
    return when + [0.0 if offset is None else offset.total_seconds() for offset in offsets]


class History:
    """The newest values of the target, as many as features and experts need; its array grows as values arrive."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._line = np.zeros(min(longest, LEAST_LINE))  # readings up to ``_end``; before the newest are older ones
        self._end = 0
        self.count = 0

    @property
    def held_bytes(self) -> int:
        """The memory of the array in bytes."""
        return self._line.nbytes

    def append(self, value: float) -> None:
        """Append the newest value."""
        if self._end == self._line.size:
            kept, most = self.newest(min(self.count, self.longest)).copy(), self.longest + self.longest // SPARE + 1
            if self._line.size < most:
                self._line = np.zeros(min(most, 2 * self._line.size))
            self._line[: kept.size], self._end = kept, kept.size
        self._line[self._end] = value
        self._end += 1
        self.count += 1

    def drop(self, n: int) -> None:
        """Remove the newest ``n`` values; the history is then shorter, as older values are not stored."""
        held = max(0, min(self.count, self.longest) - n)
        kept = self.newest(held + n)[:held].copy()
        self._line[:held], self._line[held:] = kept, 0.0
        self._end = self.count = held

    def newest(self, n: int) -> Floats:
        """Return the newest ``n`` values, oldest first."""
        return self._line[self._end - n : self._end]

    def back(self, n: int) -> float:
        """Return the value ``n`` readings before the newest."""
        return float(self._line[self._end - 1 - n])

    def correct(self, n: int, value: float) -> None:
        """Replace the value ``n`` readings before the newest, if it is still stored."""
        if n < min(self.longest, self.count):
            self._line[self._end - 1 - n] = value

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"values": self.newest(min(self.count, self.longest)).copy(), "count": self.count}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        values = np.asarray(arrays["values"], np.float64)[-self.longest :]
        self._line = np.concatenate([values, np.zeros(max(0, LEAST_LINE - values.size))])
        self._end = values.size
        self.count = int(arrays["count"]) if values.size == self.longest else values.size  # fewer were held before


def shared_row(layout: RowLayout, newest: Floats, reading: Reading) -> Floats:
    """Return the features that all steps share: lags, their mean, rolling statistics and other columns; (shared,).

    The features are computed from the ``newest`` values, oldest first, at least ``layout.reach`` of them.
    """
    out = np.empty(layout.shared)
    n, at = len(layout.lags), layout.ends.size
    out[:at] = newest[layout.ends]
    out[n] = float(np.add.reduce(out[:n])) / n  # as NumPy computes the mean, but faster
    for name, width in layout.rolling:
        out[at] = _STATISTICS[name](newest[-width:])
        at += 1
    if layout.spread:
        last = newest[-layout.spread :]
        mean = float(np.add.reduce(last)) / last.size
        out[at : at + SPREADS] = _std(last, mean), np.minimum.reduce(last) - mean, np.maximum.reduce(last) - mean
        at += SPREADS
    out[at:] = reading.values[1 : 1 + layout.others]
    return out


def _mean(x: Floats) -> float:
    """Return the mean of ``x`` (n,), bit for bit as NumPy computes it, but faster."""
    return float(np.add.reduce(x)) / len(x)


def _std(x: Floats, mean: float) -> float:
    off = x - mean
    off *= off
    return math.sqrt(float(np.add.reduce(off)) / off.size)


_STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean": _mean,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "std": lambda x: _std(x, _mean(x)),
}


def seasonal_back(season: int, step: int) -> int:
    """Return how many readings ago the seasonal phase was last the same as that of the reading ``step`` ahead."""
    return -step % season


class Ahead:
    """Columns known ahead, by slot; a slot without values has those of the last slot before it."""

    def __init__(self, columns: int) -> None:
        self.values: dict[int, tuple[float, ...]] = {}
        self.newest: tuple[float, ...] = (0.0,) * columns
        self._reached = -1  # the slot of the newest

    def announce(self, slot: int, values: tuple[float, ...]) -> None:
        """Store the announced columns of a future slot."""
        self.values[slot] = values

    def suppose(self, slot: int, values: tuple[float, ...]) -> None:
        """Store the columns of a reading not yet processed as known ahead, unless its slot has been announced."""
        self.values.setdefault(slot, values)

    def reach(self, slot: int, values: tuple[float, ...]) -> None:
        """Store the actual columns of the newest slot, and discard the announcements up to it."""
        for known in range(self._reached + 1, slot + 1) if self.values else ():
            self.values.pop(known, None)
        self._reached, self.newest = slot, values

    def lead(self, slot: int, steps: tuple[int, ...]) -> int:
        """Return the last of the ascending ``steps`` up to which all slots after ``slot`` are announced; 0 if none."""
        found = 0
        for step in steps:
            if slot + step not in self.values:
                break
            found = step
        return found

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        values = np.array(list(self.values.values())).reshape(len(self.values), len(self.newest))
        return {"slots": np.array(list(self.values), np.int64), "values": values, "newest": list(self.newest)}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        pairs = zip(arrays["slots"].tolist(), arrays["values"].tolist(), strict=True)
        self.values = {slot: tuple(values) for slot, values in pairs}
        self._reached = min(self.values, default=0) - 1
        self.newest = tuple(arrays["newest"])

    def of(self, slot: int, steps: tuple[int, ...]) -> Floats:
        """Return the columns that are known at ``slot`` for the slots ``steps`` later, (steps, columns)."""
        out, last, at = [], self.newest, slot
        for step in steps:
            if self.values:
                last = next((self.values[s] for s in range(slot + step, at, -1) if s in self.values), last)
                at = slot + step
            out.append(last)
        return np.array(out, np.float64).reshape(len(steps), -1)


@lru_cache(maxsize=64)
def seasonal_ends(layout: RowLayout, steps: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the indices of seasonal values in the newest values, counted from the end, (steps, own levels).

    Seasonal values are the last values at each step's phase, and their neighbours.
    """
    around = [(season, 0) for season in layout.seasons] + list(layout.near)
    found = [[-1 - max(0, seasonal_back(season, step) + offset) for season, offset in around] for step in steps]
    return np.array(found, np.int64).reshape(len(steps), layout.own_levels)


def own_rows(
    layout: RowLayout, spec: FeedSpec, every: Every, zone: tzinfo | None, parts: tuple[Floats, Reading, Ahead]
) -> Floats:
    """Return the features that differ between steps: seasonal values, calendar and known columns; (steps, own).

    ``parts`` are the newest values, as for :func:`shared_row`, then the newest reading, and then the columns known
    ahead.
    """
    newest, reading, ahead = parts
    steps, at = spec.horizons, layout.own_levels
    ends, shared = _at_time(layout, every, steps, zone, reading.time if layout.calendar else 0.0)
    out = shared.copy()
    out[:, :at] = newest[ends]
    if layout.known:
        out[:, at + layout.calendar :] = known_columns(layout, ahead.of(reading.slot, steps), np.array(ahead.newest))
    return out


@lru_cache(maxsize=256)
def _at_time(
    layout: RowLayout, every: Every, steps: tuple[int, ...], zone: tzinfo | None, time: float
) -> tuple[NDArray[np.int64], Floats]:
    """Return the result of :func:`seasonal_ends`, and own features with only the calendar set; feeds share both."""
    found, at = np.zeros((len(steps), layout.own)), layout.own_levels
    if layout.calendar:
        when = np.array([time, *(every.after(time, step) for step in steps)])
        found[:, at : at + layout.calendar] = calendar_rows(layout, when, zone)
    found.flags.writeable = False
    return seasonal_ends(layout, steps), found


def known_columns(layout: RowLayout, known: Floats, now: Floats) -> Floats:
    """Return known columns (n, k) as features; some layouts add the changes from values ``now``, (k,) or (n, k)."""
    return np.concatenate([known, known - now], axis=1) if layout.changes else known


def calendar_rows(layout: RowLayout, when: Floats, zone: tzinfo | None) -> Floats:
    """Return the calendar features of all times but the first, which is the newest reading's: (times - 1, calendar).

    The columns are the sine and the cosine of each cycle, then flags of a weekend at the newest reading and at the time
    itself, then the same flags of a holiday.
    """
    clock = local_times(when, zone)
    out = np.empty((len(when) - 1, layout.calendar))
    out[:, : 2 * len(layout.cycles)] = waves(clock[1:], layout.cycles)
    at = 2 * len(layout.cycles)
    if layout.weekend:
        is_weekend = (clock // DAY + EPOCH_WEEKDAY) % 7 >= SATURDAY
        out[:, at], out[:, at + 1] = is_weekend[0], is_weekend[1:]
    if layout.holidays is not None:
        days = [moment(time) for time in clock.tolist()]
        is_free = [is_holiday(layout.holidays, day.year, day.toordinal()) for day in days]
        out[:, -2], out[:, -1] = is_free[0], is_free[1:]
    return out
