"""Division of the memory for kernel rows among pairs of classes."""

from __future__ import annotations

from collections.abc import Iterable

from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.runtime.types import Ints

ROOM = 1.25  #: slots for an example, as states make space
SPARE = 64  #: slots more
STEADY = 0.25  #: a share stays as it is until it is off by this much, as moving rows takes time


class PairShares:
    """Shares of ``limit`` bytes.

    Every example may have all of it where all rows of all pairs fit, else by pairs of rows.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._given: dict[Two, int] = {}
        self._whole = limit

    def of(self, pairs: Iterable[Two], counts: Ints) -> dict[Two, int]:
        """Return the bytes for each of ``pairs``, as classes have so many examples."""
        squares = {(a, b): (ROOM * float(counts[a] + counts[b]) + SPARE) ** 2 for a, b in pairs}
        total = sum(squares.values())
        if 8.0 * total <= self.limit:
            self._given = {}
            return dict.fromkeys(squares, self.limit)
        given = {two: int(self.limit * square / total) for two, square in squares.items()}
        same = self._whole == self.limit and self._given.keys() == given.keys()
        if not same or any(abs(given[two] - was) > STEADY * was for two, was in self._given.items()):
            self._given, self._whole = given, self.limit
        return self._given
