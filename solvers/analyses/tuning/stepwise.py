"""Decisions on given rows for several values of C, by a two-class problem that starts with coefficients of 0.

Compiled code follows the usual path from one value to the next without returning to Python: a tuning solves thousands
of small problems, for which Python would take nine tenths of the time. Values of C that this code cannot reach are left
to ordinary models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import clear
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import NO_FLAGS, NO_MEMBERS, Walk, new_counters
from livesvm.solvers.homotopy.edit import NO_BATCH, ClassBatch, Progress, Work
from livesvm.solvers.homotopy.refresh import compute_f
from livesvm.solvers.homotopy.run import NO_CHANGES, PathWorkspace
from livesvm.solvers.homotopy.solve import TRUSTED, Stage, solve
from livesvm.solvers.homotopy.tolerances import SETTINGS, spread_ties
from livesvm.solvers.linalg.cholesky import empty_factor
from livesvm.solvers.problem.piecewise_linear import Losses, hinge
from livesvm.solvers.problem.state import empty_examples, empty_motion, is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.entry_point import entry_point, kind_of
from livesvm.solvers.runtime.interrupt import raise_what_stopped, watch
from livesvm.solvers.runtime.memory import aligned
from livesvm.solvers.runtime.types import Floats, Ints

ROUNDS = 4  #: walks to the optimum of a value
DUST = SETTINGS.dust


@by_reference
class Steps(NamedTuple):
    """The losses at C = 1, the values of C, and the constants of a walk over these values."""

    n_kinks: Ints  #: (n,)
    kinks: Floats  #: (n, MAX_KINKS)
    levels: Floats  #: (n, MAX_KINKS + 1) at C = 1
    C: Floats  #: (p,) ascending
    random: Floats  #: (n, 2) by which ties are spread
    every_example: Ints  #: (n,) 0, 1, ...


class FoldWorkspace:
    """Work arrays for solving problems of up to ``capacity`` examples, one after the other."""

    def __init__(self, capacity: int) -> None:
        c = capacity
        self.examples = empty_examples(c)
        self.motion = empty_motion(c)
        self.factor = empty_factor(c + 8, c)
        self.every_example, self.used = np.arange(c), np.zeros(c, np.int64)
        self.random = np.random.default_rng(0).random((c, 2))
        self.buffers = PathWorkspace(c)
        self.scratch = aligned(1 << 20)

    def decisions(self, K: Floats, signs: Floats, costs: Floats, C: Floats, *, intercept: bool) -> Floats:
        """Return f (p, m) of the m held-out rows for each C; NaN from the first C that could not be reached.

        Parameters
        ----------
        K : (n, n + m) kernel values of the examples with themselves and with the others
        signs : (n,) -1 or 1
        costs : (n,) of an error at C = 1
        C : (p,) ascending
        """
        n = signs.size
        losses: Losses = hinge(signs, costs)
        self.examples.diagonal[:n] = np.diagonal(K)
        now, counters, every_example = Progress.of(), new_counters(), self.every_example[:n]
        now[0].mean_diagonal = float(self.examples.diagonal[:n].mean()) or 1.0
        now[0].count, now[0].allowance, now[0].trusted = n, math.inf, TRUSTED
        watch(counters[1], 0)
        own, rows = (n, n, intercept, self.examples, self.motion, self.factor), (K, self.every_example)
        w = Walk(*own, *rows, K, NO_FLAGS, NO_MEMBERS, *rows, self.scratch, *counters)  # type: ignore[arg-type]
        s = self.buffers.work(now, NO_CHANGES, (self.every_example, self.used))
        steps = Steps(losses.n_kinks, losses.kinks, losses.levels, C, self.random, every_example)
        out = np.empty((C.size, K.shape[1] - n))
        call = w, s, NO_BATCH, steps, out
        done = entry_point(_walk_over, *call, kind=kind_of((K, losses, C)))(*call)
        raise_what_stopped()
        out[done:] = math.nan
        return out


@compiled_allocating
def _walk_over(w: Walk, s: Work, batch: ClassBatch, steps: Steps, out: Floats) -> int:
    """Solve for one value of C after the other and write decisions to ``out``; return the number of values reached."""
    _begin(w, steps)
    e = w.examples
    for i in range(steps.C.size):
        for j in range(w.n):
            for k in range(e.levels.shape[1]):
                e.levels[j, k] = steps.C[i] * steps.levels[j, k]
        if not _reach(w, s, batch, steps):
            return i
        _decide(w, out[i])
        if _is_at_rest(w):
            for k in range(i + 1, steps.C.size):
                for m in range(out.shape[1]):
                    out[k, m] = out[i, m]
            break
    return int(steps.C.size)


@compiled
def _is_at_rest(w: Walk) -> bool:
    """Say whether a larger C changes nothing: every bound beta is 0, and every free beta is inside its box."""
    e = w.examples
    for j in range(w.n):
        q = e.segment[j] // 2
        if not is_free(e.segment[j]):
            if e.beta[j] != 0.0:
                return False
        elif not e.levels[j, q + 1] <= e.beta[j] <= e.levels[j, q]:
            return False
    return True


@compiled
def _begin(w: Walk, steps: Steps) -> None:
    """Set f and beta of every example to 0, and put the example on the piece of its loss that contains f = 0."""
    e = w.examples
    clear(w.factor)
    for j in range(w.n):
        e.n_kinks[j] = steps.n_kinks[j]
        for k in range(e.kinks.shape[1]):
            e.kinks[j, k] = steps.kinks[j, k]
        e.f[j] = e.beta[j] = 0.0
        e.segment[j] = 2 if steps.n_kinks[j] > 0 and steps.kinks[j, 0] < 0.0 else 0


@compiled_allocating
def _reach(w: Walk, s: Work, batch: ClassBatch, steps: Steps) -> bool:
    """Solve for the present losses, in rounds like those of ``follow``; return whether the optimum was reached."""
    now, at = s.now[0], w.at[0]
    for round_ in range(ROUNDS):
        now.stage, now.precision, now.dust = Stage.SET_OUT, 0.01**round_, DUST if round_ <= 1 else 0.0
        outcome = solve(w, s, batch)
        while outcome == Exit.STALLED and spread_ties(w, steps.random, now.kink, now.level):
            outcome = solve(w, s, batch)
        if outcome == Exit.DONE:
            now.since += now.walked
            return True
        if outcome != Exit.INEXACT:
            return False
        compute_f(w.examples.f, w.examples.beta[: w.n], w.rows, w.row_of, steps.every_example, at.b)
        now.b, now.kappa, now.since, now.heaviest, now.drift = at.b, at.kappa, 0, 0.0, 0.0
    return False


@compiled
def _decide(w: Walk, out: Floats) -> None:
    """Compute f of the held-out rows."""
    n, beta = w.n, w.examples.beta
    out[:] = w.at[0].b
    for j in range(n):
        if beta[j] != 0.0:
            row, c = w.rows[j, n:], beta[j]
            for i in range(out.size):
                out[i] += c * row[i]
