"""One small update of a model that keeps neither features nor kernel rows, in memory that all such models share.

If a model were restored only to add one example and drop one, and then stored again, most of the time would be spent on
arrays that are dropped afterwards. Here the model is written into a path state that each thread keeps, with only the
kernel rows that a short path needs. A few decisions are computed from the same memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import extend
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.errors import MemoryLimit, NotOptimal
from livesvm.solvers.homotopy.batch_update import distance, work_from_nothing
from livesvm.solvers.homotopy.edit import NO_BATCH, ClassBatch, Progress, Work
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import SPARE
from livesvm.solvers.homotopy.run import (
    NO_CHANGES,
    NO_EXAMPLES,
    NO_KIND,
    NO_PAIR,
    Solve,
    follow,
    walk_on,
    workspace_of,
)
from livesvm.solvers.homotopy.solve import Stage, solve
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.homotopy.warm_start import compute_all_f
from livesvm.solvers.kernels.kernel import Kernel, squared_distances, times
from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses
from livesvm.solvers.problem.state import Examples, PathState, are_free, is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.entry_point import entry_point
from livesvm.solvers.runtime.interrupt import check, watch
from livesvm.solvers.runtime.memory import padded
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense

MOST = 8  #: examples that come and leave
LARGEST = 1024  #: examples of a window: the memory of larger ones is not kept by every thread
NEAR = 6  #: kernel rows that are made of bound examples, as these are the nearest to a kink
CACHE_BYTES = 8 * (2 * LARGEST) ** 2

_here = threading.local()

Write = Callable[[Ints, Floats], None]
"""Writes features of examples, by key, to the first columns of an array (d, c)."""


class Standing(NamedTuple):
    """The solution of a window: coefficients and segments of its examples, with keys and targets, oldest first."""

    keys: Ints
    y: Floats  #: targets
    beta: Floats
    segments: Ints  #: of few bytes
    f: Floats
    b: float
    events: int  #: since f was computed

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Standing:
        """Return the solution in a model's ``to_warm_arrays``, where the keys are an array of whole numbers."""
        b, events = float(arrays["intercept"]), int(arrays["events"])
        return cls(arrays["keys"], arrays["y"], arrays["beta"], arrays["segments"], arrays["f"], b, events)


class Objective(NamedTuple):
    """The problem that a model with an intercept solves."""

    kernel: Kernel  #: rbf
    losses: Losses  #: of the labels -1 and 1; of other targets that of 0, twice
    along: float  #: 1: kinks lie by the target further up

    @classmethod
    def of(cls, model: LiveEstimator) -> Objective:
        """Return the objective of a model with the kernel rbf, an intercept, and losses independent of each other."""
        assert model.kernel == "rbf"
        assert model.fit_intercept
        along = 0.0 if "classes" in model.get_params() else 1.0
        losses = model.losses_of(np.array([-1.0, 1.0]) * (1.0 - along), np.ones(2))
        return cls(Kernel("rbf", float(model.gamma)), losses, along)


class Sliding(NamedTuple):
    """A model to be updated by ``slide``: its objective and its features."""

    objective: Objective
    n_features: int  #: of an example
    write: Write  #: writes the features of examples


@by_reference
class Space(NamedTuple):
    """Work arrays into which a window is written."""

    examples: Examples
    factor: Factor
    XT: Floats
    values: Floats  #: of the row cache, as the next three
    row_of: Ints
    slot_of: Ints
    used: Ints
    come: Ints  #: of the edit that a solve begins with, as the next
    leave: Ints
    free: Ints  #: (c,) work: slots of the free examples


