"""The end of a walk: who is at an end of a box is put there, the f that decide are computed afresh, all is judged."""

from __future__ import annotations

from livesvm.solvers.active_set import workspace
from livesvm.solvers.active_set.degeneracy import center, leave_ends
from livesvm.solvers.homotopy.optimality import BLUR, EPS, Audit, Found, Scales, audit_of, audited, judged
from livesvm.solvers.homotopy.recompute import compute_f, doubtful, refresh, refresh_close, refresh_free
from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.problem.state import Examples, PathState
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import AT_ONCE
from livesvm.solvers.runtime.types import Floats, Ints

SNAP = 1e-13  #: of the largest level and the longest way of a beta: a bound one that close to its level is put on it


def arrive(
    state: PathState, w: workspace.Walk, units: Scales, drift: float, dust: float, is_fresh: bool
) -> tuple[bool, Audit]:
    """Put betas there that are at an end but for ``dust`` of the largest level, and b in its middle if nobody is free.

    Says whether nobody moved by more than rounding, and how good the state is with the f that decide about it computed
    afresh; those of the free examples are already if ``is_fresh``, and were off by ``drift``.
    """
    slack = w.tol[0].f
    rounding = slack if slack > BLUR * units.kink else 0.0  # so coarse a walk may have left any f that far off
    rows = state.rows
    moved, is_judged, drift, found = leave_ends_and_audit(
        w.examples,
        w.factor,
        rows.values,
        rows.row_of,
        w.n,
        w.intercept,
        units,
        dust,
        is_fresh,
        state.b,
        rounding,
        drift,
        state.drift,
    )
    if is_judged:
        audit = judged(state, found)
    else:
        if state.n_free == 0:
            refresh(state)
            if state.intercept:
                state.b += center(w)
        drift = max(refresh_free(state), rounding)
        audit = audited(state, doubtful(state.drift, drift, units.kink))
    band = doubtful(state.drift, drift, units.kink)
    state.drift += drift
    if audit.n_close > 0 and refresh_close(state, band):
        audit = audited(state)
    return not moved, audit


@compiled
def leave_ends_and_audit(
    e: Examples,
    fac: Factor,
    rows: Floats,
    row_of: Ints,
    n: int,
    intercept: bool,
    units: Scales,
    dust: float,
    is_fresh: bool,
    b: float,
    rounding: float,
    drift: float,
    past: float,
) -> tuple[bool, bool, float, Found]:
    """Return whether somebody moved, and the drift and the audit, if that stands: if no f is left that is much work."""
    level = units.level
    snap, dust, slight = SNAP * (level + units.top_speed), max(dust, 4.0 * EPS) * level, 4.0 * EPS * level
    moved = leave_ends(e, fac, n, intercept, snap, dust, slight)
    is_little = fac.size[1] * n <= AT_ONCE
    if fac.size[1] == 0 or not ((is_fresh and not moved) or is_little):
        return moved, False, 0.0, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    if not is_fresh or moved:
        drift = 0.0
        for k in range(fac.size[0]):
            if fac.slot[k] >= 0:
                drift = max(drift, compute_f(e.f, e.beta[:n], rows, row_of, fac.slot[k : k + 1], b))
    drift = max(drift, rounding)
    return moved, True, drift, audit_of(e, n, b, doubtful(past, drift, units.kink))
