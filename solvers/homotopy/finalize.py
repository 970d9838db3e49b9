"""The end of a walk: betas are put on the ends of their boxes, and the f that decide are computed afresh."""

from __future__ import annotations

from livesvm.solvers.active_set.degeneracy import leave_ends
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.optimality import BLUR, EPS, Scales, audit_of, is_close_to_kink, is_optimal
from livesvm.solvers.homotopy.refresh import BLOCK, compute_f
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import AT_ONCE
from livesvm.solvers.runtime.types import Ints

_SNAP = SETTINGS.snap


@compiled
def put_on_ends(w: Walk, units: Scales, dust: float) -> bool:
    """Put betas there that are at an end but for ``dust`` of the largest level.

    Says whether a free one moved by more than rounding, so that f must be computed afresh.
    """
    snap, rounding = _SNAP * (units.level + units.top_speed), 4.0 * EPS * units.level
    return leave_ends(w.examples, w.factor, w.n, w.intercept, snap, max(dust * units.level, rounding), rounding)


@compiled
def is_at_optimum(w: Walk, total: float, goal: float, roundings: float) -> bool:
    """Judge the end of a walk of all slots, by the f that it has tracked: see ``optimality.is_optimal``."""
    audit = audit_of(w.examples, w.n, w.at[0].b, -1.0, 0.0, total, w.intercept, w.n, w.factor.size[1])
    return is_optimal(audit, goal, roundings)


@compiled
def rounding_left(w: Walk, units: Scales) -> float:
    """Return how far off a walk may have left any f: so coarse a one as its slack is, where that is not small."""
    slack = w.tol[0].f
    return slack if slack > BLUR * units.kink else 0.0


@compiled
def compute_free(w: Walk) -> float:
    """Compute the f of free examples afresh; return how far off they were; -1: there are none, or many."""
    fac, e = w.factor, w.examples
    if fac.size[1] == 0 or fac.size[1] * w.n > AT_ONCE:
        return -1.0
    drift = 0.0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            drift = max(drift, compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, fac.slot[k : k + 1], w.at[0].b))
    return drift


@compiled
def refresh_close(w: Walk, close: Ints, band: float) -> bool:
    """Compute the f of bound examples afresh that are that close to a kink; False: they are many, or lack a row."""
    e, m = w.examples, 0
    for j in range(w.n):
        if not is_free(e.segment[j]) and is_close_to_kink(e, j, band):
            if w.row_of[j] < 0:
                return False
            close[m] = j
            m += 1
    if m > max(BLOCK, w.factor.size[1]):
        return False
    compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, close[:m], w.at[0].b)
    return True
