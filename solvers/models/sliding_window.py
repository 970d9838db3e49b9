"""A window that slides without a solve: its examples by slot, and what the last training knew of each."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from sys import getsizeof
from typing import Any

import numpy as np

from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import Key

NOWHERE = -1


class SlidingWindow:
    """Examples by slot; a slot is free again once its example has left."""

    def __init__(self) -> None:
        self.slots: dict[Key, int] = {}  #: by key, oldest first
        self.next_key = 0
        self._free: list[int] = []
        self.X: Floats = np.empty((0, 0))  #: (capacity, d) features
        self.y: Ints = np.empty(0, np.int64)  #: (capacity,) numbers of classes
        self.weights: Floats = np.empty(0)  #: (capacity,)
        self.forget()

    @property
    def indices(self) -> Ints:
        """The slots of the window, oldest first, (n,)."""
        return np.fromiter(self.slots.values(), np.int64, len(self.slots))

    def unused_keys(self, m: int) -> list[Key]:
        """Return ``m`` whole numbers that are no key."""
        return list(range(self.next_key, self.next_key + m))

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays, and of the table of keys."""
        arrays = (self.X, self.y, self.weights, self.place, self.taught, self.costs, self.parts)
        return sum(array.nbytes for array in arrays) + getsizeof(self.slots)

    def forget(self) -> None:
        """Know nothing of any training."""
        capacity = self.y.size
        self.place = np.full(capacity, NOWHERE)  #: (capacity,) among the support vectors of the last training
        self.taught = np.full(capacity, NOWHERE)  #: (capacity,) number of the class that the last training knew it by
        self.costs = np.zeros(capacity)  #: (capacity,) C times weight in that training
        #: (2, classes, capacity) of g there, in the pairs with each of its classes; see ``frank_wolfe.problem``
        self.parts = np.zeros((2, 0, capacity))

    def copied(self) -> SlidingWindow:
        """Return the same window, to be changed; features are shared, where only free slots are written."""
        out = copy(self)
        out.slots, out._free = self.slots.copy(), self._free.copy()
        out.y, out.weights = self.y.copy(), self.weights.copy()
        out.place, out.taught = self.place.copy(), self.taught.copy()
        return out

    def leave(self, keys: list[Key]) -> list[int]:
        """Let examples leave; return their slots, which are free once a copy has taken the place of the window."""
        slots = [self.slots.pop(key) for key in keys]
        self.place[slots] = self.taught[slots] = NOWHERE
        return slots

    def free(self, slots: list[int]) -> None:
        """Let slots be free."""
        self._free += slots

    def admit(self, X: Floats, y: Ints, weights: Floats, keys: list[Key]) -> None:
        """Let examples come: features (m, d), classes (m,), weights (m,) and keys (m)."""
        if not y.size:
            return
        if len(self._free) < y.size:
            self._grow(max(y.size, self.y.size // 4, 64), X.shape[1])
        slots = np.array([self._free.pop() for _ in keys])
        self.X[slots], self.y[slots], self.weights[slots] = X, y, weights
        self.place[slots] = self.taught[slots] = NOWHERE
        self.slots.update(zip(keys, slots.tolist(), strict=True))
        self.next_key = max([self.next_key, *(key + 1 for key in keys if type(key) is int)])

    def _grow(self, more: int, width: int) -> None:
        capacity = self.y.size
        self.X = np.concatenate([self.X if capacity else np.empty((0, width)), np.zeros((more, width))])
        for name, filler in (("y", 0), ("weights", 0.0), ("place", NOWHERE), ("taught", NOWHERE), ("costs", 0.0)):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full(more, filler, old.dtype)]))
        self.parts = np.concatenate([self.parts, np.zeros((*self.parts.shape[:2], more))], axis=2)
        self._free += range(capacity, capacity + more)

    def rename(self, numbers: Ints) -> None:
        """Give each class the number that stands at its old one."""
        self.y = numbers[self.y] if numbers.size else self.y

    def edit(self, relabel: dict[Key, int], reweight: dict[Key, Any], decay: float) -> None:
        """Change classes and weights of examples that are there; all other weights by a factor."""
        for key, number in relabel.items():
            if key in self.slots:
                self.y[self.slots[key]] = number
        if decay != 1.0:
            self.weights[self.indices] *= decay
        for key, weight in reweight.items():
            if key in self.slots:
                self.weights[self.slots[key]] = weight

    def take_over(self, other: SlidingWindow) -> None:
        """Know what another window knows of the training of examples that are here as they are there."""
        self.forget()
        shared = [key for key in self.slots if key in other.slots]
        if not shared or self.X.shape[1] != other.X.shape[1]:
            return
        here, there = (np.array([w.slots[key] for key in shared], np.int64) for w in (self, other))
        same = (self.X[here] == other.X[there]).all(axis=1)
        here, there = here[same], there[same]
        self.place[here], self.taught[here], self.costs[here] = (
            other.place[there],
            other.taught[there],
            other.costs[there],
        )
        self.parts = np.zeros((2, other.parts.shape[1], self.y.size))
        self.parts[:, :, here] = other.parts[:, :, there]

    def to_arrays(self) -> dict[str, Any]:
        """Return what a checkpoint needs of the window, oldest first."""
        indices = self.indices
        return {
            "X": self.X[indices],
            "y": self.y[indices],
            "sample_weight": self.weights[indices],
            "keys": list(self.slots),
            "next_key": self.next_key,
            "place": self.place[indices],
            "taught": self.taught[indices],
            "costs": self.costs[indices],
            "parts": self.parts[:, :, indices],
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Be the window that ``to_arrays`` described, in place of an empty one."""
        weights, y = np.asarray(arrays["sample_weight"], np.float64), np.asarray(arrays["y"], np.int64)
        self.admit(np.asarray(arrays["X"], np.float64), y, weights, list(arrays["keys"]))
        self.next_key = int(arrays["next_key"])
        indices = self.indices
        if arrays["trained"]:
            parts = np.asarray(arrays["parts"])
            self.parts = np.zeros((*parts.shape[:2], self.y.size))
            self.place[indices], self.taught[indices] = arrays["place"], arrays["taught"]
            self.costs[indices], self.parts[:, :, indices] = arrays["costs"], parts
