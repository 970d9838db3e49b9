"""Events: a bound example whose f reaches a kink becomes free, and a free one at an end of its box becomes bound."""

from __future__ import annotations

from livesvm.solvers.active_set.direction import add_free_rows, along_row, resolve
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import BEYOND, Walk, add_to_bound_rate, kink_rate, set_limits, set_velocity
from livesvm.solvers.linalg.cholesky import ONES, RHS, append, compact, delete, schur, solve_backward, solve_forward
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.types import Floats

INDEFINITE_BELOW = 1e-3  #: squared pivots that are due to a nearly dependent block are below this part of the diagonal


@compiled
def change_side(w: Walk, slot: int, side: int) -> Exit:
    """Make the event of an example: a bound one becomes free, and a free one becomes bound, on the given side."""
    if w.row_of[slot] < 0 and not gather_row(w, slot):
        return Exit.NEED_ROW
    if is_free(w.examples.segment[slot]):
        leave(w, slot, side)
        return Exit.DONE
    if w.factor.size[0] + 1 > w.factor.R.shape[0]:
        if w.factor.size[0] > w.factor.size[1]:
            compact(w.factor)
        else:
            return Exit.FACTOR_FULL
    return enter(w, slot, side)


@compiled
def gather_row(w: Walk, slot: int) -> bool:
    """Copy the members' columns of an example's cached row; return False if no such row, or no space, exists."""
    if w.members.size == 0 or not gather_seen(w, slot):
        return False
    complete_row(w, slot)
    return True


@compiled
def gather_seen(w: Walk, slot: int) -> bool:
    """Copy the near members' columns of an example's cached row; return False if no such row, or no space, exists."""
    parent = w.parent_row_of[w.members[slot]]
    if parent < 0 or w.at[0].rows >= w.rows.shape[0]:
        return False
    w.row_of[slot] = w.at[0].rows
    w.at[0].rows += 1
    row, out = w.parent_rows[parent], w.seen_rows[w.row_of[slot]]
    for j in range(w.n_seen):
        out[j] = row[w.members[j]]
    return True


@compiled
def complete_row(w: Walk, slot: int) -> None:
    """If an example's row has the columns of near members only, copy those of all other members too."""
    if w.members.size == 0 or w.is_whole[slot]:
        return
    row, out = w.parent_rows[w.parent_row_of[w.members[slot]]], w.rows[w.row_of[slot]]
    for j in range(w.n):
        out[j] = row[w.members[j]]
    w.is_whole[slot] = True


@compiled
def leave(w: Walk, slot: int, side: int) -> None:
    """Make a free example at an end of its box bound; at the upper end it moves to the piece below the kink."""
    e, motion, fac = w.examples, w.motion, w.factor
    complete_row(w, slot)
    delete(fac, slot)
    e.beta[slot] = max(motion.high[slot], e.beta[slot]) if side > 0 else min(motion.low[slot], e.beta[slot])
    e.segment[slot] += -1 if side > 0 else 1
    motion.dbeta[slot] = 0.0
    motion.v[slot] = 0.0
    set_limits(w, slot)
    v = set_velocity(w, slot)
    if v != 0.0:
        solve_for_bound_rate(w, -v)
        add_to_bound_rate(w, slot, v)
    if fac.size[0] - fac.size[1] > 4 + fac.size[1] // 8:
        compact(fac)


@compiled
def solve_for_bound_rate(w: Walk, v: float) -> None:
    """Subtract the effect of a bound example's velocity ``v`` from the forward-solved right-hand side of the motion."""
    fac = w.factor
    kappa = w.at[0].kappa if w.intercept else 0.0
    for k in range(fac.size[0]):
        fac.y[RHS, k] += v * (fac.column[k] - kappa * fac.y[ONES, k])


@compiled
def enter(w: Walk, slot: int, side: int) -> Exit:
    """Make a bound example free after its f has reached a kink.

    If the example depends linearly on free ones, betas move without changing f, until a free example becomes bound or
    the entering one has crossed its box.
    """
    e, fac = w.examples, w.factor
    row = w.rows[w.row_of[slot]]
    kappa = w.at[0].kappa if w.intercept else 0.0
    diagonal = e.diagonal[slot] + kappa
    column = fac.column
    # Each exchange is a pivot of a linear program; the limit guards against cycling.
    for _ in range(1000):
        n = fac.size[0]
        for k in range(n):
            column[k] = row[fac.slot[k]] + kappa if fac.slot[k] >= 0 else 0.0
        pivot2 = schur(fac, column, diagonal)
        if pivot2 > w.tol[0].dependent * diagonal:
            become_free(w, slot, side, pivot2)
            return Exit.DONE
        if pivot2 < -INDEFINITE_BELOW * diagonal:
            return Exit.INDEFINITE
        w.at[0].exchanges += 1
        w.at[0].work += fac.size[0] * (w.n + 2.0 * fac.size[0])
        for k in range(fac.size[0]):
            if fac.slot[k] >= 0:
                complete_row(w, fac.slot[k])
        if exchange(w, slot, side):
            return Exit.DONE
        if is_stopped(w.stop, 0):
            return Exit.CANCELLED
    return Exit.INDEFINITE


