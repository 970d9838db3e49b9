"""Learn and unlearn, correct and reweight: many examples at once, along one path [Karasuyama & Takeuchi].

New examples start at ``beta = 0`` on the piece of their loss where their f stands, leaving ones lose their loss. Both
are then off their levels, and ``follow`` takes them there together. What cannot be finished is undone as a whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.decomposition import descend
from livesvm.solvers.homotopy.recompute import BLOCK, Standing, cache_what_fits, compute_f, reinstate, stand
from livesvm.solvers.homotopy.run import NOBODY, Trace
from livesvm.solvers.homotopy.solve import follow
from livesvm.solvers.homotopy.warm_start import correct
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.kernels.row_cache import transpose_into
from livesvm.solvers.problem.piecewise_linear import Losses, leaving
from livesvm.solvers.problem.state import Examples, PathState, release_free
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import check, undisturbed
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features

FAR = 0.5  # of the mean distance of support vectors at a bound from their kinks: who is further out needs no kernel row
MANY = 0.4  # of the window
LITTLE_WORK, PAIR_WORK, FACTOR_WORK = 5e7, 60.0, 0.2  # products: see ``work_from_nothing``
FILLING = 2.5  # of that, what a path may take that fills a window: pairs then compute all kernel rows again


class Edit(NamedTuple):
    """What happens to examples that are already there."""

    leave: Ints  #: slots of those who go
    changed: Ints  #: slots of those who get other losses
    losses: Losses  #: their losses from now on
    total: float = 0.0  #: what all betas sum up to afterwards

    @property
    def who(self) -> Ints:
        """Slots of all of them."""
        return np.concatenate([self.leave, self.changed]) if self.changed.size else self.leave


def update(
    state: PathState,
    X: Features,
    losses: Losses,
    edit: Edit,
    undone: UndoneOnError | None = None,
    *,
    allowance: float = 1.0,
) -> tuple[Ints, Trace]:
    """Add examples ``X`` (m, d) with their losses, remove some, change the losses of others, along one path.

    Returns the slots of the new examples and what the walk did. On any error the state is as it was; ``undone`` is for
    who may want to take the update back later, and has it made for who leaves and changes. ``allowance`` is what the
    path may take of the work of solving from nothing.

    Raises
    ------
    TooCostly : it takes more than ``allowance``
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``livesvm.solvers.homotopy.solve.follow``
    """
    with undone or UndoneOnError(state, edit.who):
        slots = state.insert(X, losses)
        state.total = edit.total
        meet(state, slots)
        depart(state, edit.leave)
        convert(state, edit.changed, edit.losses)
        if state.n > LARGE:
            hold_near(state, slots)
        trace = follow(state, allowance=allowance * work_from_nothing(state.n, state.n_free))
        state.release(edit.leave)
    return slots, trace


def fill(state: PathState, X: Features, losses: Losses, total: float, by_path: bool = True) -> tuple[Ints, Trace]:
    """Fill an empty state with examples ``X`` (m, d): along a path, or where that fails or costs more, by pairs.

    Returns their slots and what was done. Without ``by_path`` pairs come first, for a window whose path has failed. On
    any error the state is as it was.

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : neither way leads to an optimum
    """
    nothing_else = Edit(NOBODY, NOBODY, leaving(0), total)
    if by_path:
        try:
            return update(state, X, losses, nothing_else, allowance=FILLING)
        except NotOptimal:
            return _fill_by_pairs(state, X, losses, total)
    try:
        return _fill_by_pairs(state, X, losses, total)
    except NotOptimal:
        slots, trace = update(state, X, losses, nothing_else, allowance=math.inf)
        trace.abandoned = 1
        return slots, trace


def _fill_by_pairs(state: PathState, X: Features, losses: Losses, total: float) -> tuple[Ints, Trace]:
    """Fill an empty state by ``decomposition``, whose result a path corrects."""
    trace = Trace(abandoned=1)
    with UndoneOnError(state):
        slots = state.insert(X, losses)
        state.total = total
        descend(state)
        correct(state, trace)
    return slots, trace


def work_from_nothing(n: int, n_free: int) -> float:
    """Return about how many products it takes to solve ``n`` examples from nothing, ``n_free`` of which end up free.

    Kernel rows and steps of pairs take some dozens for each two examples, the factor a third of the cube of those that
    are free, in blocks that take a third of the time.
    """
    return LITTLE_WORK + PAIR_WORK * n**2 + FACTOR_WORK * n_free**3


def meet(state: PathState, slots: Ints) -> None:
    """Compute the f of new examples, place them, and put their columns into the kernel rows that are cached.

    Those are the columns that count now. In a small window, or where they are many, all are computed, which makes the
    examples' own rows.
    """
    e, n, rows = state.examples, state.n_slots, state.rows
    if slots.size <= BLOCK and (n <= LARGE or columns_that_count(state).size > MANY * n):
        rows.clock += 1
        held, slots = cache_what_fits(state, slots, state.free_slots())
        _meet(e, rows.values, rows.row_of, held, n, state.b)
    if slots.size == 0:
        return
    columns = columns_that_count(state)
    XT = state.columns(columns)
    for start in range(0, slots.size, BLOCK):
        check()
        part = slots[start : start + BLOCK]
        block = state.kernel.matrix(state.features(part), XT)
        e.f[part] = times(block, e.beta[columns]) + state.b
        place(e, part)
        rows.update_columns(part, columns, block, np.arange(part.size))


@compiled_allocating
def _meet(e: Examples, rows: Floats, row_of: Ints, slots: Ints, n: int, b: float) -> None:
    """Compute the f of new examples whose rows are cached, place them, and fill their columns in other such rows."""
    compute_f(e.f, e.beta[:n], rows, row_of, slots, b)
    place(e, slots)
    transpose_into(rows, row_of[:n], slots, rows, row_of[slots])


def columns_that_count(state: PathState) -> Ints:
    """Return who has a coefficient or a kernel row: whose kernel values with new examples are needed at once."""
    n = state.n_slots
    return np.flatnonzero((state.examples.beta[:n] != 0.0) | (state.rows.row_of[:n] >= 0))


@compiled
def place(e: Examples, slots: Ints) -> None:
    """Put examples that are not free on the piece of their loss where their f stands."""
    for slot in slots:
        f, piece = e.f[slot], 0
        for k in range(e.n_kinks[slot]):
            piece += f > e.kinks[slot, k]
        at_rest = f == e.kinks[slot, 0] and e.beta[slot] == e.levels[slot, 1]
        e.segment[slot] = 2 * (piece + at_rest)


def hold_near(state: PathState, slots: Ints) -> None:
    """Cache the kernel rows of new examples ``slots``, but of those who are far, and drop those of all who are.

    They have no coefficient, and are far from their kinks beside the support vectors at a bound.
    """
    far = np.zeros(state.n_slots, np.bool_)
    _find_far(state.examples, far)
    state.rows.forget(np.flatnonzero(far))
    if slots.size <= BLOCK:
        cache_what_fits(state, state.rows.missing(slots[~far[slots]]), state.free_slots())


@compiled
def _find_far(e: Examples, far: Bools) -> None:
    slack, supports = 0.0, 0
    for j in range(far.size):
        if e.segment[j] & 1 == 0 and e.beta[j] != 0.0 and e.n_kinks[j] > 0:
            slack += distance(e, j)
            supports += 1
    reach = FAR * slack / max(supports, 1)
    for j in range(far.size):
        rests = e.segment[j] & 1 == 0 and e.beta[j] == 0.0 and e.levels[j, e.segment[j] // 2] == 0.0
        far[j] = rests and distance(e, j) > reach


@compiled
def distance(e: Examples, j: int) -> float:
    """Return how far the f of an example is from its nearest kink."""
    least = np.inf
    for k in range(e.n_kinks[j]):
        least = min(least, abs(e.f[j] - e.kinks[j, k]))
    return least


def depart(state: PathState, slots: Ints) -> None:
    """Take examples' losses away: their betas are now on their way to zero."""
    state.drop_losses(slots)


