"""Recover a model from the store: the newest good snapshot, a newer solution if there is one, then the log's tail."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Generic, TypeVar

from livesvm.service.history.entries import decode_entry
from livesvm.service.history.journal import Source
from livesvm.service.history.replay import FORESEEN, Patience, Replay, owes
from livesvm.service.history.solutions import solved
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.store import codec
from livesvm.service.store.base import Lease, LogRecord, SnapshotInfo, Solution, StoreDamaged, StoreError, StoreTooNew
from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.runtime.threads import at_work

log = logging.getLogger(__name__)


S = TypeVar("S")


@dataclass(frozen=True)
class Recovered(Generic[S]):
    """A recovered state, with the version of its snapshot, and the numbers of replayed records and damaged snapshots.

    ``set_aside`` counts updates that could not be solved again in time, and that had not been answered.

    ``replay_seconds`` is the time that the replay took; ``snapshot_bytes`` and ``log_bytes`` are the sizes of the
    snapshot and of the records after it.
    """

    state: S
    snapshot_version: int = 0
    replayed: int = 0
    damaged_snapshots: int = 0
    replay_seconds: float = 0.0
    snapshot_bytes: int = 0
    log_bytes: int = 0
    set_aside: int = 0


@dataclass(frozen=True)
class Means:
    """The limits of a recovery: megabytes for kernel rows, the scheduler of its solves, and the time to solve."""

    cache_mb: int
    turns: SolveScheduler
    patience: Patience


def recover(source: Source, lease: Lease, spec: ModelSpec, means: Means) -> Recovered[ModelState]:
    """Return the model after its last acknowledged update; raises StoreError if it cannot be recovered, or NotSolved.

    A model that fitted into ``cache_mb`` may need slightly more during recovery, because its arrays then have more
    spare space. A recovery may therefore use twice ``cache_mb``, because acknowledged updates matter more than the
    limit.
    """
    try:
        return _recovered(source, lease, spec, means)
    except MemoryLimit as error:
        log.warning("model %s: %s; it is restored with twice as much", lease.model, error)
    try:
        return _recovered(source, lease, spec, replace(means, cache_mb=2 * means.cache_mb))
    except MemoryLimit as error:
        raise StoreError(f"{error}; LIVESVM_CACHE_MB is {means.cache_mb} and must be more for this model") from error


def _recovered(source: Source, lease: Lease, spec: ModelSpec, means: Means) -> Recovered[ModelState]:
    """Return the recovered model; after an unforeseen error, replay the records singly to find the failing record."""
    try:
        return _Recovery(source, lease, spec, means).run()
    except FORESEEN:
        raise
    except Exception:
        log.exception("model %s: its replay failed in an unforeseen way; each record is taken alone", lease.model)
    return _Recovery(source, lease, spec, means, alone=True).run()


@dataclass
class _Recovery:
    """One attempt to recover a model; raises MemoryLimit if ``cache_mb`` is too little for its kernel rows."""

    source: Source
    lease: Lease
    spec: ModelSpec
    means: Means
    alone: bool = False
    log_bytes: int = 0
    damaged: int = 0
    newest: int = 0
    snapshot: SnapshotInfo | None = None
    snapshot_version: int = 0
    solution: Solution | None = field(default=None, repr=False)
    may_be_answered: bool = False  #: a solution, which may turn out not to be usable, says that the newest was solved

    def run(self) -> Recovered[ModelState]:
        """Return the recovered model."""
        store, model = self.source.store, self.lease.model
        with self.source.health.store_call("load"):
            self.newest = store.last_sequence(self.lease)
            self.solution = self._solution()
            snapshots = store.snapshots(model)
            with at_work():  # by all cores: others can wait for that
                state = self._newest_good(snapshots)
                if state.sequence < self.newest:
                    state.prepare()
            turns, patience = self.means.turns, self.means.patience
            if self.may_be_answered:
                patience = patience.without_end()
            replay = Replay(self.source, self.lease, state, self.newest, turns, patience, self.alone)
            began = time.perf_counter()
            for record in self._records(state.sequence):
                replay.take(record)
            replay.finish()
        state = replay.state
        if state.sequence != replay.newest:
            raise StoreDamaged(f"the log of model {model} ends at record {state.sequence} of {replay.newest}")
        return Recovered(
            state,
            self.snapshot_version,
            replay.replayed,
            self.damaged,
            time.perf_counter() - began if replay.replayed else 0.0,
            0 if self.snapshot is None else self.snapshot.size,
            self.log_bytes,
            replay.set_aside,
        )

    def _newest_good(self, snapshots: Sequence[SnapshotInfo]) -> ModelState:
        """Return the newest state that needs no solve: from a solution, an undamaged snapshot, or an empty model."""
        for snapshot in snapshots:
            try:
                base = codec.decode(self.source.store.load_snapshot(self.lease.model, snapshot.sequence))
                state = self._solved(base, snapshot.sequence) or ModelState.of(self.spec, self.means.cache_mb, base)
            except StoreDamaged as error:
                self.damaged += 1
                self.source.metrics.snapshots.labels("damaged").inc()
                reason = "model %s: snapshot %d is damaged, falling back: %s"
                log.warning(reason, self.lease.model, snapshot.sequence, error)
                continue
            self.snapshot, self.snapshot_version = snapshot, base["version"]
            return state
        return self._solved(None, 0) or ModelState.empty(self.spec, self.means.cache_mb)

    def _solved(self, base: dict[str, Any] | None, after: int) -> ModelState | None:
        """Return the stored solution's model, or None.

        The result is None if the solution is damaged or not newer than ``base``, or if a request before it has no
        stored answer.
        """
        solution = self.solution
        if solution is None or solution.sequence <= after:
            return None
        records = takewhile(lambda record: record.sequence <= solution.sequence, self._records(after))
        try:
            return solved(self.spec, self.means.cache_mb, base, self._answered(records, after), solution)
        except _Owed:
            reason = "an update before it has no answer"
        except (StoreDamaged, StoreTooNew) as error:
            reason = str(error)
        log.warning("model %s: updates are solved again, for %s", self.lease.model, reason)
        self.log_bytes = 0
        return None

    def _answered(self, records: Iterator[LogRecord], after: int) -> Iterator[LogRecord]:
        """Yield the log records; raises StoreDamaged if one is missing, _Owed at a request without an answer."""
        for expected, record in enumerate(records, after + 1):
            if record.sequence != expected:
                raise StoreDamaged(f"the log lacks record {expected}")
            if not record.aborted and owes(self.source, self.lease.model, decode_entry(record.data).request):
                raise _Owed
            yield record

    def _records(self, after: int) -> Iterator[LogRecord]:
        for record in self.source.store.log(self.lease.model, after):
            self.log_bytes += len(record.data)
            yield record

    def _solution(self) -> Solution | None:
        """Return the stored solution; None if none is stored, if it is damaged, or if the log lacks its record."""
        try:
            found = self.source.store.solution(self.lease.model)
        except StoreDamaged as error:
            log.warning("%s; updates are solved again", error)
            self.may_be_answered = True
            return None
        self.may_be_answered = found is not None and found.sequence >= self.newest
        return None if found is None or found.sequence > self.newest else found


class _Owed(Exception):
    """A request has no answer yet, so its update must be solved again to make the answer."""
