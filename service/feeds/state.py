"""The state of a feed between two calls: forecaster, counters and newest events; conversion to bytes and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from livesvm.service.feeds import presenter, snapshot
from livesvm.service.feeds.commands import FeedCall, Progress
from livesvm.service.feeds.forecaster import FeedOutcome, Forecaster
from livesvm.service.feeds.forecasts import Forecast
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.sources.base import DeadLetter
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.timeline import Plan
from livesvm.service.monitoring.feeds import StepSample
from livesvm.service.store import codec
from livesvm.service.store.base import Durability

Document = dict[str, Any]
EVENT_FORECASTS = 10_000
"""Forecasts in all events that are kept."""
LEAST_EVENTS = 20
COUNTED = 8
"""Rows after which the memory of a cool feed is counted again: so few hardly change it."""
EVENT_BYTES = 250
"""Of an event, and of each forecast in it, about."""
ANNOUNCED = 10
"""Events but for readings that a view has at hand."""


@dataclass
class FeedState:
    """The state of a feed after all records of its log.

    ``position`` counts accepted readings; ``rows`` counts all rows, also ignored ones and announcements; ``version``
    counts calls that had an effect. Events are numbered; a replay of the log gives every event the same number again.
    """

    spec: FeedSpec
    forecaster: Forecaster
    sequence: int = 0
    version: int = 0
    position: int = 0
    rows: int = 0
    updated_at: float | None = None
    numbered: int = 0  #: of the newest event
    events: deque[Document] = field(default_factory=deque)
    progress: Progress = field(default_factory=Progress)  #: in its source
    announced: deque[Document] = field(init=False)  #: the newest of the events that tell of no reading
    _cool_bytes: int = field(init=False, default=0)  #: held while cool, as counted at ``_counted``
    _counted: tuple[int, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Collect the newest events that are not about readings, in ``announced``."""
        self.announced = deque((one for one in self.events if one["kind"] != "readings"), maxlen=ANNOUNCED)

    @classmethod
    def empty(cls, spec: FeedSpec) -> FeedState:
        """Return the state of a feed before its first call."""
        return cls(spec, Forecaster(spec), events=deque(maxlen=events_kept(spec)))

    def skip(self) -> None:
        """Count an aborted record of the log, without any effect."""
        self.sequence += 1

    def apply(self, call: FeedCall, plan: Plan | None = None) -> Document:
        """Apply a call, and return the report on its effect. Raises SolverError or NotSolved, and breaks the feed."""
        outcome = call.apply(self.forecaster, plan)
        self.sequence += 1
        self.version += 1
        self.position += outcome.accepted
        rows = outcome.accepted + outcome.ignored + outcome.announced
        self.rows += rows
        if rows:
            self.updated_at = call.at
        before, self.progress = self.progress, call.after(self.progress)
        return self._told(outcome, self.progress.refused - before.refused)

    def names(self) -> dict[str, float]:
        """Return the times of all readings in the window, also of missing ones, by the texts that answers show."""
        timeline = self.forecaster.timeline
        times = [*timeline.past, *(time for time, _ in timeline.waiting)]
        times += [] if timeline.open is None else [timeline.open.time]
        return {str(presenter.time_of(timeline, time)): time for time in times}

    def readings(self) -> dict[str, float]:
        """Return the times of readings with a value in any column, by the texts that answers show."""
        past = self.forecaster.timeline.past
        return {
            name: time
            for name, time in self.names().items()
            if time not in past or any(value is not None for value in past[time].given)
        }

    def forget(self, times: Collection[float], *, beyond: bool) -> None:
        """Erase readings, and count a new version; see :mod:`~livesvm.service.feeds.forget`.

        Events with forecasts are removed. If there is nothing to erase, the state does not change. After SolverError
        the feed is unusable.
        """
        count = forget(self.forecaster, times, beyond=beyond)
        if count is None:
            return
        self.sequence += 1
        self.version += 1
        self.events = deque((one for one in self.events if one["kind"] != "readings"), maxlen=self.events.maxlen)
        self.progress = self.progress._replace(recent=())  # which would tell by its digest what a message was
        self._announce({"kind": "erased", "readings": count, "position": self.position})

    def _told(self, outcome: FeedOutcome, refused: int) -> Document:
        feed = self.forecaster
        timeline = feed.timeline
        forecasts = presenter.forecasts(timeline, outcome.forecasts)
        now = {"position": self.position, "time": presenter.time_of(timeline, timeline.time), "state": feed.state}
        events = [
            {"kind": event.kind, "time": presenter.time_of(timeline, event.time), **event.detail}
            for event in outcome.events
        ]
        if refused:
            events.append({"kind": "dead-letters", "entries": refused, **_first(self.progress.dead)})
        counts = {name: getattr(outcome, name) for name in ("accepted", "ignored", "corrected", "announced")}
        for event in events:
            self._announce(event | {"position": self.position})
        self._announce({"kind": "readings", **counts, **now, "forecasts": forecasts})
        return {**counts, **now, "forecasts": forecasts, "scored": len(outcome.scored), "events": events}

    def _announce(self, event: Document) -> None:
        self.numbered += 1
        numbered = {"id": self.numbered, **event}
        if self.announced and len(self.events) == self.events.maxlen and self.events[0] is self.announced[0]:
            self.announced.popleft()
        self.events.append(numbered)
        if event["kind"] != "readings":
            self.announced.append(numbered)

    def cool(self) -> int:
        """Free the memory of everything that the next call can restore; the answers of the feed do not change.

        Returns the bytes that are still held, which are counted again every ``COUNTED`` rows, and with new models.
        """
        self.forecaster.cool()
        now = self.rows // COUNTED, len(self.forecaster.models)
        if self._counted != now:
            self._counted, self._cool_bytes = now, self.held_bytes
        return self._cool_bytes

    def stay_cool(self) -> None:
        """Free memory again after a small update if the feed was in compact form; see :meth:`cool`."""
        if self.forecaster.is_cool:
            self.cool()

    @property
    def hot_bytes(self) -> int:
        """The memory in bytes that :meth:`cool` would free; 0 right after it."""
        return self.forecaster.hot_bytes

    @property
    def held_bytes(self) -> int:
        """The memory of the feed's arrays, readings and events in bytes, before :meth:`cool` frees some of it."""
        return self.forecaster.held_bytes + len(self.events) * EVENT_BYTES * (1 + len(self.spec.horizons))

    def encode(self) -> bytes:
        """Return the state as bytes for a snapshot."""
        names = ("sequence", "version", "position", "rows", "updated_at", "numbered")
        document = {name: getattr(self, name) for name in names}
        arrays = snapshot.to_arrays(self.forecaster)
        taken, dead, refused, paused, recent = self.progress
        progress = [taken, [list(letter) for letter in dead], refused, paused, [list(position) for position in recent]]
        return codec.encode({**document, "events": list(self.events), "progress": progress, "feed": arrays})

    @classmethod
    def decode(cls, spec: FeedSpec, data: bytes) -> FeedState:
        """Return the state in the bytes of a snapshot; raises StoreDamaged, StoreTooNew or NotOptimal."""
        document = codec.decode(data)
        forecaster = snapshot.from_arrays(spec, document.pop("feed"))
        document["events"] = deque(document["events"], maxlen=events_kept(spec))
        document["progress"] = Progress.decode(document["progress"])
        return cls(spec, forecaster, **document)


