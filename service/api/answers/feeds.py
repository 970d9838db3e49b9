"""Schemas of answers about feeds: effects of new readings, forecasts, past readings, and certificates."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Approximation
from livesvm.service.api.answers.models import Recovery
from livesvm.service.feeds.blend import Expert
from livesvm.service.feeds.forecasts import Served


class ForecastTold(BaseModel):
    """The forecast of one future reading; its time has the same form as the times of the feed's readings."""

    step: int
    time: str | float | None
    value: float = Field(description="For a feed of directions, the decision value, which is positive for up.")
    low: float | None = None
    high: float | None = None
    direction: Literal["up", "down"] | None = None
    served: Served | None = Field(
        default=None,
        description="`blend`: of the model with naive forecasts and a linear model. Naive values are served "
        "before there are models. Of series that are half 0, `zero` is served until others were clearly better.",
    )
    known: Literal["announced", "held"] | None = Field(
        default=None, description="Whether the known columns of its time were announced, or hold their last values."
    )


class ObservationAnswer(BaseModel):
    """The effect of a call that sent readings, and the forecasts after the newest reading."""

    accepted: int = Field(description="Readings that were taken; announcements are not among them.")
    ignored: int = Field(description="Rows that the feed knew already, or leaves out.")
    corrected: int
    announced: int = Field(default=0, description="Rows without the target: known columns of future times.")
    position: int = Field(description="Readings that were accepted so far.")
    time: str | float | None = Field(description="Of the newest reading.")
    state: Literal["filling", "live"] = Field(description="`filling` until the window is first full.")
    forecasts: list[ForecastTold]
    scored: int = Field(description="Forecasts that these readings were compared with.")
    events: list[dict[str, Any]] = Field(
        description="What the feed announced: live, suspected, shifted, rescaled, drift, chosen, updated, known."
    )
    durability: Literal["fsynced", "logged", "memory"]


class ExpertTold(BaseModel):
    """The forecast of one expert, and the weight of this forecast in the blend of all experts."""

    expert: Expert
    value: float
    weight: float


class ExplainedForecast(ForecastTold):
    """A forecast, and the experts' forecasts that are blended into it."""

    experts: list[ExpertTold] = Field(default_factory=list, description="None where the model alone is served.")


class ForecastAnswer(BaseModel):
    """The newest forecasts of a feed, made from all of its readings so far."""

    position: int
    time: str | float | None
    state: Literal["filling", "live"]
    forecasts: list[ExplainedForecast]
    stale: bool = Field(description="True when readings are refused now, so that newer ones may be unknown.")


class WhatIfAnswer(BaseModel):
    """The forecasts that would follow from the values of known columns in the call."""

    time: str | float | None
    forecasts: list[ExplainedForecast]


class FeedSource(BaseModel):
    """The stream or broker from which a feed takes its readings, without credentials, and its state."""

    kind: Literal["redis-stream", "mqtt"]
    connection: str
    stream: str | None = Field(default=None, description="Of a Redis Stream.")
    group: str | None = Field(default=None, description="Of a Redis Stream.")
    topic: str | None = Field(default=None, description="Of a broker.")
    client_id: str | None = Field(default=None, description="Of a broker: the id under which it keeps the session.")
    dead_letters: str
    state: Literal["reading", "paused", "failing"]
    fault: str | None = Field(default=None, description="Why it is not read; it is tried again after 1 to 10 seconds.")
    taken: str | None = Field(default=None, description="The newest entry that was applied or refused.")
    newest_at: datetime | None = Field(default=None, description="When the newest entries came.")
    backlog: int | None = Field(
        default=None,
        description="Entries that wait, or for a broker, entries in flight; null while the number is not known.",
    )
    backlog_at_least: bool = Field(default=False, description="Whether more may wait than were counted.")
    refused: int = Field(default=0, description="Entries that went to the dead letters.")


class ComingForecasts(BaseModel):
    """The forecasts that a feed begins to make when its window has this number of readings."""

    readings: int
    forecasts: str


class Filling(BaseModel):
    """The number of readings in a window that is not full yet, and the forecasts that begin with later readings."""

    readings: int
    window: int
    coming: list[ComingForecasts]


class FeedDescription(BaseModel):
    """The present state of a feed."""

    id: str
    state: Literal["filling", "live", "restoring", "failed", "held", "fenced", "behind"] = Field(
        description="`filling` until the window is first full; else as of models."
    )
    awake: bool = Field(
        default=True, description="Whether its state is in memory; a list shows one at rest without its scores."
    )
    version: int = Field(default=0, description="Calls that had an effect.")
    position: int = Field(default=0, description="Readings that were accepted so far.")
    rows: int = Field(default=0, description="Rows that were read, including ignored and announced ones.")
    time: str | float | None = Field(default=None, description="Of the newest reading.")
    every: str | None = None
    season: int | None = Field(default=None, description="In readings; 0: there is none.")
    settings: dict[str, Any] | None = Field(
        default=None, description="All of them, with what was `chosen` and `tried`."
    )
    scores: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Of each step, over all readings. `assumes` says what forecasts knew of known columns: `perfect`: "
        "announced, and as it came; `announced`: otherwise; `held`: nothing; `mixed`.",
    )
    recent: list[dict[str, Any]] = Field(
        default_factory=list, description="The same over the newest window, with the evidence of the test for drift."
    )
    filling: Filling | None = Field(default=None, description="Null once the window was full.")
    events: list[dict[str, Any]] = Field(default_factory=list, description="The newest events.")
    source: FeedSource | None = None
    durability: Literal["fsynced", "logged", "memory"] | None = None
    queue_depth: int = 0
    updated_at: datetime | None = None
    recovery: Recovery | None = None
    error: str | None = None


class FeedList(BaseModel):
    """Feeds, by id."""

    feeds: list[FeedDescription]
    next: str | None = Field(default=None, description="Id after which there are more: `after` of the next call.")


class HistoryRow(BaseModel):
    """A past reading, and the forecasts that were made of this reading."""

    time: str | float | None
    value: float | None
    held: bool = Field(description="True where there was no reading.")
    forecasts: list[dict[str, Any]] = Field(
        description="With `served`, and the `experts` of a blend; weights are rounded to 1/254. Forecasts of older "
        "versions have neither."
    )


class FeedHistory(BaseModel):
    """Readings of a feed's window, oldest first; of too many readings, only each `every`-th one is listed."""

    every: int
    rows: list[HistoryRow]


class StepCertificate(BaseModel):
    """Proof that the model of one forecast step is optimal, computed from the data of the window alone."""

    step: int
    model: str
    relative_gap: float
    max_violation: float
    n_examples: int
    approximation: Approximation | None = Field(default=None, description="Of a feed with `components`.")


class FeedCertificate(BaseModel):
    """Proof that the models of all steps are optimal; `relative_gap` is the largest of all models."""

    position: int
    relative_gap: float | None
    steps: list[StepCertificate]
