"""The handle of a feed: all that routes, jobs and erasures know of one, wherever it lives and whether it is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from livesvm.service.feeds.calls import Progress
from livesvm.service.feeds.lookback import Lookback
from livesvm.service.feeds.pump import Flow
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, View
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.wanted import Wanted
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.live.handle import Erased, Reply, Return
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample, SourceSample, StepSample
from livesvm.service.resources.turns import Solve


@dataclass(frozen=True)
class FeedCopy:
    """A feed as it was when it was copied, for a job: its specification, its state as bytes, its version."""

    spec: FeedSpec
    data: bytes
    version: int

    def state(self) -> FeedState:
        """A feed of one's own."""
        return FeedState.decode(self.spec, self.data)


class FeedHandle(Protocol):
    """A feed that is served. Futures end with what its writer found out; calls raise QueueFull or ModelUnavailable."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def spec(self) -> FeedSpec:
        """What it was created as."""

    @property
    def memory(self) -> int:
        """What it may take, in bytes."""

    @property
    def state(self) -> ServingState:
        """``live``, or ``fenced`` or ``behind`` when it is read-only."""

    @property
    def stale(self) -> bool:
        """Whether readings are refused now, so that newer ones may be unknown."""

    @property
    def view(self) -> View:
        """The feed as readers see it, after its newest call; of its events at least the newest."""

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""

    @property
    def returned(self) -> Return:
        """How it came back."""

    @property
    def flow(self) -> Flow | None:
        """How its source flows; None if it has none."""

    @property
    def progress(self) -> Progress:
        """How far it has come in its source."""

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Take one call's rows; ``request`` is its Idempotency-Key."""

    def pause(self, paused: bool) -> Future[Reply]:
        """Take nothing more from its source, or go on; raises NoSource."""

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Learn the window anew with what a job has found."""

    def seen(self, wanted: Wanted | None) -> Future[Seen]:
        """The readings that are wanted, if any, by their times as text; raises InvalidInput where there is none."""

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget readings, by their times as text, and all that was stored of the feed before."""

    def history(self, asked: Lookback) -> Future[dict[str, Any]]:
        """Readings with the forecasts that were made for them; the future may raise InvalidInput."""

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast as if known columns were as ``rows`` announce them; the future may raise InvalidInput."""

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of every step's models from the data of the window."""

    def events(self) -> Future[list[dict[str, Any]]]:
        """Every event that is kept, oldest first."""

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed as it is when its turn comes, for a job; no queue is too full for that."""

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this feed again, should it have lost it."""


class AnyFeed(Protocol):
    """A feed that is served or not."""

    @property
    def id(self) -> str:
        """Its name."""

    def news(self) -> Future[None] | None:
        """Ends once all that anybody has been told of the feed is known here; None where that is so already.

        It may raise ModelUnavailable, and UnknownFeed if the feed is gone.
        """

    @property
    def state(self) -> ServingState:
        """How it is."""

    @property
    def served(self) -> FeedHandle | None:
        """The feed itself, if it is served."""

    @property
    def reason(self) -> str | None:
        """Why it is not served."""


class AllFeeds(Protocol):
    """The feeds of one service, by id, wherever they live."""

    def get(self, feed: str) -> FeedHandle:
        """One that is served; raises UnknownFeed or ModelUnavailable."""

    def find(self, feed: str) -> AnyFeed:
        """One, whatever its state; raises UnknownFeed."""

    def all(self) -> Sequence[AnyFeed]:
        """Every feed, by id."""

    def states(self) -> list[ServingState]:
        """The state of every feed."""

    def samples(self) -> list[FeedSample]:
        """What the metrics show of those that are served."""

    def troubles(self) -> list[str]:
        """Sources that are not read, and why."""

    def create(self, id: str | None, spec: FeedSpec) -> FeedHandle:
        """Store a new feed and start it; raises FeedExists, TooManyFeeds, OutOfMemory or StoreError."""

    def delete(self, feed: str) -> Future[None]:
        """Remove a feed and all that is stored of it; whoever asked calls :meth:`forget` when that is done."""

    def forget(self, feed: str) -> None:
        """Let go of a feed that was deleted."""

    def restore(self) -> None:
        """Begin to bring every stored feed back."""

    def watch(self) -> None:
        """Learn whether other writers or losses of the store concern any feed."""

    def take_over(self) -> None:
        """Restore the feeds that other services let go of, forget the deleted ones."""

    def stop(self) -> None:
        """Let go of all."""


def sample_of(feed: FeedHandle) -> FeedSample:
    """What the metrics show of a feed."""
    seen, flow = feed.view, feed.flow
    steps = tuple(_sampled(scores) for scores in seen.recent if scores["n"])
    now = seen.position, feed.queue_depth, seen.updated_at, seen.every, feed.spec.coverage
    source = None
    if flow is not None:
        backlog = None if flow.backlog is None else flow.backlog.entries
        source = SourceSample(flow.fault is None, backlog, feed.progress.refused)
    return FeedSample(feed.id, *now, steps, source)


def _sampled(scores: dict[str, Any]) -> StepSample:
    if "accuracy" in scores:
        naive = max(scores["last_change_accuracy"], scores["majority_accuracy"])
        return StepSample(scores["step"], 1.0 - scores["accuracy"], 1.0 - naive)
    naive = min(scores["last_value_mae"], scores["seasonal_mae"])
    return StepSample(scores["step"], scores["mae"], naive, scores.get("coverage"))
