"""What an update of several classes does, class by class, and pair by pair."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from livesvm.solvers.homotopy.edit import Batch
from livesvm.solvers.kernels.shared import Shared
from livesvm.solvers.models.pair import NO_EXAMPLES, PairChange, Work
from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.models.window import Change
from livesvm.solvers.problem.piecewise_linear import NO_LOSSES, Losses, hinge
from livesvm.solvers.runtime.entry_point import kind_of
from livesvm.solvers.runtime.types import Floats, Ints

NO_COSTS, NO_ROWS = np.empty(0), np.empty((0, 0))


class Parts:
    """What an update does, class by class, to be put together for each pair."""

    def __init__(self, y: Ints, leave: Ints, come: Ints, change: Change, changed: Ints) -> None:
        new_y, old_y = change.new_y.astype(np.int64), y[changed]
        self.come_y = change.y.astype(np.int64)
        self.leave_y = y[leave]
        self.moved_to = new_y
        self.leave = _by_class(self.leave_y, leave)
        self.come = _by_class(self.come_y, come, change.losses)
        moves = np.flatnonzero(old_y != new_y)
        stay = np.flatnonzero(old_y == new_y)
        losses = change.new_losses
        self.stay = _by_class(old_y[stay], changed[stay], losses.of(stay) if changed.size else NO_LOSSES)
        self.moves = [(int(old_y[i]), int(new_y[i]), changed[i : i + 1], losses.levels[i : i + 1, 0]) for i in moves]
        self.changes = changed.size > 0
        self.classes = {*self.leave, *self.come, *self.stay}
        for old, new, _, _ in self.moves:
            self.classes |= {old, new}

    def touches(self, two: Two) -> bool:
        """Say whether anything happens to a pair."""
        return two[0] in self.classes or two[1] in self.classes

    def counts(self, y: Ints, n_classes: int) -> Ints:
        """Return how many examples each class has while the update goes on, before any leaves."""
        return np.bincount(np.concatenate([y, self.come_y, self.moved_to]), minlength=n_classes)

    def work(self, shared: Shared, n_classes: int) -> Work | None:
        """Return what every pair is to do, for all of them at once; None: it is more than ``update_each`` deals with.

        The kernel rows of new examples must be cached.
        """
        if self.changes or not shared.kernel.always_positive:
            return None
        at_hand = shared.rows_at_hand() if self.come_y.size else (NO_EXAMPLES, NO_ROWS)
        if at_hand is None:
            return None
        come, come_from = _sorted(self.come, n_classes)
        leave, leave_from = _sorted(self.leave, n_classes)
        costs = np.concatenate([NO_COSTS, *(costs for _, costs in self.come.values())])
        batch = Batch(come, costs, come_from, leave, leave_from, shared.diagonals, *at_hand)
        return Work(batch, kind_of(batch), np.diff(come_from).tolist())

    def of(self, two: Two) -> PairChange:
        """Return what happens to a pair."""
        leave = [self.leave[c][0] for c in two if c in self.leave]
        come = [(*self.come[c], sign) for c, sign in zip(two, (-1.0, 1.0), strict=True) if c in self.come]
        stay = [(*self.stay[c], sign) for c, sign in zip(two, (-1.0, 1.0), strict=True) if c in self.stay]
        for old, new, number, cost in self.moves:
            sign = 1.0 if new == two[1] else -1.0
            if old in two and new in two:
                stay.append((number, cost, sign))
            elif old in two:
                leave.append(number)
            elif new in two:
                come.append((number, cost, sign))
        return PairChange(np.concatenate(leave) if leave else NO_EXAMPLES, *_joined(come), *_joined(stay))


def _by_class(y: Ints, numbers: Ints, losses: Losses | None = None) -> dict[int, tuple[Ints, Floats]]:
    """Return numbers and costs by class."""
    order = np.argsort(y, kind="stable")
    starts = np.flatnonzero(np.diff(y[order], prepend=-1)).tolist()
    numbers, costs = numbers[order], NO_COSTS if losses is None else losses.levels[order, 0]
    parts = [slice(*both) for both in pairwise([*starts, y.size])]
    return {c: (numbers[part], costs[part]) for c, part in zip(y[order[starts]].tolist(), parts, strict=True)}


def _sorted(groups: dict[int, tuple[Ints, Floats]], n_classes: int) -> tuple[Ints, Ints]:
    """Return the numbers of all classes, one after the other, and where each class begins, (n_classes + 1,)."""
    start = np.zeros(n_classes + 1, np.int64)
    for c, (numbers, _) in groups.items():
        start[c + 1] = numbers.size
    return np.concatenate([NO_EXAMPLES, *(numbers for numbers, _ in groups.values())]), start.cumsum()


def _joined(groups: list[tuple[Ints, Floats, float]]) -> tuple[Ints, Losses]:
    """Return numbers and hinge losses of groups, each of one sign."""
    if not groups:
        return NO_EXAMPLES, NO_LOSSES
    numbers, costs, signs = zip(*groups, strict=True)
    sizes = [part.size for part in numbers]
    return np.concatenate(numbers), hinge(np.repeat(signs, sizes), np.concatenate(costs))
