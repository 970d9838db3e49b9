"""What a front end of a Ray cluster knows of models and feeds: the store says which there are, actors how they are."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from prometheus_client.core import Metric

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.ray.calls import Call
from livesvm.service.ray.cluster import Cluster, answered, when_done
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.ray.messages import FeedView, News, View, unpacked
from livesvm.service.ray.places import Place
from livesvm.service.store.base import StoredModel, StoreError
from livesvm.service.store.redis import RedisStore

HEAD_SECONDS = 1.0
"""Between two looks whether the cluster's head is there."""
LOOK_SECONDS = 0.25
"""Between two looks at what the store knows, and whether actors have fallen silent."""
SCRAPE_SECONDS = 1.0
FIRST_SECONDS = 20.0
"""For which a start waits to hear of models and feeds."""

log = logging.getLogger(__name__)


class Subject(Protocol):
    """A model or a feed that lives in an actor."""

    is_lost: bool

    @property
    def stored(self) -> str:
        """What it is stored under."""

    @property
    def place(self) -> Place:
        """Where it lives."""

    @property
    def spec(self) -> ModelSpec | FeedSpec:
        """What it was created as."""

    @property
    def state(self) -> ServingState:
        """Whether it is served."""

    def hear(self, view: Any, at: float) -> None:
        """The actor said at some time, monotonic, how it is; None: the same as before."""

    def hold(self, copy: Published) -> None:
        """Predict by this version from now on, unless a newer one is here."""

    def taken(self) -> int:
        """Rows that were predicted here since this was last asked."""


class Shelf(Protocol):
    """All subjects of one kind."""

    def by_name(self) -> Mapping[str, Subject]:
        """Those that are known, by what they are stored under."""

    def holds(self, stored: str) -> bool:
        """Whether what is stored under this is of the kind."""

    def learn(self, found: StoredModel) -> Subject:
        """One that is stored, known from now on."""

    def drop(self, stored: str) -> None:
        """One that another front end has deleted."""


