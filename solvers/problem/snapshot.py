"""A separate copy of a state, for work that must leave the state unchanged."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.kernels.row_cache import RowCache
from livesvm.solvers.linalg.cholesky import Factor, grown
from livesvm.solvers.problem.state import Examples, PathState
from livesvm.solvers.runtime.types import Ints
from livesvm.solvers.sparse import SparseRows

LITTLE = 100_000  #: this many kernel values are copied or computed in hardly more time than a few rows


def compact_copy(state: PathState, slots: Ints) -> PathState:
    """Return a copy of a state with all its examples, now in ``slots`` (m,), in the slots 0 to m - 1.

    The copy includes the factor and the cached kernel rows; for a large window it includes only rows of support
    vectors. The copy shares the values of a precomputed kernel matrix, so no example can be added to the copy.
    """
    copy = PathState(
        state.kernel, state.build, intercept=state.intercept, total=state.total, cache_bytes=state.cache_bytes
    )
    m = slots.size
    copy.n_slots = copy.capacity = m
    copy.n_features, copy.is_sparse = state.n_features, state.is_sparse
    if bool((slots == np.arange(m)).all()):  # plain copies cost less
        copy.XT = state.columns(slots) if isinstance(state.XT, SparseRows) else state.XT[:, :m].copy()
        copy.examples = Examples._make(array[:m].copy() for array in state.examples)
    else:
        copy.XT = state.columns(slots)
        copy.examples = Examples._make(array[slots] for array in state.examples)
    copy.b, copy.kappa = state.b, state.kappa
    copy.events_since_refresh, copy.heaviest, copy.drift = state.events_since_refresh, state.heaviest, state.drift
    old, name = state.factor, np.full(state.capacity, -1, np.int64)
    name[slots] = np.arange(m)
    renamed = {"slot": np.where(old.slot >= 0, name[old.slot], -1), "position": old.position[slots]}
    copy.factor = Factor._make(array.copy() for array in old)._replace(**renamed)
    cached = state.rows.row_of[slots] >= 0
    if slots.size**2 > LITTLE:
        cached &= copy.examples.beta != 0.0
    copy.rows.copy_from(state.rows, slots, np.flatnonzero(cached))
    return copy


def sharing_copy(state: PathState, extra: int) -> PathState:
    """Return a copy with shared features and kernel rows, all read-only; ``extra`` more examples can become free."""
    copy = PathState(
        state.kernel, state.build, intercept=state.intercept, total=state.total, cache_bytes=state.cache_bytes
    )
    names = "n_slots", "capacity", "vacant", "XT", "n_features", "is_sparse"
    numbers = "b", "kappa", "events_since_refresh", "heaviest", "drift"
    vars(copy).update({name: getattr(state, name) for name in (*names, *numbers)})
    copy.examples = Examples._make(array.copy() for array in state.examples)
    copy.factor = grown(state.factor, int(state.factor.size[0]) + extra, state.capacity)
    rows, own = state.rows, RowCache(state.cache_bytes)
    own.values, own.clock = rows.values, rows.clock
    own.row_of, own.slot_of, own.used = rows.row_of.copy(), rows.slot_of.copy(), rows.used.copy()
    vars(copy)["rows"] = own
    return copy
