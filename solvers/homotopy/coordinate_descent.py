"""Dual coordinate descent: an approximate optimum of a linear model from nothing [Hsieh et al. 2008].

Each step moves one coefficient to its optimum with all others fixed, and updates ``w = sum_j beta_j x_j``. The
intercept is treated as the weight of a constant feature, so the sum of the coefficients is not fixed during the
descent. The path that is followed after the descent corrects the sum of the coefficients and the remaining duality gap.
A descent can also begin at known coefficients, and move only some examples of a window.

Where features depend on each other, or C is large, the descent takes thousands of passes. If the model has few
features, proximal Newton steps follow [Li, Sun & Toh 2018]. Each Newton step costs a product of the features with
themselves, and some dozens of steps are enough, whatever the data are.

After the descent, more coefficients are strictly inside their boxes than the path algorithm can have free examples. So
free coefficients move along combinations that change neither w nor the sum, until enough of them are at an end of their
box: the crossover of linear programming.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.decomposition import put_in_box
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Examples, are_free
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, Indices, SparseRows, dense

TOLERANCE = 1e-2  #: part of the largest kink: a smaller violation is left to the path,
SPARSE_TOLERANCE, SPARSE_ROUNDS = 1e-4, 8  #: which takes long with sparse rows: these are also balanced in some rounds
MOST_PASSES = 300  #: over the examples, after which the rest is left to the path
FEW_PASSES, FEW_FEATURES = 60, 400  #: passes before Newton steps take over, of a model of no more features than that
WIDTHS = tuple(0.25**k for k in range(8))  #: how far from its kink a loss is rounded off, as parts of the largest kink
NEWTON_STEPS = 20  #: most for each of these
INSIDE = 2  #: coefficients inside their boxes, for each feature, of which the crossover takes no time
RANK = 1e-9  #: part of the largest pivot below which a coefficient depends on others
EXCHANGES = 200  #: of a basis, after which its inverse is computed again


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
    """The coefficients at which a descent begins, and the sums over them."""

    beta: Floats  #: (n,) coefficients of the examples that move, which the descent overwrites
    w: Floats  #: (d,) ``sum_j beta_j x_j`` over all examples, which the descent overwrites
    sum: float  #: of the coefficients of all examples
    b: float  #: intercept


class PassRows(NamedTuple):
    """Examples in the form that a pass reads; they are sparse if ``dense`` has no features."""

    dense: Floats  #: (n, d), or (0, 0)
    indices: Indices  #: as in ``SparseRows``, and all else
    values: Floats
    start: Ints
    stop: Ints

    @classmethod
    def of(cls, X: Features) -> PassRows:
        """Return the rows of ``X``."""
        if isinstance(X, SparseRows):
            return cls(np.empty((0, 0)), X.indices, X.values, X.start, X.stop)
        return cls(X, np.empty(0, np.int32), np.empty(0), NO_EXAMPLES, NO_EXAMPLES)


def descend_sparse(X: SparseRows, losses: Losses, total: float, intercept: bool) -> DescentPoint:
    """Return near-optimal coefficients for sparse examples ``X`` (n, d), which nearly sum up to ``total``."""
    found = descend(X, losses, total, intercept)
    for _ in range(SPARSE_ROUNDS if intercept else 0):
        found = descend(X, losses, total, intercept, found)
    return found


def descend(
    X: Features, losses: Losses, total: float, intercept: bool, known: DescentPoint | None = None
) -> DescentPoint:
    """Return near-optimal coefficients for ``X`` (n, d); together with all others they are to sum up to ``total``.

    By default there are no other examples, and each coefficient begins at its level nearest to 0.
    """
    n, rng, is_sparse = len(X), np.random.default_rng(0), isinstance(X, SparseRows)
    rows, own = PassRows.of(X), np.empty(n)
    squares(rows, own)
    unit = float(own.mean()) if intercept else 0.0
    if known is None:
        beta = np.empty(n)
        start(losses, beta)
        known = DescentPoint(beta, weighted(rows, beta, X.shape[1]), float(beta.sum()), 0.0)
    beta, w, total_beta, b = known
    finite = losses.kinks[np.isfinite(losses.kinks)]
    tolerance = (SPARSE_TOLERANCE if is_sparse else TOLERANCE) * (float(np.abs(finite).max(initial=0.0)) or 1.0)
    at = Pass.of(total - b / unit if unit else total, unit, np.inf, total_beta, n, 0.0)
    order, is_narrow = np.arange(n), not is_sparse and X.shape[1] <= FEW_FEATURES
    for _ in range(FEW_PASSES if is_narrow else MOST_PASSES):
        check()
        rng.shuffle(order[: int(at[0].active)])
        one_pass(rows, own, *losses, beta, w, order, at)
        if at[0].violation <= tolerance:
            if at[0].active == n:
                break
            at[0].active, at[0].slack = n, np.inf
        else:
            at[0].slack = float(at[0].violation)
    found = DescentPoint(beta, w, float(at[0].sum), unit * float(at[0].sum - at[0].total))
    return newton(dense(X), losses, total, intercept, found) if is_narrow and at[0].violation > tolerance else found


def newton(X: Floats, losses: Losses, total: float, intercept: bool, known: DescentPoint) -> DescentPoint:
    """Return coefficients that are nearer to the optimum than ``known``, by Newton's method on rounded losses.

    The kinks of a loss are rounded off over a width that grows with h; then its coefficients are those of a descent
    step with curvature h. The search for each h starts from the coefficients for the previous, larger h.
    """
    beta, w, b = known.beta, known.w, known.b
    d, rest, rest_sum = w.size, w - beta @ X, known.sum - float(beta.sum())
    far = float(np.sqrt(np.einsum("ij,ij->i", X, X).mean()))
    kink = float(np.abs(losses.kinks[np.isfinite(losses.kinks)]).max(initial=0.0)) or 1.0
    span = float(np.ptp(losses.levels, axis=1).max()) or 1.0
    moved, is_inside = beta.copy(), np.zeros(beta.size, np.bool_)
    for width in WIDTHS:
        h, was = width * kink / span, (w, b)
        for _ in range(NEWTON_STEPS):
            check()
            f = X @ w + b
            near_optima(f, h, beta, *losses, moved, is_inside)
            slope = np.append(w - rest - moved @ X, total - rest_sum - float(moved.sum()) if intercept else 0.0)
            if far * float(np.abs(slope[:d]).max()) + abs(slope[d]) * h <= 0.1 * width * kink:
                break
            inside = X[is_inside]
            H = np.eye(d + 1)
            H[:d, :d] += inside.T @ inside / h
            if intercept:
                H[d, :d] = H[:d, d] = inside.sum(axis=0) / h
                H[d, d] = (len(inside) + 1e-3) / h
            step = np.linalg.solve(H, -slope)
            w, b = _search(X, losses, (w, rest), (b, total - rest_sum), h, beta, step, slope)
        else:
            w, b = was
            break
        beta = moved.copy()
        if np.count_nonzero(is_inside) <= INSIDE * (d + 1):
            break
    return DescentPoint(beta, rest + beta @ X, rest_sum + float(beta.sum()), b)


def _search(
    X: Floats, losses: Losses, w: tuple[Floats, Floats], b: tuple[float, float], h: float, beta: Floats, step: Floats,
    slope: Floats,
) -> tuple[Floats, float]:  # fmt: skip
    """Return w and b where the slope of the rounded objective along a Newton step is close to 0."""
    d, along = step.size - 1, X @ step[:-1] + step[-1]
    f, fall, moved, unused = X @ w[0] + b[0], -float(slope @ step), np.empty(beta.size), np.empty(beta.size, np.bool_)
    low, t, high = 0.0, 1.0, 1.0
    for _ in range(NEWTON_STEPS):
        near_optima(f + t * along, h, beta, *losses, moved, unused)
        rise = float((w[0] + t * step[:d] - w[1]) @ step[:d] + b[1] * step[d] - moved @ along)
        if rise > 0.1 * fall:
            high = t
        elif t == high or rise >= -0.1 * fall:
            break
        else:
            low = t
        t = (low + high) / 2
    return w[0] + t * step[:d], b[0] + t * float(step[d])


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
def _optimum(f: float, curvature: float, before: float, kinks: Floats, levels: Floats, p: int) -> tuple[float, bool]:
    """Return the coefficient at which an example has its optimum, and whether that is strictly inside its box.

    ``f`` is the decision value of the example at the coefficient ``before``; it rises by ``curvature`` per unit of the
    coefficient.
    """
    for q in range(p):
        at_kink = before + (kinks[q] - f) / curvature
        if at_kink >= levels[q]:
            return levels[q], False
        if at_kink >= levels[q + 1]:
            return at_kink, True
    return levels[p], False


@compiled
def near_optima(
    f: Floats, h: float, beta: Floats, kinks: Floats, levels: Floats, n_kinks: Ints, out: Floats, is_inside: Bools
) -> None:
    """Write each example's optimal coefficient to ``out``, and whether it is inside the box, for curvatures of h."""
    for j in range(f.size):
        out[j], is_inside[j] = _optimum(f[j], h, beta[j], kinks[j], levels[j], n_kinks[j])


