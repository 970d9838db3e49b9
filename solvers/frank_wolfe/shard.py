"""A shard: some rows of a training set that is too large for one machine, and the parts of g at them.

The search holds the active examples of all shards, see :mod:`.by_shards`. A shard receives the active rows with changed
coefficients, and updates its parts of g by products of its own rows with the received ones. The shard returns how many
of its inactive rows violate optimality, their least g, and random rows to activate. Requests and answers are numbers
and small arrays. The :class:`Crew` decides in which process a shard is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import sparse

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.frank_wolfe.growth import NEAR
from livesvm.solvers.frank_wolfe.problem import CLEAR, check_finite
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows, product
from livesvm.solvers.runtime.types import Floats, Ints

T = TypeVar("T")


class ShardLost(Exception):
    """A shard was lost and replaced by one that was prepared in the same way: the caller must resume the search."""


class Crew(Protocol):
    """All shards of a training set, in this process or in others.

    A crew that can lose a shard replaces the shard, repeats the works of :meth:`prepare` on the replacement, and raises
    ShardLost during a search.
    """

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Run ``works[s]``, calls of one method of Shard, on shard s, and later on replacements; return the results."""

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Run ``work``, a picklable function, on every shard; return the results in the order of the shards."""

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Run ``works[s]`` on shard s, for every shard; return the results in the order of the shards."""


class Preparation:
    """The functions that prepared the shards, stored to be run again on the replacement of a lost shard."""

    def __init__(self) -> None:
        self._works: dict[str, list[Callable[[Shard], Any]]] = {}

    def keep(self, works: Sequence[Callable[[Shard], Any]]) -> str:
        """Store the works of all shards, instead of earlier works of the same method; return the name of the method."""
        name: str = works[0].func.__name__  # type: ignore[attr-defined]
        self._works[name] = list(works)
        return name

    def of(self, s: int) -> dict[str, Callable[[Shard], Any]]:
        """Return the works of shard ``s`` by name of the method, in the order of their first call."""
        return {name: works[s] for name, works in self._works.items()}


class Sums(NamedTuple):
    """Sums over the rows of a shard that have a positive weight."""

    n: int
    weight: float
    columns: Floats  #: (d,) of x
    weighted: float  #: of all entries, rows weighted
    stored: int  #: entries that are not left out


class Prepared(NamedTuple):
    """The result of preparing a shard for a kernel: the largest gamma |x|^2, and the first row with a bad k(x, x)."""

    norm: float
    wrong: int | None
    reason: str = ""


class Taken(NamedTuple):
    """Rows that a shard hands to the search as new active examples."""

    at: Ints  #: (k,) places in the problem of the shard
    rows: Ints  #: (k,) of the shard
    examples: PreparedRows  #: in double precision
    of_class: Ints
    costs: Floats
    parts: Floats  #: (2, k) of g


class CoefficientChange(NamedTuple):
    """A change of coefficients: parts of g are multiplied by ``scales``, then rows times ``weights`` added."""

    scales: Floats
    examples: PreparedRows  #: k examples, in the precision wanted
    weights: Floats  #: (k, 2) changes of b_i y_i, in the column of their class


class Outside(NamedTuple):
    """A report on the inactive rows of a shard: the least g, and counts by class of violating, near and all rows."""

    least: float
    violating: Ints
    near: Ints
    all: Ints


class Proof(NamedTuple):
    """Parts of g of active rows in double precision, and the largest error that g of inactive rows had before."""

    parts: Floats  #: (2, k)
    error: float | None  #: None: no other rows were computed
    outside: Outside


