"""The handles of models and feeds: methods for routes, jobs and erasures, whichever process hosts the model or feed."""

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
from livesvm.solvers.models.change import Change

NEWS_SECONDS = 1.0
"""Seconds for which a description waits for a model's process, or for it to wake; after that the last known is used."""


@dataclass(frozen=True)
class Reply:
    """The bytes of an answer; ``replayed`` says that the request had been answered before."""

    body: bytes
    replayed: bool = False


class OwnName(str):
    """A generated Idempotency-Key for a call to a Ray actor if the client gave none; such a call is never repeated."""


@dataclass(frozen=True)
class Updated:
    """The results of updates of many models, by model id: the bytes of an answer, or the error that refused the update.

    ``replayed`` counts the updates that had been answered before.
    """

    answers: dict[str, bytes]
    errors: dict[str, Exception]
    replayed: int = 0


@dataclass(frozen=True)
class Erased:
    """The result of an erasure in a model or feed: the version after the erasure, and the certificate of its optimum.

    ``requests`` counts the removed answers to earlier requests. A model without examples has no certificate. For a
    model that only jobs train, ``training`` says in words what the erasure did to its last training. If the erasure has
    removed the last training, ``owed`` is the request for a job that retrains the model.
    """

    version: int
    requests: int
    certificate: dict[str, Any] | None
    training: str | None = None
    owed: dict[str, Any] | None = None


@dataclass(frozen=True)
class Return:
    """How a model or feed was recovered when it last woke; see ``history.recovery.Recovered``."""

    snapshot_version: int
    replayed: int
    damaged_snapshots: int
    set_aside: int

    @classmethod
    def of(cls, found: Recovered[Any]) -> Return:
        """Return the figures of a recovery, without the recovered state."""
        return cls(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside)


@dataclass(frozen=True)
class Description(ModelRecord):
    """The present state of a model: its newest version, and how the model is served.

    ``error`` says why the model is not served. ``memory`` is the number of bytes of the budget that the model needs
    after an update. ``awake`` says whether the model's state is in memory. ``predicted`` is the number of rows that the
    model has predicted since it woke.
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
        """Return the described version in the form that readers get, but without a predictor."""
        classes = np.array(list(self.counts)) if self.counts else None
        return Published(**self.fields(), classes=classes, shape=spec.decision_function_shape)


@dataclass(frozen=True)
class FeedCopy:
    """A copy of a feed for a job: the feed's specification, its state as bytes, and its version."""

    spec: FeedSpec
    data: bytes
    version: int

    def state(self) -> FeedState:
        """Decode the bytes, and return the feed's state as a new object."""
        return FeedState.decode(self.spec, self.data)


@dataclass(frozen=True)
class Glimpse:
    """The description of a feed at rest; ``state`` has the same meaning as in the view of an awake feed."""

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
    """A model, or a copy of a model, that can predict."""

    @property
    def id(self) -> str:
        """The model's id."""

    @property
    def spec(self) -> ModelSpec:
        """The model's specification; raises Restoring if the specification has not been read yet."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, because the store may have newer data than this process knows."""

    @property
    def published(self) -> Published:
        """The newest version, for readers."""

    @property
    def age(self) -> float | None:
        """Seconds since this version was last known to be the newest; None if this process always knows the newest."""

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Find the version that predicts rows X, in steps of a generator; a step may wait for the model to wake."""

    @property
    def recent(self) -> Any:
        """The model's newest updates, which may be fetched from another process, and the number of rows the model has
        predicted.

        See :class:`~livesvm.service.hosting.model.Recent`.
        """


class Hosted(Protocol):
    """The handle of a model or a feed, which may be unavailable.

    A returned future has the result or the error of the writer of the model or feed. Methods that return a future raise
    QueueFull or ModelUnavailable.
    """

    @property
    def id(self) -> str:
        """The id of the model or feed."""

    @property
    def stored(self) -> str:
        """The name of the model or feed in the store."""

    @property
    def state(self) -> ServingState:
        """``live`` if fully served, ``fenced`` or ``behind`` if read-only, another state if not served."""

    @property
    def reason(self) -> str | None:
        """The reason why the model or feed is not served; None if it is served."""

    def news(self) -> Future[None] | None:
        """Return a future that ends when this process knows all announced changes; None if it already does.

        The returned future may raise ModelUnavailable, and UnknownModel or UnknownFeed after a deletion.
        """

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Erase examples or readings, whether still in the window or not, and all stored history of the model or feed.

        A repeated call has the same result. After this method, the caller erases the same data in files, and makes the
        store overwrite deleted data.
        """

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of the newest version, or of each step's models, from the data."""

    def write_back(self) -> Future[dict[str, Any]]:
        """Write the model or feed into the store again, if the store has lost any of its data."""


