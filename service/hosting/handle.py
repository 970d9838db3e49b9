"""The handles of models and feeds: what routes, jobs and erasures can call, in whichever process the replica is."""

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
"""Seconds for which a description waits for a model's process, or for it to wake; after that the last known is used."""


@dataclass(frozen=True)
class Reply:
    """The bytes of an answer; ``replayed`` if the request had been answered before."""

    body: bytes
    replayed: bool = False


class OwnName(str):
    """A generated name, for a call to an actor without an Idempotency-Key; the caller never repeats such a call."""


@dataclass(frozen=True)
class Updated:
    """The results of updates of many models, by id: the bytes of an answer, or the error that refused the update.

    ``replayed`` counts the updates that had been answered before.
    """

    answers: dict[str, bytes]
    errors: dict[str, Exception]
    replayed: int = 0


@dataclass(frozen=True)
class Erased:
    """The result of an erasure in a model or feed: the version after it, and the certificate of its optimum.

    ``requests`` counts the requests that were forgotten; a model without examples has no certificate. For a model that
    only jobs train, ``training`` says in words what the erasure did to its last training, and ``owed`` is the request
    for a job that must retrain it, if the training was removed.
    """

    version: int
    requests: int
    certificate: dict[str, Any] | None
    training: str | None = None
    owed: dict[str, Any] | None = None


@dataclass(frozen=True)
class Return:
    """How a replica was recovered when it last woke; see ``history.recovery.Recovered``."""

    snapshot_version: int
    replayed: int
    damaged_snapshots: int
    set_aside: int

    @classmethod
    def of(cls, found: Recovered[Any]) -> Return:
        """Return the numbers of a recovery without its state."""
        return cls(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside)


@dataclass(frozen=True)
class Description(ModelRecord):
    """The present state of a model: its newest version, and how it is served; ``error``: why it is not served.

    ``memory``: the bytes of the budget that the model needs after an update; ``awake``: whether its state is in memory;
    ``predicted`` counts the rows that it has predicted since it woke.
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
        """Return the version as readers see it, without its predictor."""
        classes = np.array(list(self.counts)) if self.counts else None
        return Published(**self.fields(), classes=classes, shape=spec.decision_function_shape)


@dataclass(frozen=True)
class FeedCopy:
    """A copy of a feed for a job: its specification, its state as bytes, its version."""

    spec: FeedSpec
    data: bytes
    version: int

    def state(self) -> FeedState:
        """Return a new state, decoded from the bytes."""
        return FeedState.decode(self.spec, self.data)


@dataclass(frozen=True)
class Glimpse:
    """The description of a feed at rest; ``state`` is as in its view."""

    state: str
    version: int
    position: int
    rows: int
    time: str | float | None
    every: float | None
    updated_at: float | None
    steps: tuple[StepSample, ...] = ()
    forecasts: list[dict[str, Any]] | None = None  #: None if they are too many, or not known


class Reader(Protocol):
    """A model that predicts, or a copy of one."""

    @property
    def id(self) -> str:
        """The model's id."""

    @property
    def spec(self) -> ModelSpec:
        """The model's specification; raises Restoring if it is not known yet."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, so that newer data may be unknown."""

    @property
    def published(self) -> Published:
        """The newest version, for readers."""

    @property
    def age(self) -> float | None:
        """Seconds since this version was last known to be the newest; None if that is always known."""

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Return, in steps, the version that predicts rows X; a step may wake the model, or wait for its process."""

    @property
    def recent(self) -> Any:
        """The model's newest updates, perhaps fetched from its process, and the number of rows that it has predicted.

        See :class:`~livesvm.service.hosting.model.Recent`.
        """


class Hosted(Protocol):
    """A model or a feed, whether it is served or not.

    Futures end with the result or error of the replica's writer; calls raise QueueFull or ModelUnavailable.
    """

    @property
    def id(self) -> str:
        """The replica's id."""

    @property
    def stored(self) -> str:
        """The name under which the replica is stored."""

    @property
    def state(self) -> ServingState:
        """``live``; ``fenced`` or ``behind`` if the replica is read-only; another state if it is not served."""

    @property
    def reason(self) -> str | None:
        """Why the replica is not served, None if it is."""

    def news(self) -> Future[None] | None:
        """Return a future that ends once this process knows all announced changes; None if it knows them already.

        The future may raise ModelUnavailable, and UnknownModel or UnknownFeed if the replica is gone.
        """

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Erase examples or readings, in the window or before it, and everything stored of the replica's past.

        A repeated call has the same result. The caller then erases in files and wipes the store.
        """

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of the newest version, or of each step's models, from the data."""

    def write_back(self) -> Future[dict[str, Any]]:
        """Write the replica back into the store, if the store has lost it or part of it."""


