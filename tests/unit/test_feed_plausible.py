"""Readings far from all before them, new levels, and values that can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from livesvm.service.feeds.first_forecasts import naive_forecast
from livesvm.service.feeds.forecaster import FeedOutcome, Forecaster
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.plausible import Bounds, Plausibility, bounds_of, hanging, is_of_hanging
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of, stored_spec
from livesvm.service.feeds.timeline import Reading
from tests.support.feeds import FEED, rows_of, series

Floats = NDArray[np.float64]
SETTINGS = FEED | {"window": 100, "C": 1.0, "gamma": 0.02, "represent": "change"}


def fed(y: Floats, size: int = 1, **settings: Any) -> tuple[Forecaster, list[FeedOutcome]]:
    """Return a feed that took a series, so many readings to a call, and what came of each call."""
    one, rows = Forecaster(spec_of(SETTINGS | settings)), rows_of(y)
    return one, [one.observe(rows[at : at + size]) for at in range(0, len(rows), size)]


def held(values: Floats, readings: list[float]) -> list[bool]:
    """Say which readings behind values are suspected."""
    came = [Reading(len(values) + i, float(i), (value,)) for i, value in enumerate(readings)]
    return [one.held for one in Plausibility(1000).judge(values, came).readings]


NOISE = np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize(
    ("values", "readings", "expected"),
    [
        (NOISE, [1e9, 0.0], [True, False]),
        (NOISE, [-12.0, 0.0], [True, False]),
        (NOISE, [5.0], [False]),
        (NOISE, [1e9, -1e9, 0.0], [True, True, False]),
        (NOISE, [30.0, 31.0, 30.5], [True, False, False]),  # a new level, whose first reading is in the history
        (np.exp(4.0 * NOISE / 3.0), [-9.0, 1.0, -0.5], [True, False, False]),  # nothing below 0 was seen
        (NOISE[:7], [1e9], [False]),  # too little is known
        (NOISE[:20], [1e9], [True]),
        (NOISE[:20], [10.0], [False]),
        (np.arange(200.0), [150.0, 200.0], [True, False]),  # within the range, and three times the largest change
        (np.repeat([5.0, 8.0], 50), [20.0], [False]),  # mostly still: steps have any size
        (np.full(100, 5.0), [8.0, 1e9], [False, True]),
        (np.zeros(100), [3.0, 0.0], [True, False]),
        (np.append(np.zeros(100), 3.0), [40.0], [False]),
    ],
)
def test_what_is_suspected(values: Floats, readings: list[float], expected: list[bool]) -> None:
    assert held(values, readings) == expected


def test_what_comes_often_is_what_the_series_does() -> None:
    readings = np.tile([*[0.0] * 9, 20.0], 20) + np.random.default_rng(1).normal(size=200)
    assert sum(held(NOISE, readings.tolist())) == 3  # a hundredth of what is known by then


@pytest.mark.parametrize("size", [1, 12])
@pytest.mark.parametrize("at", [30, 150])
def test_one_bad_reading_is_announced_and_leaves_nothing_behind(at: int, size: int) -> None:
    y = series(240)
    bad = y.copy()
    bad[at] = 1e9
    (clean, _), (one, outcomes) = fed(y, size), fed(bad, size)
    events = [event for outcome in outcomes for event in outcome.events if event.kind == "suspected"]
    assert [(event.slot, event.detail["value"]) for event in events] == [(at, 1e9)]
    for mine, other in zip(one.latest, clean.latest, strict=True):
        assert mine.value == pytest.approx(other.value, abs=0.3)
        widths = [(each.high or 0.0) - (each.low or 0.0) for each in (mine, other)]
        assert 0.0 < widths[0] < 1.3 * widths[1]
    for scores in one.scores:
        assert at not in scores.recent[:, 0]
        assert scores.overall("value")["mae"] < 1.0
    kept = [past.values for past in one.timeline.past.values() if past.slot == at]
    assert kept == ([(1e9,)] if at > 139 else [])  # the reading is as it came
    assert one.gap() < 1e-9
    learnt, _ = fed(bad, size, outliers="learn")
    assert learnt.scores[0].overall("value")["mae"] > 1e6 or at < 100


def test_a_gap_behind_a_bad_reading_holds_the_last_good_one() -> None:
    y = series(150)
    y[120] = 1e9
    one, rows = Forecaster(spec_of(SETTINGS)), rows_of(y)
    one.observe(rows[:121])
    one.observe(rows[124:125])
    assert one.history.newest(5)[:4].tolist() == [y[119]] * 4


@pytest.mark.parametrize("size", [1, 24])
def test_bands_are_back_soon_after_a_new_level(size: int) -> None:
    y = series(300)
    moved = y.copy()
    moved[200:] += 60.0
    (clean, _), (one, outcomes) = fed(y, size), fed(moved, size)
    assert "shifted" in [event.kind for outcome in outcomes for event in outcome.events]
    for mine, other in zip(one.scores, clean.scores, strict=True):
        later = mine.recent[:, 0] >= 240
        widths = [(rows[later, 5] - rows[later, 4]).mean() for rows in (mine.recent, other.recent)]
        assert widths[0] < 2.5 * widths[1]
        errors = [np.abs(rows[later, 3] - rows[later, 6]).mean() for rows in (mine.recent, other.recent)]
        assert errors[0] < 2.0 * errors[1]
    assert one.gap() < 1e-9


@pytest.mark.parametrize(("bad", "at", "count"), [(1e9, 150, 2), (-999.0, 150, 5), (1e9, 60, 3), (-999.0, 60, 2)])
def test_bad_readings_in_a_row_are_a_level_that_ends(bad: float, at: int, count: int) -> None:
    y = series(220)
    wrong = y.copy()
    wrong[at : at + count] = bad
    (clean, expected), (one, outcomes) = fed(y), fed(wrong)
    first, second = one.plausibility.shifts
    assert (first.slot, second.slot, second.change) == (at, at + count, -first.change)
    for i in range(at + count, 220):
        for mine, other in zip(outcomes[i].forecasts, expected[i].forecasts, strict=True):
            assert mine.value == pytest.approx(other.value, abs=3.0)
    for mine, other in zip(one.latest, clean.latest, strict=True):
        assert mine.value == pytest.approx(other.value, abs=0.5)
        widths = [(each.high or 0.0) - (each.low or 0.0) for each in (mine, other)]
        assert 0.0 < widths[0] < 2.0 * widths[1]
    if forget(one, {one.timeline.newest.time - (219 - at) * 3600.0}):  # of the window
        assert one.plausibility.shifts == []


def test_a_flood_that_recedes_is_no_new_level() -> None:
    flood = NOISE[:40] + np.append(0.0, 200.0 * 0.8 ** np.arange(39))
    readings = [Reading(200 + i, float(i), (value,)) for i, value in enumerate(flood.tolist())]
    first, second = Plausibility(1000).judge(NOISE, readings).plausibility.shifts
    assert (first.slot, first.change) == (201, -second.change)
    assert 203 <= second.slot < 210


LEVELS: dict[str, Any] = {"window": 200, "season": 24, "represent": "seasonal-change", "steps": [1, 24]}


def sine(n: int, change: float = 0.0, at: int = 0) -> Floats:
    """Return days of a noisy sine, which are higher by ``change`` from ``at`` on."""
    found = 20.0 + 5.0 * np.sin(2.0 * np.pi * np.arange(n) / 24) + 0.3 * np.random.default_rng(0).normal(size=n)
    return found + change * (np.arange(n) >= at)


def check_as_plain(one: Forecaster, plain: Forecaster, begin: int, wider: float) -> None:
    """Check errors and bands of forecasts from slot ``begin`` on against those of a series without the trouble."""
    for mine, other, step in zip(one.scores, plain.scores, one.steps, strict=True):
        later = mine.recent[:, 0] - step >= begin
        widths = [np.median(rows[later, 5] - rows[later, 4]) for rows in (mine.recent, other.recent)]
        assert widths[0] < wider * widths[1]
        errors = [np.abs(rows[later, 3] - rows[later, 6]).mean() for rows in (mine.recent, other.recent)]
        assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("represent", ["seasonal-change", "level"])
@pytest.mark.parametrize(("change", "size"), [(2.4, 1), (-2.4, 1), (2.4, 24)])
def test_a_level_shift_within_the_range_is_over_after_forty_readings(change: float, size: int, represent: str) -> None:
    settings = LEVELS | {"represent": represent}
    (plain, _), (one, outcomes) = fed(sine(528), size, **settings), fed(sine(528, change, 400), size, **settings)
    found = [(event.slot, event.kind) for outcome in outcomes for event in outcome.events]
    assert [slot for slot, kind in found if kind == "shifted"] == [411 if size == 1 else 431]
    (shift,) = one.plausibility.shifts
    assert shift.slot == 400
    assert shift.change == pytest.approx(change, abs=0.3)
    check_as_plain(one, plain, 440, wider=1.5)
    assert one.gap() < 1e-9
    assert one.rows is not None
    values = one.plausibility.levelled(one.history.newest(one.history.count), one.entered)
    newest = one.rows.count - 100
    assert one.rows.shared[newest % one.rows.size, 0] == values[-100]  # of before the shift, raised
    assert from_arrays(one.spec, to_arrays(one)).plausibility.shifts == one.plausibility.shifts


def test_a_sensor_that_hung_is_no_level_and_leaves_little_behind_after_forty_readings() -> None:
    hung = sine(560)
    hung[400:424] = hung[400]
    (plain, _), (one, outcomes) = fed(sine(560), **LEVELS), fed(hung, **LEVELS)
    assert not [event for outcome in outcomes for event in outcome.events if event.kind in ("shifted", "suspected")]
    check_as_plain(one, plain, 464, wider=2.5)


def test_what_hangs() -> None:
    still = np.concatenate([NOISE, np.full(5, 2.0), NOISE, np.full(30, 1.0)])
    found = [hanging(still[:n]) for n in range(1, len(still) + 1)]
    assert found == [0] * 416 + list(range(12, 31))
    assert [is_of_hanging(still[:n], 24) for n in (416, 417, 435)] == [False, True, True]
    for after in (1, 24, 30):  # forecasts that were made while it hung, and after that
        assert is_of_hanging(np.append(still, NOISE[:after]), 24) == (after <= 24)
    assert hanging(np.tile(np.repeat([0.0, 1.0], 14), 20)) == 0  # as ever
    assert hanging(np.zeros(100)) == 0


def test_a_shift_that_errors_have_shown_is_erased_with_any_reading_before_it() -> None:
    one, _ = fed(sine(430, 2.4, 400), **LEVELS)
    assert len(one.plausibility.shifts) == 1
    assert forget(one, {one.timeline.newest.time - 100 * 3600.0}) == 1
    assert (one.plausibility.shifts, one.rows is None) == ([], False)
    assert one.rows is not None
    held, layout = one.history.newest(one.history.count), one.rows.layout
    for slot, ordinal in one.rows.by_slot.items():
        assert one.rows.shared[ordinal % one.rows.size, : len(layout.lags)] == pytest.approx(
            held[slot - np.array(layout.lags) + 1]
        )
    targets = one.rows.target[one.rows.places(one.rows.known(1)), 1]
    assert targets == pytest.approx(held[[slot + 24 for slot in one.rows.slot[one.rows.places(one.rows.known(1))]]])
    assert one.gap() < 1e-9


def test_errors_show_a_level_shift_where_levels_do_not_wander() -> None:
    draw = np.random.default_rng(1)
    noise, wander = draw.normal(size=1000) / 2.0, np.zeros(1000)
    for i in range(1, 1000):
        wander[i] = 0.97 * wander[i - 1] + draw.normal()
    plain = Plausibility(1000)
    for errors in (noise, wander, np.repeat(draw.normal(size=10), 100), np.zeros(1000)):
        assert [plain.settled(errors[:n], errors, 24, n, 0) for n in range(100, 1000)] == [None] * 900
    for change in (4.0, -4.0):
        moved = noise[:500] + change * (np.arange(500) >= 485)
        assert plain.settled(moved[:496], moved, 24, 495, 0) is None
        found = plain.settled(moved, moved, 24, 499, 0)
        assert found is not None
        assert (found.slot, found.known) == (485, 499)
        assert found.change == pytest.approx(change, abs=0.8)
        assert plain.settled(moved, moved, 24, 499, 48) is None  # half a season are 24
        assert plain.settled(moved, np.append(noise[:450], np.zeros(50)), 24, 499, 0) is None  # a sensor that hangs
        assert plain.settled(np.append(noise[:490], np.full(10, change)), noise, 24, 499, 0) is None


def test_levels_of_older_feeds_are_read() -> None:
    one = Plausibility(100)
    one.restore({"suspects": np.empty((0, 3)), "shifts": np.array([[7.0, 2.5]]), "is_open": False})
    assert one.shifts == [(7, 2.5, 7)]


def test_levels_that_come_often_are_no_shifts() -> None:
    came = np.concatenate([NOISE, np.tile(np.repeat([60.0, 0.0], 10), 6) + NOISE[:120]])
    readings = [Reading(200 + i, float(i), (value,)) for i, value in enumerate(came[200:].tolist())]
    verdict = Plausibility(1000).judge(NOISE, readings)
    assert [one.slot for one in verdict.plausibility.shifts][:4] == [200, 210, 220, 230]
    assert 4 <= len(verdict.plausibility.shifts) <= 6


def test_a_level_shift_is_the_change_from_the_season() -> None:
    wave = 10.0 * np.sin(2 * np.pi * np.arange(130) / 24)
    came = [Reading(110 + i, float(i), (value + 70.0,)) for i, value in enumerate(wave[110:].tolist())]
    found = [Plausibility(1000).judge(wave[:110], came, season).plausibility.shifts for season in (24, 0)]
    assert [one.slot for shifts in found for one in shifts] == [110, 110]
    assert found[0][0].change == pytest.approx(70.0)
    assert abs(found[1][0].change - 70.0) > 2.0


def test_models_of_the_next_smaller_window_know_a_level_shift() -> None:
    y = series(100)
    moved = y.copy()
    moved[70:] += 60.0
    (clean, _), (one, _) = fed(y, window=200), fed(moved, window=200)
    assert one.early is not None
    assert one.early.spec.window == 80
    assert one.early.plausibility.shifts == one.plausibility.shifts != []
    for mine, other in zip(one.latest, clean.latest, strict=True):
        assert (mine.high or 0.0) - (mine.low or 0.0) < 2.0 * ((other.high or 0.0) - (other.low or 0.0))


def test_a_snapshot_goes_on_with_suspects_and_levels() -> None:
    y = series(260)
    y[150:] += 60.0
    y[[120, 199]] = 1e9
    one, _ = fed(y[:200])
    back = from_arrays(one.spec, to_arrays(one))
    assert (back.plausibility.open, back.plausibility.shifts) == (one.plausibility.open, one.plausibility.shifts)
    for row in rows_of(y)[200:]:
        found, expected = ([each.value for each in feed.observe([row]).forecasts] for feed in (back, one))
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_suspected_reading_is_corrected_and_erased_as_others_are() -> None:
    y = series(200)
    y[150] = 1e9
    one, _ = fed(y, late="correct")
    one.observe([rows_of(series(200))[150]])
    assert one.plausibility.suspects == []
    assert one.history.newest(50)[0] == series(200)[150]
    one, _ = fed(y)
    time = one.timeline.newest.time - 49 * 3600.0
    assert forget(one, {time}) == 1
    assert one.plausibility.suspects == []
    assert not any(np.abs(value).max(initial=0.0) > 1e8 for name, value in to_arrays(one).items()
                   if isinstance(value, np.ndarray) and value.dtype == float and "time" not in name
                   and name.split(".")[0] in ("history", "rows", "plausibility"))  # fmt: skip


@pytest.mark.parametrize("size", [1, 10])
def test_forecasts_of_a_step_stay_within_it(size: int) -> None:
    _, outcomes = fed(np.repeat([5.0, 8.0, 6.0], [150, 60, 60]), size, steps=[1, 24])
    for outcome in outcomes:
        for one in outcome.forecasts:
            assert 5.0 <= one.value <= 8.0


@pytest.mark.parametrize(("settings", "least"), [({}, 0.0), ({"minimum": 2.0}, 2.0), ({"minimum": None}, None)])
def test_forecasts_experts_and_bands_are_values_that_can_be(settings: dict[str, Any], least: float | None) -> None:
    y = np.maximum(0.0, 3 * np.sin(np.arange(300) / 4)) + np.random.default_rng(0).random(300)
    y = np.maximum(y, least or 0.0) + 1e-3
    _, outcomes = fed(y, 5, maximum=3.5, outliers="learn", **settings)
    told = [one for outcome in outcomes[30:] for one in outcome.forecasts]
    low = [number for one in told for number in (one.value, one.low, *one.experts) if number is not None]
    assert max(number for one in told for number in (one.value, one.high, *one.experts) if number is not None) <= 3.5
    assert (min(low) < 0.0) if least is None else (min(low) >= least)


def test_limits_are_checked_and_older_feeds_have_none() -> None:
    with pytest.raises(ValidationError, match="below the maximum"):
        spec_of({"target": "y", "minimum": 3.0, "maximum": 2.0})
    old = stored_spec('{"target": "y", "generation": 2}')
    assert (old.minimum, old.maximum, old.outliers) == (None, None, "learn")
    y = series(150)
    one, outcomes = fed(y, maximum=float(y[120]) - 0.01)
    assert 120 in [event.slot for outcome in outcomes for event in outcome.events if event.kind == "suspected"]
    assert max(forecast.value for forecast in one.latest) < y[120]


@pytest.mark.parametrize("window", [1000, 48])
def test_rare_demand_is_forecast_as_zero_and_a_duty_is_not(window: int) -> None:
    random = np.random.default_rng(3)
    y = np.where(random.random(110) < 0.05, random.poisson(2, 110) + 1.0, 0.0)
    one = Forecaster(spec_of({"target": "y", "every": "1mo", "window": window}))
    rows = [{"time": f"{2000 + i // 12}-{i % 12 + 1:02d}-01", "y": value} for i, value in enumerate(y.tolist())]
    made = [one.observe([row]).forecasts for row in rows]
    errors = [abs(forecasts[0].value - value) for forecasts, value in zip(made[12:-1], y[13:], strict=True)]
    assert np.mean(errors) <= y[13:].mean()
    assert made[-1][0].served == "zero"
    known = np.where(np.arange(60) == 48, np.nan, 0.0)
    rare = Bounds(0.0, 9.0, 1.0)
    assert naive_forecast(np.append(known, 5.0), 12, 0, 0.9, rare).served == "zero"  # what 5 came after is not known
    assert all(forecasts[0].low == 0.0 for forecasts in made[12:])
    duty = np.tile([0.0] * 14 + [5.0] * 10, 9)
    _, outcomes = fed(duty, season=24, steps=[1])
    right = [
        abs(outcome.forecasts[0].value - value) < 0.5
        for outcome, value in zip(outcomes[120:], duty[121:], strict=False)
    ]
    assert np.mean(right) > 0.9


def monthly(y: Floats, **settings: Any) -> list[FeedOutcome]:
    """Return what came of each call of a feed that takes a series month by month."""
    one = Forecaster(spec_of({"target": "y", "every": "1mo", "steps": [1, 6, 12], **settings}))
    return [
        one.observe([{"time": f"{2000 + i // 12}-{i % 12 + 1:02d}-01", "y": value}])
        for i, value in enumerate(y.tolist())
    ]


@pytest.mark.parametrize("window", [1000, 48])
def test_a_series_of_zeros_says_0_and_random_demand_nearly_always(window: int) -> None:
    for outcome in monthly(np.zeros(110), window=window)[8:]:
        assert [(one.value, one.low, one.high) for one in outcome.forecasts] == [(0.0, 0.0, 0.0)] * 3
    random = np.random.default_rng(2)
    told = []
    for _ in range(4):
        y = np.where(random.random(110) < 0.05, random.poisson(9, 110) + 1.0, 0.0)
        told += [one for outcome in monthly(y, window=window)[8:] for one in outcome.forecasts]
    assert np.mean([one.value == 0.0 for one in told]) > 0.97
    assert all(one.low == 0.0 for one in told)


@pytest.mark.parametrize("window", [1000, 60])
def test_demand_that_is_foreseen_is_forecast_and_one_that_ended_is_not(window: int) -> None:
    december = np.where(np.arange(120) % 12 == 11, 7.0, 0.0)
    runs = np.tile(np.repeat([0.0, 4.0], [20, 10]), 4)
    for y, step, wrong in ((december, 0, 0.2), (december, 1, 0.2), (december, 2, 0.2), (runs, 0, 0.5)):
        told = [outcome.forecasts[step] for outcome in monthly(y, window=window)[60:]]
        actual = y[60 + told[0].step :]
        value = np.array([one.value for one in told[: len(actual)]])
        assert np.abs(value - actual).mean() <= wrong * actual.mean()
    ended = np.append(december[:60], np.zeros(60))
    assert not any(one.value for outcome in monthly(ended, window=window)[90:] for one in outcome.forecasts)


def test_rare_values_of_naive_forecasts_are_as_they_came() -> None:
    random = np.random.default_rng(5)
    y = np.where(random.random(100) < 0.4, random.poisson(3, 100) + 0.1, 0.0)
    served = [
        (one.served, one.value, {*y[: at + 1].tolist()})
        for at, outcome in enumerate(monthly(y, window=60))
        for one in outcome.forecasts
    ]
    assert {"zero", "last-value"} <= {how for how, _, _ in served}
    assert all(value in known for how, value, known in served if how in ("zero", "last-value", "seasonal-naive"))


@pytest.mark.parametrize("settings", [{"minimum": 1.0, "maximum": 3.5}, {"minimum": 0.0, "maximum": 2.0}])
def test_no_limit_is_passed_at_any_step_early_or_late(settings: dict[str, Any]) -> None:
    random, least = np.random.default_rng(6), settings["minimum"]
    for y in (np.where(random.random(100) < 0.3, 3.0, least), least + 2.0 * random.random(100)):
        told = [one for outcome in monthly(y, window=60, **settings) for one in outcome.forecasts]
        said = [number for one in told for number in (one.value, one.low, one.high) if number is not None]
        assert len(told) > 250
        assert least <= min(said)
        assert max(said) <= settings["maximum"]


def test_what_older_feeds_know_of_zero_is_read() -> None:
    y = np.tile([0.0] * 14 + [5.0] * 10, 9)
    one, _ = fed(y, season=24, steps=[1])
    arrays = to_arrays(one)
    assert arrays.pop("blend.0.lead")[0] > 0.0
    old = from_arrays(one.spec, arrays | {"blend.0.rare": np.array([1.0, 99.0])})
    assert old.blends[0].lead == (98.0, 0.0)


def test_a_first_night_is_no_rare_demand() -> None:
    spec = spec_of({"target": "y"})
    assert bounds_of(np.append(np.zeros(10), 3.0), spec).zero is not None
    assert bounds_of(np.append(np.zeros(10), [3.0, 4.0]), spec).zero is None
    assert bounds_of(np.append(np.zeros(10), [3.0, 0.0, 4.0]), spec).zero is not None
    assert bounds_of(np.append(np.zeros(10), [3.0, 4.0, *np.zeros(8)]), spec).zero is not None
