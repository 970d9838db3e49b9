"""The walk of those who are near: arrays of their own for a stride, and everyone brought up to date after it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.compile import compiled, compiled_allocating
from solvers.factor import Factor
from solvers.laps import let_through
from solvers.motion import ROWS, STRIDE_EVENTS, Walk
from solvers.sides import gather_columns
from solvers.state import Examples, Motion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled_allocating
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
            np.empty(m),
        ),
        Factor(fac.R, fac.y, fac.column, fac.work, fac.slot, position, fac.size),
        room_for_rows(w.scratch, fac.size[1] + STRIDE_EVENTS + 1, m),
        np.full(m, -1, np.int64),
        np.zeros(m, np.int64),
        members,
        w.rows,
        w.row_of,
        w.scratch,
        w.clock,
        w.counters,
        w.tol,
    )
    w.counters[ROWS] = 0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            gather_columns(near, fac.slot[k], 0, n_seen)
    return near


@compiled_allocating
def room_for_rows(scratch: Floats, rows: int, m: int) -> Floats:
    """Return an array (rows, m) in the scratch memory, or a new one where that is too small."""
    if rows * m <= scratch.size:
        return scratch[: rows * m].reshape((rows, m))
    return np.empty((rows, m))


@compiled
def rename(slot: Ints, size: int, name: Ints, position: Ints) -> None:
    """Give the examples in the factor new numbers."""
    for k in range(size):
        if slot[k] >= 0:
            slot[k] = name[slot[k]]
            position[slot[k]] = k


@compiled
def update_everyone(near: Walk, w: Walk, used: float, db: float) -> None:
    """Bring the whole up to date after a stride that used up ``used`` of rho and moved b by ``db``."""
    e, motion, members = w.examples, w.motion, near.members
    change = motion.work
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
