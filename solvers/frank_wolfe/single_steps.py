"""FW and MFW [Frandi et al., Algorithms 2, 3]: steps of one coefficient, by derivatives of all or sampled examples.

With the derivatives of all n examples, a step needs one kernel row and O(n) time. If n is too large for that, the
search finds an example in a random sample and adds it to the *core*, the set of examples with coefficients [Frandi et
al., Section 5.2.3]. The search takes steps within the core until the gap of the core is well below that of the new
example, because the kernel values of a sample take far longer than a step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.frank_wolfe import steps
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.problem import Problem, exact_parts, gap_of
from livesvm.solvers.frank_wolfe.solution import CORE_STEPS, STEPS, DualSolution, GapTrace, Options, solution
from livesvm.solvers.frank_wolfe.steps import At
from livesvm.solvers.kernels.matrix_products import PreparedRows, block
from livesvm.solvers.runtime.interrupt import AT_ONCE, check
from livesvm.solvers.runtime.scalars import One
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

TRIES = 3  #: samples without any example to gain by, after which all are checked
NEAR = 0.5  #: of the tolerance: an example as far may violate soon


class SampledExample(NamedTuple):
    """An example ``i``, the relative gap that its derivative implies, and its kernel values with the core, (k,)."""

    i: int
    gap: float
    row: Numbers


class Core:
    """The core: examples ``indices`` (k,), their coefficients ``a`` (k,) on the simplex, and their ``g = K~a``.

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
        self._describe()
        own, k = self.kernel(self.indices), self.indices.size
        self.values: Numbers = np.empty((capacity, capacity), own.dtype)  #: kernel values; the core comes first
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
        """Return the kernel values of the examples ``others`` (m,) with the core, (m, k)."""
        self.computed += others.size * self.indices.size
        return block(self.examples.take(others), self.examples.take(self.indices))

    def g_of(self, others: Ints, values: Numbers) -> Floats:
        """Return g of the examples ``others`` (m,) from ``values`` (m, k), their kernel values with the core."""
        signed = self.y * self.a
        g = self.problem.y[others] * (values @ signed + signed.sum())
        at = self.place_of[others]
        g[at >= 0] += (self.ridge * self.a)[at[at >= 0]]
        return np.asarray(g)

    @property
    def is_full(self) -> bool:
        """Whether the core has no space for another example."""
        return bool(self.indices.size == self.values.shape[0])

    def holds(self, i: int) -> bool:
        """Return whether example ``i`` is in the core."""
        return bool(self.place_of[i] >= 0)

    def add(self, i: int, row: Numbers) -> None:
        """Add example ``i`` with coefficient 0, if not in the core; ``row`` has its kernel values with the core."""
        if self.holds(i):
            return
        k = self.indices.size
        self.g = np.append(self.g, self.g_of(np.array([i]), row[None, :]))
        self.indices, self.a, self.place_of[i] = np.append(self.indices, i), np.append(self.a, 0.0), k
        self._describe()
        self.values[k, :k] = self.values[:k, k] = row
        self.values[k, k] = self.diagonal[k] - self.ridge[k] - 1.0

    def coefficients(self) -> Floats:
        """Return ``a`` for all examples, (n,)."""
        a = np.zeros(self.problem.n)
        a[self.indices] = self.a
        return a


