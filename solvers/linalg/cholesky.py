"""Cholesky factor of the free block, the kernel matrix of the free examples: append, delete, solve.

The factor is the upper triangle ``R`` with ``R'R = K_FF + kappa 1 1'``. Its rows are contiguous, so that both
triangular solves, appending and deleting read memory in order. A deleted position becomes a row and column of the
identity ("dead"), so that no data move; ``compact`` removes dead positions from time to time.

The factor also has two forward-solved right-hand sides, ``y[RHS] = R^-T rhs`` and ``y[ONES] = R^-T 1``. Every rotation
of ``R`` is applied to these too, so that a new direction costs one backward solve.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.memory import aligned, padded
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats, Ints

RHS, ONES = range(2)  #: rows of the forward-solved right-hand sides


@by_reference
class Factor(NamedTuple):
    """The factor of the free block, and two forward-solved right-hand sides; capacity ``c``."""

    R: Floats  #: (c, c) upper triangle
    y: Floats  #: (2, c) forward-solved right-hand sides, rows RHS and ONES
    column: Floats  #: (c,) work: the forward-solved column of the example that enters
    work: Floats  #: (c,) work: solutions
    slot: Ints  #: (c,) the example at a position; -1: dead
    position: Ints  #: (slots,) the position of an example; -1: not free
    size: Ints  #: (2,) numbers of positions in use and of live ones


def empty_factor(capacity: int, slots: int) -> Factor:
    """Return an empty factor with space for ``capacity`` free examples out of ``slots``."""
    return Factor(
        aligned(capacity, capacity, make=np.zeros),
        aligned(2, capacity, make=np.zeros),
        np.zeros(capacity),
        np.zeros(capacity),
        np.full(capacity, -1, np.int64),
        np.full(slots, -1, np.int64),
        np.zeros(2, np.int64),
    )


def grown(old: Factor, capacity: int, slots: int) -> Factor:
    """Return a copy of a factor with space for ``capacity`` free examples."""
    new = empty_factor(capacity, slots)
    n = int(old.size[0])
    new.R[:n, :n] = old.R[:n, :n]
    new.y[:, :n] = old.y[:, :n]
    new.slot[:n] = old.slot[:n]
    new.position[: old.position.size] = old.position[:slots]
    new.size[:] = old.size
    return new


def with_room(fac: Factor, extra: int = 1) -> Factor:
    """Return a factor that can take ``extra`` more examples: this one, or a larger copy."""
    capacity = fac.R.shape[0]
    needed = int(fac.size[0]) + extra
    return fac if needed <= capacity else grown(fac, padded(max(needed, 32, 3 * capacity // 2)), fac.position.size)


@compiled
def solve_forward(R: Floats, n: int, y: Floats) -> None:
    """Solve ``R' x = y`` in place, four rows at a time, so that ``y`` is read and written once for four rows."""
    k = 0
    while k + 4 <= n:
        x0 = y[k] / R[k, k]
        x1 = (y[k + 1] - R[k, k + 1] * x0) / R[k + 1, k + 1]
        x2 = (y[k + 2] - R[k, k + 2] * x0 - R[k + 1, k + 2] * x1) / R[k + 2, k + 2]
        x3 = (y[k + 3] - R[k, k + 3] * x0 - R[k + 1, k + 3] * x1 - R[k + 2, k + 3] * x2) / R[k + 3, k + 3]
        y[k], y[k + 1], y[k + 2], y[k + 3] = x0, x1, x2, x3
        r0, r1, r2, r3 = R[k, k + 4 : n], R[k + 1, k + 4 : n], R[k + 2, k + 4 : n], R[k + 3, k + 4 : n]
        rest = y[k + 4 : n]
        for j in range(rest.size):
            rest[j] -= x0 * r0[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j]
        k += 4
    while k < n:
        x = y[k] / R[k, k]
        y[k] = x
        for j in range(k + 1, n):
            y[j] -= x * R[k, j]
        k += 1


@compiled
def solve_backward(R: Floats, n: int, y: Floats) -> None:
    """Solve ``R x = y`` in place, four rows at a time."""
    whole = n - n % 4
    for k in range(n - 1, whole - 1, -1):
        total = y[k]
        for j in range(k + 1, n):
            total -= R[k, j] * y[j]
        y[k] = total / R[k, k]
    for k in range(whole - 4, -1, -4):
        r0, r1, r2, r3 = R[k, k + 4 : n], R[k + 1, k + 4 : n], R[k + 2, k + 4 : n], R[k + 3, k + 4 : n]
        rest = y[k + 4 : n]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for j in range(rest.size):
            t0 += r0[j] * rest[j]
            t1 += r1[j] * rest[j]
            t2 += r2[j] * rest[j]
            t3 += r3[j] * rest[j]
        x3 = (y[k + 3] - t3) / R[k + 3, k + 3]
        x2 = (y[k + 2] - t2 - R[k + 2, k + 3] * x3) / R[k + 2, k + 2]
        x1 = (y[k + 1] - t1 - R[k + 1, k + 2] * x2 - R[k + 1, k + 3] * x3) / R[k + 1, k + 1]
        x0 = (y[k] - t0 - R[k, k + 1] * x1 - R[k, k + 2] * x2 - R[k, k + 3] * x3) / R[k, k]
        y[k], y[k + 1], y[k + 2], y[k + 3] = x0, x1, x2, x3


@compiled
def schur(fac: Factor, column: Floats, diagonal: float) -> float:
    """Forward-solve the column of an example to be appended, in place; return the square of its pivot."""
    n = fac.size[0]
    solve_forward(fac.R, n, column)
    total = 0.0
    for k in range(n):
        total += column[k] * column[k]
    return diagonal - total


