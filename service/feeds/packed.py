"""Rows of features packed without what they say twice: levels are moments of one line, calendars those of other feeds.

A level of row k that lies b readings back is the newest reading of row k - b; where that holds bit for bit, the line of
readings is all that is kept. It does not hold across gaps and corrections: then rows stay as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import Layout, seasonal_backs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Calendar:
    """The calendar's features of rows, (n, steps, calendar), which feeds of the same clock share."""

    def __init__(self, values: Floats) -> None:
        self.values = values


_calendars: WeakValueDictionary[tuple[bytes, bytes, int], Calendar] = WeakValueDictionary()


class Packed(NamedTuple):
    """Rows as one line of readings, the calendar, and what is left."""

    line: Floats
    calendar: Calendar
    shared: Floats  #: columns of no level, (n, s)
    own: Floats  #: columns of neither level nor calendar, (n, steps, o)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, but for the calendar."""
        return self.line.nbytes + self.shared.nbytes + self.own.nbytes


class Levels(NamedTuple):
    """Where levels stand in rows, and in the line of readings."""

    shared: Ints  #: columns of the shared ones
    rest: Ints  #: all other columns
    at: Ints  #: of each row and level, the place in the line, (n, levels); the shared ones come first
    longest: int


@lru_cache(maxsize=64)
def levels_of(layout: Layout, steps: tuple[int, ...], n: int) -> Levels:
    """Return where levels stand in ``n`` rows."""
    first = len(layout.lags) + 1
    columns = [*range(len(layout.lags)), *range(first, first + len(layout.phases))]
    shared = [*(lag - 1 for lag in layout.lags), *layout.phases]
    backs = np.array([*shared, *seasonal_backs(layout, steps).ravel().tolist()], np.int64)
    longest = int(backs.max())
    at = longest + np.arange(n)[:, None] - backs
    rest = np.setdiff1d(np.arange(layout.shared), columns)
    return Levels(np.array(columns, np.int64), rest, at, longest)


def pack(layout: Layout, steps: tuple[int, ...], shared: Floats, own: Floats) -> Packed | None:
    """Pack rows ``shared`` (n, s) and ``own`` (n, steps, o), oldest first; None where they say something else."""
    n, places = len(shared), levels_of(layout, steps, len(shared))
    end = layout.own_levels
    found = np.concatenate([shared[:, places.shared], own[:, :, :end].reshape(n, -1)], axis=1)
    line = np.zeros(places.longest + n)
    line[places.at] = found
    if not np.array_equal(line[places.at], found):
        return None
    calendar = np.ascontiguousarray(own[:, :, end : end + layout.calendar])
    return Packed(line, _shared(calendar), shared[:, places.rest], own[:, :, end + layout.calendar :].copy())


def unpack(layout: Layout, steps: tuple[int, ...], packed: Packed) -> tuple[Floats, Floats]:
    """Return the rows that were packed."""
    n, end = len(packed.shared), layout.own_levels
    places = levels_of(layout, steps, n)
    found = packed.line[places.at]
    shared, own = np.empty((n, layout.shared)), np.empty((n, len(steps), layout.own))
    size = len(places.shared)
    shared[:, places.shared], shared[:, places.rest] = found[:, :size], packed.shared
    own[:, :, :end] = found[:, size:].reshape(n, len(steps), end)
    own[:, :, end : end + layout.calendar] = packed.calendar.values
    own[:, :, end + layout.calendar :] = packed.own
    return shared, own


def _shared(values: Floats) -> Calendar:
    """Return the calendar that is kept for these values, one for all feeds."""
    key = values[:1].tobytes(), values[-1:].tobytes(), len(values)
    known = _calendars.get(key)
    if known is not None and np.array_equal(known.values, values):
        return known
    _calendars[key] = found = Calendar(values)
    return found
