"""Packed rows: repeated target values are stored once as a line of readings, and calendar features once for all feeds.

A level is a feature that is a value of the target. A row's level from b readings back equals the newest reading of the
row that is b rows older. If this is so bit for bit, the levels are stored only as the line of readings. Rows are not
packed if gaps or corrections make a level differ from that reading.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import RowLayout, seasonal_ends

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

IN_LINE, OTHERS, CALENDAR = range(3)  #: the tables of ``Lines``


class Calendar:
    """The calendar features of rows, (steps, calendar, n); feeds with readings at the same times share one object."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self._next: ref[Calendar] | None = None  # what a row more has made of it

    def after(self, row: Floats, first: int) -> Calendar:
        """Return the calendar features of the rows from ``first`` on and of one more row, (steps, calendar)."""
        known = None if self._next is None else self._next()
        size = self.values.shape[2] + 1 - first
        if known is None or known.values.shape[2] != size or known.values[:, :, -1].tobytes() != row.tobytes():
            known = _shared(np.concatenate([self.values[:, :, first:], row[:, :, None]], axis=2))
            self._next = ref(known)
        return known


_calendars: WeakValueDictionary[tuple[bytes, bytes, int], Calendar] = WeakValueDictionary()


class PackedPlaces(NamedTuple):
    """The positions of features in packed rows; feeds with the same layout and steps share one object.

    Columns are numbered consecutively: first the features that steps share, and then the own features of each step.
    """

    layout: RowLayout
    steps: tuple[int, ...]
    levels: Ints  #: columns of the levels, of which the first is the newest reading
    ends: Ints  #: where each level stands in the line of readings, from its end
    others: Ints  #: columns of neither level nor calendar
    longest: int  #: how many readings before the newest the oldest level lies
    tables: tuple[tuple[Ints, Ints, Ints], ...]  #: of each step, as ``Lines`` has them
    columns: tuple[tuple[tuple[int, int], ...], ...]  #: of each step, the table of each feature, and its place there


class Packed(NamedTuple):
    """Packed rows: a line of readings, the calendar features, and all other features."""

    places: PackedPlaces
    line: Floats
    calendar: Calendar
    others: Floats  #: columns of neither level nor calendar, (others, n)

    @property
    def n(self) -> int:
        """How many rows there are."""
        found: int = self.others.shape[1]
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes, without the calendar."""
        return self.line.nbytes + self.others.nbytes


@lru_cache(maxsize=64)
def places_of(layout: RowLayout, steps: tuple[int, ...]) -> PackedPlaces:
    """Return the positions of features in packed rows."""
    own = layout.shared + np.arange(len(steps) * layout.own).reshape(len(steps), layout.own)
    end, shared = layout.own_levels, np.delete(np.arange(layout.ends.size), len(layout.lags))
    levels = np.concatenate([shared, own[:, :end].ravel()])
    ends = np.concatenate([layout.ends[shared], seasonal_ends(layout, steps).ravel()])
    longest = int(-1 - ends.min())
    calendar = own[:, end : end + layout.calendar]
    others = np.setdiff1d(np.arange(layout.shared + own.size), [*levels, *calendar.flat])
    table, place = np.full((2, layout.shared + own.size), OTHERS)
    table[levels], place[levels] = IN_LINE, longest + 1 + ends
    table[calendar], place[calendar] = CALENDAR, np.arange(layout.calendar)
    place[others] = np.arange(others.size)
    is_level = np.zeros(layout.shared + own.size, np.int64)
    is_level[: layout.levels], is_level[own[:, :end]] = 1, 1
    columns = [np.array([*range(layout.shared), *each], np.int64) for each in own]
    tables = tuple((table[each], place[each], is_level[each]) for each in columns)
    found = tuple(tuple(zip(each.tolist(), where.tolist(), strict=True)) for each, where, _ in tables)
    return PackedPlaces(layout, steps, levels, ends, others, longest, tables, found)


def pack(layout: RowLayout, steps: tuple[int, ...], shared: Floats, own: Floats) -> Packed | None:
    """Pack rows ``shared`` (n, s) and ``own`` (n, steps, o), oldest first; None if the levels differ from one line."""
    n, places, end = len(shared), places_of(layout, steps), layout.own_levels
    rows = np.concatenate([shared, own.reshape(n, -1)], axis=1)
    found = rows[:, places.levels]
    line = np.zeros(places.longest + n)
    at = places.longest + 1 + np.arange(n)[:, None] + places.ends
    line[at] = found
    if not np.array_equal(line[at], found):
        return None
    calendar = own.transpose(1, 2, 0)[:, end : end + layout.calendar].copy()
    return Packed(places, line, _shared(calendar), rows[:, places.others].T.copy())


def packed_after(packed: Packed, shared: Floats, own: Floats, size: int) -> Packed | None:
    """Append a row, ``shared`` (s,) and ``own`` (steps, o), to packed rows, and return the newest ``size`` rows.

    The result is None if the levels of the new row differ from the line of readings.
    """
    places, first = packed.places, int(packed.n == size)
    end, row = places.layout.own_levels, np.concatenate([shared, own.ravel()])
    line = np.concatenate([packed.line[first:], row[:1]])
    if line[places.ends].tobytes() != row[places.levels].tobytes():
        return None
    others = np.concatenate([packed.others[:, first:], row[places.others][:, None]], axis=1)
    calendar = packed.calendar.after(own[:, end : end + places.layout.calendar], first)
    return Packed(places, line, calendar, others)


def unpack(packed: Packed, at: Ints) -> tuple[Floats, Floats]:
    """Return some of the packed rows, by their numbers ``at`` (m,), as ``shared`` (m, s) and ``own`` (m, steps, o)."""
    places, m = packed.places, len(at)
    layout, n_steps = places.layout, len(places.steps)
    rows = np.empty((m, layout.shared + n_steps * layout.own))
    rows[:, places.levels] = packed.line[places.longest + 1 + at[:, None] + places.ends]
    rows[:, places.others] = packed.others[:, at].T
    own, end = rows[:, layout.shared :].reshape(m, n_steps, layout.own), layout.own_levels
    own[:, :, end : end + layout.calendar] = packed.calendar.values[:, :, at].transpose(2, 0, 1)
    return rows[:, : layout.shared], own


def column_of(packed: Packed, at: Ints, step: int, feature: int) -> Floats:
    """Return one feature of packed rows, by their numbers ``at`` (m,), for ``step``, an index."""
    kind, first = packed.places.columns[step][feature]
    found: Floats
    if kind == IN_LINE:
        found = packed.line[at + first]
    else:
        found = (packed.others if kind == OTHERS else packed.calendar.values[step])[first, at]
    return found


def _shared(values: Floats) -> Calendar:
    """Return the calendar object for these values, which all feeds share."""
    key = values[:, :, :1].tobytes(), values[:, :, -1:].tobytes(), values.shape[2]
    known = _calendars.get(key)
    if known is not None and np.array_equal(known.values, values):
        return known
    _calendars[key] = found = Calendar(values)
    return found
