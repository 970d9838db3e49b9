"""A window that changes without solving; it has coefficients, starting points and certificates of the last training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem
from livesvm.solvers.frank_wolfe.problem import Known, Problem, carried, gap_of, rough_of
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.models.class_labels import are_among, places_of
from livesvm.solvers.models.large_predictor import Trained
from livesvm.solvers.models.pairs_predictor import by_other_class
from livesvm.solvers.runtime.threads import one_blas_thread
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
        """The slots of the window's examples, oldest first, (n,): their indices in the arrays."""
        return np.fromiter(self.slots.values(), np.int64, len(self.slots))

    def unused_keys(self, m: int) -> list[Key]:
        """Return ``m`` whole numbers that are not keys."""
        return list(range(self.next_key, self.next_key + m))

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays and the table of keys take."""
        arrays = (self.X, self.y, self.weights, self.place, self.taught, self.costs, self.parts)
        return sum(array.nbytes for array in arrays) + getsizeof(self.slots)

    def forget(self) -> None:
        """Drop the results of earlier trainings."""
        capacity = self.y.size
        self.place = np.full(capacity, NOWHERE)  #: (capacity,) among the support vectors of the last training
        self.taught = np.full(capacity, NOWHERE)  #: (capacity,) number of the class that the last training knew it by
        self.costs = np.zeros(capacity)  #: (capacity,) C times weight in that training
        #: (2, classes, capacity) of g there, in the pairs with each of its classes; see ``frank_wolfe.problem``
        self.parts = np.zeros((2, 0, capacity))

    def copied(self) -> SlidingWindow:
        """Return a copy of the window that may be changed; both share features, as changes write only to free slots."""
        out = copy(self)
        out.slots, out._free = self.slots.copy(), self._free.copy()
        out.y, out.weights = self.y.copy(), self.weights.copy()
        out.place, out.taught = self.place.copy(), self.taught.copy()
        return out

    def leave(self, keys: list[Key]) -> list[int]:
        """Remove examples; return their slots, which new examples may use once this copy has replaced the window."""
        slots = [self.slots.pop(key) for key in keys]
        self.place[slots] = self.taught[slots] = NOWHERE
        return slots

    def free(self, slots: list[int]) -> None:
        """Mark slots as free."""
        self._free += slots

    def admit(self, X: Floats, y: Ints, weights: Floats, keys: list[Key]) -> None:
        """Add examples: features (m, d), classes (m,), weights (m,) and keys (m)."""
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
        """Renumber classes: class ``i`` becomes ``numbers[i]``."""
        self.y = numbers[self.y] if numbers.size else self.y

    def edit(self, relabel: dict[Key, int], reweight: dict[Key, Any], decay: float) -> None:
        """Change classes and weights of examples in the window, and multiply all other weights by ``decay``."""
        for key, number in relabel.items():
            if key in self.slots:
                self.y[self.slots[key]] = number
        if decay != 1.0:
            self.weights[self.indices] *= decay
        for key, weight in reweight.items():
            if key in self.slots:
                self.weights[self.slots[key]] = weight

    def take_over(self, other: SlidingWindow) -> None:
        """Copy the other window's training results for the examples that are the same in both windows."""
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
        """Return the arrays that a checkpoint stores of the window, with examples oldest first."""
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
        """Fill an empty window with what ``to_arrays`` returned."""
        weights, y = np.asarray(arrays["sample_weight"], np.float64), np.asarray(arrays["y"], np.int64)
        self.admit(np.asarray(arrays["X"], np.float64), y, weights, list(arrays["keys"]))
        self.next_key = int(arrays["next_key"])
        indices = self.indices
        if arrays["trained"]:
            parts = np.asarray(arrays["parts"])
            self.parts = np.zeros((*parts.shape[:2], self.y.size))
            self.place[indices], self.taught[indices] = arrays["place"], arrays["taught"]
            self.costs[indices], self.parts[:, :, indices] = arrays["costs"], parts


def coefficients_here(trained: Trained, w: SlidingWindow, q: int, slots: Ints, y: Floats) -> Floats:
    """Return the coefficients b, (m,), that the last training gave examples of pair ``q`` with labels ``y`` (m,).

    The coefficient is 0 for an example that was not in that training, or had another label in it.
    """
    negative, positive = trained.pairs[q]
    held = (w.place[slots] != NOWHERE) & (w.taught[slots] == np.where(y > 0, positive, negative))
    return np.where(held, np.abs(trained.coefficients[q][w.place[slots]]) / trained.R[q], 0.0)


