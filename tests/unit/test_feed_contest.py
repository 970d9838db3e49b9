"""Which forecast of a step is served, by the rolling record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.feeds.contest import AHEAD, HALVES, LEAST, SERVED, Contest
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import Forecast, PendingForecasts
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of
from tests.support.feeds import FEED, rows_of

WINDOW = 100
errors = st.tuples(*[st.floats(-10, 10)] * 3)


@given(st.lists(errors, min_size=1, max_size=3 * LEAST), st.integers(0, 60))
def test_a_naive_forecast_is_served_where_its_weighted_errors_are_clearly_less(
    made: list[tuple[float, float, float]], known: int
) -> None:
    contest = Contest(WINDOW)
    contest.begin(np.array(made[:known], float).reshape(-1, 3))
    for one in made[known:]:
        contest.learn(1.0, (1.0 + one[0], 1.0 - one[1], 1.0 + one[2]))
    ages = np.arange(len(made))[::-1]
    means = 0.5 ** (ages * HALVES / WINDOW) @ np.abs(made)
    assert contest.sums == pytest.approx(means, abs=1e-12)
    back = Contest(WINDOW)
    back.restore(contest.to_arrays())
    for kept in (contest, back):
        served = kept.best()
        if len(made) < LEAST:
            assert served == 0
        elif served:
            assert contest.sums[served] == min(contest.sums[1:]) < AHEAD * contest.sums[0]
        else:
            assert min(contest.sums[1:]) >= AHEAD * contest.sums[0]


def walk(**settings: Any) -> Forecaster:
    """Feed a series that the models know, then another, for which the seasonal value is always right."""
    random = np.random.default_rng(0)
    y = random.normal(size=160).cumsum()
    y[80:] = np.tile(10 * random.normal(size=12), 7)[:80]
    one = Forecaster(spec_of(FEED | {"C": 0.001, "gamma": 0.05, "represent": "change", "steps": [5]} | settings))
    for begin in range(0, 160, 10):
        one.observe(rows_of(y)[begin : begin + 10])
    return one


def test_where_the_seasonal_value_has_the_better_record_it_is_served_and_said() -> None:
    one = walk()
    (forecast,) = one.latest
    assert forecast.served == "seasonal-naive"
    assert forecast.value == one.timeline.past[forecast.time - 12 * 3600.0].values[0]
    assert forecast.low is not None
    assert forecast.low <= forecast.value
    back = from_arrays(one.spec, to_arrays(one))
    assert back.latest == one.latest
    assert [vars(c)["n"] for c in back.contests] == [vars(c)["n"] for c in one.contests]
    made = one.scores[0].recent
    assert (made[-5:, 3] != made[-5:, 10]).all()  # the models' own are kept next to it
    assert SERVED[0] == "model"


@pytest.mark.parametrize("settings", [{"generation": 1}, {"quantiles": [0.1, 0.9]}])
def test_other_feeds_serve_their_models(settings: dict[str, Any]) -> None:
    assert [one.served for one in walk(**settings).latest] == ["model"]


def test_forecasts_that_wait_are_kept_number_for_number_and_older_ones_are_read() -> None:
    """A snapshot of before had no model's own forecast, nor what was served."""
    waiting = PendingForecasts()
    waiting.restore(np.array([[0.0, 1, 10, 3, 2, 5, np.nan, 6, 1, 2, 3, 4, 7]]))
    (one,) = waiting[10]
    assert one == (0, Forecast(1, 10, 3.0, 2.0, 5.0, None, 6.0), 1.0, 2.0, 3.0, 4.0, 7.0, 5.0)
    waiting.add(one._replace(model=0.1, forecast=one.forecast._replace(served="last-value", known=False)))
    again = PendingForecasts()
    again.restore(waiting.to_array())
    assert again == waiting
    assert again.take(10)[1].forecast[-2:] == ("last-value", False)
    assert not again
