"""A core: the few examples with a coefficient, their kernel values, and the search for the next one by samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.frank_wolfe.problem import Problem
from livesvm.solvers.kernels.matrix_products import PreparedRows, block
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

TRIES = 3  #: samples without any example to gain by after which every example is looked at
NEAR = 0.5  #: of the tolerance: an example as far may violate soon
LATEST = 0.1  #: share of the core that may have joined since its examples were last gathered


class SampledExample(NamedTuple):
    """An example ``i``, the relative gap that it leaves, and its kernel values with the core, (k,)."""

    i: int
    gap: float
    row: Numbers


class Core:
    """Examples ``indices`` (k,), coefficients ``a`` (k,) on the simplex, and ``g = K~a`` there.

    Parameters
    ----------
    a : (n,) coefficients of all, of which no more than ``capacity`` are not 0
    examples : all, in the precision of the search
    capacity : examples, at most
    """

    def __init__(self, problem: Problem, examples: PreparedRows, a: Floats, capacity: int) -> None:
        self.problem, self.examples = problem, examples
        self.computed = 0  #: kernel values, so far
        self.indices = np.flatnonzero(a)
        self.a = a[self.indices]
        self.place_of = np.full(problem.n, -1, np.int64)
        self.place_of[self.indices] = np.arange(self.indices.size)
        self._all = problem.ridge, problem.diagonal
        self._gathered = examples.take(self.indices)
        self._describe()
        own, k = self.kernel(self.indices), self.indices.size
        self.values: Numbers = np.empty((capacity, capacity), own.dtype)  #: those of the core come first
        self.values[:k, :k] = own
        self.g = self.g_of(self.indices, own)

    def _describe(self) -> None:
        self.y = self.problem.y[self.indices]  #: (k,)
        self.ridge, self.diagonal = (each[self.indices] for each in self._all)  #: (k,) 1 / C_i, and K~_ii

    @property
    def R(self) -> float:
        """``a'K~a``."""
        return float(self.a @ self.g)

    @property
    def gap(self) -> float:
        """The relative gap of the core alone."""
        return 2.0 * (1.0 - float(self.g.min()) / self.R)

    def kernel(self, others: Ints) -> Numbers:
        """Return kernel values of ``others`` (m,) and the core, (m, k)."""
        self.computed += others.size * self.indices.size
        these, m = self.examples.take(others), self._gathered.n
        found = block(these, self._gathered)
        return (
            found if m == self.indices.size else np.hstack([found, block(these, self.examples.take(self.indices[m:]))])
        )

    def g_of(self, others: Ints, values: Numbers) -> Floats:
        """Return g of ``others`` (m,), whose kernel values with the core, (m, k), are given."""
        signed = self.y * self.a
        g = self.problem.y[others] * (values @ signed + signed.sum())
        at = self.place_of[others]
        g[at >= 0] += (self.ridge * self.a)[at[at >= 0]]
        return np.asarray(g)

    @property
    def is_full(self) -> bool:
        """Whether there is space for no other example."""
        return bool(self.indices.size == self.values.shape[0])

    def holds(self, i: int) -> bool:
        """Return whether example ``i`` is in the core set."""
        return bool(self.place_of[i] >= 0)

    def add(self, i: int, row: Numbers) -> None:
        """Take in example ``i`` without a coefficient, unless it is here; its kernel values with the core are given."""
        if self.holds(i):
            return
        k = self.indices.size
        self.g = np.append(self.g, self.g_of(np.array([i]), row[None, :]))
        self.indices, self.a, self.place_of[i] = np.append(self.indices, i), np.append(self.a, 0.0), k
        self._describe()
        if k + 1 - self._gathered.n > LATEST * k:
            self._gathered = self.examples.take(self.indices)
        self.values[k, :k] = self.values[:k, k] = row
        self.values[k, k] = self.diagonal[k] - self.ridge[k] - 1.0

    def coefficients(self) -> Floats:
        """Return a of all examples, (n,)."""
        a = np.zeros(self.problem.n)
        a[self.indices] = self.a
        return a


class SampledSearch:
    """Looks for an example with a small derivative in samples, and among those that a look at all has found.

    Parameters
    ----------
    looks_at_all : whether samples without one are followed by a look at all; if not, the first of them is the end
    """

    def __init__(self, core: Core, size: int, random: np.random.Generator, looks_at_all: bool = True) -> None:
        self._looks_at_all = looks_at_all
        self._core, self._size, self._random = core, size, random
        self._near: Ints = np.empty(0, np.int64)  # of the last look, those that have not been looked at since

    def find(self, tol: float) -> SampledExample:
        """Return an example; its relative gap is ``tol`` or less only where that of no other is more.

        Without looks at all, of no other of a sample.
        """
        n = self._core.problem.n
        for _ in range(TRIES if self._looks_at_all else 1):
            if self._near.size or self._size >= n:
                break
            found = self._worst(self._random.integers(0, n, self._size))
            if found.gap > tol or not self._looks_at_all:
                return found
        while self._near.size:
            some, self._near = self._near[: self._size], self._near[self._size :]
            found = self._worst(some)
            if found.gap > tol:
                self._near = np.append(self._near, some[some != found.i])
                return found
        return self._look(tol)

    def _look(self, tol: float) -> SampledExample:
        """Look at all, and note examples that violate or may do so soon, in an order by chance."""
        check()
        core = self._core
        g = core.problem.parts(core.examples, core.coefficients()).sum(axis=0)
        core.computed += core.problem.n * core.indices.size
        self._near = self._random.permutation(np.flatnonzero(2.0 * (core.R - g) > NEAR * tol * core.R))
        return self._worst(np.array([g.argmin()]))

    def _worst(self, some: Ints) -> SampledExample:
        values = self._core.kernel(some)
        g = self._core.g_of(some, values)
        at = int(g.argmin())
        return SampledExample(int(some[at]), 2.0 * (1.0 - float(g[at]) / self._core.R), values[at])
