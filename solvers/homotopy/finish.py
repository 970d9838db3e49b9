"""The end of a walk: who is at an end of a box is put there, the f that decide are computed afresh, all is judged."""

from __future__ import annotations

from livesvm.solvers.active_set import workspace
from livesvm.solvers.active_set.degeneracy import center, leave_ends
from livesvm.solvers.homotopy.optimality import BLUR, EPS, Audit, Found, Scales, audit_of, audited, judged
from livesvm.solvers.homotopy.recompute import doubtful, refresh, refresh_close, refresh_free
from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.problem.state import Examples, PathState
from livesvm.solvers.runtime.compile import compiled

SNAP = 1e-13  #: of the largest level and the longest way of a beta: a bound one that close to its level is put on it


def arrive(state: PathState, w: workspace.Walk, units: Scales, dust: float, is_fresh: bool) -> tuple[bool, Audit]:
    """Put betas there that are at an end but for ``dust`` of the largest level, and b in its middle if nobody is free.

    Says whether nobody moved by more than rounding, and how good the state is with the f that decide about it computed
    afresh; those of the free examples are already if ``is_fresh``.
    """
    rounding = (
        w.tol[0].f if w.tol[0].f > BLUR * units.kink else 0.0
    )  # so coarse a walk may have left any f that far off
    drift = max(float(w.at[0].drift), rounding)
    band = doubtful(state, drift, units.kink)
    moved, is_judged, found = _leave_ends_and_audit(
        w.examples, w.factor, w.n, w.intercept, dust, units.level, units.top_speed, is_fresh, state.b, band
    )
    if is_judged:
        audit = judged(state, found)
    else:
        if state.n_free == 0:
            refresh(state)
            if state.intercept:
                state.b += center(w)
        drift = max(refresh_free(state), rounding)
        band = doubtful(state, drift, units.kink)
        audit = audited(state, band)
    state.drift += drift
    if audit.n_close > 0 and refresh_close(state, band):
        audit = audited(state)
    return not moved, audit


@compiled
def _leave_ends_and_audit(
    e: Examples,
    fac: Factor,
    n: int,
    intercept: bool,
    dust: float,
    level: float,
    way: float,
    is_fresh: bool,
    b: float,
    band: float,
) -> tuple[bool, bool, Found]:
    """Return whether somebody moved, and the audit if that stands: if f need not be computed before."""
    moved = leave_ends(e, fac, n, intercept, SNAP * (level + way), max(dust, 4.0 * EPS) * level, 4.0 * EPS * level)
    if is_fresh and not moved and fac.size[1] > 0:
        return moved, True, audit_of(e, n, b, band)
    return moved, False, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
