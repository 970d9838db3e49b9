"""A front end's connection to the cluster: which actors there are, what they tell, what they are asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from prometheus_client.core import Metric

from livesvm.service.hosting.context import Context
from livesvm.service.ray.cluster import Cluster, answered, when_done
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.ray.messages import News, View, unpacked
from livesvm.service.ray.places import place_of
from livesvm.service.ray.there import There
from livesvm.service.store.redis import RedisStore

HEAD_SECONDS = 1.0
"""Between two looks whether the cluster's head is there."""
SCRAPE_SECONDS = 1.0

log = logging.getLogger(__name__)


class UnderWay(Protocol):
    """A call of an actor."""

    def expire(self, seconds: float) -> None:
        """Give up if the time is over and the actor has said nothing for so long."""

    def lost(self) -> None:
        """Send it again: the cluster in which it was sent is not there any more."""


class Office:
    """The cluster, as far as one front end has to do with it.

    Parameters
    ----------
    told : called with what is told of one, by its stored name, None if it is gone
    back : called when an actor has come back: what the index said before of those that live there is old
    spec : of what is stored under a name
    """

    def __init__(
        self,
        context: Context,
        told: Callable[[str, View | None], None],
        back: Callable[[], None],
        spec: Callable[[str], Any],
    ) -> None:
        """Raise StoreUnavailable if the setting names no address of a cluster."""
        store = context.source.store
        assert isinstance(store, RedisStore)
        self.settings, self.health, self.store = context.settings, context.source.health, store
        self._on_news, self._on_return, self._spec = told, back, spec
        self._places: dict[str, There] = {}
        self._lock = threading.Lock()
        self.joined, self.stopped = threading.Event(), threading.Event()
        self.open: set[UnderWay] = set()
        self.cluster = Cluster(context.settings)
        context.source.metrics.watch_others(self.scrape)
        self.health.watch_head(lambda: self.cluster.head_is_up)

    def join(self) -> None:
        """Wait for the cluster; from then on it is joined again whenever it does not know this front end."""
        threading.Thread(target=self._keep_joined, name="ray-head", daemon=True).start()
        self.joined.wait()

    def stop(self) -> None:
        """Leave the cluster; all live on."""
        self.stopped.set()
        self.cluster.leave()

    def scrape(self) -> list[Metric]:
        """What the actors tell of themselves, as far as they do within a second."""
        actors = [self.cluster.known(there.place) for there in self.all()]
        with suppress(NotJoined), MEMBERSHIP.inside():
            asked = [actor.scrape.remote() for actor in actors if actor is not None]
            return [family for told in answered(asked, SCRAPE_SECONDS) for family in unpacked(told)]
        return []

    # What collections and calls ask.

    def all(self) -> list[There]:
        """The actors where something lives."""
        with self._lock:
            return [there for there in self._places.values() if there.count]

    @property
    def is_lost(self) -> bool:
        """Whether any actor is lost, or was not heard of yet."""
        return not all(there.answers for there in self.all())

    def there(self, stored: str) -> There:
        """The actor where what is stored under this name lives."""
        place = place_of(stored, self.settings.ray_actors)
        with self._lock:
            return self._places.setdefault(place.name, There(place))

    def lives(self, stored: str, change: int) -> None:
        """One more, or one fewer, lives where this does; an actor without any is not asked any more."""
        there = self.there(stored)
        with self._lock:
            there.count += change
            if not there.count and there.place.model is not None:
                self._places.pop(there.place.name, None)

    def is_stored(self, stored: str) -> bool:
        """Whether the store has it; raises StoreError."""
        return self.store.model(stored) is not None

    # In threads of the front end, and in Ray's.

    def ask_for_news(self) -> None:
        """Have every actor where something lives tell what is new."""
        for there in self.all():
            if not there.is_asked:
                try:
                    with MEMBERSHIP.inside():
                        self._ask(there, self.cluster.actor(there.place, partial(self._spec, str(there.place.model))))
                except Exception as error:
                    self._told(there, there.round, None, error)

    def expire(self) -> None:
        """Give up calls whose time is over, of actors that say nothing."""
        for call in list(self.open):
            call.expire(self.settings.lease_seconds)

    def _keep_joined(self) -> None:
        while not self.stopped.is_set():
            try:
                if self.cluster.look():
                    self._begin_again()
                    self.joined.set()
            except Exception:
                log.exception("the cluster was not looked at; it is again")
            self.stopped.wait(HEAD_SECONDS)

    def _begin_again(self) -> None:
        """Ask all actors anew: answers to what was asked before the cluster was joined anew do not come."""
        for there in self.all():
            there.begin_again()
        for call in list(self.open):
            call.lost()

    def _ask(self, there: There, actor: Any) -> None:
        there.is_asked = True
        try:
            told = partial(self._told, there, there.round)
            when_done(actor.watch.remote(there.incarnation, there.moment, there.taken()), told)
        except Exception:
            there.is_asked = False  # the next look asks again
            raise

    def _told(self, there: There, round: int, message: bytes | None, error: BaseException | None) -> None:
        """Take in what an actor tells, and ask for more; one that was lost is asked again at the next look."""
        if round != there.round:
            return
        if message is None:
            if error is not None:
                self.cluster.lost(there.place, error)
            there.lose()
            return
        news: News = unpacked(message)
        if self.stopped.is_set():
            return
        if news.line is not None:
            self.cluster.lines.find(there.place.name, news.line)
        is_back = news.incarnation != there.incarnation
        for stored, view in there.take_news(news).items():
            self._on_news(stored, view)
        if is_back:
            self._on_return()
        actor = self.cluster.known(there.place)
        if actor is None or not there.count:
            there.is_asked = False
        else:
            with suppress(NotJoined), MEMBERSHIP.inside():
                self._ask(there, actor)
