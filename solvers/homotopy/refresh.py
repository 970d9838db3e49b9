"""Fetching kernel rows, and recomputing f, sums of rows and the factor from the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.degeneracy import clear, extend
from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.linalg.products import add_rows
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Numbers, PathState, are_free
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import check, parts
from livesvm.solvers.runtime.types import Floats, Ints

BLOCK = 256  #: kernel rows computed at once
CLOSE = 1e-10  #: of the scale of f: further from a kink, rounding cannot take an example across it unnoticed
UNSEEN = 10.0  #: bound f are assumed to be off by this many times the errors found in free ones
NOTHING = 1e-12  #: a beta below this part of its level may be 0, and an f below this part of its largest possible size
SPARE = 64  #: places in a new factor for further free examples


def need_rows(state: PathState, slots: Ints) -> None:
    """Cache those kernel rows of ``slots`` that are not cached yet; the slots must be distinct.

    Raises
    ------
    MemoryLimit : the rows do not fit into the cache together
    """
    missing = state.rows.missing(slots)
    if missing.size == 0:
        return
    if slots.size > state.rows.max_rows:
        raise MemoryLimit(8 * state.capacity * slots.size, state.rows.limit)
    state.cache_rows(missing, slots)


def combine(state: PathState, slots: Ints, coefficients: Floats) -> Floats:
    """Return ``sum_j c_j k(x_j, .)`` (n_slots,), the sum of the kernel rows of ``slots`` times ``coefficients``."""
    n = state.n_slots
    total = np.zeros(n)
    if slots.size == 0:
        return total
    missing = state.rows.missing(slots)
    for part in parts(slots.size, n):
        add_multiples(total, state.rows.values, state.rows.row_of, slots[part], coefficients[part])
    if missing.size:
        by_slot = np.zeros(n)
        by_slot[slots] = coefficients
        if missing.size <= BLOCK or state.rows.max_rows >= n:
            held, missing = state.cache_what_fits(missing, state.free_slots())
            add_multiples(total, state.rows.values, state.rows.row_of, held, by_slot[held])
        for start in range(0, missing.size, BLOCK):
            check()
            those = missing[start : start + BLOCK]
            every_example = np.arange(those.size)
            add_multiples(total, state.kernel_rows(those), every_example, every_example, by_slot[those])
    return total


@compiled_allocating
def add_multiples(total: Floats, rows: Floats, row_of: Ints, slots: Ints, coefficients: Floats) -> None:
    """Add the cached rows of ``slots``, times their ``coefficients``, to ``total``; slots without a row are skipped."""
    row, c = np.empty(slots.size, np.int64), np.empty(slots.size)
    m = 0
    for i in range(slots.size):
        if row_of[slots[i]] >= 0:
            row[m], c[m] = row_of[slots[i]], coefficients[i]
            m += 1
    add_rows(rows, row[:m], c[:m], total)


def refresh(state: PathState) -> None:
    """Recompute every f from beta, which removes the rounding errors of earlier steps (rule 8)."""
    n = state.n_slots
    support = np.flatnonzero(state.examples.beta[:n])
    state.examples.f[:n] = combine(state, support, state.examples.beta[support]) + state.b
    state.events_since_refresh = 0
    state.heaviest = 0.0
    state.drift = 0.0


def refresh_free(state: PathState) -> float:
    """Recompute f of the free examples; return the largest error that their tracked f had."""
    e, n, free = state.examples, state.n_slots, state.free_slots()
    values, row_of, beta, drift = state.rows.values, state.rows.row_of, e.beta[:n], 0.0
    for part in parts(free.size, n):
        drift = max(drift, compute_f(e.f, beta, values, row_of, free[part], state.b))
    return drift


@compiled
def uncertain_band(past: float, drift: float, scale: float) -> float:
    """Return the distance from a kink within which the tracked f of a bound example may be on the wrong side.

    ``drift`` is the present error in f of the free examples, ``past`` the sum of earlier such errors, and ``scale`` the
    size of f.
    """
    return max(CLOSE * scale, UNSEEN * (past + drift))


def refresh_close(state: PathState, band: float) -> bool:
    """Recompute f of bound examples within ``band`` (``uncertain_band``) of a kink; return whether any was recomputed.

    Only f of bound examples close to a kink and of free examples decides about optimality; small errors in f of other
    examples do no harm. If many bound examples are within ``band`` of a kink, recomputing their f costs as much as
    recomputing every f. With so many examples, every f is recomputed if f of the free examples has had large errors
    since every f was last recomputed; otherwise no f is recomputed.
    """
    e, n = state.examples, state.n_slots
    off = np.abs(e.f[:n, None] - e.kinks[:n]).min(axis=1)  # kinks that are not there are infinite
    close = np.flatnonzero((off <= band) & (~are_free(e.segment[:n])))
    if close.size > max(BLOCK, state.n_free):
        is_far_off = UNSEEN * state.drift >= band
        if is_far_off:
            refresh(state)
        return is_far_off
    missing = state.rows.missing(close)
    if missing.size:
        _, missing = state.cache_what_fits(missing, np.concatenate([state.free_slots(), close]))
        e.f[missing] = times(state.kernel_rows(missing), e.beta[:n]) + state.b
    held = close[state.rows.row_of[close] >= 0]
    compute_f(e.f, e.beta[:n], state.rows.values, state.rows.row_of, held, state.b)
    return close.size > 0


@compiled
def compute_f(f: Floats, beta: Floats, rows: Floats, row_of: Ints, slots: Ints, b: float) -> float:
    """Recompute f of ``slots`` from their kernel rows and all betas; return the largest change."""
    most = 0.0
    for slot in slots:
        row = rows[row_of[slot], : beta.size]
        total = 0.0
        for j in range(beta.size):
            total += row[j] * beta[j]
        most = max(most, abs(total + b - f[slot]))
        f[slot] = total + b
    return most


def refactor(state: PathState, free: Ints | None = None, dependent: float = 0.0) -> None:
    """Rebuild the factor of the free block from kernel rows, for the slots ``free``, by default those in the factor.

    Examples with a squared pivot of at most ``dependent`` times the diagonal are left out.
    """
    free = state.free_slots().copy() if free is None else free
    need_rows(state, free)
    state.make_room_for_free(free.size + SPARE - int(state.factor.size[0]))
    fac, rows, diagonal = state.factor, state.rows, state.examples.diagonal
    kappa = state.kappa if state.intercept else 0.0
    clear(fac)
    for part in parts(free.size, free.size**2):
        extend(fac, rows.values, rows.row_of, free[part], diagonal, kappa, dependent)


def settle_at_nothing(state: PathState) -> None:
    """Make the decision function a constant if a constant is optimal and the function is almost constant already.

    A constant is optimal if all kinks are equal and the betas cancel out: with equal targets, or in a one-class model
    with the origin among the data. If a constant is optimal, the optimal objective is 0, but rounding errors in the
    betas and b would make the objective larger. So betas that are 0 up to rounding are set to 0, and b to the value of
    the kinks.
    """
    e, n = state.examples, state.n_slots
    there = np.flatnonzero(e.n_kinks[:n] > 0)
    kinks = e.kinks[there]
    kinks = kinks[np.isfinite(kinks)]
    if kinks.size == 0 or kinks.min() != kinks.max() or (kinks[0] != 0.0 and not state.intercept):
        return
    beta = e.beta[:n].copy()
    beta[np.abs(beta) <= NOTHING * np.abs(e.levels[:n]).max(axis=1)] = 0.0
    support = np.flatnonzero(beta)
    f = combine(state, support, beta[support])
    if np.abs(f[there]).max() <= NOTHING * float(np.abs(beta) @ e.diagonal[:n]):
        e.beta[:n] = beta
        state.b = float(kinks[0]) if state.intercept else 0.0


class Checkpoint(NamedTuple):
    """A copy of segments, f, coefficients and of the losses that may change, from which a state can be restored."""

    segment: Ints
    f: Floats
    beta: Floats
    indices: Ints  #: slots of the examples with ``losses``
    losses: Losses
    free: Ints
    numbers: Numbers


def take_checkpoint(state: PathState, indices: Ints | None = None, n: int | None = None) -> Checkpoint:
    """Copy segments, f and coefficients of all examples, and the losses of ``indices``, by default of all examples.

    A checkpoint is valid as long as no other losses change. ``n`` is the number of slots to copy, by default all in
    use.
    """
    e, n = state.examples, state.n_slots if n is None else n
    indices = np.arange(n) if indices is None else indices
    places = e.segment[:n].copy(), e.f[:n].copy(), e.beta[:n].copy()
    return Checkpoint(*places, indices, state.losses(indices), state.free_slots(), state.numbers)


def restore(state: PathState, checkpoint: Checkpoint) -> None:
    """Restore the state from a checkpoint, and rebuild its factor."""
    roll_back(state, checkpoint)
    refactor(state, checkpoint.free)


def roll_back(state: PathState, checkpoint: Checkpoint) -> None:
    """Restore the state from a checkpoint, except for its factor."""
    e, n = state.examples, checkpoint.segment.size
    e.segment[:n], e.f[:n], e.beta[:n] = checkpoint.segment, checkpoint.f, checkpoint.beta
    state.set_losses(checkpoint.indices, checkpoint.losses)
    e.dkinks[:] = 0.0
    e.dlevels[:] = 0.0
    state.numbers = checkpoint.numbers


def mean_diagonal(state: PathState) -> float:
    """Return the weight of 1 1' in the factor: the mean of the kernel's diagonal, or 1 if that mean is zero."""
    if state.kernel.is_of_distances:
        return 1.0
    mean = float(np.add.reduce(state.examples.diagonal[: state.n_slots])) / state.n_slots
    return mean if mean > 0 else 1.0
