"""Training with several classes: one problem for each pair of classes, solved by any variant, several at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from livesvm.solvers.frank_wolfe import by_blocks, single_steps
from livesvm.solvers.frank_wolfe.problem import Known, Problem
from livesvm.solvers.frank_wolfe.solution import DualSolution, GapTrace, Look, Options
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.runtime.threads import solve_in_parallel
from livesvm.solvers.runtime.types import Floats, Ints

MOST_POINTS = 2000  #: of the gap against time that are kept


class PairProblem(NamedTuple):
    """The problem of two classes, and the rows of its examples."""

    problem: Problem
    indices: Ints


@dataclass(frozen=True)
class Training:
    """The solutions of all pairs of classes, in the order of ``pairs``, and their largest gap over time."""

    solutions: list[DualSolution]
    trace: Floats  #: (k, 2) seconds, and the largest relative gap known then of pairs that have begun

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of all pairs."""
        return max(found.gap.relative for found in self.solutions)

    @property
    def is_converged(self) -> bool:
        """Whether the gap of every pair is within the tolerance."""
        return all(found.is_converged for found in self.solutions)

    @property
    def steps(self) -> int:
        """The steps of all pairs together."""
        return sum(found.steps for found in self.solutions)


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (negative, positive) of ``n_classes`` classes in lexicographic order."""
    return list(combinations(range(n_classes), 2))


def problems(examples: PreparedRows, classes: Ints, costs: Floats, n_classes: int, threads: int) -> list[PairProblem]:
    """Return the two-class problem of each pair of classes.

    Parameters
    ----------
    classes : (n,) numbers of classes, all of them there; -1: an example that does not count
    costs : (n,) positive where it does
    threads : how many may work on a single problem; several are solved at once, by one each
    """
    members = [np.flatnonzero(classes == c) for c in range(n_classes)]
    inside = threads if n_classes == 2 else 1
    found = []
    for negative, positive in pairs(n_classes):
        indices = np.sort(np.concatenate([members[negative], members[positive]]))
        own = examples if indices.size == examples.n else examples.take(indices)
        y = np.where(classes[indices] == positive, 1.0, -1.0)
        found.append(PairProblem(Problem(own, y, costs[indices], inside), indices))
    return found


def coefficients_of(found: Sequence[DualSolution], own: Sequence[PairProblem], n: int) -> tuple[Ints, Floats]:
    """Return the rows (s,) that are support vectors of any pair, and their ``a_i y_i`` in each pair, (pairs, s)."""
    used = np.zeros(n, bool)
    for pair, solution in zip(own, found, strict=True):
        used[pair.indices[solution.a > 0]] = True
    support, at = np.flatnonzero(used), np.cumsum(used) - 1
    out = np.zeros((len(found), support.size))
    for q, (pair, solution) in enumerate(zip(own, found, strict=True)):
        held = np.flatnonzero(solution.a)
        out[q, at[pair.indices[held]]] = (solution.a * pair.problem.y)[held]
    return support, out


def train(
    own: Sequence[PairProblem],
    options: Options,
    starts: Sequence[Known | None],
    threads: int,
    tell: Callable[[int, int], None],
    look: Look | None = None,
) -> Training:
    """Solve the problems of all pairs, and return their solutions.

    Parameters
    ----------
    starts : what the search for each pair starts from, if anything
    tell : called with the work done and the total: of the only pair, or counted in pairs
    look : called with the gap as it gets smaller
    """
    reported = PairsTrace(len(own), tell, look)

    def one(q: int) -> DualSolution:
        found = solve(own[q].problem, options, reported.of(q, options.tol), starts[q])
        reported.ended()
        return found

    found = solve_in_parallel([partial(one, q) for q in range(len(own))], threads)
    return Training(found, np.array(reported.points))


def solve(problem: Problem, options: Options, trace: GapTrace, start: Known | None = None) -> DualSolution:
    """Solve a problem by the variant in ``options``, starting from ``start`` if it is given and has coefficients."""
    random = np.random.default_rng(options.seed)
    if start is not None and not start.b.any():
        start = None
    if options.variant == "auto":
        return by_blocks.solve(problem, options, start, random, trace)
    a = single_steps.first(problem.of_class, random) if start is None else start.b / start.b.sum()
    if options.sampling is None:
        return single_steps.solve_by_rows(problem, options, a, random, trace)
    found, is_full = single_steps.solve_by_samples(problem, options, a, random, trace)
    if found.is_converged or not is_full or not options.looks_at_all:
        return found
    rest = single_steps.solve_by_rows(problem, options, found.a / found.a.sum(), random, trace)
    return replace(rest, steps=found.steps + rest.steps, kernel_values=found.kernel_values + rest.kernel_values)


class PairsTrace:
    """A trace of the searches for all pairs of classes: the largest gap of the pairs that have begun.

    The reported progress is that of the search if there is one pair, and otherwise the number of finished searches.
    """

    def __init__(self, count: int, tell: Callable[[int, int], None], look: Look | None) -> None:
        self._count, self._tell, self._look = count, tell, look
        self._begun, self._lock = time.perf_counter(), threading.Lock()
        self._gaps: dict[int, float] = {}
        self._done = 0
        self.points: list[tuple[float, float]] = []  #: seconds, and the worst gap known then

    def of(self, q: int, tol: float) -> GapTrace:
        """Return the trace to which the search for pair ``q`` reports."""
        return GapTrace(tol, self._tell if self._count == 1 else None, partial(self._see, q))

    def ended(self) -> None:
        """Count one search as finished, and report progress."""
        with self._lock:
            self._done += 1
            if self._count > 1:
                self._tell(self._done, self._count)

    def _see(self, q: int, _: float, gap: float) -> None:
        with self._lock:
            self._gaps[q] = gap
            point = time.perf_counter() - self._begun, max(self._gaps.values())
            if len(self.points) > MOST_POINTS:
                del self.points[1::2]
            self.points.append(point)
            if self._look is not None:
                self._look(*point)
