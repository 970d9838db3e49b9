"""A state from its coefficients: kernel rows, factor and f are computed afresh, and what is off is corrected.

Bringing a model back is what a crash costs, so that it is done by as many threads as ``solvers.cores`` allows; memory
is written to for the first time by several threads too, which takes as long as computing what is written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from solvers.audit import audited
from solvers.cores import in_parts
from solvers.errors import NotOptimal
from solvers.factor import solve_forward
from solvers.follow import DEFAULT, Settings, follow
from solvers.fresh import SPARE, add_multiples, mean_diagonal, refactor
from solvers.losses import Losses
from solvers.state import PathState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDING = 1e-9  #: of the largest f: how far b may be outside of what the kinks leave it


def resume(
    state: PathState,
    X: Floats,
    losses: Losses,
    beta: Floats,
    seg: Ints,
    b: float,
    settings: Settings = DEFAULT,
) -> Ints:
    """Fill an empty state with examples (n, d) whose coefficients and segments are known, and correct what is off.

    Returns their slots.

    Raises
    ------
    NotOptimal : the coefficients are damaged, or the optimum cannot be reached from them
    MemoryLimit : the kernel rows of the free examples do not fit into the cache
    """
    slots = state.insert(X, losses)
    e = state.examples
    if not (np.isfinite(beta).all() and np.isfinite(b) and ((seg >= 0) & (seg <= 2 * losses.n_kinks)).all()):
        raise NotOptimal("the coefficients of this checkpoint are damaged")
    e.beta[slots] = beta
    e.seg[slots] = seg
    state.b = b
    state.kappa = mean_diagonal(state)
    free = _steadiest_first(state, slots[(seg & 1) == 1])
    _compute_rows(state, free)
    if not _factored(state, free):
        refactor(state, free)
    _compute_f(state)
    audit = audited(state)
    if not (audit.balanced and audit.good(settings.goal)):
        follow(state, settings=settings)
    if state.intercept and state.n_free == 0:
        _keep_intercept(state, b)
    return slots


def _steadiest_first(state: PathState, free: Ints) -> Ints:
    """Order free examples by how far they are from the ends of their boxes: the last in a factor leave it cheaply."""
    e = state.examples
    q = e.seg[free] // 2
    low, high = e.levels[free, q + 1], e.levels[free, q]
    slack = np.minimum(e.beta[free] - low, high - e.beta[free]) / np.maximum(high - low, np.finfo(np.float64).tiny)
    return free[np.argsort(-slack, kind="stable")]


def _compute_rows(state: PathState, free: Ints) -> None:
    """Fill an empty cache with the kernel rows of ``free``, and with no others: these are all that a path needs."""
    state.rows.make_room(free.size)
    state.rows.store(free, np.empty((free.size, 0)), free)
    values, row_of, n = state.rows.values, state.rows.row_of, state.n_slots

    def compute(part: Ints) -> None:
        values[row_of[part], :n] = state.kernel_rows(part)

    in_parts(compute, free)


def _factored(state: PathState, free: Ints) -> bool:
    """Factor the free block by LAPACK; False where a pivot is lost in rounding, with a factor that is still empty."""
    m = free.size
    if m == 0:
        return True
    state.make_room_for_free(m + SPARE)
    fac, kappa = state.factor, state.kappa if state.intercept else 0.0
    _gather(state, free, kappa)
    fac.R[range(m, fac.R.shape[0]), range(m, fac.R.shape[0])] = 1.0  # the places to come: LAPACK takes the whole array
    _, info = dpotrf(fac.R.T, lower=True, clean=False, overwrite_a=True)  # in place: R in the array is R' of the other
    pivots = fac.R.diagonal()[:m] ** 2
    if info != 0 or (pivots <= DEFAULT.dependent * (state.examples.diagonal[free] + kappa)).any():
        fac.R[:] = 0.0
        return False
    fac.R[m:] = 0.0
    fac.y[0, :m], fac.y[1, :m] = 0.0, 1.0
    solve_forward(fac.R, m, fac.y[1])
    fac.slot[:m] = free
    fac.position[free] = np.arange(m)
    fac.size[:] = m
    return True


def _gather(state: PathState, free: Ints, kappa: float) -> None:
    """Write the upper triangle of ``K_FF + kappa 1 1'`` to where the factor will be; nothing is written below it."""
    R, m, rows, row_of = state.factor.R, free.size, state.rows.values, state.rows.row_of

    def gather(part: Ints) -> None:
        start, stop = int(part[0]), int(part[-1]) + 1
        R[start:stop, start:m] = rows[np.ix_(row_of[free[start:stop]], free[start:])]
        R[start:stop, start:m] += kappa
        corner = R[start:stop, start:stop]
        corner[:] = np.triu(corner)

    in_parts(gather, np.arange(m))


def _compute_f(state: PathState) -> None:
    """Compute f from beta; kernel rows that are not cached are forgotten again."""
    n, beta = state.n_slots, state.examples.beta
    rows, row_of = state.rows.values, state.rows.row_of

    def share(part: Ints) -> Floats:
        """What these examples contribute; all of them have a cached row or none has."""
        total = np.zeros(n)
        if row_of[part[0]] >= 0:
            add_multiples(total, rows, row_of[part], beta[part])
        else:
            add_multiples(total, state.kernel_rows(part), np.arange(part.size), beta[part])
        return total

    support = np.flatnonzero(beta[:n])
    cached = row_of[support] >= 0
    shares = in_parts(share, support[cached]) + in_parts(share, support[~cached])
    state.examples.f[:n] = sum(shares, np.full(n, state.b))
    state.events_since_refresh = 0


def _keep_intercept(state: PathState, b: float) -> None:
    """With nobody free b may be any of an interval: take the one that was, if it is in there."""
    e, n = state.examples, state.n_slots
    f = e.f[:n] - state.b + b
    piece = e.seg[:n] // 2
    who = np.arange(n)
    low = np.where(piece > 0, e.kinks[who, np.maximum(piece - 1, 0)], -np.inf)
    high = np.where(piece < e.n_kinks[:n], e.kinks[who, np.minimum(piece, e.kinks.shape[1] - 1)], np.inf)
    rounding = ROUNDING * max(1.0, float(np.abs(f).max()))
    if ((low - rounding <= f) & (f <= high + rounding)).all():
        state.b = b
        e.f[:n] = f
