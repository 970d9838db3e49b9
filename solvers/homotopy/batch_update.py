"""Add, remove, relabel and reweight many examples at once, along one path of solutions [Karasuyama & Takeuchi].

An update that cannot be finished is undone as a whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import by_features, linear
from livesvm.solvers.homotopy.coordinate_descent import PassRows, decide, descend_sparse, put_all, weighted
from livesvm.solvers.homotopy.decomposition import descend
from livesvm.solvers.homotopy.edit import compute_f_of_new, place
from livesvm.solvers.homotopy.refresh import BLOCK, Checkpoint, roll_back, take_checkpoint
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Solve, Trace, follow
from livesvm.solvers.homotopy.warm_start import correct
from livesvm.solvers.kernels.kernel import Kernel, times
from livesvm.solvers.kernels.row_cache import forget_row
from livesvm.solvers.problem.piecewise_linear import Losses, leaving
from livesvm.solvers.problem.state import Examples, PathState, is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import check, undisturbed
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense

FAR = 0.5  # part of the mean distance of bound support vectors from their kinks: further examples need no kernel row
NEAR = 0.1  # part of the mean distance of examples without a coefficient: nearer ones do not count as far
MANY = 0.4  # share of the window
FEW_EVENTS, FADING = 40, 0.8  # events of an update; share of earlier updates' events that still counts after each
SMALL = 600  # examples; in smaller windows all have a kernel row
LITTLE_COMES = 15_000  # kernel values of new examples
LITTLE_WORK, PAIR_WORK, FACTOR_WORK = 5e7, 60.0, 0.2  # products: see ``work_from_nothing``
FILLING = 2.5  # a path that fills a window may take this many times that work: pairs then make all kernel rows again


class Edit(NamedTuple):
    """The examples of a window that an update removes, and those with new losses."""

    leave: Ints  #: slots of the examples that leave
    changed: Ints  #: slots of the examples that get other losses
    losses: Losses  #: their losses from now on
    total: float = 0.0  #: the sum of all betas afterwards


def update(
    state: PathState,
    X: Features,
    losses: Losses,
    edit: Edit,
    undone: UndoneOnError | None = None,
    *,
    allowance: float = 1.0,
) -> tuple[Ints, Trace]:
    """Add examples ``X`` (m, d) with losses, and remove and change the examples that ``edit`` names, along one path.

    Returns the slots of the new examples, and a trace with counts of the path's events and work. After any error the
    state is as it was before. ``undone`` can undo the update later, and must have been made with ``edit``.
    ``allowance`` bounds the work of the path, as a multiple of the work of solving from nothing.

    Raises
    ------
    TooCostly : it takes more than ``allowance``
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``livesvm.solvers.homotopy.run.follow``
    """
    undone = undone or UndoneOnError(state, edit)
    with undone:
        n = state.n_slots + X.shape[0]
        if by_features.is_for(state, X, n):
            undone.keep()
            slots = state.insert(X, losses)
            state.total = edit.total
            return slots, by_features.update(state, slots, edit.leave, edit.changed, edit.losses)
        slots = state.insert(X, losses)
        state.total = edit.total
        is_far_left_out = needs_few_rows(state, slots.size)
        held = insert_batch(state, slots, is_far_left_out)
        e, rows, n = state.examples, state.rows, state.n_slots
        is_single = held.size == slots.size == 1  # the path computes its f
        if slots.size and not is_single:
            f_of_held = rows.values[rows.row_of[held], :n] @ e.beta[:n] + state.b
            state.unlearnt = [*f_of_held.tolist(), *e.f[slots[held.size :]].tolist()]
        if is_far_left_out:
            hold_near(state, slots)
        allowed, solving = allowance * work_from_nothing(state.n, state.n_free), Solve(state)
        solving.begin(undone.n, held, edit.leave, edit.changed, edit.losses)
        undone.solving = solving
        trace = follow(state, None, allowed, solving)
        if is_single and solving.now is not None:
            state.unlearnt = [float((solving.found or solving.now[0]).foretold)]
        state.events = max(float(trace.events), FADING * state.events)
        state.release(edit.leave) if solving.found is None else state.vacate(edit.leave)
    return slots, trace


def is_another_window(state: PathState, edit: Edit, come: int) -> bool:
    """Say whether an edit that adds ``come`` examples changes more examples of the window than it keeps.

    An example counts as kept if only its weight is new, because the kinks of its loss stay the same.
    """
    remaining = state.n - edit.leave.size + come
    if edit.leave.size + edit.changed.size + come <= remaining:
        return False
    e = state.examples
    others = edit.changed[(e.kinks[edit.changed] != edit.losses.kinks).any(axis=1)]
    moving = int(np.count_nonzero(e.beta[edit.leave])) + int(np.count_nonzero(e.beta[others]))
    return moving > 0 and moving + come > remaining > 0


def losses_after(state: PathState, edit: Edit, stay: Ints, come: Losses) -> Losses:
    """Return the losses after an edit: those of the slots ``stay``, followed by the new examples' losses ``come``."""
    losses, place = state.losses(stay), np.full(state.n_slots, -1)
    place[stay] = np.arange(stay.size)
    for mine, new in zip(losses, edit.losses, strict=True):
        mine[place[edit.changed]] = new
    return Losses(*(np.concatenate(both) for both in zip(losses, come, strict=True)))


