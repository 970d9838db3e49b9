"""The recovery of a feed from the store: its newest usable snapshot, and then the later records of its log."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from livesvm.service.errors import NotSolved
from livesvm.service.feeds.commands import decode_call
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, answer
from livesvm.service.history.journal import Source
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import owes
from livesvm.service.resources.solve_scheduler import Solve, SolveScheduler
from livesvm.service.store.base import Lease, LogRecord, SnapshotInfo, StoreDamaged
from livesvm.solvers.errors import SolverError

log = logging.getLogger(__name__)


@dataclass
class FeedRecovery:
    """The recovery of one feed; its solves take turns with those of other models, and ``solve`` can stop them."""

    source: Source
    lease: Lease
    spec: FeedSpec
    turns: SolveScheduler
    solve: Solve

    def run(self) -> Recovered[FeedState]:
        """Return the feed in the state after its last acknowledged call.

        Raises StoreError, or NotSolved if the recovery is stopped.
        """
        with self.source.health.store_call("load"):
            newest = self.source.store.last_sequence(self.lease)
            snapshots = self.source.store.snapshots(self.lease.model)
        set_aside = 0
        while True:
            try:
                return self._replayed(snapshots, newest, set_aside)
            except _Impossible as error:
                if error.record.sequence < newest:
                    raise StoreDamaged(f"record {error.record.sequence} cannot be applied again: {error}") from error
                log.warning("%s: its newest call, which had no effect, is taken back: %s", self.lease.model, error)
                with self.source.health.store_call("abort"):
                    self.source.store.abort(self.lease, newest)
                set_aside = 1

    def _replayed(self, snapshots: Sequence[SnapshotInfo], newest: int, set_aside: int) -> Recovered[FeedState]:
        state, snapshot, damaged = self._newest_good(snapshots)
        version, replayed, size, began = state.version, 0, 0, time.perf_counter()
        for record in self.source.store.log(self.lease.model, state.sequence):
            if record.sequence != state.sequence + 1:
                raise StoreDamaged(f"the log lacks record {state.sequence + 1}")
            size += len(record.data)
            if record.aborted:
                state.skip()
            else:
                self._again(state, record)
                replayed += 1
        if state.sequence != newest:
            raise StoreDamaged(f"the log of {self.lease.model} ends at record {state.sequence} of {newest}")
        seconds = time.perf_counter() - began if replayed else 0.0
        kept = 0 if snapshot is None else snapshot.size
        return Recovered(state, version, replayed, damaged, seconds, kept, size, set_aside)

    def _again(self, state: FeedState, record: LogRecord) -> None:
        """Apply a record of the log again, and store the answer to its call if that is still missing."""
        call = decode_call(record.data)
        try:
            with self.turns.turn(self.solve):
                done = state.apply(call)
                state.stay_cool()
        except NotSolved:
            raise
        except SolverError as error:
            raise _Impossible(record, error) from error
        if call.request is not None and owes(self.source, self.lease.model, call.request):
            reported = answer(done, self.source.store.durability())
            with self.source.health.store_call("answer"):
                self.source.store.remember(self.lease, call.request, reported)

    def _newest_good(self, snapshots: Sequence[SnapshotInfo]) -> tuple[FeedState, SnapshotInfo | None, int]:
        damaged = 0
        for snapshot in snapshots:
            try:
                data = self.source.store.load_snapshot(self.lease.model, snapshot.sequence)
                with self.turns.turn(self.solve):
                    return FeedState.decode(self.spec, data), snapshot, damaged
            except (StoreDamaged, SolverError) as error:
                damaged += 1
                self.source.metrics.snapshots.labels("damaged").inc()
                reason = "%s: snapshot %d cannot be used, falling back: %s"
                log.warning(reason, self.lease.model, snapshot.sequence, error)
        return FeedState.empty(self.spec), None, damaged


class _Impossible(Exception):
    """The error that a record of the log cannot be applied."""

    def __init__(self, record: LogRecord, error: SolverError) -> None:
        super().__init__(str(error))
        self.record = record
