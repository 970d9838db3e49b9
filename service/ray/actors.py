"""The actors where models and feeds live, as a front end knows them: what they announce, and calls of them."""

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
"""Of the calls that may be waited for at once, which one actor may have where there are several."""
MOST_SECONDS = 1.0
"""Between two looks, that count as silence of others."""

log = logging.getLogger(__name__)


class RemoteActor:
    """One such actor, from any thread: its last announcements, and when they came.

    Invariant: no view here belongs to an incarnation that has a successor, but for those of :meth:`forget_dead`.
    """

    def __init__(self, place: Place, owner: Actors) -> None:
        self.place, self.owner = place, owner
        self.incarnation, self.moment = "", 0
        self.is_lost = self.is_left = self._is_asked = False
        self._round = 0  #: joins of the cluster; what was asked in one before is not answered
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
        """Return the newest that was heard of one; None of one that is at rest."""
        return self._views.get(stored)

    @property
    def answers(self) -> bool:
        """Whether it was heard of, and is not lost."""
        return self.heard_at is not None and not self.is_lost

    def is_silent(self, seconds: float) -> bool:
        """Return whether it has said nothing for so long."""
        return time.monotonic() - (self.heard_at or self.made_at) > seconds

    def note_predicted(self, stored: str, rows: int) -> None:
        """Count rows that were predicted here."""
        with self._lock:
            self._rows[stored] += rows

    def predicted(self, stored: str) -> int:
        """Return rows that were predicted here and that the actor was not informed of yet."""
        return self._rows[stored]

    # Calls of it.

    def takes(self, call: Future[Any]) -> bool:
        """Return whether a call that is waited for may be made; an actor has its share of those."""
        if len(self._waiting) >= self.owner.share:
            return False
        self._waiting.add(call)
        call.add_done_callback(self._waiting.discard)
        return True

    @property
    def is_known(self) -> bool:
        """Whether calls return at once."""
        return self.owner.cluster.is_known(self.place)

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the actor."""
        return self.owner.cluster.ask(self.place, method, *arguments)

    def call(self, message: bytes, *, by_line: bool) -> Future[bytes]:
        """Ask the actor a question; ``by_line`` says that its answer is small."""
        return self.owner.cluster.call(self.place, message, by_line=by_line)

    def failed(self, error: BaseException) -> None:
        """Know that a call has failed."""
        self.owner.cluster.lost(self.place, error)

    def begin_again(self) -> None:
        """Ask everything again: answers to what was asked before do not come."""
        self._lose()
        self.incarnation, self.moment = "", 0
        self._round += 1

    def ask_for_news(self) -> None:
        """Have it tell what is new, unless it is asked."""
        if self._is_asked:
            return
        self._is_asked = True
        with self._lock:
            rows, self._rows = self._rows, Counter()
        asked = self.ask("news", self.incarnation, self.moment, dict(rows))
        asked.add_done_callback(partial(self._told, self._round))

    def _told(self, round: int, asked: Future[bytes]) -> None:
        """Take in what it tells, and ask for more; one that was lost is asked again at the next look."""
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
        """Take note that it does not answer, or cannot be reached."""
        self.is_lost, self._is_asked = True, False

    # What it tells.

    def hear(self, views: Mapping[str, View]) -> None:
        """Know what an answer tells, unless something newer is known."""
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
        """Know what it tells; what of that is new. One that has come back tells of all that are in memory there."""
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
        """Forget one that does not live there any more."""
        self._views.pop(stored, None)

    def forget_dead(self) -> list[str]:
        """Drop the reports of incarnations that ended before the store's index was read; return their names."""
        with self._lock:
            gone = [stored for stored, view in self._views.items() if view.life[0] in self._dead]
            for stored in gone:
                del self._views[stored]
            return gone


class Owner(Protocol):
    """The owner of all replicas of a kind, as far as a front end knows them."""

    @property
    def actors(self) -> Actors:
        """Those where they live."""


class Actors:
    """All of them, as far as one front end has to do with them.

    Parameters
    ----------
    cluster : that they are in
    home : returns the collection of what has a stored name
    back : called when an actor has come back: what the index said before of those that live there is old
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
        """Wait until actors can be asked."""
        self.cluster.join(self._begin_again, lambda stored: self._home(stored).find(id_of(stored)).spec)

    def stop(self) -> None:
        """Ask nothing any more."""
        self.is_over = True
        self.cluster.leave()

    def all(self) -> list[RemoteActor]:
        """Return the actors where something lives, or lived."""
        with self._lock:
            return list(self._by_name.values())

    @property
    def is_lost(self) -> bool:
        """Whether any of them is lost, or was not heard of yet."""
        return not all(there.answers for there in self.all())

    def at(self, stored: str) -> RemoteActor:
        """Return where what is stored under this name lives."""
        place = place_of(stored, self._settings.ray_actors)
        with self._lock:
            if (found := self._by_name.get(place.name)) is None:
                found = self._by_name[place.name] = RemoteActor(place, self)
            return found

    def look(self, seconds: float) -> None:
        """Have all tell what is new; give up calls after their time, of those that were silent for so long.

        An actor that says nothing for that long, to the store neither, is killed and started again. Time in which
        this process was stopped itself does not count.
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
        """Kill the process of an actor if the store has heard as little of it."""
        with suppress(StoreError):  # which says nothing of it either
            if self._store.is_silent(there.place.holder) and there.silence > seconds:
                log.error("actor %s is silent; it is killed and started again", there.place.name)
                there.silence = 0.0
                self.cluster.end(there.place)

    def forget(self, stored: str) -> None:
        """Forget one that does not live any more; an actor of its own is not asked any more."""
        there = self.at(stored)
        there.forget(stored)
        if there.place.model is not None:
            there.is_left = True
            with self._lock:
                self._by_name.pop(there.place.name, None)

    def is_stored(self, stored: str) -> bool:
        """Return whether the store has it; raises StoreError."""
        return self._store.model(stored) is not None

    def seen(self, stored: str, view: View | None) -> None:
        """Have the owner of a replica know what is reported of it, None if it is gone."""
        self._home(stored).seen(stored, view)

    def _begin_again(self) -> None:
        for there in self.all():
            there.begin_again()
        for call in list(self.open):
            call.lost()

    def _scrape(self) -> list[Metric]:
        """Return the metrics of actors, as far as they are reported in time."""
        asked = [there.ask("scrape") for there in self.all() if there.is_known]
        reported = [one.result() for one in wait(asked, SCRAPE_SECONDS).done if one.exception() is None]
        return [family for families in reported for family in families]