class Memory:
    """A path state into which one thread writes its models in turn, and the functions compiled for its arrays."""

    def __init__(self, objective: Objective, n: int, n_features: int) -> None:
        self.state = PathState(objective.kernel, refactorize, intercept=True, cache_bytes=CACHE_BYTES)
        self.state.expect(np.empty((0, n_features)))
        self.state.resize(padded(n))
        self.now = Progress.of()  #: of the first round of a solve
        self.look(objective)

    def look(self, objective: Objective) -> None:
        """Collect the arrays of the state for compiled functions; all objectives have arrays of the same types."""
        state, rows, edit, one = self.state, self.state.rows, workspace_of(self.state), np.empty((1, 1))
        cache = rows.values, rows.row_of, rows.slot_of, rows.used
        work = edit.come, edit.leave, edit.moving[0]
        self.space = space = Space(state.examples, state.factor, dense(state.XT), *cache, *work)
        self.place = entry_point(_place, space, one[0], 0, objective.losses, 1.0)
        self.make_rows = entry_point(_make_rows, space, one[0], 0, objective.losses, 1.0, (0, 0, 0), 1.0, 0)
        self.factor, self.times = entry_point(_factor, space, 0, 1.0), entry_point(times, one, one[0])
        self._first = edit.work(self.now, NO_CHANGES, (rows.slot_of, rows.used))
        walk = walk_on(state, (edit.status, edit.stop, edit.tolerances))
        self._walks = {walk.n: walk}  #: by the number of examples
        self._solve = entry_point(_solve, walk, self._first, NO_BATCH, space.XT, 1.0)

    def hold(self, stood: Standing, size: int) -> None:
        """Write a window's solution into the state, with space for ``size`` examples; ``place`` sets the losses."""
        state, e, n = self.state, self.space.examples, stood.y.size
        e.beta[:n], e.segment[:n], e.f[:n] = stood.beta, stood.segments, stood.f
        state.n_slots, state.vacant, state.total, state.b, state.kappa = size, [], 0.0, stood.b, 1.0
        state.events_since_refresh, state.heaviest, state.drift = stood.events, 0.0, 0.0

    def solve(self, n: int, sizes: tuple[int, int, int], n_free: int) -> None:
        """Follow the path of the edit in the buffers, after which there were ``n`` old examples; see ``follow``.

        The first compiled call uses arrays of earlier calls; a ``Solve`` is made only if that call does not finish.
        """
        state, XT, gamma = self.state, self.space.XT, self.state.kernel.gamma
        size = state.n_slots
        walk = self._walks.get(size)
        if walk is None:
            walk = self._walks[size] = next(iter(self._walks.values()))._replace(n=size, n_seen=size)
        stop, allowance = walk.stop, work_from_nothing(size, n_free)
        stop[0], state.rows.clock = 0, state.rows.clock + 1
        watch(stop, 0)
        own = state.b, state.kappa, state.rows.clock, 0, state.events_since_refresh
        round_ = (*own, 1.0, SETTINGS.dust, allowance, state.heaviest, state.drift)
        mean = 1.0 if state.n_free <= sizes[1] + sizes[2] else 0.0  # of the kernel's diagonal
        Progress.put(self.now, Stage.EDIT, *sizes, 0, 0, n, size, state.total, mean, *round_)
        check()
        exit_ = self._solve(walk, self._first, NO_BATCH, XT, gamma)
        if exit_ == Exit.DONE:
            found = Progress.snapshot(self.now)
            state.b, state.events_since_refresh = found.b, found.since + found.walked
            return
        solving = Solve(state, _solve, XT, gamma)
        solving.n_before, solving.sizes = n, sizes
        solving.go_on(self.now, exit_, (NO_BATCH, NO_KIND), NO_PAIR)
        follow(state, None, allowance, solving)


