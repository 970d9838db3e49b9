"""A shard: some rows of a training set that is too large for one machine, and the parts of g at them.

The search holds the active examples of all shards, see :mod:`.by_shards`. A shard gets the changes of their
coefficients changed, brings its parts of g along by products of its own rows with theirs, and answers how many of its
other rows violate, the least g, and those that chance takes of them. What is asked and answered are numbers and small
arrays; where a shard lives is up to its :class:`Crew`.
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
    """A shard was lost, and another one is in its place, prepared as that one was: the search is to be resumed."""


class Crew(Protocol):
    """All shards of a training set, wherever they live.

    One that can lose a shard puts another one in its place, which does what :meth:`prepare` was asked for, and raises
    ShardLost where a search was under way.
    """

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Return what each of ``works``, all of one method of Shard, returns of its own shard, lost or not."""

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Return what ``work``, which can be pickled, returns of each shard, in their order."""

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Return what each of ``works`` returns of its own shard."""


class Preparation:
    """What shards were asked to prepare, so that one in place of a lost one can do the same."""

    def __init__(self) -> None:
        self._works: dict[str, list[Callable[[Shard], Any]]] = {}

    def keep(self, works: Sequence[Callable[[Shard], Any]]) -> str:
        """Know the work of all shards, in place of the same work before; its name."""
        name: str = works[0].func.__name__  # type: ignore[attr-defined]
        self._works[name] = list(works)
        return name

    def of(self, s: int) -> dict[str, Callable[[Shard], Any]]:
        """Return the works of one shard by name, in their order."""
        return {name: works[s] for name, works in self._works.items()}


class Sums(NamedTuple):
    """Sums over the rows of a shard that count."""

    n: int
    weight: float
    columns: Floats  #: (d,) of x
    weighted: float  #: of all entries, rows weighted
    stored: int  #: entries that are not left out


class Prepared(NamedTuple):
    """What preparing a shard for a kernel has shown: the largest gamma |x|^2, and the first row that is not finite."""

    norm: float
    wrong: int | None
    reason: str = ""


class Taken(NamedTuple):
    """Rows that are active from now on."""

    at: Ints  #: (k,) places in the problem of the shard
    rows: Ints  #: (k,) of the shard
    examples: PreparedRows  #: in double precision
    of_class: Ints
    costs: Floats
    parts: Floats  #: (2, k) of g


class CoefficientChange(NamedTuple):
    """How coefficients have changed: parts of g are multiplied by ``scales`` (2,), then rows added with ``weights``."""

    scales: Floats
    examples: PreparedRows  #: k, in the precision that is wanted
    weights: Floats  #: (k, 2) changes of b_i y_i, in the column of their class


class Outside(NamedTuple):
    """The rows of a shard that are not active: the least g, and how many of each class, (2,), violate, nearly, are."""

    least: float
    violating: Ints
    near: Ints
    all: Ints


class Proof(NamedTuple):
    """Parts of g in double precision, of active rows, and how far those of others were from that at most."""

    parts: Floats  #: (2, k)
    error: float | None  #: None: of no other row they were computed
    outside: Outside


@dataclass
class Shard:
    """Rows of a training set."""

    X: Any  #: (n, d) dense or CSR, finite
    threads: int = 1  #: how many may work at once

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
        """Let the rows be of these classes, (n,), -1: of none, with costs (n,)."""
        self._codes, self._costs = codes, costs

    def begin(self, negative: int, positive: int) -> Ints:
        """Begin with the problem of two classes; how many rows belong to each, (2,)."""
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
        """Let these rows be active, as they were in a search that is resumed; g of the others is of nothing yet."""
        self._active[at] = True

    def take(self, below: float, counts: Ints, seed: int) -> Taken:
        """Let ``counts`` (2,) random rows of each class with g ``below`` this be active."""
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
        """Let rows be active no more, whose parts of g (2, k) have become these."""
        self._active[at] = False
        self._parts[:, at] = parts

    def look(self, change: CoefficientChange) -> Outside:
        """Bring the parts of g of examples that are not active along."""
        outside = np.flatnonzero(~self._active)
        if change.examples.n or (change.scales != 1.0).any():
            moved = change.scales[:, None] * self._parts[:, outside]
            self._parts[:, outside] = moved + self._products(change, outside)
        return self._told(outside)

    def prove(self, change: CoefficientChange, at: Ints, scale: float, *, wholly: bool) -> Proof:
        """Compute parts of g in double precision: of active rows ``at``, of others where that can matter, or of all.

        Parameters
        ----------
        change : from nothing
        at : (k,) active rows
        scale : by which g is 1 where it has to be
        """
        outside = np.flatnonzero(~self._active)
        g = self._parts[:, outside].sum(axis=0)
        near = outside if wholly else outside[g * scale < 1.0 + CLEAR]
        found, before = self._products(change, near), self._parts[:, near].sum(axis=0)
        error = float(np.abs(found.sum(axis=0) - before).max()) if near.size else None
        self._parts[:, near] = found
        return Proof(self._products(change, at), error, self._told(outside))

    def losses(self, scale: float) -> float:
        """Return the losses of examples that are not active, whose g times ``scale`` is y f(x)."""
        outside = ~self._active
        f = scale * self._parts[:, outside].sum(axis=0)
        return 0.5 * float(self._costs[self._rows[outside]] @ np.maximum(0.0, 1.0 - f) ** 2)

    def _products(self, change: CoefficientChange, among: Ints) -> Floats:
        """Return the parts of g, (2, k), of rows without a coefficient that a change makes."""
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
    """Return the rows of each of ``count`` shards, of ``n`` rows in all: as many in each, but for one."""
    edges = np.linspace(0, n, count + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]
