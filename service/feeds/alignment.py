"""Alignment of a file's readings to a regular grid, for sensors with jitter, and for irregular ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import islice
from operator import itemgetter
from typing import get_args

from livesvm.service.feeds import interval, times
from livesvm.service.feeds.align import Align, grid_time
from livesvm.service.feeds.interval import Every
from livesvm.solvers.errors import InvalidInput

Line = list[str]
METHODS: tuple[Align, ...] = get_args(Align)
BLOCK = 10_000
"""Number of rows that are read at a time."""
_Slot = tuple[float, str, list[tuple[float, Line]]]  #: the time of the grid, as number and text, distances and rows


def parsed(given: str) -> tuple[Align, Every | None]:
    """Return the method and the interval of an option such as ``mean`` or ``mean:1h``; raises InvalidInput."""
    method, colon, every = given.partition(":")
    found = interval.duration(every) if colon else None
    if method not in METHODS or (found is not None and found.months):
        reason = f"is {', '.join(METHODS)}, also with an interval of at most weeks, as in mean:1h, not {given[:32]!r}"
        raise InvalidInput(reason, field="--align")
    return method, found


def aligned(
    rows: Callable[[], Iterator[Line]],
    method: Align,
    every: Every,
    columns: tuple[int, int | None, Collection[int]],
    counts: Counter[str],
) -> Iterator[Line]:
    """Yield a row for each series and each interval that has readings, in the order of the rows.

    ``nearest`` moves each reading to the nearest time of the grid. ``mean`` averages the readings from a time of the
    grid to the next one. ``last`` takes the last reading up to a time of the grid. Each column takes its own readings,
    without empty cells. With ``mean`` and ``last``, a series ends with its last complete interval, so that later rows
    of a growing file change no row. Whole days begin at midnight of the times' own UTC offset.

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
                held = open_slots[name] = slot, _written(slot, offset, stamp.zoned), []
            else:
                counts["joined with others"] += 1
            held[2].append((abs(stamp.seconds - slot), row))
    for held in open_slots.values():
        if method == "nearest" or (method == "last" and held[2][-1][0] == 0):
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


def _joined(slot: _Slot, method: Align, time: int, numbers: Collection[int]) -> Line:
    """Return the row of an interval."""
    _, when, found = slot
    if method == "nearest":
        found = sorted(found, key=itemgetter(0), reverse=True)
    columns = enumerate(zip(*(row for _, row in found), strict=True))
    joined = [_cell(cells, method == "mean" and at in numbers) for at, cells in columns]
    joined[time] = when
    return joined


def _cell(cells: Sequence[str], is_mean: bool) -> str:
    there = [cell for cell in cells if cell]
    if not is_mean or len(there) < 2:
        return there[-1] if there else ""
    try:
        return f"{math.fsum(map(float, there)) / len(there):.12g}"
    except ValueError:
        raise InvalidInput(f"{', '.join(there)[:64]} are not all numbers; say --missing", field="rows") from None
