"""JSON values of a feed's forecasts, scores, events and settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal

from livesvm.service.feeds import times
from livesvm.service.feeds.blend import EXPERTS, MODEL
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import Forecast, Mix
from livesvm.service.feeds.interval import moment
from livesvm.service.feeds.scores import ScoredForecast
from livesvm.service.feeds.spec import LEAST_WINDOW, FeedSpec, early_size
from livesvm.service.feeds.timeline import Timeline
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property

Document = dict[str, Any]
Which = Literal["first", "last", "only"]


def time_of(timeline: Timeline, seconds: float | None) -> str | float | None:
    """Return a time as the feed's readings write it: in ISO 8601, with a zone if readings have one, or as a number."""
    if seconds is None:
        return None
    if timeline.spec.time is None:
        return seconds
    return _text_of(seconds, timeline.zone, timeline.zone is None and timeline.zoned is False)


@lru_cache(maxsize=1024)
def _text_of(seconds: float, zone: tzinfo | None, is_bare: bool) -> str | float:
    """Return a time as text in ISO 8601, with a UTC offset unless ``is_bare``."""
    try:
        when = moment(seconds, zone)
    except (OverflowError, ValueError):  # beyond the calendar
        return seconds
    if is_bare:
        return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()
    return when.astimezone(zone or UTC).isoformat()


def seconds_asked(spec: FeedSpec, text: str | None, field: str, which: Which = "first") -> float | None:
    """Return a caller's time in seconds since 1970, or as a number if readings have no times; raises InvalidInput.

    In the hour that comes twice when clocks go back, ``which`` selects the first or the last of both times; with
    "only", such a time is refused.
    """
    if text is None:
        return None
    if spec.time is None:
        try:
            return float(text)
        except ValueError:
            raise InvalidInput("readings of this feed have numbers, and no times", field=field) from None
    stamp = times.parse(text, field, 0)
    if stamp.zoned or spec.timezone is None:
        return stamp.seconds
    found = times.places(stamp.seconds, times.zone_of(spec.timezone), field, 0)
    if which == "only" and len(found) > 1:
        raise InvalidInput(f"{text[:32]!r} comes twice as clocks go back; write its UTC offset", field=field)
    return found[-1 if which == "last" else 0]


def seconds_in(spec: FeedSpec, texts: Sequence[str], field: str) -> list[float]:
    """Return the times of rows, in the order of the rows, in seconds since 1970; raises InvalidInput with the row."""
    zone = None if spec.timezone is None else times.zone_of(spec.timezone)
    stamps, before = times.column(texts, field)[0], None
    found = list[float]()
    for row, stamp in enumerate(stamps):
        is_local = zone is not None and not stamp.zoned
        before = times.at_place(stamp.seconds, zone, before, field, row) if zone and is_local else stamp.seconds
        found.append(before)
    return found


def forecasts(timeline: Timeline, found: Iterable[Forecast]) -> list[Document]:
    """Return forecasts as JSON values, one for each step."""
    return [_forecast(timeline, one) for one in found]


def _forecast(timeline: Timeline, one: Forecast) -> Document:
    reported: Document = {"step": one.step, "time": time_of(timeline, one.time), "value": one.value}
    if timeline.spec.known:
        reported["known"] = "announced" if one.known else "held"
    if timeline.spec.task == "direction":
        reported["direction"] = "up" if one.value > 0 else "down"
    else:
        reported.update(low=one.low, high=one.high, served=one.served)
    return reported


def with_experts(reported: Iterable[Document], found: Iterable[Forecast]) -> list[Document]:
    """Return reported forecasts, with each expert's forecast and weight added to blends."""
    return [
        told | {"experts": _experts(one)} if one.served == "blend" else told
        for told, one in zip(reported, found, strict=True)
    ]


def _experts(one: Forecast | Mix) -> list[Document]:
    return [
        {"expert": name, "value": value, "weight": weight}
        for name, value, weight in zip(EXPERTS, one.experts, one.weights, strict=True)
        if value is not None and weight is not None
    ]


