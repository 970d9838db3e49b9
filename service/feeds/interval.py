"""The interval between readings: a fixed time, or calendar months."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput

DAY = 86400.0
LEAST_SECONDS, MOST_SECONDS = 1e-3, 3660 * DAY
MOST_MONTHS = 1200
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}
_MONTHS = {"mo": 1, "y": 12}
OFF = 0.25  #: by how much of their distance readings may be early or late
DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)?\s*(ms|s|min|h|d|w|mo|y)\s*$")


def moment(seconds: float, zone: tzinfo | None = None) -> datetime:
    """Convert seconds since 1970, also negative ones, to a datetime in ``zone``, by default UTC."""
    return (EPOCH + timedelta(seconds=seconds)).astimezone(zone or UTC)


def seconds_of(when: datetime) -> float:
    """Convert a datetime with a zone to seconds since 1970."""
    return (when - EPOCH).total_seconds()


@dataclass(frozen=True)
class Every:
    """The interval between readings: ``months`` if that is not 0, otherwise ``seconds``.

    ``zone`` is the time zone in which days and months begin; its calendar days have 23 to 25 hours. ``day`` is the day
    of the month on which readings lie, as far as is known, and 0 if it is unknown. In months with fewer days, readings
    lie on the last day.
    """

    seconds: float = 0.0
    months: int = 0
    zone: tzinfo | None = None
    day: int = 0

    def seen(self, time: float) -> Every:
        """Return the interval with its ``day`` updated by the time of a new reading."""
        if not self.months or self.day == 31:
            return self
        return replace(self, day=max(self.day, moment(time, self.zone).day))

    def between(self, earlier: float, later: float) -> float:
        """Return how many intervals lie between two times, in seconds since 1970."""
        if not self.months:
            return (later - earlier) / self.seconds
        return (self._month(later) - self._month(earlier)) / self.months

    def after(self, time: float, count: int) -> float:
        """Return the time ``count`` intervals after ``time``, in seconds since 1970."""
        if self.months:
            start = moment(time, self.zone)
            year, month = divmod(start.year * 12 + start.month - 1 + count * self.months, 12)
            day = min(max(start.day, self.day), _days_of(year, month + 1))
            return seconds_of(start.replace(year=year, month=month + 1, day=day))
        if self.zone is not None and self.seconds % DAY == 0:
            return seconds_of(moment(time, self.zone) + timedelta(seconds=count * self.seconds))
        return time + count * self.seconds

    def floor(self, time: float) -> float:
        """Return the newest time of the clock's grid that is not after ``time``, in seconds since 1970."""
        if self.months:
            when = moment(time, self.zone)
            year, month = divmod((when.year * 12 + when.month - 1) // self.months * self.months, 12)
            return seconds_of(datetime(year, month + 1, 1, tzinfo=when.tzinfo))
        if self.seconds % DAY:
            at = round(1e6 * time)  # whole microseconds have exact remainders
            return (at - at % round(1e6 * self.seconds)) / 1e6
        when, days = moment(time, self.zone), int(self.seconds // DAY)
        first = when.date() - timedelta(days=(when.toordinal() - 1) % days)  # day 1 is a Monday
        return seconds_of(datetime(first.year, first.month, first.day, tzinfo=when.tzinfo))

    def steps(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many intervals lie between one time and the next, as :meth:`between` does."""
        if not self.months:
            return np.diff(times) / self.seconds
        return np.array([self.between(one, other) for one, other in pairwise(times.tolist())])

    def floors(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the result of :meth:`floor` for each time."""
        if self.months or self.zone is not None:
            return np.array([*map(self.floor, times.tolist())])
        if self.seconds % DAY:
            at = np.round(1e6 * times)
            return (at - at % round(1e6 * self.seconds)) / 1e6
        day = np.floor(times / DAY)
        return (day - (day + EPOCH.toordinal() - 1) % (self.seconds // DAY)) * DAY

    def approximate_seconds(self) -> float:
        """Return the length of the interval in seconds, with an average length of months."""
        return self.months * 30.436875 * DAY if self.months else self.seconds

    def _month(self, time: float) -> float:
        when = moment(time, self.zone)
        part = (when.day - 1 + (when.hour * 3600 + when.minute * 60 + when.second) / DAY) / _days_of(
            when.year, when.month
        )
        return when.year * 12 + when.month + part

    def __str__(self) -> str:
        if self.months:
            return f"{self.months // 12}y" if self.months % 12 == 0 else f"{self.months}mo"
        for unit in ("w", "d", "h", "min", "s"):
            if self.seconds % _UNITS[unit] == 0:
                return f"{self.seconds / _UNITS[unit]:g}{unit}"
        return f"{self.seconds!r}s"


def duration(value: float | str, zone: tzinfo | None = None) -> Every:
    """Parse a duration, in seconds or with a unit: ms, s, min, h, d, w, mo or y; raises InvalidInput."""
    if isinstance(value, str):
        found = DURATION.match(value)
        if found is None:
            units = ", ".join([*_UNITS, *_MONTHS])
            raise InvalidInput(
                f"a duration is a number with one of {units}, such as 30min or 1mo, not {value[:32]!r}", field="every"
            )
        number, unit = float(found[1] or 1), found[2]
        if unit in _MONTHS:
            months = number * _MONTHS[unit]
            if months != int(months) or not 1 <= months <= MOST_MONTHS:
                raise InvalidInput(f"months are counted from 1 to {MOST_MONTHS}, in whole numbers", field="every")
            return Every(months=int(months), zone=zone)
        value = number * _UNITS[unit]
    if not LEAST_SECONDS <= value <= MOST_SECONDS:
        raise InvalidInput(f"must lie between a millisecond and ten years, not {value:g} s", field="every")
    return Every(seconds=float(value), zone=zone)


def found_in(times: Sequence[float], zone: tzinfo | None = None) -> Every:
    """Return the interval between the first readings, from their ascending ``times`` in seconds since 1970.

    The interval is in months if all readings lie on one day of the month, or on the last day of shorter months, at one
    time of day. If it is not in months, the interval is the most frequent gap or, if no gap comes twice, the median
    gap, rounded if readings keep to a round interval.

    Raises
    ------
    InvalidInput : fewer than two times
    """
    if len(times) < 2:
        raise InvalidInput("two readings at least are needed to find how far apart they are", field="every")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    months = _months(times, zone) if min(gaps) >= 28 * DAY else 0
    if months:
        return Every(months=months, zone=zone)
    (gap, count), *_ = Counter(round(gap, 3) for gap in gaps).most_common(1)
    if count == 1 and len(gaps) > 1:
        gap = sorted(gaps)[len(gaps) // 2]
    return duration(_even(gaps, gap), zone)


def _even(gaps: Sequence[float], usual: float) -> float:
    """Return an interval that divides a day evenly, or is whole days, if readings keep to it; else the ``usual`` gap.

    The deviation from that interval, summed over the gaps, may be at most twice the largest jitter of one gap.
    """
    count = sum(round(gap / usual) for gap in gaps)
    if not count:
        return usual
    jitter = max(abs(gap - usual * round(gap / usual)) for gap in gaps)
    mean = sum(gaps) / count
    parts = DAY / mean if mean <= DAY else mean / DAY
    near = [n for n in range(max(1, math.floor(0.9 * parts)), math.ceil(1.1 * parts) + 1) if mean > DAY or DAY % n == 0]
    evens = [n * DAY if mean > DAY else DAY / n for n in near] if mean >= 1.0 else []
    best = min(evens, key=lambda even: abs(even - mean), default=usual)
    return best if jitter < OFF * usual and abs(best - mean) * count <= 2 * jitter else usual


def _months(times: Sequence[float], zone: tzinfo | None) -> int:
    when = [moment(time, zone) for time in times]
    day = max(w.day for w in when)
    if len({w.time() for w in when}) > 1 or any(w.day != min(day, _days_of(w.year, w.month)) for w in when):
        return 0
    counted = [w.year * 12 + w.month for w in when]
    return math.gcd(*(later - earlier for earlier, later in pairwise(counted)))


def _days_of(year: int, month: int) -> int:
    following = datetime(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day
