"""Kernel values that are held: those of a given matrix, and those of a function that rounds.

Values that were rounded to single or half precision have eigenvalues a little below 0 where those of the true kernel
are 0. The diagonal is then raised by one number, ``Gram.raised``, the least of a few that make the matrix positive
semi-definite: the problem that is solved, exactly, is that of the raised matrix. See ``kernels.definiteness``.
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
    """The state of held values that is restored when an update fails."""

    precision: float
    raised: float
    diagonal: Floats


class Gram:
    """Kernel values as they were given, between examples that are numbered here."""

    precision = 0.0  #: the unit roundoff of values that were rounded to single or half precision; 0: none was
    raised = 0.0  #: the amount added to the diagonal

    def __init__(self) -> None:
        self.values = np.zeros((0, 0))
        self.vacant: list[int] = []

    def admit(self, rows: Floats, known: Ints) -> Ints:
        """Take in ``rows`` (m, w + m): values of new examples with those numbered ``known`` (w,), and with each other.

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
        """Release the numbers of examples that are gone."""
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
        """Raise the diagonal to ``raised`` above the given values."""
        self.values[np.diag_indices_from(self.values)] += raised - self.raised
        self.raised = raised

    def _enlarge(self, extra: int) -> None:
        have = self.values.shape[0]
        values = np.zeros((have + max(extra, have // 4), have + max(extra, have // 4)))
        values[:have, :have] = self.values
        self.values = values
        self.vacant = [*self.vacant, *range(values.shape[0] - 1, have - 1, -1)]


def precision_of(values: Floats) -> float:
    """Return the unit roundoff of the single or half precision that values were rounded to; 0.0: they were not.

    The last bits of the mantissas show it: most rounded values end in zeros. Whole numbers are exact and do not count.
    """
    some = values[values != np.rint(values)]
    last = some.view(np.int64)
    for dtype, bits in ((np.float16, HALF_BITS), (np.float32, SINGLE_BITS)):
        is_rounded = (last & ((1 << (MANTISSA - bits)) - 1)) == 0
        if some.size and is_rounded.mean() >= MOSTLY:
            return float(np.finfo(dtype).eps)
    return 0.0


def _check_symmetric(values: Floats, before: int, tolerance: float) -> None:
    """Raise InvalidInput unless ``values`` (m, m), which stand ``before`` columns further right in X, are symmetric."""
    most, place, size = 0.0, (0, 0), 0.0
    for part in parts(len(values), COPY * len(values)):
        off = np.abs(values[part] - values[:, part].T)
        size = max(size, float(np.abs(values[part]).max()))
        if off.max() > most:
            row, column = np.unravel_index(int(off.argmax()), off.shape)
            most, place = float(off.max()), ((part.start or 0) + int(row), before + int(column))
    if most > tolerance * size:
        raise InvalidInput("kernel values are not symmetric", field="X", row=place[0], column=place[1])
