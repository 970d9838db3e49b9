"""The Ray actor that hosts models and feeds, which are called replicas; Ray starts, finds and restarts the actor.

Whenever Ray starts an actor, on any node, the actor restores its replicas from Redis. An actor takes the leases of its
replicas under its own name, which it keeps over restarts. Therefore a restarted actor need not wait until the leases of
its earlier incarnation lapse. An earlier incarnation that still runs is fenced, because its leases have an older epoch,
and then ends itself.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # its stub leaves it out
from threadpoolctl import threadpool_limits

from livesvm.service.errors import ServiceError
from livesvm.service.history.journal import Source
from livesvm.service.hosting.context import Context
from livesvm.service.logs.setup import set_up
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.ray.host import RETRY_SECONDS, Host
from livesvm.service.ray.lines import Endpoint, Listener
from livesvm.service.ray.places import Place, place_of
from livesvm.service.resources.machine import resident_bytes
from livesvm.service.resources.memory import MEGABYTE, Budget
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreError
from livesvm.service.store.redis import RedisStore
from livesvm.service.webhooks.outbox import Outbox

IDLE_SECONDS = 3.0
"""An actor with a place for one model ends after this time without the model and without calls."""
SWITCH_SECONDS = 0.0001
MOVE_SECONDS = 1.0
"""Longest wait of an actor that moves for its snapshots."""
DRAIN_SECONDS, ASK_SECONDS = 3.0, 2.0
"""Interval of checks whether the node is drained, and time limit of Ray's answer."""
log = logging.getLogger(__name__)


class Node:
    """The node of this process in the Ray cluster. Drained nodes are found as in Ray Serve, by a non-public call."""

    def __init__(self) -> None:
        context = ray.get_runtime_context()
        self.id = str(context.get_node_id())
        self.host = str(ray.util.get_node_ip_address())
        self._cluster: Any = GcsClient(address=context.gcs_address)
        self._looked_at = time.monotonic()

    @property
    def label(self) -> str:
        """Short id of the node for metrics and the log."""
        return self.id[:12]

    def is_to_be_left(self) -> bool:
        """Return whether this node is being drained and another node is not; asks Ray once every ``DRAIN_SECONDS``."""
        if time.monotonic() - self._looked_at < DRAIN_SECONDS:
            return False
        self._looked_at = time.monotonic()
        try:
            drained = set(self._cluster.get_draining_nodes(timeout=ASK_SECONDS))
        except Exception as error:
            log.warning("Ray does not say which nodes are drained: %s", error)
            return False
        return self.id in drained and any(_takes_actors(node) and node["NodeID"] not in drained for node in ray.nodes())


def _takes_actors(node: dict[str, Any]) -> bool:
    return bool(node["Alive"] and node["Resources"].get("CPU", 0.0) > 0.0)


class _Part(RedisStore):
    """The Redis store, restricted to the models and feeds that one of ``actors`` actors hosts."""

    place: Place
    actors: int

    def _ids(self) -> list[str]:
        if self.place.model is not None:
            return [self.place.model]
        return [id_ for id_ in super()._ids() if place_of(id_, self.actors) == self.place]

    def changes(self) -> int:
        """Return 0, because no other process creates or deletes replicas of this actor."""
        return 0


class ModelActor(Host):
    """Hosts models and feeds, and answers calls. The actor's methods run on one event loop; threads do long work."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._node, self._place = Node(), place
        facts = {"node": self._node.label, "actor": place.name}
        sys.setswitchinterval(SWITCH_SECONDS)
        threadpool_limits(1)
        set_up(settings.log_level, settings.log_format, settings.audit_file, **facts)
        super().__init__(f"actor {place.name}", _context(place, settings), facts)
        self._listener = Listener(self.call)
        self.begin()

    async def _line(self) -> Endpoint | None:
        try:
            return await self._listener.endpoint(self._node.host)
        except OSError as error:
            log.warning("actor %s cannot listen at %s: %s", self._place.name, self._node.host, error)
            return None

    # In a thread of the host.

    def _tend(self, states: Counter[ServingState]) -> None:
        if states["fenced"]:
            log.error("actor %s ends: another incarnation of it has its models", self._place.name)
            os._exit(1)
        if states["held"] or states["restoring"]:
            self.registry.take_over()
        idle = time.monotonic() - self.asked_at
        if not states and self._place.model is not None and idle > IDLE_SECONDS:
            ray.kill(ray.get_runtime_context().current_actor)
        elif self._node.is_to_be_left():
            self._move()

    def _move(self) -> None:
        """Save the replicas, and end the process; Ray then starts the actor on another node, where it restores them."""
        log.info("actor %s moves: its node is drained", self._place.name)
        snapshots = []
        for home in (self.registry.models, self.registry.feeds):
            for one in home.awake():
                if not one.rest():
                    with suppress(ServiceError):  # its mailbox is full; it is restored from its log
                        snapshots.append(one.checkpoint())
        wait(snapshots, MOVE_SECONDS)
        os._exit(1)


def _context(place: Place, settings: Settings) -> Context:
    """Return the context that the replicas of an actor share."""
    metrics = Metrics()
    source = Source(_store(place, settings), Health(metrics, settings.lease_seconds), metrics)
    budget = Budget(settings.memory_mb * MEGABYTE)
    budget.rest_on(resident_bytes())
    return Context(settings, source, SolveScheduler(settings.solves), budget, place.holder, outbox=Outbox())


def _store(place: Place, settings: Settings) -> _Part:
    """Wait for the store, and return it; Ray does not restart an actor after an error in its constructor."""
    while True:
        try:
            store = _Part(
                settings.redis_url,
                place.holder,
                prefix=settings.redis_prefix,
                timeout=settings.redis_seconds,
                lease_seconds=settings.lease_seconds,
            )
        except StoreError as error:
            log.warning("actor %s waits for the store: %s", place.name, error)
            time.sleep(RETRY_SECONDS)
        else:
            store.place, store.actors = place, settings.ray_actors
            return store
