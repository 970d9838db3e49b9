"""The directory of processes that host replicas: what they announce, and calls of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from prometheus_client.core import Metric

from livesvm.service.hosting.context import Context
from livesvm.service.remote.messages import News, View, unpacked
from livesvm.service.remote.process_view import ProcessView
from livesvm.service.remote.transport import Since, Transport

log = logging.getLogger(__name__)


class UnderWay(Protocol):
    """A call that was not answered yet."""

    def expire(self, seconds: float) -> None:
        """Give up if the time is over and the process has said nothing for so long."""

    def lost(self) -> None:
        """Send it again: what was asked before is not answered any more."""


class ProcessDirectory:
    """All processes that host something, as far as one front end has to do with them.

    Parameters
    ----------
    transport : by which they are asked
    reported : called with what is reported of one, by its stored name, None if it is gone
    back : called when a process has come back: what the index said before of those that live there is old
    spec : of what is stored under a name
    """

    def __init__(
        self,
        context: Context,
        transport: Transport[Any],
        reported: Callable[[str, View | None], None],
        back: Callable[[], None],
        spec: Callable[[str], Any],
    ) -> None:
        self.settings, self.health, self.store = context.settings, context.source.health, context.source.store
        self.transport, self.terms = transport, transport.terms
        self._on_news, self._on_return, self._spec = reported, back, spec
        self._places: dict[str, ProcessView] = {}
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        self.open: set[UnderWay] = set()
        context.source.metrics.watch_others(self.scrape)

    def join(self) -> None:
        """Wait until processes can be asked."""
        self.transport.join(self._begin_again)

    def stop(self) -> None:
        """Ask nothing any more."""
        self.stopped.set()
        self.transport.leave()

    def scrape(self) -> list[Metric]:
        """Return the metrics of where something lives, as far as they are reported in time."""
        return self.transport.scrape([there.place for there in self.all()])

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
                try:
                    self._ask(there)
                except Exception as error:
                    self._told(there, there.round, None, error)

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
        spec, reported = partial(self._spec, str(there.place.model)), partial(self._told, there, there.round)
        try:
            self.transport.watch(there.place, spec, Since(there.incarnation, there.moment, there.taken()), reported)
        except Exception:
            there.is_asked = False  # the next look asks again
            raise

    def hear(self, there: ProcessView, views: Mapping[str, View]) -> None:
        """Take in what an answer tells of others than those that it was asked of."""
        for stored, view in views.items():
            if there.take(stored, view):
                self._on_news(stored, view)

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
            self._on_news(stored, view)
        if is_back:
            self._on_return()
        there.is_asked = False
        if there.count and self.transport.is_known(there.place):
            with suppress(Exception):  # the next look asks again
                self._ask(there)
