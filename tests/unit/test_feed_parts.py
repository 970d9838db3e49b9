"""What feeds are made of: season, features, scales, bands, scores, drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.feeds import drift
from livesvm.service.feeds.bands import ConformalBand, Side
from livesvm.service.feeds.features import (
    Ahead,
    History,
    calendar_cycles,
    layout_of,
    own_rows,
    seasonal_ends,
    shared_row,
    waves,
)
from livesvm.service.feeds.interval import Every
from livesvm.service.feeds.represent import LEAST_CORE, fitted, has_moved, reference, represented
from livesvm.service.feeds.row_tables import table_of
from livesvm.service.feeds.scores import ScoredForecast, StepScores
from livesvm.service.feeds.season import find_season
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.step_model import Recipe, new_models
from livesvm.service.feeds.timeline import Reading
from livesvm.service.store import codec

HOURLY = Every(seconds=3600.0)


@pytest.mark.parametrize("period", [7, 12, 24, 132])
def test_a_season_is_found_under_noise_and_trend(period: int) -> None:
    random = np.random.default_rng(period)
    t = np.arange(1000)
    shape = random.normal(size=period)
    values = 3 * shape[t % period] + 0.01 * t + random.normal(size=1000)
    assert find_season(values) == period


@pytest.mark.parametrize("seed", range(5))
def test_walks_noise_and_constants_have_no_season(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=1000)
    assert find_season(noise.cumsum()) == 0
    assert find_season(noise) == 0
    assert find_season(np.full(1000, 3.0)) == 0
    assert find_season(noise[:5]) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_natural_season_is_found_where_noise_hides_it(seed: int) -> None:
    random, t = np.random.default_rng(seed), np.arange(1000)
    smooth = np.sin(2 * np.pi * t / 24)
    counts = random.poisson(4 + 3 * smooth).astype(np.float64)
    assert find_season(counts) == 0  # its changes are noise for the most part
    assert find_season(counts, 24) == 24
    assert find_season((50 + 0.1 * t) * (1 + 0.4 * smooth) * np.exp(0.05 * random.normal(size=1000)), 24) == 24
    assert find_season(5.0 * (t % 3) + random.normal(size=1000), 24) == 3  # a shorter one that says as much
    noise = random.normal(size=1000)
    walk = noise.cumsum()
    for other in (walk, walk.cumsum(), np.convolve(noise, np.ones(20), "valid"), np.sin(t / 2.7) + 0.1 * noise):
        assert find_season(other, 24) != 24


def test_rows_hold_lags_rolling_statistics_and_seasonal_values() -> None:
    spec = spec_of({
        "target": "y", "features": ["wind"], "known": ["holiday"], "steps": [1, 5], "lags": [1, 2, 4], "window": 100,
        "rolling": {"mean": [3], "std": [6], "max": [5], "min": [5]}, "generation": 1,
    })  # fmt: skip
    layout = layout_of(spec, 4, HOURLY)
    history, ahead, x = History(101), Ahead(1), np.random.default_rng(0).normal(size=130)
    ahead.announce(131, (7.0,))
    for value in x:
        history.append(value)
    reading = Reading(129, 129 * 3600.0, (x[-1], 0.5, 2.0))
    ahead.reach(129, (2.0,))
    shared = shared_row(layout, history.newest(layout.reach), reading)
    base = np.mean([x[-1], x[-2], x[-4]])
    expected = [x[-1], x[-2], x[-4], base, x[-5:].max(), x[-3:].mean(), x[-5:].min(), x[-6:].std(), 0.5]
    assert sorted(shared) == pytest.approx(sorted(expected))
    assert shared[-2:] == pytest.approx(expected[-2:])
    own = own_rows(layout, spec, HOURLY, None, (history.newest(layout.reach), reading, ahead))
    assert own[:, 0] == pytest.approx([x[-4], x[-4]])  # 1 and 5 ahead have one phase
    assert own[:, 1:-1] == pytest.approx(waves(np.array([130, 134]) * 3600.0, layout.cycles))
    assert own[:, -1].tolist() == [2.0, 7.0]  # the holiday announced for 131 lasts
    changes = represented(layout, "change", shared[None], own[:1])
    assert changes[0, 0] == x[-1]
    assert changes[0, 1 : layout.levels] == pytest.approx(shared[1 : layout.levels] - x[-1])
    assert changes[0, layout.levels : layout.shared] == pytest.approx(shared[layout.levels :])
    assert changes[0, layout.shared] == pytest.approx(x[-4] - x[-1])
    levels = represented(layout, "level", shared[None], own[:1])
    assert levels[0, : layout.levels] == pytest.approx(
        [*(shared[:3] - base), base, *(shared[4 : layout.levels] - base)]
    )
    assert levels[0, layout.shared] == pytest.approx(x[-4] - base)
    ends = [reference(layout, how, shared[None], own[:1])[0] for how in ("change", "level", "seasonal-change")]
    assert ends == pytest.approx([x[-1], base, x[-4]])


def test_rows_of_the_second_generation_hold_earlier_seasons_their_surroundings_and_weekends() -> None:
    spec = spec_of({"target": "y", "steps": [1, 30], "lags": 2, "rolling": {}, "window": 400})
    layout, x = layout_of(spec, 24, HOURLY), np.random.default_rng(1).normal(size=401)
    assert (layout.seasons, layout.phases, layout.spread) == ((24, 168), (24, 48, 168), 24)
    history = History(401)
    for value in x:
        history.append(value)
    reading = Reading(400, (400 + 19) * 3600.0, (float(x[-1]),))  # a Sunday, at 11 o'clock
    shared = shared_row(layout, history.newest(layout.reach), reading)
    day = x[-24:]
    spreads = [day.std(), day.min() - day.mean(), day.max() - day.mean()]
    expected = [x[-1], x[-2], x[-2:].mean(), x[-25], x[-49], x[-169], *spreads]
    assert shared.tolist() == pytest.approx(expected)
    own = own_rows(layout, spec, HOURLY, None, (history.newest(layout.reach), reading, Ahead(0)))
    ends = [400 + 1 - 24, 400 + 30 - 48], [400 + 1 - 168, 400 + 30 - 168]
    around = [
        (season, offset) for season, offset in ((0, 0), (1, 0), (0, -2), (0, -1), (0, 1), (0, 2), (1, -1), (1, 1))
    ]
    for i, (season, offset) in enumerate(around):
        assert own[:, i] == pytest.approx([x[ends[season][k] - offset] for k in (0, 1)])
    assert layout.own_levels == len(around)
    clock = reading.time + 3600.0 * np.array([1, 30])
    assert own[:, len(around) : -2] == pytest.approx(waves(clock, (*calendar_cycles(HOURLY), 43200.0, 28800.0)))
    assert own[:, -2:].tolist() == [[1.0, 1.0], [1.0, 0.0]]
    tuesday = own_rows(
        layout,
        spec,
        HOURLY,
        None,
        (history.newest(layout.reach), reading._replace(time=reading.time + 48 * 3600.0), Ahead(0)),
    )
    assert tuesday[:, -2:].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert layout.reach == 169
    changes = represented(layout, "change", shared[None], own[:1])[0]
    assert changes[3:6] == pytest.approx(shared[3:6] - x[-1])
    assert changes[6:9] == pytest.approx(spreads)
    assert changes[9 : 9 + len(around)] == pytest.approx(own[0, : len(around)] - x[-1])


@pytest.mark.parametrize("season", [3, 7])
def test_the_seasonal_value_is_the_newest_known_of_the_phase(season: int) -> None:
    """Where the step is a whole number of seasons ahead, too: then it is the newest reading."""
    steps = list(range(1, 4 * season + 1))
    layout = layout_of(spec_of({"target": "y", "steps": steps, "window": 200}), season, HOURLY)
    history = History(201)
    for slot in range(150):
        history.append(float(slot))
    found = history.newest(layout.reach)[seasonal_ends(layout, tuple(steps))][:, 0]
    known = [max(slot for slot in range(150) if (149 + step - slot) % season == 0) for step in steps]
    assert found.tolist() == known
    assert found[season - 1] == found[2 * season - 1] == 149


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(0, 9), st.floats(-10, 10))
def test_the_history_is_the_end_of_what_came(values: list[float], back: int, value: float) -> None:
    history = History(10)
    for x in values:
        history.append(x)
    kept = values[-10:]
    assert history.newest(len(kept)).tolist() == kept
    history.correct(back, value)
    if back < len(kept):
        kept[-1 - back] = value
    assert history.newest(len(kept)).tolist() == kept


def test_scales_stand_constants_and_say_when_spread_moves() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), random.normal(size=200)
    X[:, 2] = 5.0
    y[:5] = 1e6  # a few outliers move nothing
    scale = fitted(X, y)
    assert not has_moved(scale, y, X[:, 0])
    assert not has_moved(scale, np.append(y, 1e2), X[:, 0])  # one outlier is no other spread
    assert has_moved(scale, 3 * y, X[:, 0])
    assert has_moved(scale, y, 3 * X[:, 0])
    assert has_moved(scale, 0.3 * y, X[:, 0])
    flat = fitted(np.ones((5, 2)), np.zeros(5))
    assert np.isfinite(flat.width).all()
    assert flat.unit == 1.0
    assert scale.unit < 3
    assert not has_moved(flat, np.zeros(5), np.ones(5))
    assert scale.core == 1.0
    rare = np.where(random.random(200) < 0.1, random.normal(size=200), 0.0)
    assert fitted(X, rare).core == LEAST_CORE


def test_where_two_thirds_of_targets_are_the_same_the_tube_is_narrow() -> None:
    spec = spec_of({"target": "y"})
    (model,) = new_models(spec, Recipe("change", 0.1, 1.0), 0.1)
    (given,) = new_models(spec_of({"target": "y", "epsilon": 0.2}), Recipe("change", 0.1, 1.0), 0.1)
    assert vars(model)["epsilon"] == pytest.approx(0.005)
    assert vars(given)["epsilon"] == 0.2


@pytest.mark.parametrize("coverage", [0.8, 0.9])
@pytest.mark.parametrize("kind", ["noise", "skewed", "drifting", "trend"])
def test_bands_hold_their_share_whatever_comes(coverage: float, kind: str) -> None:
    random, n = np.random.default_rng(3), 4000
    errors = {
        "noise": random.normal(size=n),
        "skewed": random.exponential(size=n) ** 2,
        "drifting": random.normal(size=n) * np.exp(np.linspace(0, 5, n)),
        "trend": random.normal(size=n) + np.linspace(0, 50, n),
    }[kind]
    band, hits = ConformalBand(coverage, 500), []
    for error in errors:
        around = band.around(10.0, 10.0)
        if around.low is not None and around.high is not None:
            hits.append(around.low <= 10.0 + error <= around.high)
        band.learn(10.0 + error, 10.0, 10.0, around)
    assert coverage - 0.02 < np.mean(hits) < coverage + 0.04  # behind a trend one side is too far out


@pytest.mark.parametrize("miss", [0.05, 0.1, 0.25])
def test_of_exchangeable_scores_no_more_lie_beyond_a_side_than_may(miss: float) -> None:
    """Each of n + 1 in turn is the one to come; only so many are beyond as the quantile of n with n + 1 allows."""
    for n in range(round(1 / miss), 80):
        scores, beyond = np.random.default_rng(n).permutation(n + 1).astype(np.float64).tolist(), 0
        for newest in range(n + 1):
            side = Side(miss, n)
            side.take(np.array(scores[:newest] + scores[newest + 1 :]))
            offset = side.offset()
            assert offset is not None
            beyond += scores[newest] > offset
        assert miss * (n + 1) - 1 - 1e-9 <= beyond <= miss * (n + 1) + 1e-9


def test_a_side_says_whether_it_forgets_scores_from_before() -> None:
    side = Side(0.1, 10)
    side.take(np.array([1.0, 3.0, 2.0]))
    assert not side.forget(np.array([True, False, False]))
    assert list(side.scores) == [3.0, 2.0]
    assert side.forget(np.array([False]))
    assert list(side.scores) == [2.0]


def test_residuals_that_a_band_begins_with_again_are_its_oldest() -> None:
    band = ConformalBand(0.9, 5)
    for actual in (1.0, 2.0, 3.0):
        band.learn(actual, 0.0, 0.0, band.around(0.0, 0.0))
    band.reseed(np.arange(10.0, 14.0), np.arange(20.0, 24.0))
    assert list(band.sides[0].scores) == [-12.0, -13.0, -1.0, -2.0, -3.0]
    assert list(band.sides[1].scores) == [22.0, 23.0, 1.0, 2.0, 3.0]


def test_bands_are_kept() -> None:
    band = ConformalBand(0.9, 20)
    for error in np.random.default_rng(0).normal(size=50):
        band.learn(error, 0.0, 0.0, band.around(0.0, 0.0))
    back = ConformalBand(0.9, 20)
    back.restore(band.to_arrays())
    assert back.around(0.0, 1.0) == band.around(0.0, 1.0)
    for error in np.random.default_rng(1).normal(size=50):
        for one in (band, back):
            one.learn(error, 0.0, 0.0, one.around(0.0, 0.0))
    assert back.around(0.0, 1.0) == band.around(0.0, 1.0)


def test_scores_are_those_of_their_definitions() -> None:
    random = np.random.default_rng(0)
    made = random.normal(size=(70, 5))
    scores = StepScores(0.9, 30)
    rows = [
        ScoredForecast(i, i, i - 1, v, v - 1, v + 1, a, last, s, d, v, s) for i, (v, a, last, s, d) in enumerate(made)
    ]
    for start in range(0, 70, 10):
        scores.learn(rows[start : start + 10])
    for found, (v, a, last, s, d) in ((scores.overall, made.T), (scores.lately, made[-30:].T)):
        value, direction = found("value"), found("direction")
        assert value["mae"] == pytest.approx(np.abs(v - a).mean())
        assert value["rmse"] == pytest.approx(np.sqrt(((v - a) ** 2).mean()))
        assert value["mase"] == pytest.approx(np.abs(v - a).mean() / np.abs(s - a).mean())
        assert value["last_value_mae"] == pytest.approx(np.abs(last - a).mean())
        assert value["coverage"] == pytest.approx((np.abs(v - a) <= 1).mean())
        assert value["width"] == pytest.approx(2.0)
        loss = [max(q * (a_ - e), (q - 1) * (a_ - e)) for a_, v_ in zip(a, v, strict=True)
                for q, e in ((0.05, v_ - 1), (0.95, v_ + 1))]  # fmt: skip
        assert value["pinball"] == pytest.approx(np.mean(loss))
        assert direction["accuracy"] == pytest.approx(((v > 0) == (a > last)).mean())
        assert direction["last_change_accuracy"] == pytest.approx(((d > 0) == (a > last)).mean())
    back = StepScores(0.9, 30)
    back.restore(scores.to_arrays())
    assert back.lately("value") == scores.lately("value")
    for one in (scores, back):
        one.learn(rows[:7])
    assert back.recent.tolist() == scores.recent.tolist() == [[*row[:-1]] for row in (*rows[47:], *rows[:7])]
    which = np.arange(30) % 3 == 0
    before = scores.overall("value")
    kept, gone = scores.recent[~which].copy(), scores.recent[which].copy()
    scores.forget(which)
    assert scores.recent.tolist() == kept.tolist()
    assert scores.overall("value")["n"] == before["n"] - 10
    errors = 77 * before["mae"] - np.abs(gone[:, 3] - gone[:, 6]).sum()
    assert scores.overall("value")["mae"] == pytest.approx(errors / 67)
    assert StepScores(None, 5).overall("value") == {"n": 0, "ahead": None}


def test_a_record_as_it_was_stays_so_whatever_is_learnt() -> None:
    random = np.random.default_rng(0)
    scores, kept = StepScores(0.9, 50), []
    for i, (v, a, last, s, d) in enumerate(random.normal(size=(200, 5))):
        scores.learn([ScoredForecast(i, i, i - 1, v, v - 1, v + 1, a, last, s, d, v, s)])
        kept.append((scores.as_now(), scores.recent.tolist(), scores.overall("value")))
    assert len(kept[-1][1]) == 50
    for then, recent, overall in kept:
        assert (then.recent.tolist(), then.overall("value")) == (recent, overall)


@pytest.mark.parametrize(
    ("value", "last", "seasonal", "ahead"),
    [
        (1, 2, 3, "model"),
        (1, 1, 1, "model"),
        (3, 1, 2, "last value"),
        (3, 2, 1, "seasonal value"),
        (2, 3, 1, "seasonal value"),
    ],
)
def test_the_least_error_is_ahead(value: float, last: float, seasonal: float, ahead: str) -> None:
    scores = StepScores(None, 5)
    scores.learn([ScoredForecast(0, 0.0, 0.0, value, np.nan, np.nan, 0.0, last, seasonal, 0.0, value, seasonal)])
    assert scores.overall("value")["ahead"] == ahead


@pytest.mark.parametrize("step", [1, 3])
def test_drift_is_announced_once_errors_have_grown(step: int) -> None:
    random, (test,) = np.random.default_rng(0), drift.tests_of([step])
    errors = np.abs(np.convolve(random.normal(size=3000 + step - 1), np.ones(step), "valid"))  # as h steps ahead
    assert not any(drift.learn(test, step, slot, error) is not None for slot, error in enumerate(errors))
    found = [drift.learn(test, step, slot, 10 * abs(e)) for slot, e in enumerate(random.normal(size=100 * step))]
    reported = [(slot, since) for slot, since in enumerate(found) if since is not None]
    assert len(reported) == 1  # it then knows nothing, and takes the errors for usual
    assert reported[0][0] < 40 * step
    assert abs(reported[0][0] - reported[0][1]) <= 5 * step
    (back,) = drift.tests_of([step])
    drift.restore(back, codec.decode(codec.encode(test.to_arrays())))
    assert codec.encode(back.to_arrays()) == codec.encode(test.to_arrays())


def test_a_drift_test_of_another_kind_begins_again() -> None:
    (test,) = drift.tests_of([1])
    drift.restore(test, {"n": 100, "mean": 1.0, "sum": 3.0, "least": 0.0})
    assert test.n == 0


def test_a_column_of_numbers_is_kept_as_an_array_whatever_their_size() -> None:
    rows: list[dict[str, Any]]
    rows = [{"a": 1, "b": None, "c": 10**400, "d": True}, {"a": 2.5, "b": 2**60 + 1, "c": None, "d": 1.0}]
    columns = table_of(rows)["columns"]
    for name, found in {"a": [1.0, 2.5], "b": [np.nan, 2.0**60], "c": [np.inf, np.nan]}.items():
        np.testing.assert_array_equal(columns[name], np.array(found))
    assert columns["d"] == [True, 1.0]
