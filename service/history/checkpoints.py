"""Decide when the next snapshot or stored solution of a model is due, and write the snapshot or solution."""

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
"""A shorter log needs no snapshot because of its size, however small the snapshot would be."""

MANY_FREE = 2000
"""From this many free examples on, every update has its solution stored: a restart then has none to solve, and
predicts before it has built the factor."""

SECONDS_A_BYTE = 1e-7
"""Seconds of solving that each byte of a solution beyond :data:`LEAST_BYTES` must save: some ten times what it takes
to write. So large windows do not write megabytes after each update."""

CERTAIN_SECONDS = 1.0
"""An update that took longer to solve is answered only when its solution is stored. So if no solution is found after
a crash, no caller has an answer to the update, and it may be set aside."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """The limits after which a snapshot is due: a number of updates, of seconds, or of ``replay_seconds`` of solving.

    A solution is due after ``solution_seconds`` of solving since the last one. No snapshot is due after ``seconds`` if
    the updates since the newest snapshot took less than ``worth_seconds`` to solve. No snapshot is due when the model
    goes to rest if the updates since the newest snapshot took less than ``worth_at_rest`` to solve. Updates that were
    solved quickly take less time to solve again than a snapshot takes to write.
    """

    updates: int
    seconds: float
    replay_seconds: float
    solution_seconds: float
    worth_seconds: float
    worth_at_rest: float

    @classmethod
    def by(cls, settings: Settings, worth: tuple[float, float]) -> Due:
        """Return the limits in the service's settings; ``worth`` is (``worth_seconds``, ``worth_at_rest``)."""
        return cls(
            settings.snapshot_updates,
            settings.snapshot_seconds,
            settings.snapshot_replay_seconds,
            settings.solution_seconds,
            *worth,
        )


class Checkpoints:
    """The writer of one model's snapshots and solutions, which counts changes; only the model's writer uses it.

    A snapshot is also due when the log records since the newest snapshot take more bytes than this snapshot, so that a
    restart does not read long logs. With stored solutions, a restart has few updates to solve again.

    Parameters
    ----------
    journal : writes the snapshots
    due : the limits after which a snapshot or a solution is due
    recovered : the model's recovery, from which the counts begin
    """

    def __init__(self, journal: Journal, due: Due, recovered: Recovered[Any]) -> None:
        self._journal = journal
        self._due = due
        self._version = recovered.snapshot_version
        self._snapshot_bytes = recovered.snapshot_bytes
        self._log_bytes = self._solution_bytes = 0
        self._changed_since: float | None = None
        self._has_failed = False
        self._replay = 0.0
        self._unsolved = 0.0
        if recovered.log_bytes:
            self.record_change(recovered.replay_seconds, recovered.log_bytes)

    def record_change(self, seconds: float, size: int) -> None:
        """Count a change that took ``seconds`` to solve and ``size`` bytes of log; note the first change's time."""
        self._changed_since = self._changed_since or time.monotonic()
        self._replay += seconds
        self._unsolved += seconds
        self._log_bytes += size

    def forget(self) -> None:
        """Forget all counted changes, so that no snapshot of a deleted model is due."""
        self._changed_since = None

    @property
    def has_changes(self) -> bool:
        """Whether anything has changed since the newest snapshot."""
        return self._changed_since is not None

    @property
    def is_worthwhile(self) -> bool:
        """Whether updates took long enough to solve that a snapshot is due when the model goes to rest."""
        return self._is_worth(self._due.worth_at_rest)

    def _is_worth(self, seconds: float) -> bool:
        is_worth_it = self._has_failed or not self._snapshot_bytes or self._replay >= seconds
        return self._changed_since is not None and is_worth_it

    def deadline(self) -> float:
        """Return the monotonic time at which a snapshot is due; infinity while too little has changed."""
        if self._changed_since is None or not self._is_worth(self._due.worth_seconds):
            return math.inf
        return self._changed_since + self._due.seconds

    def is_due(self, version: int, deadline: float) -> bool:
        """Return whether a snapshot of a model at ``version`` is due now; ``deadline`` is from :meth:`deadline`."""
        return (
            time.monotonic() >= deadline
            or self._replay >= self._due.replay_seconds
            or self._log_bytes >= max(LEAST_BYTES, self._snapshot_bytes)
            or version - self._version >= self._due.updates
        )

    def keep_solution(self, state: ModelState, record: bytes, seconds: float) -> None:
        """Store the solution after the newest ``record``, solved in ``seconds``, unless solving again would be quick.

        A failure to store the solution is logged. If solving took :data:`CERTAIN_SECONDS` or more, the failure is
        raised too, so that no answer is sent.
        """
        must = seconds >= CERTAIN_SECONDS
        due = max(self._due.solution_seconds, SECONDS_A_BYTE * (self._solution_bytes - LEAST_BYTES))
        took_long = self._unsolved >= due or state.sizes.n_free >= MANY_FREE
        if not ((must or took_long) and state.is_fitted and task_of(state.spec).is_exact):
            return
        self._unsolved = 0.0
        crash.point("before-solution")
        try:
            self._journal.settle()
            solution = solution_of(state, record)
            self._solution_bytes = len(solution.data)
            self._journal.save_solution(solution)
        except Exception as error:
            log.warning("model %s: no solution was written: %s", self._journal.lease.model, error)
            if must:
                raise
        crash.point("after-solution")

    def save(self, state: State, summary: bytes) -> None:
        """Write a snapshot, and the summary that describes the model at rest; raises StoreError."""
        crash.point("before-snapshot")
        data = state.encode()
        self._journal.save_snapshot(state.sequence, data, state.version, summary)
        crash.point("after-snapshot")
        self.saved(state, len(data))

    def saved(self, state: State, size: int) -> None:
        """Record that the store has a new snapshot of ``size`` bytes, and reset the counts."""
        self._snapshot_bytes = size
        self._start_afresh(state, None)

    def save_quietly(self, state: State, summary: bytes) -> None:
        """Write a snapshot; if that fails, log the failure and try again later, because the log has all changes."""
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
