"""The compiled homotopy loop: direction, rates, step, move, change side.

Each pass finds the direction in which the free examples must move so that they stay at their kinks, the largest step
that keeps everyone on their segment of the staircase, takes it, and lets the example that ended it change sides.
Rule numbers are those of the path engine's design.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.compile import compiled
from solvers.factor import Factor, append, compact, delete, schur, solve_backward, solve_forward
from solvers.state import Examples, Motion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Exits of the loop
DONE, NEED_ROW, NEED_ROOM, STALLED, UNBALANCED, INDEFINITE, CANCELLED, EXHAUSTED, STRIDE = range(9)

# Entries of the clock
B, RHO, SUM_V, SUM_RATE, DB, PACE = range(6)
N_CLOCK = 6

# Entries of the counters
(
    EVENTS,
    EXCHANGES,
    JUMPS,
    ZERO_STEPS,
    REFINED,
    WHO,
    SIDE,
    BUDGET,
    CANCEL,
    ROWS,
    STRIDE_END,
    THROUGH,
    STRIDES,
    MEMBERS,
) = range(14)
N_COUNTERS = 14


STRIDE_EVENTS = 48  #: events after which everyone is brought up to date
REACH = 3.0  #: an example is near if it would meet a limit at this multiple of its present rate
SPREAD = 1.0  #: or at this multiple of the mean rate
WHOLE_BELOW = 128  #: windows smaller than this are always walked whole


class Tolerances(NamedTuple):
    """What counts as equal; absolute, in the units named."""

    f: float  #: slack of a kink that the ratio test may use up, in units of f
    beta: float  #: the same for the end of a box, in units of beta
    dependent: float  #: a squared pivot below this, relative to the diagonal, means dependence
    balance: float  #: an imbalance of velocities that counts as none, in units of beta
    zero_step: float  #: a step that counts as no progress, of the path's length 1
    stall: int  #: how many of those in a row mean a stall


class Walk(NamedTuple):
    """Everything the loop reads and writes."""

    n: int  #: slots in use
    n_seen: int  #: those of them whose df is computed; the others are free when a stride starts
    intercept: bool
    kappa: float
    examples: Examples
    motion: Motion
    factor: Factor
    rows: Floats  #: kernel rows at hand
    row_of: Ints  #: the row of a slot, -1: not at hand
    members: Ints  #: in a narrow walk, whose slot each one has in the whole; empty: all walk
    parent_rows: Floats  #: in a narrow walk, the cached rows of the whole
    parent_row_of: Ints
    clock: Floats  #: b, rho, sum of v, wanted rate of sum beta, rate of b, rho used up per event
    counters: Ints
    tol: Tolerances


@compiled
def follow_path(w: Walk) -> int:
    """Follow the path to its end, in strides, or until something is needed; returns why it stopped.

    With NEED_ROW or NEED_ROOM the example ``counters[WHO]`` is about to change sides; call again when its kernel row is
    cached and the factor has room.
    """
    while True:
        outcome = take_turn(w)
        if outcome != DONE:
            return outcome
        if w.factor.size[0] == 0 and not balanced(w):
            if not jump(w):
                return UNBALANCED
            continue
        find_direction(w)
        members, n_seen = choose(w)
        if n_seen < 0:
            outcome = walk(w)
        else:
            outcome = stride(w, members, n_seen)
        if outcome != STRIDE:
            return outcome


@compiled
def walk(w: Walk) -> int:
    """Go from event to event until the path or the stride ends, or something is needed; returns why it stopped."""
    counters = w.counters
    counters[STRIDE_END] = counters[EVENTS] + STRIDE_EVENTS
    while True:
        outcome = take_turn(w)
        if outcome != DONE:
            return outcome
        if counters[EVENTS] >= counters[STRIDE_END] or (w.factor.size[0] == 0 and not balanced(w)):
            return STRIDE
        find_direction(w)
        step, who, side = longest_step(w)
        if refine_if_needed(w, step):
            step, who, side = longest_step(w)
        advance(w, step)
        if who < 0:
            return DONE
        counters[WHO], counters[SIDE] = who, side
        counters[ZERO_STEPS] = counters[ZERO_STEPS] + 1 if step <= w.tol.zero_step else 0


@compiled
def take_turn(w: Walk) -> int:
    """Let the example whose turn it is change sides; DONE: the walk can go on."""
    counters = w.counters
    if counters[WHO] >= 0:
        outcome = change_side(w, counters[WHO], counters[SIDE])
        if outcome != DONE:
            return outcome
        counters[WHO] = -1
        counters[EVENTS] += 1
        if counters[ZERO_STEPS] > w.tol.stall:
            counters[ZERO_STEPS] = 0
            return STALLED
    if counters[CANCEL] != 0:
        return CANCELLED
    return EXHAUSTED if counters[EVENTS] >= counters[BUDGET] else DONE


@compiled
def balanced(w: Walk) -> bool:
    """Say whether the betas that move keep their sum by themselves."""
    return not w.intercept or abs(w.clock[SUM_RATE] - w.clock[SUM_V]) <= w.tol.balance


# -- direction ---------------------------------------------------------------------------------------------------------


@compiled
def kink_rate(w: Walk, slot: int) -> float:
    """Return the rate at which a free example's f must move: with its kink, and back to it if it is off."""
    e = w.examples
    q = (e.seg[slot] - 1) // 2
    rho = w.clock[RHO]
    off = e.kinks[slot, q] - rho * e.dkinks[slot, q] - e.f[slot]
    rate: float = e.dkinks[slot, q] + off / max(rho, 1e-3)
    return rate


