"""A feed's past readings with the forecasts made for them; if there are too many, only every n-th is returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from livesvm.service.feeds import presenter
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.timeline import Row
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]
MOST_POINTS = 10_000
"""Readings that are returned at most."""
MOST_FORECASTS = 50_000
"""Forecasts that are returned at most."""


@dataclass(frozen=True)
class PastForecastsQuery:
    """A query for past readings and their forecasts.

    Parameters
    ----------
    limit : readings that are looked at, the newest
    begin, end : seconds since 1970, or numbers of a feed without times; both are among what is reported
    step : that is reported; all steps when absent
    points : readings that are returned at most, evenly apart, the newest among them
    """

    limit: int
    begin: float | None = None
    end: float | None = None
    step: int | None = None
    points: int = MOST_POINTS

    def steps(self, feed: Forecaster) -> list[int]:
        """Return the indices of the steps that the query asks for; raises InvalidInput."""
        if self.step is None:
            return list(range(len(feed.steps)))
        if self.step not in feed.steps:
            raise InvalidInput(f"must be one of the feed's steps, {_some(feed.steps)}", field="step")
        return [feed.steps.index(self.step)]


def look_back(feed: Forecaster, asked: PastForecastsQuery) -> Document:
    """Return past readings with forecasts as ``rows``, oldest first; with ``every`` = n only each n-th reading."""
    steps = asked.steps(feed)
    wanted = (
        (time, one)
        for time, one in reversed(feed.timeline.past.items())
        if (asked.begin is None or time >= asked.begin) and (asked.end is None or time <= asked.end)
    )
    past = list(islice(wanted, asked.limit))
    most = max(1, min(asked.points, MOST_FORECASTS // len(steps)))
    every = -(-len(past) // most) or 1
    past = past[::every][::-1]
    made: dict[int, list[Document]] = {one.slot: [] for _, one in past}
    for number in steps:
        for scored in feed.scores[number].of_slots(made):
            made[scored.slot].append(presenter.forecast_made(feed.timeline, feed.steps[number], scored))
    rows = [
        {
            "time": presenter.time_of(feed.timeline, time),
            "value": None if one.held else one.values[0],
            "held": one.held,
            "forecasts": made[one.slot],
        }
        for time, one in past
    ]
    return {"every": every, "rows": rows}


def what_if(feed: Forecaster, rows: Sequence[Row]) -> Document:
    """Return the forecasts that would result if the known columns in ``rows`` were announced; raises InvalidInput."""
    found = feed.forecasts_if(rows)
    reported = presenter.with_experts(presenter.forecasts(feed.timeline, found), found)
    return {"time": presenter.time_of(feed.timeline, feed.timeline.time), "forecasts": reported}


def _some(steps: tuple[int, ...]) -> str:
    text = ", ".join(map(str, steps[:8]))
    return text if len(steps) <= 8 else f"{text}, ..."