def forecast_made(timeline: Timeline, step: int, scored: ScoredForecast) -> Document:
    """Return a past forecast of one step as JSON values, compared with its reading; a blend has its experts."""
    reported: Document = {"step": step, "made_at": time_of(timeline, scored.made_at), "value": scored.value}
    if timeline.spec.task == "direction":
        return reported | {"right": (scored.value > 0) == (scored.actual > scored.last)}
    mix = Mix.of(scored.mix, scored.value, (scored.model, scored.last, scored.seasonal))
    if mix is not None:
        reported |= {"served": mix.served, **({"experts": _experts(mix)} if mix.served == "blend" else {})}
    return reported | {
        "low": _finite(scored.low),
        "high": _finite(scored.high),
        "error": scored.actual - scored.value,
        "last": scored.last,
        "seasonal": scored.seasonal,
        "model": scored.model,
    }


class Scores:
    """The scores of every step of a feed at the present time, computed when they are first read.

    Parameters
    ----------
    feed : whatever it learns from then on changes nothing of them
    """

    def __init__(self, feed: Forecaster) -> None:
        self._task, self._steps = feed.spec.task, feed.steps
        self._scores = [one.as_now() for one in feed.scores]
        self._evidence = [test.strongest for test in feed.drifts]
        self._weights = {one.step: one.weights[MODEL] for one in feed.latest}
        known = range(len(feed.steps)) if feed.spec.known else []  # errors assume what is known ahead
        self._assumed = [{"assumes": feed.knowledge.assumed(i)} for i in known] or [{} for _ in feed.steps]

    @cached_property
    def overall(self) -> list[Document]:
        """The scores of each step over all forecasts."""
        every = zip(self._steps, self._scores, self._assumed, strict=True)
        return [{"step": step, **scores.overall(self._task), **assumed} for step, scores, assumed in every]

    @cached_property
    def lately(self) -> list[Document]:
        """The scores of each step over the newest window."""
        weights = [{"model_weight": self._weights.get(step)} for step in self._steps]
        every = zip(self._steps, self._scores, self._evidence, weights, strict=True)
        return [
            {"step": step, **scores.lately(self._task), "drift_evidence": found, **weight}
            for step, scores, found, weight in every
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and self.__getstate__() == other.__getstate__()

    def __getstate__(self) -> Document:
        """Return the computed scores, which are all that pickles contain."""
        return {"overall": self.overall, "lately": self.lately}


def filling(feed: Forecaster) -> Document | None:
    """Return how many readings a feed has while its window fills, and which forecasts begin when; None afterwards."""
    spec, every, size = feed.spec, feed.timeline.every, LEAST_WINDOW
    if feed.models:
        return None
    stages = [(2, "the last value, with a band")] if spec.has_blends else []
    season = feed.season_at_first(every)
    if spec.has_blends and 0 < 3 * season < 2 * spec.window:
        stages.append((season + 1, "the seasonal value, where it had the smaller error"))
    while early_size(spec, size) == size:
        stages.append((size, f"a blend with models of {size} readings"))
        size *= 2
    stages.append((spec.window, "those of the whole window" if spec.has_blends else "those of the models"))
    readings = max(feed.readings, len(feed.timeline.waiting))
    coming = [{"readings": n, "forecasts": what} for n, what in sorted(stages) if n > readings]
    return {"readings": readings, "window": spec.window, "coming": coming}


def settings(feed: Forecaster) -> Document:
    """Return all settings, and under ``chosen`` the values that the feed found or chose itself."""
    trials = [] if feed.choice is None else feed.choice.table()
    chosen = {"every": _every(feed), "season": feed.season, "lags": list(feed.spec.lag_list), "steps": feed.chosen()}
    if feed.spec.known:
        chosen["known_ahead"] = feed.knowledge.lead
    return {**feed.spec.dumped, "chosen": chosen, "tried": trials}


def _every(feed: Forecaster) -> str | None:
    every = feed.timeline.every
    return None if every is None or feed.spec.time is None else str(every)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
