"""Features that are values of one series at several lags: written out, scaled, and transposed as kernels expect.

A row of lagged values is a piece of the series, so consecutive rows have nearly all values in common. Rows that are
needed only for a short time are made from the series, one feature after the other along memory.
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

Scale = tuple[float, float, float]
"""The center and the divisor of a feature, and the bound of its scaled value."""
LINE = 0  #: ``table`` of a feature that is a moment of the line; other features are in table 1 or 2


@by_reference
class Lines(NamedTuple):
    """Features of examples, oldest first: lags are read from one series; each other feature is a row of a table."""

    line: Floats  #: (l,)
    first: Floats  #: (a, n)
    second: Floats  #: (b, n)
    table: Ints  #: (d,) LINE, 1 or 2: the place of each feature
    place: Ints  #: (d,) position of the oldest row's value in the line; or the row in the table
    is_level: Ints  #: (d,) 1: it is relative to the base


@by_reference
class Scaling(NamedTuple):
    """The centres and divisors of features (d,); scaled values are clipped at ``most``."""

    centre: Floats
    width: Floats
    most: float


def write_scaled(lines: Lines, scaling: Scaling, base: int, at: Ints, out: Floats) -> None:
    """Write the features of rows ``at`` (m,), ascending, to the first m columns of ``out`` (d, m or more).

    A feature marked in ``is_level`` is replaced by its difference from feature ``base``; ``base`` itself is not
    changed. The results equal those of NumPy to the last digit. All arrays are C-contiguous, with numbers of 8 bytes.
    """
    _entry()(lines, scaling, base, at, out)


@cache
def _entry() -> Callable[[Lines, Scaling, int, Ints, Floats], None]:
    """Return the compiled form of ``_write_scaled`` for the types of these arrays."""
    line, rows, numbers = np.zeros(1), np.zeros((1, 1)), np.zeros(1, np.int64)
    lines = Lines(line, rows, rows, numbers, numbers, numbers)
    return entry_point(_write_scaled, lines, Scaling(line, line, 1.0), 0, numbers, rows)


@compiled_in_order
def _write_scaled(lines: Lines, scaling: Scaling, base: int, at: Ints, out: Floats) -> None:
    if at.size == 0:
        return
    level, run = out[base], 1  # the oldest ``run`` rows are consecutive
    while run < at.size and at[run] == at[0] + run:
        run += 1
    rows = at, run
    _write(lines, base, rows, level, 0, (0.0, 1.0, np.inf), level)  # as it is
    for k in range(out.shape[0]):
        if k != base:
            scale = scaling.centre[k], scaling.width[k], scaling.most
            _write(lines, k, rows, level, lines.is_level[k], scale, out[k])
    _write(lines, base, rows, level, 0, (scaling.centre[base], scaling.width[base], scaling.most), level)


@compiled_in_order
def _write(
    lines: Lines, k: int, rows: tuple[Ints, int], level: Floats, is_level: int, scale: Scale, out: Floats
) -> None:
    (at, run), (centre, width, most) = rows, scale
    table, place = lines.table[k], lines.place[k]
    source = lines.line[place:] if table == LINE else lines.first[place] if table == 1 else lines.second[place]
    first = at[0]
    if is_level == 1:
        for j in range(run):
            out[j] = _scaled(source[first + j] - level[j], centre, width, most)
    else:
        for j in range(run):
            out[j] = _scaled(source[first + j], centre, width, most)
    for j in range(run, at.size):
        out[j] = _scaled(source[at[j]] - level[j] if is_level == 1 else source[at[j]], centre, width, most)


@compiled_in_order
def _scaled(x: float, centre: float, width: float, most: float) -> float:
    scaled = (x - centre) / width  # min and max would check each number for NaN
    scaled = most if scaled > most else scaled
    return -most if scaled < -most else scaled
