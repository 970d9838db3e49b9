"""Examples that can leave an optimum without a change of sides, many at once by matrix products.

With F the free examples of the optimum, M = [K_FF 1; 1' 0] is the system of the direction [Karasuyama & Takeuchi, eqs.
3-4]. Let P = (K_FF + kappa 1 1')^-1, u = P 1, s = 1'u. Then M^-1 = [A v; v' kappa - 1/s] with A = P - u u'/s and
v = u/s, whatever kappa is; without an intercept A = P and v = 0. While no example changes sides, leaving is one column
of it: products take less time than the path of each, where most examples are free. f at the end is computed from the
kernel rows; an example that would not leave every other one where its side asks for is left to the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.optimality import Scales
from livesvm.solvers.linalg.blocked_cholesky import factor_block
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.runtime.interrupt import COPY, check, parts
from livesvm.solvers.runtime.types import Bools, Floats, Ints

MOSTLY = 0.4  # share of the window that must be free: with fewer, the paths take no longer than the inverse
FIRST = 16  # examples that are tried at first; if few of them can leave so, the others are not
LEAST_SHARE = 0.3
TOGETHER = 256  # examples that are tried at once after that ...
BLAS_AT_ONCE = 500_000_000  # ... or fewer, where that takes more products than these
PRECISE = 1e-11  # of the largest kink: how far f may be off in the end
EXACT = 1e-12  # of the largest level: how far beta may


class Inverse(NamedTuple):
    """The free examples F of an optimum, and the inverse of their system."""

    free: Ints  #: (F,) slots
    place: Ints  #: (slots,) where a free example stands in it, -1: not free
    rows: Floats  #: (F, slots) kernel rows
    A: Floats  #: (F, F)
    v: Floats  #: (F,)
    corner: float


class Left(NamedTuple):
    """How some examples would leave, one a row."""

    change: Floats  #: (m, F) of the betas of the free
    f: Floats  #: (m, slots) at the end
    db: Floats  #: (m,)


def leave_straight(state: PathState, who: Ints, units: Scales, report: Callable[[int], None]) -> Floats:
    """Return f at each of the examples ``who`` by the model without it, (m,); NaN: it is left to the path.

    The state must be optimal, its free examples' kernel rows cached, and the sum of its betas not depend on which
    examples are there. It is not changed. ``report`` is told how many have been tried.
    """
    decisions = np.full(who.size, np.nan)
    inverse = _inverse_of(state)
    if inverse is None:
        return decisions
    tol_f, tol_beta = PRECISE * units.kink, EXACT * units.level
    together = min(TOGETHER, max(FIRST, BLAS_AT_ONCE // (state.n_slots * inverse.free.size)))
    start = 0
    while start < who.size:
        check()
        report(start)
        part = who[start : start + (together if start else FIRST)]
        with np.errstate(divide="ignore", invalid="ignore"):  # no other can take the beta up: no number, no decision
            left = _refined(state, inverse, part, _straight(state, inverse, part), tol_f)
            good = _judged(state, inverse, part, left, tol_f, tol_beta)
        decisions[start : start + part.size] = np.where(good, left.f[np.arange(part.size), part], np.nan)
        if start == 0 and good.mean() < LEAST_SHARE:
            break
        start += part.size
    return decisions


def _inverse_of(state: PathState) -> Inverse | None:
    """Return the inverse for the free examples; None where there is none, or they are too few."""
    free, n = state.free_slots(), state.n_slots
    if free.size < max(2, MOSTLY * state.n):
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
    if not state.intercept:
        return Inverse(free, place, rows, P, np.zeros(free.size), 0.0)
    u = P.sum(axis=1)
    v = u / u.sum()
    return Inverse(free, place, rows, P - np.outer(u, v), v, float(kappa - 1.0 / u.sum()))


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


def _straight(state: PathState, inverse: Inverse, part: Ints) -> Left:
    """Return how each would leave if no other changed sides."""
    A, v, place = inverse.A, inverse.v, inverse.place[part]
    beta = state.examples.beta[part]
    pull = beta / A[place, place]
    change = -A[place] * pull[:, None]
    db = -v[place] * pull
    bound = np.flatnonzero(place < 0)
    columns = inverse.rows[:, part[bound]]
    change[bound] = ((A @ columns + v[:, None]) * beta[bound]).T
    db[bound] = (v @ columns + inverse.corner) * beta[bound]
    return Left(change, _f_at_end(state, inverse, part, change, db), db)


def _refined(state: PathState, inverse: Inverse, part: Ints, left: Left, tol_f: float) -> Left:
    """Improve the straight ways by one step of iterative refinement, if any f that should rest does not."""
    own, rows = inverse.place[part], np.arange(part.size)
    free = own >= 0
    off = left.f[:, inverse.free] - state.examples.f[inverse.free]
    off[rows[free], own[free]] = 0.0
    if np.abs(off).max() <= 0.1 * tol_f:
        return left
    change, db = left.change - off @ inverse.A, left.db - off @ inverse.v
    i, k = rows[free], own[free]
    more = -(state.examples.beta[part[free]] + change[i, k]) / inverse.A[k, k]
    change[i] += more[:, None] * inverse.A[k]
    db[i] += more * inverse.v[k]
    return Left(change, _f_at_end(state, inverse, part, change, db), db)


def _f_at_end(state: PathState, inverse: Inverse, part: Ints, change: Floats, db: Floats) -> Floats:
    """Compute f at the end, (m, slots), from the kernel rows of all whose beta has changed."""
    e, n = state.examples, state.n_slots
    f: Floats = change @ inverse.rows + (e.f[:n] + db[:, None])
    bound = np.flatnonzero(inverse.place[part] < 0)
    if bound.size:
        f[bound] -= state.kernel_rows(part[bound]) * e.beta[part[bound], None]
    return f


def _judged(state: PathState, inverse: Inverse, part: Ints, left: Left, tol_f: float, tol_beta: float) -> Bools:
    """Say of each whether every other example ends where its side asks for, and whether b is the only one there is.

    It is if a free example is not at an end of its box.
    """
    e, n, free, rows = state.examples, state.n_slots, inverse.free, np.arange(part.size)
    q, own = e.segment[free] // 2, inverse.place[part]
    leaves = np.zeros(left.change.shape, np.bool_)
    leaves[rows[own >= 0], own[own >= 0]] = True
    beta, low, high = e.beta[free] + left.change, e.levels[free, q + 1], e.levels[free, q]
    inside = (low - tol_beta <= beta) & (beta <= high + tol_beta)
    at_kink = np.abs(left.f[:, free] - e.kinks[free, q]) <= tol_f
    held = (low + tol_beta < beta) & (beta < high - tol_beta) & ~leaves
    good: Bools = np.asarray(((inside & at_kink) | leaves).all(axis=1))
    bound = np.flatnonzero(~are_free(e.segment[:n]))
    piece = e.segment[bound] // 2
    below = np.where(piece > 0, e.kinks[bound, np.maximum(piece - 1, 0)], -np.inf)
    above = np.where(piece < e.n_kinks[bound], e.kinks[bound, np.minimum(piece, e.kinks.shape[1] - 1)], np.inf)
    f = left.f[:, bound]
    good &= ((below - tol_f <= f) & (f <= above + tol_f) | (bound == part[:, None])).all(axis=1)
    if state.intercept:
        total = np.where(leaves, 0.0, left.change).sum(axis=1) - e.beta[part]
        good &= held.any(axis=1) & (np.abs(total) <= n * tol_beta)
    return good
