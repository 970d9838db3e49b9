"""A front end in the Ray cluster: finds actors by name, starts those that do not exist, and calls them.

By default, Ray ends a process that does not reach the cluster's head for a minute. A front end survives the loss of the
head: it still calls its actors, and joins again if the restarted head does not know the front end. A front end that is
started before the cluster waits until it can join.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import ray
from ray._private.services import canonicalize_bootstrap_address, canonicalize_bootstrap_address_or_die
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # its stub leaves it out
from ray.exceptions import ActorDiedError, RayError

from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray.actor import ModelActor
from livesvm.service.ray.lines import ActorLines, Endpoint
from livesvm.service.ray.local import SETTINGS, STORE_BYTES
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.ray.places import ACTOR_CORES, PROCESS_BYTES, Place
from livesvm.service.resources.memory import MEGABYTE, model_bytes
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreUnavailable

RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
FOREVER = str(10**6)
"""Seconds for which the head may be away before Ray ends this process."""
HEAD_SECONDS = 1.0
"""Interval of checks whether the cluster's head is there."""
ASK_SECONDS = 2.0
"""Time limit of the head's answer."""

MOST_CALLS = 10_000
"""Most concurrent calls of an actor: more than front ends make, so that signs of life never wait for them."""

OWN = "local"
"""The address setting for a private cluster, which this process starts and which ends with the process."""
ADDRESS = "RAY_ADDRESS"

OTHER_CLUSTER = "WrongClusterID"
"""Text in Ray's error if a head has come back without its earlier state."""

log = logging.getLogger(__name__)