@compiled
def resolve(w: Walk) -> None:
    """Forward-solve both right-hand sides from scratch."""
    fac = w.factor
    n = fac.size[0]
    for k in range(n):
        slot = fac.slot[k]
        if slot < 0:
            fac.y[0, k] = 0.0
            fac.y[1, k] = 0.0
        else:
            fac.y[0, k] = kink_rate(w, slot) - w.motion.drive[slot]
            fac.y[1, k] = 1.0
    solve_forward(fac.R, n, fac.y[0])
    solve_forward(fac.R, n, fac.y[1])


@compiled
def find_direction(w: Walk) -> None:
    """Solve for the rates of the free betas and of b, then get everyone's rate of f."""
    fac, motion = w.factor, w.motion
    n = fac.size[0]
    db = 0.0
    shift = 0.0
    if w.intercept and n > 0:
        y_one = 0.0
        y_rhs = 0.0
        for k in range(n):
            y_one += fac.y[1, k] * fac.y[1, k]
            y_rhs += fac.y[1, k] * fac.y[0, k]
        total = w.clock[SUM_RATE] - w.clock[SUM_V]
        shift = (y_rhs - total) / y_one
        db = shift + w.kappa * total
    for k in range(n):
        fac.work[k] = fac.y[0, k] - shift * fac.y[1, k]
    solve_backward(fac.R, n, fac.work)
    for k in range(n):
        if fac.slot[k] >= 0:
            motion.dbeta[fac.slot[k]] = fac.work[k]
    df = motion.df
    for j in range(w.n_seen):
        df[j] = motion.drive[j] + db
    add_rows(w, fac.work, df, w.n_seen)
    for j in range(w.n_seen, w.n):
        df[j] = kink_rate(w, j) if w.examples.seg[j] & 1 else motion.drive[j] + db + along_row(w, fac.work, j)
    w.clock[DB] = db


@compiled
def along_row(w: Walk, coefficients: Floats, slot: int) -> float:
    """Return the sum of an example's kernel values with the free ones, times ``coefficients`` by position."""
    row = w.rows[w.row_of[slot]]
    total = 0.0
    for k in range(w.factor.size[0]):
        if w.factor.slot[k] >= 0:
            total += coefficients[k] * row[w.factor.slot[k]]
    return total


