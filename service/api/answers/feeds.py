"""Feeds: what a call of readings did, forecasts, the past, and the proofs of their models."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.models import Recovery


class ForecastTold(BaseModel):
    """What is said of a reading to come; times are as the feed's readings have them."""

    step: int
    time: str | float | None
    value: float = Field(description="Of a feed of directions the decision value, positive for up.")
    low: float | None = None
    high: float | None = None
    direction: Literal["up", "down"] | None = None
    served: Literal["model", "last-value", "seasonal-naive", "blend"] | None = Field(
        default=None,
        description="`blend`: of the model with naive forecasts and a linear model. Older versions served a naive one "
        "where that had the better record.",
    )
    known: Literal["announced", "held"] | None = Field(
        default=None, description="Whether the known columns of its time were announced, or hold their last values."
    )


class ObservationAnswer(BaseModel):
    """What a call of readings did, and the forecasts from the newest of them."""

    accepted: int = Field(description="Readings that were taken; announcements are not among them.")
    ignored: int = Field(description="Rows that the feed knew already, or leaves out.")
    corrected: int
    announced: int = Field(default=0, description="Rows without the target: known columns of times to come.")
    position: int = Field(description="Readings that were ever accepted.")
    time: str | float | None = Field(description="Of the newest reading.")
    state: Literal["filling", "live"] = Field(description="`filling` until the window is first full.")
    forecasts: list[ForecastTold]
    scored: int = Field(description="Forecasts that these readings were compared with.")
    events: list[dict[str, Any]] = Field(
        description="What the feed announced: live, rescaled, drift, chosen, updated, known."
    )
    durability: Literal["fsynced", "logged", "memory"]


class ExpertTold(BaseModel):
    """What one expert of a blend says, and its weight."""

    expert: Literal["model", "last-value", "seasonal-naive", "seasonal-mean", "weekly-mean", "linear"]
    value: float
    weight: float


class ExplainedForecast(ForecastTold):
    """A forecast with what it is blended of."""

    experts: list[ExpertTold] = Field(default_factory=list, description="None where the model alone is served.")


class ForecastAnswer(BaseModel):
    """The newest forecasts, made from all readings so far."""

    position: int
    time: str | float | None
    state: Literal["filling", "live"]
    forecasts: list[ExplainedForecast]
    stale: bool = Field(description="True when readings are refused now, so that newer ones may be unknown.")


class WhatIfAnswer(BaseModel):
    """What would be forecast if known columns were as the call says."""

    time: str | float | None
    forecasts: list[ExplainedForecast]


class FeedSource(BaseModel):
    """Where a feed's readings come from, and how that goes; credentials are known to the service alone."""

    kind: Literal["redis-stream", "mqtt"]
    connection: str
    stream: str | None = Field(default=None, description="Of a Redis Stream.")
    group: str | None = Field(default=None, description="Of a Redis Stream.")
    topic: str | None = Field(default=None, description="Of a broker.")
    client_id: str | None = Field(default=None, description="Of a broker: under which it keeps the session.")
    dead_letters: str
    state: Literal["reading", "paused", "failing"]
    fault: str | None = Field(default=None, description="Why it is not read; it is tried again after 1 to 10 seconds.")
    taken: str | None = Field(default=None, description="The newest entry that had its effect, or was refused.")
    newest_at: datetime | None = Field(default=None, description="When the newest entries came.")
    backlog: int | None = Field(
        default=None,
        description="Entries that wait, of a broker those that it has handed out; null while that is not known.",
    )
    backlog_at_least: bool = Field(default=False, description="Whether more may wait than were counted.")
    refused: int = Field(default=0, description="Entries that went to the dead letters.")


class FeedDescription(BaseModel):
    """A feed as it is now."""

    id: str
    state: Literal["filling", "live", "restoring", "failed", "held", "fenced", "behind"] = Field(
        description="`filling` until the window is first full; else as of models."
    )
    awake: bool = Field(
        default=True, description="Whether its state is in memory; a list shows one at rest without its scores."
    )
    version: int = Field(default=0, description="Calls that had an effect.")
    position: int = Field(default=0, description="Readings that were ever accepted.")
    rows: int = Field(default=0, description="Rows that were read, ignored and announced ones among them.")
    time: str | float | None = Field(default=None, description="Of the newest reading.")
    every: str | None = None
    season: int | None = Field(default=None, description="In readings; 0: there is none.")
    settings: dict[str, Any] | None = Field(
        default=None, description="All of them, with what was `chosen` and `tried`."
    )
    scores: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Of each step, over everything. `assumes` says what forecasts knew of known columns: `perfect`: "
        "announced, and as it came; `announced`: otherwise; `held`: nothing; `mixed`.",
    )
    recent: list[dict[str, Any]] = Field(
        default_factory=list, description="The same over the newest window, with the evidence of the test for drift."
    )
    events: list[dict[str, Any]] = Field(default_factory=list, description="The newest that were announced.")
    source: FeedSource | None = None
    durability: Literal["fsynced", "logged", "memory"] | None = None
    queue_depth: int = 0
    updated_at: datetime | None = None
    recovery: Recovery | None = None
    error: str | None = None


class FeedList(BaseModel):
    """Feeds, by id."""

    feeds: list[FeedDescription]
    next: str | None = Field(default=None, description="Behind which there are more: `after` of the next call.")


class HistoryRow(BaseModel):
    """A reading with the forecasts that were made for it."""

    time: str | float | None
    value: float | None
    held: bool = Field(description="True where there was no reading.")
    forecasts: list[dict[str, Any]]


class FeedHistory(BaseModel):
    """Readings of the window, oldest first; where there were too many, `every` so many one."""

    every: int
    rows: list[HistoryRow]


class StepCertificate(BaseModel):
    """Proof that a step's model is optimal, recomputed from the data of the window."""

    step: int
    model: str
    relative_gap: float
    max_violation: float
    n_examples: int


class FeedCertificate(BaseModel):
    """The proof of every step's models; `relative_gap` is the largest, null before there are any."""

    position: int
    relative_gap: float | None
    steps: list[StepCertificate]
