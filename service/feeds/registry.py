"""The feeds of one service, by id: create, find, restore, take over, delete."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NoReturn

from pydantic import ValidationError

from livesvm.service.errors import (
    CutOff,
    FeedExists,
    ModelUnavailable,
    NotSolved,
    Restoring,
    ServiceError,
    TooManyFeeds,
    UnknownFeed,
    Withdrawn,
)
from livesvm.service.feeds.live import LiveFeed, encoded
from livesvm.service.feeds.size import features_at_most, feed_bytes
from livesvm.service.feeds.sources.opening import url_of
from livesvm.service.feeds.spec import FeedSpec, stored_spec
from livesvm.service.history.names import FEEDS, is_feed, stored_feed
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs.audit import changed
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample
from livesvm.service.resources.turns import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import (
    Lease,
    LeaseHeld,
    ModelExists,
    ModelGone,
    StoredModel,
    StoreError,
    StoreUnavailable,
)
from livesvm.solvers.errors import InvalidInput

RESTORE_SECONDS = 2.0
"""For so long the others are served later, so that most feeds are back when the service is ready."""
RESTORED_AT_ONCE = 4
RETRY_SECONDS = 1.0
"""Between two tries while the store is away."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class AbsentFeed:
    """A stored feed that is not served here: being restored, held by another service, or not to be had."""

    id: str
    spec: FeedSpec | None
    lease: Lease | None
    reason: str
    around: Surroundings = field(repr=False)
    state: ServingState = "failed"
    solve: Solve = field(default_factory=Solve, repr=False)
    is_served = False
    served = None

    def serving(self) -> NoReturn:
        """Raise ModelUnavailable, or Restoring, with the reason."""
        kind = Restoring if self.state == "restoring" else ModelUnavailable
        raise kind(f"feed {self.id} is not served here: {self.reason}")

    def news(self) -> None:
        """There is none of one that is not served."""

    def delete(self) -> Future[None]:
        """Remove it from the store; raises ModelUnavailable where another service has it, or StoreError."""
        if self.lease is None:
            self.serving()
        self.give_up(Withdrawn(f"feed {self.id} was deleted"))
        source, done = self.around.source, Future[None]()
        with source.health.store_call("delete"), suppress(ModelGone):
            source.store.delete(self.lease)
        done.set_result(None)
        return done

    def give_up(self, reason: ServiceError) -> None:
        """End its restoration, if it is under way."""
        self.solve.end(reason if isinstance(reason, NotSolved) else Withdrawn(str(reason)))

    def stop(self) -> None:
        """There is nothing to stop."""


_Feed = LiveFeed | AbsentFeed


