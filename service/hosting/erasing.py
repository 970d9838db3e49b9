"""What a writer does to forget: solve without, and put that in place of all that was stored."""

from __future__ import annotations

from typing import Any, Protocol

from livesvm.service import crash
from livesvm.service.history.erasure import LEFT, Intent, Left
from livesvm.service.history.journal import Journal
from livesvm.service.models.outcome import Outcome
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import DocumentName


class Stored(Protocol):
    """What a snapshot is made of: a model's state, or a feed's."""

    @property
    def version(self) -> int: ...

    @property
    def sequence(self) -> int: ...

    def encode(self) -> bytes:
        """Encode the whole record."""


def solve(state: ModelState, intent: Intent, stored: str) -> tuple[Outcome | None, dict[str, Any] | None]:
    """Bring the model to the optimum without them, and prove that; raises SolverError with it as it was."""
    window = state.window
    outcome = state.forget(intent.leaving(stored, window.arrivals, window.tags))
    return outcome, state.certificate() if state.can_predict else None


def write(journal: Journal, state: Stored, intent: Intent, summary: bytes, keep: int) -> tuple[int, int]:
    """Have a snapshot of the state stand for all that was stored; its bytes, and how many requests went.

    Raises StoreError; done again, it ends where it would have.
    """
    model = journal.lease.model
    requests = intent.going(model, journal.requests())
    before = journal.left
    now = Left(state.version, intent.at, before.salt, dict(before.requests))
    now.bury(requests, state.sequence - keep)
    journal.put_document(DocumentName(LEFT, model), now.encode())
    journal.left = now
    data = state.encode()
    journal.supersede(state.sequence, data, state.version, summary)
    crash.point("erase-superseded")
    journal.forget_requests(requests)
    crash.point("erase-forgotten")
    return len(data), len(requests)
