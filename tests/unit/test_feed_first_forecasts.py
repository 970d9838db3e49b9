"""Forecasts of a feed from its second reading on, while its window fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.service.feeds.first_forecasts import naive_forecast
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.presenter import filling
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of
from livesvm.service.store import codec
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
        assert found.value == (y[n + 3 - 12] if n > 12 else y[n - 1])
        assert found.seasonal == (y[n + 3 - 12] if n > 8 else None)
        assert found.half is not None
    assert (naive_forecast(y[:n], 4, 12, 0.9).half or 1.0) < 0.5
    y[n - 9] = np.nan  # the one that would be repeated
    assert naive_forecast(y[:n], 4, 12, 0.9).value == y[n - 21]


@pytest.mark.parametrize("n", [13, 15, 18, 30])
def test_bands_of_few_seasonal_errors_are_not_too_narrow(n: int) -> None:
    random = np.random.default_rng(n)
    days = 2 * random.normal(size=(1500, 12))
    y = np.tile(days, 3)[:, : n + 4] + random.normal(size=(1500, n + 4))
    found = [naive_forecast(one[:n], 4, 12, 0.9) for one in y]
    inside = [abs(one.value - now[n + 3]) <= (one.half or 0.0) for one, now in zip(found, y, strict=True)]
    seasonal = [one.served == "seasonal-naive" for one in found]
    assert sum(seasonal) > 500
    assert np.mean(np.array(inside)[seasonal]) > 0.8


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


def test_where_the_interval_is_found_gaps_are_no_readings() -> None:
    rows = rows_of(series(20))
    one = Forecaster(spec_of({name: value for name, value in FEED.items() if name != "every"}))
    assert len(one.observe(rows[:7]).forecasts) == 2
    assert len(one.observe(rows[7:8]).forecasts) == 2
    (first, _) = one.observe([rows[8], {**rows[11], "y": None}, rows[12]]).forecasts
    assert (first.slot, first.experts[1]) == (13, rows[12]["y"])
    for settings in ({"task": "direction"}, {"generation": 1}, {"quantiles": [0.1, 0.9]}):
        assert Forecaster(spec_of(FEED | settings)).observe(rows).forecasts == []
    assert Forecaster(spec_of(FEED | {"band": None})).observe(rows).forecasts[0].low is None


def test_early_models_come_while_the_window_fills_and_leave_nothing_behind() -> None:
    spec = spec_of(FEED | {"window": 200, "steps": [1, 12]})
    y = series(220)
    one, sent_at_once, served = Forecaster(spec), Forecaster(spec), dict[int, list[str]]()
    windows = list[int]()
    for n in range(1, 200):
        one.observe(rows_of(y)[n - 1 : n])
        served[n] = [told.served for told in one.latest]
        windows.append(0 if one.early is None else one.early.spec.window)
        coming = filling(one)
        assert coming is not None
        assert coming["readings"] == n
        assert [stage["readings"] for stage in coming["coming"]] == [at for at in (2, 13, 40, 80, 200) if at > n]
    assert windows == [0] * 39 + [40] * 40 + [80] * 120
    assert {kind for n in range(2, 40) for kind in served[n]} <= {"last-value", "seasonal-naive"}
    assert {served[n][0] for n in range(40, 200)} == {"blend"}
    assert {served[n][1] for n in range(40, 80)} <= {"last-value", "seasonal-naive"}  # a quarter of 40 is 10
    assert {served[n][1] for n in range(80, 200)} == {"blend"}
    assert one.gap() == 0.0
    assert one.early is not None
    assert 0 < one.early.gap() < 1e-8 or one.early.gap() == 0.0
    back = from_arrays(spec, codec.decode(codec.encode(to_arrays(one))))
    assert back.latest == one.latest
    one.cool()
    assert one.is_cool
    sent_at_once.observe(rows_of(y)[:199])
    for feed in (one, back, sent_at_once):
        feed.observe(rows_of(y)[199:202])
        assert feed.early is None
        assert filling(feed) is None
    for feed in (back, sent_at_once):  # the window's own models do not know how it was filled
        assert [told.value for told in feed.latest] == pytest.approx([told.value for told in one.latest], rel=1e-9)


@pytest.mark.parametrize("recipes", [None, [{"represent": "seasonal-change", "gamma": 0.01, "C": 0.3}] * 2])
def test_erased_readings_leave_no_trace_in_early_models(recipes: Any) -> None:
    spec, y = spec_of(FEED | {"window": 200, "recipes": recipes}), series(90)
    one, untold = Forecaster(spec), Forecaster(spec)
    for n in range(90):
        one.observe(rows_of(y)[n : n + 1])
    without = [row | ({"y": None} if n == 70 else {}) for n, row in enumerate(rows_of(y))]
    untold.observe(without)
    assert one.early is not None
    assert {step["C"] for step in one.early.chosen()} == {0.3 if recipes else 1.0}
    forget(one, [list(one.timeline.past)[70]])
    assert [told.value for told in one.latest] == pytest.approx([told.value for told in untold.latest], rel=1e-9)
    assert y[70] not in np.concatenate(
        [np.ravel(value) for value in to_arrays(one).values() if isinstance(value, np.ndarray)]
    )


def test_two_readings_are_enough_where_their_distance_is_not_given() -> None:
    one, y = Forecaster(spec_of(FEED | {"every": None})), series(20)
    for n in range(20):
        one.observe(rows_of(y)[n : n + 1])
        assert len(one.latest) == (0 if n < 1 else 2)
        assert [told.time for told in one.latest] == [one.latest[0].made_at + 3600 * told.step for told in one.latest]
        assert all(told.low is not None and told.low < told.value for told in one.latest)