class ModelHandle(Hosted, Reader, Protocol):
    """The handle of a model."""

    def describe(self) -> Description:
        """Return the present state of the model."""

    def update(self, update: Change, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is the update's Idempotency-Key, ``solve`` limits the time of its solve."""

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Restore the contents of an earlier version, which becomes the model's newest version."""

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Replace the model by the result of a retraining, as a new version."""

    def versions(self) -> dict[str, Any]:
        """Return the versions that can be restored; call it from a thread, because it reads the store."""

    def seen(self, keys: Sequence[Key], tags: Sequence[str] = ()) -> Future[Seen]:
        """Return how many of these keys are in the window.

        If the model was last trained on a dataset, also return the hashes that mark the dataset's rows with these keys
        or tags.
        """

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """Return the newest version with its probability calibration; only for models that predict probabilities."""

    def copy(self) -> Future[ModelCopy]:
        """Copy the newest version for a job."""

    def examples(self, wanted: WantedExamples) -> Future[WindowPage]:
        """Return the requested examples from the window of the newest version."""

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot of the feed to the store."""


class FeedHandle(Hosted, Protocol):
    """The handle of a feed."""

    @property
    def spec(self) -> FeedSpec:
        """The feed's specification."""

    @property
    def stale(self) -> bool:
        """Whether changes are refused now, because the store may have newer data than this process knows."""

    @property
    def view(self) -> View:
        """The feed as readers see it after its newest call, with at least the newest event.

        Raises Restoring while the feed is at rest.
        """

    @property
    def shown(self) -> View | None:
        """The feed as readers see it; None while the feed is at rest or unavailable."""

    @property
    def glimpse(self) -> Glimpse | None:
        """The description of the feed at rest, readable without waking the feed; None if no description is stored."""

    @property
    def queue_depth(self) -> int:
        """The number of calls that wait for the feed's writer."""

    @property
    def returned(self) -> Return | None:
        """How the feed was recovered when it last woke."""

    @property
    def flow(self) -> Flow | None:
        """The state of the thread that reads the feed's source; None if the feed has no source."""

    @property
    def progress(self) -> Progress:
        """How far the feed has read its source."""

    def observe(self, rows: Sequence[Mapping[str, Any]], request: str | None) -> Future[Reply]:
        """Add the rows of one call to the feed; ``request`` is the call's Idempotency-Key."""

    def pause(self, paused: bool) -> Future[Reply]:
        """Pause or resume the reading of the feed's source; raises NoSource."""

    def take(self, job: str, recipes: Sequence[Recipe], request: str | None) -> Future[Reply]:
        """Train the feed's models again on the window, with the settings that a job has found."""

    def update(self, changes: Sequence[StepUpdate], request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Remove examples from the models of the given forecasting steps, or change the parameter C of these models."""

    def seen(self, wanted: WantedReadings | None) -> Future[Seen]:
        """Return the times of the requested readings, as text; raises InvalidInput if a reading is missing."""

    def history(self, asked: PastForecastsQuery) -> Future[dict[str, Any]]:
        """Return past readings, each with the forecasts that were made for it.

        The returned future raises InvalidInput for an unknown step.
        """

    def what_if(self, rows: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Forecast with ``rows`` as the coming values of columns known in advance.

        The returned future raises InvalidInput for an invalid row.
        """

    def events(self) -> Future[list[dict[str, Any]]]:
        """Return all events that the feed still keeps, oldest first."""

    def copy(self) -> Future[FeedCopy]:
        """Copy the feed for a job; even a full mailbox accepts this call."""


def sample_of(feed: FeedHandle, seen: View | Glimpse | None) -> FeedSample | None:
    """Return a feed's metrics sample, made from its view or its description at rest; None if the feed has neither."""
    if seen is None:
        return None
    now = seen.position, feed.queue_depth, seen.updated_at, seen.every, feed.spec.coverage
    flow, source = feed.flow, None
    if flow is not None and isinstance(seen, View):
        source = flow.sample(seen.progress.refused)
    return FeedSample(feed.id, *now, seen.steps, source)
