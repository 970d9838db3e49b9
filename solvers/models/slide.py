"""One small update of a model that keeps neither features nor kernel rows, on memory that all such models share.

A model that comes back for one example more and one less, and is put away again, would spend most of the time on what
it gives up. Here it is written into a state that its thread keeps, with the kernel rows that so short a path needs, and
decides on a few rows from what is written there.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import extend
from livesvm.solvers.errors import MemoryLimit, NotOptimal
from livesvm.solvers.homotopy.batch_update import distance, work_from_nothing
from livesvm.solvers.homotopy.follow import follow
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import SPARE
from livesvm.solvers.homotopy.run import NO_CHANGES, NO_EXAMPLES, Solve
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.homotopy.warm_start import compute_all_f
from livesvm.solvers.kernels.kernel import Kernel, times
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Examples, PathState, are_free, is_free
from livesvm.solvers.runtime.compile import compiled_allocating
from livesvm.solvers.runtime.memory import padded
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense

MOST = 8  #: examples that come and leave
LARGEST = 1024  #: examples of a window: the memory of larger ones is not kept by every thread
NEAR = 24  #: kernel rows that are made of bound examples, as these are the nearest to a kink
CACHE_BYTES = 8 * (2 * LARGEST) ** 2

_here = threading.local()

Write = Callable[[Ints, Floats], None]
"""Writes features of examples, by key, to the first columns of an array (d, c)."""


class Standing(NamedTuple):
    """Where the examples of a window stand, oldest first."""

    keys: Ints
    y: Floats  #: targets
    beta: Floats
    segments: Ints  #: of few bytes
    f: Floats
    b: float
    events: int  #: since f was computed

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Standing:
        """Return that of a model's ``to_warm_arrays``; its keys are an array of whole numbers."""
        b, events = float(arrays["intercept"]), int(arrays["events"])
        return cls(arrays["keys"], arrays["y"], arrays["beta"], arrays["segments"], arrays["f"], b, events)


class Sliding(NamedTuple):
    """The model that slides."""

    gamma: float  #: of the kernel rbf
    losses: Callable[[Floats, Floats], Losses]  #: gives those of targets (n,) with weights (n,)
    n_features: int  #: of an example
    write: Write  #: writes the features of examples

    @classmethod
    def of(cls, model: LiveEstimator, n_features: int, write: Write) -> Sliding:
        """Return what a model with these parameters is; it has the kernel rbf, an intercept and losses of its own."""
        assert model.kernel == "rbf"
        assert model.fit_intercept
        return cls(float(model.gamma), model.losses_of, n_features, write)


def slide(
    model: Sliding, stood: Standing, keys: Ints, y: Floats, leaving: int, X: Floats
) -> tuple[Standing, Floats] | None:
    """Add examples to a model with an intercept and let the oldest leave, along one path.

    Returns where all stand then, and f(x) of few rows ``X`` (k, d), as (k,); or None where that is for an update of the
    whole model: where much moves, or the path fails.
    """
    n, m = stood.keys.size, keys.size
    size = n + m
    is_small = m + leaving <= MOST and 2 * leaving < n and size <= LARGEST and len(X) <= MOST
    if not is_small or stood.beta.size != n:
        return None
    state = _borrowed(model, size + len(X))  # which has as many kernel rows
    names, targets = np.concatenate([stood.keys, keys]), np.concatenate([stood.y, y])
    model.write(names, dense(state.XT))
    _fill(state, model.losses(targets, np.ones(size)), stood)
    slots = np.empty(size, np.int64)
    found = int(_rows_wanted(state.examples, n, size, leaving, slots))
    try:
        values = _make_rows(state, slots[:found], X)[:, leaving:].copy()  # before the path uses the space
        _factor(state, n)
        solving = Solve(state)
        solving.begin_with(n, np.arange(n, size), np.arange(leaving), NO_EXAMPLES, NO_CHANGES)
        follow(state, None, work_from_nothing(state.n, state.n_free), solving)
    except (NotOptimal, MemoryLimit):
        return None
    e, there = state.examples, slice(leaving, size)
    segments = e.segment[there].astype(stood.segments.dtype)
    beta, f, b = e.beta[there].copy(), e.f[there].copy(), float(state.b)
    after = Standing(names[leaving:], targets[leaving:], beta, segments, f, b, state.events_since_refresh)
    return after, times(values, beta) + b


