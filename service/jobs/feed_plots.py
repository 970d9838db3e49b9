"""Plots of feeds: readings, forecasts and their intervals, and the errors of the feed and of naive forecasts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.jobs.plots import Extension, drawing
from livesvm.solvers import plot

Document = dict[str, Any]


def draw_feed(
    extension: Extension, title: str, spec: FeedSpec, rows: Sequence[Document], forecasts: Sequence[Document]
) -> bytes:
    """Draw a feed: past readings with their forecasts at the first horizon, and the newest forecasts."""
    step = spec.horizons[0]
    made = [(row, one) for row in rows for one in row["forecasts"] if one["step"] == step]
    with drawing(extension, out := io.BytesIO(), (10, 6)) as figure:
        above, below = figure.subplots(2, height_ratios=(2, 1), sharex=True)
        above.set_title(f"{title}: {spec.target}, forecast {step} ahead")
        if spec.task == "value":
            own = [{**row, "forecasts": [one for one in row["forecasts"] if one["step"] == step]} for row in rows]
            plot.feed(own, forecasts, above)
            _errors(below, made)
        else:
            plot.feed([{**row, "forecasts": ()} for row in rows], (), above)
            _shares(below, made)
    return out.getvalue()


def _errors(axes: Any, made: Sequence[tuple[Document, Document]]) -> None:
    axes.set_ylabel("mean absolute error so far")
    at = plot.times_of([row for row, _ in made])
    for label, errors in (
        ("forecast", [abs(one["error"]) for _, one in made]),
        ("last value", [abs(row["value"] - one["last"]) for row, one in made]),
        ("seasonal value", [abs(row["value"] - one["seasonal"]) for row, one in made]),
    ):
        axes.plot(at, _means(errors), linewidth=1.0, label=label)
    axes.legend(loc="upper left")


def _shares(axes: Any, made: Sequence[tuple[Document, Document]]) -> None:
    axes.set_ylabel("share of right directions so far")
    axes.plot(plot.times_of([row for row, _ in made]), _means([float(one["right"]) for _, one in made]), linewidth=1.0)


def _means(values: Sequence[float]) -> list[float]:
    return [total / n for n, total in enumerate(accumulate(values), 1)]