class Cluster:
    """The connection of a front end to the cluster."""

    def __init__(self, settings: Settings) -> None:
        """Check the cluster's address, but do not join yet; raises StoreUnavailable if the address is invalid."""
        self._settings = settings
        self._spec: Callable[[str], ModelSpec | FeedSpec]
        self._joined, self._stopped = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._actors: dict[str, Any] = {}
        os.environ.setdefault(RECONNECT, FOREVER)  # Ray reads it when it is joined
        self._is_own = settings.ray == OWN
        try:
            canonicalize_bootstrap_address(settings.ray)
        except ValueError as error:
            reason = "give host:port of the head, auto or local"
            raise StoreUnavailable(f"LIVESVM_RAY is {settings.ray!r}: {reason}") from error
        MEMBERSHIP.close()
        self.head_is_up = self._is_joined = self._has_waited = False
        self.nodes = 0  #: that were alive when the head answered last
        self._class: Any = ray.remote(ModelActor)
        self.lines = ActorLines()
        _log_as_the_service_does()

    # What calls ask.

    def is_known(self, place: Place) -> bool:
        """Return whether the actor was looked up already, so that sending a call does not wait for the look-up."""
        return place.name in self._actors

    def ask(self, place: Place, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of an actor; the returned future raises the error if the actor cannot be called."""
        try:
            with MEMBERSHIP.inside():
                asked: Future[Any] = getattr(self.actor(place), method).remote(*arguments).future()
            asked.add_done_callback(_let_go)
        except Exception as error:
            asked = Future()
            asked.set_exception(error)
        return asked

    def call(self, place: Place, message: bytes, *, by_line: bool) -> Future[bytes]:
        """Send a message to an actor: if ``by_line``, through a direct connection if one is open; else through Ray."""
        found = self.lines.ask(place.name, message) if by_line else None
        return self.ask(place, "call", message) if found is None else found

    def heard(self, place: Place, line: Endpoint | None) -> None:
        """Open a direct connection (a line) to the endpoint that an actor has reported, unless one is open already."""
        if line is not None:
            self.lines.find(place.name, line)

    def lost(self, place: Place, error: BaseException) -> None:
        """Record that a call to an actor failed; the next call looks up or starts an actor that has ended for good."""
        self.lines.lose(place.name)
        if isinstance(error, ActorDiedError):
            with suppress(NotJoined), MEMBERSHIP.inside():
                self._actors.pop(place.name, None)

    def end(self, place: Place) -> None:
        """Kill the process of an actor, even if the process is suspended; Ray starts the actor again."""
        with suppress(RayError, ValueError), MEMBERSHIP.inside():
            ray.kill(self.actor(place), no_restart=False)

    def join(self, again: Callable[[], None], spec: Callable[[str], Any]) -> None:
        """Wait until this front end has joined the cluster; then start a thread that rejoins if the head forgets it.

        ``again`` is called after each join, because earlier calls get no answer. ``spec`` returns the specification of
        the replica with a stored name. Raises StoreUnavailable if this front end stops before there is a cluster.
        """
        self._spec = spec
        threading.Thread(target=self._keep_joined, args=(again,), name="ray-head", daemon=True).start()
        self._joined.wait()
        if self._stopped.is_set():
            raise StoreUnavailable("the service is being stopped")

    def leave(self) -> None:
        """Leave the cluster; the actors continue to run."""
        self._stopped.set()
        self._joined.set()
        self.lines.close()
        ray.shutdown()

    # The cluster's head.

    def _keep_joined(self, again: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                if self.look():
                    again()
                    self._joined.set()
            except Exception:
                log.exception("the cluster was not looked at; it is again")
            self._stopped.wait(HEAD_SECONDS)

    def _join(self) -> None:
        options: dict[str, Any] = {}
        if self._is_own:
            os.environ.pop(ADDRESS, None)
            os.environ.update(SETTINGS | os.environ)
            options = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
        else:
            host, _, port = canonicalize_bootstrap_address_or_die(self._settings.ray).rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port)), ASK_SECONDS):
                pass  # there is one: where there is none, Ray would try for a quarter of an hour
        ray.init(
            address=self._settings.ray,
            namespace=f"livesvm-{self._settings.redis_prefix}",
            log_to_driver=False,
            configure_logging=False,
            **options,
        )
        context = ray.get_runtime_context()
        if self._is_own:
            os.environ[ADDRESS] = context.gcs_address  # for processes of jobs, which join it
        self._node = ray.NodeID.from_hex(context.get_node_id())
        self._asks: Any = GcsClient(address=context.gcs_address)
        self.head_is_up = self._is_joined = True

    def look(self) -> bool:
        """Join the cluster unless its head knows this process's node; return whether this call has joined it.

        If the head does not answer, nothing changes, and calls under way continue. Call this outside the main thread,
        in which Ray would replace the process's signal handlers.
        """
        if self._is_joined:
            known = self._is_known()
            self._log_head(known is not None)
            if known:
                self._count_nodes()
            if known is not False:
                return False
            log.warning("the node of this front end is not in the cluster any more; it joins again")
            self._leave()
        try:
            self._join()
            MEMBERSHIP.open()
        except Exception as error:
            if not self._has_waited:
                log.warning("the Ray cluster at %r cannot be joined, and is waited for: %s", self._settings.ray, error)
            self._has_waited = True
            ray.shutdown()  # what it may have joined in part
            return False
        log.info("this front end has joined the Ray cluster")
        self._has_waited = False
        return True

    def _is_known(self) -> bool | None:
        """Return whether the head knows this process's node; None if it does not answer."""
        if self._is_own and ray._private.worker._global_node.dead_processes():
            return False
        try:
            (known,) = self._asks.check_alive([self._node], timeout=ASK_SECONDS)
        except Exception as error:
            return False if OTHER_CLUSTER in str(error) else None
        return bool(known)

    def _count_nodes(self) -> None:
        with suppress(Exception):  # the head may be lost just now
            self.nodes = sum(bool(node.get("Alive")) for node in ray.nodes())

    def _leave(self) -> None:
        self._is_joined = False
        MEMBERSHIP.close()
        with self._lock:
            for name in list(self._actors):
                self.lines.lose(name)
            self._actors.clear()
        ray.shutdown()

    def _log_head(self, is_up: bool) -> None:
        """Record whether the cluster's head answers, and log each change."""
        if self.head_is_up and not is_up:
            log.error("the head of the cluster does not answer; lost actors are not started again until it does")
        elif is_up and not self.head_is_up:
            log.warning("the head of the cluster answers again")
        self.head_is_up = is_up

    # Its actors.

    def actor(self, place: Place) -> Any:
        """Return the actor of a place, started if it does not run; this may block, so never call it in Ray's thread."""
        if (found := self._actors.get(place.name)) is not None:
            return found
        with self._lock:
            if place.name not in self._actors:
                self._actors[place.name] = self._started(place)
            return self._actors[place.name]

    def _started(self, place: Place) -> Any:
        size = self._bytes(None if place.model is None else self._spec(place.model))
        settings = self._settings.model_copy(update={"memory_mb": (PROCESS_BYTES + size) // MEGABYTE})
        return self._class.options(
            name=place.name,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=MOST_CALLS,
            enable_task_events=False,
            num_cpus=ACTOR_CORES,
            memory=PROCESS_BYTES + size,
            scheduling_strategy="SPREAD",
        ).remote(place, settings)

    def _bytes(self, spec: ModelSpec | FeedSpec | None) -> int:
        """Return the bytes of memory to reserve for an actor.

        An actor gets as much as a replica with ``spec`` may need; if this is unknown, as much as the setting says.
        """
        settings = self._settings
        if isinstance(spec, FeedSpec):
            return feed_bytes(spec)
        if spec is None or spec.window.max_examples is None or spec.n_features is None:
            return settings.ray_actor_mb * MEGABYTE
        n = spec.window.max_examples
        return model_bytes(n, spec.n_features, n, settings.cache_mb)


def _let_go(asked: Any) -> None:
    """Drop the reference to an object of Ray that a completed future still has."""
    held, asked.object_ref = [asked.object_ref], None
    MEMBERSHIP.let_go(held)


def _log_as_the_service_does() -> None:
    """Send Ray's warnings to the service's log, instead of Ray's own lines on standard error."""
    logger = logging.getLogger("ray")
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(max(logging.WARNING, logging.getLogger().level))
