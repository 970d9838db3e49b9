"""A front end's knowledge of the actors that host models and feeds: what actors announce, and calls to actors."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from prometheus_client.core import Metric

from livesvm.service.history.names import id_of
from livesvm.service.hosting.context import Context
from livesvm.service.ray.cluster import Cluster
from livesvm.service.ray.messages import News, View, unpacked
from livesvm.service.ray.places import Place, place_of
from livesvm.service.store.base import StoreError

SCRAPE_SECONDS = 1.0
SHARE = 0.75
"""Largest share of the waiting calls that one actor may have if there are several actors."""
MOST_SECONDS = 1.0
"""Longest time between two checks that counts as actors' silence; in a longer one, this process was stopped."""

log = logging.getLogger(__name__)


class RemoteActor:
    """One actor as a front end knows it: the views that it announced last, and when; safe from any thread.

    Invariant: no view comes from an incarnation that was replaced, except the views that :meth:`forget_dead` will drop.
    """

    def __init__(self, place: Place, owner: Actors) -> None:
        self.place, self.owner = place, owner
        self.incarnation, self.moment = "", 0
        self.is_lost = self.is_left = self._is_asked = False
        self._round = 0  #: joins of the cluster; questions from before the last one get no answer
        self.heard_at: float | None = None
        self.made_at = time.monotonic()
        self.silence = 0.0  #: seconds that this process looked, and heard nothing
        self._waiting: set[Any] = set()
        self._views: dict[str, View] = {}
        self._dead: set[str] = set()
        self._rows: Counter[str] = Counter()
        self._lock = threading.Lock()

    # What is known of it.

    def view(self, stored: str) -> View | None:
        """Return the newest reported view of a replica, None if the replica is at rest."""
        return self._views.get(stored)

    @property
    def answers(self) -> bool:
        """Whether the actor has sent a report, and is not lost."""
        return self.heard_at is not None and not self.is_lost

    def is_silent(self, seconds: float) -> bool:
        """Return whether the actor has reported nothing for ``seconds``."""
        return time.monotonic() - (self.heard_at or self.made_at) > seconds

    def note_predicted(self, stored: str, rows: int) -> None:
        """Count rows that this front end has predicted by a copy of the model."""
        with self._lock:
            self._rows[stored] += rows

    def predicted(self, stored: str) -> int:
        """Return the number of rows that this front end has predicted and not yet reported to the actor."""
        return self._rows[stored]

    # Calls of it.

    def takes(self, call: Future[Any]) -> bool:
        """Count a call that blocks a thread of the actor; return False if the actor may not have more such calls."""
        if len(self._waiting) >= self.owner.share:
            return False
        self._waiting.add(call)
        call.add_done_callback(self._waiting.discard)
        return True

    @property
    def is_known(self) -> bool:
        """Whether the actor has been looked up already, so that sending a call does not wait for the look-up."""
        return self.owner.cluster.is_known(self.place)

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the actor, and return the future of its result."""
        return self.owner.cluster.ask(self.place, method, *arguments)

    def call(self, message: bytes, *, by_line: bool) -> Future[bytes]:
        """Send the actor a question; ``by_line`` permits a direct connection (a line), which suits small answers."""
        return self.owner.cluster.call(self.place, message, by_line=by_line)

    def failed(self, error: BaseException) -> None:
        """Record that a call to the actor has failed."""
        self.owner.cluster.lost(self.place, error)

    def begin_again(self) -> None:
        """Request all views again: this front end has rejoined the cluster, and its earlier calls get no answer."""
        self._lose()
        self.incarnation, self.moment = "", 0
        self._round += 1

    def ask_for_news(self) -> None:
        """Ask the actor for the views that have changed, unless such a request is under way."""
        if self._is_asked:
            return
        self._is_asked = True
        with self._lock:
            rows, self._rows = self._rows, Counter()
        asked = self.ask("news", self.incarnation, self.moment, dict(rows))
        asked.add_done_callback(partial(self._told, self._round))

    def _told(self, round: int, asked: Future[bytes]) -> None:
        """Store the views in an actor's answer, and ask for changes again; ask a lost actor at the next check."""
        if round != self._round or self.owner.is_over:
            return
        if (error := asked.exception()) is not None:
            self.failed(error)
            self.owner.lost_count.inc(not self.is_lost)
            self._lose()
            return
        try:
            self._hear(unpacked(asked.result()))
        except Exception:  # such as news of another version: it is asked again at the next look
            log.exception("the news of actor %s cannot be used", self.place.name)
            self._lose()
            return
        self._is_asked = False
        if self.is_known and not self.is_left:
            self.ask_for_news()

    def _hear(self, news: News) -> None:
        self.owner.cluster.heard(self.place, news.line)
        is_back = news.incarnation != self.incarnation
        for stored, view in self.take_news(news).items():
            self.owner.seen(stored, view)
        if is_back:
            self.owner.back()

    def _lose(self) -> None:
        """Record that the actor does not answer, or cannot be reached."""
        self.is_lost, self._is_asked = True, False

    # What it tells.

    def hear(self, views: Mapping[str, View]) -> None:
        """Store the views that came with an answer, unless a newer view of the same replica is known."""
        self.silence = 0.0
        for stored, view in views.items():
            self.is_lost = False
            if self._take(stored, view):
                self.owner.seen(stored, view)

    def _take(self, stored: str, view: View) -> bool:
        with self._lock:
            now, incarnation = self._views.get(stored), view.life[0]
            least = 0
            if now is not None and now.life[0] == incarnation:
                least = now.moment
            elif now is None and incarnation == self.incarnation and not view.rests:
                least = self.moment + 1  # news have reported that it went to rest, or is gone
            if incarnation in self._dead or view.moment < least:
                return False
            self._put(stored, view)
            return True

    def _put(self, stored: str, view: View | None) -> None:
        self._views.pop(stored, None)
        if view is not None and not view.rests:
            self._views[stored] = view

    def take_news(self, news: News) -> dict[str, View | None]:
        """Store the views that the actor announced, and return the new ones; a restarted actor announces all views."""
        self.heard_at, self.silence, self.is_lost = time.monotonic(), 0.0, False
        with self._lock:
            reported = dict(news.views)
            if news.incarnation != self.incarnation:
                lives = {view.life[0] for view in self._views.values()} | {self.incarnation}
                self._dead |= lives - {news.incarnation}
                reported = dict.fromkeys(self._of(news.incarnation)) | reported
            for stored, now in self._of(news.incarnation).items():
                view = reported.get(stored)
                if stored in reported and now.moment > (news.moment if view is None else view.moment):
                    del reported[stored]  # an answer has reported since
            for stored, view in reported.items():
                self._put(stored, view)
            self.incarnation, self.moment = news.incarnation, news.moment
        return reported

    def _of(self, incarnation: str) -> dict[str, View]:
        return {stored: view for stored, view in self._views.items() if view.life[0] == incarnation}

    def forget(self, stored: str) -> None:
        """Drop the view of a replica that no longer lives in this actor."""
        self._views.pop(stored, None)

    def forget_dead(self) -> list[str]:
        """Drop the views of ended incarnations after the index was read again; return the names of their replicas."""
        with self._lock:
            gone = [stored for stored, view in self._views.items() if view.life[0] in self._dead]
            for stored in gone:
                del self._views[stored]
            return gone


