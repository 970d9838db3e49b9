"""Growth of the active set: some examples of each class first, then violators, until no inactive example violates."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.types import Floats, Ints

FIRST = 4096  #: active examples at first
GROWTH = 4  #: largest factor by which their number grows at a time
NEAR = 0.02  #: distance above 1 within which a g may soon be below 1
SAFE = 0.2  #: distance above 1 from which an example without a coefficient need not stay active
MANY = 0.75  #: examples are deactivated only if at most this share must stay, as moving kernel rows takes time


def first(of_class: Ints, random: np.random.Generator) -> Ints:
    """Return the indices of the first active examples.

    ``FIRST`` examples are chosen at random, at least a quarter of them from each class that has so many examples.
    """
    if of_class.size <= FIRST:
        return np.arange(of_class.size)
    members = [np.flatnonzero(of_class == c) for c in (0, 1)]
    counts = of_first(np.bincount(of_class, minlength=2)).tolist()
    chosen = [random.choice(own, count, replace=False) for own, count in zip(members, counts, strict=True)]
    return np.sort(np.concatenate(chosen))


def of_first(counts: Ints) -> Ints:
    """Return the number of first active examples of each class, (2,), for classes of ``counts`` (2,) examples."""
    n = int(counts.sum())
    if n <= FIRST:
        return counts
    share = int(np.clip(round(FIRST * int(counts[1]) / n), FIRST // 4, FIRST - FIRST // 4))
    share = max(min(share, int(counts[1])), FIRST - int(counts[0]))
    return np.array([FIRST - share, share])


def added(outside: Ints, g: Floats, of_class: Ints, active: int, random: np.random.Generator) -> Ints:
    """Return which of the inactive examples ``outside`` (k,) become active, given their ``g`` (k,) and classes (k,).

    If few examples violate optimality, these and nearly violating ones become active. If many examples violate
    optimality, a random choice of all examples becomes active: the worst violators alone, which are noise or far on the
    wrong side, would mislead the search.
    """
    capacity = (GROWTH - 1) * active
    is_few = int((g < 1.0).sum()) <= capacity
    candidates = np.flatnonzero(g < 1.0 + NEAR) if is_few else np.arange(outside.size)
    if candidates.size <= capacity:
        return np.asarray(outside[candidates])
    members = [candidates[of_class[candidates] == c] for c in (0, 1)]
    there = np.array([own.size for own in members])
    counts, rarer = shared(there, capacity), _rarer(there)
    chosen = [random.choice(members[c], counts[c], replace=False) for c in (rarer, 1 - rarer)]
    return np.asarray(outside[np.concatenate(chosen)])


def shared(counts: Ints, capacity: int) -> Ints:
    """Divide ``capacity`` between the classes: return how many of the ``counts`` (2,) candidates to activate."""
    total = int(counts.sum())
    if total <= capacity:
        return counts
    rarer = _rarer(counts)
    share = min(int(counts[rarer]), max(capacity // 4, capacity * int(counts[rarer]) // total))
    found = np.full(2, capacity - share)
    found[rarer] = share
    return found


def _rarer(counts: Ints) -> int:
    return int(counts[1] * 2 < counts.sum())


def staying(b: Floats, g: Floats) -> Ints:
    """Return which active examples stay active: all, unless many have no coefficient and a g far above 1."""
    stay = np.flatnonzero((b > 0.0) | (g < 1.0 + SAFE))
    return stay if stay.size < MANY * b.size else np.arange(b.size)
