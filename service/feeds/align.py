"""Readings at any time, put on a regular grid: those of a feed as they come, and those of a file when it is read.

The grid follows the clock: hours begin at full hours, days at midnight of the feed's time zone, weeks on Mondays,
months on their first day. With "nearest" a reading gets the nearest time of the grid. With "mean" and "last" all
readings of an interval become one reading, once a later interval has a reading. The mean has the time at which the
interval begins, and the last reading has the time at which it ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import interval, times
from livesvm.service.feeds.interval import Every
from livesvm.solvers.errors import InvalidInput

Align = Literal["nearest", "mean", "last"]
OfFiles = Literal[Align, "sum"]
Given = tuple[float | None, ...]
Times = NDArray[np.float64]
Line = list[str]
METHODS: tuple[OfFiles, ...] = get_args(OfFiles)
GRIDS = tuple(
    interval.duration(one)
    for one in (
        *("1s", "2s", "5s", "10s", "15s", "20s", "30s", "1min", "2min", "3min", "5min", "10min", "15min", "20min"),
        *("30min", "1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d", "1w", "1mo", "3mo", "1y"),
    )
)
"""Intervals that grids of irregular times have."""
FINE = 10.0
"""Seconds above which intervals are whole seconds."""
FILLED = 0.75
"""Share of the intervals of a grid that have a reading."""
CLOSE = 1.08
"""Largest ratio of a usual gap and the interval of the clock that it means: 28 or 32 minutes are half an hour."""
CLOSED = 0.1
"""Least share of a grid that is closed, and the largest share of readings at an hour of the week that is."""
LONG, NIGHT = 8.0, 3 * 3600.0
"""Gaps longer than so many usual ones, and than so many seconds, are nights and outages: no readings are due there."""
SPARSE = 0.25
"""Share of a grid that must have readings to give each the nearest time; fewer come in bursts."""
FIRST, PACE = 1000, 100
"""Times that show the interval, and the fewest that show that it changes."""
CHANGED, STEADY = 1.5, 0.8
"""Ratio of intervals that are not the same, and share of times that is nearly all."""
LOST = 0.01
"""Share of readings that may be joined with others without taking their mean."""
BLOCK = 10_000
"""Number of rows that are read at a time."""
_Slot = tuple[float, str, list[tuple[float, Line]]]  #: the time of the grid, as number and text, distances and rows


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
    """Return the interval at the grid's time ``time``, with one reading so far, which came at ``at``."""
    counts = tuple(int(value is not None) for value in given)
    return OpenInterval(time, at, counts, tuple(value or 0.0 for value in given))


def restored(arrays: Mapping[str, Any]) -> OpenInterval | None:
    """Return the open interval from the result of ``to_arrays``; None if there was no open interval."""
    if "open.time" not in arrays:
        return None
    time, latest, counts, values = (arrays[f"open.{name}"] for name in OpenInterval._fields)
    return OpenInterval(time, latest, tuple(counts), tuple(values))


def grid_time(time: float, every: Every, align: OfFiles) -> float:
    """Return the time of the grid that a reading gets, in seconds since 1970."""
    begin = every.floor(time)
    if align in ("mean", "sum") or begin == time:
        return begin
    following = every.floor(every.after(begin, 1))
    return following if align == "last" or following - time <= time - begin else begin


def parsed(given: str) -> tuple[OfFiles, Every | None]:
    """Return the method and the interval of an option such as ``mean`` or ``mean:1h``; raises InvalidInput."""
    method, colon, every = given.partition(":")
    found = interval.duration(every) if colon else None
    if method not in METHODS:
        reason = f"is none, {', '.join(METHODS)}, also with an interval, as in mean:1h, not {given[:32]!r}"
        raise InvalidInput(reason, field="--align")
    return method, found


def interval_of(times: Times, of_target: Times) -> tuple[Every, int, int]:
    """Return the interval of ascending times, how many steps are not multiples of it, and how many are longer than it.

    Parameters
    ----------
    of_target : those of the times, more than one, that have a value of the target
    """
    every = interval.found_in(steady(of_target)[-FIRST:].tolist())
    if every.seconds > FINE and every.seconds != round(every.seconds):
        every = replace(every, seconds=float(round(every.seconds)))
    steps = every.steps(times)
    return every, int(np.sum((abs(steps - np.round(steps)) > 0.1) | (steps < 0.5))), int(np.sum(steps > 1.5))


