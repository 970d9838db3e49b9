"""The reader of a feed's source: one thread for each feed, which waits until entries have had their effect.

The reader fetches more entries only when the effect of the last ones is durable; entries for a slow feed stay in the
source. Every error is shown, and then the reader tries again; entries that a feed refuses are no error.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from livesvm.service import crash
from livesvm.service.errors import NotSolved, ServiceError
from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.sources.base import Backlog, DeadLetter, Position, Source, SourceEntry, SourceError
from livesvm.service.monitoring.feeds import SourceSample
from livesvm.service.store.base import StoreError
from livesvm.solvers.errors import SolverError

WAIT_SECONDS = 0.5
"""For entries; so long a stop may take."""
RETRY_SECONDS, MOST_RETRY_SECONDS = 1.0, 10.0
"""After an error, and after many in a row; doubled each time, and up to a half less by chance."""
LOOK_SECONDS = 1.0
"""Between two looks how much waits."""

log = logging.getLogger(__name__)


class Fed(Protocol):
    """The feed that a source reader delivers entries to."""

    @property
    def is_open(self) -> bool:
        """Whether the feed accepts readings now."""

    @property
    def progress(self) -> Progress:
        """The feed's progress in its source."""

    def deliver(self, entries: Sequence[SourceEntry], why: str | None = None) -> Future[Any]:
        """Take entries new to the feed, or refuse them for the reason ``why``; the Future ends once this is durable."""


@dataclass(frozen=True)
class Flow:
    """The state of reading a source: its fault, if any, and the backlog of waiting entries, if known.

    ``came_at`` is the Unix time at which the newest entries arrived; None if none arrived since the reader started.
    ``forgotten`` counts how often the source did not remember a feed that had read from it, so that readings may be
    missing.
    """

    fault: str | None = None
    backlog: Backlog | None = None
    came_at: float | None = None
    forgotten: int = 0

    def sample(self, refused: int) -> SourceSample:
        """Return the values of the source for the metrics; ``refused`` counts the entries that the feed refused."""
        return SourceSample(
            self.fault is None,
            None if self.backlog is None else self.backlog.entries,
            refused,
            self.came_at,
            self.forgotten,
        )


class SourceReader:
    """Moves entries from a source to a feed until it is stopped.

    Parameters
    ----------
    name : for people
    feed : takes the entries
    opened : makes the source; it is made again after an error
    most : entries at once
    """

    def __init__(self, name: str, feed: Fed, opened: Callable[[], Source], most: int) -> None:
        self._name, self._feed, self._opened, self._most = name, feed, opened, most
        self.flow = Flow()
        self._stopped = threading.Event()
        self._looked_at = 0.0
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def leave(self) -> None:
        """Make the reader stop after the current entries; return at once."""
        self._stopped.set()

    def stop(self) -> None:
        """Stop the reader, and return when its thread has ended."""
        self.leave()
        self._thread.join()

    def forget(self) -> None:
        """Make the source forget a deleted feed; if the source cannot be reached, only log a warning."""
        try:
            source = self._opened()
            source.forget()
            source.close()
        except (SourceError, SolverError) as error:
            log.warning("%s: its source was not told that it is gone: %s", self._name, error)

    def _run(self) -> None:
        while not self._stopped.is_set():
            source: Source | None = None
            try:
                if not self._feed.is_open:  # another service may be the one that reads it
                    self._stopped.wait(WAIT_SECONDS)
                    continue
                source = self._opened()
                progress = self._feed.progress
                if source.begin(progress.taken, progress.dead) and progress.recent:
                    log.warning("%s: its source does not remember it; readings may be missing", self._name)
                    self.flow = replace(self.flow, forgotten=self.flow.forgotten + 1)
                self._told(None)
                while not self._stopped.is_set() and self._moves(source):
                    self._failures = 0
            except (SourceError, StoreError, ServiceError, SolverError) as error:
                self._told(f"{error}")
            except Exception as error:
                log.exception("%s: its source failed in an unforeseen way; it is tried again", self._name)
                self._told(f"{type(error).__name__}: {error}")
            finally:
                if source is not None:
                    source.close()
            rest = min(MOST_RETRY_SECONDS, RETRY_SECONDS * 2 ** min(self._failures, 10))
            self._failures += 1
            self._stopped.wait(rest * random.uniform(0.5, 1.0))

    def _moves(self, source: Source) -> bool:
        """Deliver the next entries, and settle them once their effect is durable; False if the feed is closed."""
        if not self._feed.is_open:
            return False
        before = self._feed.progress
        if before.paused:
            self._look(source)
            self._stopped.wait(WAIT_SECONDS)
            return True
        entries = source.fetch(before.taken, self._most, WAIT_SECONDS)
        if entries:
            self.flow = replace(self.flow, came_at=time.time())
            self._deliver(entries)
            crash.point("before-settle")
            self._settle(source, [entry.position for entry in entries], before.dead)
            crash.point("after-settle")
        self._look(source)
        return True

    def _settle(self, source: Source, positions: list[Position], earlier: Sequence[DeadLetter]) -> None:
        """Settle entries, with the dead letters of those refused now, or refused ``earlier`` and still unsettled."""
        dead = dict.fromkeys((*earlier, *self._feed.progress.dead))
        source.settle(positions, [letter for letter in dead if letter.position in set(positions)])

    def _deliver(self, entries: list[SourceEntry]) -> None:
        """Deliver entries to the feed; if that fails, deliver the first alone, and if that fails too, refuse it."""
        try:
            self._feed.deliver(entries).result()
        except Exception as error:
            if not (isinstance(error, NotSolved) or _is_of_entries(error)):
                raise
            first = entries[:1]
            del entries[1:]  # the others are fetched again
            try:
                self._feed.deliver(first).result()
            except Exception as alone:
                if not _is_of_entries(alone):
                    raise
                is_foreseen = isinstance(alone, SolverError)
                why = str(alone) if is_foreseen else f"failed in an unforeseen way, {type(alone).__name__}"
                self._feed.deliver(first, why).result()

    def _look(self, source: Source) -> None:
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self.flow = replace(self.flow, fault=None, backlog=source.backlog(self._feed.progress.taken))

    def _told(self, fault: str | None) -> None:
        """Set the fault of the source, or None; log when a fault begins or ends."""
        if fault != self.flow.fault:
            if fault is not None:
                log.warning("%s: its source is not read: %s", self._name, fault)
            else:
                log.info("%s: its source is read again", self._name)
        self.flow = replace(self.flow, fault=fault, backlog=self.flow.backlog if fault is None else None)


def _is_of_entries(error: Exception) -> bool:
    """Return whether the entries themselves caused the error, so that it would recur whenever they are delivered."""
    return not isinstance(error, ServiceError | StoreError | SourceError | MemoryError)
