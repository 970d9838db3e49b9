"""The handles of models and feeds that live in actors: what this front end knows of each, and calls to its actor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

import numpy as np

from livesvm.service.errors import ModelUnavailable, Restoring, ServiceError
from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.source_reader import Flow
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import View as Forecasts
from livesvm.service.feeds.state import events_kept
from livesvm.service.hosting import summary
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import UNKNOWN, HostedFeed, glimpse_of
from livesvm.service.hosting.handle import NEWS_SECONDS, Description, Glimpse, Reply, Return
from livesvm.service.hosting.model import HostedModel, described_at_rest
from livesvm.service.hosting.replica import Replica
from livesvm.service.hosting.summary import Summary
from livesvm.service.logs.calls import current
from livesvm.service.models.arrays import Rows
from livesvm.service.models.published import Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.table_rows import TableRows
from livesvm.service.models.types import ServingState
from livesvm.service.ray import commands
from livesvm.service.ray.actors import Owner
from livesvm.service.ray.calls import Call
from livesvm.service.ray.commands import Command
from livesvm.service.ray.messages import RESTING, SERVED, FeedNow, Question, View
from livesvm.service.resources.shared_threads import Steps
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import Indexed

LATELY_SECONDS = 5.0
"""Time after a prediction by a local copy in which answers to updates contain a new copy of the model."""
DECIDED_ROWS = 10_000
"""Largest number of rows sent to an actor; for more, the model's version is fetched and predicts here."""


def is_told(found: Indexed, seen: Summary | None) -> bool:
    """Return whether the index entry of a replica at rest, with its summary, describes the replica completely."""
    return seen is not None and seen.reported is not None and found.described >= found.sequence