@compiled
def append(fac: Factor, column: Floats, pivot2: float, slot: int, rhs: float) -> None:
    """Append an example with a known forward-solved ``column``, squared pivot and entry of the right-hand side."""
    n = fac.size[0]
    pivot = np.sqrt(pivot2)
    dot_rhs = 0.0
    dot_one = 0.0
    for k in range(n):
        fac.R[k, n] = column[k]
        dot_rhs += column[k] * fac.y[RHS, k]
        dot_one += column[k] * fac.y[ONES, k]
    fac.R[n, n] = pivot
    fac.y[RHS, n] = (rhs - dot_rhs) / pivot
    fac.y[ONES, n] = (1.0 - dot_one) / pivot
    fac.slot[n] = slot
    fac.position[slot] = n
    fac.size[0] = n + 1
    fac.size[1] += 1


@compiled
def delete(fac: Factor, slot: int) -> None:
    """Remove an example: rotate its row into the rows below, and mark its position as dead.

    Afterwards ``column`` has the forward-solved column of the removed example for the remaining block: its column of
    the factor, with the same rotations applied.
    """
    R, y, column = fac.R, fac.y, fac.column
    n = fac.size[0]
    p = fac.position[slot]
    x = fac.work
    for j in range(p + 1, n):
        x[j] = R[p, j]
        R[p, j] = 0.0
    x_rhs, x_one, x_own = y[RHS, p], y[ONES, p], R[p, p]
    for k in range(p + 1, n):
        column[k] = 0.0
        if x[k] == 0.0:
            continue
        r = np.sqrt(R[k, k] * R[k, k] + x[k] * x[k])
        c, s = R[k, k] / r, x[k] / r
        R[k, k] = r
        row, rest = R[k, k + 1 : n], x[k + 1 : n]
        for j in range(rest.size):
            t = row[j]
            row[j] = c * t + s * rest[j]
            rest[j] = c * rest[j] - s * t
        t = y[RHS, k]
        y[RHS, k] = c * t + s * x_rhs
        x_rhs = c * x_rhs - s * t
        t = y[ONES, k]
        y[ONES, k] = c * t + s * x_one
        x_one = c * x_one - s * t
        column[k] = s * x_own
        x_own = c * x_own
    for k in range(p):
        column[k] = R[k, p]
        R[k, p] = 0.0
    column[p] = 0.0
    R[p, p] = 1.0
    y[RHS, p] = 0.0
    y[ONES, p] = 0.0
    fac.slot[p] = -1
    fac.position[slot] = -1
    fac.size[1] -= 1
    while fac.size[0] > 0 and fac.slot[fac.size[0] - 1] < 0:
        fac.size[0] -= 1


@compiled
def compact(fac: Factor) -> None:
    """Remove the dead positions that deletions have left in the factor."""
    n, m = fac.size[0], 0
    for k in range(n):
        if fac.slot[k] < 0:
            continue
        j_new = m
        for j in range(k, n):
            if fac.slot[j] >= 0:
                fac.R[m, j_new] = fac.R[k, j]
                j_new += 1
        fac.y[RHS, m] = fac.y[RHS, k]
        fac.y[ONES, m] = fac.y[ONES, k]
        m += 1
    m = 0
    for k in range(n):
        if fac.slot[k] >= 0:
            fac.slot[m] = fac.slot[k]
            fac.position[fac.slot[m]] = m
            m += 1
    fac.size[0] = m


Block = Callable[[slice, slice], Floats]

PANEL = 256  #: rows that are eliminated together
TILE = 512  #: columns of a panel that one thread takes at once


def factor_block(R: Floats, m: int, block: Block) -> bool:
    """Write ``R`` with ``R'R = K`` to the upper triangle of the first ``m`` rows and columns, and nothing below it.

    ``block(rows, columns)`` returns a part of K (m, m) that may be kept. Returns whether K is positive definite except
    for rounding; if not, ``R`` is incomplete.
    """
    from scipy.linalg.lapack import dpotrf  # imported on first use, so that a start does not wait for it

    panels = [slice(start, min(m, start + PANEL)) for start in range(0, m, PANEL)]
    ahead = block(panels[0], panels[0])
    for panel, following in zip(panels, [*panels[1:], slice(m, m)], strict=True):
        corner = ahead - _product(R, slice(max(0, panel.start - PANEL), panel.start), panel, panel)
        lower, info = dpotrf(corner.T, lower=True, clean=True, overwrite_a=True)
        if info != 0:
            return False
        R[panel, panel] = lower.T
        tiles = [slice(start, min(m, start + TILE)) for start in range(panel.stop, m, TILE)]
        works = [partial(_left_of, R, panel.start, block, following, following)]
        works += [partial(_eliminate, R, panel, lower, block, tile) for tile in tiles]
        ahead = together(works)[0]  # the next corner, before this panel is subtracted from it
    return True


def _eliminate(R: Floats, panel: slice, lower: Floats, block: Block, tile: slice) -> Floats:
    """Compute one tile of ``R`` to the right of a diagonal tile that is factored already."""
    from scipy.linalg.blas import dtrsm

    left = _left_of(R, panel.start, block, panel, tile)
    dtrsm(1.0, lower, left.T, side=1, lower=True, trans_a=True, overwrite_b=True)  # in place
    R[panel, tile] = left
    return left


def _left_of(R: Floats, done: int, block: Block, rows: slice, columns: slice) -> Floats:
    """Return a part of K less the contribution of the first ``done`` rows of the factor ``R``."""
    left = block(rows, columns)
    left -= _product(R, slice(0, done), rows, columns)
    return left


def _product(R: Floats, done: slice, rows: slice, columns: slice) -> Floats:
    product: Floats = R[done, rows].T @ R[done, columns]
    return product
