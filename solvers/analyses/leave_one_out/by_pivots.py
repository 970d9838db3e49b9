"""Everyone who may leave an optimum, each by himself: the path by pivots on one inverse.

With F the free examples of the optimum, M = [K_FF 1; 1' 0] is the system of the direction [Karasuyama & Takeuchi, eqs.
3-4]. Let P = (K_FF + kappa 1 1')^-1, u = P 1, s = 1'u. Then M^-1 = [A v; v' kappa - 1/s] with A = P - u u'/s and
v = u/s, whatever kappa is; without an intercept A = P and v = 0. It says what a unit of f of a free example, or of beta
of a bound one, makes of the betas of F, of b and of every other f: a column of the tableau of [Ong et al., eq. 30-34].

While nobody changes sides a leaving is one such column, and all are tried at once, by matrix products. Where somebody
does, ``pivots`` follows the path, at a cost of n times the number of those who have changed, an event. In the
end f is computed from the kernel rows, and where anybody is not where his side asks for, or too many changed, the
example is left to the ordinary path.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from livesvm.solvers.analyses.leave_one_out.pivots import MOST_CHANGED, Leaving, add_changed, judge_all, walk_all
from livesvm.solvers.analyses.leave_one_out.tableau import CANCEL, Columns, Tableau
from livesvm.solvers.homotopy.optimality import Scales
from livesvm.solvers.linalg.blocked_cholesky import factor_block
from livesvm.solvers.problem.state import Examples, PathState
from livesvm.solvers.runtime.interrupt import COPY, check, parts, raise_what_stopped, watch
from livesvm.solvers.runtime.types import Floats, Ints

FIRST = 16  # examples that are tried at first; if few of them can leave so, the others are not
LEAST_SHARE = 0.3
TOGETHER = 256  # examples that are tried at once after that ...
BLAS_AT_ONCE = 500_000_000  # ... or fewer, where that takes more products than these
PRECISE = 1e-11  # of the largest kink: how far f may be off in the end
EXACT = 1e-12  # of the largest level: how far beta may
MOST_COLUMNS = 1024  # of those who change sides, kept for the next who leave


def leave_by_pivots(
    state: PathState, who: Ints, units: Scales, progress: Callable[[int], None], models: Floats
) -> tuple[Floats, int]:
    """Return f at each of the examples ``who`` by the model without it, (m,), and the events of all their paths.

    NaN is for those that are left to the ordinary path. The state must be optimal, its free examples' kernel rows
    cached, and the sum of its betas not depend on who is there. It is not changed. ``progress`` is told how many have
    been tried. ``models`` (m, n_slots + 1), or (m, 0), gets the models without: coefficients, then b.
    """
    decisions = np.full(who.size, np.nan)
    tableau = _tableau(state)
    if tableau is None:
        return decisions, 0
    n, events = state.n_slots, 0
    columns = Columns(
        np.full(n, -1, np.int64),
        np.empty((min(MOST_COLUMNS, n), n)),
        np.empty(min(MOST_COLUMNS, n)),
        np.zeros(2, np.int64),
        np.empty(tableau.free.size),
        np.empty(tableau.free.size),
    )
    e = Examples(*(a[:n] for a in state.examples))  # type: ignore[arg-type]
    tol_f, tol_beta = PRECISE * units.kink, EXACT * units.level
    watch(columns.size, CANCEL)
    together = min(TOGETHER, max(FIRST, BLAS_AT_ONCE // (n * tableau.free.size)))
    start = 0
    while start < who.size:
        check()
        progress(start)
        part = who[start : start + (together if start else FIRST)]
        with np.errstate(divide="ignore", invalid="ignore"):  # nobody can take the beta up: no number, no decision
            leaving = _straight(state, tableau, part)
            _refine(state, tableau, part, leaving, tol_f)
        walk_all(e, tableau, columns, part, leaving, tol_f, tol_beta)
        raise_what_stopped()
        if (leaving.events > 0).any():
            _compute_f(state, tableau, part, leaving)
        good = np.empty(part.size, np.bool_)
        judge_all(e, tableau, part, leaving, tol_f, tol_beta, good)
        decisions[start : start + part.size] = np.where(good, leaving.f[np.arange(part.size), part], np.nan)
        events += int(leaving.events[good].sum())
        if models.size:
            _write_models(state, tableau, part, leaving, models[start : start + part.size])
        if start == 0 and good.mean() < LEAST_SHARE:
            break
        start += part.size
    return decisions, events


def _write_models(state: PathState, tableau: Tableau, part: Ints, leaving: Leaving, models: Floats) -> None:
    """Write the coefficients and b that those who leave, (m,), leave behind."""
    models[:, :-1] = state.examples.beta[: state.n_slots]
    models[:, tableau.free] += leaving.change
    for changed, beta in zip(leaving.changed.T, leaving.beta.T, strict=True):
        those = np.flatnonzero(changed >= 0)
        models[those, changed[those]] = beta[those]
    models[np.arange(part.size), part] = 0.0
    models[:, -1] = state.b + leaving.db


def _tableau(state: PathState) -> Tableau | None:
    """Return the inverse for the free examples; None where there is none."""
    free, n = state.free_slots(), state.n_slots
    if free.size < 2:
        return None
    check()
    rows = np.empty((free.size, n))
    for part in parts(free.size, COPY * n):
        rows[part] = state.rows.values[state.rows.row_of[free[part]], :n]
    kappa = state.kappa if state.intercept else 0.0
    P = _inverse(rows[:, free] + kappa)
    if P is None:
        return None
    place = np.full(n, -1)
    place[free] = np.arange(free.size)
    A, v, corner = P, np.zeros(free.size), 0.0
    if state.intercept:
        u = P.sum(axis=1)
        v = u / u.sum()
        A, corner = P - np.outer(u, v), float(kappa - 1.0 / u.sum())
    return Tableau(free, place, rows, A, v, corner, state.rows.values, state.rows.row_of[:n], state.intercept)


def _inverse(K: Floats) -> Floats | None:
    """Return the inverse of a symmetric matrix; None where it is not positive definite."""
    from scipy.linalg import cho_solve  # only loaded where it is used: a start must not wait for it

    m = K.shape[0]
    R, inverse, width = np.zeros((m, m)), np.empty((m, m)), max(FIRST, BLAS_AT_ONCE // m**2)
    if not factor_block(R, m, lambda rows, columns: K[rows, columns].copy()):
        return None
    for start in range(0, m, width):
        check()
        part = slice(start, start + width)
        unit = np.eye(m, min(width, m - start), -start)
        inverse[part] = cho_solve((R.T, True), unit, check_finite=False).T  # which is symmetric
    return inverse


def _straight(state: PathState, tableau: Tableau, part: Ints) -> Leaving:
    """Return how each would leave if nobody changed sides."""
    A, v, place = tableau.A, tableau.v, tableau.place[part]
    beta = state.examples.beta[part]
    pull = beta / A[place, place]
    change = -A[place] * pull[:, None]
    db = -v[place] * pull
    bound = np.flatnonzero(place < 0)
    columns = tableau.free_rows[:, part[bound]]
    change[bound] = ((A @ columns + v[:, None]) * beta[bound]).T
    db[bound] = (v @ columns + tableau.corner) * beta[bound]
    m = part.size
    changed = np.full((m, MOST_CHANGED), -1)
    nothing = np.zeros((m, MOST_CHANGED))
    leaving = Leaving(
        change, np.empty((m, state.n_slots)), db, changed, nothing, np.zeros_like(changed), np.zeros(m, np.int64)
    )
    _compute_f(state, tableau, part, leaving)
    return leaving


def _refine(state: PathState, tableau: Tableau, part: Ints, leaving: Leaving, tol_f: float) -> None:
    """Improve the straight ways by one step of iterative refinement, if any f that should rest does not."""
    own, rows = tableau.place[part], np.arange(part.size)
    free = own >= 0
    off = leaving.f[:, tableau.free] - state.examples.f[tableau.free]
    off[rows[free], own[free]] = 0.0
    if np.abs(off).max() <= 0.1 * tol_f:
        return
    leaving.change[:] -= off @ tableau.A
    leaving.db[:] -= off @ tableau.v
    i, k = rows[free], own[free]
    more = -(state.examples.beta[part[free]] + leaving.change[i, k]) / tableau.A[k, k]
    leaving.change[i] += more[:, None] * tableau.A[k]
    leaving.db[i] += more * tableau.v[k]
    _compute_f(state, tableau, part, leaving)


def _compute_f(state: PathState, tableau: Tableau, part: Ints, leaving: Leaving) -> None:
    """Compute f at the end from the kernel rows of all whose beta has changed."""
    e, n = state.examples, state.n_slots
    np.matmul(leaving.change, tableau.free_rows, out=leaving.f)
    np.add(leaving.f, e.f[:n] + leaving.db[:, None], out=leaving.f)
    bound = np.flatnonzero(tableau.place[part] < 0)
    if bound.size:
        leaving.f[bound] -= state.kernel_rows(part[bound]) * e.beta[part[bound], None]
    add_changed(e.beta, tableau, leaving)