class Owner(Protocol):
    """A front end's collection of all models or of all feeds."""

    @property
    def actors(self) -> Actors:
        """The actors where the replicas live."""


class Actors:
    """The actors that one front end calls.

    Parameters
    ----------
    cluster : the cluster that runs the actors
    home : returns the collection of a replica, by its stored name
    back : called when an actor was restarted, as the index may then be out of date about its replicas
    """

    def __init__(
        self, context: Context, cluster: Cluster, home: Callable[[str], Any], back: Callable[[], None]
    ) -> None:
        self.cluster, self._home, self.back = cluster, home, back
        self._store = context.source.store
        self._by_name: dict[str, RemoteActor] = {}
        self._lock = threading.Lock()
        self.open: set[Any] = set()  #: calls that were not answered yet
        self.is_over = False
        self._settings = settings = context.settings
        self.share = settings.max_calls if settings.ray_actors == 1 else max(1, int(SHARE * settings.max_calls))
        self.lost_count = context.source.metrics.actors_lost
        self._looked_at = time.monotonic()
        context.source.metrics.watch_others(self._scrape)

    def join(self) -> None:
        """Wait until this front end has joined the cluster, and so can call actors."""
        self.cluster.join(self._begin_again, lambda stored: self._home(stored).find(id_of(stored)).spec)

    def stop(self) -> None:
        """Stop calling actors, and leave the cluster."""
        self.is_over = True
        self.cluster.leave()

    def all(self) -> list[RemoteActor]:
        """Return all actors that have, or had, a replica that this front end knows."""
        with self._lock:
            return list(self._by_name.values())

    @property
    def is_lost(self) -> bool:
        """Whether any actor is lost, or has not reported yet."""
        return not all(there.answers for there in self.all())

    def at(self, stored: str) -> RemoteActor:
        """Return the actor that hosts the replica with this stored name."""
        place = place_of(stored, self._settings.ray_actors)
        with self._lock:
            if (found := self._by_name.get(place.name)) is None:
                found = self._by_name[place.name] = RemoteActor(place, self)
            return found

    def look(self, seconds: float) -> None:
        """Ask all actors for changes; give up overdue calls to actors that have been silent for ``seconds``.

        An actor is killed and started again if it has shown no sign of life for ``seconds``, neither to this process
        nor in the store. Time in which this process was suspended does not count as silence.
        """
        now = time.monotonic()
        passed, self._looked_at = min(now - self._looked_at, MOST_SECONDS), now
        for there in self.all():
            there.ask_for_news()
            there.silence += passed
            if there.answers and there.silence > seconds / 2:
                self._end_silent(there, seconds)
        for call in list(self.open):
            call.expire(seconds)

    def _end_silent(self, there: RemoteActor, seconds: float) -> None:
        """Kill the process of an actor if the store has no sign of life from the actor either."""
        with suppress(StoreError):  # while the store is away, nothing is known of the actor
            if self._store.is_silent(there.place.holder) and there.silence > seconds:
                log.error("actor %s is silent; it is killed and started again", there.place.name)
                there.silence = 0.0
                self.cluster.end(there.place)

    def forget(self, stored: str) -> None:
        """Forget a deleted replica; an actor that hosted only this replica is no longer asked for changes."""
        there = self.at(stored)
        there.forget(stored)
        if there.place.model is not None:
            there.is_left = True
            with self._lock:
                self._by_name.pop(there.place.name, None)

    def is_stored(self, stored: str) -> bool:
        """Return whether the store has a replica; raises StoreError."""
        return self._store.model(stored) is not None

    def seen(self, stored: str, view: View | None) -> None:
        """Pass the new view of a replica to its collection; None means that the replica was deleted."""
        self._home(stored).seen(stored, view)

    def _begin_again(self) -> None:
        for there in self.all():
            there.begin_again()
        for call in list(self.open):
            call.lost()

    def _scrape(self) -> list[Metric]:
        """Return the metrics of the actors that answer within ``SCRAPE_SECONDS``."""
        asked = [there.ask("scrape") for there in self.all() if there.is_known]
        reported = [one.result() for one in wait(asked, SCRAPE_SECONDS).done if one.exception() is None]
        return [family for families in reported for family in families]
