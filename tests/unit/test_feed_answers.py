"""What feeds are asked: the past, readings by their times, times as they are written, settings at their limits."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.feeds import past_forecasts, presenter
from livesvm.service.feeds.cells import cell
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.past_forecasts import PastForecastsQuery, look_back
from livesvm.service.feeds.scores import ScoredForecast
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Timeline
from livesvm.service.feeds.times import at_place, parse, zone_of
from livesvm.service.feeds.wanted import WantedReadings
from livesvm.service.jobs import feed_work
from livesvm.solvers.errors import Cancelled, InvalidInput
from tests.support.feeds import FEED, rows_of, series

HOUR = 3600.0
STEPS = (1, 3)


@pytest.fixture(scope="module")
def looked_at() -> tuple[Forecaster, dict[tuple[int, float], ScoredForecast]]:
    """A feed with a missing reading, and everything that was scored, by step and time."""
    feed, scored = Forecaster(spec_of(FEED | {"steps": list(STEPS), "C": 1.0, "gamma": 0.05})), {}
    y = series(130)
    y[115] = np.nan
    rows = [row | {"y": None if math.isnan(row["y"]) else row["y"]} for row in rows_of(y)]
    for begin in range(0, 130, 10):
        for step, one in feed.observe(rows[begin : begin + 10]).scored:
            scored[step, one.time] = one
    return feed, scored


@given(
    st.integers(1, 130), st.integers(1, 20), st.none() | st.integers(0, 130), st.none() | st.integers(0, 130),
    st.sampled_from([None, *STEPS]), st.sampled_from([5, 20, 50_000]),
)  # fmt: skip
def test_the_past_is_reported_newest_readings_first_to_go_and_evenly_thinned(
    looked_at: tuple[Forecaster, dict[tuple[int, float], ScoredForecast]],
    limit: int, points: int, begin: int | None, end: int | None, step: int | None, most: int,
) -> None:  # fmt: skip
    feed, scored = looked_at
    times = list(feed.timeline.past)
    first, last = (None if slot is None else times[0] + (slot - 60) * HOUR for slot in (begin, end))
    there = [t for t in times if (first is None or t >= first) and (last is None or t <= last)][-limit:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(past_forecasts, "MOST_FORECASTS", most)
        found = look_back(feed, PastForecastsQuery(limit, first, last, step, points))
    steps = STEPS if step is None else (step,)
    every = math.ceil(len(there) / min(points, most // len(steps))) or 1
    kept = [t for back, t in enumerate(reversed(there)) if back % every == 0][::-1]
    assert found["every"] == every
    assert [row["time"] for row in found["rows"]] == [presenter.time_of(feed.timeline, t) for t in kept]
    for time, row in zip(kept, found["rows"], strict=True):
        past = feed.timeline.past[time]
        assert (row["held"], row["value"]) == (past.held, None if past.held else past.values[0])
        expected = [(h, scored[h, time]) for h in steps if (h, time) in scored]
        assert row["forecasts"] == [presenter.forecast_made(feed.timeline, h, one) for h, one in expected]


def test_a_step_that_is_no_step_is_refused_with_those_that_are(looked_at: Any) -> None:
    with pytest.raises(InvalidInput, match=r"1, 3$"):
        look_back(looked_at[0], PastForecastsQuery(1, step=2))
    one = Forecaster(spec_of(FEED | {"steps": 9}))
    with pytest.raises(InvalidInput, match=r"1, 2, 3, 4, 5, 6, 7, 8, \.\.\.$"):
        look_back(one, PastForecastsQuery(1, step=10))


@pytest.mark.parametrize("has_left", [False, True])
@pytest.mark.parametrize(("begin", "end"), [*itertools.product([None, 0, 3, 5, 9], repeat=2)])
def test_readings_are_wanted_by_their_times_or_a_range(has_left: bool, begin: int | None, end: int | None) -> None:
    line = Timeline(spec_of({"target": "y", "time": None, "window": 40}), 40)
    line = line.read([{"y": float(i)} for i in range(43 if has_left else 8)]).timeline
    readings = {f"{t:g}": t for t in line.past}
    oldest = 3 if has_left else -1
    for asked in ((), ("4",), ("2", "5"), ("99", "6")):
        times = {float(text) for text in asked}
        in_range = {t for t in line.past if begin is not None or end is not None}
        in_range = {t for t in in_range if t >= (begin or 0) and (end is None or t <= end)}
        before = [str(t) for t in map(float, asked) if has_left and t < oldest]
        if has_left and (begin is not None or end is not None) and (begin or 0) < oldest:
            before.append("before the oldest")
        expected = [*before, *(name for name, t in readings.items() if t in in_range | times)]
        wanted = WantedReadings(asked, *(None if t is None else str(t) for t in (begin, end)))
        if not expected:
            with pytest.raises(InvalidInput):
                wanted.among(line, readings)
            continue
        missing = [text for text in asked if float(text) not in line.past and float(text) >= oldest]
        assert wanted.among(line, readings) == (expected, missing)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Tokyo"])
@pytest.mark.parametrize("month", [3, 4, 10, 11])
def test_local_times_in_order_are_all_times_there_are(zone: str, month: int) -> None:
    place, newest = ZoneInfo(zone), None
    for quarter in range(0, 30 * 96):
        time = datetime(2024, month, 1, tzinfo=UTC) + timedelta(minutes=15 * quarter)
        wall = time.astimezone(place).replace(tzinfo=UTC).timestamp()
        newest = at_place(wall, place, newest, "time", 0)
        assert newest == time.timestamp()
        alone = at_place(wall, zone_of(zone), None, "time", 0)
        assert alone == time.astimezone(place).replace(fold=0).timestamp()


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("seconds", [1e8, 1.7e9, 9.9e10, -9e8])
def test_epochs_in_finer_units_are_the_same_times(unit: int, seconds: float) -> None:
    if abs(seconds) * unit >= 1e11 or unit == 1:
        for written in (seconds * unit, f"{seconds * unit:.0f}"):
            assert parse(written, "time", 0) == pytest.approx((seconds, True))


@pytest.mark.parametrize("time", ["0001-01-01", -6.2e10, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59+12:00"])
def test_times_lie_in_the_years_1_to_9999(time: Any) -> None:
    parse(time, "time", 0)
    for beyond in (-9.9e10, "9999-12-31T23:59:59-12:00"):
        with pytest.raises(InvalidInput):
            parse(beyond, "time", 0)


@pytest.mark.parametrize(
    ("settings", "time", "shown"),
    [
        ({}, "2020-06-01T10:00", "2020-06-01T10:00:00"),
        ({}, "2020-06-01T10:00+02:00", "2020-06-01T08:00:00+00:00"),
        ({"timezone": "Europe/Berlin"}, "2020-06-01T10:00", "2020-06-01T10:00:00+02:00"),
        ({"timezone": "Europe/Berlin"}, "2020-06-01T10:00Z", "2020-06-01T12:00:00+02:00"),
        ({"time": None}, None, 0.0),
    ],
)
def test_times_are_shown_as_readings_have_them_and_asked_for_so(
    settings: dict[str, Any], time: str | None, shown: Any
) -> None:
    row = {"y": 1.0} if time is None else {"time": time, "y": 1.0}
    line = Timeline(spec_of({"target": "y", "every": "1h"} | settings), 40).read([row]).timeline
    assert presenter.time_of(line, line.time) == shown
    assert presenter.time_of(line, None) is None
    assert presenter.seconds_asked(line.spec, str(shown), "from") == line.time
    assert presenter.seconds_asked(line.spec, None, "from") is None
    with pytest.raises(InvalidInput):
        presenter.seconds_asked(line.spec, "soon", "from")


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    line = Timeline(spec_of({"target": "y", "every": "1h"}), 40)
    assert presenter.time_of(line, 1e13) == 1e13


@pytest.mark.parametrize(
    ("value", "last", "actual", "right"), [(1, 2, 3, True), (0, 2, 2, True), (0, 2, 3, False), (-1, 2, 1, True)]
)
def test_a_direction_is_right_where_up_and_only_there_it_was_up(
    value: float, last: float, actual: float, right: bool
) -> None:
    line = Timeline(spec_of({"target": "y", "task": "direction"}), 40)
    made = presenter.forecast_made(
        line, 1, ScoredForecast(1, 1.0, 0.0, value, math.nan, math.nan, actual, last, 0.0, 0.0, value, 0.0)
    )
    assert made["right"] is right


@pytest.mark.parametrize(
    ("text", "is_time", "found"),
    [
        (" 1.5 ", False, 1.5), ("1_000", False, "1_000"), ("NaN", False, None), ("", True, None), ("null", True, None),
        ("na", False, None), ("2020", True, "2020"), (" two", False, "two"),
    ],
)  # fmt: skip
def test_cells(text: str, is_time: bool, found: Any) -> None:
    assert cell(text, is_time) == found


W = 80
LIMITS: list[tuple[str, list[Any], list[Any]]] = [
    ("window", [40, 10**5], [39, 10**5 + 1]),
    ("steps", [1, W // 4, [W // 4]], [0, W // 4 + 1, [1, W // 4 + 1]]),
    ("lags", [1, W // 2, [W // 2], [1]], [0, W // 2 + 1, [1, W // 2 + 1], [0]]),
    ("season", [0, W // 2], [-1, W // 2 + 1, "24h"]),
    ("quantiles", [[0.1, 0.100001], [0.01, 0.99]], [[0.1, 0.1], [0.2, 0.1], [0.0, 0.5], [0.5, 1.0], [0.5]]),
    ("band", [0.5, 0.999, None], [0.49, 1.0]),
    ("batch", [1, 1000], [0, 1001]),
    ("rolling", [{}, {"mean": [2, 10**5]}], [{"mean": [1]}, {"mean": [10**5 + 1]}, {"median": [3]}]),
    ("C", [1e-9, 1e8, "auto"], [0.0, 1.1e8, "best"]),
    ("gamma", [1e-9, 1e8, "auto"], [0.0, 1.1e8]),
    ("epsilon", [0.0, 1e3, "auto"], [-0.1, 1001.0]),
    ("every", ["1ms", 3660 * 86400.0, "1200mo", "0.5y"], [0.0009, 3661 * 86400.0, "1201mo", "0.7mo", "soon"]),
    ("features", [["u"], ["u"] * 0], [["u", "u"], ["y"], ["time"]]),
    ("known", [["u"]], [["u", "u"], ["y"], ["time"]]),
    ("missing", ["hold", "skip", "refuse"], ["zero"]),
    ("timezone", ["Europe/Berlin", None], ["Mars/Olympus"]),
    ("unknown", [], [1]),
    ("represent", ["change", "level", "seasonal-change", "auto"], ["trend"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "good", "bad"), LIMITS, ids=[name for name, _, _ in LIMITS])
def test_settings_up_to_their_limits_are_taken_and_others_refused(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        spec_of({"target": "y", "window": W, name: value})
    for value in bad:
        with pytest.raises(ValueError):  # noqa: PT011
            spec_of({"target": "y", "window": W, name: value})


@pytest.mark.parametrize(
    ("settings", "horizons", "lags", "coverage", "rolling"),
    [
        ({}, (1,), 20, 0.9, [("mean", 20)]),
        ({"window": 100, "steps": 3}, (1, 2, 3), 24, 0.9, [("mean", 25)]),
        ({"steps": [5, 2, 5], "lags": 7, "band": None}, (2, 5), 7, None, [("mean", 20)]),
        ({"quantiles": [0.1, 0.7], "band": None, "lags": [3]}, (1,), 3, 0.6, [("mean", 20)]),
        (
            {"task": "direction", "rolling": {"std": [9, 3], "max": [4]}},
            (1,),
            20,
            None,
            [("max", 4), ("std", 3), ("std", 9)],
        ),
    ],
)
def test_what_settings_come_to(
    settings: dict[str, Any], horizons: tuple[int, ...], lags: int, coverage: float | None, rolling: list[Any]
) -> None:
    spec = spec_of({"target": "y", "window": W} | settings)
    assert (spec.horizons, spec.lag_list[0], spec.lag_list[-1]) == (horizons, 1, lags)
    assert spec.coverage == (None if coverage is None else pytest.approx(coverage))
    assert spec.rolling_widths() == rolling


@pytest.mark.parametrize("settings", [{"season": 0}, {"task": "direction"}, {"task": "direction", "season": 4}])
def test_changes_from_the_season_need_one_and_values(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="represent"):
        spec_of({"target": "y", "represent": "seasonal-change"} | settings)


def test_columns_have_one_meaning_whichever_they_are() -> None:
    for twice in itertools.permutations(["features", "known"], 2):
        with pytest.raises(ValueError, match="two meanings"):
            spec_of({"target": "y", twice[0]: ["u"], twice[1]: ["v", "u"]})
    assert spec_of({"target": "y", "time": None, "features": ["time"], "known": ["v"]}).columns == ("y", "time", "v")


@pytest.mark.parametrize("name", ["steps", "window", "season", "lags", "batch"])
def test_what_is_counted_is_no_duration_and_that_is_said(name: str) -> None:
    for text, hints in (("24h", True), ("many", False)):
        for value in (text, [1, text]):
            with pytest.raises(ValueError, match="is a number of readings") as caught:
                spec_of({"target": "y", name: value})
            assert ("divide the duration" in str(caught.value)) is hints


@pytest.mark.parametrize(("readings", "window"), [(50, 40), (79, 40), (80, 40), (83, 41), (200, 100)])
def test_a_backtest_forecasts_half_of_the_readings(readings: int, window: int) -> None:
    assert feed_work.half_of(readings) == window
    with pytest.raises(InvalidInput):
        feed_work.half_of(49)


def test_a_backtest_is_what_a_feed_would_have_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_work, "POINTS", 7)
    spec = spec_of(FEED | {"steps": [1, 3], "window": 90, "C": 1.0, "gamma": 0.05})
    feed, rows, told_of = Forecaster(spec), rows_of(series(90)), list[tuple[int, int]]()
    feed.observe(rows)
    copy: Any = SimpleNamespace(spec=spec, state=lambda: SimpleNamespace(spec=spec, forecaster=feed))
    other, scored = (
        Forecaster(spec_of(spec.model_dump() | {"window": 45, "season": 6, "lags": 5})),
        list[ScoredForecast](),
    )
    for begin in range(0, 90, 24):
        scored += [one for step, one in other.observe(rows[begin : begin + 24]).scored if step == 1]

    def progress(done: int, total: int) -> bool:
        told_of.append((done, total))
        return True

    found = feed_work.backtest({"settings": {"season": 6, "lags": 5}}, copy, progress)
    assert told_of == [(0, 90), (24, 90), (48, 90), (72, 90)]
    assert (found["readings"], found["own"], found["settings"]["window"]) == (90, True, 45)
    scores = presenter.Scores(other)
    assert (found["scores"], found["recent"]) == (scores.overall, scores.lately)
    assert [point["n"] for point in found["curve"]] == list(range(len(scored), 0, -7))[::-1]  # the newest is there
    for point in found["curve"]:
        for name, value in (("mae", "value"), ("last_value_mae", "last"), ("seasonal_mae", "seasonal")):
            errors = [abs(one.actual - getattr(one, value)) for one in scored[: point["n"]]]
            assert point[name] == pytest.approx(np.mean(errors))
    given = feed_work.Given([*rows[:30], {"time": rows[30]["time"], "y": "many"}])
    with pytest.raises(InvalidInput) as caught:
        feed_work.backtest({"given": given}, copy, progress)
    assert (caught.value.field, caught.value.row) == ("y", 30)
    with pytest.raises(Cancelled):
        feed_work.backtest({}, copy, lambda done, total: done < 24)


def test_settings_say_what_was_chosen_where_they_leave_it_open(looked_at: Any) -> None:
    feed, _ = looked_at
    found = presenter.settings(feed)
    chosen = {"every": "1h", "season": 12, "lags": [1, 2, 3, 4, 5, 6], "steps": feed.chosen()}
    assert found == feed.spec.model_dump() | {"chosen": chosen, "tried": feed.choice.table()}
    assert [one["step"] for one in chosen["steps"]] == list(STEPS)
    for settings, every in (({}, None), ({"every": "15min"}, "15min"), ({"time": None}, None)):
        new = presenter.settings(Forecaster(spec_of({"target": "y"} | settings)))
        assert (new["chosen"]["every"], new["chosen"]["season"], new["chosen"]["steps"], new["tried"]) == (
            every,
            None,
            [],
            [],
        )
