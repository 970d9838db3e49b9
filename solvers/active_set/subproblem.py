"""One outer iteration: a walk on copies of its members' arrays, and the update of all examples after it."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.direction import find_rates
from livesvm.solvers.active_set.exchange import gather_seen
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.loop import walk
from livesvm.solvers.active_set.reactivation import let_through
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.linalg.products import add_rows_and_multiply, add_rows_to_both, add_scaled
from livesvm.solvers.problem.piecewise_linear import FIRST, LAST
from livesvm.solvers.problem.state import Examples, Motion, is_free
from livesvm.solvers.runtime.by_reference import keep, refer
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.memory import LINE
from livesvm.solvers.runtime.types import Floats, Ints

CHANGE, RATE = range(2)  #: rows of the numbers of the betas that took part in an outer iteration


@compiled_allocating
def walk_working_set(w: Walk, members: Ints, n_seen: int) -> Exit:
    """Walk one outer iteration on copies of the arrays of ``members``, then update every example."""
    at_start, b_at_start, fac, m = w.at[0].tau, w.at[0].b, w.factor, members.size
    local, position = np.full(w.n, -1, np.int64), np.full(m, -1, np.int64)
    for i in range(m):
        local[members[i]] = i
    rename(fac.slot, fac.size[0], local, position)
    rows, seen_rows = buffer_for_rows(w.scratch, fac.size[1] + w.at[0].stride_end - w.at[0].events + 1, m, n_seen)
    examples, motion = examples_of(w.examples, members), motion_of(w.motion, members)
    walk_of_near = Walk(
        m,
        n_seen,
        w.intercept,
        refer(examples),
        refer(motion),
        refer(Factor(fac.R, fac.y, fac.column, fac.work, fac.slot, position, fac.size)),
        rows,
        np.full(m, -1, np.int64),
        seen_rows,
        np.zeros(m, np.bool_),
        members,
        w.rows,
        w.row_of,
        w.scratch,
        w.at,
        w.stop,
        w.tol,
    )
    near = refer(walk_of_near)
    w.at[0].rows = 0
    for k in range(fac.size[0]):
        if fac.slot[k] >= 0:
            gather_seen(near, fac.slot[k])
    outcome = walk(near, None, None)
    w.at[0].last = 0.0
    update_all_examples(near, w, at_start - w.at[0].tau, w.at[0].b - b_at_start)
    keep(examples)
    keep(motion)
    keep(position)
    keep(walk_of_near)
    return outcome


@compiled_allocating
def examples_of(e: Examples, members: Ints) -> Examples:
    """Return copies of the entries of ``e`` for ``members``."""
    return Examples(
        e.kinks[members],
        e.levels[members],
        e.dkinks[members],
        e.dlevels[members],
        e.n_kinks[members],
        e.segment[members],
        e.f[members],
        e.beta[members],
        e.diagonal[members],
    )


@compiled_allocating
def motion_of(v: Motion, members: Ints) -> Motion:
    """Return copies of the entries of ``v`` for ``members``."""
    return Motion(
        v.low[members],
        v.high[members],
        v.dlow[members],
        v.dhigh[members],
        v.v[members],
        v.bound_rate[members],
        v.df[members],
        v.dbeta[members],
        np.empty(members.size),
    )


@compiled_allocating
def buffer_for_rows(scratch: Floats, rows: int, m: int, n_seen: int) -> tuple[Floats, Floats]:
    """Return two arrays, (rows, m) and (rows, n_seen), in the scratch memory, or new arrays if it is too small.

    Rows are padded to whole cache lines, so that all rows are aligned if the memory is aligned.
    """
    m, n_seen = whole_lines(m), whole_lines(n_seen)
    if rows * (m + n_seen) > scratch.size:
        return np.empty((rows, m)), np.empty((rows, n_seen))
    seen, whole = rows * n_seen, rows * (n_seen + m)
    return scratch[seen:whole].reshape((rows, m)), scratch[:seen].reshape((rows, n_seen))


@compiled
def whole_lines(length: int) -> int:
    """Return ``length`` rounded up to whole cache lines."""
    return (length + LINE - 1) // LINE * LINE


@compiled
def rename(slot: Ints, size: int, name: Ints, position: Ints) -> None:
    """Replace the number of each example in the factor by its entry in ``name``, and set ``position`` to match."""
    for k in range(size):
        if slot[k] >= 0:
            slot[k] = name[slot[k]]
            position[slot[k]] = k


@compiled_allocating
def update_all_examples(near: Walk, w: Walk, used: float, db: float) -> None:
    """Update all examples after an outer iteration that moved tau by ``used`` and b by ``db``.

    The update reads the kernel rows of all free examples. The same rows give the next direction; at the end of the path
    they give f of the free examples instead.
    """
    e, motion, members = w.examples, w.motion, near.members
    change, df = motion.work, motion.df
    over = w.at[0].tau == 0.0
    for j in range(w.n):
        change[j] = used * motion.bound_rate[j] + db
        motion.dbeta[j] = 0.0
    w.factor.position[:] = -1
    rename(w.factor.slot, w.factor.size[0], members, w.factor.position)
    if not over:
        find_rates(w)
    row, moved = np.empty(near.n, np.int64), np.empty((2, near.n))
    m = 0
    for i in range(near.n):
        if near.row_of[i] >= 0:  # free at some time in the outer iteration
            slot = members[i]
            row[m] = w.row_of[slot]
            moved[CHANGE, m] = near.examples.beta[i] - e.beta[slot] - used * motion.v[slot]
            moved[RATE, m] = motion.dbeta[slot]
            m += 1
            if near.motion.v[i] != motion.v[slot]:
                add_scaled(w.rows[w.row_of[slot]], near.motion.v[i] - motion.v[slot], motion.bound_rate, w.n)
    w.at[0].work += 2.0 * m * w.n
    for j in range(w.n):
        df[j] = motion.bound_rate[j] + w.at[0].db
        motion.low[j] += used * motion.dlow[j]
        motion.high[j] += used * motion.dhigh[j]
        if not is_free(e.segment[j]):
            e.beta[j] += used * motion.v[j]
    for i in range(near.n):
        e.beta[members[i]] = near.examples.beta[i]
    if over:
        add_rows_and_multiply(w.rows, row[:m], moved[CHANGE], change, e.beta, moved[RATE], w.n)
    else:
        add_rows_to_both(w.rows, row[:m], moved, change, df, w.n)
    for j in range(w.n):
        e.f[j] += change[j]
    for i in range(near.n):
        slot = members[i]
        if i < near.n_seen:
            e.f[slot] = near.examples.f[i]
        e.segment[slot] = near.examples.segment[i]
        e.dkinks[slot, FIRST], e.dkinks[slot, LAST] = near.examples.dkinks[i, FIRST], near.examples.dkinks[i, LAST]
        motion.v[slot] = near.motion.v[i]
        motion.low[slot], motion.high[slot] = near.motion.low[i], near.motion.high[i]
        motion.dlow[slot], motion.dhigh[slot] = near.motion.dlow[i], near.motion.dhigh[i]
    if over:
        freshen(near, w, moved[RATE])
    for j in range(w.n):
        if not is_free(e.segment[j]) and (e.f[j] > motion.high[j] or e.f[j] < motion.low[j]):
            let_through(w, j)


@compiled
def freshen(near: Walk, w: Walk, products: Floats) -> None:
    """Set f of free examples from ``products`` of kernel rows and betas; ``at.drift`` receives the largest change."""
    f, m = w.examples.f, 0
    w.at[0].drift, w.at[0].fresh = 0.0, 1
    for i in range(near.n):
        if near.row_of[i] >= 0:
            slot = near.members[i]
            if is_free(w.examples.segment[slot]):
                fresh = products[m] + w.at[0].b
                w.at[0].drift = max(w.at[0].drift, abs(fresh - f[slot]))
                f[slot] = fresh
            m += 1
