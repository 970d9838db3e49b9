"""A shard: some rows of a training set that is too large for one machine, and the parts of g at them.

The search holds the active examples of all shards, see :mod:`.by_shards`. A shard receives the changes of their
coefficients, and updates its parts of g by products of its own rows with theirs. It returns how many of its other rows
violate, the least g, and random rows to activate. Requests and answers are numbers and small arrays; the :class:`Crew`
decides where a shard lives.
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
    """A shard was lost and replaced by one that has been prepared in the same way: the search is to be resumed."""


class Crew(Protocol):
    """All shards of a training set, wherever they live.

    A crew that can lose a shard replaces it, repeats on the replacement what :meth:`prepare` was asked for, and raises
    ShardLost if a search was under way.
    """

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Run each of ``works``, of one method of Shard, on its shard, and again on a replacement; return results."""

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Run ``work``, which can be pickled, on each shard; return the results in their order."""

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Run each of ``works`` on its own shard; return the results."""


class Preparation:
    """The works that prepared the shards, to be repeated on the replacement of a lost shard."""

    def __init__(self) -> None:
        self._works: dict[str, list[Callable[[Shard], Any]]] = {}

    def keep(self, works: Sequence[Callable[[Shard], Any]]) -> str:
        """Remember the works of all shards, in place of earlier ones of the same method; return its name."""
        name: str = works[0].func.__name__  # type: ignore[attr-defined]
        self._works[name] = list(works)
        return name

    def of(self, s: int) -> dict[str, Callable[[Shard], Any]]:
        """Return the works of one shard by name, in their order."""
        return {name: works[s] for name, works in self._works.items()}


class Sums(NamedTuple):
    """Sums over the rows of a shard that have a positive weight."""

    n: int
    weight: float
    columns: Floats  #: (d,) of x
    weighted: float  #: of all entries, rows weighted
    stored: int  #: entries that are not left out


class Prepared(NamedTuple):
    """The result of preparing a shard for a kernel: the largest gamma |x|^2, and the first row that is not finite."""

    norm: float
    wrong: int | None
    reason: str = ""


class Taken(NamedTuple):
    """Rows of a shard that have just become active."""

    at: Ints  #: (k,) places in the problem of the shard
    rows: Ints  #: (k,) of the shard
    examples: PreparedRows  #: in double precision
    of_class: Ints
    costs: Floats
    parts: Floats  #: (2, k) of g


class CoefficientChange(NamedTuple):
    """A change of coefficients: parts of g are multiplied by ``scales`` (2,), then rows are added with ``weights``."""

    scales: Floats
    examples: PreparedRows  #: k examples, in the precision wanted
    weights: Floats  #: (k, 2) changes of b_i y_i, in the column of their class


class Outside(NamedTuple):
    """Rows of a shard that are not active: the least g, and counts by class, (2,), of violating, near and all rows."""

    least: float
    violating: Ints
    near: Ints
    all: Ints


class Proof(NamedTuple):
    """Parts of g of active rows in double precision, and the largest error of the parts that other rows had before."""

    parts: Floats  #: (2, k)
    error: float | None  #: None: no other rows were computed
    outside: Outside


@dataclass
class Shard:
    """Rows of a training set."""

    X: Any  #: (n, d) dense or CSR, finite
    threads: int = 1  #: most threads that work at once

    # -- before a training ---------------------------------------------------------------------------------------------

    def sums(self, weights: Floats) -> Sums:
        """Return sums over the rows of positive ``weights`` (n,)."""
        columns, counts = np.asarray((weights > 0) @ self.X, np.float64), int(np.count_nonzero(weights))
        stored = int(self.X.nnz) if sparse.issparse(self.X) else self.X.size
        return Sums(counts, float(weights.sum()), columns, float((weights @ self.X).sum()), stored)

    def squares(self, weights: Floats, mean: float) -> float:
        """Return the sum of all squared differences of entries from their ``mean``, rows weighted by (n,)."""
        if not sparse.issparse(self.X):
            return float((weights @ (self.X - mean) ** 2).sum())
        held = np.diff(self.X.indptr)
        own = float(np.repeat(weights, held) @ (self.X.data - mean) ** 2)
        return own + float(weights @ (self.X.shape[1] - held)) * mean**2

    def prepare(self, kernel: Kernel, center: Floats | None) -> Prepared:
        """Prepare the rows for products, dense ones around the same ``center`` everywhere; None: they stay sparse."""
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
        """Begin with the problem of two classes; return how many rows belong to each, (2,)."""
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
        """Activate the rows that are active in a search that is resumed; g of the others is yet to be computed."""
        self._active[at] = True

    def take(self, below: float, counts: Ints, seed: int) -> Taken:
        """Activate ``counts`` (2,) random rows of each class with g ``below`` this, and return them."""
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
        """Deactivate rows, with ``parts`` (2, k) as their present parts of g."""
        self._active[at] = False
        self._parts[:, at] = parts

    def look(self, change: CoefficientChange) -> Outside:
        """Update the parts of g of rows that are not active."""
        outside = np.flatnonzero(~self._active)
        if change.examples.n or (change.scales != 1.0).any():
            moved = change.scales[:, None] * self._parts[:, outside]
            self._parts[:, outside] = moved + self._products(change, outside)
        return self._told(outside)

    def prove(self, change: CoefficientChange, at: Ints, scale: float, *, wholly: bool) -> Proof:
        """Compute parts of g in double precision: of active rows ``at``, of others where that can matter, or of all.

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
        """Return the losses of rows that are not active; their y f(x) is g times ``scale``."""
        outside = ~self._active
        f = scale * self._parts[:, outside].sum(axis=0)
        return 0.5 * float(self._costs[self._rows[outside]] @ np.maximum(0.0, 1.0 - f) ** 2)

    def _products(self, change: CoefficientChange, among: Ints) -> Floats:
        """Return the parts of g, (2, k), that a change adds at rows without a coefficient."""
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