class SampledSearch:
    """A search for an example with a small derivative, in random samples and among candidates of the last full check.

    Parameters
    ----------
    looks_at_all : whether samples without one are followed by a look at all; if not, the first of them is the end
    """

    def __init__(self, core: Core, size: int, random: np.random.Generator, looks_at_all: bool = True) -> None:
        self._looks_at_all = looks_at_all
        self._core, self._size, self._random = core, size, random
        self._near: Ints = np.empty(0, np.int64)  # near examples of the last full check, not checked since

    def find(self, tol: float) -> SampledExample:
        """Return an example with a relative gap above ``tol``, or one with a smaller gap if there is none above.

        If the search must not look at all examples, it takes only one sample.
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
        """Compute g of all examples; store the examples that violate optimality or soon may, and return the worst."""
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


AT_FIRST = 20  #: examples that share the first solution [Frandi et al., Section 5.2.2]
TOGETHER = 16  #: rows that are computed at once: the next ones wanted are likely to be those with the least g now
PROOFS = 5  #: at most: rounding may leave the recurrences apart from the data


def first(of_class: Ints, random: np.random.Generator) -> Floats:
    """Return coefficients (n,) on the simplex: equal for a few random examples, half of each class, else 0."""
    b = np.zeros(of_class.size)
    for c in (0, 1):
        members = np.flatnonzero(of_class == c)
        b[random.choice(members, min(members.size, AT_FIRST // 2), replace=False)] = 1.0
    return np.asarray(b / b.sum())


def solve_by_rows(
    problem: Problem, options: Options, a: Floats, random: np.random.Generator, trace: GapTrace
) -> DualSolution:
    """Return a solution with a relative gap of ``options.tol``, unless rounding or ``max_steps`` end the search sooner.

    Each step uses the derivatives of all examples, by FW or by MFW, which also takes steps away from an example. The
    initial coefficients ``a`` (n,) are on the simplex.
    """
    at, most = At.of(), options.max_steps or STEPS
    examples, computed, goal = problem.quick(), 0, options.tol
    parts = problem.parts(examples, a)
    for _ in range(PROOFS):
        rows = ActiveRows(examples, options.cache_bytes, problem.threads, random, problem.n)
        a = _walk_rows(problem, rows, a, parts.sum(axis=0), at, options.variant == "mfw", goal, most, trace)
        computed += rows.computed
        parts = exact_parts(problem, a)
        gap = gap_of(problem, a, parts).relative
        if gap <= options.tol or at[0].steps >= most:
            break
        examples, goal = problem.examples, 0.5 * goal
    return solution(problem, a, parts, options.tol, int(at[0].steps), computed, trace)


def _walk_rows(
    problem: Problem,
    rows: ActiveRows,
    a: Floats,
    g: Floats,
    at: One[At],
    away: bool,
    tol: float,
    most: int,
    trace: GapTrace,
) -> Floats:
    """Take steps from the coefficients ``a`` (n,), which have ``g`` (n,), and return the coefficients reached."""
    a, g = a.copy(), g.copy()
    now = at[0]
    now.scale, now.R, now.n_active = 1.0, float(a @ g), int(np.count_nonzero(a))
    arrays = rows.values, rows.place_of, problem.y, problem.ridge, problem.diagonal, a, g, at
    stretch = max(1, AT_ONCE // (8 * problem.n))
    while True:
        check()
        ended = steps.walk(*arrays, away, tol, min(stretch, most - now.steps))
        trace(now.gap)
        if ended == steps.DONE or now.steps >= most:
            return np.asarray(a * now.scale)
        if ended == steps.ROW:
            rows.fetch(_next(rows, now.wanted, g))
        else:
            now.R = now.scale**2 * float(a @ g)


def _next(rows: ActiveRows, wanted: int, g: Floats) -> Ints:
    """Return the example ``wanted``, and other examples that the next steps may need and that have no cached row."""
    count = min(TOGETHER, rows.most, g.size - 1)
    if count < 2:
        return np.array([wanted])
    least = np.argpartition(g, count - 1)[: count - 1]
    return np.concatenate([[wanted], least[(least != wanted) & (rows.place_of[least] < 0)]])


LESS = 0.5  #: part of the last example's gap: steps among the core that promise less wait for another example
AT_MOST = 5  #: most of these steps for one example, relative to the size of the core, before the final tolerance
SURE = 0.9  #: part of the tolerance to which these steps go at the end, since other gaps have other rounding
LAST_DIGITS = 1.0 + 1e-9  #: factor by which two equal gaps may differ by rounding
LEAST_CAPACITY = 64  #: examples that a core may always have


def solve_by_samples(
    problem: Problem, options: Options, a: Floats, random: np.random.Generator, trace: GapTrace
) -> tuple[DualSolution, bool]:
    """Return a solution with a relative gap of ``options.tol`` over all examples, unless ``max_steps`` end the search.

    Without ``options.looks_at_all``, a sample without a violating example ends the search too, as in the paper's
    program. The second result is whether the search ended because the kernel values of the core would exceed
    ``cache_bytes``. The initial coefficients ``a`` (n,) are on the simplex.
    """
    sampling, most = options.sampling or problem.n, options.max_steps or CORE_STEPS
    examples, goal, taken, computed = problem.quick(), options.tol, 0, 0
    for _ in range(PROOFS):
        capacity = min(problem.n, max(LEAST_CAPACITY, math.isqrt(options.cache_bytes // examples.dtype.itemsize)))
        is_full = int(np.count_nonzero(a)) > capacity
        if not is_full:
            core = Core(problem, examples, a, capacity)
            search = SampledSearch(core, sampling, random, options.looks_at_all)
            taken += _walk_core(core, search, options.variant == "mfw", goal, most - taken, trace)
            a, computed, is_full = core.coefficients(), computed + core.computed, core.is_full and capacity < problem.n
        parts = exact_parts(problem, a)
        is_there = gap_of(problem, a, parts).relative <= options.tol
        if is_there or is_full or taken >= most or not options.looks_at_all:
            break
        examples, goal = problem.examples, 0.5 * goal
    return solution(problem, a, parts, options.tol, taken, computed, trace), is_full


def _walk_core(core: Core, search: SampledSearch, away: bool, tol: float, most: int, trace: GapTrace) -> int:
    """Add examples to the core until no example with a gap above ``tol`` is found; return the number of steps."""
    goal, taken = np.inf, 0
    while taken < most:
        check()
        taken += _minimize(core, away, goal, tol, most - taken)
        found = search.find(tol)
        trace(found.gap)
        if found.gap <= tol:
            break
        goal = max(SURE * tol, LESS * found.gap)
        is_held = core.holds(found.i)
        if is_held and core.gap <= LAST_DIGITS * goal:
            break  # rounding: steps to it cannot improve further in the core's precision
        if core.is_full and not is_held:
            break
        core.add(found.i, found.row)
    return taken


def _minimize(core: Core, away: bool, goal: float, tol: float, most: int) -> int:
    """Take steps within the core until its gap is ``goal``, or a limit of steps; return the number of steps."""
    if core.gap <= goal:
        return 0
    few = AT_MOST * core.indices.size if goal > SURE * tol else most
    return _steps(core, away, goal, min(few, most))


def _steps(core: Core, away: bool, tol: float, most: int) -> int:
    """Take at most ``most`` steps within the core, until its gap is ``tol``; return the number of steps."""
    at = At.of(1.0, core.R, np.inf, 0, int(np.count_nonzero(core.a)))
    arrays = core.values, np.arange(core.indices.size), core.y, core.ridge, core.diagonal, core.a, core.g, at
    now, stretch = at[0], max(1, AT_ONCE // (8 * core.indices.size))
    while now.steps < most:
        check()
        if steps.walk(*arrays, away, tol, min(stretch, most - now.steps)) == steps.DONE:
            break
        now.R = now.scale**2 * float(core.a @ core.g)
    core.a *= now.scale
    core.g *= now.scale
    return int(now.steps)
