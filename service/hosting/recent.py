"""What a model has done lately: its newest updates in numbers, and how many rows it has predicted."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

from livesvm.service.models.outcome import Outcome

KEPT = 50
"""Updates that are remembered."""


class Recent:
    """Counts since the model woke: updates by its writer, predictions by any thread."""

    def __init__(self) -> None:
        self._updates: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._lock = Lock()
        self.predicted = 0  #: rows

    def note_update(self, version: int, at: float | None, outcome: Outcome, reported: dict[str, Any]) -> None:
        """Remember an update: the version that it made, when (Unix time), what came of it, what it changed."""
        self._updates.append(
            {"version": version, "at": at, "seconds": outcome.seconds, **vars(outcome.sizes), **reported}
        )

    def note_predicted(self, rows: int) -> None:
        """Count rows that were predicted."""
        with self._lock:
            self.predicted += rows

    def updates(self) -> list[dict[str, Any]]:
        """Return the newest updates, newest first."""
        return list(self._updates.copy())[::-1]