class ModelHandle(Hosted, Reader, Protocol):
    """The handle of a model."""

    def describe(self) -> Description:
        """Return the present state of the model."""

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is its Idempotency-Key, ``solve`` how long it may take."""

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Restore the contents of a kept version as a new version."""

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Replace the model by the result of a retraining, as a new version."""

    def versions(self) -> dict[str, Any]:
        """Return the versions that can be restored; call it from a thread, as it reads the store."""

    def seen(self, keys: Sequence[Key], tags: Sequence[str] = ()) -> Future[Seen]:
        """Return how many of these keys the window holds when the call runs.

        The result also has the marks of dataset rows with these keys or tags that the model was last trained on.
        """

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """Return the newest version with its calibration to probabilities, for a model that has probabilities."""

    def copy(self) -> Future[ModelCopy]:
        """Copy the newest version for a job, when the call runs."""

    def examples(self, wanted: WantedExamples) -> Future[WindowPage]:
        """Return some of the newest version's examples, when the call runs."""

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""


class FeedHandle(Hosted, Protocol):
    """The handle of a feed."""

    @property
    def spec(self) -> FeedSpec:
        """The feed's specification."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, so that newer data may be unknown."""

    @property
    def view(self) -> View:
        """The feed as readers see it after its newest call, with at least the newest event.

        Raises Restoring while it is at rest.
        """

    @property
    def shown(self) -> View | None:
        """The feed as readers see it; None while it is at rest, or not served."""

    @property
    def glimpse(self) -> Glimpse | None:
        """The description of the feed at rest, which can be read without waking it; None if there is none."""

    @property
    def queue_depth(self) -> int:
        """Calls that wait for the writer."""

    @property
    def returned(self) -> Return | None:
        """How the feed was recovered when it last woke."""

    @property
    def flow(self) -> Flow | None:
        """The state of the reading of the feed's source; None if it has none."""

    @property
    def progress(self) -> Progress:
        """The feed's progress in its source."""

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Add the rows of one call to the feed; ``request`` is the call's Idempotency-Key."""

    def pause(self, paused: bool) -> Future[Reply]:
        """Stop reading the feed's source, or go on; raises NoSource."""

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Learn the window again with the settings that a job has found."""

    def update(self, changes: Sequence[StepUpdate], request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Remove examples from the models of some steps, or change the C of these models."""

    def seen(self, wanted: WantedReadings | None) -> Future[Seen]:
        """Return the times of the wanted readings, as text; raises InvalidInput if a reading is missing."""

    def history(self, asked: PastForecastsQuery) -> Future[dict[str, Any]]:
        """Return readings with the forecasts that were made for them; the future may raise InvalidInput."""

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast with the values of known columns that ``rows`` announce; the future may raise InvalidInput."""

    def events(self) -> Future[list[dict[str, Any]]]:
        """Return every event that is kept, oldest first."""

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed for a job, when the call runs; a full queue accepts this call too."""


def sample_of(feed: FeedHandle, seen: View | Glimpse | None) -> FeedSample | None:
    """Return the sample of a feed for the metrics, from its view or its description at rest; None if it has neither."""
    if seen is None:
        return None
    now = seen.position, feed.queue_depth, seen.updated_at, seen.every, feed.spec.coverage
    flow, source = feed.flow, None
    if flow is not None and isinstance(seen, View):
        source = flow.sample(seen.progress.refused)
    return FeedSample(feed.id, *now, seen.steps, source)
