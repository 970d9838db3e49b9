"""Dual coordinate descent: an approximate optimum of a linear model from nothing [Hsieh et al. 2008].

Each step moves one coefficient to its optimum with all others fixed, and updates ``w = sum_j beta_j x_j``. The
intercept is treated as the weight of a constant feature, so the sum of the coefficients is not fixed during the
descent. The path that is followed after the descent corrects the sum of the coefficients and the remaining duality gap.
A descent can also begin at known coefficients, and move only some examples of a window.

After the descent more coefficients are strictly inside their boxes than the path algorithm allows free examples. So
free coefficients move along combinations that change neither w nor the sum, until enough of them are at an end of their
box: the crossover of linear programming.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.decomposition import put_in_box
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Examples, are_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints

TOLERANCE = 1e-2  #: part of the largest kink: a smaller violation is left to the path
MOST_PASSES = 300  #: over the examples, after which the rest is left to the path
RANK = 1e-9  #: part of the largest pivot below which a coefficient depends on others


class Pass(Scalars):
    """Inputs and results of one pass of the descent over the active examples."""

    # given
    total: float  #: what the coefficients are to sum up to
    unit: float  #: square of the feature that has the intercept as its weight; 0: there is none
    slack: float  #: an example at a bound is set aside if its f is further from its kinks than this
    # given and found
    sum: float  #: of the coefficients
    active: int  #: examples that are not set aside
    # found
    violation: float  #: the largest before its example was moved


class DescentPoint(NamedTuple):
    """Where a descent begins."""

    beta: Floats  #: (n,) coefficients of the examples that move, which the descent overwrites
    w: Floats  #: (d,) ``sum_j beta_j x_j`` over all examples, which the descent overwrites
    sum: float  #: of the coefficients of all examples
    b: float  #: intercept


def descend(
    X: Floats, losses: Losses, total: float, intercept: bool, known: DescentPoint | None = None
) -> DescentPoint:
    """Return near-optimal coefficients for examples ``X`` (n, d), which are to sum up to ``total`` with all others.

    By default there are no others, and the coefficients begin at the levels nearest to 0.
    """
    n, rng = len(X), np.random.default_rng(0)
    own = np.einsum("ij,ij->i", X, X)
    unit = float(own.mean()) if intercept else 0.0
    if known is None:
        beta = np.empty(n)
        start(losses, beta)
        known = DescentPoint(beta, beta @ X, float(beta.sum()), 0.0)
    beta, w, total_beta, b = known
    finite = losses.kinks[np.isfinite(losses.kinks)]
    tolerance = TOLERANCE * (float(np.abs(finite).max(initial=0.0)) or 1.0)
    at = Pass.of(total - b / unit if unit else total, unit, np.inf, total_beta, n, 0.0)
    order = np.arange(n)
    for _ in range(MOST_PASSES):
        check()
        rng.shuffle(order[: int(at[0].active)])
        one_pass(X, own, *losses, beta, w, order, at)
        if at[0].violation <= tolerance:
            if at[0].active == n:
                break
            at[0].active, at[0].slack = n, np.inf
        else:
            at[0].slack = float(at[0].violation)
    return DescentPoint(beta, w, float(at[0].sum), unit * float(at[0].sum - at[0].total))


@compiled
def start(losses: Losses, beta: Floats) -> None:
    """Set every coefficient to that level of its loss that is nearest to 0."""
    for j in range(beta.size):
        best = 0
        for q in range(1, losses.n_kinks[j] + 1):
            if abs(losses.levels[j, q]) < abs(losses.levels[j, best]):
                best = q
        beta[j] = losses.levels[j, best]


@compiled
def one_pass(
    X: Floats, own: Floats, kinks: Floats, levels: Floats, n_kinks: Ints, beta: Floats, w: Floats, order: Ints,
    at: One[Pass],
) -> None:  # fmt: skip
    """Move the coefficient of each active example of ``order`` to its optimum with all others fixed."""
    now, d = at[0], w.size
    now.violation, slack, i = 0.0, now.slack, 0
    while i < now.active:
        j = order[i]
        x, f = X[j], now.unit * (now.sum - now.total)
        for k in range(d):
            f += x[k] * w[k]
        curvature, before, p = own[j] + now.unit, beta[j], n_kinks[j]
        best, off = levels[j, p], 0.0
        for q in range(p):
            at_kink = before + (kinks[j, q] - f) / curvature
            if at_kink >= levels[j, q]:
                best = levels[j, q]
                break
            if at_kink >= levels[j, q + 1]:
                best = at_kink
                break
        if best == before:
            way = np.inf
            for q in range(p):
                way = min(way, abs(f - kinks[j, q]))
            if way > slack:
                now.active -= 1
                order[i], order[now.active] = order[now.active], j
                continue
        else:
            off = abs(best - before) * curvature
            now.violation = max(now.violation, off)
            change = best - before
            beta[j] = best
            now.sum += change
            for k in range(d):
                w[k] += change * x[k]
        i += 1


def cross_over(X: Floats, e: Examples, intercept: bool) -> None:
    """Move free coefficients of examples ``X`` (n, d), slots 0 to n - 1, until no free one depends on the others."""
    from scipy.linalg import qr, solve_triangular  # only loaded where it is used

    free = np.flatnonzero(are_free(e.segment[: len(X)]))
    A = np.vstack([X[free].T, np.ones(free.size)]) if intercept else X[free].T
    if not free.size:
        return
    R, order = qr(A, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    pivots = np.abs(R.diagonal())
    rank = int(np.count_nonzero(pivots > RANK * pivots[0]))
    if rank == free.size:
        return
    check()
    table = np.ascontiguousarray(solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False))
    _exchange(table, free[order[:rank]], free[order[rank:]], e)


@compiled
def _exchange(table: Floats, basis: Ints, rest: Ints, e: Examples) -> None:
    """Move each example of ``rest`` to an end of its box; if a basis example reaches an end first, it leaves the basis.

    Column c of ``table`` holds the linear combination of the basis that equals example c of ``rest``.
    """
    for c in range(rest.size):
        j = rest[c]
        q = e.segment[j] // 2
        rises = e.levels[j, q] - e.beta[j] < e.beta[j] - e.levels[j, q + 1]
        step = e.levels[j, q] - e.beta[j] if rises else e.levels[j, q + 1] - e.beta[j]
        blocker = -1
        for i in range(basis.size):
            slot, rate = basis[i], -table[i, c]
            if rate == 0.0:
                continue
            p = e.segment[slot] // 2
            end = e.levels[slot, p] if (rate > 0.0) == rises else e.levels[slot, p + 1]
            most = (end - e.beta[slot]) / rate
            if abs(most) < abs(step):
                step, blocker = most, i
        for i in range(basis.size):
            e.beta[basis[i]] -= step * table[i, c]
        e.beta[j] += step
        if blocker < 0:
            _to_end(e, j, rises)
            continue
        _to_end(e, basis[blocker], (table[blocker, c] < 0.0) == rises)
        pivot = table[blocker, c]
        for k in range(c + 1, rest.size):
            ratio = table[blocker, k] / pivot
            if ratio != 0.0:
                for i in range(basis.size):
                    table[i, k] -= ratio * table[i, c]
                table[blocker, k] = ratio
        basis[blocker] = j


@compiled
def _to_end(e: Examples, j: int, is_high: bool) -> None:
    """Move a free example to the high or low end of its box, where it becomes bound."""
    q = e.segment[j] // 2
    e.beta[j] = e.levels[j, q] if is_high else e.levels[j, q + 1]
    e.segment[j] = 2 * q if is_high else 2 * q + 2


@compiled
def put_all(e: Examples, beta: Floats) -> None:
    """Give slots 0 to n - 1 the coefficients ``beta`` (n,), within their levels, and the segments that match."""
    for j in range(beta.size):
        put_in_box(e, j, beta[j])
