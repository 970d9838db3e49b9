"""What a writer tells the store about its model, and what it still owes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from service.errors import IdempotencyConflict, ModelUnavailable
from service.health import Health
from service.metrics import Metrics
from service.store.base import Durability, Fenced, Idempotency, Lease, Store, StoreError

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Where models are stored, and what watches the store."""

    store: Store
    health: Health
    metrics: Metrics


@dataclass
class Journal:
    """The log and the snapshots of one model, seen by its only writer.

    Invariant: no command is appended while a debt stands, a debt being a thing the store must know first (that a
    record was taken back, or how a request was answered).
    """

    source: Source
    lease: Lease
    keep: int
    fenced: bool = False
    _debts: list[Callable[[], None]] = field(default_factory=list)

    def owe(self, debt: Callable[[], None]) -> None:
        """Have ``debt`` paid before the next command."""
        self._debts.append(debt)

    def settle(self) -> None:
        """Pay every debt, oldest first; raises StoreError if the store does not take it."""
        while self._debts:
            self._debts[0]()
            self._debts.pop(0)

    def append(self, sequence: int, data: bytes, idempotency: Idempotency | None) -> Durability:
        """Log a command; the durability that it reached."""
        return self._call("append", lambda store: store.append(self.lease, sequence, data, idempotency, keep=self.keep))

    def abort(self, sequence: int) -> None:
        """Take a record back."""
        self._call("abort", lambda store: store.abort(self.lease, sequence))

    def last_sequence(self) -> int:
        """Number of the newest record in the log."""
        return self._call("recall", lambda store: store.last_sequence(self.lease))

    def recall(self, request: str, digest: bytes) -> bytes | None:
        """The answer that a request got before, None if it is new; raises IdempotencyConflict."""
        earlier = self._call("recall", lambda store: store.recall(self.lease.model, request))
        if earlier is None:
            return None
        if earlier.body != digest:
            raise IdempotencyConflict(f"the key {request!r} came with another update before")
        if earlier.answer is None:
            raise ModelUnavailable(f"the update of {request!r} is record {earlier.sequence}; its answer is lost")
        return bytes(earlier.answer)

    def remember(self, request: str, answer: bytes) -> None:
        """Keep the answer to a request."""
        self._call("answer", lambda store: store.remember(self.lease, request, answer))

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        """Keep a snapshot that holds every record up to ``sequence``."""
        try:
            self._call("snapshot", lambda store: store.save_snapshot(self.lease, sequence, data))
        except StoreError:
            self.source.metrics.snapshots.labels("failed").inc()
            raise
        self.source.metrics.snapshots.labels("written").inc()

    def delete(self) -> None:
        """Remove the model from the store."""
        self._call("delete", lambda store: store.delete(self.lease))

    def check_not_fenced(self) -> None:
        """Raise Fenced once another writer has taken the model over."""
        if self.fenced:
            raise Fenced(f"another writer has taken model {self.lease.model} over")

    def _call(self, operation: str, call: Callable[[Store], T]) -> T:
        try:
            with self.source.health.store_call(operation):
                return call(self.source.store)
        except Fenced:
            self.fenced = True
            raise
