"""Sequential minimal optimization: an approximate optimum from nothing, by pairs of coefficients.

Each step moves two coefficients and keeps their sum; the second-order rule selects the pair [Fan, Chen & Lin 2005, WSS
2]. The derivative of a loss may have several steps, so a coefficient moves no further than to its next level. Without
an intercept each step moves one coefficient. The caller then makes the result exact along a path (``follow.follow``).
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.optimality import scales
from livesvm.solvers.homotopy.refresh import combine
from livesvm.solvers.problem.state import Examples, PathState, is_free
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import check, is_stopped, raise_what_stopped, watch
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints

TOLERANCE = 1e-2  #: part of the largest kink: a violation below it is left to the path
MOST_STEPS = 10  #: steps for each example, after which the rest is left to the path
PREFETCH = 64  #: kernel rows computed at once
FLAT = 1e-12  #: of the diagonal: curvature of a pair that counts as none


class Descent(Scalars):
    """Inputs, progress and results of a descent."""

    # given
    tolerance: float
    budget: int  #: steps
    clock: int  #: of the row cache
    # found
    steps: int
    missing: int  #: the slot whose kernel row is needed
    partner: int  #: the slot whose row is needed with it; -1: none
    b: float
    violation: float


def descend(state: PathState) -> int:
    """Bring the coefficients of a state with an empty factor close to the optimum; return the number of steps.

    Afterwards ``beta``, ``segment``, ``f`` and ``b`` agree, and only examples with a coefficient have cached kernel
    rows.

    Raises
    ------
    NotOptimal : no coefficients within their levels have the sum that is asked for
    """
    e, n = state.examples, state.n_slots
    _start(e, n, state.total, state.intercept)
    sum_ = float(e.beta[:n].sum())
    if state.intercept and abs(sum_ - state.total) > 1e-9 * max(1.0, float(np.abs(e.levels[:n]).sum())):
        raise NotOptimal("no coefficients within their bounds have the sum that the problem asks for")
    support = np.flatnonzero(e.beta[:n])
    e.f[:n] = combine(state, support, e.beta[support])
    at = Descent.of(TOLERANCE * scales(state, np.zeros(n)).kink, MOST_STEPS * n)
    stop, work = np.zeros(1, np.int64), np.empty((2, n))
    watch(stop, 0)
    while True:
        check()
        rows = state.rows
        rows.clock += 1
        at[0].clock = rows.clock
        exit_ = _descend(e, rows.values, rows.row_of, rows.used, n, state.intercept, work, stop, at)
        if exit_ == Exit.CANCELLED:
            raise_what_stopped()
        if exit_ != Exit.NEED_ROW:
            break
        _fetch(state, work, int(at[0].missing), int(at[0].partner))
    state.b = float(at[0].b) if state.intercept else 0.0
    e.f[:n] += state.b
    state.rows.forget(np.flatnonzero((e.beta[:n] == 0.0) & (state.rows.row_of[:n] >= 0)))
    return int(at[0].steps)


def _fetch(state: PathState, work: Floats, slot: int, partner: int) -> None:
    """Cache the kernel rows of ``slot`` and of the examples that violate optimality most; keep the row of ``partner``.

    Raises
    ------
    MemoryLimit : there is no space for two rows
    """
    n, most = state.n_slots, min(PREFETCH, max(1, state.rows.max_rows // 2))
    f = state.examples.f[:n]
    violation = np.where(state.rows.row_of[:n] < 0, np.maximum(f - work[1], work[0] - f), -np.inf)
    violation[slot] = np.inf
    wanted = np.argpartition(violation, n - most)[n - most :] if most < n else np.arange(n)
    wanted = wanted[violation[wanted] > -np.inf]
    state.cache_rows(wanted, np.array([partner] if partner >= 0 else [], np.int64))


@compiled
def _start(e: Examples, n: int, total: float, intercept: bool) -> None:
    """Set each coefficient to its level nearest to 0, then move coefficients one by one until they sum to ``total``."""
    sum_ = 0.0
    for j in range(n):
        best = 0
        for q in range(1, e.n_kinks[j] + 1):
            if abs(e.levels[j, q]) < abs(e.levels[j, best]):
                best = q
        e.segment[j], e.beta[j] = 2 * best, e.levels[j, best]
        sum_ += e.beta[j]
    if not intercept:
        return
    for j in range(n):
        off = total - sum_
        if off == 0.0:
            return
        beta = e.beta[j]
        bounded = min(max(beta + off, e.levels[j, e.n_kinks[j]]), e.levels[j, 0])
        put_in_box(e, j, bounded)
        sum_ += bounded - beta


@compiled
def put_in_box(e: Examples, j: int, beta: float) -> None:
    """Give an example the coefficient ``beta``, within its levels, and the segment of its loss that matches."""
    e.beta[j] = beta
    for q in range(e.n_kinks[j] + 1):
        if beta >= e.levels[j, q]:
            e.segment[j] = 2 * q if beta == e.levels[j, q] else 2 * q - 1
            return
    e.segment[j] = 2 * e.n_kinks[j]


@compiled
def _descend(
    e: Examples, rows: Floats, row_of: Ints, used: Ints, n: int, intercept: bool, work: Floats, stop: Ints,
    at: One[Descent],
) -> Exit:  # fmt: skip
    """Move pairs until none violates optimality by more than the tolerance; NEED_ROW asks for row ``at.missing``.

    ``work`` (2, n) receives two kinks of each example: its coefficient may rise while f is below the first kink, and
    fall while f is above the second. A kink is infinite where the coefficient may not move.
    """
    state = at[0]
    up, down, f = work[0], work[1], e.f
    for j in range(n):
        _set_kinks(e, j, up, down)
    while True:
        # f - up is least where a coefficient would best rise, f - down largest where one would best fall
        lowest, highest = np.inf, -np.inf
        for j in range(n):
            lowest = min(lowest, f[j] - up[j])
            highest = max(highest, f[j] - down[j])
        state.b = -0.5 * (lowest + highest) if lowest < np.inf and highest > -np.inf else 0.0
        if not intercept:
            lowest, highest = min(lowest, 0.0), max(highest, 0.0)
        state.violation = highest - lowest
        if not state.violation > state.tolerance:
            return Exit.DONE
        if state.steps >= state.budget:
            return Exit.EXHAUSTED
        if state.steps & 127 == 0 and is_stopped(stop, 0):
            return Exit.CANCELLED
        if not intercept:
            i = _first_at(f, up, n, lowest) if -lowest >= highest else _first_at(f, down, n, highest)
            if row_of[i] < 0:
                state.missing, state.partner = i, -1
                return Exit.NEED_ROW
            off = lowest if -lowest >= highest else highest
            _move(e, i, -off / max(e.diagonal[i], FLAT), rows[row_of[i]], used, row_of, state.clock, n, up, down)
            state.steps += 1
            continue
        i = _first_at(f, up, n, lowest)
        if row_of[i] < 0:
            state.missing, state.partner = i, -1
            return Exit.NEED_ROW
        j = _partner(e, rows[row_of[i]], i, lowest, n, down)
        if row_of[j] < 0:
            state.missing, state.partner = j, i
            return Exit.NEED_ROW
        curvature = e.diagonal[i] + e.diagonal[j] - 2.0 * rows[row_of[i], j]
        t = (f[j] - down[j] - lowest) / max(curvature, FLAT * (e.diagonal[i] + e.diagonal[j]) + 1e-300)
        t = min(t, _next_above(e, i) - e.beta[i], e.beta[j] - _next_below(e, j))
        _move(e, i, t, rows[row_of[i]], used, row_of, state.clock, n, up, down)
        _move(e, j, -t, rows[row_of[j]], used, row_of, state.clock, n, up, down)
        state.steps += 1


@compiled
def _first_at(f: Floats, kinks: Floats, n: int, off: float) -> int:
    """Return the first example with ``f - kink`` equal to ``off``, or -1."""
    for j in range(n):
        if f[j] - kinks[j] == off:
            return j
    return -1


@compiled
def _partner(e: Examples, row: Floats, i: int, lowest: float, n: int, down: Floats) -> int:
    """Return the example to pair with ``i``, so that the objective falls most when the coefficient of ``i`` rises."""
    best, gain, f, diagonal = -1, -1.0, e.f, e.diagonal
    own = diagonal[i]
    for j in range(n):
        off = f[j] - down[j] - lowest
        if off > 0.0:
            curvature = max(own + diagonal[j] - 2.0 * row[j], FLAT * (own + diagonal[j]) + 1e-300)
            if off * off > gain * curvature:
                gain, best = off * off / curvature, j
    return best


@compiled
def _next_above(e: Examples, j: int) -> float:
    """Return the level that the coefficient of example ``j`` reaches first when it rises."""
    q = e.segment[j] // 2
    level: float = e.levels[j, q if is_free(e.segment[j]) else max(q - 1, 0)]
    return level


@compiled
def _next_below(e: Examples, j: int) -> float:
    """Return the level that the coefficient of example ``j`` reaches first when it falls."""
    q = e.segment[j] // 2
    level: float = e.levels[j, min(q + 1, e.n_kinks[j])]
    return level


@compiled
def _move(
    e: Examples, j: int, t: float, row: Floats, used: Ints, row_of: Ints, clock: int, n: int, up: Floats, down: Floats
) -> None:
    """Move the coefficient of example ``j`` by ``t``, no further than to the next level, and update every f."""
    high, low, q = _next_above(e, j), _next_below(e, j), e.segment[j] // 2
    before, beta = e.beta[j], e.beta[j] + t
    # Rounding may leave a coefficient just short of the level that it should reach.
    near = 4.0 * np.finfo(np.float64).eps * max(abs(high), abs(low))
    rises = t > 0.0
    free = is_free(e.segment[j])
    if rises and beta >= high - near:
        e.beta[j], e.segment[j] = high, 2 * q if free else 2 * max(q - 1, 0)
    elif not rises and beta <= low + near:
        e.beta[j], e.segment[j] = low, 2 * q + 2 if free else 2 * min(q + 1, e.n_kinks[j])
    else:
        e.beta[j] = beta
        if not free:
            e.segment[j] += -1 if rises else 1
    change, f = e.beta[j] - before, e.f
    used[row_of[j]] = clock
    for k in range(n):
        f[k] += change * row[k]
    _set_kinks(e, j, up, down)


@compiled
def _set_kinks(e: Examples, j: int, up: Floats, down: Floats) -> None:
    """Set the two kinks of an example that decide whether its coefficient should rise or fall."""
    q = e.segment[j] // 2
    if is_free(e.segment[j]):
        up[j] = down[j] = e.kinks[j, q]
        return
    up[j] = e.kinks[j, q - 1] if q > 0 else -np.inf
    down[j] = e.kinks[j, q] if q < e.n_kinks[j] else np.inf
