"""The problems of all pairs of classes, which an update solves in one compiled call.

Ten classes make 45 pairs, and for each pair the Python code around a short path takes as long as the path. So compiled
code assigns slots to new examples, frees the slots of removed examples, and keeps the scalars of a state between calls.
"""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from livesvm.solvers.homotopy.batch_update import bring_back, work_from_nothing
from livesvm.solvers.homotopy.edit import VACANT, VACANT_BEFORE, ClassBatch, Progress
from livesvm.solvers.homotopy.refresh import mean_diagonal
from livesvm.solvers.homotopy.run import NO_CHANGES, Solve, Trace, follow, walk_on, workspace_of
from livesvm.solvers.homotopy.solve import solve_each
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.problem.state import Numbers, PathState
from livesvm.solvers.runtime.by_reference import InMemory
from livesvm.solvers.runtime.entry_point import entry_point, kind_of
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.memory import scratch
from livesvm.solvers.runtime.types import Ints
from livesvm.solvers.sparse import dense

OWN_BYTES = 4096  #: of the records of a pair, about


class PairInMemory:
    """The records in memory by which compiled code reads and changes the problem of a pair of classes.

    Parameters
    ----------
    slot : slots by number, -1: not in this pair
    stop : (1,) the flag to interrupt, common to all pairs

    Attributes
    ----------
    limit : bytes of the kernel rows when the records were filled from the state; None: they are out of date
    call : the results that the call of the update under way fills; None: there is no call
    is_behind : whether the state does not have the results of a call yet
    """

    def __init__(self, state: PathState, slot: Ints, stop: Ints) -> None:
        self.state, self.slot, self.buffers = state, slot, workspace_of(state)
        self.limit: int | None = None
        self.call: Ints | None = None
        self.two, self.is_behind = (0, 0), False
        self.arrays = self._arrays_of(state, slot)
        self.now, self.numbered = Progress.zeros(2), (slot, dense(state.XT))
        self.vacant, self.vacant_before = self.buffers.moving[VACANT : VACANT_BEFORE + 1]
        rows = state.rows.slot_of, state.rows.used
        w = walk_on(state, (self.buffers.status, stop, self.buffers.tolerances))
        self._scratch = w.scratch
        self.records = w, self.buffers.work(self.now, NO_CHANGES, rows, self.numbered)
        self.kind = kind_of(self.records)
        self._walk, self._work = map(InMemory, self.records)
        self.places = self._walk.address, self._work.address

    @staticmethod
    def _arrays_of(state: PathState, slot: Ints) -> tuple[object, ...]:
        rows = state.rows
        return state.examples, state.motion, state.factor, rows.values, rows.used, state.XT, state.buffers, slot

    def is_of(self, state: PathState, slot: Ints) -> bool:
        """Say whether the records still refer to the present arrays of ``state``, and to ``slot``."""
        return all(map(is_, self._arrays_of(state, slot), self.arrays))

    def is_for(self, two: tuple[int, int], slot: Ints, limit: int) -> bool:
        """Say whether the records were filled for these arguments; make them refer to this thread's work arrays."""
        if self._scratch is not scratch():
            self._scratch = scratch()
            self._walk.put("scratch", self._scratch)
        return self.limit == limit and self.two == two and self.slot is slot

    def learn(self, two: tuple[int, int]) -> None:
        """Fill the records with the two classes, and with the scalars and the vacant slots of the state."""
        self.two, self.limit = two, self.state.cache_bytes
        state, n, vacant = self.state, self.state.n_slots, self.state.vacant
        edit = 0, 0, 0, 0, *self.two, n, 0, state.total, mean_diagonal(state)
        own, work = (state.b, state.kappa, state.rows.clock), work_from_nothing(state.n, state.n_free)
        round_ = (*own, 0, state.events_since_refresh, 1.0, SETTINGS.dust, work, state.heaviest, state.drift)
        Progress.put(self.now, *edit, *round_, 0, 0, 0, len(vacant))
        self.vacant[: len(vacant)] = vacant
        self._walk.put("n", n)
        self._walk.put("n_seen", n)

    def catch_up(self) -> None:
        """Copy the results of the last compiled call from the records to the state."""
        if self.is_behind:
            state, now = self.state, Progress.snapshot(self.now)
            state.b, state.kappa, state.heaviest, state.drift = now.b, now.kappa, now.heaviest, now.drift
            state.events_since_refresh, state.rows.clock = now.since, now.clock
            state.vacant = self.vacant[: now.n_vacant].tolist()
            self.is_behind = False  # last: an interrupt may come in between

    def undo(self) -> None:
        """Bring the state back to what it was before the last compiled call."""
        now, old, call = Progress.snapshot(self.now), Progress.snapshot(self.now[1:]), self.call
        self.call = None
        if call is not None and call[0, 0] >= 0 and now.is_kept:  # else it is from the update before
            numbers = Numbers(old.b, old.kappa, old.total, old.since, old.heaviest, old.drift)
            self._move(self.buffers.leave[: now.n_leave], self.buffers.come[: now.n_come])
            self.is_behind, self.state.rows.clock = False, now.clock
            vacant, checkpoint = self.vacant_before[: old.n_vacant].tolist(), self.buffers.kept(now, numbers)
            bring_back(self.state, now.n_before, vacant, self.state.capacity, checkpoint)

    def _move(self, here: Ints, gone: Ints) -> None:
        """Record by number that the examples in slots ``here`` belong to the pair, and those in ``gone`` do not."""
        slot, numbers = self.numbered[0], self.numbered[1][0]
        slot[numbers[gone].astype(np.int64)] = -1
        slot[numbers[here].astype(np.int64)] = here

    def go_on(self, exit_: int, batch: ClassBatch, kind: Any) -> tuple[Trace, int | None]:
        """Finish a solve that stopped at ``exit_``; return its trace, and the number of bound support vectors or None.

        Raises
        ------
        TooCostly, NotOptimal, NotPositiveSemidefinite, MemoryLimit : the state is not to be used
        """
        self.catch_up()
        now, buffers, solving = Progress.snapshot(self.now), self.buffers, Solve(self.state)
        solving.go_on(self.now, exit_, (batch, kind), self.numbered)
        trace = follow(self.state, None, work_from_nothing(self.state.n, self.state.n_free), solving)
        come, leave = buffers.come[: now.n_come], buffers.leave[: now.n_leave]
        if solving.found is None:
            self._move(come, leave)
            self.state.release(leave)
            return trace, None
        self.state.vacate(leave)
        return trace, solving.found.n_bound