@compiled
def product(X: PassRows, j: int, w: Floats, f: float) -> float:
    """Return ``f`` plus the product of example j and ``w``."""
    if X.dense.shape[1] == 0:
        for k in range(X.start[j], X.stop[j]):
            f += X.values[k] * w[X.indices[k]]
        return f
    x = X.dense[j]
    for k in range(w.size):
        f += x[k] * w[k]
    return f


@compiled
def add(X: PassRows, j: int, change: float, w: Floats) -> None:
    """Add ``change`` times example j to ``w``."""
    if X.dense.shape[1] == 0:
        for k in range(X.start[j], X.stop[j]):
            w[X.indices[k]] += change * X.values[k]
        return
    x = X.dense[j]
    for k in range(w.size):
        w[k] += change * x[k]


@compiled
def squares(X: PassRows, out: Floats) -> None:
    """Write the product of each example with itself to ``out`` (n,)."""
    for j in range(out.size):
        out[j] = 0.0
        if X.dense.shape[1] == 0:
            for k in range(X.start[j], X.stop[j]):
                out[j] += X.values[k] * X.values[k]
        else:
            out[j] = product(X, j, X.dense[j], 0.0)


@compiled
def decide(X: PassRows, w: Floats, b: float, out: Floats) -> None:
    """Write the decision value of each example to ``out`` (n,)."""
    for j in range(out.size):
        out[j] = product(X, j, w, b)


