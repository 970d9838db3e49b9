"""Who can leave a model without an event: then nobody changes sides, and one solve tells where everyone goes.

With F the free examples that stay where they are, M = [K_FF 1; 1' 0] is the system of the direction [Karasuyama &
Takeuchi, eqs. 3-4]. Let P = (K_FF + kappa 1 1')^-1, u = P 1, s = 1'u. Then M^-1 = [A v; v' kappa - 1/s] with
A = P - u u'/s and v = u/s, whatever kappa is. On the way of a free example i to beta_i = 0 the betas of F change by
-beta_i A_i / A_ii; on that of a bound one by beta_i (A k_i + v). Without an intercept A = P and v = 0.

All of them are tried at once, by matrix products. Whoever would pass a limit, or is not solved to rounding, is left to
the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from solvers.state import PathState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLUMNS = 256  # examples that are tried at once
PRECISE = 1e-11  # of the largest kink: how far the f of free examples may be off


class _System(NamedTuple):
    """The free examples F and the inverse of their system."""

    free: Ints  #: (F,) slots
    place: Ints  #: (slots,) where a free example stands in it, -1: not free
    rows: Floats  #: (F, slots) kernel rows
    A: Floats  #: (F, F)
    v: Floats  #: (F,)
    corner: float


def leave_without_events(state: PathState, who: Ints, kink_scale: float, progress: Callable[[int], None]) -> Floats:
    """Return f at each of the examples ``who`` by the model without it, (m,); NaN where an event comes first.

    The state must be optimal, its free examples' kernel rows cached, and the sum of its betas not depend on who is
    there. It is not changed. ``progress`` is told how many have been tried.
    """
    decisions = np.full(who.size, np.nan)
    system = _system(state)
    if system is None:
        return decisions
    limits = _limits(state)
    for start in range(0, who.size, COLUMNS):
        progress(start)
        part = who[start : start + COLUMNS]
        change, db = _changes(state, system, part)
        found, good = _arrivals(state, system, part, change, db, limits, PRECISE * kink_scale)
        decisions[start : start + COLUMNS] = np.where(good, found, np.nan)
    return decisions


def _system(state: PathState) -> _System | None:
    """Return the inverse for the free examples; None where there is none."""
    free, n = state.free_slots(), state.n_slots
    if free.size < 2:
        return None
    rows = state.rows.values[state.rows.row_of[free], :n]
    kappa = state.kappa if state.intercept else 0.0
    try:
        P = cho_solve(cho_factor(rows[:, free] + kappa), np.eye(free.size))
    except LinAlgError:
        return None
    place = np.full(n, -1)
    place[free] = np.arange(free.size)
    if not state.intercept:
        return _System(free, place, rows, P, np.zeros(free.size), 0.0)
    u = P.sum(axis=1)
    v = u / u.sum()
    return _System(free, place, rows, P - np.outer(u, v), v, kappa - 1.0 / u.sum())


def _changes(state: PathState, system: _System, part: Ints) -> tuple[Floats, Floats]:
    """Return how each leaving changes the betas of the free, (F, m), and b, (m,)."""
    A, v, place = system.A, system.v, system.place[part]
    beta = state.examples.beta[part]
    with np.errstate(divide="ignore", invalid="ignore"):  # nobody else could take the beta up: no number, no decision
        pull = beta / A[place, place]
        change = -A[:, place] * pull
        db = -v[place] * pull
    bound = np.flatnonzero(place < 0)
    columns = system.rows[:, part[bound]]
    change[:, bound] = (A @ columns + v[:, None]) * beta[bound]
    db[bound] = (v @ columns + system.corner) * beta[bound]
    return change, db


def _arrivals(
    state: PathState,
    system: _System,
    part: Ints,
    change: Floats,
    db: Floats,
    limits: tuple[Floats, Floats],
    tolerance: float,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return f at each of ``part`` after it has left, (m,), and whether nobody passed a limit and F stood still."""
    e, n, free, place = state.examples, state.n_slots, system.free, system.place[part]
    low, high = limits
    columns = np.arange(part.size)
    f = system.rows.T @ change + (e.f[:n, None] + db)
    bound = np.flatnonzero(place < 0)
    if bound.size:
        f[:, bound] -= state.kernel_rows(part[bound]).T * e.beta[part[bound]]
    x = f.copy()
    x[free] = e.beta[free, None] + change
    inside = (x > low[:, None]) & (x < high[:, None])
    still = np.abs(f[free] - e.f[free, None]) <= tolerance
    inside[part, columns] = True  # whoever leaves has no limits
    still[place[place >= 0], columns[place >= 0]] = True
    good: NDArray[np.bool_] = np.logical_and(inside.all(axis=0), still.all(axis=0))
    return f[part, columns], good


def _limits(state: PathState) -> tuple[Floats, Floats]:
    """Return everyone's limits, (slots,) each: of beta for the free, of f for the others."""
    e, slots = state.examples, np.arange(state.n_slots)
    seg, last = e.seg[slots], e.n_kinks[slots]
    q, free = seg // 2, seg & 1 == 1
    right, left = np.minimum(q, e.kinks.shape[1] - 1), np.maximum(q - 1, 0)
    low = np.where(free, e.levels[slots, right + 1], np.where(q > 0, e.kinks[slots, left], -np.inf))
    high = np.where(free, e.levels[slots, right], np.where(q < last, e.kinks[slots, right], np.inf))
    return low, high
