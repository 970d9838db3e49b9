"""The direction: rates of the free betas and b that keep f of free examples at their kinks, and rates of all f."""

from __future__ import annotations

from livesvm.solvers.active_set.workspace import Walk, kink_rate
from livesvm.solvers.linalg.cholesky import ONES, RHS, solve_backward, solve_forward
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats


@compiled
def resolve(w: Walk) -> None:
    """Recompute both forward-solved right-hand sides of the factor: that of the motion, and that of the intercept."""
    fac = w.factor
    n = fac.size[0]
    for k in range(n):
        slot = fac.slot[k]
        live = slot >= 0
        fac.y[RHS, k] = kink_rate(w, slot) - w.motion.bound_rate[slot] if live else 0.0
        fac.y[ONES, k] = 1.0 if live and w.intercept else 0.0
    solve_forward(fac.R, n, fac.y[RHS])
    if w.intercept:
        solve_forward(fac.R, n, fac.y[ONES])


@compiled
def find_direction(w: Walk) -> None:
    """Compute the rates of the free betas and of b, and from them the rate of every example's f."""
    fac, df, bound_rate = w.factor, w.motion.df, w.motion.bound_rate
    find_rates(w)
    db = w.at[0].db
    for j in range(w.n_seen):
        df[j] = bound_rate[j] + db
    add_free_rows(w, fac.work, df, w.n_seen)
    for j in range(w.n_seen, w.n):
        df[j] = kink_rate(w, j) if is_free(w.examples.segment[j]) else bound_rate[j] + db + along_row(w, fac.work, j)


@compiled
def find_rates(w: Walk) -> None:
    """Compute the rates of b and of the free betas; ``factor.work`` receives those of the betas, by factor position."""
    fac, motion = w.factor, w.motion
    n = fac.size[0]
    db = 0.0
    shift = 0.0
    if w.intercept and n > 0:
        y_one = 0.0
        y_rhs = 0.0
        for k in range(n):
            y_one += fac.y[ONES, k] * fac.y[ONES, k]
            y_rhs += fac.y[ONES, k] * fac.y[RHS, k]
        total = w.at[0].sum_rate - w.at[0].sum_v
        shift = (y_rhs - total) / y_one
        db = shift + w.at[0].kappa * total
    for k in range(n):
        fac.work[k] = fac.y[RHS, k] - shift * fac.y[ONES, k]
    solve_backward(fac.R, n, fac.work)
    for k in range(n):
        if fac.slot[k] >= 0:
            motion.dbeta[fac.slot[k]] = fac.work[k]
    w.at[0].db = db


@compiled
def along_row(w: Walk, coefficients: Floats, slot: int) -> float:
    """Return the sum of an example's kernel values with free examples, times ``coefficients`` by factor position."""
    row = w.rows[w.row_of[slot]]
    total = 0.0
    for k in range(w.factor.size[0]):
        if w.factor.slot[k] >= 0:
            total += coefficients[k] * row[w.factor.slot[k]]
    return total


@compiled
def add_free_rows(w: Walk, coefficients: Floats, out: Floats, n: int) -> None:
    """Add the kernel rows of free examples, times ``coefficients`` (by factor position), to the first ``n`` of ``out``.

    ``n`` is the number of all examples, or in an outer iteration the number of near ones.
    """
    fac, row_of = w.factor, w.row_of
    rows = w.seen_rows if w.members.size > 0 and n == w.n_seen else w.rows
    size = fac.size[0]
    k = 0
    while k < size:
        # gather up to four live positions; a missing one gets coefficient zero
        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
        i0, i1, i2, i3 = -1, -1, -1, -1
        while k < size and i3 < 0:
            slot = fac.slot[k]
            if slot >= 0:
                if i0 < 0:
                    i0, c0 = row_of[slot], coefficients[k]
                elif i1 < 0:
                    i1, c1 = row_of[slot], coefficients[k]
                elif i2 < 0:
                    i2, c2 = row_of[slot], coefficients[k]
                else:
                    i3, c3 = row_of[slot], coefficients[k]
            k += 1
        if i0 < 0:
            return
        if i1 < 0:
            i1 = i0
        if i2 < 0:
            i2 = i0
        if i3 < 0:
            i3 = i0
        r0, r1, r2, r3, o = rows[i0, :n], rows[i1, :n], rows[i2, :n], rows[i3, :n], out[:n]
        for j in range(n):
            o[j] += c0 * r0[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j]


@compiled
def refine_if_needed(w: Walk, step: float) -> bool:
    """Refine the direction if a free example would leave its kink within ``step``; return whether it was refined."""
    if holds(w, step):
        return False
    refine(w, step)
    return True


@compiled
def holds(w: Walk, step: float) -> bool:
    """Say whether f of all free examples stays at their kinks for a step of this length."""
    e, worst = w.examples, 0.0
    tau = w.at[0].tau
    most, part = 0.1 * w.tol[0].f, 1.0 / max(tau, 1e-3)
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if 0 <= slot < w.n_seen:
            q = e.segment[slot] // 2
            off = e.kinks[slot, q] - tau * e.dkinks[slot, q] - e.f[slot]
            worst = max(worst, abs(w.motion.df[slot] - e.dkinks[slot, q] - part * off))
    return worst * step <= most


@compiled
def refine(w: Walk, step: float) -> None:
    """Refine the direction, at most three times, until f of all free examples stays at their kinks for ``step``."""
    w.at[0].work += 2.0 * w.factor.size[0] * (w.n_seen + w.factor.size[0])
    resolve(w)
    find_direction(w)
    for _ in range(2):
        if holds(w, step):
            return
        correct_direction(w)


@compiled
def correct_direction(w: Walk) -> None:
    """Refine the direction by one step of iterative refinement."""
    fac, motion = w.factor, w.motion
    n = fac.size[0]
    residual = fac.column
    for k in range(n):
        slot = fac.slot[k]
        residual[k] = kink_rate(w, slot) - motion.df[slot] if 0 <= slot < w.n_seen else 0.0
    solve_forward(fac.R, n, residual)
    shift = 0.0
    total = 0.0
    if w.intercept:
        total = w.at[0].sum_rate - w.at[0].sum_v
        y_one = 0.0
        y_rhs = 0.0
        for k in range(n):
            if fac.slot[k] >= 0:
                total -= motion.dbeta[fac.slot[k]]
            y_one += fac.y[ONES, k] * fac.y[ONES, k]
            y_rhs += fac.y[ONES, k] * residual[k]
        shift = (y_rhs - total) / y_one
    for k in range(n):
        residual[k] -= shift * fac.y[ONES, k]
    solve_backward(fac.R, n, residual)
    db = shift + w.at[0].kappa * total
    for k in range(n):
        if fac.slot[k] >= 0:
            motion.dbeta[fac.slot[k]] += residual[k]
    for j in range(w.n_seen):
        motion.df[j] += db
    add_free_rows(w, residual, motion.df, w.n_seen)
    w.at[0].db += db