def slide(
    model: Sliding, stood: Standing, keys: Ints, y: Floats, leaving: int, ahead: Ints
) -> tuple[Standing, Floats] | None:
    """Add examples to a model with an intercept and remove the oldest, along one path.

    Returns the solution for all examples after the update, and f(x) of a few newer examples ``ahead`` (k,), as (k,).
    Returns None if too much moves or the path fails; the whole model must then be updated instead.
    """
    n, m, k = stood.keys.size, keys.size, ahead.size
    size = n + m
    is_small = m + leaving <= MOST and 2 * leaving < n and size <= LARGEST and k <= MOST
    if not is_small or stood.beta.size != n:
        return None
    memory = _borrowed(model, size + k)  # which has as many kernel rows
    state, space, names = memory.state, memory.space, np.concatenate([stood.keys, keys, ahead])
    targets = np.concatenate([stood.y, y], dtype=np.float64)
    model.write(names, space.XT)
    width = state.capacity if state.capacity - size < size // 8 else size  # whole rows are side by side, and so quicker
    memory.hold(stood, size)
    goal, gamma = model.objective, state.kernel.gamma
    found, n_free = memory.make_rows(space, targets, n, goal.losses, goal.along, (size, leaving, k), gamma, width)
    made = space.values[: found + k, :width]
    np.exp(made, out=made)
    values = made[found:, leaving:size].copy()  # before the path uses the space
    try:
        if n_free + SPARE > state.factor.slot.size:
            state.make_room_for_free(n_free + SPARE)
            memory.look(model.objective)
        memory.factor(memory.space, n_free, state.kappa)
        memory.solve(n, (m, leaving, 0), n_free)
    except (NotOptimal, MemoryLimit):
        return None
    e, there = state.examples, slice(leaving, size)
    segments = e.segment[there].astype(stood.segments.dtype)
    beta, f, b = e.beta[there].copy(), e.f[there].copy(), float(state.b)
    after = Standing(names[there], targets[there], beta, segments, f, b, state.events_since_refresh)
    return after, memory.times(values, beta) + b


def stand(model: Sliding, stood: Standing) -> Floats | None:
    """Return the decisions for all examples, (n,), by the coefficients of ``stood``; None if these are not optimal."""
    n, most = stood.keys.size, 2 * int(model.objective.losses.n_kinks[0])
    is_whole = np.isfinite(stood.beta).all() and math.isfinite(stood.b)
    if not (is_whole and ((stood.segments >= 0) & (stood.segments <= most)).all()):
        return None
    memory = _borrowed(model, n)
    state = memory.state
    model.write(stood.keys, memory.space.XT)
    memory.hold(stood, n)
    memory.place(memory.space, np.array(stood.y, np.float64), n, model.objective.losses, model.objective.along)
    compute_all_f(state)
    state.put_off(np.flatnonzero(are_free(stood.segments)))
    audit = audited(state)
    state.put_off(NO_EXAMPLES)
    return state.examples.f[:n].copy() if audit.optimal(SETTINGS.goal) else None


def decide(model: Sliding, stood: Standing, X: Floats) -> Floats:
    """Return the decisions f(x) of a model for a few rows ``X`` (m, d), as (m,)."""
    memory = _borrowed(model, stood.keys.size)
    model.write(stood.keys, memory.space.XT)
    values = model.objective.kernel.matrix(X, memory.space.XT, stood.keys.size)
    return times(values, stood.beta) + stood.b


def _borrowed(model: Sliding, n: int) -> Memory:
    """Return this thread's memory, with space for ``n`` examples; its contents are not used."""
    memory: Memory | None = getattr(_here, "memory", None)
    if memory is None or memory.state.capacity < n or memory.state.n_features != model.n_features:
        memory = _here.memory = Memory(model.objective, n, model.n_features)
    memory.state.kernel = model.objective.kernel
    if memory.space.factor is not memory.state.factor:  # which has grown
        memory.look(model.objective)
    return memory


@compiled
def _place(space: Space, targets: Floats, n: int, losses: Losses, along: float) -> None:
    """Set the losses of all examples, and coefficients from ``n`` on to 0; empty the row cache and the factor."""
    e = space.examples
    for j in range(targets.size):
        loss = 1 if targets[j] > 0.0 else 0
        for k in range(MAX_KINKS):
            e.kinks[j, k] = losses.kinks[loss, k] + along * targets[j]
        for k in range(MAX_KINKS + 1):
            e.levels[j, k] = losses.levels[loss, k]
        e.n_kinks[j], e.diagonal[j] = losses.n_kinks[loss], 1.0
    for j in range(n, targets.size):
        e.beta[j], e.segment[j], e.f[j] = 0.0, 0, 0.0
    space.row_of[:], space.slot_of[:], space.used[:] = -1, -1, 0
    space.factor.position[:], space.factor.size[:] = -1, 0