def from_nothing(
    old: PathState,
    stay: Ints,
    edit: Edit,
    X: Features,
    come: Losses,
    kernel: Kernel | None = None,
    by_path: bool = True,
) -> tuple[PathState, Ints, Trace]:
    """Solve the edited problem from nothing, without the solution of the old state.

    Parameters
    ----------
    stay : slots of the examples that stay
    X : (n, d) features of all examples in the end, those that stay first
    come : losses of the others
    kernel : another one than before
    by_path : False: a path has been given up

    Returns
    -------
    A new state, the slots of all examples in it, and what was done.
    """
    state = PathState(kernel or old.kernel, old.build, intercept=old.intercept, cache_bytes=old.cache_bytes)
    slots, trace = fill(state, X, losses_after(old, edit, stay, come), edit.total, by_path)
    return state, slots, trace


def fill(state: PathState, X: Features, losses: Losses, total: float, by_path: bool = True) -> tuple[Ints, Trace]:
    """Fill an empty state with examples ``X`` (m, d) along a path, or by decomposition if a path fails or costs more.

    Returns the slots of the examples and what was done. If ``by_path`` is false, decomposition is tried first, because
    a path has failed in this window. After any error the state is as it was before.

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : neither way leads to an optimum
    """
    if by_features.is_for(state, X, X.shape[0], fills=True):
        try:
            with UndoneOnError(state):
                return by_features.fill(state, dense(X), losses, total)
        except NotOptimal:
            return _fill_by_pairs(state, X, losses, total)
    if linear.is_of_features(state.kernel) and isinstance(X, SparseRows) and X.shape[0] >= linear.LEAST:
        by_path = False  # a descent needs no kernel rows
    nothing_else = Edit(NO_EXAMPLES, NO_EXAMPLES, leaving(0), total)
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
    """Fill an empty state by ``decomposition``, and correct the result along a path.

    For sparse examples with a linear kernel, coordinate descent replaces decomposition, as it needs no kernel rows.
    """
    trace = Trace(abandoned=1)
    with UndoneOnError(state):
        slots = state.insert(X, losses)
        state.total = total
        if linear.is_of_features(state.kernel) and isinstance(X, SparseRows):
            found = descend_sparse(X, losses, total, state.intercept)
            state.b, rows = found.b, PassRows.of(X)
            put_all(state.examples, found.beta)
            decide(rows, weighted(rows, found.beta, X.width), state.b, state.examples.f[: slots.size])
        else:
            descend(state)
        correct(state, trace)
    return slots, trace