def steady(times: Times) -> Times:
    """Return the newest times with the pace that lasts longest; return all (ascending) times if most have this pace."""
    size = min(FIRST, max(PACE, len(times) // 10))
    gaps = np.diff(times)
    blocks = np.array_split(gaps, max(1, len(gaps) // size))
    equal = [[*same] for _, same in groupby(blocks, len)]
    paces = np.concatenate([np.median(same, axis=1) for same in equal])
    lengths = paces * [*map(len, blocks)]
    is_near = abs(np.log(paces[:, None] / paces)) < math.log(CHANGED)
    like = is_near[np.argmax(is_near @ lengths)]
    if lengths[like].sum() > STEADY * lengths.sum() and np.mean(like) > STEADY:
        return times
    last = int(np.flatnonzero(like)[-1])
    first = int(np.flatnonzero(~like[:last])[-1]) + 1 if not like[:last].all() else 0
    ends = np.cumsum([0, *map(len, blocks)])
    begin = int(ends[first])
    if first:  # the pace changes within the first block
        others = np.flatnonzero(abs(np.log(blocks[first] / paces[last])) >= math.log(CHANGED))
        begin += int(others[-1]) + 1 if others.size else 0
    found = times[begin : ends[last + 1] + 1]
    return found if len(found) > 2 else times


def grid_of(times: Times, of_target: Times) -> tuple[Align, Every] | None:
    """Return how to align times: "nearest" with a grid that most times keep to, or "mean"; None if all keep to a grid.

    With "mean", the grid is the finest one in which three of four intervals have a reading. If the pace of the times
    changes, :func:`steady` times determine the grid. "mean" is then chosen if many readings would share a time of the
    grid.
    """
    every, off, _ = interval_of(times, of_target)
    drift = abs(every.between(times[0], times[-1]) - np.sum(np.round(every.steps(times))))
    whole, of_target = of_target, steady(of_target)
    gaps = np.sort(np.diff(of_target))
    median = gaps[len(gaps) // 2]
    are_events = not every.months and median > LONG * every.seconds  # at any second, of which some have neighbours
    if not off and not are_events and (every.months or every.seconds < FINE or drift < interval.OFF):
        return None
    usual = float(np.mean(gaps[(gaps >= 0.5 * median) & (gaps <= 1.5 * median)]))
    near = min(GRIDS, key=lambda grid: abs(math.log(grid.approximate_seconds() / usual)))
    is_near = 1 / CLOSE <= near.approximate_seconds() / usual <= CLOSE
    closed = gaps[gaps > max(LONG * median, NIGHT)]
    is_open = of_target[-1] - of_target[0] - closed.sum()
    for grid in (near, every)[not is_near :]:
        steps = grid.steps(of_target)
        is_filled = len(of_target) >= SPARSE * is_open / grid.approximate_seconds()
        if is_filled and np.sum((abs(steps - np.round(steps)) <= interval.OFF) & (steps > 0.5)) >= 0.8 * len(steps):
            methods: tuple[Align, Align] = ("nearest", "mean")  # readings at half past the grid are nearest to two
            how = max(methods, key=lambda one: len(np.unique(grid_times(of_target, grid, one))))
            is_lossy = len(np.unique(grid_times(whole, grid, how))) < (1 - LOST) * len(whole)
            return "mean" if is_lossy else how, grid
    for grid in GRIDS:
        length = grid.approximate_seconds()
        count = is_open / length + np.sum(closed > length)
        if len(of_target) >= FILLED * count and len(np.unique(grid.floors(of_target))) >= FILLED * count:
            return "mean", grid
    return "mean", GRIDS[-1]


def grid_times(times: Times, every: Every, align: Align) -> Times:
    """Return the result of :func:`grid_time` for each time, of ``nearest`` or ``mean``."""
    begin = every.floors(times)
    if align == "mean":
        return begin
    following = (
        every.floors(np.array([every.after(time, 1) for time in begin.tolist()]))
        if every.months
        else every.floors(begin + every.seconds)
    )
    return np.where((begin != times) & (following - times <= times - begin), following, begin)


def closed(times: Times, every: Every) -> float:
    """Return the share of the grid's times without readings, if nearly all are at the same hours or days; else 0.

    Parameters
    ----------
    times : ascending, in seconds since 1970
    """
    length = every.approximate_seconds()
    period = round((7 if times[-1] - times[0] >= 14 * interval.DAY else 1) * interval.DAY / length)
    slots = np.unique(np.round((times - times[0]) / length))
    count = round((times[-1] - times[0]) / length) + 1
    if every.months or period < 2 or count < 2 * period or len(slots) > (1 - CLOSED) * count:
        return 0.0
    filled = np.bincount((slots % period).astype(int), minlength=period)
    regular = np.sum(count / period - filled[filled < CLOSED * count / period])
    return (1 - len(slots) / count) if regular >= FILLED * (count - len(slots)) else 0.0


def aligned(
    rows: Callable[[], Iterator[Line]],
    method: OfFiles,
    every: Every,
    columns: tuple[int, int | None, Collection[int]],
    counts: Counter[str],
) -> Iterator[Line]:
    """Yield a row for each series and each interval that has readings, in the order of the rows.

    ``nearest`` moves each reading to the nearest time of the grid. ``mean`` averages the readings from a time of the
    grid to the next one, and ``sum`` adds them; with it, intervals without readings get zeros. ``last`` takes the last
    reading up to a time of the grid. In each column, empty cells do not count as readings. But with ``nearest``, a
    series ends with its last complete interval, so that later rows of a growing file change no row. Whole days begin at
    midnight of the times' own UTC offset.

    Parameters
    ----------
    columns : positions of the time, of the series if there are several, and of the numbers
    counts : receives the numbers of readings that were "moved", "joined with others" and "left out"
    """
    time, series, numbers = columns
    open_slots, source = dict[str, _Slot](), rows()
    while block := [*islice(source, BLOCK)]:
        stamps, _ = times.column([row[time] for row in block], "time")
        for row, stamp in zip(block, stamps, strict=True):
            offset = _offset(row[time]) if stamp.zoned and every.seconds % interval.DAY == 0 else 0.0
            grid = replace(every, zone=timezone(timedelta(seconds=offset)))
            slot = grid_time(stamp.seconds, grid, method)
            counts["moved"] += stamp.seconds != slot
            name = "" if series is None else row[series]
            held = open_slots.get(name)
            if held is None or held[0] != slot:
                if held is not None:
                    yield _joined(held, method, time, numbers)
                    yield from _zeros(held, slot, grid, columns) if method == "sum" else ()
                held = open_slots[name] = slot, _written(slot, offset, stamp.zoned), []
            else:
                counts["joined with others"] += 1
            held[2].append((abs(stamp.seconds - slot), row))
    for held in open_slots.values():
        is_whole = method == "last" or not counts["moved"]  # as days are if all times are dates
        if method == "nearest" or (is_whole and held[2][-1][0] == 0):
            yield _joined(held, method, time, numbers)
        else:
            counts["left out, as their interval is not complete"] += len(held[2])


def _offset(cell: str) -> float:
    """Return the UTC offset of a time with a zone, in seconds."""
    try:
        return (datetime.fromisoformat(cell).utcoffset() or timedelta()).total_seconds()
    except ValueError:  # seconds since 1970
        return 0.0


def _written(seconds: float, offset: float, zoned: bool) -> str:
    when = interval.moment(seconds, timezone(timedelta(seconds=offset)))
    return (when if zoned else when.replace(tzinfo=None)).isoformat()


def _joined(slot: _Slot, method: OfFiles, time: int, numbers: Collection[int]) -> Line:
    """Return the row that the readings of an interval become by ``method``."""
    _, when, found = slot
    if method == "nearest":
        found = sorted(found, key=itemgetter(0), reverse=True)
    columns = enumerate(zip(*(row for _, row in found), strict=True))
    joined = [_cell(cells, method if at in numbers else "last") for at, cells in columns]
    joined[time] = when
    return joined


def _zeros(before: _Slot, slot: float, grid: Every, columns: tuple[int, int | None, Collection[int]]) -> Iterator[Line]:
    """Yield a row of zeros for each interval between that of ``before`` and the one that begins at ``slot``."""
    time, series, numbers = columns
    row = before[2][-1][1]
    zoned = times.column([row[time]], "time")[0][0].zoned
    when = grid.after(before[0], 1)
    while when < slot:
        cells = ["0" if at in numbers else cell if at == series else "" for at, cell in enumerate(row)]
        cells[time] = _written(when, _offset(row[time]) if zoned else 0.0, zoned)
        yield cells
        when = grid.after(when, 1)


def _cell(cells: Sequence[str], method: OfFiles) -> str:
    there = [cell for cell in cells if cell]
    if method not in ("mean", "sum") or len(there) < 2:
        return there[-1] if there else ""
    try:
        return f"{math.fsum(map(float, there)) / (len(there) if method == 'mean' else 1):.12g}"
    except ValueError:
        raise InvalidInput(f"{', '.join(there)[:64]} are not all numbers; say --missing", field="rows") from None