class RemoteReplica:
    """A model or a feed that lives in an actor: its last reported view, or its entry in the store's index.

    Parameters
    ----------
    id, stored : its id, and its name in the store
    found : its entry in the index
    context, owner : what all replicas here share, and their collection
    """

    home: type[Any]  #: its class in its actor
    word: str  #: the name of its kind
    gone: type[ServiceError]  #: the error that says that it does not exist

    def __init__(self, id: str, stored: str, found: Indexed, context: Context, owner: Owner) -> None:
        self.id, self.stored = id, stored
        self._settings, self.there = context.settings, owner.actors.at(stored)
        self._heard_at: float | None = None
        self.found_again(found)
        self.learn()

    __str__ = Replica.__str__

    # What is known here.

    @property
    def reported(self) -> View | None:
        """The last reported view; None if the replica is at rest, because the index then describes it."""
        return self.there.view(self.stored)

    @property
    def spec(self) -> Any:
        """The specification with which the replica was created; a placeholder if this process does not know it."""
        reported = self.reported
        return (self._spec if reported is None else reported.spec) or self._unknown()

    def _unknown(self) -> Any:
        raise NotImplementedError

    @property
    def _now(self) -> Any:
        """The replica's state in its actor's last report, or in the index."""
        raise NotImplementedError

    def found_again(self, found: Indexed) -> None:
        """Replace the replica's entry in the index by a newer one."""
        self._found, self._summary = found, summary.read(found.summary)
        self._spec = None if self._summary is None else self.home.parse_spec(self._summary.spec)

    def hear(self, at: float) -> None:
        """Note the monotonic time of an answer from the replica's actor; an answer includes all earlier changes."""
        self._heard_at = at if self._heard_at is None else max(self._heard_at, at)

    def learn(self) -> None:
        """Update the attributes that are derived from the replica's last view."""

    def hold(self, copy: Published) -> None:
        """Keep a version for predictions in this process, unless a newer one is kept."""

    @property
    def age(self) -> float:
        """Seconds since the actor's last report, which may have been that nothing changed."""
        heard = max(self._heard_at or 0.0, self.there.heard_at or 0.0)
        return max(0.0, time.monotonic() - heard)

    @property
    def stale(self) -> bool:
        """Whether the replica may have newer data that this process does not know."""
        reported = self.reported
        unsure = not self._is_known if reported is None else reported.stale
        return unsure or self.there.is_lost or self.age > self._settings.lease_seconds

    @property
    def _is_known(self) -> bool:
        """Whether the index entry describes the replica completely, provided that the replica is at rest."""
        return self.there.heard_at is not None and is_told(self._found, self._summary)

    @property
    def _served(self) -> tuple[ServingState, str | None]:
        """The replica's serving state, and the reason if the replica is not served."""
        if self.there.is_lost:
            return "restoring", "its actor was lost, and is started again"
        if (reported := self.reported) is not None:
            return reported.state, reported.reason
        if self._is_known:
            return "live", None
        return "restoring", "its actor starts" if self.there.heard_at is None else "it is being restored"

    @property
    def state(self) -> ServingState:
        """The replica's serving state."""
        return self._served[0]

    @property
    def reason(self) -> str | None:
        """The reason why the replica is not served, None if it is served."""
        return self._served[1]

    @property
    def is_served(self) -> bool:
        """Whether the replica answers at least requests that only read."""
        return self.state in SERVED

    def serving(self) -> Any:
        """Return the replica itself.

        Raises ModelUnavailable if the actor reports that the replica is not served, unless the replica is just being
        restored.
        """
        reported = self.reported
        if reported is not None and reported.state not in (*SERVED, "restoring"):
            raise ModelUnavailable(f"{self} is not served here: {reported.reason}")
        return self

    @property
    def queue_depth(self) -> int:
        """Number of calls that wait for the replica in its actor."""
        depth: int = self._now.queue_depth
        return depth

    # What is asked where it lives.

    def ask(self, command: Command, solve: Solve | None = None, patience: float | None = None) -> Call:
        """Send a command to the actor; a lost actor has ``patience`` seconds to return, by default the setting's."""
        logged = current()
        seconds = None if solve is None else solve.rest()
        patience = self._settings.ray_seconds if patience is None else patience
        chosen = (None, None) if logged is None else (logged.key, logged.id)
        asked = Question(
            uuid4().hex, self.stored, command.with_name(), seconds, chosen[0], self._gets_copies(command), chosen[1]
        )
        until = time.monotonic() + (patience if seconds is None else min(seconds, patience))
        return Call(self, asked, until, logged).send()

    def _gets_copies(self, command: Command) -> bool:
        """Return whether the answer to a command should contain a copy of the model after the command."""
        return False

    def news(self) -> Call:
        """Return a future that completes when this process knows all changes that the actor has announced."""
        return self.ask(commands.HEAR, patience=NEWS_SECONDS)

    write_back = Command(Replica.write_back, mutates=True)
    delete = commands.DELETE


@dataclass(frozen=True, kw_only=True)
class _Decided(Published):
    """The number of a model's version in its actor, with the decisions that this version made there for some rows."""

    found: Any = None

    def checked(self, spec: ModelSpec, X: Rows | TableRows, limit: int) -> Rows:
        """Return the same number of rows, but without columns, because the actor has checked the rows already."""
        return np.empty((len(X), 0))

    def decide(self, spec: ModelSpec, X: Rows) -> Any:
        """Return the decisions that the actor computed."""
        return self.found