def stand(model: Sliding, stood: Standing) -> Floats | None:
    """Return f of all examples, (n,), computed from the rest of where they stand; None where that is no optimum."""
    n = stood.keys.size
    losses = model.losses(stood.y, np.ones(n))
    is_whole = np.isfinite(stood.beta).all() and math.isfinite(stood.b)
    if not (is_whole and ((stood.segments >= 0) & (stood.segments <= 2 * losses.n_kinks)).all()):
        return None
    state = _borrowed(model, n)
    model.write(stood.keys, dense(state.XT))
    _fill(state, losses, stood)
    compute_all_f(state)
    state.put_off(np.flatnonzero(are_free(stood.segments)))
    audit = audited(state)
    state.put_off(NO_EXAMPLES)
    return state.examples.f[:n].copy() if audit.optimal(SETTINGS.goal) else None


def decide(model: Sliding, stood: Standing, X: Floats) -> Floats:
    """Return f(x) for few rows ``X`` (m, d), as the model stands, (m,)."""
    state = _borrowed(model, stood.keys.size)
    model.write(stood.keys, dense(state.XT))
    values = state.kernel.matrix(X, state.XT, stood.keys.size)
    return times(values, stood.beta) + stood.b


def _borrowed(model: Sliding, n: int) -> PathState:
    """Return this thread's state, with space for ``n`` examples; what is in it is not used."""
    state: PathState | None = getattr(_here, "state", None)
    if state is None or state.capacity < n or state.n_features != model.n_features:
        state = _here.state = PathState(_kernel(model.gamma), refactorize, intercept=True, cache_bytes=CACHE_BYTES)
        state.expect(np.empty((0, model.n_features)))
        state.resize(padded(n))
    state.kernel = _kernel(model.gamma)
    return state


@lru_cache(maxsize=256)
def _kernel(gamma: float) -> Kernel:
    return Kernel("rbf", gamma)


def _fill(state: PathState, losses: Losses, stood: Standing) -> None:
    """Hold the examples of a window, and behind them new ones; of none there are kernel rows."""
    e, n, size = state.examples, stood.keys.size, losses.n_kinks.size
    e.kinks[:size], e.levels[:size], e.n_kinks[:size] = losses
    e.beta[:n], e.segment[:n], e.f[:n] = stood.beta, stood.segments, stood.f
    e.beta[n:size], e.segment[n:size], e.f[n:size] = 0.0, 0, 0.0
    e.diagonal[:size] = 1.0
    state.n_slots, state.vacant, state.total, state.b, state.kappa = size, [], 0.0, stood.b, 1.0
    state.events_since_refresh, state.heaviest, state.drift = stood.events, 0.0, 0.0
    rows, factor = state.rows, state.factor
    rows.row_of[:], rows.slot_of[:], rows.used[:] = -1, -1, 0
    factor.position[:], factor.size[:] = -1, 0


def _make_rows(state: PathState, slots: Ints, X: Floats) -> Floats:
    """Compute kernel rows into the empty cache; return those of rows ``X`` (k, d), which lie behind them, (k, n)."""
    rows, count, size = state.rows, slots.size, state.n_slots
    at = np.arange(count + len(X))
    assert at.size <= len(rows.values)
    width = state.capacity if state.capacity - size < size // 8 else size  # whole rows are side by side, and so quicker
    state.kernel.write(np.concatenate([state.features(slots), X]), state.XT, width, rows.values, at)
    rows.hold(slots, at[:count])
    return rows.values[count : at.size, :size]


def _factor(state: PathState, n: int) -> None:
    """Factor the free block of the first ``n`` examples."""
    free = np.flatnonzero(are_free(state.examples.segment[:n]))
    state.make_room_for_free(free.size + SPARE)
    e, rows = state.examples, state.rows
    extend(state.factor, rows.values, rows.row_of, free, e.diagonal, state.kappa, 0.0)


@compiled_allocating
def _rows_wanted(e: Examples, n: int, size: int, leaving: int, out: Ints) -> int:
    """Fill ``out`` with the slots of the kernel rows that a path needs, or is likely to; return how many there are.

    These are the free examples, those that come and leave, and the bound ones that are the nearest to a kink.
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
