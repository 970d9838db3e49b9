"""Jobs of feeds: backtests with the feed's settings or with others, and tuning."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from livesvm.service.feeds import model_selection, presenter
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.spec import FeedSpec, spec_of
from livesvm.service.feeds.state import FeedState
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.history.names import stored_feed
from livesvm.service.hosting.handle import Description, FeedCopy, FeedHandle
from livesvm.service.jobs.kind import JobKind
from livesvm.service.jobs.plots import Extension, draw_lines
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.runtime.progress import Progress

Document = dict[str, Any]
CALL = 24
"""Rows that a backtest observes at once, as if they came in one call."""
LEAST_WINDOW, LEAST_FORECAST = 40, 10
POINTS = 500
"""Most points of a backtest's curve."""


@dataclass(frozen=True)
class Given:
    """Rows that came with the request of a backtest."""

    rows: list[Document]

    def memory(self) -> int:
        """Return the bytes that the rows take."""
        return sum(sys.getsizeof(row) + 64 * len(row) for row in self.rows)


@dataclass(frozen=True)
class Subject:
    """A feed that a job works on."""

    feed: FeedHandle

    @property
    def id(self) -> str:
        """Name under which the feed's jobs are kept, which differs from the ids of models."""
        return stored_feed(self.feed.id)

    def describe(self) -> Description:
        """Return a description with the memory that the feed needs."""
        return Description("live", memory=feed_bytes(self.feed.spec))

    def copy(self) -> Future[FeedCopy]:
        """Return the future of a copy of the feed, which the feed's writer makes when it reaches this call."""
        return self.feed.copy()


def spec_with(spec: FeedSpec, settings: Document) -> FeedSpec:
    """Return a feed's settings with some of them replaced; raises ValidationError or InvalidInput."""
    return spec_of(spec.model_dump() | settings)


def backtest(asked: Document, copy: FeedCopy, progress: Progress) -> Document:
    """Observe rows in order with a new forecaster, and return the scores of its forecasts."""
    state = copy.state()
    given: Given | None = asked.get("given")
    spec = spec_with(copy.spec, asked.get("settings") or {})
    rows = own_rows(state) if given is None else given.rows
    if given is None:
        spec = spec_with(spec, {"window": min(spec.window, half_of(len(rows)))})
    feed = Forecaster(spec)
    for begin in range(0, len(rows), CALL):
        if not progress(begin, len(rows)):
            raise Cancelled("the job was cancelled")
        _observe(feed, rows, begin)
    scores = presenter.Scores(feed)
    found = {"readings": feed.readings, "own": given is None, "settings": presenter.settings(feed)}
    return _plain({**found, "scores": scores.overall, "recent": scores.lately, "curve": _curve(feed, spec.horizons[0])})


def _observe(feed: Forecaster, rows: Sequence[Document], begin: int) -> None:
    """Observe a block of rows, and the known columns of the rows after the block; raises InvalidInput with the row.

    The scores assume that the rows' values of known columns were known in advance.
    """
    end = begin + CALL
    ahead = rows[end : end + feed.steps[-1]] if feed.spec.known else []
    try:
        feed.observe([*rows[begin:end], *({**row, feed.spec.target: None} for row in ahead)])
    except InvalidInput as error:
        if error.row is None:
            raise
        raise InvalidInput(error.reason, field=error.field, row=begin + error.row) from None


def own_rows(state: FeedState) -> list[Document]:
    """Return the readings of a feed's window as rows; missing values are null."""
    spec = state.spec
    found = []
    for time, one in state.forecaster.timeline.past.items():
        row: Document = dict(zip(spec.columns, one.given, strict=True))
        if spec.time is not None:
            row[spec.time] = presenter.time_of(state.forecaster.timeline, time)
        found.append(row)
    return found


def half_of(readings: int) -> int:
    """Return the window size of a backtest over a feed's own readings, so that about half of them are forecast."""
    if readings < LEAST_WINDOW + LEAST_FORECAST:
        raise InvalidInput(f"the feed holds {readings} readings, which are too few; give rows", field="rows")
    return max(LEAST_WINDOW, readings // 2)


def _curve(feed: Forecaster, step: int) -> list[Document]:
    """Return the running mean errors at the first horizon over the newest scores, at most ``POINTS`` points."""
    rows = feed.scores[feed.steps.index(step)].recent
    if feed.spec.task == "direction" or not len(rows):
        return []
    counted = range(1, len(rows) + 1)
    value, actual, last, seasonal = rows[:, 3], rows[:, 6], rows[:, 7], rows[:, 8]
    means = [abs(actual - other).cumsum() / list(counted) for other in (value, last, seasonal)]
    every = math.ceil(len(rows) / POINTS)
    return [
        {"n": n, "mae": means[0][n - 1], "last_value_mae": means[1][n - 1], "seasonal_mae": means[2][n - 1]}
        for n in list(counted)[::-1][::every][::-1]
    ]


def tune(asked: Document, copy: FeedCopy, progress: Progress) -> Document:
    """Choose values for a feed's ``auto`` settings by its present window; return the new and the present values."""
    feed = copy.state().forecaster
    if feed.rows is None:
        raise InvalidInput("the feed has no models yet", field="id")
    progress(0, 1)
    before = feed.chosen()
    choice = model_selection.choose(feed.spec, feed.rows)
    errors = {(trial.step, trial.recipe): trial.error for trial in choice.trials}
    steps = [
        {"step": step, **recipe._asdict(), "error": errors.get((step, recipe)), "before": now}
        for step, recipe, now in zip(feed.steps, choice.recipes, before, strict=True)
    ]
    return _plain({"steps": steps, "tried": choice.table()})


def apply_tuning(result: Document, choice: Document) -> list[Recipe]:
    """Return the recipes (settings of models) that a tuning found; raises InvalidInput if ``choice`` is not empty."""
    if choice:
        raise InvalidInput("there is nothing to choose of a tuning", field="choice")
    return [Recipe(step["represent"], step["gamma"], step["C"]) for step in result["steps"]]


def _plot(result: Document, extension: Extension) -> bytes:
    curve = result["curve"]
    names = {"mae": "forecast", "last_value_mae": "last value", "seasonal_mae": "seasonal value"}
    lines = {label: [point[name] for point in curve] for name, label in names.items()}
    return draw_lines(
        extension, "Backtest: mean absolute error so far", "readings", [point["n"] for point in curve], lines
    )


def _needed(asked: Document, now: Description) -> int:
    """Return the bytes of the copy of the feed and of the new feed that the job trains."""
    return now.memory + int(asked.get("memory", now.memory))


def _plain(found: Document) -> Document:
    """Return a document with JSON values only; NaN and infinities become null."""
    result: Document = from_json(to_json(found, inf_nan_mode="null", fallback=lambda value: value.item()))
    return result


FEED_KINDS: dict[str, JobKind] = {
    "backtest": JobKind(
        run=backtest,
        plot=_plot,
        needed=_needed,
        summary="Backtest a feed",
        description="Observe rows, or the readings that the feed holds, with its settings or others: a table of scores "
        "a step beside the naive forecasts, and a plot. Columns known ahead are taken to be known as they came, which "
        "`assumes` says. Nothing live is touched. Of the feed's own readings the first "
        "half is the window.",
    ),
    "tune": JobKind(
        run=tune,
        apply=apply_tuning,
        needed=_needed,
        summary="Tune a feed",
        description="Choose again, over the window as it is, what the settings leave to `auto`; `apply` takes it.",
    ),
}
"""Kinds of jobs for feeds, by the end of the path that asks for them: ``POST /feeds/{id}/<kind>``."""
