"""Several classes: one problem for each pair of them, several pairs at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TypeVar

import numpy as np

from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats

T = TypeVar("T")


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (negative, positive) of so many classes, in their order."""
    return list(combinations(range(n_classes), 2))


def all_of(works: Sequence[Callable[[Callable[[], None]], T]], threads: int) -> list[T]:
    """Return what each of ``works`` returns, several at once; each is given what it is to call often.

    That raises Cancelled once the one who waits for all has been interrupted, or another work has failed.
    """
    over = threading.Event()

    def look() -> None:
        if over.is_set():
            raise Cancelled("another pair of classes has ended the search")

    try:
        return together([partial(work, look) for work in works], threads)
    except BaseException:
        over.set()
        raise


def votes(decisions: Floats, n_classes: int) -> Floats:
    """Return a score of each class, (m, classes), from the ``decisions`` (m, pairs) of its pairs.

    One for each pair that is won, and less than a half, by which ties are decided, for the sum of the decisions.
    """
    won, sums = np.zeros((2, decisions.shape[0], n_classes))
    for q, (negative, positive) in enumerate(pairs(n_classes)):
        decision = decisions[:, q]
        sums[:, negative] -= decision
        sums[:, positive] += decision
        won[:, positive] += decision > 0
        won[:, negative] += decision <= 0
    return np.asarray(won + sums / (3.0 * (np.abs(sums) + 1.0)))
