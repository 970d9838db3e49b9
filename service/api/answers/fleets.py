"""Schemas of answers about fleets: effects of new readings, forecasts of many series, and scores over all series."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.feeds import FeedSource
from livesvm.service.fleets.presenter import SeriesScore


class RefusedSeries(BaseModel):
    """A series with readings in the call that were all refused; readings of other series may be accepted."""

    series: str | None = Field(description="Null where the row does not name it.")
    row: int | None = Field(description="In the call, from 0.")
    field: str | None = Field(default=None, description="The column at fault.")
    reason: str
    of_rows: bool = Field(default=True, description="False if the series takes no readings now, whatever they are.")


class FleetObservationAnswer(BaseModel):
    """The effect of a call that sent readings of many series."""

    series: int = Field(description="Series that took their readings, in this call or when it was made before.")
    accepted: int
    ignored: int
    corrected: int
    announced: int
    replayed: int = Field(description="Series that had taken this call before.")
    refused: list[RefusedSeries] = Field(description="By row, at most a thousand.")
    refused_in_all: int
    durability: Literal["fsynced", "logged", "memory"] | None


class FleetForecastRow(BaseModel):
    """One forecast of one series; its time has the same form as the times of the readings."""

    series: str
    feed: str = Field(description="The series' id as a feed.")
    step: int
    time: str | float | None
    value: float
    low: float | None
    high: float | None
    served: str | None
    state: str


class FleetForecasts(BaseModel):
    """Forecasts of a fleet's series, sorted by series and step."""

    rows: list[FleetForecastRow]
    next: str | None = Field(default=None, description="Id after which there are more: `after` of the next call.")


class SeriesList(BaseModel):
    """Series, by id."""

    series: list[SeriesScore]
    next: str | None = Field(default=None, description="Id after which there are more: `after` of the next call.")


class SeriesMade(BaseModel):
    """The result of a call that creates series."""

    created: int
    series: int = Field(description="Series of the fleet in all.")


class FleetScores(BaseModel):
    """Forecast errors over the newest window of each series, divided by the errors of the better naive forecast."""

    scored: int = Field(description="Series of which a forecast was scored.")
    mean: float | None
    median: float | None
    ahead_of_naive: float | None = Field(description="Share of series with less error than the better naive forecast.")
    coverage: float | None


class FleetDescription(BaseModel):
    """The present state of a fleet."""

    id: str
    state: Literal["live", "deleting"]
    series: int
    settings: dict[str, Any] | None = None
    created_at: datetime
    states: dict[str, int] = Field(default_factory=dict, description="How many series are in which state.")
    position: int = Field(default=0, description="Readings that were ever accepted, of all series.")
    source: FeedSource | None = None
    scores: FleetScores | None = None
    worst: list[SeriesScore] = Field(default_factory=list, description="The worst forecast series, worst first.")


class FleetList(BaseModel):
    """Fleets, by id."""

    fleets: list[FleetDescription]
    next: str | None = Field(default=None, description="Id after which there are more: `after` of the next call.")
