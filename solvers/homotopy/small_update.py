"""An update of few examples of a small problem, from its first step to its audit, in one compiled call.

It is for problems of which there are many, as pairs of classes: what is done around a path takes longer there than the
path. Only the ordinary case is dealt with, as ``batch_update`` would: hinge losses whose total is 0, kernel rows that
are at hand and have room, somebody free all the time, no stall, and a first walk that ends where it should. Whatever
else comes up is left to ``batch_update``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import Walk, count_anew
from livesvm.solvers.certificate import unit_of_gap
from livesvm.solvers.homotopy.batch_update import place
from livesvm.solvers.homotopy.finish import leave_ends_and_audit
from livesvm.solvers.homotopy.optimality import BLUR, EPS, Scales, audit_of
from livesvm.solvers.homotopy.recompute import BLOCK, compute_f, doubtful
from livesvm.solvers.homotopy.run import SETTINGS, ZERO_STEP
from livesvm.solvers.homotopy.target import start_motion
from livesvm.solvers.kernels.row_cache import forget_rows, transpose_into
from livesvm.solvers.linalg.cholesky import compact
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS
from livesvm.solvers.problem.state import Examples, count_bound_supports, drop_losses
from livesvm.solvers.runtime.by_address import call_at
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints

MOST_EVENTS = 400  #: of a path that is still ordinary
SPARE = 8  #: places that the factor has beyond those who come

_RATIO_F, _LAP, _RATIO_BETA = SETTINGS.ratio_f, SETTINGS.lap, SETTINGS.ratio_beta
_DEPENDENT, _DUST, _GOAL = SETTINGS.dependent, SETTINGS.dust, SETTINGS.goal
_REFRESH_EVENTS, _LIGHTER = SETTINGS.refresh_events, SETTINGS.lighter


class Outcome(IntEnum):
    """What has become of a small update."""

    DONE = 0
    BEGUN = 1  #: it has to be undone
    REFUSED = 2  #: nothing has been changed
    STOPPED = 3  #: somebody has asked for the end, and it has to be undone
    CROWDED = 4  #: nothing has been changed, as the factor has too little room


@by_reference
class Batch(NamedTuple):
    """Who comes and who leaves, by number and sorted by class, with the kernel rows of those who come."""

    come: Ints
    costs: Floats  #: of those who come: C times their weights
    come_from: Ints  #: (n_classes + 1,) where in ``come`` each class begins
    leave: Ints
    leave_from: Ints
    diagonals: Floats  #: k(x, x) by number
    row_of: Ints  #: by number, the row below
    values: Floats  #: kernel rows by number


@by_reference
class Desk(NamedTuple):
    """What a small update works on besides a walk, and what it keeps so that it can be undone."""

    slot: Ints  #: by number
    XT: Floats  #: (1, c) numbers by slot
    slot_of: Ints  #: of the row cache
    used: Ints
    come: Ints  #: slots of those who come, which are given
    rows: Ints  #: and their rows
    moving: Ints  #: (2, c) work
    segment: Ints  #: where everyone stood
    f: Floats
    beta: Floats
    free: Ints  #: places of the factor: slots, -1 for none
    leave: Ints  #: slots of those who leave, and their losses
    kinks: Floats
    levels: Floats
    n_kinks: Ints


class Count(Scalars):
    """What a small update is told of a state besides its arrays, and what it says of it."""

    # given
    first: int  #: the two classes
    second: int
    n_before: int  #: slots in use before
    clock: int  #: of the row cache
    b: float
    heaviest: float
    drift: float
    since: int  #: events since everyone's f was computed afresh
    go: int  #: where ``follow_path`` is
    # told
    n_come: int
    n_leave: int
    places: int  #: of the factor, kept in ``free``
    violation: float
    relative_gap: float
    n_bound_supports: int
    events: int
    exchanges: int
    jumps: int
    refined: int


@compiled
def small_update(w: Walk, d: Desk, batch: Batch, now: One[Count]) -> int:
    """Make the update, and return its ``Outcome`` as a number.

    ``w`` has as many slots as there are with those who come; its status and tolerances are set here. On an outcome but
    DONE and REFUSED slots, losses, places, factor and rows are anything, and what is kept in ``d`` says what they were.
    """
    count, at = now[0], w.at[0]
    if not is_ordinary(w, d, batch, now):
        return Outcome.REFUSED.value
    if not has_room(w, count.n_come + SPARE):
        return Outcome.CROWDED.value
    keep_places(w, d, batch, now)
    meet(w, d, batch, now)
    leave = d.leave[: count.n_leave]
    drop_losses(w.examples, w.factor, leave)
    _, are_cached, found = start_motion(
        w.examples, w.motion, w.factor, w.rows, w.row_of, d.used, count.clock, w.n, d.moving
    )
    units = Scales(found[0], found[1], found[2], found[3], found[4], found[5], found[6], found[7])
    if w.factor.size[1] == 0 or not are_cached or not units.kink > 0.0:
        return Outcome.BEGUN.value
    set_out(w, units, count.b)
    outcome = call_at(count.go, w)
    if outcome != Exit.DONE.value:
        return Outcome.STOPPED.value if outcome == Exit.CANCELLED.value else Outcome.BEGUN.value
    if not arrives(w, d, units, now):
        return Outcome.BEGUN.value
    count.b, count.since = at.b, count.since + at.events
    count.events, count.exchanges, count.jumps, count.refined = at.events, at.exchanges, at.jumps, at.refined
    release(w, d, batch, now)
    return Outcome.DONE.value


@compiled
def is_ordinary(w: Walk, d: Desk, batch: Batch, now: One[Count]) -> bool:
    """Say whether there is room for the kernel rows, and somebody is free; count who comes and goes."""
    count, fac = now[0], w.factor
    count.n_come = count.n_leave = 0
    for c in (count.first, count.second):
        count.n_come += batch.come_from[c + 1] - batch.come_from[c]
        count.n_leave += batch.leave_from[c + 1] - batch.leave_from[c]
    unused = 0
    for row in range(d.slot_of.size):
        if unused < count.n_come and d.slot_of[row] < 0:
            d.rows[unused] = row
            unused += 1
    fits = unused == count.n_come and fac.size[0] <= d.free.size
    return fits and fac.size[1] > 0


@compiled
def has_room(w: Walk, extra: int) -> bool:
    """Say whether the factor can take so many more, holes closed if need be."""
    fac = w.factor
    if fac.size[0] + extra > fac.R.shape[0] and fac.size[0] > fac.size[1]:
        compact(fac)
    fits: bool = fac.size[0] + extra <= fac.R.shape[0]
    return fits


@compiled
def keep_places(w: Walk, d: Desk, batch: Batch, now: One[Count]) -> None:
    """Keep where everyone stands, and the losses of those who leave."""
    count, e, m = now[0], w.examples, 0
    for j in range(count.n_before):
        d.segment[j], d.f[j], d.beta[j] = e.segment[j], e.f[j], e.beta[j]
    count.places = w.factor.size[0]
    for k in range(count.places):
        d.free[k] = w.factor.slot[k]
    for c in (count.first, count.second):
        for i in range(batch.leave_from[c], batch.leave_from[c + 1]):
            slot = d.slot[batch.leave[i]]
            d.leave[m], d.n_kinks[m] = slot, e.n_kinks[slot]
            for k in range(MAX_KINKS):
                d.kinks[m, k] = e.kinks[slot, k]
            for k in range(MAX_KINKS + 1):
                d.levels[m, k] = e.levels[slot, k]
            m += 1


@compiled
def meet(w: Walk, d: Desk, batch: Batch, now: One[Count]) -> None:
    """Give those who come their losses, kernel rows and f, and put them on a piece; negative is the first class."""
    count, e, m = now[0], w.examples, 0
    for c in (count.first, count.second):
        y = -1.0 if c == count.first else 1.0
        for i in range(batch.come_from[c], batch.come_from[c + 1]):
            slot, number = d.come[m], batch.come[i]
            set_hinge(e, slot, y, batch.costs[i])
            e.beta[slot], e.diagonal[slot] = 0.0, batch.diagonals[number]
            d.XT[0, slot] = number
            m += 1
    m = 0
    for c in (count.first, count.second):
        for i in range(batch.come_from[c], batch.come_from[c + 1]):
            slot, row = d.come[m], d.rows[m]
            source, target = batch.values[batch.row_of[batch.come[i]]], w.rows[row]
            for j in range(w.n):
                target[j] = source[int(d.XT[0, j])]
            w.row_of[slot], d.slot_of[row], d.used[row] = row, slot, count.clock
            m += 1
    slots = d.come[:m]
    compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, slots, count.b)
    place(e, slots)
    if m > 0:
        transpose_into(w.rows, w.row_of[: w.n], slots, w.rows, d.rows[:m])


@compiled
def set_hinge(e: Examples, slot: int, y: float, cost: float) -> None:
    """Give an example the loss ``problem.piecewise_linear.hinge``."""
    e.levels[slot, 0] = max(y, 0.0) * cost
    e.levels[slot, 1:] = min(y, 0.0) * cost
    e.kinks[slot, 0] = y if cost > 0.0 else np.inf
    e.kinks[slot, 1:MAX_KINKS] = np.inf
    e.n_kinks[slot] = cost > 0.0


@compiled
def set_out(w: Walk, units: Scales, b: float) -> None:
    """Start a walk, as ``homotopy.run.walk_of`` does."""
    at, tol, n_free = w.at[0], w.tol[0], w.factor.size[1]
    rounding = EPS * max(8.0 * units.speed, units.mass) * units.diagonal
    tol.f, tol.lap = max(_RATIO_F * units.kink, rounding), max(_LAP * units.kink, rounding)
    tol.beta = _RATIO_BETA * units.level
    tol.dependent = _DEPENDENT * max(1.0, np.sqrt(n_free) / 4.0)
    tol.balance = max(1e-12, EPS * w.n**1.5) * max(units.level, units.top_speed)
    tol.zero_step, tol.stall = ZERO_STEP, 2 * n_free + 200
    at.b, at.tau, at.sum_v, at.sum_end = b, 1.0, units.sum_speed, 0.0
    at.sum_rate = -units.sum_beta if w.intercept else 0.0
    at.db = at.last = at.drift = 0.0
    count_anew(w)
    at.budget = MOST_EVENTS


@compiled
def arrives(w: Walk, d: Desk, units: Scales, now: One[Count]) -> bool:
    """Compute the f that decide afresh, as ``finish.arrive`` does, and say whether ``follow`` would end here."""
    e, at, count, n_free = w.examples, w.at[0], now[0], w.factor.size[1]
    slack, past = w.tol[0].f, count.drift
    rounding = slack if slack > BLUR * units.kink else 0.0
    moved, is_judged, drift, found = leave_ends_and_audit(
        e, w.factor, w.rows, w.row_of, w.n, w.intercept, units, _DUST, at.fresh == 1, at.b, rounding, at.drift, past
    )
    if moved or not is_judged:
        return False
    count.drift = past + drift
    if found[-1] > 0:
        if not refresh_close(w, d, doubtful(past, drift, units.kink)):
            return False
        found = audit_of(e, w.n, at.b, -1.0)
    off_f, off_beta, kink, level, gap, primal, resolution, worth, sum_beta, sum_size, mass, _ = found
    off_sum = abs(sum_beta) if w.intercept else 0.0
    gap += max(abs(at.b), kink) * off_sum
    size = max(abs(primal), abs(primal - gap))
    unit = unit_of_gap(primal, gap, resolution + EPS * sum_size * max(abs(at.b), kink), worth)
    count.relative_gap = gap / unit if gap > 0.0 else 0.0
    count.violation = max(off_f, max(off_beta, off_sum / w.n) / max(level, 1e-300) * max(kink, 1.0))
    is_due = count.since + at.events > _REFRESH_EVENTS or count.heaviest > _LIGHTER * mass
    is_balanced = off_sum <= 1e-13 * level * (w.n - count.n_leave) or n_free == 0
    is_sharp = EPS * mass <= BLUR * kink
    count.heaviest = max(count.heaviest, mass)
    return is_sharp and is_balanced and not is_due and gap <= _GOAL * size < np.inf


@compiled
def refresh_close(w: Walk, d: Desk, band: float) -> bool:
    """Compute the f of bound examples afresh that are that close to a kink; False: they are many, or lack a row."""
    e, m = w.examples, 0
    for j in range(w.n):
        if e.segment[j] & 1 == 0 and min(abs(e.f[j] - e.kinks[j, 0]), abs(e.f[j] - e.kinks[j, 1])) <= band:
            if w.row_of[j] < 0:
                return False
            d.moving[0, m] = j
            m += 1
    if m > max(BLOCK, w.factor.size[1]):
        return False
    compute_f(e.f, e.beta[: w.n], w.rows, w.row_of, d.moving[0, :m], w.at[0].b)
    return True


@compiled
def release(w: Walk, d: Desk, batch: Batch, now: One[Count]) -> None:
    """Let those who leave be gone, and those who come be found."""
    count, m = now[0], 0
    leave = d.leave[: count.n_leave]
    for slot in leave:
        w.examples.beta[slot] = 0.0
    count.n_bound_supports = count_bound_supports(w.examples.beta, w.examples.segment, w.n)
    forget_rows(w.row_of, d.slot_of, d.used, leave)
    for c in (count.first, count.second):
        for i in range(batch.leave_from[c], batch.leave_from[c + 1]):
            d.slot[batch.leave[i]] = -1
        for i in range(batch.come_from[c], batch.come_from[c + 1]):
            d.slot[batch.come[i]] = d.come[m]
            m += 1
