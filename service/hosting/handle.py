"""The handles of models and feeds: all that routes, jobs and erasures know of one, wherever it lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.forecaster import StepUpdate
from livesvm.service.feeds.past_forecasts import PastForecastsQuery
from livesvm.service.feeds.source_reader import Flow
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState, View
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.wanted import WantedReadings
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.history.recovery import Recovered
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Update
from livesvm.service.models.examples import WantedExamples, WindowPage
from livesvm.service.models.published import ModelRecord, Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.table_rows import TableRows
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.feeds import FeedSample, StepSample
from livesvm.service.resources.shared_threads import Steps
from livesvm.service.resources.solve_scheduler import Solve

NEWS_SECONDS = 1.0
"""For which a description waits for where a model lives, or for it to wake; after that, it is as last heard of."""


@dataclass(frozen=True)
class Reply:
    """The bytes of an answer; ``replayed`` if the request had been answered before."""

    body: bytes
    replayed: bool = False


class OwnName(str):
    """The name of a request without an Idempotency-Key on its way to an actor: its caller never sends it again."""


@dataclass(frozen=True)
class Updated:
    """What came of updates of many models, by id: the bytes of an answer, or the error that refused it.

    ``replayed`` is how many had been answered before.
    """

    answers: dict[str, bytes]
    errors: dict[str, Exception]
    replayed: int = 0


@dataclass(frozen=True)
class Erased:
    """An erasure that the model and its history have behind them, and the certificate of the optimum that is left.

    ``requests`` is how many were forgotten; there is no certificate of a model without examples. Of a model
    that is only trained by jobs ``training`` says what became of its last training; ``owed`` is what a job has to be
    asked for where it has none any more.
    """

    version: int
    requests: int
    certificate: dict[str, Any] | None
    training: str | None = None
    owed: dict[str, Any] | None = None


@dataclass(frozen=True)
class Return:
    """How a replica came back when it woke last; see ``history.recovery.Recovered``."""

    snapshot_version: int
    replayed: int
    damaged_snapshots: int
    set_aside: int

    @classmethod
    def of(cls, found: Recovered[Any]) -> Return:
        """Return the same of what was found."""
        return cls(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside)


@dataclass(frozen=True)
class Description(ModelRecord):
    """A model as it is now: its newest version, and how it is served; ``error`` is why it is not.

    ``memory`` is what it needs of the budget once an update has been made, in bytes; ``awake`` is whether its state is
    in memory; ``predicted`` counts the rows that it has predicted since it came back.
    """

    state: ServingState
    id: str = ""
    awake: bool = True
    queue_depth: int = 0
    memory: int = 0
    cache_mb: int = 0
    predicted: int = 0
    returned: Return | None = None
    error: str | None = None

    def published(self, spec: ModelSpec) -> Published:
        """Return the version as readers see it, without what it decides by."""
        classes = np.array(list(self.counts)) if self.counts else None
        return Published(**self.record(), classes=classes, shape=spec.decision_function_shape)


@dataclass(frozen=True)
class FeedCopy:
    """A feed as it was when it was copied, for a job: its specification, its state as bytes, its version."""

    spec: FeedSpec
    data: bytes
    version: int

    def state(self) -> FeedState:
        """Return a feed of one's own."""
        return FeedState.decode(self.spec, self.data)


@dataclass(frozen=True)
class Glimpse:
    """What is reported of a feed while it is at rest; ``state`` is as in its view."""

    state: str
    version: int
    position: int
    rows: int
    time: str | float | None
    every: float | None
    updated_at: float | None
    steps: tuple[StepSample, ...] = ()
    forecasts: list[dict[str, Any]] | None = None  #: None where they are too many, or not known before


