"""Health of the service: whether it makes predictions, accepts updates, or stands by for another service."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter

from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import Durability, LeaseHeld, ModelExists, Store, StoreError, StoreUnavailable
from livesvm.solvers.errors import SolverError
from livesvm.solvers.runtime.at_work import at_work

SILENCE_SECONDS = 4.5
"""A store that neither answers nor fails for so long counts as away, as a disk that hangs does neither."""
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
    """The facts that determine whether the service is ready; code that observes a fact sets it here."""

    def __init__(self, metrics: Metrics, lease_seconds: float = 5.0) -> None:
        self._metrics = metrics
        self._lease_seconds = lease_seconds
        self._answered_at = time.monotonic()
        self.states: Callable[[], Mapping[ServingState, int]] = dict  #: of models; asked for whenever readiness is
        self.uncompiled: Callable[[], Iterable[str]] = tuple  #: the solvers that are still being compiled
        self.troubles: Callable[[], Iterable[str]] = tuple  #: what is wrong with sources of feeds
        self.untrained: Callable[[], Iterable[str]] = tuple  #: the models that an erasure has left untrained
        self.key_trouble: Callable[[], str | None] = lambda: None  #: why changed API keys are not in force
        self.head_is_up: Callable[[], bool] = lambda: True  #: whether the head of the cluster with the models answers
        self._active = ""
        self._level: Durability | None = None
        self._weakness: str | None = None
        self._lock = threading.Lock()
        self.store_up = True  #: whether the store could be written last time
        self._down_since = 0.0
        self._unanswered = False
        self._came_back = False
        self._warm = False
        self.is_restored = False  #: whether the models are there and the code is warm
        self.is_draining = False  #: whether the service is about to stop, or stops
        self.is_stopping = False  #: whether no more work is taken
        metrics.store_up.set_function(lambda: self.store_up and not self._is_silent)
        metrics.ready.set_function(lambda: not self.reasons())
        metrics.serving.set_function(lambda: not self.unserving())
        metrics.standby.set_function(lambda: self.stands_by)

    @property
    def durability(self) -> Durability | None:
        """The durability that the store has reported last; None while the store is not available."""
        return self._level if self.store_up else None

    @property
    def store_is_fresh(self) -> bool:
        """Whether the store's last answer is so recent that no other service can have taken over a model since then."""
        return self.store_up and time.monotonic() - self._answered_at < self._lease_seconds

    @property
    def stands_by(self) -> bool:
        """Whether another service answers the calls, and this service waits to replace it."""
        states = self.states()
        idle = bool(self._active) or (bool(states) and not states.keys() - {"held", "fenced"})
        return self.is_restored and not self.is_draining and idle

    def reasons(self) -> list[str]:
        """Return the reasons why updates are not accepted, an empty list if the service is ready."""
        unserving, states = self.unserving(), self.states()
        away = not self.store_up or (self.is_restored and self._is_silent)
        read_only = [] if unserving or states.get("live") else _told(states)
        return ["the store is not available"] * away + unserving + read_only

    def unserving(self) -> list[str]:
        """Return the reasons why calls should not be sent to this service; none if it can make predictions."""
        found = {
            CLUSTERLESS: not (self.is_restored or self._came_back or self.head_is_up()),
            "models are being restored": not (self.is_restored or self._came_back),
            at_work.progress() or "the solvers are being loaded or compiled": not (self.is_restored or self._warm),
            "requests are being rehearsed": not self.is_restored and self._came_back and self._warm,
            "the service is stopping": self.is_draining,
        }
        states = self.states()
        unserved = [] if any(states.get(state) for state in _PREDICTING) else _told(states)
        standing_by = [STANDS_BY] if self._active and not unserved else []
        return [reason for reason, holds in found.items() if holds] + unserved + standing_by

    def degraded(self) -> list[str]:
        """Return what is wrong even if the service is ready, such as unserved models or uncompiled solvers."""
        waiting = [f"solvers of {each} are being compiled: what needs them takes longer" for each in self.uncompiled()]
        head = [] if self.head_is_up() else [HEADLESS]
        without = [f"model {name} has no training since an erasure: retrain it" for name in self.untrained()]
        weak = [found for found in (self._weakness, self.key_trouble()) if found is not None]
        return [*_told(self.states()), *weak, *waiting, *head, *self.troubles(), *without]

    @property
    def _is_silent(self) -> bool:
        """Whether the store has not answered for too long."""
        return time.monotonic() - self._answered_at >= SILENCE_SECONDS

    def learnt_active(self, other: str) -> None:
        """Record the name of the other service that answers the calls; an empty name if this service answers them."""
        self._active = other

    def came_back(self) -> None:
        """Record that all models are restored."""
        self._came_back = True

    def warmed(self) -> None:
        """Record that the solvers of updates are compiled and loaded."""
        self._warm = True

    def restored(self) -> None:
        """Record that models are restored, solvers are compiled, and requests have been rehearsed."""
        self.is_restored = True

    def draining(self) -> None:
        """Record that the service is about to stop: it still answers, but no more calls should be sent to it."""
        self.is_draining = True

    def stopping(self) -> None:
        """Record that the service accepts no more work."""
        self.is_stopping = self.is_draining = True

    @contextmanager
    def store_call(self, operation: str) -> Iterator[None]:
        """Time a call of the store in the ``with`` block; count a failure, and note whether the store is available.

        Every successful call shows that the store answers. An append shows that the store accepts writes only if the
        last :meth:`ask_store` succeeded, too: a full disk may still have space for one small update.
        """
        start = perf_counter()
        try:
            yield
        except (LeaseHeld, ModelExists, SolverError):  # answers, not failures
            raise
        except Exception as error:
            self._metrics.store_errors.labels(operation).inc()
            if isinstance(error, StoreUnavailable):
                self._set_store(str(error))
            raise
        finally:
            self._metrics.store_seconds.labels(operation).observe(perf_counter() - start)
        self._answered_at = time.monotonic()
        if operation == "append" and not (self._unanswered or self.store_up):
            self._set_store(None)

    def ask_store(self, store: Store, look: Callable[[], None] = lambda: None) -> None:
        """Check whether the store accepts writes; if it does, call ``look``, and then note that the store is available.

        An error of ``look`` is raised; the noted availability of the store then stays the same.
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
        """Record why the store may lose acknowledged data, None if it cannot lose any; log each new reason."""
        if weakness not in (None, self._weakness):
            log.error("the durability is memory: %s", weakness)
        self._weakness = weakness

    def _set_store(self, fault: str | None) -> None:
        """Record the reason why the store accepts no writes, None if it accepts writes; log each change."""
        with self._lock:
            if self.store_up == (fault is None):
                return
            self.store_up = fault is None
            if fault is not None:
                self._down_since = time.monotonic()
                log.error("the store is not available, and updates are refused: %s", fault)
            else:
                log.warning("the store is available again, after %.1f s", time.monotonic() - self._down_since)


def _told(states: Mapping[ServingState, int]) -> list[str]:
    """Return a sentence for each state except ``live``, with the number of models in this state."""
    total = sum(states.values())
    counts = sorted((state, count) for state, count in states.items() if count and state != "live")
    return [f"{count} of {total} models {_UNSERVED.get(state, f'are {state}')}" for state, count in counts]
