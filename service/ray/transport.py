"""Ray as the transport of calls: it finds, starts and asks actors; short calls use connections of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from prometheus_client.core import Metric

from livesvm.service.monitoring.health import Health
from livesvm.service.ray.cluster import Cluster, answered, when_done
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.ray.places import Place, place_of
from livesvm.service.remote.frames import LARGEST
from livesvm.service.remote.messages import unpacked
from livesvm.service.remote.transport import Done, Since, Terms
from livesvm.service.settings import Settings

HEAD_SECONDS = 1.0
"""Between two looks whether the cluster's head is there."""
SCRAPE_SECONDS = 1.0

log = logging.getLogger(__name__)
Spec = Callable[[], Any]


class RayTransport:
    """One front end's calls of actors. Implements :class:`~livesvm.service.remote.transport.Transport`."""

    def __init__(self, settings: Settings, health: Health) -> None:
        """Raise StoreUnavailable if the setting names no address of a cluster."""
        self._settings = settings
        self.terms = Terms("actor", settings.ray_seconds, settings.ray_predictions, settings.ray_stale_seconds)
        self.cluster = Cluster(settings)
        self._joined, self._stopped = threading.Event(), threading.Event()
        health.watch_head(lambda: self.cluster.head_is_up)

    def place(self, stored: str) -> Place:
        """Return the actor where what is stored under a name lives."""
        return place_of(stored, self._settings.ray_actors)

    def is_known(self, place: Place) -> bool:
        """Return whether the actor was asked for before."""
        return self.cluster.known(place) is not None

    def ask(self, place: Place, spec: Spec, message: bytes, short: bool, done: Done) -> None:
        """Send a short call by the actor's line if there is one, and others Ray's way."""
        if short and len(message) <= LARGEST and self.cluster.lines.ask(place.name, message, done):
            return
        with MEMBERSHIP.inside():
            when_done(self.cluster.actor(place, spec).ask.remote(message), done)

    def withdraw(self, place: Place, spec: Spec, call: str) -> None:
        """Tell the actor."""
        with suppress(NotJoined), MEMBERSHIP.inside():
            self.cluster.actor(place, spec).withdraw.remote(call)

    def watch(self, place: Place, spec: Spec, since: Since, done: Done) -> None:
        """Ask the actor."""
        with MEMBERSHIP.inside():
            when_done(self.cluster.actor(place, spec).watch.remote(*since), done)

    def heard(self, place: Place, line: Any) -> None:
        """Have a line with the actor."""
        if line is not None:
            self.cluster.lines.find(place.name, line)

    def lost(self, place: Place, error: BaseException) -> None:
        """Look for the actor again if it is dead for good."""
        self.cluster.lost(place, error)

    def scrape(self, places: Iterable[Place]) -> list[Metric]:
        """Return what the actors tell of themselves within a second."""
        actors = [self.cluster.known(place) for place in places]
        with suppress(NotJoined), MEMBERSHIP.inside():
            asked = [actor.scrape.remote() for actor in actors if actor is not None]
            return [family for reported in answered(asked, SCRAPE_SECONDS) for family in unpacked(reported)]
        return []

    def join(self, again: Callable[[], None]) -> None:
        """Wait for the cluster; from then on it is joined again whenever it does not know this front end."""
        threading.Thread(target=self._keep_joined, args=(again,), name="ray-head", daemon=True).start()
        self._joined.wait()

    def leave(self) -> None:
        """Leave the cluster; all live on."""
        self._stopped.set()
        self.cluster.leave()

    def _keep_joined(self, again: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                if self.cluster.look():
                    again()
                    self._joined.set()
            except Exception:
                log.exception("the cluster was not looked at; it is again")
            self._stopped.wait(HEAD_SECONDS)
