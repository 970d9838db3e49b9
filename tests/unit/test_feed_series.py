"""Defaults on series of many kinds: nothing breaks, bands hold what they say, naive forecasts are not far ahead."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Row
from tests.support.made_up_series import KINDS, Floats, made_up

GAP = 1e-8
WINDOW, READINGS = 150, 480
LIMITS = {"random walk": 1.12, "nearly constant": 1.15, "levels": 1.45, "daylight": 1.1, "weekdays": 1.25}
"""Over the better naive error, where a window of 150 is too short: for noise, for one change in a hundred readings, for
levels that last as long as it, and for six days of which half is night. A week, which the naive value knows at once, is
longer than it. `tests.benchmarks.feeds` has 1,000."""
QUICK = ("intermittent demand", "random walk", "heavy tails", "constant", "season of three", "huge")


def rows_of(values: Floats) -> list[Row]:
    """Hourly readings."""
    return [{"time": 3600.0 * i, "y": value} for i, value in enumerate(values.tolist())]


def fed(rows: list[Row], **settings: object) -> tuple[Forecaster, list[str]]:
    """Return a feed that was sent them, twelve to a call, and what it announced."""
    feed, kinds = Forecaster(spec_of({"target": "y", "window": WINDOW, "steps": [1, 6], **settings})), []
    for begin in range(0, len(rows), 12):
        kinds += [event.kind for event in feed.observe(rows[begin : begin + 12]).events]
    return feed, kinds


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in KINDS]
)
def test_defaults_do_no_harm(kind: str) -> None:
    feed, _ = fed(rows_of(made_up(kind, READINGS)))
    assert feed.gap() <= GAP
    for scores in feed.scores:
        found = scores.overall("value")
        assert found["mae"] <= LIMITS.get(kind, 1.05) * min(found["last_value_mae"], found["seasonal_mae"]) + 1e-12
        assert found["coverage"] >= 0.84
        assert found["coverage"] <= 0.96 or kind in ("constant", "nearly constant", "intermittent demand")


@pytest.mark.parametrize("change", ["level", "scale"])
def test_drift_is_announced_and_over_within_a_window(change: str) -> None:
    values = made_up("trend and season", 600)
    values[300:] = values[300:] + 200 if change == "level" else 10 * values[300:]
    feed, kinds = fed(rows_of(values))
    assert {"drift", "rescaled"} & set(kinds)
    assert feed.gap() <= GAP
    for step, scores in zip(feed.steps, feed.scores, strict=True):
        late = scores.recent[scores.recent[:, 0] >= 300 + WINDOW + step]
        errors = np.abs(late[:, 6] - late[:, 3]).mean()
        naive = min(np.abs(late[:, 6] - late[:, 7]).mean(), np.abs(late[:, 6] - late[:, 8]).mean())
        assert errors < 1.02 * naive  # which may be what is served
