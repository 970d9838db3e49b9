"""When the next snapshot of a model is due, and writing it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from service import crash
from service.journal import Journal
from service.model import ModelState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """After so many updates, so many seconds, or updates that took so many seconds to solve, a snapshot is due."""

    updates: int
    seconds: float
    replay_seconds: float


class Checkpoints:
    """Snapshots by count, by age and by what a restart would have to do; used by the model's writer alone.

    Parameters
    ----------
    journal : takes the snapshots
    due : when one is
    version : of the newest snapshot there is
    """

    def __init__(self, journal: Journal, due: Due, version: int) -> None:
        self._journal = journal
        self._due = due
        self._version = version
        self._changed_since: float | None = None
        self._replay = 0.0

    def note_change(self, seconds: float) -> None:
        """Count from now unless something has changed before; ``seconds`` is what it took to solve."""
        self._changed_since = self._changed_since or time.monotonic()
        self._replay += seconds

    def forget(self) -> None:
        """Keep nothing more: the model is gone."""
        self._changed_since = None

    @property
    def has_changes(self) -> bool:
        """Whether anything has changed since the newest snapshot."""
        return self._changed_since is not None

    def deadline(self) -> float | None:
        """The monotonic time by which a snapshot is due; None while nothing has changed."""
        return None if self._changed_since is None else self._changed_since + self._due.seconds

    def is_long(self, seconds: float) -> bool:
        """Whether what took so long to solve is reason enough for a snapshot."""
        return seconds >= self._due.replay_seconds

    def is_due(self, version: int) -> bool:
        """Whether a model at ``version`` is to be snapshot now."""
        deadline = self.deadline()
        late = deadline is not None and time.monotonic() >= deadline
        return late or self.is_long(self._replay) or version - self._version >= self._due.updates

    def save(self, state: ModelState) -> None:
        """Write a snapshot; raises StoreError."""
        crash.point("before-snapshot")
        self._journal.save_snapshot(state.sequence, state.encode(), state.version)
        crash.point("after-snapshot")
        self._start_anew(state, None)

    def save_quietly(self, state: ModelState) -> None:
        """Write a snapshot; a failure loses nothing, as the log has it all, and is tried again later."""
        try:
            self._journal.settle()
            self.save(state)
        except Exception as error:
            log.warning("model %s: no snapshot was written: %s", self._journal.lease.model, error)
            self._start_anew(state, None if self._journal.fenced else time.monotonic())

    def _start_anew(self, state: ModelState, changed_since: float | None) -> None:
        self._version = state.version
        self._changed_since = changed_since
        self._replay = 0.0
