"""A core: the few examples with a coefficient, their kernel matrix, and the search for the next one by samples."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.frank_wolfe.problem import Problem
from livesvm.solvers.kernels.matrix_products import block
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints

SAMPLE = 59  #: one of so many is among the worst 5%, with probability 0.95 [Frandi et al., Theorem 1]
TRIES = 3  #: samples without anyone to gain by after which everyone is looked at


class Core:
    """Examples ``who`` (k,), coefficients ``a`` (k,) on the simplex, ``g = K~a`` there, and ``R = a'K~a``."""

    def __init__(self, problem: Problem, a: Floats) -> None:
        self.problem = problem
        self.who = np.flatnonzero(a)
        self.a = a[self.who]
        self.place_of = np.full(problem.n, -1, np.int64)
        self.place_of[self.who] = np.arange(self.who.size)
        self.diagonal = problem.diagonal
        self.matrix = np.ascontiguousarray(self.columns(self.who))  #: (k or more, k or more) K~ of the core
        self.g = self.matrix @ self.a
        self.computed = self.matrix.size

    @property
    def R(self) -> float:
        """``a'K~a``."""
        return float(self.a @ self.g)

    def columns(self, others: Ints) -> Floats:
        """Return K~ of ``others`` (m,) and the core, (m, k)."""
        problem, who = self.problem, self.who
        values = block(problem.examples.take(others), problem.examples.take(who)).astype(np.float64) + 1.0
        values *= problem.y[others][:, None] * problem.y[who]
        at = self.place_of[others]
        same = np.flatnonzero(at >= 0)
        values[same, at[same]] += problem.ridge[others[same]]
        return np.asarray(values)

    def add(self, i: int) -> int:
        """Take in example ``i`` without a coefficient, unless it is here; return its place."""
        if self.place_of[i] >= 0:
            return int(self.place_of[i])
        k = self.who.size
        if k == self.matrix.shape[0]:
            larger = np.zeros((k + k // 2 + 16, k + k // 2 + 16))
            larger[:k, :k] = self.matrix
            self.matrix = larger
        row = self.columns(np.array([i]))[0]
        self.computed += k
        self.place_of[i] = k
        self.who, self.a = np.append(self.who, i), np.append(self.a, 0.0)
        self.g = np.append(self.g, row @ self.a[:k])
        self.matrix[k, :k], self.matrix[:k, k], self.matrix[k, k] = row, row, self.diagonal[i]
        return k

    def move(self, at: int, step: float) -> None:
        """Go to ``(1 - step) a + step e``; a step away is negative."""
        self.a *= 1.0 - step
        self.a[at] += step
        self.g *= 1.0 - step
        self.g += step * self.matrix[at, : self.g.size]

    def coefficients(self) -> Floats:
        """Return a of all examples, (n,)."""
        a = np.zeros(self.problem.n)
        a[self.who] = self.a
        return a


class SampledSearch:
    """Looks for an example with a small derivative in samples, and among those who were worst at the last full look.

    Parameters
    ----------
    looks_at_all : whether samples without one are followed by a look at all; if not, one such sample is the end
    """

    def __init__(self, core: Core, size: int, random: np.random.Generator, looks_at_all: bool = True) -> None:
        self._core, self._size, self._random, self._looks_at_all = core, size, random, looks_at_all
        self._worst: Ints = np.empty(0, np.int64)

    def find(self, tol: float) -> tuple[int, float]:
        """Return an example and its g; no g of all is low enough for a gap above ``tol`` only where none was found.

        Without looks at all, none of a sample.
        """
        core = self._core
        for _ in range(TRIES):
            sample = self._random.choice(core.problem.n, min(self._size, core.problem.n), replace=False)
            i, g = self._least(np.union1d(sample, self._worst))
            if 2.0 * (core.R - g) > tol * core.R or not self._looks_at_all:
                return i, g
        check()
        g_all = core.problem.parts(core.problem.examples, core.coefficients()).sum(axis=0)
        core.computed += core.problem.n * core.who.size
        count = min(self._size, g_all.size)
        self._worst = np.argpartition(g_all, count - 1)[:count]
        i = int(g_all.argmin())
        return i, float(g_all[i])

    def _least(self, sample: Ints) -> tuple[int, float]:
        g = self._core.columns(sample) @ self._core.a
        self._core.computed += sample.size * self._core.who.size
        at = int(g.argmin())
        return int(sample[at]), float(g[at])