@compiled_allocating
def _make_rows(
    space: Space,
    targets: Floats,
    n: int,
    losses: Losses,
    along: float,
    sizes: tuple[int, int, int],
    gamma: float,
    width: int,
) -> tuple[int, int]:
    """Set up ``n`` old examples and the new ones, write the edit, and write the exponents of kernel rows.

    ``sizes`` has three counts: of all examples with the new ones, of the oldest examples that leave, and of further
    examples to predict, which get the last kernel rows. Each kernel row gets ``width`` columns. Returns how many
    examples have a row, and how many of these are free.
    """
    _place(space, targets, n, losses, along)
    (size, leaving, others), n_free = sizes, 0
    slots = np.empty(size + others, np.int64)
    count = _rows_wanted(space.examples, n, size, leaving, slots)
    rows = np.arange(count + others)
    slots[count : count + others] = np.arange(size, size + others)
    A = np.empty((rows.size, space.XT.shape[0]))
    for k in range(A.shape[1]):
        for i in range(rows.size):
            A[i, k] = space.XT[k, slots[i]]
    squared_distances(A, space.XT, 0, width, -gamma, space.values, rows)
    for i in range(count):
        j = slots[i]
        space.row_of[j], space.slot_of[i] = i, j
        if j < n and is_free(space.examples.segment[j]):
            space.free[n_free] = j
            n_free += 1
    for i in range(size - n):
        space.come[i] = n + i
    for i in range(leaving):
        space.leave[i] = i
    return count, n_free


@compiled_allocating
def _solve(w: Walk, s: Work, batch: ClassBatch, XT: Floats, gamma: float) -> int:
    """Solve, and compute kernel rows that the path needs and the cache lacks; see ``homotopy.solve.solve``."""
    outcome, unused = solve(w, s, batch), 0
    while outcome == Exit.NEED_ROW.value and w.at[0].switching >= 0:
        slot, A, at = w.at[0].switching, np.empty((1, XT.shape[0])), np.empty(1, np.int64)
        while unused < s.slot_of.size and s.slot_of[unused] >= 0:
            unused += 1
        if unused == s.slot_of.size:
            break
        A[0], at[0] = XT[:, slot], unused
        row = w.rows[unused]
        squared_distances(A, XT, 0, w.n, -gamma, w.rows, at)
        for j in range(w.n):
            row[j] = math.exp(row[j])
        w.row_of[slot], s.slot_of[unused], s.used[unused] = unused, slot, s.now[0].clock
        outcome = solve(w, s, batch)
    return outcome


@compiled
def _factor(space: Space, n_free: int, kappa: float) -> None:
    """Compute the Cholesky factor of the kernel matrix of the free examples."""
    extend(space.factor, space.values, space.row_of, space.free[:n_free], space.examples.diagonal, kappa, 0.0)


@compiled_allocating
def _rows_wanted(e: Examples, n: int, size: int, leaving: int, out: Ints) -> int:
    """Write to ``out`` the slots of examples that probably need kernel rows on a path; return how many there are.

    These are the free examples, the examples that come and leave, and the bound examples nearest to a kink of their
    loss.
    """
    near, least = np.empty(NEAR, np.int64), np.full(NEAR, np.inf)
    for j in range(leaving, n):
        if is_free(e.segment[j]):
            continue
        off, slot = distance(e, j), j
        if off >= least[-1]:
            continue
        for k in range(NEAR):
            if off < least[k]:
                least[k], off = off, least[k]
                near[k], slot = slot, near[k]
    m = 0
    for j in range(size):
        if j < leaving or j >= n or is_free(e.segment[j]):
            out[m] = j
            m += 1
    for k in range(NEAR):
        if least[k] < np.inf:
            out[m] = near[k]
            m += 1
    return m