@dataclass
class Shard:
    """Some rows of a training set, with their parts of g during a search."""

    X: Any  #: (n, d) dense or CSR, finite
    threads: int = 1  #: most threads that work at once

    # -- before a training ---------------------------------------------------------------------------------------------

    def sums(self, weights: Floats) -> Sums:
        """Return sums over the rows with positive ``weights`` (n,)."""
        columns, counts = np.asarray((weights > 0) @ self.X, np.float64), int(np.count_nonzero(weights))
        stored = int(self.X.nnz) if sparse.issparse(self.X) else self.X.size
        return Sums(counts, float(weights.sum()), columns, float((weights @ self.X).sum()), stored)

    def squares(self, weights: Floats, mean: float) -> float:
        """Return the sum of squared differences of all entries from ``mean``, with ``weights`` (n,) of the rows."""
        if not sparse.issparse(self.X):
            return float((weights @ (self.X - mean) ** 2).sum())
        held = np.diff(self.X.indptr)
        own = float(np.repeat(weights, held) @ (self.X.data - mean) ** 2)
        return own + float(weights @ (self.X.shape[1] - held)) * mean**2

    def prepare(self, kernel: Kernel, center: Floats | None) -> Prepared:
        """Prepare the rows for kernel products: as dense rows less ``center``, or unchanged if there is no center."""
        like = None
        if center is not None:
            self.X = self.X.toarray() if sparse.issparse(self.X) else self.X
            like = PreparedRows(kernel, np.empty((0, 0)), np.empty(0, np.int64), center)
        elif sparse.issparse(self.X):
            like = PreparedRows(kernel, sparse.csr_array((0, self.X.shape[1])), np.empty(0, np.int64))
        self.examples, self.X = PreparedRows.of(kernel, self.X, like=like), None
        try:
            check_finite(self.examples.diagonal())
        except InvalidInput as error:
            return Prepared(np.inf, error.row, error.reason)
        return Prepared(self.examples.largest_norm, None)

    def assign(self, codes: Ints, costs: Floats) -> None:
        """Set the classes (n,) of the rows, -1 for none, and their costs (n,)."""
        self._codes, self._costs = codes, costs

    def begin(self, negative: int, positive: int) -> Ints:
        """Start the problem of two classes; return the number of rows of each class, (2,)."""
        self._rows = np.flatnonzero((self._codes == negative) | (self._codes == positive))
        whole = self._rows.size == self.examples.n
        self._own = self.examples if whole else self.examples.take(self._rows)
        self._single: PreparedRows | None = None
        self._of_class = (self._codes[self._rows] == positive).astype(np.int64)
        self._y = 2.0 * self._of_class - 1.0
        self._parts, self._active = np.zeros((2, self._rows.size)), np.zeros(self._rows.size, bool)
        return np.bincount(self._of_class, minlength=2)

    # -- in a training -------------------------------------------------------------------------------------------------

    def hold(self, at: Ints) -> None:
        """Mark the rows ``at`` as active, for a search that is resumed; g of all other rows is computed later."""
        self._active[at] = True

    def take(self, below: float, counts: Ints, seed: int) -> Taken:
        """Activate ``counts`` (2,) random rows of the two classes with g < ``below``, and return them."""
        random, g, chosen = np.random.default_rng(seed), self._parts.sum(axis=0), []
        for c in (0, 1):
            candidates = np.flatnonzero(~self._active & (self._of_class == c) & (g < below))
            some = candidates.size > counts[c]
            chosen.append(random.choice(candidates, counts[c], replace=False) if some else candidates)
        at = np.sort(np.concatenate(chosen))
        self._active[at] = True
        rows = self._rows[at]
        return Taken(at, rows, self._own.take(at), self._of_class[at], self._costs[rows], self._parts[:, at])

    def drop(self, at: Ints, parts: Floats) -> None:
        """Deactivate the rows ``at`` (k,), and store ``parts`` (2, k), their present parts of g."""
        self._active[at] = False
        self._parts[:, at] = parts

    def look(self, change: CoefficientChange) -> Outside:
        """Apply a change of coefficients to the parts of g of inactive rows, and return a report on inactive rows."""
        outside = np.flatnonzero(~self._active)
        if change.examples.n or (change.scales != 1.0).any():
            moved = change.scales[:, None] * self._parts[:, outside]
            self._parts[:, outside] = moved + self._products(change, outside)
        return self._told(outside)

    def prove(self, change: CoefficientChange, at: Ints, scale: float, *, wholly: bool) -> Proof:
        """Compute parts of g in double precision, of active rows ``at``, and of inactive rows with small g (or all).

        Parameters
        ----------
        change : all coefficients, as a change from nothing
        at : (k,) active rows
        scale : factor that makes g 1 at examples with a coefficient
        """
        outside = np.flatnonzero(~self._active)
        g = self._parts[:, outside].sum(axis=0)
        near = outside if wholly else outside[g * scale < 1.0 + CLEAR]
        found, before = self._products(change, near), self._parts[:, near].sum(axis=0)
        error = float(np.abs(found.sum(axis=0) - before).max()) if near.size else None
        self._parts[:, near] = found
        return Proof(self._products(change, at), error, self._told(outside))

    def losses(self, scale: float) -> float:
        """Return the sum of the losses of inactive rows, for which y f(x) is g times ``scale``."""
        outside = ~self._active
        f = scale * self._parts[:, outside].sum(axis=0)
        return 0.5 * float(self._costs[self._rows[outside]] @ np.maximum(0.0, 1.0 - f) ** 2)

    def _products(self, change: CoefficientChange, among: Ints) -> Floats:
        """Return what a change adds to the parts of g, (2, k), of the rows ``among``, which have no coefficient."""
        own = self._own if change.examples.dtype == self._own.dtype else self._in_single()
        found = product(own.take(among), change.examples, change.weights, self.threads).T
        return np.asarray((found + change.weights.sum(axis=0)[:, None]) * self._y[among])

    def _in_single(self) -> PreparedRows:
        if self._single is None:
            self._single = self._own.single()
        return self._single

    def _told(self, outside: Ints) -> Outside:
        g, of_class = self._parts[:, outside].sum(axis=0), self._of_class[outside]
        counts = [np.bincount(of_class[g < below], minlength=2) for below in (1.0, 1.0 + NEAR, np.inf)]
        return Outside(float(g.min(initial=np.inf)), *counts)


def cut(n: int, count: int) -> list[slice]:
    """Return the slice of rows of each of ``count`` shards; ``n`` rows are shared about equally among the shards."""
    edges = np.linspace(0, n, count + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]
