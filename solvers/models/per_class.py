"""The changes that an update makes to each of several classes and to each pair, and each pair's memory limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.edit import ClassBatch
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.models.path_problem import ExampleUpdate, PairsWork, ProblemChange
from livesvm.solvers.problem.piecewise_linear import Losses, hinge
from livesvm.solvers.problem.shared import SharedFeatures
from livesvm.solvers.runtime.entry_point import kind_of
from livesvm.solvers.runtime.types import Floats, Ints

NO_ROWS = np.empty((0, 0))


class Group(NamedTuple):
    """Examples by number, sorted by class."""

    numbers: Ints
    costs: Floats  #: C times their weights
    start: Ints  #: (n_classes + 1,) positions where the classes begin

    @classmethod
    def sorted(cls, y: Ints, numbers: Ints, costs: Floats, n_classes: int) -> Group:
        """Return the group of examples ``numbers``, sorted by their classes ``y``."""
        order = np.argsort(y, kind="stable")
        return cls(numbers[order], costs[order], np.searchsorted(y[order], np.arange(n_classes + 1)))

    def of(self, label: int) -> tuple[Ints, Floats]:
        """Return the numbers and costs of the examples of one class."""
        part = slice(self.start[label], self.start[label + 1])
        return self.numbers[part], self.costs[part]


class Parts:
    """The parts of an update by class, from which the change of each pair is made."""

    def __init__(self, y: Ints, leave: Ints, come: Ints, change: ExampleUpdate, changed: Ints, n_classes: int) -> None:
        new_y, old_y, costs = change.new_y.astype(np.int64), y[changed], change.new_losses.levels[:, 0]
        leave_y, come_y, stays = y[leave], change.y.astype(np.int64), old_y == new_y
        self.leave = Group.sorted(leave_y, leave, np.zeros(leave.size), n_classes)
        self.come = Group.sorted(come_y, come, change.losses.levels[:, 0], n_classes)
        self.stay = Group.sorted(old_y[stays], changed[stays], costs[stays], n_classes)
        moves = np.flatnonzero(~stays).tolist()
        self.moves = [(int(old_y[i]), int(new_y[i]), changed[i : i + 1], costs[i : i + 1]) for i in moves]
        self.coming = np.concatenate([come_y, new_y])
        self.classes = {*np.concatenate([leave_y, old_y, self.coming]).tolist()}
        self.changes = changed.size > 0

    def touches(self, two: Two) -> bool:
        """Return whether an update changes a pair of classes."""
        return two[0] in self.classes or two[1] in self.classes

    def counts(self, y: Ints, n_classes: int) -> Ints:
        """Return how many examples each class has after the new ones have come and before any example leaves."""
        return np.bincount(np.concatenate([y, self.coming]), minlength=n_classes)

    def work(self, shared: SharedFeatures) -> PairsWork | None:
        """Return the changes of every pair in one record, or None if ``update_each`` cannot make these changes.

        The kernel rows of new examples must be cached.
        """
        if self.changes or not shared.kernel.always_positive:
            return None
        at_hand = shared.rows_at_hand() if self.come.numbers.size else (NO_EXAMPLES, NO_ROWS)
        if at_hand is None:
            return None
        batch = ClassBatch(*self.come, self.leave.numbers, self.leave.start, shared.diagonal, *at_hand)
        moving = np.diff(self.come.start + self.leave.start).tolist()
        return PairsWork(batch, kind_of(batch), np.diff(self.come.start).tolist(), moving)

    def of(self, two: Two) -> ProblemChange:
        """Return the change that the update makes to one pair of classes."""
        leave = [self.leave.of(c)[0] for c in two]
        come = [(*self.come.of(c), sign) for c, sign in zip(two, (-1.0, 1.0), strict=True)]
        stay = [(*self.stay.of(c), sign) for c, sign in zip(two, (-1.0, 1.0), strict=True)]
        for old, new, number, cost in self.moves:
            sign = 1.0 if new == two[1] else -1.0
            if old in two and new in two:
                stay.append((number, cost, sign))
            elif old in two:
                leave.append(number)
            elif new in two:
                come.append((number, cost, sign))
        return ProblemChange(np.concatenate(leave), *_joined(come), *_joined(stay))


def _joined(groups: list[tuple[Ints, Floats, float]]) -> tuple[Ints, Losses]:
    """Return example numbers and hinge losses of groups, joined; a group has numbers, costs and one sign of labels."""
    numbers, costs, signs = zip(*groups, strict=True)
    sizes = [part.size for part in numbers]
    return np.concatenate(numbers), hinge(np.repeat(signs, sizes), np.concatenate(costs))


ROOM = 1.25  #: slots for each example, as states make spare space
SPARE = 64  #: additional slots
STEADY = 0.25  #: a share stays as it is until it is off by this much, as moving rows takes time


class PairShares:
    """The division of ``limit`` bytes of memory among pairs.

    If the rows of all pairs fit, each pair may take the whole limit; else a pair's share is proportional to its squared
    number of examples.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._given: dict[Two, int] = {}
        self._whole = limit

    def of(self, pairs: Iterable[Two], counts: Ints) -> dict[Two, int]:
        """Return how many bytes each of ``pairs`` may take, if the classes have ``counts`` examples."""
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