class _Watch:
    """What an actor has told of those who live there, and the call in which it tells what is new."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.incarnation, self.moment = "", 0
        self.views: dict[str, View | FeedView] = {}
        self.is_asked = False
        self.heard_at = time.monotonic()


class Office:
    """The front end's connection to the cluster. Its calls block on the store and on Ray."""

    def __init__(self, around: Surroundings) -> None:
        """Raise StoreUnavailable if the setting names no address of a cluster."""
        store = around.source.store
        assert isinstance(store, RedisStore)
        self.settings, self.health, self.store = around.settings, around.source.health, store
        self._watches: dict[str, _Watch] = {}
        self._shelves: list[Shelf] = []
        self._joined, self._stopped = threading.Event(), threading.Event()
        self.open: set[Call] = set()
        self.cluster = Cluster(around.settings)
        around.source.metrics.watch_others(self.scrape)
        self.health.watch_head(lambda: self.cluster.head_is_up)

    def keep(self, shelf: Shelf) -> None:
        """Look after these from now on."""
        self._shelves.append(shelf)

    def restore(self) -> None:
        """Wait for the cluster, learn what there is, and wait a while to hear of each; raises StoreError."""
        threading.Thread(target=self._keep_joined, name="ray-head", daemon=True).start()
        self._joined.wait()
        self._look()
        threading.Thread(target=self._keep, name="ray-watch", daemon=True).start()
        end = time.monotonic() + FIRST_SECONDS
        while time.monotonic() < end and any(subject.state == "restoring" for subject in self._subjects()):
            time.sleep(0.05)

    def stop(self) -> None:
        """Leave the cluster; all live on."""
        self._stopped.set()
        self.cluster.leave()

    def scrape(self) -> list[Metric]:
        """What the actors tell of themselves, as far as they do within a second."""
        actors = [self.cluster.known(watch.place) for watch in list(self._watches.values())]
        with suppress(NotJoined), MEMBERSHIP.inside():
            asked = [actor.scrape.remote() for actor in actors if actor is not None]
            return [family for told in answered(asked, SCRAPE_SECONDS) for family in unpacked(told)]
        return []

    def told_of(self, subject: Subject) -> None:
        """Have a subject that is new here hear what its actor has told of it already."""
        watch = self._watches.get(subject.place.name)
        if watch is not None and subject.stored in watch.views:
            subject.hear(watch.views[subject.stored], watch.heard_at)

    # What calls ask.

    def saw(self, stored: str, view: View | FeedView | None, copy: Published | None) -> None:
        """A model or a feed is now so, or gone; a version to predict by may come with that."""
        found = next((shelf.by_name().get(stored) for shelf in self._shelves if shelf.holds(stored)), None)
        if found is not None and view is not None:
            found.hear(view, time.monotonic())
            if copy is not None:
                found.hold(copy)

    def is_stored(self, stored: str) -> bool:
        """Whether the store has it; raises StoreError."""
        return self.store.model(stored) is not None

    # In a thread of its own, and in Ray's.

    def _subjects(self) -> list[Subject]:
        return [subject for shelf in self._shelves for subject in shelf.by_name().values()]

    def _keep(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                if self.health.store_up:
                    self._look()
                self._ask_for_news()
                for call in list(self.open):
                    call.expire(self._is_silent)
            except StoreError:
                pass  # health knows
            except Exception:
                log.exception("the models of the cluster were not looked at; they are again")

    def _keep_joined(self) -> None:
        while not self._stopped.is_set():
            try:
                if self.cluster.look():
                    self._begin_again()
                    self._joined.set()
            except Exception:
                log.exception("the cluster was not looked at; it is again")
            self._stopped.wait(HEAD_SECONDS)

    def _begin_again(self) -> None:
        """Ask all actors anew: answers to what was asked before the cluster was joined anew do not come."""
        self._watches.clear()
        for subject in self._subjects():
            subject.is_lost = True
        for call in list(self.open):
            call.lost()

    def _look(self) -> None:
        """Learn what there is now."""
        before = {subject.stored for subject in self._subjects()}
        with self.health.store_call("load"):
            stored = {found.id: found for found in self.store.models()}
        for shelf in self._shelves:
            for id_ in filter(shelf.holds, stored.keys() - before):
                shelf.learn(stored[id_])
            for id_ in filter(shelf.holds, before - stored.keys()):
                if not any(call.makes(id_) for call in list(self.open)):
                    shelf.drop(id_)

    def _ask_for_news(self) -> None:
        """Have every actor where something lives tell what is new; forget those where nothing does any more."""
        there: dict[str, list[Subject]] = {}
        for subject in self._subjects():
            there.setdefault(subject.place.name, []).append(subject)
        for name in self._watches.keys() - there.keys():
            self._watches.pop(name, None)
        for name, subjects in there.items():
            watch = self._watches.setdefault(name, _Watch(subjects[0].place))
            if not watch.is_asked:
                try:
                    with MEMBERSHIP.inside():
                        self._ask(watch, self.cluster.actor(watch.place, subjects[0].spec))
                except Exception as error:
                    self._told(watch, None, error)

    def _at(self, place: Place) -> list[Subject]:
        return [subject for subject in self._subjects() if subject.place == place]

    def _ask(self, watch: _Watch, actor: Any) -> None:
        watch.is_asked = True
        predicted = {subject.stored: rows for subject in self._at(watch.place) if (rows := subject.taken())}
        try:
            when_done(actor.watch.remote(watch.incarnation, watch.moment, predicted), partial(self._told, watch))
        except Exception:
            watch.is_asked = False  # the next look asks again
            raise

    def _told(self, watch: _Watch, message: bytes | None, error: BaseException | None) -> None:
        """Take in what an actor tells, and ask for more; one that was lost is asked again at the next look."""
        there = self._at(watch.place)
        if message is None:
            if error is not None:
                self.cluster.lost(watch.place, error)
            for subject in there:
                subject.is_lost = True
            watch.is_asked = False
            return
        news = unpacked(message)
        watch.heard_at = time.monotonic()
        if not isinstance(news, News) or self._stopped.is_set():
            watch.is_asked = False
            return
        if news.line is not None:
            self.cluster.lines.find(watch.place.name, news.line)
        watch.incarnation, watch.moment = news.incarnation, news.moment
        told = watch.views | news.views
        watch.views = {id_: view for id_, view in told.items() if id_ in news.names}  # some may not be known here yet
        for subject in there:
            if subject.stored in news.names:
                subject.hear(watch.views.get(subject.stored), watch.heard_at)
        actor = self.cluster.known(watch.place)
        if actor is None or watch.place.name not in self._watches:
            watch.is_asked = False
        else:
            with suppress(NotJoined), MEMBERSHIP.inside():
                self._ask(watch, actor)

    def _is_silent(self, place: Place) -> bool:
        watch = self._watches.get(place.name)
        return watch is None or time.monotonic() - watch.heard_at > self.settings.lease_seconds
