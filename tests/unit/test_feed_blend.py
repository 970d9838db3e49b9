"""What a feed forecasts: a blend of its model with naive forecasts, seasonal means and a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.service.feeds import blend as of_feed
from livesvm.service.feeds.blend import EXPERTS, NO_EXPERTS, lookback_of
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import Forecast, PendingForecasts
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.past_forecasts import PastForecastsQuery, look_back
from livesvm.service.feeds.plausible import Bounds
from livesvm.service.feeds.presenter import forecasts, with_experts
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of
from livesvm.service.store import codec
from livesvm.solvers.models import blend
from livesvm.solvers.models.blend import CAUTION, DISCOUNT, KEPT, LATELY, PRIOR, RATE, SURPRISE, Lookback
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


def weights_of(said: Floats, blends: Floats, actual: Floats, naive: list[int]) -> Floats:
    """Return weights after errors in their order, as the definition has them; some experts are ``naive``."""
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
        rate = RATE * np.minimum(0.5 / largest, np.sqrt(-np.log(prior) / squares))
        regret += (better - rate * better**2 + 2 * largest * (rate * better > 0.5)) / 2
    lately = LATELY ** np.arange(len(said))[::-1]
    errors = lately @ np.abs(said - actual[:, None]) / lately.sum()
    excess = np.maximum(0.0, errors / errors[naive].min() - 1.0)
    excess[naive] = 0.0
    share = prior * rate * np.exp(rate * regret - CAUTION * (1 - LATELY) * lately.sum() * excess)
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
            expected = weights_of(said[:known], blends[:known], y[100 + step : 100 + step + known], [1, 2])
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
        error = np.abs(said[clean - 200, -2] - values[clean + 1]).mean()
        assert error < most * np.abs(0.9 * y[clean] - 0.5 * y[clean - 1] - y[clean + 1]).mean()


@pytest.mark.parametrize(("look", "begin"), [((12,), 45), ((12, 84), 0)])
def test_replaying_is_what_forecasting_reading_by_reading_does(look: Any, begin: int) -> None:
    y, look = series(300), lookback_of(look, 3, 200, (), 12 if len(look) > 1 else 0)
    random = np.random.default_rng(1)
    model = np.roll(y, -3) + random.normal(size=y.size)
    at = np.arange(begin, 297)
    state = blend.new_state(look)
    whole = blend.replay(look, y, at, at, y[at + 3], np.where(at < 150, np.nan, model[at]), state)
    assert np.isnan(whole[at < 150]).all()
    other, made = blend.new_state(look), dict[int, tuple[Floats, float]]()
    first = blend.new_state(look)
    blend.replay(look, y, at, at, y[at + 3], np.full(at.size, np.nan), first)  # with the scales of all
    other[[blend.LO, blend.HI]] = first[[blend.LO, blend.HI]]
    scales = [blend.UNIT, blend.MIDDLE, blend.SPREAD, blend.KIND, blend.ZERO, blend.SIZE]
    scales += [blend.NUMBERS + k for k in range(blend.feature_count(look))]
    for i in range(blend.LINEAR):
        blend.linear_part(look, other, i)[scales] = blend.linear_part(look, first, i)[scales]
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


def test_days_count_by_how_little_they_differed_from_the_weekday() -> None:
    """Fridays and Saturdays are days of rest; a day has six readings."""
    random = np.random.default_rng(0)
    levels = np.where(np.arange(1400) // 6 % 7 < 2, 0.0, 1.0)
    y = levels * (1.0 + np.tile(random.normal(size=6), 234)[:1400]) + 0.1 * random.normal(size=1400)
    look = lookback_of((6, 42), 8, 400, (), 6)
    _, said, _ = walked(look, y, y, 700)
    actual = y[708 : 708 + len(said)]
    errors = np.abs(said - actual[:, None]).mean(axis=0)
    seasonal, week, daily = errors[2], errors[5], errors[6]
    assert daily < 0.85 * week < 0.85 * seasonal
    at, k = 700 + len(said) - 1, np.arange(14)
    then = at - 8 - np.arange(at - 8)[::-1]  # the readings whose differences are known, of a weekday and of all
    known = np.array([[abs(y[i] - y[i - 6 * d]) if i >= 6 * d else np.nan for d in k + 1] for i in then])
    mine = then // 6 % 7 == (at + 8) // 6 % 7
    own, every = ((blend.DAYS_KEPT ** np.arange(n.sum())[::-1])[:, None] for n in (mine, mine | True))
    usual = np.nansum(known * every, axis=0) / np.nansum(np.isfinite(known) * every, axis=0)
    usual = (np.nansum(known[mine] * own, axis=0) + 6 * usual) / (np.sum(np.isfinite(known[mine]) * own, axis=0) + 6)
    weights = np.where(k > 0, usual**-blend.NEARNESS, 0.0)  # a day ago is not known yet
    assert said[-1, 6] == pytest.approx(weights @ y[at + 8 - 6 * (k + 1)] / weights.sum(), rel=1e-3)


def test_days_begin_at_midnight_where_the_clock_is() -> None:
    one = Forecaster(spec_of({"target": "y", "steps": [1], "window": 200, "C": 1.0, "gamma": 0.01, "season": 24,
                              "timezone": "Europe/Berlin"}))  # fmt: skip
    times = np.datetime64("2024-02-01T04:00") + 60 * np.arange(1500)  # five o'clock in Berlin, and into the summer
    values = np.sin(np.arange(1500)).tolist()
    one.observe([{"time": f"{time}Z", "y": value} for time, value in zip(times, values, strict=True)])
    assert one.latest[0].experts[of_feed.DAILY] is not None
    assert [b._begun for b in (one.blends[0], from_arrays(one.spec, to_arrays(one)).blends[0])] == [5, 5]


def test_days_begin_where_they_began_whatever_the_jitter_of_half_past() -> None:
    one = Forecaster(spec_of(FEED | {"window": 100, "every": "1h", "season": 24}))
    times = 1_800_000_000.0 - 1_800_000_000.0 % 3600.0 + 1800.0 + np.arange(140) * 3600.0
    times += np.random.default_rng(0).uniform(-3.0, 3.0, 140)
    rows = [{"time": time, "y": value} for time, value in zip(times.tolist(), series(140).tolist(), strict=True)]
    one.observe(rows[:120])
    assert one.blends[0].look.day == 24
    for row in rows[120:]:
        one.observe([row])
        assert from_arrays(one.spec, to_arrays(one)).blends[0]._begun == one.blends[0]._begun


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
    one = fed(outliers="learn")
    (forecast,) = one.latest
    weights, said = dict(zip(EXPERTS, forecast.weights, strict=True)), dict(zip(EXPERTS, forecast.experts, strict=True))
    assert forecast.served == "blend"
    assert said["seasonal-naive"] == one.timeline.past[forecast.time - 12 * 3600.0].values[0]
    assert said["yearly-mean"] is weights["yearly-mean"] is None
    assert said["longer-naive"] == one.history.back(24 - 5)
    assert said["weekly-mean"] == one.history.back(168 - 5)  # beyond the window, which has 60 readings
    assert weights["model"] is not None
    assert weights["model"] < 0.05
    told = with_experts(forecasts(one.timeline, one.latest), one.latest)[0]["experts"]
    assert sum(expert["weight"] for expert in told) == pytest.approx(1.0)
    assert sum(expert["weight"] * expert["value"] for expert in told) == pytest.approx(forecast.value)
    recent = one.scores[0].lately("value")
    assert recent["mae"] < 0.5 * recent["last_value_mae"]
    made = one.scores[0].recent
    assert (made[-5:, 3] != made[-5:, 10]).all()  # the models' own are kept next to it
    held = made[:, 0] - 168 >= 0
    assert (made[~held, 11] == made[~held, 8]).all()  # there was no week yet
    assert (made[held, 11] != made[held, 8]).any()


def test_a_snapshot_goes_on_bit_for_bit() -> None:
    one = fed()
    back = from_arrays(one.spec, to_arrays(one))
    assert back.latest == one.latest
    for more in rows_of(np.random.default_rng(1).normal(size=230))[200:]:
        for feed in (one, back):
            feed.observe([more])
    assert [b.state.tobytes() for b in back.blends] == [b.state.tobytes() for b in one.blends]
    assert [one_.weights for one_ in back.latest] == [one_.weights for one_ in one.latest]


@pytest.mark.parametrize("had_fewer", [False, True])
def test_a_snapshot_of_before_begins_with_what_the_window_shows(had_fewer: bool) -> None:
    one = fed()
    arrays = {name: value for name, value in to_arrays(one).items() if not name.startswith(("blend", "weights"))}
    if had_fewer:
        arrays |= {"blend.0.state": one.blends[0].state[:90], "history.values": one.history.newest(61)}
        arrays["latest"] = arrays["latest"][:, :-3]
    back = from_arrays(one.spec, arrays)
    if had_fewer:
        assert back.history.newest(back.history.count).tolist() == one.history.newest(61).tolist()
    assert back.blends[0].state[blend.LEARNT] > 0
    assert back.latest[0].weights == NO_EXPERTS
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


def _made(feed: Forecaster) -> list[dict[str, Any]]:
    return [made for row in look_back(feed, PastForecastsQuery(100))["rows"] for made in row["forecasts"]]


def test_the_past_tells_of_what_each_forecast_was_made_also_after_a_restart() -> None:
    one, told = Forecaster(spec_of(FEED | {"steps": [1, 6]})), dict[tuple[int, str], Any]()
    y = series(160)
    for begin in range(160):
        one.observe(rows_of(y)[begin : begin + 1])
        if one.models:
            said = with_experts(forecasts(one.timeline, one.latest), one.latest)
            told |= {(made["step"], made["time"]): made for made in said}
    kept = to_arrays(one)
    again = from_arrays(one.spec, codec.decode(codec.encode(kept)))
    for feed in (one, again):
        compared = 0
        for row in look_back(feed, PastForecastsQuery(100))["rows"]:
            for made in row["forecasts"]:
                then = told[made["step"], row["time"]]
                assert (made["served"], made["value"]) == (then["served"], then["value"]) == ("blend", then["value"])
                for found, known in zip(made["experts"], then["experts"], strict=True):
                    off = abs(known["value"] - then["value"])
                    assert found["expert"] == known["expert"]
                    assert found["value"] == pytest.approx(known["value"], abs=off / 4096 + 1e-12)
                    assert found["weight"] == pytest.approx(known["weight"], abs=2 / 254)
                assert made["model"] == then["experts"][0]["value"]
                compared += 1
        assert compared > 100
    lately = one.scores[1].lately("value")
    rows = one.scores[1].recent
    assert lately["model_mae"] == pytest.approx(np.abs(rows[:, 10] - rows[:, 6]).mean())
    older = {name: value[:, :12] if name.endswith("recent") else value for name, value in kept.items()}
    past = _made(from_arrays(one.spec, older))
    assert len(past) == compared
    assert not any({"served", "experts"} & set(made) for made in past)  # a version before did not keep them
    forget(again, [max(again.timeline.past)], beyond=False)
    left = _made(again)
    assert 0 < len(left) < compared
    assert {made["served"] for made in left} == {"blend"}


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
    experts = (5.0, 3.0, 4.0, *NO_EXPERTS[3:])
    assert one == (0, Forecast(1, 10, 3.0, 2.0, 5.0, None, 6.0, experts=experts), 1.0, 2.0, 7.0, 4.0, bytes(32))
    waiting = PendingForecasts()
    waiting.restore(np.array([[0.0, 1, 10, 3, 2, 5, np.nan, 6, 2, 0, 1, 2, 3, 4, 7, 8]]))
    (other,) = waiting[10]
    assert other.forecast[-4:] == ("seasonal-naive", False, (8.0, *experts[1:]), NO_EXPERTS)
    waiting.restore(np.array([[0.0, 1, 11, 3, 2, 5, np.nan, 6, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]))
    (six,) = waiting.take(11)
    assert six == (0, six.forecast, 7.0, 8.0, 9.0, 10.0, bytes(32))
    assert six.forecast.experts == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, *NO_EXPERTS[6:])
    waiting.add(
        one._replace(forecast=one.forecast._replace(served="blend", known=False, experts=(0.1,) * len(EXPERTS)))
    )
    again = PendingForecasts()
    again.restore(waiting.to_array())
    assert again == waiting
    assert again.take(10)[1].forecast[-4:-1] == ("blend", False, (0.1,) * len(EXPERTS))
    assert not again


def test_an_expert_without_a_value_is_asleep_and_the_others_go_on_as_if_it_were_not_there() -> None:
    y, look = series(300), lookback_of((12, 250), 1, 400, ())
    blends, said, weights = walked(look, y, np.roll(y, -1), 150)
    asleep = np.arange(150, 150 + len(said)) < 249
    assert np.isnan(said[asleep, 4]).all()
    assert (weights[asleep, 4] == 0.0).all()
    assert np.isfinite(said[~asleep]).all()
    assert (weights[~asleep, 4] > 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(blends, np.nansum(said * weights, axis=1))


def test_an_expert_that_comes_to_be_later_begins_with_next_to_no_weight() -> None:
    """The value of a day ago is known from the 1,441st minute on, when the other experts have long records."""
    steps = np.random.default_rng(3).normal(size=1480)
    y = (60.0 + 0.6 * np.cumsum(steps)).tolist()
    times = np.datetime64("2024-01-01T00:00") + np.arange(len(y))
    rows = [{"time": str(time), "y": value} for time, value in zip(times, y, strict=True)]
    one = Forecaster(spec_of({"target": "y", "every": "1min", "C": 1.0}))
    one.observe(rows[:1439])
    new = EXPERTS.index("seasonal-naive")
    assert one.latest[0].experts[new] is None
    for at in range(1439, 1479):
        one.observe(rows[at : at + 1])
        found = one.latest[0]
        assert found.experts[new] is not None
        assert (found.weights[new] or 0.0) < 0.01
        assert abs(found.value - y[at]) < 1.0


def test_logarithms_say_what_grows_by_factors() -> None:
    random = np.random.default_rng(0)
    y, look = np.exp(0.8 * random.normal(size=1500)), lookback_of((), 1, 300, ())
    for at in range(1, y.size):
        y[at] *= y[at - 1] ** 0.9
    _, said, _ = walked(look, y, y, 300)
    linear, log = (np.abs(said[200:, at] - y[501 : 501 + len(said) - 200]).mean() for at in (-2, -1))
    assert log < linear
    best = np.abs(y[500 : 500 + len(said) - 200] ** 0.9 - y[501 : 501 + len(said) - 200]).mean()
    assert log < 1.05 * best


def week_of_minutes(level: float = 0.0, bad: int | None = None) -> Forecaster:
    """Feed three weeks of 20-minute readings, of which the window holds 200: each week is as the one before.

    The third has another level, and one reading may be bad.
    """
    random = np.random.default_rng(0)
    week = np.repeat(random.normal(size=84), 6)
    y = np.tile(week, 3) + 0.01 * random.normal(size=1512)
    y[1010:] += level
    if bad is not None:
        y[bad] = 1e9
    one = Forecaster(spec_of({"target": "y", "every": "20min", "steps": [40], "window": 200, "C": 1.0, "gamma": 0.01,
                              "represent": "change"}))  # fmt: skip
    times = np.datetime64("2024-01-01T00:00") + 20 * np.arange(y.size)
    for begin in range(0, y.size, 50):
        given = zip(times[begin : begin + 50], y[begin : begin + 50].tolist(), strict=True)
        one.observe([{"time": str(time), "y": value} for time, value in given])
    return one


def test_a_week_beyond_the_window_is_known() -> None:
    one = week_of_minutes()
    rows = one.scores[0].recent[-100:]
    error = np.abs(rows[:, 3] - rows[:, 6]).mean()
    assert error < 0.2 * np.abs(rows[:, 7] - rows[:, 6]).mean()  # of the last value
    assert np.abs(rows[:, 11] - rows[:, 6]).mean() < 0.03  # the record's naive forecast is that of the week
    assert one.scores[0].lately("value")["seasonal_mae"] < 0.03
    assert one.history.held_bytes < 10 * 1.3 * 8 * 504  # four weeks and a step, and some to spare
    back = from_arrays(one.spec, to_arrays(one))
    np.testing.assert_array_equal(back.history.newest(1512), one.history.newest(1512))


def test_what_lies_before_the_window_has_the_level_of_now_and_no_bad_reading() -> None:
    plain, moved, one_bad = week_of_minutes(), week_of_minutes(level=60.0), week_of_minutes(bad=900)
    assert [shift.slot for shift in moved.plausibility.shifts] == [1010]  # five hundred readings ago
    for mine, other in zip(moved.latest[0].experts, plain.latest[0].experts, strict=True):
        assert (mine is None) is (other is None)
        assert mine is None or other is None or mine == pytest.approx(other + 60.0, abs=0.5)
    back = from_arrays(moved.spec, to_arrays(moved))
    assert back._values(1511).tolist() == moved._values(1511).tolist()
    assert np.ptp(moved._values(1511)) < 10.0
    assert one_bad.history.newest(1512).max() < 10.0
    assert one_bad.latest[0].value == pytest.approx(plain.latest[0].value, abs=0.1)
    forget(moved, [], beyond=True)
    assert len(moved.plausibility.shifts) == 0


@pytest.mark.parametrize(("y", "exact"), [(series(400) - 10.0, 1e-9), (series(400), 0.01)])
def test_linear_experts_go_on_at_another_level(y: Floats, exact: float) -> None:
    look = lookback_of((12,), 3, 300, ())
    at, state = np.arange(50, 350), blend.new_state(look)
    blend.replay(look, y, at, at, y[at + 3], np.full(at.size, np.nan), state)
    before, _ = blend.forecast(look, y, 399, 399, y[399], state)
    blend.shift(look, state, 40.0)
    after, _ = blend.forecast(look, y + 40.0, 399, 399, y[399] + 40.0, state)
    np.testing.assert_allclose(after, before + 40.0, atol=exact * np.ptp(y))


def test_what_lies_before_the_window_goes_with_an_erasure_of_it() -> None:
    one = week_of_minutes()
    old = one.history.newest(1512)[:-300].copy()
    forget(one, [], beyond=True)
    kept = one.history.newest(1512)
    assert np.intersect1d(kept, old).size == 0
    assert len(np.unique(kept[:-201])) == 1
    one.observe([{"time": "2024-01-22T00:00", "y": 0.5}])
    assert len(one.latest) == 1


@pytest.mark.parametrize("size", [25, 200])
@pytest.mark.parametrize("gap", [0, 70, 400])
def test_a_season_over_a_gap_is_used_once_it_is_held(gap: int, size: int) -> None:
    """The window's readings span more than is held of the target, or less than a season."""
    y = np.sin(np.arange(400) * 2 * np.pi / 24) + 0.1 * np.random.default_rng(0).normal(size=400)
    one = Forecaster(spec_of({"target": "y", "every": "1h", "steps": [1, 24], "window": 100, "C": 1.0}))
    slots = np.concatenate([np.arange(60), np.arange(60 + gap, 200 + gap)])
    hours = np.datetime64("2024-01-01T00:00") + 60 * slots
    for begin in range(0, len(slots), size):
        some = zip(hours[begin : begin + size], y[slots[begin : begin + size] % 400].tolist(), strict=True)
        one.observe([{"time": str(time), "y": value} for time, value in some])
    assert one.state == "live"
    assert all(np.isfinite(forecast.value) for forecast in one.latest)


@pytest.mark.parametrize("size", [1, 7, 24, 1000])
def test_gaps_that_are_longer_than_the_history_may_lie_in_one_call(size: int) -> None:
    y = np.random.default_rng(0).normal(size=300).tolist()
    slots = np.concatenate([np.arange(0, 150), 200 * np.arange(1, 61), np.arange(15000, 15090)])
    times = np.datetime64("2024-01-01T00:00") + 15 * slots
    rows = [{"time": str(time), "y": value} for time, value in zip(times, y, strict=True)]
    rows += [{"time": str(times[-1] + 15 * (1 + i)), "y": None} for i in range(400)]
    one = Forecaster(spec_of({"target": "y", "every": "15min", "window": 60, "season": 0, "C": 1.0}))
    for begin in range(0, len(rows), size):
        one.observe(rows[begin : begin + size])
    assert all(np.isfinite(forecast.value) for forecast in one.latest)
