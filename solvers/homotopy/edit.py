"""The edit at the start of an update: add, remove and change examples, and copy the old state so that it can be undone.

The edit is part of the compiled call that solves: in Python it would take longer than a short path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.refresh import compute_f
from livesvm.solvers.kernels.row_cache import forget_rows, transpose_into
from livesvm.solvers.linalg.cholesky import delete
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses
from livesvm.solvers.problem.state import Examples, count_bound_supports, drop_losses
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints


class Progress(Scalars):
    """The stage of a solve, its scalar inputs, and its scalar results."""

    # given
    stage: int  #: of ``solve.Stage``
    n_come: int  #: numbers of examples that come, leave, and get other losses
    n_leave: int
    n_changed: int
    first: int  #: the two classes of a pair
    second: int
    n_before: int  #: slots in use before
    count: int  #: examples, including leaving ones
    total: float  #: the sum of the betas at the end
    mean_diagonal: float  #: value of kappa if no example is free
    # given for each round, and found at its end
    b: float
    kappa: float
    # given for each round
    clock: int  #: of the row cache
    events: int  #: of the rounds before
    since: int  #: events since every f was computed afresh
    precision: float  #: of the ratio test, see ``tolerances.begin``
    dust: float
    allowance: float
    heaviest: float
    drift: float
    whole: int  #: events up to which every example walks
    trusted: int  #: events, since every f was computed afresh, up to which tracked f are used for decisions
    is_measured: int  #: 1: the units of the losses are known
    n_vacant: int  #: of a pair: slots that are not in use
    # found
    n_moving: int
    foretold: float  #: f of the first new example, before anything moves
    is_kept: int  #: 1: the old places of all examples are kept
    n_places: int  #: places of the factor then
    moved: int  #: 1: an example was put on an end of its box by more than rounding
    close: float  #: the f of bound examples this close to a kink must be computed; 0: there are none
    n_bound: int  #: of a pair: bound examples with a coefficient, without the leaving ones
    violation: float
    relative_gap: float
    # counts of the walk, of ``workspace.Status``, if it reached the optimum
    walked: int  #: events
    exchanges: int
    work: float
    # units, of ``optimality.Scales``
    kink: float
    level: float
    diagonal: float
    top_speed: float


@by_reference
class ClassBatch(NamedTuple):
    """New and leaving examples of all classes, by number and sorted by class, with the kernel rows of the new ones."""

    come: Ints
    costs: Floats  #: of the new examples: C times their weights
    come_from: Ints  #: (n_classes + 1,) positions in ``come`` where the classes begin
    leave: Ints
    leave_from: Ints
    diagonals: Floats  #: k(x, x) by number
    row_of: Ints  #: by number: rows of ``values``
    values: Floats  #: kernel rows by number


@by_reference
class Before(NamedTuple):
    """Segments, f and coefficients of all examples before an update, and the old losses of the examples that change."""

    segment: Ints
    f: Floats
    beta: Floats
    free: Ints  #: places of the factor: slots, -1 for none
    kinks: Floats
    levels: Floats
    n_kinks: Ints


@by_reference
class Work(NamedTuple):
    """Arrays that a solve needs besides those of its walk; by slot, unless their comments say otherwise."""

    moving: Ints  #: (4, c) two rows of work; of a pair, vacant slots, the next one last, now and before the update
    come: Ints  #: slots
    leave: Ints
    changed: Ints
    losses: Losses  #: of the examples that change
    before: Before
    slot_of: Ints  #: of the row cache
    used: Ints
    slot: Ints  #: of a pair: slots by number, -1: not here
    numbers: Floats  #: (1, c) of a pair: numbers by slot
    now: One[Progress]  #: with a pair, a second one holds the values before the update


VACANT, VACANT_BEFORE = 2, 3  #: rows of ``Work.moving``

NO_BATCH = ClassBatch(
    np.empty(0, np.int64), np.empty(0), np.zeros(1, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64),
    np.empty(0), np.empty(0, np.int64), np.empty((0, 0)),
)  # fmt: skip


@compiled
def open_pair(w: Walk, s: Work, batch: ClassBatch) -> bool:
    """Find the slots of the examples that leave a pair of classes; give its new examples slots, losses and kernel rows.

    Returns False, and changes nothing, if there is no space for the new examples, or too many are added or removed.
    """
    now, e = s.now[0], w.examples
    rows, numbers, first, second, n = s.moving[0], s.moving[1], now.first, now.second, w.n - now.n_vacant
    n_come = batch.come_from[first + 1] - batch.come_from[first] + batch.come_from[second + 1] - batch.come_from[second]
    n_leave = batch.leave_from[first + 1] - batch.leave_from[first]
    n_leave += batch.leave_from[second + 1] - batch.leave_from[second]
    unused = 0
    for row in range(s.slot_of.size):
        if unused < n_come and s.slot_of[row] < 0:
            rows[unused] = row
            unused += 1
    is_full = unused < n_come or n_come > now.n_vacant or w.factor.size[0] == w.factor.R.shape[0]
    if is_full or 2 * n_leave >= n or n + n_come > LARGE:
        return False
    s.now[1] = now
    for k in range(now.n_vacant):
        s.moving[VACANT_BEFORE, k] = s.moving[VACANT, k]
    now.n_come, now.n_leave, now.count, now.events, now.close = n_come, n_leave, n + n_come, 0, 0.0
    now.clock += 1
    for i in range(n_come):
        now.n_vacant -= 1
        s.come[i] = s.moving[VACANT, now.n_vacant]
    come, leave = 0, 0
    for c in (now.first, now.second):
        y = -1.0 if c == now.first else 1.0
        for i in range(batch.leave_from[c], batch.leave_from[c + 1]):
            s.leave[leave] = s.slot[batch.leave[i]]
            leave += 1
        for i in range(batch.come_from[c], batch.come_from[c + 1]):
            slot = s.come[come]
            set_hinge(e, slot, y, batch.costs[i])
            e.beta[slot], e.diagonal[slot] = 0.0, batch.diagonals[batch.come[i]]
            s.numbers[0, slot] = batch.come[i]
            come += 1
    for j in range(w.n):
        numbers[j] = int(s.numbers[0, j])
    for i in range(come):
        slot, row = s.come[i], rows[i]
        source, target = batch.values[batch.row_of[numbers[slot]]], w.rows[row]
        for j in range(w.n):
            target[j] = source[numbers[j]]
        w.row_of[slot], s.slot_of[row], s.used[row] = row, slot, now.clock
    return True


@compiled
def set_hinge(e: Examples, slot: int, y: float, cost: float) -> None:
    """Give example ``slot`` the hinge loss of label ``y`` and ``cost``, as ``problem.piecewise_linear.hinge`` does."""
    e.levels[slot, 0] = max(y, 0.0) * cost
    e.levels[slot, 1:] = min(y, 0.0) * cost
    e.kinks[slot, 0] = y if cost > 0.0 else np.inf
    e.kinks[slot, 1:MAX_KINKS] = np.inf
    e.n_kinks[slot] = cost > 0.0


@compiled
def keep_places(w: Walk, s: Work) -> None:
    """Copy segment, f and coefficient of all examples, and the losses of those that the edit removes or changes."""
    now, e, old, n_leave = s.now[0], w.examples, s.before, s.now[0].n_leave
    for j in range(now.n_before):  # one loop for each array, so that it uses vector instructions
        old.segment[j] = e.segment[j]
    for j in range(now.n_before):
        old.f[j] = e.f[j]
    for j in range(now.n_before):
        old.beta[j] = e.beta[j]
    now.n_places = w.factor.size[0]
    for k in range(now.n_places):
        old.free[k] = w.factor.slot[k]
    for i in range(n_leave + now.n_changed):
        slot = s.leave[i] if i < n_leave else s.changed[i - n_leave]
        copy_loss(e.kinks, e.levels, e.n_kinks, slot, old.kinks, old.levels, old.n_kinks, i)
    now.is_kept = 1


@compiled
def copy_loss(
    kinks: Floats, levels: Floats, n_kinks: Ints, j: int, to_kinks: Floats, to_levels: Floats, to_n: Ints, i: int
) -> None:
    """Copy loss ``j`` of one table of losses to row ``i`` of another."""
    to_n[i] = n_kinks[j]
    for k in range(MAX_KINKS):
        to_kinks[i, k] = kinks[j, k]
    for k in range(MAX_KINKS + 1):
        to_levels[i, k] = levels[j, k]


@compiled
def make_edit(w: Walk, s: Work) -> None:
    """Place the new examples on their losses, drop the losses of the leaving examples, and replace the changed losses.

    New examples, with kernel rows already cached, start at beta = 0 on the piece of their loss that contains their f.
    All coefficients that differ from the level of their piece then move to this level together along the path
    [Karasuyama & Takeuchi, eq. 4].
    """
    now, e, come = s.now[0], w.examples, s.come[: s.now[0].n_come]
    compute_f_of_new(e, w.rows, w.row_of, come, w.n, now.b, s.moving[1])
    if come.size > 0:
        now.foretold = e.f[come[0]]
    drop_losses(e, w.factor, s.leave[: now.n_leave])
    for i in range(now.n_changed):
        change_losses(w, s, i)


@compiled
def compute_f_of_new(e: Examples, rows: Floats, row_of: Ints, come: Ints, n: int, b: float, work: Ints) -> None:
    """Compute f of new examples with cached rows, set their segments, and fill their columns in other cached rows."""
    if come.size > 0:
        compute_f(e.f, e.beta[:n], rows, row_of, come, b)
        place(e, come)
        for i in range(come.size):
            work[i] = row_of[come[i]]
        transpose_into(rows, row_of[:n], come, rows, work[: come.size])


@compiled
def change_losses(w: Walk, s: Work, i: int) -> None:
    """Replace the loss of changed example ``i``; if that moves its kinks, put it on the piece that contains its f."""
    e, slot, losses = w.examples, s.changed[i], s.losses
    moved = e.n_kinks[slot] != losses.n_kinks[i]
    for k in range(MAX_KINKS):
        moved = moved or e.kinks[slot, k] != losses.kinks[i, k]
    if moved and w.factor.position[slot] >= 0:
        delete(w.factor, slot)
    copy_loss(losses.kinks, losses.levels, losses.n_kinks, i, e.kinks, e.levels, e.n_kinks, slot)
    if moved:
        place(e, s.changed[i : i + 1])


@compiled
def place(e: Examples, slots: Ints) -> None:
    """Move each example that is not free to the piece of its loss on which its f lies."""
    for slot in slots:
        f, piece = e.f[slot], 0
        for k in range(e.n_kinks[slot]):
            piece += f > e.kinks[slot, k]
        # An f exactly at a kink belongs to both pieces; on the one with the level that beta has, nothing moves.
        at_rest = f == e.kinks[slot, 0] and e.beta[slot] == e.levels[slot, 1]
        e.segment[slot] = 2 * (piece + at_rest)


@compiled
def close_edit(w: Walk, s: Work, batch: ClassBatch) -> None:
    """Remove the leaving examples, and register the slots of a pair's new examples by number."""
    now = s.now[0]
    leave = s.leave[: now.n_leave]
    for slot in leave:
        w.examples.beta[slot] = 0.0
    forget_rows(w.row_of, s.slot_of, s.used, leave)
    if batch.leave_from.size == 1:  # of no pair
        return
    now.n_bound = count_bound_supports(w.examples.beta, w.examples.segment, w.n)
    come = 0
    for slot in leave[::-1]:
        s.moving[VACANT, now.n_vacant] = slot
        now.n_vacant += 1
    for c in (now.first, now.second):
        for i in range(batch.leave_from[c], batch.leave_from[c + 1]):
            s.slot[batch.leave[i]] = -1
        for i in range(batch.come_from[c], batch.come_from[c + 1]):
            s.slot[batch.come[i]] = s.come[come]
            come += 1
