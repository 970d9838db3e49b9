"""When the next snapshot or solution of a model is due, and writing it."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import Any

from livesvm.service import crash
from livesvm.service.history.journal import Journal, State
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.solutions import solution_of
from livesvm.service.models.learners import task_of
from livesvm.service.models.state import ModelState
from livesvm.service.settings import Settings

LEAST_BYTES = 2**20
"""A log of less needs no snapshot for its size, however small that would be."""

MANY_FREE = 2000
"""Free examples, from which on a restart predicts before it builds the factor: no update is left to solve."""

CERTAIN_SECONDS = 1.0
"""An update that took longer to solve is answered when its solution is stored: without one
after a crash, no caller has an answer to the update, and it may be set aside."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """After so many updates, so many seconds, or updates that took so many seconds to solve, a snapshot is due.

    After updates that took ``solution_seconds``, a solution is. Where there is a snapshot, time alone makes none due
    behind which there are less than ``worth_seconds`` to solve, and going to rest none behind which there are less than
    ``worth_at_rest``: writing it would take longer than solving these again, once, or each time it wakes.
    """

    updates: int
    seconds: float
    replay_seconds: float
    solution_seconds: float
    worth_seconds: float
    worth_at_rest: float

    @classmethod
    def by(cls, settings: Settings, worth: tuple[float, float]) -> Due:
        """Return as the settings ask."""
        return cls(
            settings.snapshot_updates,
            settings.snapshot_seconds,
            settings.snapshot_replay_seconds,
            settings.solution_seconds,
            *worth,
        )


class Checkpoints:
    """Snapshots by count, age, size of the log and what solving again would take; used by the model's writer alone.

    A snapshot is also due when the records behind it have more bytes than it has, so that reading them at a restart
    takes no longer than reading a snapshot. Solutions see to it that a restart has little to solve again.

    Parameters
    ----------
    journal : takes the snapshots
    due : when one is
    recovered : what there is
    """

    def __init__(self, journal: Journal, due: Due, recovered: Recovered[Any]) -> None:
        self._journal = journal
        self._due = due
        self._version = recovered.snapshot_version
        self._snapshot_bytes = recovered.snapshot_bytes
        self._log_bytes = 0
        self._changed_since: float | None = None
        self._has_failed = False
        self._replay = 0.0
        self._unsolved = 0.0
        if recovered.log_bytes:
            self.record_change(recovered.replay_seconds, recovered.log_bytes)

    def record_change(self, seconds: float, size: int) -> None:
        """Count from now unless something has changed before; so long it took to solve, so many bytes were logged."""
        self._changed_since = self._changed_since or time.monotonic()
        self._replay += seconds
        self._unsolved += seconds
        self._log_bytes += size

    def forget(self) -> None:
        """Keep nothing more: the model is gone."""
        self._changed_since = None

    @property
    def has_changes(self) -> bool:
        """Whether anything has changed since the newest snapshot."""
        return self._changed_since is not None

    @property
    def is_worthwhile(self) -> bool:
        """Whether something has changed that a snapshot is to hold when it goes to rest."""
        return self._is_worth(self._due.worth_at_rest)

    def _is_worth(self, seconds: float) -> bool:
        is_worth_it = self._has_failed or not self._snapshot_bytes or self._replay >= seconds
        return self._changed_since is not None and is_worth_it

    def deadline(self) -> float:
        """Return the monotonic time by which a snapshot is due; infinite while there is nothing worth one."""
        if self._changed_since is None or not self._is_worth(self._due.worth_seconds):
            return math.inf
        return self._changed_since + self._due.seconds

    def is_due(self, version: int, deadline: float) -> bool:
        """Return whether a model at ``version`` is to be snapshot now; ``deadline`` is its own."""
        return (
            time.monotonic() >= deadline
            or self._replay >= self._due.replay_seconds
            or self._log_bytes >= max(LEAST_BYTES, self._snapshot_bytes)
            or version - self._version >= self._due.updates
        )

    def keep_solution(self, state: ModelState, record: bytes, seconds: float) -> None:
        """Store what ``record``, the newest, was solved to in ``seconds``, where that or a restart would take long.

        It may fail; where it must not, that raises StoreError, and the caller gets no answer that the update is done.
        """
        must = seconds >= CERTAIN_SECONDS
        took_long = self._unsolved >= self._due.solution_seconds or state.sizes.n_free >= MANY_FREE
        if not ((must or took_long) and state.is_fitted and task_of(state.spec).is_exact):
            return
        self._unsolved = 0.0
        crash.point("before-solution")
        try:
            self._journal.settle()
            self._journal.save_solution(solution_of(state, record))
        except Exception as error:
            log.warning("model %s: no solution was written: %s", self._journal.lease.model, error)
            if must:
                raise
        crash.point("after-solution")

    def save(self, state: State, summary: bytes) -> None:
        """Write a snapshot, and what is shown of it at rest; raises StoreError."""
        crash.point("before-snapshot")
        data = state.encode()
        self._journal.save_snapshot(state.sequence, data, state.version, summary)
        crash.point("after-snapshot")
        self.saved(state, len(data))

    def saved(self, state: State, size: int) -> None:
        """Know that the store has a snapshot of so many bytes."""
        self._snapshot_bytes = size
        self._start_afresh(state, None)

    def save_quietly(self, state: State, summary: bytes) -> None:
        """Write a snapshot; a failure loses nothing, as the log has it all, and is tried again later."""
        try:
            self._journal.settle()
            self.save(state, summary)
        except Exception as error:
            log.warning("model %s: no snapshot was written: %s", self._journal.lease.model, error)
            self._start_afresh(state, None if self._journal.fenced else time.monotonic())

    def _start_afresh(self, state: State, changed_since: float | None) -> None:
        self._version = state.version
        self._changed_since = changed_since
        self._has_failed = changed_since is not None
        self._replay = self._unsolved = 0.0
        self._log_bytes = 0
