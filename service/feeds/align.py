"""Readings at any time, put on the grid of a feed's interval.

The grid is that of the clock: hours begin at full hours, days at midnight of the feed's time zone, weeks on Mondays,
months on their first day. With "nearest" a reading gets the nearest time of the grid. With "mean" and "last" all
readings of an interval become one reading, once a later interval has a reading: the mean at the time at which the
interval begins, and the last reading at the time at which it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from livesvm.service.feeds.interval import Every

Align = Literal["nearest", "mean", "last"]
Given = tuple[float | None, ...]


class OpenInterval(NamedTuple):
    """The interval of the newest readings, which is not over yet."""

    time: float  #: of the grid, in seconds since 1970
    latest: float  #: time of its newest reading
    counts: tuple[int, ...]  #: of each column, the readings with a value
    values: tuple[float, ...]  #: of each column, the sum of these values, or the last one

    def with_reading(self, time: float, given: Given, align: Align) -> OpenInterval:
        """Return the interval with one more reading."""
        had = self.values if align == "mean" else (0.0,) * len(given)
        values = [old if new is None else new + add for new, add, old in zip(given, had, self.values, strict=True)]
        counts = [count + (new is not None) for new, count in zip(given, self.counts, strict=True)]
        return OpenInterval(self.time, time, tuple(counts), tuple(values))

    def given(self, align: Align) -> Given:
        """Return the values of the one reading that the interval becomes; None where no reading had a value."""
        each = zip(self.values, self.counts, strict=True)
        return tuple(None if not count else value / count if align == "mean" else value for value, count in each)

    def to_arrays(self) -> dict[str, Any]:
        """Return the interval as a dictionary."""
        return {f"open.{name}": value for name, value in self._asdict().items()}


def opened(time: float, at: float, given: Given) -> OpenInterval:
    """Return the interval with the grid's time ``time``, with its first reading, which came at ``at``."""
    counts = tuple(int(value is not None) for value in given)
    return OpenInterval(time, at, counts, tuple(value or 0.0 for value in given))


def restored(arrays: Mapping[str, Any]) -> OpenInterval | None:
    """Return the open interval that ``to_arrays`` returned, None if there is none."""
    if "open.time" not in arrays:
        return None
    time, latest, counts, values = (arrays[f"open.{name}"] for name in OpenInterval._fields)
    return OpenInterval(time, latest, tuple(counts), tuple(values))


def grid_time(time: float, every: Every, align: Align) -> float:
    """Return the time of the grid that a reading gets, in seconds since 1970."""
    begin = every.floor(time)
    if align == "mean" or begin == time:
        return begin
    following = every.floor(every.after(begin, 1))
    return following if align == "last" or following - time <= time - begin else begin
