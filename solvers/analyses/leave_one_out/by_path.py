"""One example after the other leaves the same optimum, which is put back each time.

Block pivots come first; the paths of those they leave are walked in compiled code, and what that cannot finish goes the
ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import center
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.active_set.workspace import ITERATION_EVENTS, Walk
from livesvm.solvers.analyses.leave_one_out.by_pivots import leave_by_pivots
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.finalize import is_at_optimum, put_on_ends
from livesvm.solvers.homotopy.follow import follow
from livesvm.solvers.homotopy.optimality import Scales, scales
from livesvm.solvers.homotopy.refresh import BLOCK, need_rows
from livesvm.solvers.homotopy.run import walk_of
from livesvm.solvers.homotopy.tolerances import SETTINGS, begin
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.linalg.cholesky import delete
from livesvm.solvers.problem.state import Examples, PathState, empty_motion
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import raise_what_stopped
from livesvm.solvers.runtime.types import Floats, Ints

FEW = 8  # events that most leave with; for so few no example is left out of a walk
SMALL = 2000  # if the window is not larger than this
DUST, GOAL, ROUNDINGS = SETTINGS.dust, SETTINGS.goal, SETTINGS.one_walk
PORTION = 32  # examples that leave between two reports of progress


class _Undone(Exception):
    """Raised to put the state back after a path has been followed to its end."""


def decisions_without(state: PathState, slots: Ints, total: float, model: Floats | None = None) -> tuple[Floats, int]:
    """Return f at examples by the model without them, and the events on the way; the state is put back.

    ``total`` is what the betas of the others sum up to. ``model`` (n_slots + 1,) gets the coefficients, then b.
    """
    decisions, events = np.empty(0), 0
    try:
        with UndoneOnError(state):
            state.drop_losses(slots)
            state.total = total
            events = follow(state).events
            beta = state.examples.beta[: state.n_slots]
            decisions = times(state.kernel_rows(slots), beta) + state.b
            if model is not None:
                model[:-1], model[-1] = beta, state.b
            raise _Undone
    except _Undone:
        return decisions, events


@by_reference
class Kept(NamedTuple):
    """The optimum that every example leaves from."""

    examples: Examples
    R: Floats  #: the factor
    slots: Ints  #: the examples in it
    b: float
    total: float


def leave_each_out(
    state: PathState, indices: Ints, totals: Floats, report: Callable[[int, int], None]
) -> tuple[Floats, int]:
    """Return f at each of the examples ``indices`` by the model without it, (m,), and the events of all paths.

    Parameters
    ----------
    state : optimal, with an f that is fresh; it is put back
    indices : (m,) slots
    totals : (m,) what the betas of the others sum up to
    report : called with how many are done, and how many there are; what it raises ends the work

    Raises
    ------
    NotOptimal : a path could not be followed, also not the ordinary way
    """
    decisions, events = np.full(indices.size, np.nan), 0
    if (totals == state.total).all():
        units = scales(state, np.zeros(state.n_slots))
        left = leave_by_pivots(state, indices, units, lambda _: report(0, indices.size))
        if left is not None:
            decisions, events = left.decisions, left.changes
    blocked = np.isnan(decisions)
    decisions[blocked], more = leave_by_paths(
        state, indices[blocked], totals[blocked], partial(_later, report, indices.size)
    )
    return decisions, events + more


def _later(report: Callable[[int, int], None], total: int, done: int, count: int) -> None:
    report(total - count + done, total)


def leave_by_paths(
    state: PathState,
    indices: Ints,
    totals: Floats,
    report: Callable[[int, int], None],
    models: Floats | None = None,
) -> tuple[Floats, int]:
    """Do the same by a path each; ``models`` (m, n_slots + 1) gets the models without: coefficients by slot, then b.

    In compiled code first, and where a kernel row is not cached or a tie has to be spread, the ordinary way.
    """
    if not indices.size:
        report(0, 0)
        return np.empty(0), 0
    size = int(state.factor.size[0])
    kept = Kept(
        Examples(*(a[: state.n_slots].copy() for a in state.examples)),  # type: ignore[arg-type]
        state.factor.R[:size, :size].copy(),
        state.factor.slot[:size].copy(),
        state.b,
        state.total,
    )
    state.make_room_for_free(state.n - state.n_free if state.n < 1000 else 4 * ITERATION_EVENTS)
    _cache_rows(state, indices)
    motion = empty_motion(state.capacity)
    motion.v[indices] = state.examples.beta[indices]
    units = scales(state, motion.v)
    decisions, events = np.full(indices.size, np.nan), 0
    models = np.empty((indices.size, 0)) if models is None else models
    for first in range(0, indices.size, PORTION):
        report(first, indices.size)
        part = slice(first, first + PORTION)
        w = walk_of(state, motion, units)
        decisions[part], count = _leave_portion(w, kept, units, indices[part], totals[part], models[part])
        raise_what_stopped()
        events += count
    for i in np.flatnonzero(np.isnan(decisions)):
        report(indices.size - 1, indices.size)
        found, count = decisions_without(
            state, indices[i : i + 1], float(totals[i]), models[i] if models.size else None
        )
        decisions[i] = found[0]
        events += count
    report(indices.size, indices.size)
    return decisions, events


def _cache_rows(state: PathState, indices: Ints) -> None:
    """Cache as many kernel rows as there is space for: those that leave and those near a kink come first."""
    e, n = state.examples, state.n_slots
    distance = np.abs(e.f[:n, None] - e.kinks[:n]).min(axis=1)
    distance[indices] = 0.0
    order = np.argsort(distance, kind="stable")
    order = order[e.n_kinks[order] > 0][: max(0, state.rows.max_rows - state.n_free - BLOCK)]
    need_rows(state, np.union1d(state.free_slots(), order))


@compiled_allocating
def _leave_portion(
    w: Walk, kept: Kept, units: Scales, indices: Ints, totals: Floats, models: Floats
) -> tuple[Floats, int]:
    """Let one example after the other leave, each from the kept optimum; NaN where that cannot be done here.

    ``models`` (m, n + 1), or (m, 0), gets the models without them.
    """
    e, motion, at = w.examples, w.motion, w.at[0]
    decisions = np.full(indices.size, np.nan)
    events = 0
    for i in range(indices.size):
        slot = indices[i]
        if w.row_of[slot] < 0:
            continue
        v = -e.beta[slot]
        row = w.rows[w.row_of[slot]]
        for j in range(w.n):
            motion.v[j] = 0.0
            motion.bound_rate[j] = v * row[j]
        motion.v[slot] = v
        own = Scales(units.kink, units.level, units.diagonal, abs(v), abs(v), units.mass, v, kept.total)
        begin(w, own, totals[i], 1.0)
        at.b = kept.b
        if w.factor.position[slot] >= 0:
            delete(w.factor, slot)
        e.n_kinks[slot] = 0
        e.segment[slot] = 0
        e.levels[slot, :] = 0.0
        at.whole = FEW if w.n <= SMALL else 0
        outcome = follow_path(w)
        if outcome == Exit.CANCELLED:
            break
        events += at.events
        if outcome == Exit.DONE and is_at_optimum(w, totals[i], GOAL, ROUNDINGS):
            put_on_ends(w, own, DUST)
            decisions[i] = e.f[slot]
            shift = center(w) if w.intercept and w.factor.size[1] == 0 else 0.0
            decisions[i] += shift
            if models.size > 0:
                for j in range(w.n):
                    models[i, j] = e.beta[j]
                models[i, w.n] = at.b + shift
        _put_back(w, kept)
    return decisions, events


@compiled
def _put_back(w: Walk, kept: Kept) -> None:
    """Undo what a walk has done to the examples and to the factor."""
    e, fac, old, slots = w.examples, w.factor, kept.examples, kept.slots
    for j in range(w.n):  # one by one: of copies of whole arrays Numba takes seconds to make machine code
        e.n_kinks[j], e.segment[j], e.f[j], e.beta[j] = old.n_kinks[j], old.segment[j], old.f[j], old.beta[j]
        for q in range(e.levels.shape[1]):
            e.levels[j, q], e.dlevels[j, q] = old.levels[j, q], 0.0
        for q in range(e.dkinks.shape[1]):
            e.dkinks[j, q] = 0.0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            fac.position[fac.slot[k]] = -1
    size = slots.size
    fac.size[0] = size
    fac.size[1] = 0
    for k in range(size):
        fac.slot[k] = slots[k]
        if slots[k] >= 0:
            fac.position[slots[k]] = k
            fac.size[1] += 1
        for c in range(k, size):
            fac.R[k, c] = kept.R[k, c]
