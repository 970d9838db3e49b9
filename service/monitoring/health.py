"""Health of the service: whether it serves predictions, learns, or stands by for another service."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import Durability, Store, StoreError, StoreUnavailable
from livesvm.solvers.runtime.at_work import at_work

SILENCE_SECONDS = 4.5
"""After which a store that neither answers nor refuses counts as away: a disk that hangs says nothing."""
STANDS_BY = "another service takes the calls, and this one stands by"
CLUSTERLESS = "there is no Ray cluster at the address of LIVESVM_RAY, and it is waited for"
HEADLESS = "the head of the Ray cluster does not answer: lost actors are not started again, nor new ones"
_UNSERVED: dict[ServingState, str] = {
    "restoring": "are still being restored",
    "failed": "cannot be restored",
    "held": "are held by another service",
    "fenced": "were taken over by another service",
    "behind": "know more than the store, which has lost it",
}

_PREDICTING: tuple[ServingState, ...] = ("live", "behind")
"""States in which a model predicts from memory; one that is behind its store is not updated."""

log = logging.getLogger(__name__)


class Health:
    """Facts that readiness is made of; each is set by whoever learns it first."""

    def __init__(self, metrics: Metrics, lease_seconds: float = 5.0) -> None:
        self._metrics = metrics
        self._lease_seconds = lease_seconds
        self._answered_at = time.monotonic()
        self._states: Callable[[], Mapping[ServingState, int]] = dict
        self._uncompiled: Callable[[], Iterable[str]] = tuple
        self._sources: Callable[[], Iterable[str]] = tuple
        self._untrained: Callable[[], Iterable[str]] = tuple
        self._keys: Callable[[], str | None] = lambda: None
        self._head_is_up: Callable[[], bool] = lambda: True
        self._active = ""
        self._level: Durability | None = None
        self._weakness: str | None = None
        self._lock = threading.Lock()
        self._store_up = True
        self._down_since = 0.0
        self._unanswered = False
        self._came_back = False
        self._warm = False
        self._restored = False
        self._draining = False
        self._stopping = False
        metrics.store_up.set_function(lambda: self._store_up and not self._is_silent)
        metrics.ready.set_function(lambda: not self.reasons())
        metrics.serving.set_function(lambda: not self.unserving())
        metrics.standby.set_function(lambda: self.stands_by)

    def watch_models(self, states: Callable[[], Mapping[ServingState, int]]) -> None:
        """Judge by the models too; how many are in which state is asked for whenever readiness is."""
        self._states = states

    def watch_compiling(self, uncompiled: Callable[[], Iterable[str]]) -> None:
        """Tell of the solvers that are still being compiled."""
        self._uncompiled = uncompiled

    def watch_sources(self, troubles: Callable[[], Iterable[str]]) -> None:
        """Tell of what is wrong with sources of feeds."""
        self._sources = troubles

    def watch_untrained(self, untrained: Callable[[], Iterable[str]]) -> None:
        """Tell of the models that an erasure has left untrained."""
        self._untrained = untrained

    def watch_keys(self, trouble: Callable[[], str | None]) -> None:
        """Tell why changed API keys are not in force."""
        self._keys = trouble

    def watch_head(self, is_up: Callable[[], bool]) -> None:
        """Tell where the head of the cluster, in which the models live, does not answer."""
        self._head_is_up = is_up
        self._metrics.watch_head(is_up)

    @property
    def store_up(self) -> bool:
        """Whether the store could be written last time."""
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
    def is_draining(self) -> bool:
        """Whether the service is about to stop, or stops."""
        return self._draining

    @property
    def is_stopping(self) -> bool:
        """Whether no more work is taken."""
        return self._stopping

    @property
    def stands_by(self) -> bool:
        """Whether another service takes the calls, and this one is there to go on when that ends."""
        states = self._states()
        idle = bool(self._active) or (bool(states) and not states.keys() - {"held", "fenced"})
        return self._restored and not self._draining and idle

    def reasons(self) -> list[str]:
        """Return why updates are not accepted; empty when the service is ready."""
        unserving, states = self.unserving(), self._states()
        away = not self._store_up or (self._restored and self._is_silent)
        read_only = [] if unserving or states.get("live") else _told(states)
        return ["the store is not available"] * away + unserving + read_only

    def unserving(self) -> list[str]:
        """Return why calls should not come here; empty when predictions are answered, also without a store."""
        found = {
            CLUSTERLESS: not (self._restored or self._came_back or self._head_is_up()),
            "models are being restored": not (self._restored or self._came_back),
            at_work.progress() or "the solvers are being loaded or compiled": not (self._restored or self._warm),
            "requests are being rehearsed": not self._restored and self._came_back and self._warm,
            "the service is stopping": self._draining,
        }
        states = self._states()
        unserved = [] if any(states.get(state) for state in _PREDICTING) else _told(states)
        standing_by = [STANDS_BY] if self._active and not unserved else []
        return [reason for reason, holds in found.items() if holds] + unserved + standing_by

    def degraded(self) -> list[str]:
        """Return what a ready service does not do: models not served or read-only, waiting jobs, unread sources."""
        waiting = [f"solvers of {each} are being compiled: what needs them takes longer" for each in self._uncompiled()]
        head = [] if self._head_is_up() else [HEADLESS]
        without = [f"model {name} has no training since an erasure: retrain it" for name in self._untrained()]
        weak = [found for found in (self._weakness, self._keys()) if found is not None]
        return [*_told(self._states()), *weak, *waiting, *head, *self._sources(), *without]

    @property
    def _is_silent(self) -> bool:
        """Whether the store has not answered for too long."""
        return time.monotonic() - self._answered_at >= SILENCE_SECONDS

    def learnt_active(self, other: str) -> None:
        """Note which other service takes the calls; empty if this one does."""
        self._active = other

    def came_back(self) -> None:
        """Note that models are there."""
        self._came_back = True

    def warmed(self) -> None:
        """Note that the solvers of updates are compiled and loaded."""
        self._warm = True

    def restored(self) -> None:
        """Note that models are there, solvers are compiled, and requests have been rehearsed."""
        self._restored = True

    def draining(self) -> None:
        """Note that the service is about to stop: it answers, and no more calls should come."""
        self._draining = True

    def stopping(self) -> None:
        """Note that no more work is taken."""
        self._stopping = self._draining = True

    @contextmanager
    def store_call(self, operation: str) -> Iterator[None]:
        """Time one call of the store, and remember if the store did not do it.

        One that was done says that the store is there. That it can be written, only an append says, and not while
        :meth:`ask_store` finds otherwise: there may be space for a small update, and for no other.
        """
        try:
            with self._metrics.store_call(operation):
                yield
        except StoreUnavailable as error:
            self._set_store(str(error))
            raise
        self._answered_at = time.monotonic()
        if operation == "append" and not self._unanswered:
            self._set_store(None)

    def ask_store(self, store: Store, look: Callable[[], None] = lambda: None) -> None:
        """Ask the store whether it could write, and ``look`` what that means for models before it is said.

        What ``look`` raises is raised, and the store is thought of as it was.
        """
        try:
            with self.store_call("ping"):
                store.ping()
                self._level = level = store.durability()
                self._set_weakness(store.weakness)
        except StoreError as error:
            self._unanswered = True
            self._set_store(str(error))
            return
        look()
        self._unanswered = False
        self._set_store(None)
        for each in type(level):
            self._metrics.durability.labels(each.value).set(each is level)

    def _set_weakness(self, weakness: str | None) -> None:
        """Know why the store may lose what it acknowledges, if it may; each such reason is logged once."""
        if weakness not in (None, self._weakness):
            log.error("the durability is memory: %s", weakness)
        self._weakness = weakness

    def _set_store(self, fault: str | None) -> None:
        """Know that the store can be written, or why not; the first and the last of it are logged."""
        with self._lock:
            if self._store_up == (fault is None):
                return
            self._store_up = fault is None
            if fault is not None:
                self._down_since = time.monotonic()
                log.error("the store is not available, and updates are refused: %s", fault)
            else:
                log.warning("the store is available again, after %.1f s", time.monotonic() - self._down_since)


def _told(states: Mapping[ServingState, int]) -> list[str]:
    """Return how many models are not served, by why."""
    total = sum(states.values())
    counts = sorted((state, count) for state, count in states.items() if count and state != "live")
    return [f"{count} of {total} models {_UNSERVED.get(state, f'are {state}')}" for state, count in counts]
