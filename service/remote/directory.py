"""The directory of processes that host replicas: what they announce, and calls of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client.core import Metric

from livesvm.service.history.names import id_of
from livesvm.service.hosting.context import Context
from livesvm.service.remote.messages import News, Scrape, Since, View, packed, unpacked
from livesvm.service.remote.process_view import ProcessView
from livesvm.service.remote.transport import Transport, ask_all

SCRAPE_SECONDS = 1.0


class ProcessDirectory:
    """All processes that host something, as far as one front end has to do with them.

    Parameters
    ----------
    transport : by which they are asked
    home : returns the collection of what has a stored name
    back : called when a process has come back: what the index said before of those that live there is old
    """

    def __init__(
        self, context: Context, transport: Transport, home: Callable[[str], Any], back: Callable[[], None]
    ) -> None:
        self.settings, self.health, self.store = context.settings, context.source.health, context.source.store
        self.transport, self.terms = transport, transport.terms
        self._home, self._on_return = home, back
        self._places = {place.name: ProcessView(place, self.terms.word) for place in transport.places}
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        self.open: set[Any] = set()  #: calls that were not answered yet
        context.source.metrics.watch_others(self.scrape)

    def join(self) -> None:
        """Wait until processes can be asked."""
        self.transport.join(self._begin_again, lambda stored: self._home(stored).find(id_of(stored)).spec)

    def stop(self) -> None:
        """Ask nothing any more."""
        self.stopped.set()
        self.transport.leave()

    def scrape(self) -> list[Metric]:
        """Return the metrics of processes, as far as they are reported in time."""
        with self._lock:
            places = [there.place for there in self._places.values() if self.transport.is_known(there.place)]
        reported = ask_all(self.transport, places, packed(Scrape()), SCRAPE_SECONDS)
        return [family for found in reported for family in unpacked(found)]

    # What collections and calls ask.

    def all(self) -> list[ProcessView]:
        """Return the processes where something lives."""
        with self._lock:
            return [there for there in self._places.values() if there.count]

    @property
    def is_lost(self) -> bool:
        """Whether any of them is lost, or was not heard of yet."""
        return not all(there.answers for there in self.all())

    def there(self, stored: str) -> ProcessView:
        """Return where what is stored under this name lives."""
        place = self.transport.place(stored)
        with self._lock:
            return self._places.setdefault(place.name, ProcessView(place, self.terms.word))

    def lives(self, stored: str, change: int) -> None:
        """Count one more, or one fewer, where this lives; a process without any is not asked any more."""
        there = self.there(stored)
        with self._lock:
            there.count += change
            if not there.count and there.place.model is not None:
                self._places.pop(there.place.name, None)

    def is_stored(self, stored: str) -> bool:
        """Return whether the store has it, as far as that is not known where it lives; raises StoreError."""
        return not self.store.shared or self.store.model(stored) is not None

    # In threads of the front end, and in those of its connections.

    def ask_for_news(self) -> None:
        """Have every process where something lives tell what is new."""
        for there in self.all():
            if not there.is_asked:
                self._ask(there)

    def expire(self) -> None:
        """Give up calls to silent processes after their time."""
        for call in list(self.open):
            call.expire(self.settings.lease_seconds)

    def _begin_again(self) -> None:
        """Ask everything again: answers to what was asked before do not come."""
        for there in self.all():
            there.begin_again()
        for call in list(self.open):
            call.lost()

    def _ask(self, there: ProcessView) -> None:
        there.is_asked = True
        message = packed(Since(there.incarnation, there.moment, there.taken()))
        self.transport.ask(there.place, message, False, partial(self._told, there, there.round))

    def hear(self, there: ProcessView, views: Mapping[str, View]) -> None:
        """Take in what an answer tells of others than those that it was asked of."""
        for stored, view in views.items():
            if there.take(stored, view):
                self._home(stored).seen(stored, view)

    def _told(self, there: ProcessView, round: int, message: bytes | None, error: BaseException | None) -> None:
        """Take in what a process tells, and ask for more; one that was lost is asked again at the next look."""
        if round != there.round:
            return
        if message is None:
            if error is not None:
                self.transport.lost(there.place, error)
            there.lose()
            return
        news: News = unpacked(message)
        if self.stopped.is_set():
            return
        self.transport.heard(there.place, news.line)
        is_back = news.incarnation != there.incarnation
        for stored, view in there.take_news(news).items():
            self._home(stored).seen(stored, view)
        if is_back:
            self._on_return()
        there.is_asked = False
        if there.count and self.transport.is_known(there.place):
            self._ask(there)