def weighted(X: PassRows, beta: Floats, d: int) -> Floats:
    """Return ``sum_j beta_j x_j`` (d,)."""
    if X.dense.size:
        return beta @ X.dense
    w = np.zeros(d)
    for j in np.flatnonzero(beta).tolist():
        add(X, j, beta[j], w)
    return w


@compiled
def one_pass(
    X: PassRows, own: Floats, kinks: Floats, levels: Floats, n_kinks: Ints, beta: Floats, w: Floats, order: Ints,
    at: One[Pass],
) -> None:  # fmt: skip
    """Move the coefficient of each active example of ``order`` to its optimum with all others fixed."""
    now = at[0]
    now.violation, slack, i = 0.0, now.slack, 0
    while i < now.active:
        j = order[i]
        f = product(X, j, w, now.unit * (now.sum - now.total))
        curvature, before, p, off = own[j] + now.unit, beta[j], n_kinks[j], 0.0
        best, _ = _optimum(f, curvature, before, kinks[j], levels[j], p)
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
            add(X, j, change, w)
        i += 1


def cross_over(X: Floats, e: Examples, intercept: bool) -> None:
    """Move free coefficients of examples ``X`` (n, d), slots 0 to n - 1, until no free one depends on the others."""
    from scipy.linalg import qr  # only loaded where it is used

    free = np.flatnonzero(are_free(e.segment[: len(X)]))
    A = np.vstack([X[free].T, np.ones(free.size)]) if intercept else X[free].T
    if not free.size:
        return
    R, order = qr(A, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    pivots = np.abs(R.diagonal())
    rank = int(np.count_nonzero(pivots > RANK * pivots[0]))
    if rank == free.size:
        return
    columns, free = np.ascontiguousarray(R[:rank].T), free[order]
    basis, rest, done = np.arange(rank), np.arange(rank, free.size), 0
    while done < rest.size:
        check()
        inverse = np.linalg.inv(columns[basis].T)
        done += _exchange(columns, np.ascontiguousarray(inverse), basis, rest[done:], free, e)


@compiled_allocating
def _exchange(columns: Floats, inverse: Floats, basis: Ints, rest: Ints, free: Ints, e: Examples) -> int:
    """Move each of ``rest`` to an end of its box; if a basis example reaches an end first, it leaves the basis.

    ``basis`` and ``rest`` are indices of ``columns`` and of the slots ``free``; ``inverse`` is that of the basis.
    Returns how many of ``rest`` have been moved; after ``EXCHANGES`` changes of the basis the inverse is inexact.
    """
    m, changes, table = basis.size, 0, np.empty(basis.size)
    for c in range(rest.size):
        j, column = free[rest[c]], columns[rest[c]]
        for i in range(m):  # the linear combination of the basis that equals the example
            total, row = 0.0, inverse[i]
            for k in range(m):
                total += row[k] * column[k]
            table[i] = total if abs(total) > RANK else 0.0
        q = e.segment[j] // 2
        rises = e.levels[j, q] - e.beta[j] < e.beta[j] - e.levels[j, q + 1]
        step = e.levels[j, q] - e.beta[j] if rises else e.levels[j, q + 1] - e.beta[j]
        blocker = -1
        for i in range(m):
            slot, rate = free[basis[i]], -table[i]
            if rate == 0.0:
                continue
            p = e.segment[slot] // 2
            end = e.levels[slot, p] if (rate > 0.0) == rises else e.levels[slot, p + 1]
            most = (end - e.beta[slot]) / rate
            if abs(most) < abs(step):
                step, blocker = most, i
        for i in range(m):
            e.beta[free[basis[i]]] -= step * table[i]
        e.beta[j] += step
        if blocker < 0:
            _to_end(e, j, rises)
            continue
        _to_end(e, free[basis[blocker]], (table[blocker] < 0.0) == rises)
        basis[blocker], changes = rest[c], changes + 1
        if changes == EXCHANGES:
            return c + 1
        for k in range(m):
            inverse[blocker, k] /= table[blocker]
        for i in range(m):
            if i != blocker and table[i] != 0.0:
                for k in range(m):
                    inverse[i, k] -= table[i] * inverse[blocker, k]
    return int(rest.size)


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
