"""A front end's view of a process where replicas live: its last announcements, and when they came."""

from __future__ import annotations

import threading
import time
from collections import Counter

from livesvm.service.remote.messages import News, View
from livesvm.service.remote.transport import Place


class ProcessView:
    """One such process, from any thread; ``word`` is what people call it.

    Invariant: no view here belongs to an incarnation that has a successor, but for those of :meth:`forget_dead`.
    """

    def __init__(self, place: Place, word: str = "actor") -> None:
        self.place, self.word = place, word
        self.count = 0  #: of those that live there
        self.incarnation, self.moment = "", 0
        self.is_lost = self.is_asked = False
        self.round = 0  #: joins of the cluster; what was asked in one before is not answered
        self.heard_at: float | None = None
        self.made_at = time.monotonic()
        self._views: dict[str, View] = {}
        self._dead: set[str] = set()
        self._rows: Counter[str] = Counter()
        self._lock = threading.Lock()

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

    def lose(self) -> None:
        """Take note that it does not answer, or cannot be reached."""
        self.is_lost, self.is_asked = True, False

    def begin_again(self) -> None:
        """Begin again: no open call will be answered."""
        self.lose()
        self.incarnation, self.moment = "", 0
        self.round += 1

    def take(self, stored: str, view: View) -> bool:
        """Know this of one, unless something newer is known; whether it is so."""
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
        self.heard_at, self.is_lost = time.monotonic(), False
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
        """Drop the reports of processes that ended before the store's index was read; return their names."""
        with self._lock:
            gone = [stored for stored, view in self._views.items() if view.life[0] in self._dead]
            for stored in gone:
                del self._views[stored]
            return gone

    def note_predicted(self, stored: str, rows: int) -> None:
        """Count rows that were predicted here."""
        with self._lock:
            self._rows[stored] += rows

    def predicted(self, stored: str) -> int:
        """Return rows that were predicted here and that the actor was not informed of yet."""
        return self._rows[stored]

    def taken(self) -> dict[str, int]:
        """Return the same of all, to be reported now."""
        with self._lock:
            rows, self._rows = self._rows, Counter()
        return dict(rows)
