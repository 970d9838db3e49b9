"""f of given rows at one value of C after the other, of a problem of two classes that begins with nothing.

It is the path of the engine from value to value, with no return to Python between: a tuning asks for thousands of small
problems, of which the engine's own work is a tenth. What cannot be walked so is left to models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import center, clear, perturb
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.active_set.workspace import Status, Tolerances, Walk, whole_walk
from livesvm.solvers.homotopy.finalize import is_at_optimum, put_on_ends
from livesvm.solvers.homotopy.motion import set_bound_rate, set_motion
from livesvm.solvers.homotopy.optimality import units_of
from livesvm.solvers.homotopy.refresh import compute_f
from livesvm.solvers.homotopy.tolerances import SETTINGS, begin
from livesvm.solvers.linalg.cholesky import empty_factor
from livesvm.solvers.problem.piecewise_linear import Losses, hinge
from livesvm.solvers.problem.state import empty_examples, empty_motion, is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import raise_what_stopped, watch
from livesvm.solvers.runtime.memory import aligned
from livesvm.solvers.runtime.types import Floats, Ints

ROUNDS = 4  #: walks to the optimum of a value
REFRESH = 256  #: events after which f is computed afresh
GOAL, DUST, ACCEPTABLE, ROUNDINGS = SETTINGS.goal, SETTINGS.dust, SETTINGS.acceptable, SETTINGS.one_walk
SPREAD, WIDEST = SETTINGS.perturbation, 1e-4


@by_reference
class Steps(NamedTuple):
    """What a walk over values of C is, besides the problem."""

    n_kinks: Ints  #: (n,)
    kinks: Floats  #: (n, MAX_KINKS)
    levels: Floats  #: (n, MAX_KINKS + 1) at C = 1
    C: Floats  #: (p,) ascending
    random: Floats  #: (n, 2) by which ties are spread
    moving: Ints  #: (2, n) work
    used: Ints  #: (n,) work
    every_example: Ints  #: (n,) 0, 1, ...


class FoldWorkspace:
    """The memory of problems of up to ``capacity`` examples, one after the other."""

    def __init__(self, capacity: int) -> None:
        c = capacity
        self.examples = empty_examples(c)
        self.motion = empty_motion(c)
        self.factor = empty_factor(c + 8, c)
        self.every_example = np.arange(c)
        self.random = np.random.default_rng(0).random((c, 2))
        self.moving, self.used = np.empty((2, c), np.int64), np.zeros(c, np.int64)
        self.scratch = aligned(1 << 20)

    def decisions(self, K: Floats, signs: Floats, costs: Floats, C: Floats, *, intercept: bool) -> Floats:
        """Return f (p, m) at others for each C; NaN from the first on that was not walked to.

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
        kappa = float(self.examples.diagonal[:n].mean()) or 1.0
        at, stop = Status.of(), np.zeros(1, np.int64)
        at[0].kappa = kappa
        watch(stop, 0)
        arrays = (self.examples, self.motion, self.factor)
        w = whole_walk(n, intercept, arrays, (K, self.every_example), self.scratch, (at, stop, Tolerances.of()))
        steps = Steps(
            losses.n_kinks, losses.kinks, losses.levels, C, self.random, self.moving, self.used, self.every_example[:n]
        )
        out = np.empty((C.size, K.shape[1] - n))
        done = _walk_over(w, steps, out)
        raise_what_stopped()
        out[done:] = math.nan
        return out


@compiled_allocating
def _walk_over(w: Walk, s: Steps, out: Floats) -> int:
    """Walk from value to value; return how many were reached."""
    _begin(w, s)
    e, n, since = w.examples, w.n, 0
    for i in range(s.C.size):
        for j in range(n):
            for k in range(e.levels.shape[1]):
                e.levels[j, k] = s.C[i] * s.levels[j, k]
        since = _reach(w, s, since)
        if since < 0:
            return i
        _decide(w, out[i])
        if _is_at_rest(w):
            for k in range(i + 1, s.C.size):
                for m in range(out.shape[1]):
                    out[k, m] = out[i, m]
            break
    return int(s.C.size)


@compiled
def _is_at_rest(w: Walk) -> bool:
    """Say whether nothing changes on the way to larger C: no example is at a bound that moves, or beyond a box."""
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
def _begin(w: Walk, s: Steps) -> None:
    """Let every example be at nothing, on the piece where f = 0 is."""
    e = w.examples
    clear(w.factor)
    w.at[0].b = 0.0
    for j in range(w.n):
        e.n_kinks[j] = s.n_kinks[j]
        for k in range(e.kinks.shape[1]):
            e.kinks[j, k] = s.kinks[j, k]
        e.f[j] = e.beta[j] = 0.0
        e.segment[j] = 2 if s.n_kinks[j] > 0 and s.kinks[j, 0] < 0.0 else 0


@compiled_allocating
def _reach(w: Walk, s: Steps, since: int) -> int:
    """Walk to the optimum of the present losses; return the events since f was computed afresh, -1: not reached."""
    e, at = w.examples, w.at[0]
    for round_ in range(ROUNDS):
        m = set_motion(e, w.motion, w.n, s.moving[0])
        if not set_bound_rate(w.motion, w.factor, w.rows, w.row_of, s.used, 1, w.n, s.moving, m):
            return -1
        units = units_of(e, w.motion.v, w.n, 0.0)
        begin(w, units, 0.0, 0.01**round_)
        if not _walk(w, s, units.level):
            return -1
        since += at.events
        moved = put_on_ends(w, units, DUST if round_ <= 1 else 0.0)
        if moved or round_ > 0 or since > REFRESH or w.factor.size[1] == 0:
            compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, s.every_example, at.b)
            since = 0
        if w.intercept and w.factor.size[1] == 0:
            at.b += center(w)
        if is_at_optimum(w, 0.0, GOAL if round_ < ROUNDS - 1 else ACCEPTABLE, ROUNDINGS):
            return since
    return -1


@compiled_allocating
def _walk(w: Walk, s: Steps, level: float) -> bool:
    """Walk to the end, spreading ties where it stalls; say whether it was reached."""
    strength = SPREAD
    outcome = follow_path(w)
    while outcome == Exit.STALLED and w.at[0].tau > 1e-9 and strength < WIDEST:
        perturb(w, s.random, strength, strength * level)
        strength *= 3.0
        outcome = follow_path(w)
    return outcome == Exit.DONE


@compiled
def _decide(w: Walk, out: Floats) -> None:
    """Compute f of the others."""
    n, beta = w.n, w.examples.beta
    out[:] = w.at[0].b
    for j in range(n):
        if beta[j] != 0.0:
            row, c = w.rows[j, n:], beta[j]
            for i in range(out.size):
                out[i] += c * row[i]
