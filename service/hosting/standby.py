"""Predictions for a model that another service holds, made with a copy of the model that is read from the store."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from math import inf

from livesvm.service.errors import ModelUnavailable, ServiceError
from livesvm.service.history.erasure import left
from livesvm.service.history.versions import decided_state
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.model import Recent
from livesvm.service.models.arrays import Rows
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.table_rows import TableRows
from livesvm.service.resources.shared_threads import Steps
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import Lease, ModelGone, StoreError
from livesvm.solvers.errors import SolverError

IDLE_SECONDS = 60.0
"""Seconds after which an unused copy is dropped."""


class Standby:
    """A copy of a stored model, for predictions; it is updated from the store at most once in ``lease_seconds``.

    Implements :class:`~livesvm.service.hosting.handle.Reader`.
    """

    stale = True

    def __init__(self, id: str, spec: ModelSpec, context: Context) -> None:
        self.id, self.spec = id, spec
        self.recent = Recent()
        self._context = context
        self._lock = threading.Lock()
        self._is_over = False
        self._asked_at = time.monotonic()
        self._forget()

    def __str__(self) -> str:
        return f"copy of model {self.id}"

    def _forget(self) -> None:
        self._context.budget.release(self)
        self._state: ModelState | None = None
        self._published = ModelState.empty(self.spec, self._context.settings.cache_mb).published()
        self._read_at = self._tried_at = -inf
        self._erased_at, self._fault = 0.0, ""
        self._lease: Lease | None = None

    @property
    def age(self) -> float:
        """Seconds since the copy was last read from the store."""
        return time.monotonic() - self._read_at

    def _is_due(self, seconds: float) -> bool:
        return time.monotonic() - self._tried_at >= seconds

    @property
    def published(self) -> Published:
        """The version of the copy; it has no predictor if the next call of :meth:`reader` may read the store."""
        soon = self._is_due(0.5 * self._context.settings.lease_seconds)
        return replace(self._published, predictor=None) if soon else self._published

    def reader(self, X: Rows | TableRows) -> Published:
        """Return the newest version that can be read; not for the event loop's thread, because this may read the store.

        Raises ModelUnavailable if no version can be read.
        """
        self._asked_at = time.monotonic()
        with self._lock:
            if self._is_due(self._context.settings.lease_seconds):
                self._read()
                self._tried_at = time.monotonic()
            if self._state is None:
                reason = f"is held by another service, and cannot be read here: {self._fault}"
                raise ModelUnavailable(f"model {self.id} {reason}")
            seen = self._published
            if self._is_over:
                self._forget()
            return seen

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Return the newest version that can be read; the generator yields no intermediate steps."""
        return self.reader(X)
        yield

    def tidy(self) -> None:
        """Drop the copy if it is unused, or was read before an erasure; raises StoreError.

        A copy that is in use now is kept until the next call of this method.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            is_idle = time.monotonic() - self._asked_at >= IDLE_SECONDS
            if is_idle or (self._state is not None and self._erased() != self._erased_at):
                self._forget()
        finally:
            self._lock.release()

    def release(self) -> None:
        """Drop the copy, now or after its present use, because no other service holds the model any more."""
        self._is_over = True
        if self._lock.acquire(blocking=False):
            self._forget()
            self._lock.release()

    def _erased(self) -> float:
        """Return the Unix time at which the model's newest erasure was requested."""
        with self._context.source.health.store_call("load"):
            return left(self._context.source.store, self.id).at

    def _read(self) -> None:
        """Update the copy from the store; after a failure the old copy stays."""
        source, solve = self._context.source, Solve(self._context.settings.solve_seconds)
        try:
            with self._context.turns.turn(solve), source.health.store_call("load"):
                state = self._newest()
            self._context.budget.resize(self, state.bytes_with(None))
        except (StoreError, ServiceError, SolverError) as error:
            self._fault = str(error)
            return
        self._state, self._published, self._read_at = state, state.published(), time.monotonic()

    def _newest(self) -> ModelState:
        store, cache_mb = self._context.source.store, self._context.settings.cache_mb
        head, erased_at = store.heads([self.id]).get(self.id), self._erased()
        if head is None:
            raise ModelGone(f"model {self.id} is not stored")
        if self._state is not None and (
            (erased_at, head.lease) != (self._erased_at, self._lease) or head.sequence < self._state.sequence
        ):
            self._forget()  # the copy may be from before an erasure, or from another history, as that of a backup
        self._erased_at, self._lease = erased_at, head.lease
        return decided_state(store, self.spec, cache_mb, self.id, head.sequence, self._state)
