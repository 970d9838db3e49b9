"""USMO: it moves pairs of coefficients until the conditions hold up to tau [Sansone, De Natale & Zhou, alg. 1].

Pairs are chosen within a working set: the non-bound examples, and the examples that violate optimality most. f of the
examples in this set is updated after every step (the function cache). When no pair of the set violates optimality any
more, a slow pass updates f of every example and chooses the next working set. The published algorithm recomputes f in
such a pass, example by example; here the changes of f are computed, by products with many kernel rows at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.pu.by_path import solved_by_path
from livesvm.solvers.pu.pair_selection import STEPS, STOP, WorkingSet, descend, working_set, write_offsets
from livesvm.solvers.pu.problem import JUMP, TINY, PUProblem, slacks
from livesvm.solvers.pu.products import Products, exact, products
from livesvm.solvers.pu.starts import feasible_start, from_scores, one_class_start
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints

Start = Literal["nested", "one_class", "feasible"]

WORKING = 1024  #: examples in a working set
STEPS_EACH = 50  # steps on a working set, for each of its examples
TENTH = 0.1  # share to which a pass lowers the violation
MOST_PASSES = 10_000
MOST_UNFINISHED = 50  # passes in a row that are cut off before their pairs are done
MOST_REFRESHES = 5
FRESH = 20  # passes in which f is updated before it is computed afresh, as each loses some of its last digits
FLOOR = 1e-13  # part of the largest f: a violation below it is rounding
GROWTH = 4  # factor from one part of a nested start to the next
LEAST_GAP = 1e-9  # the least gap that may be asked for
ROUGH = 1e-3  # violation allowed on a part, whose solution is only a start
PARTS = 1000  # steps in reports of progress


class Run:
    """The state of a solve: coefficients, f of every example, and the feasible moves."""

    def __init__(self, problem: PUProblem, K: Products, sigma: Floats) -> None:
        self.problem, self.K, self.sigma = problem, K, sigma
        self.up, self.down = np.empty(sigma.size), np.empty(sigma.size)
        self.steps = self.passes = self.unfinished = 0
        self.refresh()

    def refresh(self) -> None:
        """Recompute f of every example from the coefficients."""
        indices = np.flatnonzero(self.sigma)
        self.F = self.problem.q - self.K.times(indices, self.sigma[indices])  #: (n,) f without intercept
        self.look()

    def look(self) -> None:
        """Compute the feasible moves, and the violation of optimality by the worst pair."""
        write_offsets(self.sigma, self.problem.c2, JUMP, self.up, self.down)
        self.up += self.F
        self.down += self.F
        self.highest, self.lowest = float(self.up.max()), float(self.down.min())
        self.violation = self.highest - self.lowest

    @property
    def b(self) -> float:
        """The middle of the interval of intercepts that the optimality conditions allow."""
        return -0.5 * (self.highest + self.lowest)

    def relative_gap(self, error: float = 0.0) -> float:
        """Return the duality gap of the coefficients, divided by the larger of the two objectives.

        If kernel values have errors of at most ``error``, the result is a bound that includes the effect of these
        errors on f.
        """
        c2 = self.problem.c2
        gap = float(slacks(self.F, self.b, self.sigma, c2).sum())
        gap += error * self.problem.total * float(c2.sum())
        dual = self.problem.dual(self.sigma, self.F)
        return gap / max(abs(dual), abs(dual + gap), TINY)

    def improve(self, tolerance: float) -> None:
        """Move pairs of one working set until none violates by more than ``tolerance``, then update every f."""
        indices = self.choose()
        w = working_set(self.K.block(indices), self.F[indices], self.sigma[indices], self.problem.c2[indices])
        watch(w.counters, STOP)
        descend(w, JUMP, tolerance, STEPS_EACH * WORKING)
        raise_what_stopped()
        sigma = self._brought_on(w, self.problem.c2[indices])
        change = sigma - self.sigma[indices]
        moved = np.flatnonzero(change)
        self.sigma[indices] = sigma
        self.F -= self.K.times(indices[moved], change[moved])
        self.steps += int(w.counters[STEPS])
        self.passes += 1
        self.look()

    def _brought_on(self, w: WorkingSet, c2: Floats) -> Floats:
        """Return the coefficients of a working set, optimized by a path if pairs made too little progress.

        With a linear kernel at most d + 1 examples are free on the path, so a path is tried at once. With other kernels
        the path may be long.
        """
        self.unfinished = self.unfinished + 1 if w.counters[STEPS] >= STEPS_EACH * WORKING else 0
        if self.unfinished and (self.problem.kernel.name == "linear" or self.unfinished > MOST_UNFINISHED):
            return solved_by_path(w.K, w.F, w.sigma, c2)
        return w.sigma

    def choose(self) -> Ints:
        """Return the next working set: the non-bound examples, and those that violate optimality most."""
        n, c2 = self.sigma.size, self.problem.c2
        if n <= WORKING:
            return np.arange(n)
        chosen = (self.sigma > 0.0) & (self.sigma < c2) & (self.sigma != 0.5 * c2)
        if np.count_nonzero(chosen) > WORKING // 2:
            excess = np.maximum(self.up - self.lowest, self.highest - self.down)
            excess[~chosen] = -np.inf
            chosen[:] = False
            chosen[np.argpartition(-excess, WORKING // 2)[: WORKING // 2]] = True
        each = (WORKING - np.count_nonzero(chosen)) // 2
        for values in (-self.up, self.down.copy()):
            values[chosen] = np.inf
            chosen[np.argpartition(values, each)[:each]] = True
        return np.flatnonzero(chosen)


def optimize(run: Run, tau: float, tell: Callable[[Run], None]) -> None:
    """Improve working sets until the violation and the relative gap are at most ``tau``, by the f that ``run`` tracks.

    If pairs make almost no progress with these kernel values, a small enough gap alone ends the solve.

    Raises
    ------
    NotOptimal : that was not reached
    """
    floor = FLOOR * max(1.0, float(np.abs(run.problem.q).max()), float(np.abs(run.F).max()))
    tolerance = max(tau, floor)
    while True:
        check()
        tell(run)
        if run.violation <= tolerance:
            if run.relative_gap() <= tau or tolerance <= floor:
                return
            tolerance = max(floor, TENTH * tolerance)
        if run.unfinished >= MOST_UNFINISHED and run.relative_gap() <= tau:
            return
        if run.passes >= MOST_PASSES:
            size = float(np.abs(run.problem.q).max())
            reason = f"a pair violates by {run.violation:.1e}, f of the positives alone goes up to {size:.1e}"
            raise NotOptimal(f"not optimal after {run.passes} passes: {reason}; scale the features")
        run.improve(max(0.5 * tolerance, TENTH * run.violation))


def nested_start(problem: PUProblem, K: Products) -> Floats:
    """Return start coefficients (n,), computed by solving larger and larger random subsets of the unlabelled examples.

    The solution of m examples gives f with an error of the order ``1 / sqrt(m)``, so that only few coefficients of the
    next subset must still be moved. If f of a subset does not even determine the coefficients of the subset, because
    most are non-bound, ``feasible_start`` is returned.
    """
    n = problem.n
    order = np.random.default_rng(0).permutation(n)
    sizes = [size for k in range(64, 0, -1) if (size := n // GROWTH**k) >= WORKING]
    if not sizes:
        return one_class_start(problem)
    sigma = one_class_start(problem.part(np.sort(order[: sizes[0]])))
    for size, following in zip(sizes, [*sizes[1:], n], strict=True):
        indices, ahead = np.sort(order[:size]), np.sort(order[:following])
        run = Run(problem.part(indices), K.part(indices), sigma)
        optimize(run, ROUGH, lambda _: None)
        if not _follows_from_f(run):
            return feasible_start(problem)
        support = np.flatnonzero(run.sigma)
        F = problem.q[ahead] - K.ahead(ahead, indices[support], run.sigma[support])
        sigma = from_scores(F, problem.part(ahead).c2, problem.total)
    return sigma


def _follows_from_f(run: Run) -> bool:
    """Say whether the coefficients that ``from_scores`` derives from f are better than those of ``feasible_start``."""
    problem = run.problem
    starts = from_scores(run.F, problem.c2, problem.total), feasible_start(problem)
    reported, same = (Run(problem, run.K, sigma) for sigma in starts)
    return problem.dual(reported.sigma, reported.F) >= problem.dual(same.sigma, same.F)


class Look(NamedTuple):
    """The violation and the gap after a pass over all unlabelled examples."""

    seconds: float
    violation: float
    relative_gap: float


@dataclass(frozen=True)
class PUSolution:
    """The solution that USMO has found."""

    sigma: Floats  #: (n,) coefficients of the unlabelled, in [0, c2]; positives have c1
    b: float  #: the intercept
    #: violation of optimality by the worst pair, in units of f: at most tau, or rounding of large f; or more if pairs
    #: hardly progress and the gap is within the tolerance
    violation: float
    relative_gap: float  #: the duality gap divided by the larger of the two objectives
    #: whether few pivots stood for all examples in large products: then these two are bounds, which take in the error
    #: of that; in any case f is from the data, and no more than 20 passes of changes old
    by_pivots: bool
    passes: int  #: over all unlabelled
    steps: int  #: of two variables
    history: tuple[Look, ...]  #: violation and gap after every pass
    seconds: float


def usmo(
    problem: PUProblem,
    tau: float = 1e-6,
    *,
    start: Start = "nested",
    cache_bytes: int = 200 * 2**20,
    progress: Progress | None = None,
    look: Callable[[float, float], object] | None = None,
) -> PUSolution:
    """Solve the problem until no pair violates optimality by more than ``tau``, and the relative gap is within ``tau``.

    Parameters
    ----------
    tau : in units of f
    start : "one_class" of the paper; "feasible", its simplest; "nested": the first on a random part of the unlabelled,
        whose solution is where a larger part sets out, and so on
    cache_bytes : what kernel rows may take
    progress : called with how much is done, in logarithms of the violation, and how much there is; False cancels
    look : called with seconds and the relative gap known then, after every pass

    Raises
    ------
    NotOptimal, Cancelled : see the message; also where double precision does not suffice for such a gap
    """
    started, history = time.perf_counter(), list[Look]()
    if start not in ("nested", "one_class", "feasible"):
        raise InvalidInput(f"must be 'nested', 'one_class' or 'feasible', not {start!r}", field="start")
    with steadily(progress, PARTS) as teller:

        def tell(run: Run) -> None:
            history.append(Look(time.perf_counter() - started, run.violation, run.relative_gap()))
            if look is not None:
                look(history[-1].seconds, history[-1].relative_gap)
            teller(_done(run.violation, history[0].violation, tau), PARTS)

        run = _solved(problem, tau, start, cache_bytes, tell)
    error = run.K.error
    gap = run.relative_gap(error)
    if gap > max(tau, LEAST_GAP):
        size = float(problem.kernel.diagonal(problem.U).max())
        reason = f"k(x, x) goes up to {size:.1e}; scale the features"
        raise NotOptimal(f"in double precision the relative gap stays at {gap:.1e}: {reason}")
    return PUSolution(
        run.sigma,
        run.b,
        run.violation + 2.0 * error * problem.total,
        gap,
        error > 0.0,
        run.passes,
        run.steps,
        tuple(history),
        time.perf_counter() - started,
    )


def _solved(problem: PUProblem, tau: float, start: Start, cache_bytes: int, tell: Callable[[Run], None]) -> Run:
    """Return a finished solve, by a low-rank approximation of the kernel matrix if its error is small enough."""
    K = products(problem.kernel, problem.U, cache_bytes, TENTH * tau / problem.total)
    if start == "feasible":
        sigma = feasible_start(problem)
    else:
        sigma = one_class_start(problem) if start == "one_class" else nested_start(problem, K)
    run = _finished(Run(problem, K, sigma), tau, tell)
    if K.error and run.relative_gap(K.error) > tau:
        run = _finished(Run(problem, exact(problem.kernel, problem.U, cache_bytes), run.sigma), tau, tell)
    return run


def _finished(run: Run, tau: float, tell: Callable[[Run], None]) -> Run:
    """Optimize until the conditions hold for an f that was recomputed at most ``FRESH`` passes ago."""
    for _ in range(MOST_REFRESHES):
        passes = run.passes
        optimize(run, tau, tell)
        if run.passes - passes <= FRESH:
            break
        run.refresh()
    return run


def _done(violation: float, first: float, tau: float) -> int:
    """Return the progress, 0 to ``PARTS``, as the share of the way from ``first`` to ``tau`` on a logarithmic scale."""
    if violation <= tau or first <= tau:
        return PARTS
    return int(PARTS * max(0.0, math.log(first / violation) / math.log(first / tau)))
