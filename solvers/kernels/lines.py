"""Features that are moments of one line of numbers, written out on a scale, transposed as kernels take them.

A series' row of lags is a piece of the series: rows one after the other say nearly everything as often as there are
lags. Where such rows are wanted for a moment only, they are made from the line, column by column along memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled_in_order
from livesvm.solvers.runtime.entry_point import entry_point
from livesvm.solvers.runtime.types import Floats, Ints

LINE = 0  #: the table of a feature that is a moment of the line; others are in the first, second and third table


@by_reference
class Lines(NamedTuple):
    """Rows of features, oldest first: a line, and tables of what is not in it, a feature a row."""

    line: Floats  #: (l,)
    first: Floats  #: (a, n)
    second: Floats  #: (b, n)
    third: Floats  #: (c, n)
    table: Ints  #: (d,) where each feature is
    place: Ints  #: (d,) of the line: where the oldest row's is; else which row of the table
    is_level: Ints  #: (d,) 1: it is relative to the base


@by_reference
class Scaling(NamedTuple):
    """What is subtracted from features (d,), and divided by; results count no further than ``most``."""

    centre: Floats
    width: Floats
    most: float


def write_scaled(lines: Lines, scaling: Scaling, base: int, at: Ints, out: Floats) -> None:
    """Write the features of rows ``at`` (m,), ascending, to the first m columns of ``out`` (d, m or more).

    Those that are levels lose that of feature ``base``, which stays as it is. Numbers are as NumPy computes them.
    Numbers take 8 bytes each in every array.
    """
    arrays = *lines, scaling.centre, scaling.width, at, out
    in_order = all(array.flags.c_contiguous for array in arrays)
    (_entry() if in_order else _write_scaled)(lines, scaling, base, at, out)


@cache
def _entry() -> Callable[[Lines, Scaling, int, Ints, Floats], None]:
    """Return what is compiled for contiguous arrays."""
    line, rows, numbers = np.zeros(1), np.zeros((1, 1)), np.zeros(1, np.int64)
    lines = Lines(line, rows, rows, rows, numbers, numbers, numbers)
    return entry_point(_write_scaled, lines, Scaling(line, line, 1.0), 0, numbers, rows)


@compiled_in_order
def _write_scaled(lines: Lines, scaling: Scaling, base: int, at: Ints, out: Floats) -> None:
    if at.size == 0:
        return
    level = out[base]
    _write(lines, base, at, level, 0, 0.0, 1.0, np.inf, level)  # as it is
    for k in range(out.shape[0]):
        if k != base:
            _write(lines, k, at, level, lines.is_level[k], scaling.centre[k], scaling.width[k], scaling.most, out[k])
    _write(lines, base, at, level, 0, scaling.centre[base], scaling.width[base], scaling.most, level)


@compiled_in_order
def _write(
    lines: Lines, k: int, at: Ints, level: Floats, is_level: int, centre: float, width: float, most: float, out: Floats
) -> None:
    place = lines.place[k]
    if lines.table[k] == LINE:
        _take(lines.line[place:], at, level, is_level, centre, width, most, out)
    elif lines.table[k] == 1:
        _take(lines.first[place], at, level, is_level, centre, width, most, out)
    elif lines.table[k] == 2:
        _take(lines.second[place], at, level, is_level, centre, width, most, out)
    else:
        _take(lines.third[place], at, level, is_level, centre, width, most, out)


@compiled_in_order
def _take(
    source: Floats, at: Ints, level: Floats, is_level: int, centre: float, width: float, most: float, out: Floats
) -> None:
    m, first = at.size, at[0]
    if at[m - 1] - first != m - 1:
        for j in range(m):
            out[j] = _scaled(source[at[j]] - level[j] if is_level == 1 else source[at[j]], centre, width, most)
    elif is_level == 1:
        for j in range(m):
            out[j] = _scaled(source[first + j] - level[j], centre, width, most)
    else:
        for j in range(m):
            out[j] = _scaled(source[first + j], centre, width, most)


@compiled_in_order
def _scaled(x: float, centre: float, width: float, most: float) -> float:
    scaled = (x - centre) / width  # min and max would look for what is no number, one by one
    scaled = most if scaled > most else scaled
    return -most if scaled < -most else scaled