def call_each(
    pairs: list[PairInMemory], batch: ClassBatch, kind: Any, voters: list[PairInMemory], foretold: Ints
) -> tuple[list[list[int]], Trace]:
    """Solve ``pairs`` in one compiled call; all pairs have records of the same types, filled from the pairs' states.

    Returns exit, events and number of bound examples with a coefficient for each pair, and the trace of all pairs that
    are done. ``kind`` stands for the compiled type of ``batch``. If ``voters`` has all pairs, ``foretold`` (m,)
    receives the number of the class that they predict for each new example before the update.
    """
    (w, s), sums = pairs[0].records, Progress.of()
    places, addresses = (_addresses(some) for some in (pairs, voters))
    n_classes = batch.come_from.size - 1
    voting = addresses, np.empty((n_classes, n_classes), np.int64), foretold
    work = w, s, batch, places, np.full((len(places), 3), -1), sums, *voting
    call = entry_point(solve_each, *work, kind=(pairs[0].kind, kind))
    check()
    w.stop[0] = 0
    watch(w.stop, 0)
    for one in pairs:
        one.call = work[4]
    call(*work)
    for one in pairs:
        one.is_behind = True
    raise_what_stopped()
    trace, found = Trace(), Progress.snapshot(sums)
    trace.add(found, found.walked)
    trace.rounds, trace.max_violation, trace.relative_gap = found.count, found.violation, found.relative_gap
    return work[4].tolist(), trace


def _addresses(pairs: list[PairInMemory]) -> Ints:
    """Return the addresses of the two records of each pair, (m, 2)."""
    return np.fromiter(chain.from_iterable([one.places for one in pairs]), np.int64, 2 * len(pairs)).reshape(-1, 2)
