"""Whether the service can do its work now: restored, warm, its store reachable, not stopping."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.metrics import Metrics
from service.store.base import Durability, Store, StoreError, StoreUnavailable


class Health:
    """Facts that readiness is made of; each is set by whoever learns it first."""

    def __init__(self, metrics: Metrics, lease_seconds: float = 5.0) -> None:
        self._metrics = metrics
        self._lease_seconds = lease_seconds
        self._answered_at = time.monotonic()
        self._on_standby = False
        self._level: Durability | None = None
        self._lock = threading.Lock()
        self._store_up = True
        self._came_back = False
        self._warm = False
        self._restored = False
        self._stopping = False
        self._show()

    @property
    def store_up(self) -> bool:
        """Whether the store answered last time."""
        return self._store_up

    @property
    def durability(self) -> Durability | None:
        """What the store said last that it gives; None while it is away."""
        return self._level if self._store_up else None

    @property
    def store_is_fresh(self) -> bool:
        """Whether the store answered, and lately enough that no other service can have taken a model over unseen."""
        return self._store_up and time.monotonic() - self._answered_at < self._lease_seconds

    @property
    def is_restored(self) -> bool:
        """Whether the models are there and the code is warm."""
        return self._restored

    @property
    def is_stopping(self) -> bool:
        """Whether no more work is taken."""
        return self._stopping

    def reasons(self) -> list[str]:
        """Why the service is not ready; empty when it is."""
        found = {
            "the store is not available": not self._store_up,
            "models are being restored": not (self._restored or self._came_back),
            "the solvers are being loaded or compiled": not (self._restored or self._warm),
            "requests are being rehearsed": not self._restored and self._came_back and self._warm,
            "the service is stopping": self._stopping,
            "another service holds the models": self._on_standby,
        }
        return [reason for reason, holds in found.items() if holds]

    def came_back(self) -> None:
        """Models are there."""
        self._came_back = True

    def warmed(self) -> None:
        """Every solver is compiled and loaded."""
        self._warm = True

    def restored(self) -> None:
        """Models are there, compiled code is warm, and requests have been rehearsed."""
        self._restored = True
        self._show()

    def stopping(self) -> None:
        """No more work is taken."""
        self._stopping = True
        self._show()

    def standby(self, *, on: bool) -> None:
        """Every model is held by another service."""
        if on != self._on_standby:
            self._on_standby = on
            self._show()

    @contextmanager
    def store_call(self, operation: str) -> Iterator[None]:
        """Time one call of the store and remember whether the store answered."""
        try:
            with self._metrics.store_call(operation):
                yield
        except StoreUnavailable:
            self._set_store(up=False)
            raise
        self._set_store(up=True)

    def ask_store(self, store: Store) -> None:
        """Ask the store whether it could write."""
        try:
            with self.store_call("ping"):
                store.ping()
        except StoreError:
            self._set_store(up=False)
            return
        with self.store_call("ping"):
            self._level = level = store.durability()
        for each in type(level):
            self._metrics.durability.labels(each.value).set(each is level)

    def _set_store(self, *, up: bool) -> None:
        with self._lock:
            if up:
                self._answered_at = time.monotonic()
            if up != self._store_up:
                self._store_up = up
                self._show()

    def _show(self) -> None:
        self._metrics.store_up.set(self._store_up)
        self._metrics.ready.set(not self.reasons())
