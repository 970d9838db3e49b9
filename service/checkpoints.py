"""When the next snapshot of a model is due, and writing it."""

from __future__ import annotations

import logging
import time

from service import crash
from service.journal import Journal
from service.model import ModelState

log = logging.getLogger(__name__)


class Checkpoints:
    """Snapshots by count and by age; used by the model's writer alone.

    Parameters
    ----------
    journal : takes the snapshots
    updates : after so many updates one is due
    seconds : for so long a change may wait for one
    version : of the newest snapshot there is
    changed : whether anything has changed since
    """

    def __init__(self, journal: Journal, updates: int, seconds: float, version: int, *, changed: bool) -> None:
        self._journal = journal
        self._updates = updates
        self._seconds = seconds
        self._version = version
        self._changed_since: float | None = time.monotonic() if changed else None

    def note_change(self) -> None:
        """Count from now unless something has changed before."""
        self._changed_since = self._changed_since or time.monotonic()

    def forget(self) -> None:
        """Keep nothing more: the model is gone."""
        self._changed_since = None

    @property
    def has_changes(self) -> bool:
        """Whether anything has changed since the newest snapshot."""
        return self._changed_since is not None

    def deadline(self) -> float | None:
        """The monotonic time by which a snapshot is due; None while nothing has changed."""
        return None if self._changed_since is None else self._changed_since + self._seconds

    def is_due(self, version: int) -> bool:
        """Whether a model at ``version`` is to be snapshot now."""
        deadline = self.deadline()
        late = deadline is not None and time.monotonic() >= deadline
        return late or version - self._version >= self._updates

    def save(self, state: ModelState) -> None:
        """Write a snapshot; raises StoreError."""
        crash.point("before-snapshot")
        self._journal.save_snapshot(state.sequence, state.encode(), state.version)
        crash.point("after-snapshot")
        self._version = state.version
        self._changed_since = None

    def save_quietly(self, state: ModelState) -> None:
        """Write a snapshot; a failure loses nothing, as the log has it all, and is tried again later."""
        try:
            self._journal.settle()
            self.save(state)
        except Exception as error:
            log.warning("model %s: no snapshot was written: %s", self._journal.lease.model, error)
            self._version = state.version
            self._changed_since = None if self._journal.fenced else time.monotonic()
