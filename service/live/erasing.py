"""What a model's writer does to forget: say so durably, solve without, and put that in place of all that was stored."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Protocol

from livesvm.service import crash
from livesvm.service.history.erasure import LEFT, Asked, Intent, Left
from livesvm.service.history.journal import Journal
from livesvm.service.models.arrays import Key
from livesvm.service.models.outcome import Outcome
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import DocumentName


class Stored(Protocol):
    """What a snapshot is made of: a model's state, or a feed's."""

    version: int
    sequence: int

    def encode(self) -> bytes:
        """All of it."""


def begin(journal: Journal, asked: Asked, window: Container[Key], version: int, *, every: bool = False) -> Intent:
    """Keep durably that these are to be forgotten; from here on they are, whatever happens. Raises StoreError.

    With them go the requests that tell of them, or ``every`` one.
    """
    intent = Intent.of(journal.lease.model, asked, window, version)
    intent = intent.with_requests(journal.requests(), None if every else asked.keys)
    journal.put_document(intent.at_store, intent.encode())
    crash.point("erase-begun")
    return intent


def solve(state: ModelState, intent: Intent) -> tuple[Outcome | None, dict[str, Any] | None]:
    """Bring the model to the optimum without them, and prove that; raises SolverError with it as it was."""
    outcome = state.forget(intent.leaving(state.window.arrivals))
    return outcome, state.certificate() if state.can_predict else None


def write(journal: Journal, state: Stored, intent: Intent, keep: int) -> tuple[int, int]:
    """Have a snapshot of the state stand for all that was stored; its bytes, and how many requests went.

    Raises StoreError; done again, it ends where it would have.
    """
    requests = intent.going(journal.requests())
    before = journal.left
    now = Left(state.version, intent.at, before.salt, dict(before.requests))
    now.bury(requests, state.sequence - keep)
    journal.put_document(DocumentName(LEFT, intent.model), now.encode())
    journal.left = now
    data = state.encode()
    journal.supersede(state.sequence, data, state.version)
    crash.point("erase-superseded")
    journal.forget_requests(requests)
    crash.point("erase-forgotten")
    return len(data), len(requests)
