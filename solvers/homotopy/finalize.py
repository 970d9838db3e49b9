"""The end of a walk: move betas to nearby ends of their boxes, and recompute each f that decides about optimality."""

from __future__ import annotations

from livesvm.solvers.active_set.degeneracy import center, leave_ends
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.optimality import BLUR, EPS, is_close_to_kink
from livesvm.solvers.homotopy.refresh import BLOCK, UNSEEN, compute_f
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.linalg.products import add_rows
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import AT_ONCE
from livesvm.solvers.runtime.types import Ints

_SNAP = SETTINGS.snap


@compiled
def put_on_ends(w: Walk, level: float, top_speed: float, dust: float) -> bool:
    """Move a beta to an end of its box if the distance is at most about ``dust`` times ``level``, the largest level.

    Returns whether a free beta moved by more than rounding, so that f must be computed afresh.
    """
    snap, rounding = _SNAP * (level + top_speed), 4.0 * EPS * level
    return leave_ends(w.examples, w.factor, w.n, w.intercept, snap, max(dust * level, rounding), rounding)


@compiled
def rounding_left(w: Walk, kink: float) -> float:
    """Return the largest error that a walk may leave in any f, or 0 if it is small compared with ``kink``."""
    slack = w.tol[0].f
    return slack if slack > BLUR * kink else 0.0


@compiled
def compute_all(w: Walk, row: Ints) -> float:
    """Recompute every f, and b as the middle of its interval; return -1 if rows are missing or if this takes long."""
    e, f, coefficient, m = w.examples, w.examples.f[: w.n], w.motion.work, 0
    for j in range(w.n):
        if e.beta[j] != 0.0:
            if w.row_of[j] < 0:
                return -1.0
            row[m], coefficient[m] = w.row_of[j], e.beta[j]
            m += 1
    if m * w.n > AT_ONCE:
        return -1.0
    f[:] = 0.0
    add_rows(w.rows, row[:m], coefficient[:m], f)
    f += w.at[0].b
    if w.intercept:
        w.at[0].b += center(w)
    return 0.0


@compiled
def compute_free(w: Walk) -> float:
    """Recompute f of the free examples; return the largest error that an old f had, or -1 if too many are free."""
    fac, e = w.factor, w.examples
    if fac.size[1] * w.n > AT_ONCE:
        return -1.0
    drift = 0.0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            drift = max(drift, compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, fac.slot[k : k + 1], w.at[0].b))
    return drift


@compiled
def refresh_close(w: Walk, close: Ints, band: float, drift: float) -> bool:
    """Recompute f of bound examples within ``band`` of a kink; return False if a row is missing or every f is needed.

    If many bound examples are within ``band``, no f is computed, see ``refresh.refresh_close``. Every f is then needed
    if ``drift``, the error found in f of free examples, is large.
    """
    e, m, has_rows = w.examples, 0, True
    for j in range(w.n):
        if not is_free(e.segment[j]) and is_close_to_kink(e, j, band):
            has_rows = has_rows and w.row_of[j] >= 0
            close[m] = j
            m += 1
    if m > max(BLOCK, w.factor.size[1]):
        return UNSEEN * drift < band
    if has_rows:
        compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, close[:m], w.at[0].b)
    return has_rows