class RemoteModel(RemoteReplica):
    """A model in an actor. Implements :class:`~livesvm.service.hosting.handle.ModelHandle`.

    Invariant: the version of the local copy that predicts is not newer than the last reported version.
    """

    home, word, gone = HostedModel, HostedModel.word, HostedModel.gone

    _held: Published | None = None
    _held_life: tuple[str, int] | None = None
    _held_until = 0.0
    _copied_at = -LATELY_SECONDS

    def _unknown(self) -> ModelSpec:
        return ModelSpec(id=self.id)

    @property
    def recent(self) -> RemoteModel:
        """The handle itself, which asks the actor for recent updates and counts the rows that this process predicts."""
        return self

    def updates(self) -> list[dict[str, Any]]:
        """Return the newest updates, newest first; this waits for the actor, so call it in a thread."""
        found: list[dict[str, Any]] = self.ask(commands.RECENT).result()
        return found

    def note_predicted(self, rows: int) -> None:
        """Count rows that this process has predicted by a copy of the model."""
        self.there.note_predicted(self.stored, rows)

    @property
    def predicted(self) -> int:
        """Number of rows that this process has predicted and not yet reported to the actor."""
        return self.there.predicted(self.stored)

    @property
    def _now(self) -> Description:
        if (reported := self.reported) is not None:
            return cast(Description, reported.now)
        return described_at_rest(self.spec, self._summary, self._settings)

    def describe(self) -> Description:
        """Return the model's description as last reported."""
        now = self._now
        return replace(now, state=self.state, error=self.reason, predicted=now.predicted + self.predicted)

    stamp, sample = HostedModel.stamp, HostedModel.sample

    @property
    def published(self) -> Published:
        """The newest version known to this process, with a predictor if a valid local copy exists."""
        held, now = self._copy, self._now
        return held if held is not None and self._may_use(held, now.version) else now.published(self.spec)

    @property
    def _copy(self) -> Published | None:
        """The local copy for predictions, None if the model was restored or created again since the copy was made."""
        return self._held if self._held_life == self._life else None

    @property
    def _life(self) -> tuple[str, int] | None:
        reported = self.reported
        return None if reported is None else reported.life

    def _may_use(self, held: Published, version: int) -> bool:
        if self._settings.ray_predictions != "snapshot":
            return False
        if held.version == version:
            self._held_until = time.monotonic() + self._settings.ray_stale_seconds
            return True
        return time.monotonic() < self._held_until

    def reading(self, X: Rows | TableRows) -> Steps[Published]:
        """Return the version that predicts rows X (m, d), if necessary with decisions or a copy from the actor."""
        limit = self._settings.max_predict_rows
        if self._settings.ray_predictions == "actor" and len(X) <= DECIDED_ROWS:
            yield (decided := self.ask(commands.DECIDE(X, limit)))
            version, decision, prediction, classes = decided.result()
            found, sizes = (decision, prediction), self.published.sizes
            return _Decided(version=version, sizes=sizes, n_features=X.shape[1], classes=classes, found=found)
        seen, self._copied_at = self.published, time.monotonic()
        is_told = self.reported is not None or self._is_known
        if seen.predictor is not None or (is_told and not self._now.can_predict):
            return seen
        yield (asked := self.ask(commands.PUBLISHED))
        try:
            newest: Published = asked.result()
        except ModelUnavailable:
            if (held := self._copy) is None:
                raise
            return held  # it says that it is stale
        self.hold(newest)
        return newest

    def hold(self, copy: Published) -> None:
        """Predict by this version from now on, unless this process has a newer one."""
        held = self._copy
        if held is None or copy.version > held.version or (copy.version == held.version and copy.calibration):
            self._held, self._held_life = copy, self._life
            self._held_until = time.monotonic() + self._settings.ray_stale_seconds

    def _gets_copies(self, command: Command) -> bool:
        return command.named and time.monotonic() - self._copied_at < LATELY_SECONDS

    update = Command(HostedModel.update, mutates=True, named=True, timed=True, by_line=True)
    restore = Command(HostedModel.restore, mutates=True, named=True, timed=True)
    _swap = Command(HostedModel.swap, mutates=True, named=True, timed=True)
    erase = Command(HostedModel.erase, mutates=True, timed=True)
    checkpoint = Command(HostedModel.checkpoint, mutates=True)
    certificate = Command(HostedModel.certificate, timed=True, by_line=True)
    _calibrated = Command(HostedModel.calibrated, timed=True)
    seen = Command(HostedModel.seen)
    copy = Command(HostedModel.copy)
    examples = Command(HostedModel.examples)

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Replace the model by a retraining's result; raises StoreUnavailable if the result's file cannot be read."""
        asked: Future[Reply] = self._swap(found.carried(), request, solve=solve)
        return asked

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """Return the newest version with its calibration, and keep that version for predictions in this process."""
        call: Future[Published] = self._calibrated(solve=solve)
        call.add_done_callback(self._keep)
        return call

    def _keep(self, call: Future[Published]) -> None:
        if not call.cancelled() and call.exception() is None:
            self.hold(call.result())

    def versions(self) -> dict[str, Any]:
        """Return the versions that can be restored; this waits for the actor, so call it in a thread."""
        found: dict[str, Any] = self.ask(commands.VERSIONS).result()
        return found


class RemoteFeed(RemoteReplica):
    """A feed in an actor. Implements :class:`~livesvm.service.hosting.handle.FeedHandle`.

    Invariant: while the feed is awake, the events in ``_seen`` end with the events that its actor reported last.
    """

    home, word, gone = HostedFeed, HostedFeed.word, HostedFeed.gone

    _seen: Forecasts | None = None

    def _unknown(self) -> FeedSpec:
        return UNKNOWN

    @property
    def _now(self) -> FeedNow:
        reported = self.reported
        return RESTING if reported is None else cast(FeedNow, reported.now)

    def learn(self) -> None:
        """Add the events in the actor's last report to the events that this process knows."""
        seen = self._now.view
        self._seen = None if seen is None else replace(seen, events=self._joined(seen.events))

    def _joined(self, new: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Return the known events and then the new ones, or only the new ones after a gap or an erasure."""
        known = () if self._seen is None else self._seen.events
        behind = [event for event in new if not known or event["id"] > known[-1]["id"]]
        erased = any(event["kind"] == "erased" for event in behind)
        if not known or erased or (new and new[0]["id"] > known[-1]["id"] + 1):
            return tuple(new)
        return (*known, *behind)[-events_kept(self.spec) :]

    @property
    def view(self) -> Forecasts:
        """The feed's forecasts as readers see them; raises Restoring while the feed is at rest."""
        if self._seen is None:
            raise Restoring(f"{self} is not served here: it wakes")
        return self._seen

    @property
    def shown(self) -> Forecasts | None:
        """The feed's forecasts as readers see them; None while the feed is at rest, or not served."""
        return self._seen if self.is_served else None

    def stamp(self) -> object:
        """Return a value that changes whenever the feed's serving state or its forecasts change."""
        return self.state, self._seen, self._now

    @property
    def returned(self) -> Return | None:
        """How the feed was recovered when it last woke."""
        return self._now.returned

    @property
    def flow(self) -> Flow | None:
        """The state of the feed's source; None if the feed has no source, or is at rest."""
        return self._now.flow

    sample = HostedFeed.sample

    @property
    def glimpse(self) -> Glimpse | None:
        """The facts about the feed that are known without waking it."""
        return glimpse_of(self._summary)

    @property
    def progress(self) -> Progress:
        """The feed's position in its source."""
        return self.view.progress

    observe = Command(HostedFeed.observe, mutates=True, named=True, by_line=True)
    take = Command(HostedFeed.take, mutates=True, named=True)
    update = Command(HostedFeed.update, mutates=True, named=True, timed=True)
    pause = Command(HostedFeed.pause, mutates=True)
    erase = Command(HostedFeed.erase, mutates=True, timed=True)
    certificate = Command(HostedFeed.certificate, timed=True, by_line=True)
    seen = Command(HostedFeed.seen)
    history = Command(HostedFeed.history)
    what_if = Command(HostedFeed.what_if)
    events = Command(HostedFeed.events)
    copy = Command(HostedFeed.copy)