@compiled
def become_free(w: Walk, slot: int, side: int, pivot2: float) -> None:
    """Append an example to the free block; ``factor.column`` already holds its forward-solved column."""
    e, motion, fac = w.examples, w.motion, w.factor
    v = motion.v[slot]
    if v != 0.0:
        solve_for_bound_rate(w, v)
        add_to_bound_rate(w, slot, -v)
        w.at[0].sum_v -= v
        motion.v[slot] = 0.0
    e.segment[slot] += side
    if w.at[0].several == BEYOND:
        q = e.segment[slot] // 2
        e.dkinks[slot, q] = (e.kinks[slot, q] - e.f[slot]) / w.at[0].tau
    append(fac, fac.column, pivot2, slot, kink_rate(w, slot) - motion.bound_rate[slot])
    set_limits(w, slot)


@compiled
def exchange(w: Walk, slot: int, side: int) -> bool:
    """Move betas without changing f until example ``slot`` crosses its box, or a free one reaches an end (rule 5).

    The move is one pivot of the linear program in [Ong et al., eq. 30-34]. Returns whether the example has crossed its
    box; if not, a free one has become bound, and the caller can try again to make the example free.
    """
    e, motion, fac = w.examples, w.motion, w.factor
    n = fac.size[0]
    q = (e.segment[slot] + side) // 2  # the kink it is at
    target = q + 1 if side > 0 else q  # the piece beyond it
    end = e.levels[slot, target] - w.at[0].tau * e.dlevels[slot, target]
    z = fac.work
    for k in range(n):
        z[k] = fac.column[k]
    solve_backward(fac.R, n, z)
    refine_dependence(w, slot, z)
    length = max(side * (e.beta[slot] - end), 0.0)
    blocker, blocked_side = blocking(w, z, side, length)
    if blocker >= 0:
        gap = motion.high[blocker] - e.beta[blocker] if blocked_side > 0 else e.beta[blocker] - motion.low[blocker]
        length = max(0.0, gap) / abs(z[fac.position[blocker]])
    move_along(w, z, slot, side, length)
    if blocker >= 0:
        leave(w, blocker, blocked_side)
        return False
    e.beta[slot] = end
    e.segment[slot] += 2 * side
    set_limits(w, slot)
    change = set_velocity(w, slot)
    if change != 0.0:
        add_to_bound_rate(w, slot, change)
        resolve(w)
    return True


@compiled
def refine_dependence(w: Walk, slot: int, z: Floats) -> None:
    """Refine ``z``, the combination of free examples that equals ``slot``, by one step of iterative refinement."""
    fac = w.factor
    kappa = w.at[0].kappa if w.intercept else 0.0
    residual = fac.column
    row = w.rows[w.row_of[slot]]
    total = 0.0
    for k in range(fac.size[0]):
        total += z[k] if fac.slot[k] >= 0 else 0.0
    for k in range(fac.size[0]):
        free = fac.slot[k]
        residual[k] = row[free] + kappa * (1.0 - total) - along_row(w, z, free) if free >= 0 else 0.0
    solve_forward(fac.R, fac.size[0], residual)
    solve_backward(fac.R, fac.size[0], residual)
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            z[k] += residual[k]


@compiled
def blocking(w: Walk, z: Floats, side: int, length: float) -> tuple[int, int]:
    """Return the free example that first reaches an end of its box (-1: none within ``length``), and which end."""
    e, motion, fac = w.examples, w.motion, w.factor
    bound = length
    for k in range(fac.size[0]):
        slot = fac.slot[k]
        rate = side * z[k]
        if slot >= 0 and abs(rate) > 1e-9:
            gap = motion.high[slot] - e.beta[slot] if rate > 0.0 else e.beta[slot] - motion.low[slot]
            bound = min(bound, (max(gap, 0.0) + w.tol[0].beta) / abs(rate))
    if bound >= length:
        return -1, 0
    best = 0.0
    switching, end = -1, 0
    for k in range(fac.size[0]):
        slot = fac.slot[k]
        rate = side * z[k]
        if slot >= 0 and abs(rate) > max(best, 1e-9):
            gap = motion.high[slot] - e.beta[slot] if rate > 0.0 else e.beta[slot] - motion.low[slot]
            if max(gap, 0.0) <= bound * abs(rate):
                best, switching, end = abs(rate), slot, 1 if rate > 0.0 else -1
    return switching, end


@compiled
def move_along(w: Walk, z: Floats, slot: int, side: int, length: float) -> None:
    """Move betas along the direction ``z``, which changes f only as far as the linear dependence is inexact."""
    if length == 0.0:
        return
    e, motion, fac = w.examples, w.motion, w.factor
    change = motion.df
    row = w.rows[w.row_of[slot], : w.n]
    for j in range(w.n):
        change[j] = -row[j]
    add_free_rows(w, z, change, w.n)
    off = -1.0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            free = fac.slot[k]
            off += z[k]
            e.beta[free] += length * side * z[k]
            motion.low[free] = min(motion.low[free], e.beta[free])
            motion.high[free] = max(motion.high[free], e.beta[free])
    e.beta[slot] -= length * side
    w.at[0].sum_rate -= length * side * off / max(w.at[0].tau, 1e-3)  # the sum is made up for by the end
    for j in range(w.n):
        e.f[j] += length * side * change[j]
        if not is_free(e.segment[j]):
            motion.low[j] = min(motion.low[j], e.f[j])
            motion.high[j] = max(motion.high[j], e.f[j])
