"""Pictures of feeds: readings, forecasts and their band; errors against the naive forecast's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.jobs.plots import Extension, drawing

Document = dict[str, Any]


def draw_feed(
    extension: Extension, title: str, spec: FeedSpec, rows: Sequence[Document], forecasts: Sequence[Document]
) -> bytes:
    """Draw a feed: its history with the forecasts of the first step, and its newest forecasts."""
    step = spec.horizons[0]
    made = [(row, one) for row in rows for one in row["forecasts"] if one["step"] == step]
    with drawing(extension, out := io.BytesIO(), (10, 6)) as figure:
        above, below = figure.subplots(2, height_ratios=(2, 1), sharex=False)
        above.set_title(f"{title}: {spec.target}, forecast {step} ahead")
        read = [row for row in rows if row["value"] is not None]
        above.plot(_times(read), [row["value"] for row in read], "k", linewidth=0.8, label="readings")
        if spec.task == "value":
            _forecast(above, made, forecasts, step)
            _errors(below, made)
        else:
            _shares(below, made)
        above.legend(loc="upper left")
    return out.getvalue()


def _forecast(axes: Any, made: Sequence[tuple[Document, Document]], forecasts: Sequence[Document], step: int) -> None:
    at = _times([row for row, _ in made])
    axes.plot(at, [one["value"] for _, one in made], "C0", linewidth=0.8, label="forecast")
    banded = [(row, one) for row, one in made if one["low"] is not None]
    if banded:
        ends = [[one[name] for _, one in banded] for name in ("low", "high")]
        axes.fill_between(_times([row for row, _ in banded]), *ends, color="C0", alpha=0.2, label="band")
    if forecasts:
        to_come = _times(forecasts)
        axes.plot(to_come, [one["value"] for one in forecasts], "C1.-", linewidth=1.0, label="to come")
        if all(one["low"] is not None for one in forecasts):
            ends = [[one[name] for one in forecasts] for name in ("low", "high")]
            axes.fill_between(to_come, *ends, color="C1", alpha=0.2)


def _errors(axes: Any, made: Sequence[tuple[Document, Document]]) -> None:
    axes.set_ylabel("mean absolute error so far")
    at = _times([row for row, _ in made])
    for label, errors in (
        ("forecast", [abs(one["error"]) for _, one in made]),
        ("last value", [abs(row["value"] - one["last"]) for row, one in made]),
        ("seasonal value", [abs(row["value"] - one["seasonal"]) for row, one in made]),
    ):
        axes.plot(at, _means(errors), linewidth=1.0, label=label)
    axes.legend(loc="upper left")


def _shares(axes: Any, made: Sequence[tuple[Document, Document]]) -> None:
    axes.set_ylabel("share of right directions so far")
    axes.plot(_times([row for row, _ in made]), _means([float(one["right"]) for _, one in made]), linewidth=1.0)


def _means(values: Sequence[float]) -> list[float]:
    return [total / n for n, total in enumerate(accumulate(values), 1)]


def _times(rows: Sequence[Document]) -> list[Any]:
    """Return times as the plot's axis takes them; without their zone, which is the same for all."""
    return [
        datetime.fromisoformat(row["time"]).replace(tzinfo=None) if isinstance(row["time"], str) else row["time"]
        for row in rows
    ]