class Reader(Protocol):
    """What predicts: a model, or a copy of it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def spec(self) -> ModelSpec:
        """What it was created as; raises Restoring where that is not known yet."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, so that newer data may be unknown."""

    @property
    def published(self) -> Published:
        """The newest version, for readers."""

    @property
    def age(self) -> float | None:
        """Seconds since it was last known here that there is nothing newer; None where that is always known."""

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Return the version that decides rows X (m, d); the step may wake the model, or wait until it is asked for."""

    @property
    def recent(self) -> Any:
        """What its newest updates did, which may have to be asked for, and how many rows it has predicted.

        See :class:`~livesvm.service.hosting.model.Recent`.
        """


class Hosted(Protocol):
    """A model or a feed, whether it is served or not.

    Futures end with what its writer found out; calls raise QueueFull or ModelUnavailable.
    """

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def stored(self) -> str:
        """The name that it is stored under."""

    @property
    def state(self) -> ServingState:
        """``live``; ``fenced`` or ``behind`` when it is read-only; or why it is not served."""

    @property
    def reason(self) -> str | None:
        """Why it is not served."""

    def news(self) -> Future[None] | None:
        """Return a future that ends once all announced changes are known here; None where they are.

        It may raise ModelUnavailable, and UnknownModel or UnknownFeed if it is gone.
        """

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget examples or readings, in the window or before it, and all that was stored of the replica before.

        Done again, it ends where it would have. What is left to do then, of files and of the store as a whole, is for
        whoever asked.
        """

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute from the data the certificate of the version, or of every step's, that is newest at its turn."""

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold it again, should it have lost it."""


class ModelHandle(Hosted, Reader, Protocol):
    """A model."""

    def describe(self) -> Description:
        """Return the model as it is now."""

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is its Idempotency-Key, ``solve`` how long it may take."""

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Go back to a kept version, as a new one."""

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Put what a retraining has found in place of the model, as a new version."""

    def versions(self) -> dict[str, Any]:
        """Return which versions can be had; asks the store, so it belongs in a thread."""

    def seen(self, keys: Sequence[Key], tags: Sequence[str] = ()) -> Future[Seen]:
        """Return how many of these keys the window holds, in the version that is newest when its turn comes.

        Also the rows of a dataset, with one of the keys or tags as their key, that its last training has.
        """

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """Return the newest version with what its decisions become as probabilities; of a model that has them."""

    def copy(self) -> Future[ModelCopy]:
        """Copy the version that is newest when its turn comes, for a job."""

    def examples(self, wanted: WantedExamples) -> Future[WindowPage]:
        """Return some of the examples of the version that is newest when its turn comes."""

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""


class FeedHandle(Hosted, Protocol):
    """A feed."""

    @property
    def spec(self) -> FeedSpec:
        """What it was created as."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, so that newer data may be unknown."""

    @property
    def view(self) -> View:
        """The feed as readers see it, after its newest call; of its events at least the newest.

        Raises Restoring while it is at rest.
        """

    @property
    def shown(self) -> View | None:
        """The feed as readers see it; None while it is at rest, or not served."""

    @property
    def glimpse(self) -> Glimpse | None:
        """What is known of it without waking it; None if nothing is."""

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""

    @property
    def returned(self) -> Return | None:
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
        """Learn the window again with what a job has found."""

    def update(self, changes: Sequence[StepUpdate], request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Have the models of some steps hold fewer examples, or another C."""

    def seen(self, wanted: WantedReadings | None) -> Future[Seen]:
        """Return the wanted readings by their times as text; raises InvalidInput where one is missing."""

    def history(self, asked: PastForecastsQuery) -> Future[dict[str, Any]]:
        """Return readings with the forecasts that were made for them; the future may raise InvalidInput."""

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast as if known columns were as ``rows`` announce them; the future may raise InvalidInput."""

    def events(self) -> Future[list[dict[str, Any]]]:
        """Return every event that is kept, oldest first."""

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed as it is when its turn comes, for a job; no queue is too full for that."""


def sample_of(feed: FeedHandle, seen: View | Glimpse | None) -> FeedSample | None:
    """Return what the metrics show of a feed by its view, or by what is known of it at rest; None where nothing is."""
    if seen is None:
        return None
    now = seen.position, feed.queue_depth, seen.updated_at, seen.every, feed.spec.coverage
    flow, source = feed.flow, None
    if flow is not None and isinstance(seen, View):
        source = flow.sample(seen.progress.refused)
    return FeedSample(feed.id, *now, seen.steps, source)
