"""The default search: block steps over active examples, updates of g of all others, and a final check of the gap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from livesvm.solvers.frank_wolfe import growth
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.blocks import Active, active_of, optimize, relative_gap
from livesvm.solvers.frank_wolfe.problem import CLEAR, Known, Problem, balanced, exact_parts, gap_of, parts_from, since
from livesvm.solvers.frank_wolfe.solution import BLOCKS, DualSolution, GapTrace, Options, solution
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.runtime.types import Floats, Ints

INSIDE = 0.5  #: part of the last gap of all to which the active gap is brought before the next check of all
MARGIN = 0.8  #: part of the tolerance to which it is brought at the end, so that the check of all succeeds
NOT_FAR = 3.0  #: tolerances
TRUSTED = 0.5  #: single precision suffices if its errors are at most this part of ``problem.CLEAR``
ROUNDS = 60  #: most checks of all


@dataclass
class Search:
    """The state of the default search: coefficients, parts of g, and the active examples."""

    problem: Problem
    examples: PreparedRows  #: all, in the precision of the search
    cache_bytes: int
    random: np.random.Generator
    b: Floats  #: (n,) coefficients of the twin
    parts: Floats  #: (2, n) of g; for examples that are not active, as of the last check of all
    exact: Known | None = None  #: the last point where all parts were known in double precision
    seen: Known | None = None  #: the last point where the parts of every example were known
    computed: int = 0
    steps: int = 0
    active: Active = field(init=False)

    def activate(self, indices: Ints) -> None:
        """Make ``indices`` (k,) the active examples."""
        rows = ActiveRows(
            self.examples.take(indices), self.cache_bytes, self.problem.threads, self.random, self.problem.n
        )
        self.active = active_of(self.problem, indices, self.b, self.parts, rows)

    def add(self) -> None:
        """Activate more examples; if that moves the cached rows, deactivate examples far from violating optimality."""
        active, outside = self.active, self.outside()
        g, of_class = self.parts[:, outside].sum(axis=0), self.problem.of_class[outside]
        new = growth.added(outside, g, of_class, active.indices.size, self.random)
        if not new.size:
            return
        indices = np.concatenate([active.indices, new])
        if not active.rows.extend(self.examples.take(indices)):
            stay = growth.staying(active.b, active.parts.sum(axis=0))
            indices = np.concatenate([active.indices[stay], new])
            active.rows.change(self.examples.take(indices), stay)
        self.active = active_of(self.problem, indices, self.b, self.parts, active.rows)

    def optimize(self, tol: float, most: int, trace: GapTrace) -> bool:
        """Optimize and store the coefficients of the active examples; return whether their gap is ``tol``."""
        active = self.active
        steps, is_there = optimize(active, tol, most - self.steps, trace)
        self.steps += steps
        self.b[active.indices] = active.b
        self.parts[:, active.indices] = active.parts
        return is_there

    def outside(self) -> Ints:
        """Return the indices of the examples that are not active."""
        others = np.ones(self.problem.n, bool)
        others[self.active.indices] = False
        return np.flatnonzero(others)

    def look(self) -> None:
        """Compute g of the examples that are not active, for the present coefficients."""
        outside = self.outside()
        _, changes = since(self.problem.of_class, self.b, None if self.seen is None else self.seen.b)
        self.computed += outside.size * int(np.count_nonzero(changes))
        self.parts[:, outside] = parts_from(self.problem, self.examples, self.b, self.seen, outside)
        self.seen = Known(self.b.copy(), self.parts.copy())

    def prove(self) -> None:
        """Compute g in double precision, except for examples with a g so large that single precision suffices.

        An example with so large a g has no coefficient and no loss, and its g is not the least. The error of single
        precision is measured at all other examples. If this error is too large, every g is computed in double
        precision.
        """
        problem, b, age = self.problem, self.b, 0 if self.exact is None else self.exact.age
        g, is_active = self.parts.sum(axis=0), np.zeros(problem.n, bool)
        is_active[self.active.indices] = True
        near = np.flatnonzero(is_active | (g * float(b.sum() / (b @ g)) < 1.0 + CLEAR))
        found = exact_parts(problem, b, self.exact, near)
        errors = np.abs(found.sum(axis=0) - g[near])
        error = float(errors[~is_active[near]].max(initial=0.0) or errors.max())
        if (age + 1) * error > TRUSTED * CLEAR:
            near, found = np.arange(problem.n), exact_parts(problem, b, self.exact)
        self.parts[:, near] = found
        rough = np.ones(problem.n, bool)
        rough[near] = False
        self.exact = self.seen = Known(b.copy(), self.parts.copy(), age, rough=rough)
        self.active.parts = np.ascontiguousarray(self.parts[:, self.active.indices])

    def use_double(self) -> bool:
        """Switch the search to double precision; return False if it has used double precision already."""
        if self.examples is self.problem.examples:
            return False
        self.examples = self.problem.examples
        self.computed += self.active.rows.computed
        self.activate(self.active.indices)
        return True

    @property
    def kernel_values(self) -> int:
        """How many kernel values the search has computed."""
        return self.computed + self.active.rows.computed

    def gap(self) -> float:
        """Return the relative gap over all examples, which is as exact as ``parts``."""
        return gap_of(self.problem, self.b, self.parts).relative


class Looking(Protocol):
    """A search over active examples that can update g of all other examples, wherever these are stored."""

    active: Active
    steps: int

    def optimize(self, tol: float, most: int, trace: GapTrace) -> bool: ...
    def look(self) -> None: ...
    def add(self) -> None: ...
    def prove(self) -> None: ...
    def use_double(self) -> bool: ...
    def gap(self) -> float: ...


def close_gap(search: Looking, n: int, tol: float, most_steps: int, trace: GapTrace) -> None:
    """Search until a gap of ``tol`` over all ``n`` examples is proved, or rounding or ``most_steps`` end the search."""
    goal = MARGIN * tol if n <= growth.FIRST else max(MARGIN * tol, INSIDE)
    for _ in range(ROUNDS):
        is_there = search.optimize(goal, most_steps, trace)
        search.look()
        gap = search.gap()
        if gap <= tol or not is_there:
            search.prove()
            gap = search.gap()
            if gap <= tol or search.steps >= most_steps:
                return
            if not (is_there and relative_gap(search.active) <= tol) and not search.use_double():
                return  # rounding
        trace(gap)
        goal = next_goal(goal, gap, tol, n - search.active.b.size)
        search.add()
    search.prove()


def solve(
    problem: Problem, options: Options, start: Known | None, random: np.random.Generator, trace: GapTrace
) -> DualSolution:
    """Return a solution with a relative gap of ``options.tol``, unless the search ends by rounding or ``max_steps``."""
    search = _begun(problem, start, options.cache_bytes, random)
    close_gap(search, problem.n, options.tol, options.max_steps or BLOCKS, trace)
    found = solution(problem, search.b, search.parts, options.tol, search.steps, search.kernel_values, trace)
    return replace(found, age=search.exact.age if search.exact is not None else 0)


def _begun(problem: Problem, start: Known | None, cache_bytes: int, random: np.random.Generator) -> Search:
    """Return a new search that begins with the coefficients of ``start``, or with coefficients of 0."""
    n = problem.n
    if start is None:
        search = Search(problem, problem.quick(), cache_bytes, random, np.zeros(n), np.zeros((2, n)))
        search.activate(growth.first(problem.of_class, random))
        return search
    now = balanced(problem, start)
    search = Search(problem, problem.quick(), cache_bytes, random, now.b.copy(), now.parts.copy(), start, start)
    search.activate(np.union1d(np.flatnonzero(now.b), start.come))
    return search


def next_goal(goal: float, gap: float, tol: float, outside: int) -> float:
    """Return the next goal for the gap of the active examples, or the final goal if that is near."""
    following = INSIDE * gap
    return min(goal, following) if outside and following > NOT_FAR * tol else MARGIN * tol
