"""Rows of features packed without what they say twice: levels are moments of one line, calendars those of other feeds.

A level of row k that lies b readings back is the newest reading of row k - b; where that holds bit for bit, the line of
readings is all that is kept. It does not hold across gaps and corrections: then rows stay as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import Layout, seasonal_backs
from livesvm.solvers.kernels.lines import Lines

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

IN_LINE, SHARED, CALENDAR, OWN = range(4)  #: the tables of ``Lines``


class Calendar:
    """The calendar's features of rows, (steps, calendar, n), which feeds of the same clock share."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self._next: ref[Calendar] | None = None  # what a row more has made of it

    def after(self, row: Floats, first: int) -> Calendar:
        """Return the calendar without what is before row ``first``, and with another row, (steps, calendar)."""
        known = None if self._next is None else self._next()
        size = self.values.shape[2] + 1 - first
        if known is None or known.values.shape[2] != size or not np.array_equal(known.values[:, :, -1], row):
            known = _shared(np.concatenate([self.values[:, :, first:], row[:, :, None]], axis=2))
            self._next = ref(known)
        return known


_calendars: WeakValueDictionary[tuple[bytes, bytes, int], Calendar] = WeakValueDictionary()


class Packed(NamedTuple):
    """Rows as one line of readings, the calendar, and what is left."""

    line: Floats
    calendar: Calendar
    shared: Floats  #: columns of no level, (s, n)
    own: Floats  #: columns of neither level nor calendar, (steps, o, n)

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.shared.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, but for the calendar."""
        return self.line.nbytes + self.shared.nbytes + self.own.nbytes


class Levels(NamedTuple):
    """Where levels stand in rows, and in the line of readings."""

    shared: Ints  #: columns of the shared ones
    rest: Ints  #: all other columns
    backs: Ints  #: how many readings before a row's newest each level lies, (levels,); the shared ones come first
    newest: int  #: which of them is the newest; -1: none
    longest: int


@lru_cache(maxsize=64)
def levels_of(layout: Layout, steps: tuple[int, ...]) -> Levels:
    """Return where levels stand in rows."""
    first = len(layout.lags) + 1
    columns = [*range(len(layout.lags)), *range(first, first + len(layout.phases))]
    shared = [*(lag - 1 for lag in layout.lags), *layout.phases]
    backs = np.array([*shared, *seasonal_backs(layout, steps).ravel().tolist()], np.int64)
    rest = np.setdiff1d(np.arange(layout.shared), columns)
    newest = shared.index(0) if 0 in shared else -1
    return Levels(np.array(columns, np.int64), rest, backs, newest, int(backs.max()))


def pack(layout: Layout, steps: tuple[int, ...], shared: Floats, own: Floats) -> Packed | None:
    """Pack rows ``shared`` (n, s) and ``own`` (n, steps, o), oldest first; None where they say something else."""
    n, places = len(shared), levels_of(layout, steps)
    end = layout.own_levels
    found = np.concatenate([shared[:, places.shared], own[:, :, :end].reshape(n, -1)], axis=1)
    line, at = np.zeros(places.longest + n), places.longest + np.arange(n)[:, None] - places.backs
    line[at] = found
    if not np.array_equal(line[at], found):
        return None
    by_column = own.transpose(1, 2, 0)
    calendar = by_column[:, end : end + layout.calendar].copy()
    left = by_column[:, end + layout.calendar :].copy()  # where that is nothing, too: a view would keep all
    return Packed(line, _shared(calendar), shared[:, places.rest].T.copy(), left)


def packed_after(
    layout: Layout, steps: tuple[int, ...], packed: Packed, row: tuple[Floats, Floats], size: int
) -> Packed | None:
    """Return packed rows with another one, ``shared`` (s,) and ``own`` (steps, o): the newest ``size`` of them.

    None where it says something else than the line does.
    """
    shared, own = row
    places, end = levels_of(layout, steps), layout.own_levels
    if places.newest < 0:
        return None
    found = np.concatenate([shared[places.shared], own[:, :end].ravel()])
    first = int(packed.n == size)
    line = np.concatenate([packed.line[first:], found[places.newest : places.newest + 1]])
    if not (line[len(line) - 1 - places.backs] == found).all():
        return None
    rest = np.concatenate([packed.shared[:, first:], shared[places.rest, None]], axis=1)
    left = np.concatenate([packed.own[:, :, first:], own[:, end + layout.calendar :, None]], axis=2)
    return Packed(line, packed.calendar.after(own[:, end : end + layout.calendar], first), rest, left)


def unpack(layout: Layout, steps: tuple[int, ...], packed: Packed, at: Ints) -> tuple[Floats, Floats]:
    """Return some of the rows that were packed, by their places ``at`` (m,): shared (m, s), and own (m, steps, o)."""
    m, end = len(at), layout.own_levels
    places = levels_of(layout, steps)
    found = packed.line[places.longest + at[:, None] - places.backs]
    shared, own = np.empty((m, layout.shared)), np.empty((m, len(steps), layout.own))
    size = len(places.shared)
    shared[:, places.shared], shared[:, places.rest] = found[:, :size], packed.shared[:, at].T
    own[:, :, :end] = found[:, size:].reshape(m, len(steps), end)
    own[:, :, end : end + layout.calendar] = packed.calendar.values[:, :, at].transpose(2, 0, 1)
    own[:, :, end + layout.calendar :] = packed.own[:, :, at].transpose(2, 0, 1)
    return shared, own


def column_of(layout: Layout, steps: tuple[int, ...], packed: Packed, at: Ints, which: tuple[int, int]) -> Floats:
    """Return one feature of rows by their places ``at`` (m,); ``which`` is the step, an index, and the feature."""
    step, feature = which
    table, place, _ = _tables(layout, steps, step)
    kind, first = int(table[feature]), int(place[feature])
    if kind == IN_LINE:
        return packed.line[first + at]
    tables = {SHARED: packed.shared, CALENDAR: packed.calendar.values[step], OWN: packed.own[step]}
    return np.asarray(tables[kind][first, at])


def lines_of(layout: Layout, steps: tuple[int, ...], packed: Packed, step: int) -> Lines:
    """Return packed rows as compiled code writes out the features of a ``step``, an index."""
    table, place, is_level = _tables(layout, steps, step)
    return Lines(packed.line, packed.shared, packed.calendar.values[step], packed.own[step], table, place, is_level)


@lru_cache(maxsize=256)
def _tables(layout: Layout, steps: tuple[int, ...], step: int) -> tuple[Ints, Ints, Ints]:
    """Return for each feature of a step the table that it is in, its place there, and whether it is a level."""
    places, end = levels_of(layout, steps), layout.own_levels
    table, place = np.full((2, layout.shared + layout.own), SHARED)
    size, first = len(places.shared), layout.shared
    table[places.shared], place[places.shared] = IN_LINE, places.longest - places.backs[:size]
    place[places.rest] = np.arange(len(places.rest))
    backs = places.backs[size:].reshape(len(steps), end)[step]
    table[first : first + end], place[first : first + end] = IN_LINE, places.longest - backs
    table[first + end :], place[first + end :] = OWN, np.arange(layout.own - end) - layout.calendar
    calendar = slice(first + end, first + end + layout.calendar)
    table[calendar], place[calendar] = CALENDAR, np.arange(layout.calendar)
    is_level = np.zeros(layout.shared + layout.own, np.int64)
    is_level[: layout.levels], is_level[first : first + end] = 1, 1
    return table, place, is_level


def _shared(values: Floats) -> Calendar:
    """Return the calendar that is kept for these values, one for all feeds."""
    key = values[:, :, :1].tobytes(), values[:, :, -1:].tobytes(), values.shape[2]
    known = _calendars.get(key)
    if known is not None and np.array_equal(known.values, values):
        return known
    _calendars[key] = found = Calendar(values)
    return found
