"""What a feed forecasts: a blend of its model with naive forecasts, seasonal means and a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.service.feeds import blend as of_feed
from livesvm.service.feeds.blend import EXPERTS, lookback_of
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import NOBODY, Forecast, PendingForecasts
from livesvm.service.feeds.plausible import Bounds
from livesvm.service.feeds.presenter import forecasts, with_experts
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of
from livesvm.solvers.models import blend
from livesvm.solvers.models.blend import DISCOUNT, KEPT, PRIOR, SURPRISE, Lookback
from tests.support.feeds import FEED, rows_of, series

Floats = NDArray[np.float64]
ANY = Bounds(-np.inf, np.inf)


def walked(look: Lookback, y: Floats, model: Floats, begin: int) -> tuple[Floats, Floats, Floats]:
    """Blend from ``begin`` on, each reading as it comes; return blends, what experts said, and weights."""
    state, made, out = blend.new_state(look), dict[int, tuple[Floats, float]](), list[tuple[float, Floats, Floats]]()
    seen = np.arange(look.back.max(), begin - look.step)
    blend.replay(look, y[:begin], seen, seen, y[seen + look.step], np.full(seen.size, np.nan), state)
    for now in range(begin, y.size - look.step):
        if now - look.step in made:
            then = now - look.step
            blend.learn(look, y[: then + 1], then, then, y[now], state)
            blend.weigh(look, *made[then], y[now], state)
        said, weights = blend.forecast(look, y[: now + 1], now, now, model[now], state)
        made[now] = said, blend.blended(said, weights)
        out.append((made[now][1], said, weights))
    return tuple(map(np.array, zip(*out, strict=True)))  # type: ignore[return-value]


def weights_of(said: Floats, blends: Floats, actual: Floats) -> Floats:
    """Return weights after errors in their order, as the definition has them."""
    n = said.shape[1]
    prior = np.array([PRIOR, *[(1 - PRIOR) / (n - 1)] * (n - 1)])
    regret, squares, largest, apart = np.zeros(n), np.zeros(n), np.zeros(n), 0.0
    rate = np.zeros(n)
    for one, value, y in zip(said, blends, actual, strict=True):
        cap = SURPRISE * apart or np.inf
        furthest = min(cap, np.abs(value - one).max())
        apart = apart + 0.02 * (furthest - apart) if apart else furthest
        better = np.clip(np.sign(value - y) * (value - one), -cap, cap)
        regret, squares, largest = DISCOUNT * regret, DISCOUNT * squares, DISCOUNT * largest
        largest, squares = np.maximum(largest, np.abs(better)), squares + better**2
        rate = np.minimum(0.5 / largest, np.sqrt(-np.log(prior) / squares))
        regret += (better - rate * better**2 + 2 * largest * (rate * better > 0.5)) / 2
    share = prior * rate * np.exp(rate * regret)
    return np.asarray((1 - KEPT) * share / share.sum() + KEPT * prior)


@pytest.mark.parametrize("step", [1, 3])
def test_weights_are_those_of_the_definition_on_errors_that_are_known(step: int) -> None:
    y, look = series(400), lookback_of((12,), step, 300, ())
    random = np.random.default_rng(1)
    model = np.roll(y, -step) + random.normal(size=y.size)
    blends, said, weights = walked(look, y, model, 100)
    for at in (1, step, step + 1, 40, len(blends) - 1):
        known = max(0, at - step + 1)  # errors of readings that had come
        if known:
            expected = weights_of(said[:known], blends[:known], y[100 + step : 100 + step + known])
            np.testing.assert_allclose(weights[at], expected, rtol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert weights[0, 0] == pytest.approx(PRIOR)
    np.testing.assert_array_equal(said[:, 1], y[100 : 100 + len(said)])
    back = np.arange(100, 100 + len(said)) + step - 12
    np.testing.assert_array_equal(said[:, 2], y[back])
    np.testing.assert_allclose(said[:, 3], np.mean([y[back - 12 * k] for k in range(4)], axis=0))


def test_the_linear_expert_learns_what_is_linear_and_outliers_move_it_little() -> None:
    random = np.random.default_rng(0)
    y, look = random.normal(size=1500), lookback_of((), 1, 300, ())
    for at in range(3, y.size):
        y[at] = 0.9 * y[at - 1] - 0.5 * y[at - 2] + 0.3 * y[at]
    dirty = y.copy()
    dirty[::97] += 50.0
    clean = np.arange(1200, 1490)[np.min([(np.arange(1200, 1490) - k) % 97 for k in range(-1, 4)], axis=0) > 0]
    for values, most in ((y, 1.03), (dirty, 1.3)):
        _, said, _ = walked(look, values, values, 200)
        error = np.abs(said[clean - 200, -1] - values[clean + 1]).mean()
        assert error < most * np.abs(0.9 * y[clean] - 0.5 * y[clean - 1] - y[clean + 1]).mean()


def test_replaying_is_what_forecasting_reading_by_reading_does() -> None:
    y, look = series(300), lookback_of((12,), 3, 200, ())
    random = np.random.default_rng(1)
    model = np.roll(y, -3) + random.normal(size=y.size)
    at = np.arange(look.back.max(), 297)
    state = blend.new_state(look)
    whole = blend.replay(look, y, at, at, y[at + 3], np.where(at < 150, np.nan, model[at]), state)
    assert np.isnan(whole[at < 150]).all()
    other, made = blend.new_state(look), dict[int, tuple[Floats, float]]()
    first = blend.new_state(look)
    blend.replay(look, y, at, at, y[at + 3], np.full(at.size, np.nan), first)  # with the scales of all
    scales = [blend.LO, blend.HI, blend.UNIT, blend.MIDDLE, blend.SPREAD]
    other[scales] = first[scales]
    blend.widths(look, other)[:] = blend.widths(look, first)
    for now in range(int(at[0]), 300):
        if (then := now - 3) >= at[0]:
            blend.learn(look, y[: then + 1], then, then, y[now], other)
            if then in made:
                blend.weigh(look, made[then][0], made[then][1], y[now], other)
        if 150 <= now < 297:
            said, weights = blend.forecast(look, y[: now + 1], now, now, model[now], other)
            made[now] = said, blend.blended(said, weights)
            assert made[now][1] == pytest.approx(whole[now - at[0]], rel=1e-12)
    np.testing.assert_allclose(other, state, rtol=1e-9, atol=1e-12)


def fed(**settings: Any) -> Forecaster:
    """Feed a series that the models do not know, for which the seasonal value is nearly right from then on."""
    random = np.random.default_rng(0)
    y = random.normal(size=200).cumsum()
    y[80:] = np.tile(10 * random.normal(size=12), 10) + 0.01 * random.normal(size=120)
    one = Forecaster(spec_of(FEED | {"C": 0.001, "gamma": 0.05, "represent": "change", "steps": [5]} | settings))
    for begin in range(0, 200, 10):
        one.observe(rows_of(y)[begin : begin + 10])
    return one


def test_experts_that_are_right_get_the_weight_and_are_told() -> None:
    one = fed()
    (forecast,) = one.latest
    weights, said = dict(zip(EXPERTS, forecast.weights, strict=True)), dict(zip(EXPERTS, forecast.experts, strict=True))
    assert forecast.served == "blend"
    assert said["seasonal-naive"] == one.timeline.past[forecast.time - 12 * 3600.0].values[0]
    assert said["weekly-mean"] is weights["weekly-mean"] is None
    assert weights["model"] is not None
    assert weights["model"] < 0.05
    told = with_experts(forecasts(one.timeline, one.latest), one.latest)[0]["experts"]
    assert sum(expert["weight"] for expert in told) == pytest.approx(1.0)
    assert sum(expert["weight"] * expert["value"] for expert in told) == pytest.approx(forecast.value)
    recent = one.scores[0].lately("value")
    assert recent["mae"] < 0.5 * recent["last_value_mae"]
    made = one.scores[0].recent
    assert (made[-5:, 3] != made[-5:, 10]).all()  # the models' own are kept next to it
    assert (made[:, 11] == made[:, 8]).all()  # there is no week


def test_a_snapshot_goes_on_bit_for_bit() -> None:
    one = fed()
    back = from_arrays(one.spec, to_arrays(one))
    assert back.latest == one.latest
    for more in rows_of(np.random.default_rng(1).normal(size=230))[200:]:
        for feed in (one, back):
            feed.observe([more])
    assert [b.state.tobytes() for b in back.blends] == [b.state.tobytes() for b in one.blends]
    assert [one_.weights for one_ in back.latest] == [one_.weights for one_ in one.latest]


def test_a_snapshot_of_before_begins_with_what_the_window_shows() -> None:
    one = fed()
    arrays = {name: value for name, value in to_arrays(one).items() if not name.startswith(("blend", "weights"))}
    back = from_arrays(one.spec, arrays)
    assert back.blends[0].state[blend.LEARNT] > 0
    assert back.latest[0].weights == NOBODY
    weight = back.blends[0].forecast(back._values(back.entered), back.entered, 0.0, ANY)[2][0]
    assert weight is not None
    assert weight < 0.1  # of the model, by its record


@pytest.mark.parametrize("settings", [{"generation": 1}, {"quantiles": [0.1, 0.9]}, {"task": "direction"}])
def test_other_feeds_serve_their_models(settings: dict[str, Any]) -> None:
    one = fed(**settings)
    assert [(told.served, told.weights[0]) for told in one.latest] == [("model", 1.0)]
    assert [told.value == told.experts[0] for told in one.latest] == [True]
    assert "experts" not in with_experts(forecasts(one.timeline, one.latest), one.latest)[0]


@pytest.mark.parametrize("band", [None, 0.9])
def test_the_blend_knows_the_first_window(band: float | None) -> None:
    one = Forecaster(spec_of(FEED | {"band": band}))
    one.observe(rows_of(series(60)))
    assert all(each.state[blend.LEARNT] > 20 for each in one.blends)
    assert len({each.state[blend.HEAD] for each in one.blends} - {0.0}) == 2  # weights have moved


def test_the_week_is_a_season_of_the_record() -> None:
    random = np.random.default_rng(0)
    week = 10 * random.normal(size=168)
    y = np.tile(week, 9)[:1400] + random.normal(size=1400)
    one = Forecaster(spec_of({"target": "y", "every": "1h", "steps": [24], "season": 24, "window": 700, "C": 1.0,
                              "gamma": 0.01, "represent": "level"}))  # fmt: skip
    one.observe(rows_of(y))
    rows, found = one.scores[0].recent, one.scores[0].lately("value")
    slots = rows[:, 0].astype(int)
    np.testing.assert_array_equal(rows[:, 11], y[slots - 168])
    assert found["seasonal_mae"] == pytest.approx(np.abs(y[slots] - y[slots - 168]).mean())
    assert found["mase"] == pytest.approx(found["mae"] / found["seasonal_mae"])
    assert one.latest[0].experts[of_feed.WEEK] == pytest.approx(np.mean([y[1399 + 24 - 168 * k] for k in (1, 2, 3, 4)]))


def test_forecasts_that_wait_are_kept_number_for_number_and_older_ones_are_read() -> None:
    """A snapshot of before had no experts; at first neither a model's own forecast, nor what was served."""
    waiting = PendingForecasts()
    waiting.restore(np.array([[0.0, 1, 10, 3, 2, 5, np.nan, 6, 1, 2, 3, 4, 7]]))
    (one,) = waiting[10]
    experts = (5.0, 3.0, 4.0, None, None, None)
    assert one == (0, Forecast(1, 10, 3.0, 2.0, 5.0, None, 6.0, experts=experts), 1.0, 2.0, 7.0, 4.0)
    waiting = PendingForecasts()
    waiting.restore(np.array([[0.0, 1, 10, 3, 2, 5, np.nan, 6, 2, 0, 1, 2, 3, 4, 7, 8]]))
    (other,) = waiting[10]
    assert other.forecast[-4:] == ("seasonal-naive", False, (8.0, *experts[1:]), NOBODY)
    waiting.add(one._replace(forecast=one.forecast._replace(served="blend", known=False, experts=(0.1,) * 6)))
    again = PendingForecasts()
    again.restore(waiting.to_array())
    assert again == waiting
    assert again.take(10)[1].forecast[-4:-1] == ("blend", False, (0.1,) * 6)
    assert not again