@compiled
def add_rows(w: Walk, coefficients: Floats, out: Floats, n: int) -> None:
    """Add the kernel rows of the free examples, times ``coefficients`` by position, to ``out`` for slots below ``n``."""
    fac, rows, row_of = w.factor, w.rows, w.row_of
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
    """Improve the direction if the free examples would leave their kinks within this step; say whether it changed."""
    fac, motion = w.factor, w.motion
    n = fac.size[0]
    changed = False
    for attempt in range(3):
        worst = 0.0
        for k in range(n):
            slot = fac.slot[k]
            if 0 <= slot < w.n_seen:
                worst = max(worst, abs(motion.df[slot] - kink_rate(w, slot)))
        if worst * step <= 0.1 * w.tol.f:
            return changed
        w.counters[REFINED] += 1
        changed = True
        if attempt == 0:
            resolve(w)
            find_direction(w)
            continue
        correct_direction(w)
    return changed


@compiled
def correct_direction(w: Walk) -> None:
    """One step of iterative refinement of the direction."""
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
        total = w.clock[SUM_RATE] - w.clock[SUM_V]
        y_one = 0.0
        y_rhs = 0.0
        for k in range(n):
            if fac.slot[k] >= 0:
                total -= motion.dbeta[fac.slot[k]]
            y_one += fac.y[1, k] * fac.y[1, k]
            y_rhs += fac.y[1, k] * residual[k]
        shift = (y_rhs - total) / y_one
    for k in range(n):
        residual[k] -= shift * fac.y[1, k]
    solve_backward(fac.R, n, residual)
    db = shift + w.kappa * total
    for k in range(n):
        if fac.slot[k] >= 0:
            motion.dbeta[fac.slot[k]] += residual[k]
    for j in range(w.n_seen):
        motion.df[j] += db
    add_rows(w, residual, motion.df, w.n_seen)
    w.clock[DB] += db


# -- step --------------------------------------------------------------------------------------------------------------


@compiled
def longest_step(w: Walk) -> tuple[float, int, int]:
    """Return the step to the next event, who makes it (-1: the end of the path), and on which side (-1 low, +1 high).

    Two passes [Harris]: the longest step with every limit relaxed by its tolerance, then among the examples that would
    pass their own limit within it, the one that does so at the highest speed.
    """
    e, motion = w.examples, w.motion
    rho = w.clock[RHO]
    bound = rho
    for j in range(w.n):
        free = e.seg[j] & 1
        x = e.beta[j] if free else e.f[j]
        dx = motion.dbeta[j] if free else motion.df[j]
        tol = w.tol.beta if free else w.tol.f
        up = dx - motion.dhigh[j]
        down = motion.dlow[j] - dx
        if up > 0.0 and motion.high[j] - x + tol < bound * up:
            bound = (motion.high[j] - x + tol) / up
        if down > 0.0 and x - motion.low[j] + tol < bound * down:
            bound = (x - motion.low[j] + tol) / down
    if bound >= rho:
        return rho, -1, 0
    best = 0.0
    who, side = -1, 0
    step = rho
    for j in range(w.n):
        free = e.seg[j] & 1
        x = e.beta[j] if free else e.f[j]
        dx = motion.dbeta[j] if free else motion.df[j]
        tol = w.tol.beta if free else w.tol.f
        up = dx - motion.dhigh[j]
        down = motion.dlow[j] - dx
        if up > best * tol and motion.high[j] - x <= bound * up:
            best, who, side = up / tol, j, 1
            step = (motion.high[j] - x) / up
        if down > best * tol and x - motion.low[j] <= bound * down:
            best, who, side = down / tol, j, -1
            step = (x - motion.low[j]) / down
    return min(max(step, 0.0), rho), who, side


@compiled
def advance(w: Walk, step: float) -> None:
    """Move everyone by ``step``; a limit that was passed within its tolerance moves along."""
    e, motion = w.examples, w.motion
    for j in range(w.n):
        e.f[j] += step * motion.df[j]
        motion.low[j] += step * motion.dlow[j]
        motion.high[j] += step * motion.dhigh[j]
        if e.seg[j] & 1:
            e.beta[j] += step * motion.dbeta[j]
            motion.low[j] = min(motion.low[j], e.beta[j])
            motion.high[j] = max(motion.high[j], e.beta[j])
        else:
            e.beta[j] += step * motion.v[j]
            motion.low[j] = min(motion.low[j], e.f[j])
            motion.high[j] = max(motion.high[j], e.f[j])
    w.clock[B] += step * w.clock[DB]
    w.clock[RHO] = max(0.0, w.clock[RHO] - step)