def convert(state: PathState, slots: Ints, losses: Losses) -> None:
    """Give examples other losses; who keeps his kinks keeps his place, the others are placed anew."""
    if slots.size == 0:
        return
    e = state.examples
    moved = (e.n_kinks[slots] != losses.n_kinks) | (e.kinks[slots] != losses.kinks).any(axis=1)
    release_free(state.factor, slots[moved])
    state.set_losses(slots, losses)
    place(e, slots[moved])


class UndoneOnError:
    """Brings a state back to what it was when anything goes wrong inside.

    Nobody may get other losses there but ``who``, by default everyone, and those who come.
    """

    def __init__(self, state: PathState, who: Ints | None = None) -> None:
        self.state = state
        self.n, self.vacant, self.capacity = state.n_slots, list(state.vacant), state.capacity
        self.standing = stand(state, who)

    def __enter__(self) -> None:
        pass

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.undo()

    def undo(self) -> None:
        """Bring the state back now; who has come since is gone."""
        bring_back(self.state, self.n, self.vacant, self.capacity, self.standing)


def bring_back(state: PathState, n: int, vacant: list[int], capacity: int, standing: Standing) -> None:
    """Bring a state back to ``standing``, with so many slots, of which some were vacant.

    That takes little time and cannot fail: the factor, which may take long, is put off.
    """
    with undisturbed():
        state.empty_factor()
        state.rows.forget(np.setdiff1d(np.arange(state.n_slots), np.flatnonzero(_in_use(n, vacant))))
        state.n_slots, state.vacant = n, vacant
        if state.capacity > capacity:  # longer rows would leave room for fewer
            state.resize(capacity)
        reinstate(state, standing)
        state.drop_losses(np.array(vacant, np.int64))
        state.put_off(standing.free)


def _in_use(n: int, vacant: list[int]) -> Bools:
    used = np.ones(n, np.bool_)
    used[vacant] = False
    return used
