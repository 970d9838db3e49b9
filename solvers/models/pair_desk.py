"""Updates of a pair of classes in one compiled call each, and the way back from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.active_set.workspace import Status, Tolerances, Walk
from livesvm.solvers.homotopy.batch_update import bring_back
from livesvm.solvers.homotopy.recompute import Standing
from livesvm.solvers.homotopy.run import NO_FLAGS, NOBODY, Trace
from livesvm.solvers.homotopy.small_update import SPARE, Batch, Count, Desk, Outcome, small_update
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.by_address import address_of
from livesvm.solvers.runtime.interrupt import check, watch
from livesvm.solvers.runtime.memory import scratch
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense

OWN = Desk._fields.index("come")  #: the first array of a desk that is not the pair's
MOST = 64  #: examples that come and leave, in an update that is small

DONE, BEGUN, REFUSED, STOPPED, CROWDED = (outcome.value for outcome in Outcome)

Undo = Callable[[], None]

_ADDRESSES: list[int] = []


class Work(NamedTuple):
    """What is to be done for all pairs."""

    batch: Batch
    come: list[int]  #: how many come, by class
    leave: list[int]  #: how many leave


class PairDesk:
    """Work arrays of ``small_update``, kept as they are slow to make anew; what is in them is of the last update."""

    def __init__(self) -> None:
        self._desk: Desk | None = None
        self._status, self._tolerances = Status.of(), Tolerances.of()
        self._stop = np.zeros(1, np.int64)
        self.n_bound_supports = 0  #: after an update that was done

    def update(
        self, state: PathState, slot: Ints, two: tuple[int, int], work: Work, cache_bytes: int
    ) -> tuple[Trace | None, Undo | None]:
        """Return what the update did, and what takes it back; no trace: it is to be done in another way.

        Where it was stopped there is no trace, but something to take back.
        """
        a, b = two
        n, n_come, n_leave = state.n, work.come[a] + work.come[b], work.leave[a] + work.leave[b]
        is_small = n_come + n_leave <= MOST and 2 * n_leave < n and n + n_come <= min(LARGE, state.capacity)
        if not (is_small and state.is_prepared and state.cache_bytes == cache_bytes):
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
        w = self._walk(state)
        now = Count.of(a, b, before.n, rows.clock, state.b, heaviest, drift, since, _follow_path(w))
        d = self._desk_for(state, slot)
        d.come[:n_come] = come
        watch(self._stop, 0)
        outcome = small_update(w, d, work.batch, now)
        if outcome == CROWDED:
            state.make_room_for_free(n_come + SPARE)
            outcome = small_update(self._walk(state), d, work.batch, now)
        told = Count.told(now)
        if outcome == DONE:
            state.b, state.events_since_refresh = told.b, told.since
            state.heaviest, state.drift = told.heaviest, told.drift
            self.n_bound_supports = told.n_bound_supports
            state.vacant.extend(d.leave[: told.n_leave][::-1].tolist())
            return _trace(told), partial(_undo, state, d, work.batch, told, before)
        if outcome in (REFUSED, CROWDED):
            state.n_slots, state.vacant = before.n, before.vacant
            return None, None
        undo = partial(_undo, state, d, work.batch, told, before)
        if outcome == STOPPED:
            return None, undo
        undo()
        return None, None

    @property
    def nbytes(self) -> int:
        """Bytes of the work arrays."""
        return 0 if self._desk is None else sum(array.nbytes for array in self._desk[OWN:])

    def _desk_for(self, state: PathState, slot: Ints) -> Desk:
        """Return the work arrays beside those of the pair, which may be other ones than the last time."""
        d, XT, rows = self._desk, dense(state.XT), state.rows
        if d is None or d.f.size != state.capacity:
            d = _empty_desk(slot, XT, rows.slot_of, rows.used, state.capacity)
        if d.slot is not slot or d.XT is not XT or d.slot_of is not rows.slot_of or d.used is not rows.used:
            d = d._replace(slot=slot, XT=XT, slot_of=rows.slot_of, used=rows.used)
        self._desk = d
        return d

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
            scratch(),
            self._status,
            self._stop,
            self._tolerances,
        )


def _follow_path(w: Walk) -> int:
    """Return where ``follow_path`` is; all walks are of the same type."""
    if not _ADDRESSES:
        _ADDRESSES.append(address_of(follow_path, w))
    return _ADDRESSES[0]


def _trace(told: Count) -> Trace:
    return Trace(
        events=told.events,
        rounds=1,
        exchanges=told.exchanges,
        jumps=told.jumps,
        refined=told.refined,
        max_violation=told.violation,
        relative_gap=told.relative_gap,
    )


def _empty_desk(slot: Ints, XT: Floats, slot_of: Ints, used: Ints, c: int) -> Desk:
    come, rows, segment, free, leave, n_kinks = np.empty((6, c), np.int64)
    f, beta = np.empty((2, c))
    kinks, levels, moving = np.empty((c, MAX_KINKS)), np.empty((c, MAX_KINKS + 1)), np.empty((2, c), np.int64)
    return Desk(slot, XT, slot_of, used, come, rows, moving, segment, f, beta, free, leave, kinks, levels, n_kinks)


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
