"""Pictures of feeds: readings, forecasts with their band, gaps, several meters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from docs.generate.figures.drawing import BLUE, GREEN, GREY, ORANGE, RED, figure
from livesvm.service.demo.data import fisher_river
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import Forecast
from livesvm.service.feeds.spec import spec_of

HOUR, DAY = 3600.0, 86_400.0
QUICK = {"C": 10.0, "gamma": 0.01, "rolling": {"mean": [24]}}
"""Parameters that a feed would choose itself, given so that a picture takes no search."""
Row = dict[str, Any]


def _runs(feed: Forecaster, rows: Sequence[Row], size: int) -> Iterator[list[Forecast]]:
    """Yield the forecasts after each call of some rows."""
    for start in range(0, len(rows), size):
        yield feed.observe(rows[start : start + size]).forecasts


def _band(axes: Axes, forecasts: Sequence[Forecast], unit: float, **style: Any) -> None:
    times = [ahead.time / unit for ahead in forecasts]
    axes.plot(times, [ahead.value for ahead in forecasts], **{"color": ORANGE, "linewidth": 1.2, **style})
    low, high = ([getattr(ahead, end) for ahead in forecasts] for end in ("low", "high"))
    axes.fill_between(times, low, high, color=style.get("color", ORANGE), alpha=0.2, linewidth=0)


def river() -> Figure:
    """Forecast the river one day ahead, over 200 days."""
    record = fisher_river.load()
    rows = [{"time": DAY * day, "flow": float(flow)} for day, flow in enumerate(record.values[:640, 0])]
    feed = Forecaster(spec_of({"target": "flow", "every": "1d", "window": 365, "steps": 1, **QUICK}))
    for _ in _runs(feed, rows[:440], 20):
        pass
    ahead = [one for found in _runs(feed, rows[440:], 1) for one in found]
    made, axes = figure()
    axes.plot(range(440, 640), [row["flow"] for row in rows[440:]], color=BLUE, linewidth=1.4, label="flow")
    _band(axes, ahead[:-1], DAY, label="forecast one day before, with its 90% band")
    axes.set(xlabel="day of the record", ylabel="m3/s")
    axes.legend(frameon=False)
    return made


def _demand(hours: int, seed: int = 1, level: float = 3.0, phase: float = 9.0) -> list[Row]:
    """Make up hourly demand that follows a daily course and the temperature."""
    rng = np.random.default_rng(seed)
    at = np.arange(hours)
    temperature = 20 + 8 * np.sin((at - 9) * np.pi / 12) + rng.normal(scale=1.0, size=hours)
    warm_days = np.repeat(rng.normal(scale=4.0, size=hours // 24 + 1), 24)[:hours]
    temperature += warm_days
    demand = level + 0.08 * (temperature - 20) + np.sin((at - phase) * np.pi / 12) + rng.normal(scale=0.08, size=hours)
    both = zip(at, temperature, demand, strict=True)
    return [
        {"time": HOUR * int(hour), "temperature": float(warm), "demand": float(value)} for hour, warm, value in both
    ]


def forecast() -> Figure:
    """Forecast a day of demand as announced, and as it would be if it were hotter."""
    rows = _demand(24 * 16)
    settings = {"target": "demand", "known": ["temperature"], "every": "1h", "window": 300, "steps": 24}
    feed = Forecaster(spec_of({**settings, **QUICK, "gamma": 0.001}))
    history, day = rows[: 24 * 15], rows[24 * 15 :]
    for _ in _runs(feed, history, 24):
        pass
    known = [{"time": row["time"], "temperature": row["temperature"]} for row in day]
    expected = feed.forecasts_if(known)
    hotter = feed.forecasts_if([row | {"temperature": row["temperature"] + 5.0} for row in known])
    made, axes = figure()
    shown = rows[24 * 13 :]
    axes.plot([row["time"] / HOUR for row in shown], [row["demand"] for row in shown], ".", color=BLUE, label="demand")
    _band(axes, expected, HOUR, label="forecast with the announced temperatures")
    style: dict[str, Any] = {"color": RED, "label": "if it were 5 degrees hotter"}
    axes.plot([one.time / HOUR for one in hotter], [one.value for one in hotter], "--", **style)
    axes.set(xlabel="hour", ylabel="demand")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_ylim(0, 8)
    return made


def readings() -> Figure:
    """Show a gap that is held, and a late reading that corrects the past."""
    rows = [{"time": HOUR * hour, "y": 3 + np.sin(hour * np.pi / 12)} for hour in range(60)]
    gap, late = range(44, 48), 52
    sent = [row for hour, row in enumerate(rows) if hour not in gap and hour != late]
    feed = Forecaster(spec_of({"target": "y", "every": "1h", "window": 50, "steps": 1, "late": "correct", **QUICK}))
    for _ in _runs(feed, sent, 12):
        pass
    before = feed.history.newest(30)
    feed.observe([rows[late]])
    after = feed.history.newest(30)
    made, axes = figure()
    hours = np.arange(30, 60)
    is_held = np.isin(hours, [*gap, late])
    axes.plot(hours[~is_held], before[~is_held], "o", color=BLUE, markersize=4, label="reading")
    axes.plot(
        hours[is_held],
        before[is_held],
        "o",
        color=GREY,
        markerfacecolor="none",
        label="missing: the last value is held",
    )
    axes.plot([late], [after[late - 30]], "s", color=GREEN, label="it came late, and corrects the past")
    axes.set(xlabel="hour", ylabel="what the feed remembers")
    axes.legend(frameon=False, fontsize=8)
    return made


def fleet() -> Figure:
    """Forecast six meters, each by a feed of its own."""
    made, axes = figure(6, height=2.2, sharey=True)
    for meter, one in enumerate(axes):
        rows = _demand(24 * 6, seed=meter, level=2.0 + 0.4 * meter, phase=6.0 + meter)
        feed = Forecaster(
            spec_of({"target": "demand", "every": "1h", "window": 100, "steps": [1, 6, 12, 18, 24], **QUICK})
        )
        *_, ahead = _runs(feed, rows, 24)
        shown: NDArray[Any] = np.array([[row["time"] / HOUR, row["demand"]] for row in rows[-48:]])
        one.plot(*shown.T, color=BLUE, linewidth=0.9)
        _band(one, ahead, HOUR)
        one.set_title(f"meter {meter}", fontsize=8)
        one.set_xticks([])
    return made


FIGURES: dict[str, Callable[[], Figure]] = {draw.__name__: draw for draw in (river, forecast, readings, fleet)}
