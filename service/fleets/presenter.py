"""Reports of a fleet: the forecasts of its series, one in each row, and the scores of its series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from statistics import mean, median
from typing import Annotated, Any

from pydantic import Field

from livesvm.service.errors import ModelUnavailable, ServiceError
from livesvm.service.fleets.catalogue import Fleet
from livesvm.service.fleets.names import series_of
from livesvm.service.hosting.collection import Feeds
from livesvm.service.hosting.handle import FeedHandle, Glimpse
from livesvm.service.monitoring.feeds import StepSample
from livesvm.service.store.base import StoreError

Document = dict[str, Any]

WORST = 20
PAGE = 1000
WOKEN = 32
"""How many series without known forecasts are woken at once."""
COLUMNS = ("series", "feed", "step", "time", "value", "low", "high", "served", "state")


@dataclass(frozen=True)
class SeriesScore:
    """The state and the scores of one series of a fleet, in memory or not."""

    series: str
    feed: Annotated[str, Field(description="Its id as a feed.")]
    state: str
    position: int = 0
    time: str | float | None = None
    ratio: Annotated[
        float | None,
        Field(description="Error over the better naive one's, over the newest window; the mean over steps."),
    ] = None
    coverage: Annotated[float | None, Field(description="Share of the newest readings that the band held.")] = None
    error: str | None = None


def forecasts(feeds: Sequence[FeedHandle], steps: frozenset[int]) -> list[Document]:
    """Return the newest forecasts as rows, by series and step; load a series only if its forecasts are not known."""
    asleep = [feed for feed in feeds if feed.shown is None and not _is_told(feed.glimpse) and feed.reason is None]
    for first in range(0, len(asleep), WOKEN):
        wait([news for feed in asleep[first : first + WOKEN] if (news := _awoken(feed)) is not None])
    rows = []
    for feed in feeds:
        seen = feed.shown or feed.glimpse
        reported = () if seen is None else (seen.forecasts or ())
        name = series_of(feed.id)
        state = feed.state if seen is None or feed.reason is not None else seen.state
        found = [
            {**one, "series": name, "feed": feed.id, "state": state}
            for one in reported
            if not steps or one["step"] in steps
        ]
        rows += [{column: one.get(column) for column in COLUMNS} for one in found]
    return rows


def _is_told(seen: Glimpse | None) -> bool:
    return seen is not None and seen.forecasts is not None


def _awoken(feed: FeedHandle) -> Any:
    try:
        return feed.news()
    except (ServiceError, StoreError):
        return None


def series_told(feed: FeedHandle) -> SeriesScore:
    """Return the description of one series, without loading the series into memory."""
    name, seen = series_of(feed.id), feed.shown or feed.glimpse
    if seen is None or feed.reason is not None:
        return SeriesScore(name, feed.id, feed.state, error=feed.reason)
    told = seen.position, seen.time, ratio_of(seen.steps), coverage_of(seen.steps)
    return SeriesScore(name, feed.id, seen.state, *told)


def ratio_of(steps: Iterable[StepSample]) -> float | None:
    """Return the mean over steps of the error divided by the better naive forecast's error; None without scores."""
    found = [step.error / step.naive_error for step in steps if step.naive_error > 0.0]
    return mean(found) if found else None


def coverage_of(steps: Iterable[StepSample]) -> float | None:
    """Return the mean over steps of the share of readings in the band; None if no step has a band."""
    found = [step.coverage for step in steps if step.coverage is not None]
    return mean(found) if found else None


def scores(feeds: Feeds, fleet: Fleet) -> Document:
    """Return the joint scores of all series, over their newest windows, without loading any series into memory."""
    found: list[SeriesScore] = []
    after = ""
    while page := feeds.page(after, PAGE, fleet.prefix):
        found += [series_told(feed) for feed in page]
        after = page[-1].id
    scored = [(one, one.ratio) for one in found if one.ratio is not None]
    ratios = [ratio for _, ratio in scored]
    coverages = [one.coverage for one in found if one.coverage is not None]
    states: dict[str, int] = {}
    for one in found:
        states[one.state] = states.get(one.state, 0) + 1
    worst = sorted(scored, key=lambda pair: -pair[1])[:WORST]
    return {
        "series": len(found),
        "states": states,
        "position": sum(one.position for one in found),
        "scores": {
            "scored": len(scored),
            "mean": mean(ratios) if ratios else None,
            "median": median(ratios) if ratios else None,
            "ahead_of_naive": mean(ratio < 1.0 for ratio in ratios) if ratios else None,
            "coverage": mean(coverages) if coverages else None,
        },
        "worst": [vars(one) for one, _ in worst],
    }


def check_served(feeds: Feeds, ids: Sequence[str]) -> list[FeedHandle]:
    """Return the feeds of series, by id; raises UnknownFeed, or ModelUnavailable if a feed cannot answer here."""
    found = [feeds.find(id_) for id_ in ids]
    for feed in found:
        if feed.state in ("failed", "held") and feed.glimpse is None and feed.shown is None:
            raise ModelUnavailable(f"series {feed.id} is not served here: {feed.reason}")
    return found