def _first(dead: Sequence[DeadLetter]) -> Document:
    """Return the fields that describe the first of some dead letters, for an event."""
    first = dead[0]
    return {"entry": "-".join(map(str, first.position)), "field": first.field, "reason": first.reason}


def events_kept(spec: FeedSpec) -> int:
    """Return how many events a feed keeps."""
    return max(LEAST_EVENTS, min(spec.events, EVENT_FORECASTS // len(spec.horizons)))


def answer(done: Document, durability: Durability) -> bytes:
    """Return the report on a call as JSON: the answer that is sent, and stored in case the request is repeated."""
    return to_json({**done, "durability": durability.value}, inf_nan_mode="null")


@dataclass(frozen=True)
class View:
    """The state of a feed after one call, for readers; it never changes."""

    version: int
    position: int
    rows: int
    state: str
    time: str | float | None
    every: float | None  #: seconds between readings
    updated_at: float | None
    numbered: int
    forecasts: list[Document]
    scored: presenter.Scores
    settings: Document
    events: Sequence[Document] = field(repr=False)
    progress: Progress
    announced: Sequence[Document] = field(repr=False)  #: the newest events but for readings
    latest: Sequence[Forecast] = field(repr=False, default=())  #: the forecasts, with experts
    filling: Document | None = None  #: while the window fills: how far it is, and which forecasts come when

    @property
    def explained(self) -> list[Document]:
        """The forecasts, with each expert's forecast and weight."""
        return presenter.with_experts(self.forecasts, self.latest)

    @property
    def scores(self) -> list[Document]:
        """The scores of each step over all forecasts."""
        return self.scored.overall

    @property
    def recent(self) -> list[Document]:
        """The scores of each step over the newest window."""
        return self.scored.lately

    @property
    def steps(self) -> tuple[StepSample, ...]:
        """The values for the metrics of each step."""
        return tuple(_sampled(scores) for scores in self.recent if scores["n"])

    @classmethod
    def of(cls, state: FeedState, before: View | None = None, forecasts: list[Document] | None = None) -> View:
        """Return the view of a feed's present state; its settings are copied from the view ``before``, if given.

        ``forecasts`` are the newest forecasts as JSON values, if the caller has them already.
        """
        feed, timeline = state.forecaster, state.forecaster.timeline
        return cls(
            state.version,
            state.position,
            state.rows,
            feed.state,
            presenter.time_of(timeline, timeline.time),
            None if feed.spec.time is None or timeline.every is None else timeline.every.approximate_seconds(),
            state.updated_at,
            state.numbered,
            presenter.forecasts(timeline, feed.latest) if forecasts is None else forecasts,
            presenter.Scores(feed),
            presenter.settings(feed) if before is None else before.settings,
            tuple(state.events),
            state.progress,
            tuple(state.announced),
            tuple(feed.latest),
            presenter.filling(feed),
        )


def _sampled(scores: Document) -> StepSample:
    if "accuracy" in scores:
        naive = max(scores["last_change_accuracy"], scores["majority_accuracy"])
        return StepSample(scores["step"], 1.0 - scores["accuracy"], 1.0 - naive, None, scores["drift_evidence"])
    naive = min(scores["last_value_mae"], scores["seasonal_mae"])
    band, evidence = scores.get("coverage"), scores["drift_evidence"]
    return StepSample(scores["step"], scores["mae"], naive, band, evidence, scores["model_weight"])