def work_from_nothing(n: int, n_free: int) -> float:
    """Estimate how many products it takes to solve ``n`` examples from nothing if ``n_free`` of them end up free.

    Computing kernel rows and moving pairs of coefficients takes some dozens of products for each pair of examples.
    Factoring the free block takes ``n_free ** 3 / 3`` products, which count less because they are computed in blocks.
    """
    return LITTLE_WORK + PAIR_WORK * n**2 + FACTOR_WORK * n_free**3


def needs_few_rows(state: PathState, m: int) -> bool:
    """Say whether to do without kernel rows of examples far from their kinks when an update adds ``m`` examples.

    Kernel rows of such examples are not kept in a large window, nor in a smaller window in which few examples have a
    coefficient. A window that is not large keeps all kernel rows if the update adds few examples, or if recent paths
    had many events.
    """
    n = state.n_slots
    if n <= LARGE and (n < SMALL or m * n < LITTLE_COMES or state.events > FEW_EVENTS):
        return False
    return n > LARGE or int(np.count_nonzero(state.examples.beta[:n])) <= MANY * n


def insert_batch(state: PathState, slots: Ints, is_far_left_out: bool) -> Ints:
    """Compute kernel values of the new examples ``slots``, and place examples; return slots that the edit must place.

    Whole kernel rows are computed, as far as the cache has space, if ``is_far_left_out`` is false or most columns are
    needed. In all other cases only f and the columns that ``columns_that_count`` returns are computed. The rows of the
    returned examples are cached.
    """
    e, n, rows = state.examples, state.n_slots, state.rows
    held, columns = NO_EXAMPLES, columns_that_count(state) if is_far_left_out else None
    if slots.size <= BLOCK and (columns is None or columns.size > MANY * n):
        rows.clock += 1
        held, slots = state.cache_what_fits(slots, state.free_slots())
        if is_far_left_out:  # the placed examples decide which rows are kept
            compute_f_of_new(e, rows.values, rows.row_of, held, n, state.b, np.empty(held.size, np.int64))
            held = NO_EXAMPLES
        columns = None
    if slots.size == 0:
        return held
    columns = columns_that_count(state) if columns is None else columns
    XT = state.columns(columns)
    for start in range(0, slots.size, BLOCK):
        check()
        part = slots[start : start + BLOCK]
        block = state.kernel.matrix(state.features(part), XT)
        e.f[part] = times(block, e.beta[columns]) + state.b
        place(e, part)
        rows.update_columns(part, columns, block, np.arange(part.size))
    return held


def decisions(state: PathState, X: Features) -> list[float]:
    """Return the decision values of examples ``X`` (m, d) outside the window, stored in the same form as the window."""
    e, out = state.examples, np.full(X.shape[0], state.b)
    columns = np.flatnonzero(e.beta[: state.n_slots])
    if columns.size:
        XT, beta = state.columns(columns), e.beta[columns]
        for start in range(0, out.size, BLOCK):
            check()
            part = slice(start, start + BLOCK)
            out[part] += times(state.kernel.matrix(X[part], XT), beta)
    found: list[float] = out.tolist()
    return found


def columns_that_count(state: PathState) -> Ints:
    """Return the slots with a coefficient or a cached kernel row; new examples need their kernel values with these."""
    n = state.n_slots
    return np.flatnonzero((state.examples.beta[:n] != 0.0) | (state.rows.row_of[:n] >= 0))


def hold_near(state: PathState, slots: Ints) -> None:
    """Cache the kernel rows of the new examples ``slots`` near a kink, and drop the rows of all far examples.

    An example is far if it has no coefficient, and its f is further from its kinks than is usual for bound examples.
    """
    rows, near = state.rows, np.empty(slots.size, np.int64)
    held = rows.row_of[: state.n_slots], rows.slot_of, rows.used
    count = _forget_far(state.examples, state.motion.work, *held, slots, near)
    if slots.size <= BLOCK:
        state.cache_what_fits(near[:count], state.free_slots())


