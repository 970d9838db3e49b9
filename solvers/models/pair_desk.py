"""Updates of a pair of classes in one compiled call each, and the way back from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.active_set.workspace import Status, Tolerances, Walk
from livesvm.solvers.homotopy.batch_update import bring_back
from livesvm.solvers.homotopy.recompute import Standing
from livesvm.solvers.homotopy.run import NO_FLAGS, NOBODY, Trace
from livesvm.solvers.homotopy.small_update import SPARE, Batch, Count, Desk, Outcome, small_update
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.interrupt import check, watch
from livesvm.solvers.runtime.types import Ints
from livesvm.solvers.sparse import dense

MOST = 64  #: examples that come and leave, in an update that is small

DONE, BEGUN, REFUSED, STOPPED, CROWDED = (outcome.value for outcome in Outcome)

Undo = Callable[[], None]


class PairDesk:
    """Work arrays of ``small_update``, kept as they are slow to make anew; what is in them is of the last update."""

    def __init__(self) -> None:
        self._ints = np.empty((6, 0), np.int64)
        self._moving = np.empty((2, 0), np.int64)
        self._floats = np.empty((2, 0))
        self._kinks, self._levels = np.empty((0, MAX_KINKS)), np.empty((0, MAX_KINKS + 1))
        self._status, self._tolerances = Status.of(), Tolerances.of()
        self._stop = np.zeros(1, np.int64)

    def update(
        self, state: PathState, slot: Ints, two: tuple[int, int], batch: Batch, cache_bytes: int
    ) -> tuple[Trace | None, Undo | None]:
        """Return what the update did, and what takes it back; no trace: it is to be done in another way.

        Where it was stopped there is no trace, but something to take back.
        """
        a, b = two
        n_come = int(batch.come_from[a + 1] - batch.come_from[a] + batch.come_from[b + 1] - batch.come_from[b])
        n_leave = int(batch.leave_from[a + 1] - batch.leave_from[a] + batch.leave_from[b + 1] - batch.leave_from[b])
        n = state.n
        is_small = n_come + n_leave <= MOST and 2 * n_leave < n and n + n_come <= min(LARGE, state.capacity)
        if not (is_small and state.is_prepared and state.rows.limit == cache_bytes):
            return None, None
        check()
        before = _Before(
            state.n_slots,
            list(state.vacant),
            (state.b, state.kappa, state.total),
            (state.events_since_refresh, state.heaviest, state.drift),
        )
        come = state.take_slots(n_come)
        rows = state.rows
        rows.clock += 1
        since, heaviest, drift = before.since
        now = Count.of(a, b, before.n, rows.clock, state.b, heaviest, drift, since)
        d = self._desk(state, slot)
        d.come[:n_come] = come
        watch(self._stop, 0)
        outcome = small_update(self._walk(state), d, batch, now)
        if outcome == CROWDED:
            state.make_room_for_free(n_come + SPARE)
            outcome = small_update(self._walk(state), d, batch, now)
        told = Count.told(now)
        if outcome == DONE:
            state.b, state.events_since_refresh = told.b, told.since
            state.heaviest, state.drift = told.heaviest, told.drift
            state.vacant.extend(d.leave[: told.n_leave][::-1].tolist())
            return self._trace(told), partial(_undo, state, d, batch, told, before)
        if outcome in (REFUSED, CROWDED):
            state.n_slots, state.vacant = before.n, before.vacant
            return None, None
        undo = partial(_undo, state, d, batch, told, before)
        if outcome == STOPPED:
            return None, undo
        undo()
        return None, None

    def _desk(self, state: PathState, slot: Ints) -> Desk:
        c = state.capacity
        if self._floats.shape[1] != c:
            self._ints, self._moving, self._floats = (
                np.empty((6, c), np.int64),
                np.empty((2, c), np.int64),
                np.empty((2, c)),
            )
            self._kinks, self._levels = np.empty((c, MAX_KINKS)), np.empty((c, MAX_KINKS + 1))
        come, rows, segment, free, leave, n_kinks = self._ints
        f, beta = self._floats
        return Desk(
            slot,
            dense(state.XT),
            state.rows.slot_of,
            state.rows.used,
            come,
            rows,
            self._moving,
            segment,
            f,
            beta,
            free,
            leave,
            self._kinks,
            self._levels,
            n_kinks,
        )

    def _walk(self, state: PathState) -> Walk:
        n, rows = state.n_slots, state.rows
        return Walk(
            n,
            n,
            state.intercept,
            state.kappa,
            state.examples,
            state.motion,
            state.factor,
            rows.values,
            rows.row_of,
            rows.values,
            NO_FLAGS,
            NOBODY,
            rows.values,
            rows.row_of,
            state.scratch,
            self._status,
            self._stop,
            self._tolerances,
        )

    def _trace(self, told: Count) -> Trace:
        at = Status.told(self._status)
        return Trace(
            events=at.events,
            rounds=1,
            exchanges=at.exchanges,
            jumps=at.jumps,
            refined=at.refined,
            max_violation=told.violation,
            relative_gap=told.relative_gap,
        )


class _Before(NamedTuple):
    """What a state was, besides its arrays."""

    n: int
    vacant: list[int]
    numbers: tuple[float, float, float]  #: b, kappa and the total
    since: tuple[int, float, float]  #: of ``Standing``


def _undo(state: PathState, d: Desk, batch: Batch, told: Count, before: _Before) -> None:
    """Take back what has been done at a desk."""
    m, leave = told.n_leave, d.leave[: told.n_leave]
    free = d.free[: told.places]
    losses = Losses(d.kinks[:m], d.levels[:m], d.n_kinks[:m])
    segment, f, beta = d.segment[: before.n], d.f[: before.n], d.beta[: before.n]
    b, kappa, total = before.numbers
    standing = Standing(segment, f, beta, leave, losses, b, kappa, total, free[free >= 0], *before.since)
    bring_back(state, before.n, before.vacant, state.capacity, standing)
    for c in (told.first, told.second):
        d.slot[batch.come[batch.come_from[c] : batch.come_from[c + 1]]] = -1
    went = [batch.leave[batch.leave_from[c] : batch.leave_from[c + 1]] for c in (told.first, told.second)]
    d.slot[np.concatenate(went)] = leave
