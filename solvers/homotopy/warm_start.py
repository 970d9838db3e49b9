"""Building a state from known coefficients: compute f, correct errors, then compute kernel rows and the factor.

After a crash many models may have to be restored, so the work uses as many threads as ``runtime.threads`` allows. The
first write to new memory takes as long as computing the values, so each thread writes the values that it computes. A
model that is only used for predictions and certificates needs neither the kernel rows of its free examples nor their
factor: both are computed only when an update needs them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from livesvm.solvers.errors import MemoryLimit, NotOptimal
from livesvm.solvers.homotopy import linear
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import add_multiples, mean_diagonal
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace, follow
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Examples, PathState, are_free, capacity_for
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.memory import padded
from livesvm.solvers.runtime.threads import in_parts
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows

ROUNDING = 1e-9  #: part of the largest f: distance by which b may be outside the interval that the kinks allow


def resume(
    state: PathState,
    X: Features,
    losses: Losses,
    beta: Floats,
    segment: Ints,
    b: float,
    checkpoint: tuple[Floats, int] | None = None,
) -> Ints:
    """Fill an empty state with examples (n, d) of known coefficients and segments, and correct errors.

    If there are no errors, factor and kernel rows are computed later, when they are needed. ``checkpoint`` holds f
    (n,), which is then not recomputed, and the number of events since f was last computed. Returns the slots of the
    examples.

    Raises
    ------
    NotOptimal : the coefficients are damaged, or the optimum cannot be reached from them
    MemoryLimit : the kernel rows of the free examples do not fit into the cache
    """
    state.put_off(NO_EXAMPLES)
    state.resize(padded(X.shape[0]))
    slots = state.insert(X, losses)
    e = state.examples
    if not (np.isfinite(beta).all() and np.isfinite(b) and ((segment >= 0) & (segment <= 2 * losses.n_kinks)).all()):
        raise NotOptimal("the coefficients of this checkpoint are damaged")
    e.beta[slots] = beta
    e.segment[slots] = segment
    state.b = b
    state.kappa = mean_diagonal(state)
    free = _steadiest_first(state, slots[are_free(segment)])
    longest = 8 * capacity_for(slots.size)
    if free.size > max(1, state.cache_bytes // longest):
        raise MemoryLimit(longest * free.size, state.cache_bytes)
    if checkpoint is None:
        compute_all_f(state)
    else:
        e.f[slots], state.events_since_refresh = checkpoint
    state.put_off(free)
    audit = audited(state)
    if not audit.optimal(SETTINGS.goal):
        follow(state)
    if state.intercept and state.n_free == 0:
        _keep_intercept(state, b)
    return slots


def near_state(state: PathState, X: Floats, losses: Losses, standing: tuple[Floats, Ints, Floats]) -> PathState:
    """Return a new state, in slots 0 to m - 1, with examples of centered features ``X`` (m, d) and new ``losses``.

    ``standing`` holds the coefficients, segments and f of these examples, which need not be optimal for the new losses.
    Free examples that depend linearly on other free ones become bound, at the nearer end of their box.
    """
    kernel = replace(linear.kernel_of(state), center=None)
    near = PathState(kernel, state.build, intercept=state.intercept, cache_bytes=state.cache_bytes)
    near.put_off(NO_EXAMPLES)
    near.resize(padded(len(X)))
    slots = near.insert(X, losses)
    e = near.examples
    e.beta[slots], e.segment[slots], e.f[slots] = standing
    near.b, near.kappa = state.b, mean_diagonal(near)
    free = _steadiest_first(near, slots[are_free(e.segment[slots])])
    refactorize(near, free, SETTINGS.spoiled)
    _leave_dependent(e, near.factor, free)
    return near


def correct(state: PathState, trace: Trace) -> None:
    """Move a state to its optimum, given near-optimal coefficients, the matching f, and an empty factor.

    If free examples depend on each other, as copies do, one stays free; the others move to the nearer end of their box.
    """
    e, n = state.examples, state.n_slots
    state.kappa = mean_diagonal(state)
    free = _steadiest_first(state, np.flatnonzero(are_free(e.segment[:n])))
    refactorize(state, free, SETTINGS.spoiled)
    _leave_dependent(e, state.factor, free)
    follow(state, trace)


@compiled
def _leave_dependent(e: Examples, factor: Factor, free: Ints) -> None:
    """Make free examples that are not in the factor bound, on the piece at the nearer end of their box."""
    for slot in free:
        if factor.position[slot] < 0:
            q = e.segment[slot] // 2
            is_high = e.levels[slot, q] - e.beta[slot] < e.beta[slot] - e.levels[slot, q + 1]
            e.segment[slot] = 2 * q if is_high else 2 * q + 2


def _steadiest_first(state: PathState, free: Ints) -> Ints:
    """Sort free examples by distance from their boxes' ends, largest first: a factor drops its last examples fast."""
    e = state.examples
    q = e.segment[free] // 2
    low, high = e.levels[free, q + 1], e.levels[free, q]
    slack = np.minimum(e.beta[free] - low, high - e.beta[free]) / np.maximum(high - low, np.finfo(np.float64).tiny)
    return free[np.argsort(-slack, kind="stable")]


def compute_all_f(state: PathState) -> None:
    """Compute all f from beta, with each kernel value between two support vectors computed once.

    Support vectors are sorted last. For each part of the support vectors, kernel values with all examples up to the end
    of the part are computed.
    """
    e, n = state.examples, state.n_slots
    if linear.is_weighted(state):
        e.f[:n], state.events_since_refresh = linear.decisions(state), 0
        return
    is_support = e.beta[:n] != 0.0
    order = np.argsort(is_support, kind="stable")
    XT, beta = state.columns(order), e.beta[order]

    def contribute(part: Ints) -> tuple[Floats, Floats]:
        """Return what a part adds to f of earlier examples, and what all examples up to its end add to f of it."""
        start, stop = part[0], part[-1] + 1
        block = state.kernel.matrix(_rows_of(XT, start, stop), XT, stop)
        return _weighted(block, start, beta[start:stop]), times(block, beta[:stop])

    f = np.zeros(n)
    for given, taken in in_parts(contribute, np.arange(n - np.count_nonzero(is_support), n)):
        f[: given.size] += given
        f[given.size : given.size + taken.size] += taken
    e.f[order] = f + state.b
    state.events_since_refresh = 0


def _rows_of(XT: Features, start: int, stop: int) -> Features:
    return XT[start:stop] if isinstance(XT, SparseRows) else np.ascontiguousarray(XT[:, start:stop].T)


def _weighted(block: Floats, columns: int, coefficients: Floats) -> Floats:
    total = np.zeros(columns)
    every_example = np.arange(coefficients.size)
    add_multiples(total, block, every_example, every_example, coefficients)
    return total


def _keep_intercept(state: PathState, b: float) -> None:
    """Set b to its old value if that lies in the interval of b that is optimal when no example is free."""
    e, n = state.examples, state.n_slots
    f = e.f[:n] - state.b + b
    piece = e.segment[:n] // 2
    indices = np.arange(n)
    low = np.where(piece > 0, e.kinks[indices, np.maximum(piece - 1, 0)], -np.inf)
    high = np.where(piece < e.n_kinks[:n], e.kinks[indices, np.minimum(piece, e.kinks.shape[1] - 1)], np.inf)
    rounding = ROUNDING * max(1.0, float(np.abs(f).max()))
    if ((low - rounding <= f) & (f <= high + rounding)).all():
        state.b = b
        e.f[:n] = f