def signed_coefficients(trained: Trained | None, w: SlidingWindow) -> Floats:
    """Return the signed coefficients of the window's examples in the last training, (n,), oldest first.

    With several classes the shape is (n, n_classes - 1): column r belongs to the pair with the r-th other class, and is
    positive for the pair's first class.
    """
    place, taught = w.place[w.indices], w.taught[w.indices]
    if trained is None:
        return np.zeros(place.size)
    values = np.where(place == NOWHERE, 0.0, (trained.coefficients / trained.R[:, None])[:, place])
    if trained.classes.size == 2:
        return np.asarray(values[0])
    return by_other_class(values, taught, trained.classes.size)


def next_start(
    trained: Trained | None, w: SlidingWindow, pair: PairProblem, slots: Ints | None, labels: NDArray[Any]
) -> Known | None:
    """Return the point at which the solver starts for the pair of ``labels`` (2,); None to start from nothing.

    Parameters
    ----------
    slots : (n,) slots of all examples of the window; None: the examples are not from it
    """
    if trained is None or slots is None or not are_among(labels, trained.classes).all():
        return None
    slots = slots[pair.indices]
    negative, positive = places_of(labels, trained.classes).tolist()
    q, problem = trained.pairs.index((negative, positive)), pair.problem
    b = coefficients_here(trained, w, q, slots, problem.y)
    if not b.any():
        return None
    if trained.kernel != problem.examples.kernel or sparse.issparse(trained.X):
        return Known(b, problem.parts(problem.examples, b))
    known = np.flatnonzero(w.taught[slots] == np.where(problem.y > 0, positive, negative))
    coefficients, rows = trained.coefficients[q], slots[known]
    gone = np.setdiff1d(np.flatnonzero(coefficients), w.place[rows])
    before = Problem(
        PreparedRows.of(trained.kernel, np.vstack([w.X[rows], trained.X[gone]])),
        np.concatenate([problem.y[known], np.sign(coefficients[gone])]),
        np.concatenate([w.costs[rows], np.ones(gone.size)]),
        problem.threads,
    )
    were = np.concatenate([b[known], np.abs(coefficients[gone]) / trained.R[q]])
    other = np.where(problem.y[known] > 0, negative, positive)
    parts = np.hstack([w.parts[:, other, rows], np.zeros((2, gone.size))])
    places = np.full(slots.size, NOWHERE)
    places[known] = np.arange(known.size)
    return carried(problem, before, Known(were, parts, trained.age, rough=rough_of(were, parts)), places)


def proofs(
    trained: Trained, w: SlidingWindow, known: NDArray[Any], kernel_of: Callable[[Any, Floats], Kernel], C: float
) -> dict[tuple[Any, Any], Certificate]:
    """Return the certificate of every pair of labels that was trained on a window, without examples that have left.

    Raises InvalidInput if a class, or all examples of a pair, came after the training.

    Parameters
    ----------
    known : labels by their numbers in the window
    kernel_of : returns the kernel for features and weights
    """
    indices = w.indices[w.weights[w.indices] > 0]
    numbers, out = w.y[indices], {}
    since = known[np.unique(numbers)]
    since = since[~are_among(since, trained.classes)]
    if since.size:
        raise InvalidInput(f"was not trained since examples of class {since[0]!s} came", field="model")
    label_of = known.tolist()
    for q, two in enumerate(trained.pairs):
        negative, positive = trained.classes[list(two)].tolist()
        places = [label_of.index(label) if label in label_of else NOWHERE for label in (negative, positive)]
        slots = indices[np.isin(numbers, places)]
        y = np.where(w.y[slots] == places[1], 1.0, -1.0)
        b = coefficients_here(trained, w, q, slots, y)
        if not b.any():
            reason = f"was not trained on examples of {negative} and {positive} that are in its window"
            raise InvalidInput(f"{reason}, whose optimum it could be compared with", field="model")
        kernel = kernel_of(w.X[slots], w.weights[slots])
        problem = Problem(PreparedRows.of(kernel, w.X[slots]), y, C * w.weights[slots])
        with one_blas_thread():
            gap = gap_of(problem, b, problem.parts(problem.examples, b))
        proof = Certificate(0.5 * gap.relative, gap.primal - gap.dual, gap.relative, gap.primal, gap.dual, y.size)
        out[negative, positive] = proof
    return out