@compiled
def _forget_far(e: Examples, way: Floats, row_of: Ints, slot_of: Ints, used: Ints, slots: Ints, near: Ints) -> int:
    """Drop the kernel rows of far examples; fill ``near`` with those ``slots`` near a kink that have no kernel row."""
    slack, supports, rest, others = 0.0, 0, 0.0, 0
    for j in range(row_of.size):
        way[j] = distance(e, j)
        if not is_free(e.segment[j]) and e.n_kinks[j] > 0:
            if e.beta[j] != 0.0:
                slack += way[j]
                supports += 1
            else:
                rest += way[j]
                others += 1
    reach = max(FAR * slack / max(supports, 1), NEAR * rest / max(others, 1))
    for j in range(row_of.size):
        rests = not is_free(e.segment[j]) and e.beta[j] == 0.0 and e.levels[j, e.segment[j] // 2] == 0.0
        way[j] = way[j] if rests else 0.0
        if way[j] > reach:
            forget_row(row_of, slot_of, used, j)
    m = 0
    for slot in slots:
        if way[slot] <= reach and row_of[slot] < 0:
            near[m] = slot
            m += 1
    return m


@compiled
def distance(e: Examples, j: int) -> float:
    """Return how far the f of an example is from its nearest kink."""
    least = np.inf
    for k in range(e.n_kinks[j]):
        least = min(least, abs(e.f[j] - e.kinks[j, k]))
    return least


class UndoneOnError:
    """Context that brings a state back to what it was when an error occurs inside it.

    Inside the context, losses may change only for new examples and those in ``edit``; without ``edit``, for all
    examples. With ``edit``, the context is for one ``update``, which itself copies the data needed to undo it.
    """

    def __init__(self, state: PathState, edit: Edit | None = None) -> None:
        self.state, self.edit = state, edit
        self.n, self.vacant, self.capacity = state.n_slots, list(state.vacant), state.capacity
        self._numbers = state.numbers
        self.solving: Solve | None = None  #: keeps all old places, once its edit has begun
        self._is_undone = False
        self._checkpoint = take_checkpoint(state) if edit is None else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.undo()

    def keep(self) -> None:
        """Copy the coefficients, f and pieces of all examples now, for changes made without a ``Solve``."""
        indices = None if self.edit is None else np.concatenate([self.edit.leave, self.edit.changed])
        self._checkpoint = take_checkpoint(self.state, indices, self.n)._replace(numbers=self._numbers)

    def undo(self) -> None:
        """Bring the state back now, and drop the examples added since; a second call does nothing."""
        if self._is_undone:
            return
        if self.solving is not None and self.solving.is_kept:
            self._checkpoint = self.solving.kept(self._numbers)
        elif self._checkpoint is None:  # nothing has been changed yet
            self.keep()
        assert self._checkpoint is not None
        bring_back(self.state, self.n, self.vacant, self.capacity, self._checkpoint)
        self._is_undone = True


def bring_back(state: PathState, n: int, vacant: list[int], capacity: int, checkpoint: Checkpoint) -> None:
    """Bring a state back to ``checkpoint``, taken when it had ``n`` slots, of which ``vacant`` held no example.

    The call takes little time and cannot fail, because the factor is built later, when it is needed.
    """
    # An interrupt halfway would mix the earlier state with that of the update.
    with undisturbed():
        state.empty_factor()
        state.rows.forget(np.union1d(np.arange(n, state.n_slots), np.array(vacant, np.int64)))
        state.n_slots, state.vacant = n, vacant
        if state.capacity > capacity:  # longer rows would leave space for fewer
            state.resize(capacity)
        roll_back(state, checkpoint)
        state.drop_losses(np.array(vacant, np.int64))
        state.put_off(checkpoint.free)
