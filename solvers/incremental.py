"""Learn and unlearn, correct and reweight: many examples at once, along one path [Karasuyama & Takeuchi].

New examples start at ``beta = 0`` on the piece of their loss where their f stands, leaving ones lose their loss. Both
are then off their levels, and ``follow`` takes them there together. What cannot be finished is undone as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.compile import compiled
from solvers.factor import delete
from solvers.follow import DEFAULT, Settings, Trace, follow
from solvers.fresh import BLOCK, cache_what_fits, compute_f, restore, stand
from solvers.kernels import times
from solvers.laps import LARGE
from solvers.losses import Losses
from solvers.state import Examples, PathState

FAR = 0.5  # of the mean distance of support vectors at a bound from their kinks: who is further out needs no kernel row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Edit(NamedTuple):
    """What happens to examples that are already there."""

    leave: Ints  #: slots of those who go
    changed: Ints  #: slots of those who get other losses
    losses: Losses  #: their losses from now on
    total: float = 0.0  #: what all betas sum up to afterwards


def update(state: PathState, X: Floats, losses: Losses, edit: Edit, settings: Settings = DEFAULT) -> tuple[Ints, Trace]:
    """Add examples ``X`` (m, d) with their losses, remove some, change the losses of others, along one path.

    Returns the slots of the new examples and what the walk did. On any error the state is as it was.

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``solvers.follow.follow``
    """
    with undone_on_error(state):
        slots = state.insert(X, losses)
        state.total = edit.total
        meet(state, slots, X)
        depart(state, edit.leave)
        convert(state, edit.changed, edit.losses)
        place(state, slots)
        if state.n > LARGE:
            forget_far(state)
        trace = follow(state, settings=settings)
        state.release(edit.leave)
    return slots, trace


def meet(state: PathState, slots: Ints, X: Floats) -> None:
    """Compute the f of new examples, and their columns in the kernel rows that are cached."""
    e, n, rows = state.examples, state.n_slots, state.rows
    beta = e.beta[:n]
    if slots.size <= BLOCK:
        rows.clock += 1
        held, slots = cache_what_fits(state, slots, state.free_slots())
        compute_f(e.f, beta, rows.values, rows.row_of, held, state.b)
        rows.update_columns(held, rows.values[:, :n], rows.row_of[held])
    elif not beta.any() and not rows.any():
        e.f[slots] = state.b
        return
    for start in range(0, slots.size, BLOCK):
        part = slots[start : start + BLOCK]
        block = state.kernel_rows(part)
        e.f[part] = times(block, beta) + state.b
        rows.update_columns(part, block, np.arange(part.size))


def place(state: PathState, slots: Ints) -> None:
    """Put examples that are not free on the piece of their loss where their f stands."""
    _place(state.examples, slots)


@compiled
def _place(e: Examples, slots: Ints) -> None:
    for slot in slots:
        f, piece = e.f[slot], 0
        for k in range(e.n_kinks[slot]):
            piece += f > e.kinks[slot, k]
        at_rest = f == e.kinks[slot, 0] and e.beta[slot] == e.levels[slot, 1]
        e.seg[slot] = 2 * (piece + at_rest)


def forget_far(state: PathState) -> None:
    """Drop the kernel rows of examples that no walk of this batch will come near: to keep them up to date has its cost.

    Those are without a coefficient, and far from their kinks beside support vectors at a bound.
    """
    slots = np.empty(state.n_slots, np.int64)
    state.rows.forget(slots[: _far(state.examples, state.rows.row_of, state.n_slots, slots)])


@compiled
def _far(e: Examples, row_of: Ints, n: int, out: Ints) -> int:
    """Write down who is far and has a kernel row; returns how many that are."""
    slack, supports = 0.0, 0
    for j in range(n):
        if e.seg[j] & 1 == 0 and e.beta[j] != 0.0 and e.n_kinks[j] > 0:
            slack += distance(e, j)
            supports += 1
    reach = FAR * slack / max(supports, 1)
    m = 0
    for j in range(n):
        rests = e.seg[j] & 1 == 0 and e.beta[j] == 0.0 and e.levels[j, e.seg[j] // 2] == 0.0
        if rests and row_of[j] >= 0 and distance(e, j) > reach:
            out[m] = j
            m += 1
    return m


@compiled
def distance(e: Examples, j: int) -> float:
    """Return how far the f of an example is from its nearest kink."""
    least = np.inf
    for k in range(e.n_kinks[j]):
        least = min(least, abs(e.f[j] - e.kinks[j, k]))
    return least


def depart(state: PathState, slots: Ints) -> None:
    """Take examples' losses away: their betas are now on their way to zero."""
    release_free(state, slots)
    state.drop_losses(slots)


def convert(state: PathState, slots: Ints, losses: Losses) -> None:
    """Give examples other losses; who keeps his kinks keeps his place, the others are placed anew."""
    if slots.size == 0:
        return
    e = state.examples
    moved = (e.n_kinks[slots] != losses.n_kinks) | (e.kinks[slots] != losses.kinks).any(axis=1)
    release_free(state, slots[moved])
    state.set_losses(slots, losses)
    place(state, slots[moved])


def release_free(state: PathState, slots: Ints) -> None:
    """Take examples out of the free block, where they are in it."""
    for slot in slots[state.factor.position[slots] >= 0]:
        delete(state.factor, int(slot))


@contextmanager
def undone_on_error(state: PathState) -> Iterator[None]:
    """Bring the state back to what it was when anything goes wrong inside."""
    n, vacant, standing = state.n_slots, list(state.vacant), stand(state)
    try:
        yield
    except BaseException:
        state.rows.forget(np.setdiff1d(np.arange(state.n_slots), np.flatnonzero(_in_use(n, vacant))))
        state.n_slots, state.vacant = n, vacant
        restore(state, standing)
        raise


def _in_use(n: int, vacant: list[int]) -> NDArray[np.bool_]:
    used = np.ones(n, np.bool_)
    used[vacant] = False
    return used
