"""The feeds of a Ray cluster as a front end sees them: each lives in an actor, with its models and its source."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from pydantic import ValidationError

from livesvm.service.errors import FeedExists, ModelUnavailable, Restoring, TooManyFeeds, UnknownFeed
from livesvm.service.feeds.calls import Progress
from livesvm.service.feeds.handle import FeedCopy, sample_of
from livesvm.service.feeds.lookback import Lookback
from livesvm.service.feeds.pump import Flow
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.sources.opening import url_of
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, View, events_kept
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.wanted import Wanted
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.history.names import FEEDS, is_feed, stored_feed
from livesvm.service.live.handle import NEWS_SECONDS, Erased, Models, Reply, Return
from livesvm.service.models.published import Published
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample
from livesvm.service.ray.calls import Call
from livesvm.service.ray.in_actor import InActor, Unnamed, request_name
from livesvm.service.ray.messages import FeedView
from livesvm.service.ray.office import Office
from livesvm.service.ray.places import place_of
from livesvm.service.ray.registry import RayRegistry
from livesvm.service.resources.turns import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import StoredModel, StoreError

NEVER = Return(0, 0, 0, 0)
"""How one came back that nothing has been heard of."""


class RayFeed(InActor):
    """A feed in an actor. Implements :class:`~livesvm.service.feeds.handle.FeedHandle`.

    Invariant: ``_told`` is the newest that was heard of, and ``view`` has its events with those heard of before.
    """

    def __init__(self, id: str, spec: FeedSpec, office: Office) -> None:
        stored = stored_feed(id)
        super().__init__(stored, place_of(stored, office.settings.ray_actors), office, office.settings)
        self.id = id
        self.spec = spec
        self.memory = feed_bytes(spec)
        self.view = View.of(FeedState.empty(spec))
        self._told: FeedView | None = None

    # What is known here.

    def hear(self, view: FeedView | None, at: float) -> None:
        """The actor said at some time, monotonic, how it is; None: the same as before."""
        now = self._told
        if view is not None and (now is None or view.life != now.life or view.moment >= now.moment):
            if view.view is not None:
                self.view = replace(view.view, events=self._joined(view.view.events))
            self._told = view
        self._heard(at)

    def _joined(self, new: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """The events that are known here, and the newest; only those where some between are not, or were erased."""
        known = self.view.events
        behind = [event for event in new if not known or event["id"] > known[-1]["id"]]
        erased = any(event["kind"] == "erased" for event in behind)
        if not known or erased or (new and new[0]["id"] > known[-1]["id"] + 1):
            return tuple(new)
        return (*known, *behind)[-events_kept(self.spec) :]

    def hold(self, copy: Published) -> None:
        """Forecasts are in the view."""

    def taken(self) -> int:
        """Nothing is predicted here."""
        return 0

    @property
    def state(self) -> ServingState:
        """Whether it is served."""
        return "restoring" if self._told is None or self.is_lost else self._told.state

    @property
    def reason(self) -> str | None:
        """Why it is not served."""
        if self.is_lost:
            return "its actor was lost, and is started again"
        return "its actor starts" if self._told is None else self._told.reason

    @property
    def served(self) -> RayFeed | None:
        """The feed itself, if it is served."""
        return self if self._told is not None and self._told.is_served and not self.is_lost else None

    def serving(self) -> RayFeed:
        """The feed itself; one that its actor does not serve raises ModelUnavailable, or Restoring."""
        if self._told is not None and not self._told.is_served:
            self._refuse(self._told)
        return self

    def _refuse(self, now: FeedView) -> NoReturn:
        kind = Restoring if now.state == "restoring" else ModelUnavailable
        raise kind(f"feed {self.id} is not served: {now.reason}")

    @property
    def stale(self) -> bool:
        """Whether readings are refused now, so that newer ones may be unknown."""
        return self._told is None or self._told.stale or self.is_lost or self.age > self._settings.lease_seconds

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""
        return 0 if self._told is None else self._told.queue_depth

    @property
    def returned(self) -> Return:
        """How it came back."""
        return NEVER if self._told is None or self._told.returned is None else self._told.returned

    @property
    def flow(self) -> Flow | None:
        """How its source flows; None if it has none."""
        if self.spec.source is None:
            return None
        return Flow() if self._told is None or self._told.flow is None else self._told.flow

    @property
    def progress(self) -> Progress:
        """How far it has come in its source."""
        return self.view.progress

    def sample(self) -> FeedSample:
        """What the metrics show."""
        return sample_of(self)

    # What the actor is asked.

    def news(self) -> Call:
        """What others were told of may not have come here yet."""
        return self._ask("hear", spec=self.spec, patience=NEWS_SECONDS)

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Take one call's rows."""
        return self._named("observe", (list(rows),), request)

    def pause(self, paused: bool) -> Future[Reply]:
        """Take nothing more from its source, or go on."""
        return self.ask("pause", paused)

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Learn the window anew with what a job has found."""
        return self._named("take", (job, list(recipes)), request)

    def _named(self, verb: str, arguments: tuple[Any, ...], request: str | None) -> Future[Reply]:
        if request is not None:
            return self.ask(verb, *arguments, request)
        return Unnamed(self.ask(verb, *arguments, request_name()))

    def seen(self, wanted: Wanted | None) -> Future[Seen]:
        """The readings that are wanted, if any, by their times as text."""
        return self.ask("seen", wanted)

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget readings, and all that was stored of the feed before."""
        return self.ask("erase", intent, solve=solve)

    def history(self, asked: Lookback) -> Future[dict[str, Any]]:
        """Readings with the forecasts that were made for them."""
        return self.ask("history", asked)

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast as if known columns were as ``rows`` announce them."""
        return self.ask("what_if", list(rows))

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of every step's models."""
        return self.ask("certificate", solve=solve)

    def events(self) -> Future[list[dict[str, Any]]]:
        """Every event that is kept, oldest first."""
        return self.ask("events")

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed as it is when its turn comes."""
        return self.ask("copy")

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this feed again."""
        return self.ask("write_back")

    def delete(self) -> Future[None]:
        """Remove the feed from the store."""
        return self.ask("delete")

    def ask(self, verb: str, *arguments: Any, solve: Solve | None = None) -> Call:
        """Call the actor."""
        return self._ask(verb, *arguments, spec=self.spec, solve=solve)