@compiled
def jump(w: Walk) -> bool:
    """With nobody free and betas that do not balance, move b until someone who can take them up is at a kink (rule 4)."""
    e, motion = w.examples, w.motion
    up = w.clock[SUM_RATE] - w.clock[SUM_V] < 0.0  # somebody's beta must fall, so f must rise to a kink
    least = np.inf
    who = -1
    for j in range(w.n):
        distance = motion.high[j] - e.f[j] if up else e.f[j] - motion.low[j]
        if distance < least:
            least, who = distance, j
    if who < 0:
        return False
    least = max(least, 0.0)
    shift = least if up else -least
    w.clock[B] += shift
    for j in range(w.n):
        e.f[j] += shift
    w.counters[WHO], w.counters[SIDE] = who, 1 if up else -1
    w.counters[JUMPS] += 1
    return True


# -- change side -------------------------------------------------------------------------------------------------------


@compiled
def set_limits(w: Walk, slot: int) -> None:
    """Set the limits of the segment an example is on, at the present rho."""
    e, motion = w.examples, w.motion
    rho = w.clock[RHO]
    seg = e.seg[slot]
    q = seg // 2
    if seg & 1:
        motion.high[slot] = max(e.levels[slot, q] - rho * e.dlevels[slot, q], e.beta[slot])
        motion.low[slot] = min(e.levels[slot, q + 1] - rho * e.dlevels[slot, q + 1], e.beta[slot])
        motion.dhigh[slot] = e.dlevels[slot, q]
        motion.dlow[slot] = e.dlevels[slot, q + 1]
        return
    motion.low[slot], motion.dlow[slot] = -np.inf, 0.0
    motion.high[slot], motion.dhigh[slot] = np.inf, 0.0
    if q > 0:
        motion.low[slot] = min(e.kinks[slot, q - 1] - rho * e.dkinks[slot, q - 1], e.f[slot])
        motion.dlow[slot] = e.dkinks[slot, q - 1]
    if q < e.n_kinks[slot]:
        motion.high[slot] = max(e.kinks[slot, q] - rho * e.dkinks[slot, q], e.f[slot])
        motion.dhigh[slot] = e.dkinks[slot, q]