class Feeds:
    """Owns every feed. Its calls block on the store; none belongs on the event loop except :meth:`get` and `find`."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._feeds: dict[str, _Feed] = {}
        self._making: set[str] = set()
        self._lock = threading.Lock()
        self._restoring = ThreadPoolExecutor(RESTORED_AT_ONCE, "restore-feed")

    def get(self, feed: str) -> LiveFeed:
        """The live feed of that id; raises UnknownFeed or ModelUnavailable."""
        return self.find(feed).serving()

    def find(self, feed: str) -> _Feed:
        """The feed of that id, whatever its state; raises UnknownFeed."""
        found = self._feeds.get(feed)
        if found is None:
            raise UnknownFeed(f"there is no feed {feed[:64]!r}")
        return found

    def known(self, feed: str) -> _Feed | None:
        """The feed of that id, if there is one."""
        return self._feeds.get(feed)

    def all(self) -> list[_Feed]:
        """Every feed, by id."""
        return [feed for _, feed in sorted(self._feeds.items())]

    def states(self) -> list[ServingState]:
        """The state of every feed."""
        return [feed.state for feed in self.all()]

    def live(self) -> list[LiveFeed]:
        """Those that are served."""
        return [feed for feed in self.all() if isinstance(feed, LiveFeed)]

    def samples(self) -> list[FeedSample]:
        """What the metrics show of those that are served."""
        return [feed.sample() for feed in self.live()]

    def troubles(self) -> list[str]:
        """Sources that are not read, and why."""
        flows = [(feed, feed.flow) for feed in self.live()]
        return [f"the source of {feed}: {flow.fault}" for feed, flow in flows if flow is not None and flow.fault]

    def create(self, id: str | None, spec: FeedSpec) -> LiveFeed:
        """Store a new feed and start it; raises FeedExists, TooManyFeeds, OutOfMemory or StoreError."""
        settings = self._around.settings
        for name, size, most in (
            ("window", spec.window, settings.max_examples),
            ("features", features_at_most(spec), settings.max_features),
        ):
            if size > most:
                raise InvalidInput(f"makes {size}, the limit is {most}", field=name)
        if spec.source is not None:
            url_of(spec.source, settings)
        id = id or f"f-{secrets.token_hex(6)}"
        with self._reserved(id):
            self._around.budget.check("models", feed_bytes(spec))
            source = self._around.source
            try:
                with source.health.store_call("create"):
                    lease = source.store.create(stored_feed(id), encoded(spec))
            except ModelExists:
                raise FeedExists(f"a feed {id} exists") from None
            try:
                self._feeds[id] = live = LiveFeed(spec, lease, self._around)
            except StoreError as error:
                self._feeds[id] = AbsentFeed(id, spec, lease, str(error), self._around)  # it can be deleted
                raise
        changed("create", f"{live}", version=0)
        return live

    def delete(self, feed: str) -> Future[None]:
        """Remove a feed and all that is stored of it; whoever asked calls :meth:`forget` when that is done."""
        return self.find(feed).delete()

    def forget(self, feed: str) -> None:
        """Let go of a feed that was deleted."""
        found = self._feeds.pop(feed, None)
        changed("delete", f"feed {feed}")
        if found is not None:
            found.stop()

    def restore(self) -> None:
        """Begin to bring every stored feed back; those that take longer go on while others are served."""
        wait([self._begin(stored) for stored in self._stored()], RESTORE_SECONDS)

    def watch(self) -> None:
        """Learn whether other writers or losses of the store concern any feed."""
        live = {stored_feed(feed.id): feed for feed in self.live()}
        if not live:
            return
        known = {id_: feed.known for id_, feed in live.items()}
        with self._around.source.health.store_call("watch"):
            heads = self._around.source.store.heads(live)
        for id_, feed in live.items():
            feed.watch(known[id_], heads.get(id_))

    def take_over(self) -> None:
        """Restore the feeds that other services let go of, forget the deleted ones; as models are."""
        if not self._around.source.store.shared and "fenced" not in self.states():
            return
        stored = {found.id.removeprefix(FEEDS): found for found in self._stored()}
        for id_, found in stored.items():
            before = self._feeds.get(id_)
            if id_ not in self._making and (before is None or before.state in ("held", "fenced")):
                self._begin(found)
        for gone in [feed.id for feed in self.all() if feed.state == "held" and feed.id not in stored]:
            self._feeds.pop(gone, None)

    def stop(self) -> None:
        """Drain every writer; each writes a snapshot. What is still being restored is given up."""
        for feed in self.all():
            if isinstance(feed, AbsentFeed):
                feed.give_up(CutOff("the service stops"))
        self._restoring.shutdown(cancel_futures=True)
        for live in self.live():
            live.leave_source()
        for feed in self.all():
            feed.stop()

    def _stored(self) -> list[StoredModel]:
        with self._around.source.health.store_call("load"):
            return [found for found in self._around.source.store.models() if is_feed(found.id)]

    def _begin(self, stored: StoredModel) -> Future[None]:
        """Take a stored feed, if nobody else has it, and have it restored."""
        id_, done = stored.id.removeprefix(FEEDS), Future[None]()
        done.set_result(None)
        absent = self._taken(id_, stored)
        before = self._feeds.get(id_)
        if before is not None and before.is_served and absent.state == "held":
            return done  # it goes on forecasting as of when it was taken
        self._feeds[id_] = absent
        if before is not None:
            before.give_up(ModelUnavailable(f"feed {id_} was taken over and is coming back; ask again"))
            before.stop()
        return self._restoring.submit(self._bring_back, absent) if absent.state == "restoring" else done

    def _taken(self, id_: str, stored: StoredModel) -> AbsentFeed:
        spec, lease = None, None
        try:
            if not stored.damage:
                spec = stored_spec(codec.decode(stored.spec)["feed"])
            with self._around.source.health.store_call("load"):
                lease = self._around.source.store.acquire(stored.id)
            stored.check()
        except LeaseHeld as error:
            return AbsentFeed(id_, spec, None, str(error), self._around, "held")
        except StoreUnavailable:
            raise
        except (StoreError, ValidationError, KeyError) as error:
            log.error("feed %s cannot be restored: %s", id_, error)
            return AbsentFeed(id_, spec, lease, str(error), self._around)
        return AbsentFeed(id_, spec, lease, "it is being restored", self._around, "restoring")

    def _bring_back(self, absent: AbsentFeed) -> None:
        """Restore one feed, unless it is deleted meanwhile."""
        now = self._opened(absent)
        with self._lock:
            is_wanted = self._feeds.get(absent.id) is absent
            if is_wanted:
                self._feeds[absent.id] = now
        if not is_wanted:
            now.stop()
        elif isinstance(now, LiveFeed):
            log.info("feed %s is back, at version %d", now.id, now.view.version)

    def _opened(self, absent: AbsentFeed) -> _Feed:
        assert absent.spec is not None
        assert absent.lease is not None
        while True:
            try:
                return LiveFeed(absent.spec, absent.lease, self._around, absent.solve)
            except NotSolved as error:
                return AbsentFeed(absent.id, absent.spec, absent.lease, str(error), self._around)
            except StoreUnavailable as error:
                if absent.solve.objection() is not None:
                    return AbsentFeed(absent.id, absent.spec, absent.lease, str(error), self._around)
                time.sleep(RETRY_SECONDS)
            except Exception as error:
                unforeseen = None if isinstance(error, StoreError) else error
                log.error("feed %s could not be restored: %s", absent.id, error, exc_info=unforeseen)
                return AbsentFeed(absent.id, absent.spec, absent.lease, str(error), self._around)

    @contextmanager
    def _reserved(self, feed: str) -> Iterator[None]:
        """Hold an id, and its place in the quota, while its feed is being made."""
        with self._lock:
            if feed in self._feeds or feed in self._making:
                raise FeedExists(f"a feed {feed} exists")
            if len(self._feeds) + len(self._making) >= self._around.settings.max_feeds:
                raise TooManyFeeds(f"there are {self._around.settings.max_feeds} feeds, the limit")
            self._making.add(feed)
        try:
            yield
        finally:
            self._making.discard(feed)
