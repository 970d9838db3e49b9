"""Kernel values that are stored: the values of a given matrix, or of a function that rounds its values.

A matrix of values rounded to single or half precision has eigenvalues a little below 0 where the true matrix has
eigenvalues of 0. For such a matrix the whole diagonal is raised by ``Gram.raised``, the smallest of a few numbers that
makes the matrix positive semi-definite. The solver solves the problem of this raised matrix exactly. See
``kernels.definiteness``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.interrupt import COPY, parts
from livesvm.solvers.runtime.types import Floats, Ints

MANTISSA = 52  #: bits of a double
SINGLE_BITS, HALF_BITS = 40, 18  #: that nearly all rounded values have at most, after a sum or two in double too
MOSTLY = 0.9  #: the share of values that have no more
CROOKED = 32.0  #: roundings by which values of a pair may differ, of the largest
SYMMETRIC = 1e-10  #: the same in double precision, of the largest


class HeldStanding(NamedTuple):
    """The part of a ``Gram`` that is restored when an update fails."""

    precision: float
    raised: float
    diagonal: Floats


class Gram:
    """The stored kernel values of all pairs of examples; each example has a number, which is its row and its column."""

    precision = 0.0  #: the unit roundoff of values that were rounded to single or half precision; 0: none was
    raised = 0.0  #: the amount added to the diagonal

    def __init__(self) -> None:
        self.values = np.zeros((0, 0))
        self.vacant: list[int] = []

    def admit(self, rows: Floats, known: Ints) -> Ints:
        """Store ``rows`` (m, w + m): kernel values of new examples with the examples ``known`` (w,) and each other.

        Returns the numbers of the new examples.

        Raises
        ------
        InvalidInput : not as many columns as that, or not symmetric
        """
        m, w = rows.shape[0], known.size
        if rows.shape[1] != w + m:
            raise InvalidInput(
                f"a precomputed row has one value for each of the {w} examples of the window, oldest first, and for "
                f"each of the {m} new ones: {w + m}, not {rows.shape[1]}",
                field="X",
            )
        own, precision = rows[:, w:], max(self.precision, precision_of(rows))
        _check_symmetric(own, w, max(SYMMETRIC, CROOKED * precision))
        if len(self.vacant) < m:
            self._enlarge(m)
        numbers = np.array([self.vacant.pop() for _ in range(m)], np.int64)
        try:
            for part in parts(m, COPY * (w + m)):
                self.values[np.ix_(numbers[part], known)] = rows[part, :w]
                self.values[np.ix_(known, numbers[part])] = rows[part, :w].T
                self.values[np.ix_(numbers[part], numbers)] = 0.5 * (own[part] + own[:, part].T)
        except BaseException:
            self.release(numbers)
            raise
        self.values[numbers, numbers] += self.raised
        self.precision = precision
        return numbers

    def release(self, numbers: Ints) -> None:
        """Release the numbers of examples that have left, for use by new examples."""
        self.vacant.extend(int(i) for i in numbers[::-1])

    def standing(self) -> HeldStanding:
        """Return the state that :meth:`bring_back` restores."""
        return HeldStanding(self.precision, self.raised, self.values.diagonal().copy())

    def bring_back(self, before: HeldStanding) -> None:
        """Restore the diagonal and precision from before rows were admitted; these rows must be released already."""
        self.precision, self.raised = before.precision, before.raised
        indices = np.arange(before.diagonal.size)
        self.values[indices, indices] = before.diagonal

    def raise_to(self, raised: float) -> None:
        """Raise the diagonal until it is ``raised`` larger than the given values."""
        self.values[np.diag_indices_from(self.values)] += raised - self.raised
        self.raised = raised

    def _enlarge(self, extra: int) -> None:
        have = self.values.shape[0]
        values = np.zeros((have + max(extra, have // 4), have + max(extra, have // 4)))
        values[:have, :have] = self.values
        self.values = values
        self.vacant = [*self.vacant, *range(values.shape[0] - 1, have - 1, -1)]


def precision_of(values: Floats) -> float:
    """Return the unit roundoff of the single or half precision to which values were rounded; 0.0 if they were not.

    The last bits of the mantissas show the rounding: those of most rounded values are zeros. Whole numbers are exact
    and do not count.
    """
    some = values[values != np.rint(values)]
    last = some.view(np.int64)
    for dtype, bits in ((np.float16, HALF_BITS), (np.float32, SINGLE_BITS)):
        is_rounded = (last & ((1 << (MANTISSA - bits)) - 1)) == 0
        if some.size and is_rounded.mean() >= MOSTLY:
            return float(np.finfo(dtype).eps)
    return 0.0


def _check_symmetric(values: Floats, before: int, tolerance: float) -> None:
    """Raise InvalidInput unless ``values`` (m, m) are symmetric; their first column is column ``before`` of X."""
    most, place, size = 0.0, (0, 0), 0.0
    for part in parts(len(values), COPY * len(values)):
        off = np.abs(values[part] - values[:, part].T)
        size = max(size, float(np.abs(values[part]).max()))
        if off.max() > most:
            row, column = np.unravel_index(int(off.argmax()), off.shape)
            most, place = float(off.max()), ((part.start or 0) + int(row), before + int(column))
    if most > tolerance * size:
        raise InvalidInput("kernel values are not symmetric", field="X", row=place[0], column=place[1])