@compiled
def set_velocity(w: Walk, slot: int) -> float:
    """Send a bound example's beta to the level of its piece by the end of the path; return the change of velocity."""
    e, motion = w.examples, w.motion
    gap = e.levels[slot, e.seg[slot] // 2] - e.beta[slot]
    v = 0.0
    if gap != 0.0 and w.clock[RHO] > 1e-12:
        v = gap / w.clock[RHO]
    change: float = v - motion.v[slot]
    motion.v[slot] = v
    w.clock[SUM_V] += change
    return change


@compiled
def add_to_drive(w: Walk, slot: int, change: float) -> None:
    """The velocity of a bound example has changed; its row is cached."""
    row = w.rows[w.row_of[slot], : w.n]
    drive = w.motion.drive
    for j in range(w.n):
        drive[j] += change * row[j]


@compiled
def change_side(w: Walk, slot: int, side: int) -> int:
    """Let an example that is at the end of its segment go on to the next one."""
    if w.row_of[slot] < 0 and not gather_row(w, slot):
        return NEED_ROW
    if w.examples.seg[slot] & 1:
        leave(w, slot, side)
        return DONE
    if w.factor.size[0] + 1 > w.factor.R.shape[0]:
        if w.factor.size[0] > w.factor.size[1]:
            compact(w.factor)
        else:
            return NEED_ROOM
    return enter(w, slot, side)


@compiled
def leave(w: Walk, slot: int, side: int) -> None:
    """A free example has reached an end of its box: the upper end leads to the piece left of its kink."""
    e, motion = w.examples, w.motion
    delete(w.factor, slot)
    if w.factor.size[0] - w.factor.size[1] > 32 + w.factor.size[1] // 8:
        compact(w.factor)
    e.beta[slot] = motion.high[slot] if side > 0 else motion.low[slot]
    e.seg[slot] += -1 if side > 0 else 1
    motion.dbeta[slot] = 0.0
    motion.v[slot] = 0.0
    set_limits(w, slot)
    change = set_velocity(w, slot)
    if change != 0.0:
        add_to_drive(w, slot, change)
        resolve(w)


@compiled
def enter(w: Walk, slot: int, side: int) -> int:
    """A bound example has reached a kink: it becomes free, in exchange for another if it depends on those who are."""
    e, fac = w.examples, w.factor
    row = w.rows[w.row_of[slot]]
    kappa = w.kappa if w.intercept else 0.0
    diagonal = e.diagonal[slot] + kappa
    column = fac.column
    for _ in range(1000):
        n = fac.size[0]
        for k in range(n):
            column[k] = row[fac.slot[k]] + kappa if fac.slot[k] >= 0 else 0.0
        pivot2 = schur(fac, column, diagonal)
        if pivot2 > w.tol.dependent * diagonal:
            become_free(w, slot, side, pivot2)
            return DONE
        if pivot2 < -1e-7 * diagonal:
            return INDEFINITE
        w.counters[EXCHANGES] += 1
        if exchange(w, slot, side):
            return DONE
    return INDEFINITE


@compiled
def become_free(w: Walk, slot: int, side: int, pivot2: float) -> None:
    """Put an example whose forward-solved column is ready into the free block."""
    e, motion, fac = w.examples, w.motion, w.factor
    n = fac.size[0]
    v = motion.v[slot]
    if v != 0.0:
        kappa = w.kappa if w.intercept else 0.0
        for k in range(n):
            fac.y[0, k] += v * (fac.column[k] - kappa * fac.y[1, k])
        add_to_drive(w, slot, -v)
        w.clock[SUM_V] -= v
        motion.v[slot] = 0.0
    e.seg[slot] += side
    append(fac, fac.column, pivot2, slot, kink_rate(w, slot) - motion.drive[slot])
    set_limits(w, slot)


@compiled
def exchange(w: Walk, slot: int, side: int) -> bool:
    """Move along the direction that changes no f until the entrant has crossed its box or a free example blocks (rule 5).

    This is one pivot of the linear program in [Ong et al., eq. 30-34]. Says whether the entrant has crossed; if not, the
    blocker has left and the entrant can be tried again.
    """
    e, motion, fac = w.examples, w.motion, w.factor
    n = fac.size[0]
    q = (e.seg[slot] + side) // 2  # the kink it is at
    target = q + 1 if side > 0 else q  # the piece beyond it
    end = e.levels[slot, target] - w.clock[RHO] * e.dlevels[slot, target]
    z = fac.work
    for k in range(n):
        z[k] = fac.column[k]
    solve_backward(fac.R, n, z)
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
    e.seg[slot] += 2 * side
    set_limits(w, slot)
    change = set_velocity(w, slot)
    if change != 0.0:
        add_to_drive(w, slot, change)
        resolve(w)
    return True


@compiled
def blocking(w: Walk, z: Floats, side: int, length: float) -> tuple[int, int]:
    """Return the free example that ends its box first within ``length`` along ``side z``, and at which end; -1: none."""
    e, motion, fac = w.examples, w.motion, w.factor
    bound = length
    for k in range(fac.size[0]):
        slot = fac.slot[k]
        rate = side * z[k]
        if slot >= 0 and abs(rate) > 1e-9:
            gap = motion.high[slot] - e.beta[slot] if rate > 0.0 else e.beta[slot] - motion.low[slot]
            bound = min(bound, (max(gap, 0.0) + w.tol.beta) / abs(rate))
    if bound >= length:
        return -1, 0
    best = 0.0
    who, end = -1, 0
    for k in range(fac.size[0]):
        slot = fac.slot[k]
        rate = side * z[k]
        if slot >= 0 and abs(rate) > max(best, 1e-9):
            gap = motion.high[slot] - e.beta[slot] if rate > 0.0 else e.beta[slot] - motion.low[slot]
            if max(gap, 0.0) <= bound * abs(rate):
                best, who, end = abs(rate), slot, 1 if rate > 0.0 else -1
    return who, end


@compiled
def move_along(w: Walk, z: Floats, slot: int, side: int, length: float) -> None:
    """Move beta along the null direction; f changes only by what the dependence is not exact."""
    if length == 0.0:
        return
    e, motion, fac = w.examples, w.motion, w.factor
    change = motion.df
    row = w.rows[w.row_of[slot], : w.n]
    for j in range(w.n):
        change[j] = -row[j]
    add_rows(w, z, change, w.n)
    off = -1.0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            free = fac.slot[k]
            off += z[k]
            e.beta[free] += length * side * z[k]
            motion.low[free] = min(motion.low[free], e.beta[free])
            motion.high[free] = max(motion.high[free], e.beta[free])
    e.beta[slot] -= length * side
    w.clock[SUM_RATE] -= length * side * off / max(w.clock[RHO], 1e-3)  # the sum is made up for by the end
    for j in range(w.n):
        e.f[j] += length * side * change[j]
        if e.seg[j] & 1 == 0:
            motion.low[j] = min(motion.low[j], e.f[j])
            motion.high[j] = max(motion.high[j], e.f[j])


# -- strides -----------------------------------------------------------------------------------------------------------
#
# Most examples of a window are far from their limits. For a stride of some dozen events the loop is given only those that
# could meet a limit, in arrays of their own, and the free examples, whose f is known to rest. Then everyone is brought up
# to date by one product with the kernel rows of the betas that took part. Who has crossed a limit meanwhile gets it moved
# to where he is, and back by the end of the path: the path may differ, its end does not.


@compiled
def choose(w: Walk) -> tuple[Ints, int]:
    """Plan a stride: return its members, those who might meet a limit first, the free ones last, and how many are first.

    The number is -1 where nearly everyone would be a member, so that all may walk.
    """
    e, motion = w.examples, w.motion
    members = np.empty(w.n, np.int64)
    if w.n < WHOLE_BELOW:
        return members, -1
    mean = 0.0
    for j in range(w.n):
        mean += abs(motion.df[j]) / w.n
    horizon = min(w.clock[RHO], 2.0 * STRIDE_EVENTS * w.clock[PACE])
    m = 0
    for j in range(w.n):
        if e.seg[j] & 1 == 0:
            up = REACH * max(motion.df[j] - motion.dhigh[j], 0.0) + SPREAD * mean
            down = REACH * max(motion.dlow[j] - motion.df[j], 0.0) + SPREAD * mean
            if motion.high[j] - e.f[j] <= horizon * up or e.f[j] - motion.low[j] <= horizon * down:
                members[m] = j
                m += 1
    n_seen = m
    if 2 * n_seen > w.n:
        return members, -1
    for k in range(w.factor.size[0]):
        if w.factor.slot[k] >= 0:
            members[m] = w.factor.slot[k]
            m += 1
    return members[:m], n_seen


@compiled
def stride(w: Walk, members: Ints, n_seen: int) -> int:
    """Walk one stride among ``members``, then bring everyone up to date; returns why it stopped."""
    rho, b, events = w.clock[RHO], w.clock[B], w.counters[EVENTS]
    near = narrowed(w, members, n_seen)
    w.counters[STRIDES] += 1
    w.counters[MEMBERS] += n_seen
    outcome = walk(near)
    update_everyone(near, w, rho - w.clock[RHO], w.clock[B] - b)
    if w.counters[WHO] >= 0:
        w.counters[WHO] = members[w.counters[WHO]]
    w.clock[PACE] = (rho - w.clock[RHO]) / max(w.counters[EVENTS] - events, 1)
    return outcome


@compiled
def narrowed(w: Walk, members: Ints, n_seen: int) -> Walk:
    """Return the walk of ``members``: copies of their arrays, and their columns of the kernel rows they need."""
    m = members.size
    e, v, fac = w.examples, w.motion, w.factor
    position = np.full(m, -1, np.int64)
    local = np.full(w.n, -1, np.int64)
    for i in range(m):
        local[members[i]] = i
    rename(fac.slot, fac.size[0], local, position)
    near = Walk(
        m,
        n_seen,
        w.intercept,
        w.kappa,
        Examples(
            e.kinks[members],
            e.levels[members],
            e.dkinks[members],
            e.dlevels[members],
            e.n_kinks[members],
            e.seg[members],
            e.f[members],
            e.beta[members],
            e.diagonal[members],
        ),
        Motion(
            v.low[members],
            v.high[members],
            v.dlow[members],
            v.dhigh[members],
            v.v[members],
            v.drive[members],
            v.df[members],
            v.dbeta[members],
        ),
        Factor(fac.R, fac.y, fac.column, fac.work, fac.slot, position, fac.size),
        np.empty((fac.size[1] + STRIDE_EVENTS + 1, m)),
        np.full(m, -1, np.int64),
        members,
        w.rows,
        w.row_of,
        w.clock,
        w.counters,
        w.tol,
    )
    w.counters[ROWS] = 0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            gather_row(near, fac.slot[k])
    return near


@compiled
def rename(slot: Ints, size: int, name: Ints, position: Ints) -> None:
    """Give the examples in the factor new numbers."""
    for k in range(size):
        if slot[k] >= 0:
            slot[k] = name[slot[k]]
            position[slot[k]] = k


@compiled
def gather_row(w: Walk, slot: int) -> bool:
    """In a stride, pick an example's row out of the cached row of the whole, if there is one."""
    if w.members.size == 0:
        return False
    parent = w.parent_row_of[w.members[slot]]
    mine = w.counters[ROWS]
    if parent < 0 or mine >= w.rows.shape[0]:
        return False
    row, out = w.parent_rows[parent], w.rows[mine]
    for j in range(w.n):
        out[j] = row[w.members[j]]
    w.row_of[slot] = mine
    w.counters[ROWS] = mine + 1
    return True


@compiled
def update_everyone(near: Walk, w: Walk, used: float, db: float) -> None:
    """Bring the whole up to date after a stride that used up ``used`` of rho and moved b by ``db``."""
    e, motion, members = w.examples, w.motion, near.members
    change = motion.df
    redrive = motion.dbeta
    for j in range(w.n):
        change[j] = used * motion.drive[j] + db
        redrive[j] = 0.0
    for i in range(near.n):
        if near.row_of[i] >= 0:  # free at some time in the stride
            slot = members[i]
            moved = near.examples.beta[i] - e.beta[slot] - used * motion.v[slot]
            dv = near.motion.v[i] - motion.v[slot]
            add_scaled(w.rows[w.row_of[slot]], moved, change, dv, redrive, w.n)
    for j in range(w.n):
        motion.drive[j] += redrive[j]
        motion.low[j] += used * motion.dlow[j]
        motion.high[j] += used * motion.dhigh[j]
        redrive[j] = 0.0
        if e.seg[j] & 1 == 0:
            e.beta[j] += used * motion.v[j]
        e.f[j] += change[j]
    for i in range(near.n):
        slot = members[i]
        if i < near.n_seen:
            e.f[slot] = near.examples.f[i]
        e.beta[slot] = near.examples.beta[i]
        e.seg[slot] = near.examples.seg[i]
        motion.v[slot] = near.motion.v[i]
        motion.low[slot], motion.high[slot] = near.motion.low[i], near.motion.high[i]
        motion.dlow[slot], motion.dhigh[slot] = near.motion.dlow[i], near.motion.dhigh[i]
    w.factor.position[:] = -1
    rename(w.factor.slot, w.factor.size[0], members, w.factor.position)
    for j in range(w.n):
        if e.seg[j] & 1 == 0 and (e.f[j] > motion.high[j] or e.f[j] < motion.low[j]):
            let_through(w, j)


@compiled
def add_scaled(row: Floats, a: float, x: Floats, b: float, y: Floats, n: int) -> None:
    """Add ``a row`` to ``x`` and ``b row`` to ``y``."""
    if b == 0.0:
        for j in range(n):
            x[j] += a * row[j]
        return
    for j in range(n):
        x[j] += a * row[j]
        y[j] += b * row[j]


@compiled
def let_through(w: Walk, slot: int) -> None:
    """A bound example was found beyond its limit: move its kink there, and back by the end of the path."""
    e = w.examples
    q, rho = e.seg[slot] // 2, w.clock[RHO]
    w.counters[THROUGH] += 1
    if rho > 1e-6:
        for k in range(e.n_kinks[slot]):
            now = e.kinks[slot, k] - rho * e.dkinks[slot, k]
            if (k >= q and e.f[slot] > now) or (k < q and e.f[slot] < now):
                e.dkinks[slot, k] = (e.kinks[slot, k] - e.f[slot]) / rho
    set_limits(w, slot)


# -- before and between walks ------------------------------------------------------------------------------------------


@compiled
def start(w: Walk) -> None:
    """Set everyone's limits and solve the right-hand sides: the motion has just been set."""
    for j in range(w.n):
        set_limits(w, j)
    resolve(w)


@compiled
def leave_ends(w: Walk, dust: float, rounding: float) -> bool:
    """Put free examples whose beta is at an end of their box, but for dust, or beyond it, on the piece there.

    Says whether any beta was moved by more than rounding, so that f must be computed afresh.
    """
    e = w.examples
    moved = False
    for j in range(w.n):
        if e.seg[j] & 1 == 0:
            continue
        q = e.seg[j] // 2
        high, low, beta = e.levels[j, q], e.levels[j, q + 1], e.beta[j]
        piece = q if beta >= high - dust else q + 1
        if low + dust < beta < high - dust:
            continue
        delete(w.factor, j)
        e.seg[j] = 2 * piece
        off = abs(beta - e.levels[j, piece])
        if off <= dust:
            e.beta[j] = e.levels[j, piece]
            moved = moved or off > rounding
    return moved


@compiled
def center(w: Walk) -> float:
    """With nobody free, put b in the middle of the interval that the kinks leave it; returns its change."""
    e = w.examples
    low, high = -np.inf, np.inf
    for j in range(w.n):
        q = e.seg[j] // 2
        if q > 0:
            low = max(low, e.kinks[j, q - 1] - e.f[j])
        if q < e.n_kinks[j]:
            high = min(high, e.kinks[j, q] - e.f[j])
    shift = 0.0
    if low > -np.inf and high < np.inf:
        shift = 0.5 * (low + high)
    elif low > -np.inf:
        shift = low
    elif high < np.inf:
        shift = high
    for j in range(w.n):
        e.f[j] += shift
    return shift


@compiled
def perturb(w: Walk, random: Floats, size_f: float, size_beta: float) -> None:
    """Spread ties: move every limit that somebody is near outward by a random amount that vanishes at the path's end.

    With generic kinks and boxes no two examples reach theirs at once, every step is positive, and each set of free
    examples is met at most once (rule 6).
    """
    e = w.examples
    rho = w.clock[RHO]
    for j in range(w.n):
        q = e.seg[j] // 2
        if e.seg[j] & 1:
            e.dlevels[j, q] -= (0.5 + random[j, 0]) * size_beta / rho
            e.dlevels[j, q + 1] += (0.5 + random[j, 1]) * size_beta / rho
        else:
            if q < e.n_kinks[j]:
                e.dkinks[j, q] -= (0.5 + random[j, 0]) * size_f / rho
            if q > 0:
                e.dkinks[j, q - 1] += (0.5 + random[j, 1]) * size_f / rho
        set_limits(w, j)


@compiled
def rebuild(fac: Factor, rows: Floats, row_of: Ints, free: Ints, diagonal: Floats, kappa: float) -> None:
    """Factor the free block from nothing; an example whose pivot is lost in rounding gets the least usable one."""
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            fac.position[fac.slot[k]] = -1
    fac.size[0] = 0
    fac.size[1] = 0
    for slot in free:
        n = fac.size[0]
        for k in range(n):
            fac.column[k] = rows[row_of[slot], fac.slot[k]] + kappa
        own = diagonal[slot] + kappa
        pivot2 = max(schur(fac, fac.column, own), 1e-15 * own)
        append(fac, fac.column, pivot2, slot, 0.0)
