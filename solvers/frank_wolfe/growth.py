"""Which examples are active: some of each class at first, then whoever violates, until nobody outside does."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.types import Floats, Ints

FIRST = 4096  #: active examples at first
GROWTH = 4  #: times as many at most the next time
NEAR = 0.02  #: how far above 1 the g of an example is that may soon be below
SAFE = 0.5  #: and of one without a coefficient that need not be active any more
MANY = 0.75  #: of the active ones, if no more than these need be: to move kernel rows takes time as well


def first(of_class: Ints, random: np.random.Generator) -> Ints:
    """Return who is active at first: ``FIRST`` by chance, a quarter at least of each class if it has so many."""
    n = of_class.size
    if n <= FIRST:
        return np.arange(n)
    members = [np.flatnonzero(of_class == c) for c in (0, 1)]
    share = int(np.clip(round(FIRST * members[1].size / n), FIRST // 4, FIRST - FIRST // 4))
    share = max(min(share, members[1].size), FIRST - members[0].size)
    chosen = [random.choice(members[0], FIRST - share, replace=False), random.choice(members[1], share, replace=False)]
    return np.sort(np.concatenate(chosen))


def added(outside: Ints, g: Floats, of_class: Ints, active: int, random: np.random.Generator) -> Ints:
    """Return who becomes active of those ``outside`` (k,), whose g (k,) and classes (k,) are given.

    Everyone who violates, where these are few. Of many, chance chooses among all: the worst alone, which are noise or
    far on the wrong side, would teach their opposite.
    """
    room = (GROWTH - 1) * active
    if int((g < 1.0).sum()) <= room:
        return _some(outside, of_class, np.flatnonzero(g < 1.0 + NEAR), room, random)
    return _some(outside, of_class, np.arange(outside.size), room, random)


def _some(outside: Ints, of_class: Ints, candidates: Ints, room: int, random: np.random.Generator) -> Ints:
    if candidates.size <= room:
        return np.asarray(outside[candidates])
    rarer = int(np.count_nonzero(of_class[candidates]) * 2 < candidates.size)
    few, many = candidates[of_class[candidates] == rarer], candidates[of_class[candidates] != rarer]
    share = min(few.size, max(room // 4, room * few.size // candidates.size))
    chosen = [random.choice(few, share, replace=False), random.choice(many, room - share, replace=False)]
    return np.asarray(outside[np.concatenate(chosen)])


def staying(b: Floats, g: Floats) -> Ints:
    """Return who stays active: all, unless there are many without a coefficient whose g is far above 1."""
    stay = np.flatnonzero((b > 0.0) | (g < 1.0 + SAFE))
    return stay if stay.size < MANY * b.size else np.arange(b.size)
