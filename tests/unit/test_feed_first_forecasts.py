"""Forecasts of a feed from its second reading on, while its window fills."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.service.feeds.first_forecasts import naive_forecast
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of
from tests.support.feeds import FEED, rows_of, series


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("n", [3, 6, 12, 24, 48])
def test_bands_hold_what_comes_of_a_walk(n: int, step: int) -> None:
    random = np.random.default_rng(n + step)
    walks = random.normal(size=(1500, n + step)).cumsum(axis=1)
    found = [naive_forecast(walk[:n], step, 0, 0.9) for walk in walks]
    inside = [abs(one.value - walk[-1]) <= (one.half or 0.0) for one, walk in zip(found, walks, strict=True)]
    assert 0.8 < np.mean(inside) < 0.99
    assert [one.value for one in found] == walks[:, n - 1].tolist()


def test_the_season_is_served_once_it_is_better() -> None:
    random = np.random.default_rng(0)
    y = np.tile(10 * random.normal(size=12), 5) + 0.1 * random.normal(size=60)
    for n in range(2, 56):
        found = naive_forecast(y[:n], 4, 12, 0.9)
        assert found.value == (y[n + 3 - 12] if n >= 18 else y[n - 1])
        assert found.seasonal == (y[n + 3 - 12] if n > 8 else None)
        assert found.half is not None
    assert (naive_forecast(y[:n], 4, 12, 0.9).half or 1.0) < 0.5
    y[n - 9] = np.nan  # the one that would be repeated
    assert naive_forecast(y[:n], 4, 12, 0.9).value == y[n - 21]


def test_a_feed_forecasts_from_its_second_reading_on() -> None:
    one, y = Forecaster(spec_of(FEED)), series(70)
    assert one.observe(rows_of(y)[:1]).forecasts == []
    for n in range(2, 60):
        outcome = one.observe(rows_of(y)[n - 1 : n])
        assert [(told.step, told.slot, told.made_at) for told in outcome.forecasts] == [
            (step, n - 1 + step, one.timeline.time) for step in (1, 3)
        ]
        assert {told.served for told in outcome.forecasts} <= {"last-value", "seasonal-naive"}
        assert all(told.low is not None and told.low <= told.value <= (told.high or 0.0) for told in outcome.forecasts)
        assert outcome.scored == []
    back = from_arrays(one.spec, to_arrays(one))
    assert back.latest == one.latest
    forget(one, [one.timeline.time or 0.0])
    untold = Forecaster(spec_of(FEED))
    untold.observe(rows_of(y)[:58])
    assert one.latest == untold.latest
    for feed in (one, untold):
        feed.observe(rows_of(y)[59:61])
        assert {told.served for told in feed.latest} == {"blend"}


def test_where_the_interval_is_found_forecasts_begin_with_it_and_gaps_are_no_readings() -> None:
    rows = rows_of(series(20))
    one = Forecaster(spec_of({name: value for name, value in FEED.items() if name != "every"}))
    assert one.observe(rows[:7]).forecasts == []
    assert len(one.observe(rows[7:8]).forecasts) == 2
    (first, _) = one.observe([rows[8], {**rows[11], "y": None}, rows[12]]).forecasts
    assert (first.slot, first.value) == (13, rows[12]["y"])
    for settings in ({"task": "direction"}, {"generation": 1}, {"quantiles": [0.1, 0.9]}):
        assert Forecaster(spec_of(FEED | settings)).observe(rows).forecasts == []
    assert Forecaster(spec_of(FEED | {"band": None})).observe(rows).forecasts[0].low is None
