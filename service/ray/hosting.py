"""The models and feeds that live in actors, as a front end knows them from the store and from announcements."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from livesvm.service.history.names import id_of, is_feed
from livesvm.service.hosting.context import Context
from livesvm.service.ray.actors import Actors
from livesvm.service.ray.calls import Call
from livesvm.service.ray.cluster import Cluster
from livesvm.service.ray.collection import FEEDS, MODELS, RemoteCollection
from livesvm.service.resources.memory import Budget
from livesvm.service.store.base import StoreError

LOOK_SECONDS = 0.25
"""Interval of checks for changes of the store's index, and for silent actors."""
ASIDE = 10.0
"""The index is not read again for this many times the duration of its last reading."""
ASKED_AT_ONCE = 64
"""Most calls under way for replicas that the index does not describe completely."""
FIRST_SECONDS = 20.0
"""Longest wait of a start for the actors' reports."""

log = logging.getLogger(__name__)


class RemoteHosting:
    """Implements :class:`~livesvm.service.hosting.collection.Hosting`. Its methods wait for the store and for actors.

    Parameters
    ----------
    context : what all parts of this front end share; its memory budget does not apply to replicas in actors
    cluster : the cluster that runs the actors
    gone : function that is called with the stored name of a replica that another front end has deleted
    """

    def __init__(self, context: Context, cluster: Cluster, gone: Callable[[str], object]) -> None:
        self._source, self._gone = context.source, gone
        self._context = context = replace(context, budget=Budget())
        self._actors = Actors(context, cluster, self._home, self._read_again)
        self.models = RemoteCollection(MODELS, context, self._actors)
        self.feeds = RemoteCollection(FEEDS, context, self._actors)
        self._changes: int | None = None
        self._look_at = 0.0
        self._asked: dict[str, Call] = {}
        self._due = threading.Event()

    def actors(self) -> dict[str, int]:
        """Return the number of actors that answer, and the number of silent actors."""
        answers = [there.answers for there in self._actors.all()]
        return {"answering": sum(answers), "silent": len(answers) - sum(answers)}

    def restore(self) -> None:
        """Join the cluster, read the index, and wait a limited time for the actors' reports; raises StoreError."""
        self._actors.join()
        self._look()
        threading.Thread(target=self._keep, name="remote-watch", daemon=True).start()
        end = time.monotonic() + FIRST_SECONDS
        while self._actors.is_lost or "restoring" in {*self.models.states(), *self.feeds.states()}:
            if time.monotonic() > end:
                return
            time.sleep(0.05)

    def watch(self, most: int | None = None) -> None:
        """Do nothing, because each actor watches its own replicas."""

    def take_over(self) -> None:
        """Do nothing, because each actor takes over its own replicas."""

    def stop(self) -> None:
        """Stop calling actors; the actors and their replicas continue to run."""
        for home in (self.models, self.feeds):
            home.close()
        self._due.set()
        self._actors.stop()

    def _home(self, stored: str) -> RemoteCollection:
        return self.feeds if is_feed(stored) else self.models

    def _read_again(self) -> None:
        self._changes = None
        self._due.set()

    def _keep(self) -> None:
        while not self._actors.is_over:
            self._due.wait(LOOK_SECONDS)
            self._due.clear()
            try:
                if self._source.health.store_up and time.monotonic() >= self._look_at:
                    self._look()
                self._actors.look(self._context.settings.lease_seconds)
                self._ask_of_stale()
            except StoreError:
                pass  # health knows
            except Exception:
                log.exception("what is hosted elsewhere was not looked at; it is again")

    def _look(self) -> None:
        """Read the store's index if a replica was created or deleted, or an actor was restarted."""
        began, store = time.monotonic(), self._source.store
        with self._source.health.store_call("load"):
            if (changes := store.changes()) == self._changes:
                return
            self._changes = changes
            before = {home: home.settled() for home in (self.models, self.feeds)}
            try:
                found = list(store.index())
            except StoreError:
                self._changes = None
                raise
        for home in before:
            home.learn(one for one in found if self._home(one.id) is home)
        for stored in [stored for there in self._actors.all() for stored in there.forget_dead()]:
            self._home(stored).seen(stored)
        kept = {one.id for one in found}
        for home, ids in before.items():
            for stored in {home.kind.stored(id_) for id_ in ids} - kept:
                home.drop(id_of(stored))
                self._gone(stored)
        self._look_at = time.monotonic() + ASIDE * (time.monotonic() - began)

    def _ask_of_stale(self) -> None:
        """Ask actors for the states of replicas that the index does not describe completely."""
        self._asked = {stored: call for stored, call in self._asked.items() if not call.done()}
        for home in (self.models, self.feeds):
            for id_ in islice(home.stale(), ASKED_AT_ONCE - len(self._asked)):
                replica = home.known(id_)
                if replica is not None and replica.stored not in self._asked and replica.there.answers:
                    self._asked[replica.stored] = replica.news()