class RayFeeds:
    """Knows every feed. Its calls block on the store and on Ray, but for :meth:`get` of known ones."""

    def __init__(self, office: Office, gone: Callable[[str], object]) -> None:
        """``gone`` is called with the stored name of a feed that another has deleted."""
        self._office, self._gone = office, gone
        self._feeds: dict[str, RayFeed] = {}
        self._lock = threading.RLock()
        office.keep(self)

    # What routes ask.

    def get(self, feed: str) -> RayFeed:
        """The feed of that id; raises UnknownFeed or ModelUnavailable."""
        return self.find(feed).serving()

    def find(self, feed: str) -> RayFeed:
        """The feed of that id, which another front end may just have made; raises UnknownFeed."""
        found = self._feeds.get(feed)
        if found is None and self._office.health.store_up:
            with suppress(StoreError):
                stored = self._office.store.model(stored_feed(feed))
                found = None if stored is None else self.learn(stored)
        if found is None:
            raise UnknownFeed(f"there is no feed {feed[:64]!r}")
        return found

    def all(self) -> list[RayFeed]:
        """Every feed, by id."""
        return [feed for _, feed in sorted(self._feeds.items())]

    def states(self) -> list[ServingState]:
        """The state of every feed."""
        return [feed.state for feed in self.all()]

    def samples(self) -> list[FeedSample]:
        """What the metrics show of those that are served."""
        return [feed.sample() for feed in self.all() if feed.served is not None]

    def troubles(self) -> list[str]:
        """Sources that are not read, and why."""
        flows = [(feed, feed.flow) for feed in self.all()]
        return [f"the source of feed {feed.id}: {flow.fault}" for feed, flow in flows if flow and flow.fault]

    def create(self, id: str | None, spec: FeedSpec) -> RayFeed:
        """Have an actor store a new feed and start it; raises FeedExists, TooManyFeeds, OutOfMemory or StoreError."""
        office = self._office
        if spec.source is not None:
            url_of(spec.source, office.settings)
        id = id or f"f-{secrets.token_hex(6)}"
        if len(self._feeds) >= office.settings.max_feeds:
            raise TooManyFeeds(f"there are {office.settings.max_feeds} feeds, the limit")
        with office.health.store_call("load"):
            if office.is_stored(stored_feed(id)):
                raise FeedExists(f"a feed {id} exists")
        made = RayFeed(id, spec, office)
        with self._lock:
            self._feeds[id] = made
        call = made.ask("create", spec)
        try:
            call.result()
        except BaseException as error:
            if not (isinstance(error, FeedExists) and call.tries > 1):  # else it is this one, made before it was lost
                with self._lock:
                    if self._feeds.get(id) is made:
                        del self._feeds[id]
                raise
        return made

    def delete(self, feed: str) -> Future[None]:
        """Have a feed removed with all that is stored of it; whoever asked calls :meth:`forget` when that is done."""
        return self.find(feed).delete()

    def forget(self, feed: str) -> None:
        """Let go of a feed that was deleted."""
        with self._lock:
            self._feeds.pop(feed, None)

    # What the service does by itself.

    def restore(self) -> None:
        """The office has learnt of them with the models."""

    def watch(self) -> None:
        """Actors do that by themselves."""

    def take_over(self) -> None:
        """Actors do that by themselves."""

    def stop(self) -> None:
        """The office leaves the cluster with the models."""

    # What the office asks.

    def by_name(self) -> Mapping[str, RayFeed]:
        """Those that are known, by what they are stored under."""
        return {feed.stored: feed for feed in self.all()}

    def holds(self, stored: str) -> bool:
        """Whether what is stored under this is a feed."""
        return is_feed(stored)

    def learn(self, found: StoredModel) -> RayFeed:
        """A feed that is stored, known from now on."""
        id_ = found.id.removeprefix(FEEDS)
        try:
            spec = FeedSpec.model_validate_json(codec.decode(found.spec)["feed"])
        except (StoreError, ValidationError, KeyError):
            spec = FeedSpec(target="unknown")  # its actor says what is wrong with it
        with self._lock:
            if id_ not in self._feeds:
                self._feeds[id_] = made = RayFeed(id_, spec, self._office)
                self._office.told_of(made)
            return self._feeds[id_]

    def drop(self, stored: str) -> None:
        """A feed that another front end has deleted."""
        with self._lock:
            self._feeds.pop(stored.removeprefix(FEEDS), None)
        self._gone(stored)


def feeds_beside(models: Models) -> RayFeeds:
    """The feeds of the cluster where these models live."""
    assert isinstance(models, RayRegistry)
    return RayFeeds(models.office, models.gone)
