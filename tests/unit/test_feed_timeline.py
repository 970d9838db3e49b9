"""Readings in order: which rows a feed takes, ignores, holds, corrects and refuses."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.feeds import timeline as timeline_module
from livesvm.service.feeds.cells import rows_of
from livesvm.service.feeds.interval import Every, duration, found_in, moment, seconds_of
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Plan, Reading, Timeline
from livesvm.service.feeds.times import column as read_column
from livesvm.service.feeds.times import parse
from livesvm.service.store import codec
from livesvm.solvers.errors import InvalidInput

HOUR = 3600.0


def timeline(**settings: Any) -> Timeline:
    return Timeline(spec_of({"target": "y", "every": "1h", "window": 100} | settings), 100)


def at(hour: float, y: float | None = 1.0, **others: Any) -> dict[str, Any]:
    return {"time": hour * HOUR, "y": y, **others}


def read(line: Timeline, *rows: dict[str, Any]) -> Plan:
    return line.read(list(rows))


def refusal(line: Timeline, *rows: dict[str, Any]) -> InvalidInput:
    before = line.to_arrays()
    with pytest.raises(InvalidInput) as caught:
        line.read(list(rows))
    after = line.to_arrays()
    assert all(str(before[name]) == str(after[name]) for name in before)
    return caught.value


@pytest.mark.parametrize(
    ("text", "seconds", "zoned"),
    [
        ("1970-01-02", 86400.0, False),
        ("1970-01-01T01:00:00Z", 3600.0, True),
        ("1970-01-01 02:00+01:00", 3600.0, True),
        ("1969-12", -31 * 86400.0, False),
        (1e9, 1e9, True),
        (1_700_000_000_000, 1.7e9, True),
        ("1700000000.5", 1700000000.5, True),
    ],
)
def test_times_are_iso_or_epochs(text: Any, seconds: float, zoned: bool) -> None:
    assert parse(text, "time", 0) == (seconds, zoned)


@pytest.mark.parametrize("value", ["yesterday", "2014-02-30", True, float("inf"), [], 1e40, ""])
def test_other_times_are_refused_by_row(value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(value, "when", 7)
    assert (caught.value.field, caught.value.row) == ("when", 7)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("15min", "15min"), ("1h", "1h"), (7200, "2h"), ("1mo", "1mo"), ("12mo", "1y")],
)
def test_durations(text: Any, shown: str) -> None:
    assert str(duration(text)) == shown


@pytest.mark.parametrize("text", ["", "h1", "-1h", "0s", "1.5mo", "100y 1d", "1e400s", 0, -5.0])
def test_other_durations_are_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        duration(text)


@given(st.integers(1, 10**6), st.lists(st.integers(1, 3), min_size=7, max_size=20))
def test_the_distance_is_the_most_frequent_gap(seconds: int, gaps: list[int]) -> None:
    gaps = [1] * len(gaps) + gaps
    times = [float(seconds * sum(gaps[:i])) for i in range(len(gaps) + 1)]
    assert found_in(times) == Every(seconds=float(seconds))


def test_months_are_found_and_counted_by_the_calendar() -> None:
    times = [seconds_of(datetime(2000 + i // 12, i % 12 + 1, 1, tzinfo=UTC)) for i in range(14)]
    every = found_in(times)
    assert every == Every(months=1)
    assert all(every.after(times[0], i) == time for i, time in enumerate(times))
    assert [every.between(times[0], time) for time in times] == pytest.approx(list(range(14)))
    end = seconds_of(datetime(2001, 1, 31, tzinfo=UTC))
    assert moment(every.after(end, 1)).date().isoformat() == "2001-02-28"


def test_readings_get_slots_and_held_ones_fill_gaps() -> None:
    line = timeline()
    plan = read(line, at(0, 1.0), at(1, 2.0), at(4, 3.0), at(5, None), at(6, 4.0))
    assert [(r.slot, r.values[0], r.held) for r in plan.readings] == [
        (0, 1.0, False), (1, 2.0, False), (2, 2.0, True), (3, 2.0, True), (4, 3.0, False), (5, 3.0, True),
        (6, 4.0, False),
    ]  # fmt: skip
    assert [r.time / HOUR for r in plan.readings] == list(range(7))
    assert line.slot == -1  # nothing has happened yet
    assert plan.timeline.slot == 6


def test_a_gap_of_a_month_is_held_no_longer_than_features_look_back() -> None:
    plan = read(timeline(), at(0), at(30 * 24))
    assert len(plan.readings) == 102
    assert plan.readings[-1].time == 30 * 24 * HOUR
    assert plan.readings[1].time == (30 * 24 - 100) * HOUR


def test_skip_closes_gaps() -> None:
    plan = read(timeline(missing="skip"), at(0), at(1, None), at(9), at(10, float("nan")))
    assert [r.slot for r in plan.readings] == [0, 1]
    assert (plan.accepted, plan.ignored) == (2, 2)


def test_refuse_refuses_gaps_and_missing_values() -> None:
    line = timeline(missing="refuse")
    assert refusal(line, at(0), at(2)).row == 1
    error = refusal(line, at(0), at(1, None))
    assert (error.field, error.row) == ("y", 1)


def test_what_came_before_is_ignored_when_it_is_the_same() -> None:
    line = read(timeline(), at(0), at(1), at(2, None), at(3)).timeline
    plan = read(line, at(1), at(2, None), at(2, float("nan")), at(4))
    assert (plan.accepted, plan.ignored, len(plan.readings)) == (1, 3, 1)


def test_other_values_and_older_times_are_refused_or_corrections() -> None:
    line = read(timeline(), at(0), at(1), at(3)).timeline
    assert refusal(line, at(4), at(3, 5.0)).row == 1
    assert refusal(line, at(2, 5.0)).row == 0
    line = read(timeline(late="correct"), at(0), at(1), at(3)).timeline
    plan = read(line, at(2, 5.0), at(3, 7.0), at(4))
    assert [(c.slot, c.values, c.held) for c in plan.corrections] == [(2, (5.0,), True), (3, (7.0,), False)]
    assert plan.accepted == 3
    assert read(plan.timeline, at(2, 5.0), at(3, 7.0), at(4)).ignored == 3
    assert "no time that the window holds" in str(refusal(line, at(-1)))
    assert refusal(line, at(3, None)).field == "y"


def test_what_is_held_after_a_correction_is_the_corrected_value() -> None:
    line = read(timeline(late="correct"), at(0), at(1, 2.0)).timeline
    plan = read(line, at(1, 7.0), at(2, None), at(3))
    assert [r.values for r in plan.readings] == [(7.0,), (1.0,)]


def test_a_call_is_no_larger_than_a_call_may_be_with_its_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MOST_HELD", 50)
    assert len(read(timeline(), at(0), at(50)).readings) == 51
    assert refusal(timeline(), at(0), at(51)).row == 1


@pytest.mark.parametrize("value", ["3.9", float("inf"), -float("inf"), True, [1.0], 1e200])
def test_what_is_no_number_is_refused_by_row_and_column(value: Any) -> None:
    error = refusal(timeline(features=["wind"]), at(0, wind=0.0), at(1, wind=value))
    assert (error.field, error.row) == ("wind", 1)


def test_a_changed_set_of_columns_is_refused() -> None:
    line = read(timeline(), at(0, a=1), at(1, a=2)).timeline
    assert refusal(line, at(2)).field == "a"
    assert refusal(line, at(2, a=1, b=1)).field == "b"
    assert refusal(line, {"time": 7200.0, "a": 1}).field == "y"
    assert refusal(line, {"y": 1.0, "a": 1}).field == "time"


def test_a_time_that_leaps_over_years_is_refused() -> None:
    for missing in ("hold", "skip"):
        line = read(timeline(missing=missing), at(0), at(1)).timeline
        assert refusal(line, at(2), at(24 * 400)).row == 1
        assert read(line, at(24 * 365)).accepted == 1
    yearly = timeline(every="1y", window=40)
    assert read(yearly, {"time": "1950-01-01", "y": 1.0}, {"time": "1985-01-01", "y": 1.0}).accepted == 2
    assert refusal(yearly, {"time": "1950-01-01", "y": 1.0}, {"time": "1995-01-01", "y": 1.0}).row == 1
    rows = [{"time": "1950-01-01", "y": 1.0}, {"time": "1995-01-01", "y": 1.0}]  # as a log of before may have them
    assert yearly.read(rows, logged=True).accepted == 2


def test_months_may_be_reported_by_their_last_days() -> None:
    ends = [date(2023, month, 1) - timedelta(days=1) for month in range(2, 13)]
    for every in (None, "1mo"):
        plan = read(timeline(every=every), *({"time": str(day), "y": 1.0} for day in ends))
        found = plan.timeline.every
        assert found is not None
        assert (str(found), [r.slot for r in plan.readings]) == ("1mo", list(range(11)))
        assert [found.after(plan.readings[0].time, n) for n in range(11)] == [r.time for r in plan.readings]
        kept = Timeline.from_arrays(plan.timeline.spec, plan.timeline.longest, plan.timeline.to_arrays())
        assert kept.every == found
    assert str(read(timeline(every=None), *(at(24 * 31 * i) for i in range(9))).timeline.every) == "31d"


def test_times_with_and_without_a_zone_do_not_mix() -> None:
    line = timeline()
    rows = [{"time": "2020-01-01T00:00", "y": 1.0}, {"time": "2020-01-01T01:00Z", "y": 1.0}]
    assert refusal(line, *rows).row == 1
    plan = read(timeline(timezone="Europe/Berlin"), {"time": "2020-01-01T00:00", "y": 1.0},
                {"time": "2020-01-01T00:00Z", "y": 1.0})  # fmt: skip
    assert [r.slot for r in plan.readings] == [0, 1]


def test_clocks_that_change_by_an_hour() -> None:
    local = [f"2020-10-25T{hour:02d}:00" for hour in (0, 1, 2, 2, 3, 4)]
    rows = [{"time": time, "y": float(i)} for i, time in enumerate(local)]
    plan = read(timeline(timezone="Europe/Berlin"), *rows)
    assert [r.slot for r in plan.readings] == list(range(6))
    assert not any(r.held for r in plan.readings)
    error = refusal(timeline(), *rows)  # without a zone that hour comes twice
    assert error.row == 3
    spring = [{"time": f"2020-03-29T{hour:02d}:00", "y": 1.0} for hour in (0, 1, 3, 4)]
    assert len(read(timeline(timezone="Europe/Berlin"), *spring).readings) == 4
    assert [r.held for r in read(timeline(), *spring).readings] == [False, False, True, False, False]
    skipped = {"time": "2020-03-29T02:30", "y": 1.0}
    assert "skip" in str(refusal(timeline(timezone="Europe/Berlin"), skipped))


def local_rows(zone: str, begin: str, minutes: int, values: list[float]) -> tuple[list[dict[str, Any]], list[float]]:
    """Return readings by local times without an offset, and when they are, in seconds since 1970."""
    start = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    times = [start + timedelta(minutes=minutes * i) for i in range(len(values))]
    local = [time.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat() for time in times]
    rows = [{"time": time, "y": value} for time, value in zip(local, values, strict=True)]
    return rows, [time.timestamp() for time in times]


def taken(line: Timeline) -> dict[float, float | None]:
    """Return the readings of a timeline."""
    return {time: past.given[0] for time, past in line.past.items()}


CHANGES = [
    ("Europe/Berlin", "2025-10-26T00:00", 60), ("Europe/Berlin", "2025-10-26T01:00", 15),
    ("Europe/Berlin", "2025-03-30T00:00", 30), ("America/New_York", "2025-11-02T00:00", 30),
    ("Australia/Lord_Howe", "2025-04-06T00:30", 10),
]  # fmt: skip


@given(
    st.sampled_from(CHANGES), st.sampled_from(["refuse", "correct"]), st.sampled_from(["hold", "skip", "refuse"]),
    st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=16, max_size=24), st.data(),
)  # fmt: skip
def test_what_is_sent_again_when_clocks_change_is_ignored(
    change: tuple[str, str, int], late: str, missing: str, values: list[float], data: st.DataObject
) -> None:
    """Any rows in any order, more than once, by local times or with an offset; readings are those of one delivery."""
    zone, begin, minutes = change
    rows, times = local_rows(zone, begin, minutes, values)
    line, start = timeline(timezone=zone, every=f"{minutes}min", late=late, missing=missing), 0
    while start < len(rows):
        end = data.draw(st.integers(start + 1, min(len(rows), start + 6)))
        line, start = line.read(rows[start:end]).timeline, end
        come = [i for i in range(end) if times[i] in line.past]
        again = data.draw(st.lists(st.sampled_from(come), max_size=8)) if come else []
        sent = [rows[i] | ({"time": times[i]} if data.draw(st.booleans()) else {}) for i in again]
        plan, before = line.read(sent), taken(line)
        assert (plan.readings, plan.corrections, plan.accepted, plan.ignored) == ([], [], 0, len(sent))
        assert taken(plan.timeline) == before
        line = Timeline.from_arrays(line.spec, 100, plan.timeline.to_arrays())
    after = {"time": times[-1] + 60.0 * minutes, "y": 9.0}
    assert taken(line.read([after]).timeline) == dict(zip([*times, after["time"]], [*values, 9.0], strict=True))


def test_another_value_of_the_hour_that_comes_twice() -> None:
    hours = [f"2025-10-26T0{hour}:00" for hour in (0, 1, 2, 2, 3)]
    rows = [{"time": time, "y": float(i)} for i, time in enumerate(hours)]
    line = timeline(timezone="Europe/Berlin", late="correct")
    two = read(line, *rows[:3]).timeline
    assert [r.values for r in read(two, {"time": hours[2], "y": 8.0}).readings] == [(8.0,)]  # the second one is new
    line = read(line, *rows).timeline
    error = refusal(line, {"time": hours[0], "y": 0.0}, {"time": hours[2], "y": 8.0})
    assert (error.row, error.field) == (1, "time")
    assert "2025-10-26T02:00:00+02:00 or 2025-10-26T02:00:00+01:00" in str(error)
    for time, slot in (("2025-10-26T02:00+02:00", 2), ("2025-10-26T02:00+01:00", 3)):
        assert [c.slot for c in read(line, {"time": time, "y": 8.0}).corrections] == [slot]
    both = read(line, {"time": hours[2], "y": 8.0}, {"time": hours[2], "y": 9.0})
    assert [(c.slot, c.values) for c in both.corrections] == [(2, (8.0,)), (3, (9.0,))]
    one = read(line, {"time": hours[2], "y": 2.0}, {"time": hours[2], "y": 9.0})
    assert [(c.slot, c.values) for c in one.corrections] == [(3, (9.0,))]
    gap = read(timeline(timezone="Europe/Berlin", late="correct"), *rows[:3], rows[4]).timeline
    assert [c.slot for c in read(gap, {"time": hours[2], "y": 8.0}).corrections] == [3]  # which is missing


@pytest.mark.parametrize(
    ("column", "first", "apart"),
    [
        ([20240101, 20240102], 1704067200.0, 86400.0),
        (["20240101", 20240102.0], 1704067200.0, 86400.0),
        ([2024010100, "2024010101"], 1704067200.0, 3600.0),
        (["202401010000", 202401010001], 1704067200.0, 60.0),
        ([20240101000000, "20240101000001"], 1704067200.0, 1.0),
        ([1950, 1951], -631152000.0, 365 * 86400.0),
        ([1871, 1872], -3124137600.0, 365 * 86400.0),
        ([2099, 2100], 4070908800.0, 365 * 86400.0),
        ([1706010100, 1706010160], 1706010100.0, 60.0),
        ([3600, 7200], 3600.0, 3600.0),
        ([86400, 172800], 86400.0, 86400.0),
        (["202401", "202402"], 1704067200.0, 31 * 86400.0),
        ([1704067200, 1704067260], 1704067200.0, 60.0),
        (["1704067200000", 1704067260000], 1704067200.0, 60.0),
        ([1704067200.5, 1704067201.5], 1704067200.5, 1.0),
        ([0, 1980], 0.0, 1980.0),
        ([1968, 1980, 2024, 2400], 1968.0, 12.0),
    ],
)
def test_digits_of_a_date_are_dates_if_all_of_a_column_are(column: list[Any], first: float, apart: float) -> None:
    for values in (column, [float(value) for value in column]):
        stamps, _ = read_column(values, "time")
        assert [stamp.seconds for stamp in stamps[:2]] == [first, first + apart]
        assert len({stamp.zoned for stamp in stamps}) == 1


def test_digits_that_may_be_either_are_refused() -> None:
    for column in ([20240101, 20240231], [2024010100, 1704067200], [1704067200, "2024010100"]):
        with pytest.raises(InvalidInput, match="ISO 8601") as caught:
            read_column(column, "when")
        assert (caught.value.field, caught.value.row) == ("when", 1 if column[0] != 1704067200 else 0)
    line = read(timeline(every=None), *({"time": 2024010100 + i, "y": 1.0} for i in range(9))).timeline
    assert str(line.every) == "1h"
    line = Timeline.from_arrays(line.spec, 100, line.to_arrays())
    assert refusal(line, {"time": 1704067200 + 10 * 3600, "y": 1.0}).row == 0
    assert read(line, {"time": "2024010109", "y": 1.0}).accepted == 1
    assert read(line, {"time": "2024-01-01T09:00", "y": 1.0}).accepted == 1
    seconds = read(timeline(), at(2033118000 // 3600)).timeline  # of the year 2034
    assert read(seconds, {"time": 2033121600, "y": 1.0}).timeline.time == 2033121600.0
    logged = timeline().read([{"time": 2024010800, "y": 1.0}], logged=True, is_first=True)  # as it was
    assert [r.time for r in logged.readings] == [2024010800.0]


@pytest.mark.parametrize(
    "column", [[31012024, 1022024], [1312024], [240131, 240201], ["24013123", 24020100], [31011999.0, 1021999.0]]
)
def test_digits_of_a_date_in_another_order_are_refused(column: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="year is not in front with four digits; write 2024-01-31") as caught:
        read_column(column, "when")
    assert (caught.value.field, caught.value.row) == ("when", 0)
    assert read_column(column[:1] if isinstance(column[0], int) else [5], "when", "epochs")[1] == "epochs"


NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"every": "1h"}, 7200.0), ({"every": "1s"}, 600.0), ({"every": "5min"}, 600.0), ({"every": "1d"}, 172800.0),
        ({"every": "1mo"}, 2 * 30.436875 * 86400), ({"every": None}, 600.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zoned", [True, False])
def test_readings_far_ahead_of_the_clock_are_refused(settings: dict[str, Any], most: float, zoned: bool) -> None:
    def row(seconds: float) -> dict[str, Any]:
        when = datetime.fromtimestamp(NOW + seconds, UTC)
        return {"time": (when if zoned else when.replace(tzinfo=None)).isoformat(), "y": 1.0}

    most += 0.0 if zoned else 14 * 3600.0
    line = timeline(**settings)
    assert line.read([row(most)], now=NOW).accepted == 1
    before = str(line.to_arrays())
    for far in (most + 1, 90 * 86400.0):
        with pytest.raises(InvalidInput, match="ahead='accept'") as caught:
            line.read([row(-400 * 86400.0), row(far)] if settings["every"] is None else [row(far)], now=NOW)
        assert caught.value.field == "time"
        assert moment(NOW).isoformat() in str(caught.value)
    assert str(line.to_arrays()) == before
    assert line.read([row(90 * 86400.0)]).accepted == 1  # without a clock, as backtests and logs are
    assert timeline(**settings, ahead="accept").read([row(90 * 86400.0)], now=NOW).accepted == 1


def test_the_row_ahead_of_the_clock_is_named_and_not_those_behind_it() -> None:
    hours = [-3.0, -2.0, -1.0, 2000.0, 0.0, 1.0]
    rows = [{"time": NOW + hour * HOUR, "y": 1.0} for hour in hours]
    for every in ("1h", None):
        with pytest.raises(InvalidInput) as caught:
            timeline(every=every).read(rows, now=NOW)
        assert caught.value.row == 3
    daily = [{"time": NOW + day * 24 * HOUR, "y": 1.0} for day in range(-9, 2)]
    assert timeline(every=None).read(daily, now=NOW).accepted == 11  # whose distance is found in this call
    line = timeline(known=["k"]).read([{"time": NOW, "y": 1.0, "k": 1.0}], now=NOW).timeline
    assert line.read([{"time": NOW + 90 * HOUR, "k": 2.0}], now=NOW).ahead == [(90, (2.0,))]  # announcements may be
    assert line.read([{"time": NOW, "y": 1.0, "k": 1.0}], now=NOW - 10**7).ignored == 1


@pytest.mark.parametrize(
    ("begin", "minutes"), [("2025-10-25T02:00", 60), ("2025-10-25T02:00", 15), ("2024-11-01T00:00", 60)]
)
def test_the_hour_that_comes_twice_may_be_in_the_first_call(begin: str, minutes: int) -> None:
    zone, first = ZoneInfo("Europe/Berlin"), datetime.fromisoformat(begin)
    start, count = first.replace(tzinfo=zone).astimezone(UTC), 60 if first.year == 2025 else 9000
    times = [start + timedelta(minutes=minutes * i) for i in range(count * 60 // minutes)]
    local = [time.astimezone(zone).replace(tzinfo=None).isoformat() for time in times]
    plan = read(timeline(timezone="Europe/Berlin", every=None), *({"time": time, "y": 1.0} for time in local))
    assert [reading.time for reading in plan.readings] == [time.timestamp() for time in times]
    assert not any(reading.held for reading in plan.readings)


def test_days_of_a_zone_are_its_calendars() -> None:
    days = [{"time": f"2020-10-{day}", "y": 1.0} for day in range(20, 31)]
    plan = read(timeline(timezone="Europe/Berlin", every=None), *days)
    every = plan.timeline.every
    assert every is not None
    assert [r.slot for r in plan.readings] == list(range(11))
    assert every.after(plan.readings[0].time, 10) == plan.readings[10].time


def test_the_distance_is_found_from_the_first_rows() -> None:
    line = timeline(every=None)
    for hour in range(7):
        plan = read(line, at(hour))
        assert (plan.accepted, plan.readings) == (1, [])
        line = plan.timeline
    assert refusal(line, at(2, 9.0)).row == 0
    assert read(line, at(6)).ignored == 1
    plan = read(line, at(7), at(9))
    assert str(plan.timeline.every) == "1h"
    assert [r.held for r in plan.readings] == [False] * 8 + [True, False]


def test_a_start_off_the_clock_is_left_out() -> None:
    line = timeline(every=None)
    for hour in (0.0, 1.0, 2.4, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0):
        plan = read(line, at(hour))
        assert (plan.accepted, plan.readings) == (1, [])
        line = plan.timeline
    assert [r.time for r in read(line, at(10)).readings] == [3600.0 * hour for hour in range(3, 11)]
    line = read(timeline(every=None), at(0), at(1)).timeline
    assert refusal(line, at(1), at(2), at(3.4), *(at(hour) for hour in range(4, 9))).row == 2
    assert refusal(timeline(every=None), at(0), at(0), at(1.4), *(at(hour) for hour in range(2, 9))).row == 2


def test_feeds_without_times_count_their_readings() -> None:
    line = timeline(time=None, every=None)
    plan = read(line, {"y": 1.0}, {"y": None}, {"y": 2.0})
    assert [(r.slot, r.held) for r in plan.readings] == [(0, False), (1, True), (2, False)]


def test_known_columns_are_announced() -> None:
    line = read(timeline(known=["holiday"]), at(0, holiday=0), at(1, holiday=0)).timeline
    plan = read(line, {"time": 3 * HOUR, "holiday": 1})
    assert (plan.ahead, plan.accepted, plan.ignored) == ([(3, (1.0,))], 0, 0)
    assert refusal(line, {"time": 0.0, "holiday": 1}).row == 0
    assert refusal(line, {"time": 3 * HOUR, "holiday": None}).field == "holiday"
    assert refusal(line, {"time": 3 * HOUR, "holiday": 1, "wind": 2}).field == "wind"
    assert refusal(line, {"time": 1e6 * HOUR, "holiday": 1}).row == 0
    assert read(line, {"time": 101 * HOUR, "holiday": 1}).ahead == [(101, (1.0,))]
    assert refusal(line, {"time": 102 * HOUR, "holiday": 1}).row == 0  # further ahead than a window


def test_the_clock_moves_with_readings_alone() -> None:
    line = read(timeline(), at(0), at(1)).timeline
    plan = read(line, at(2, None), at(3, None))
    assert (plan.readings, plan.accepted, plan.ignored, plan.timeline.slot) == ([], 0, 2, 1)
    plan = read(plan.timeline, at(2, 5.0))  # it is not lost
    assert [(r.slot, r.values) for r in plan.readings] == [(2, (5.0,))]
    confirmed = read(line, at(2, None), at(4, None), at(3, 7.0))  # in one call, by a reading behind it
    assert [(r.slot, r.values, r.held) for r in confirmed.readings] == [(2, (1.0,), True), (3, (7.0,), False)]
    assert (confirmed.accepted, confirmed.ignored) == (2, 1)
    twice = read(line, at(2, None), at(2, 5.0))
    assert [(r.slot, r.values, r.held) for r in twice.readings] == [(2, (5.0,), False)]
    assert refusal(line, at(2, None, wind=1.0)).field == "wind"  # which counts of rows that count for nothing, too
    assert refusal(timeline(missing="refuse"), at(0), at(1, None)).row == 1
    logged = line.read([at(2, None), at(3, None)], is_first=True)  # as it was
    assert [(r.slot, r.held) for r in logged.readings] == [(2, True), (3, True)]


def test_rows_ahead_of_the_clock_whose_target_is_empty_announce_known_columns() -> None:
    line = timeline(known=["warm"], features=["wind"], every=None)
    day = [at(hour, warm=hour, wind=0.0) for hour in range(10)]
    tail = [at(hour, None, warm=-hour, wind=None) for hour in (10, 11)]
    plan = read(line, *day, *tail)  # the distance is found in this call
    assert (plan.ahead, plan.accepted, plan.ignored) == ([(10, (-10.0,)), (11, (-11.0,))], 10, 0)
    assert plan.along == [(hour, (float(hour),)) for hour in range(10)]
    after = read(plan.timeline, at(12, None, warm=None, wind=1.0), at(10, 3.0, warm=9.0, wind=0.0))
    assert (after.ahead, after.ignored, after.accepted) == ([], 1, 1)  # nothing is known of 12
    assert after.along == [(10, (9.0,))]
    assert read(plan.timeline, at(500, None, warm=1.0, wind=None)).ignored == 1  # further ahead than a window
    assert read(line, *day[:3], *tail).ahead == []  # their place is not known yet


@given(st.lists(st.tuples(st.integers(1, 4), st.none() | st.floats(-5, 5)), min_size=1, max_size=30), st.data())
def test_calls_may_be_cut_and_sent_again_at_will(steps: list[tuple[int, float | None]], data: st.DataObject) -> None:
    hours = [sum(gap for gap, _ in steps[: i + 1]) for i in range(len(steps))]
    rows = [at(hour, y) for hour, (_, y) in zip(hours, steps, strict=True)]
    whole = timeline().read(rows)
    line, start = timeline(), 0
    readings: list[Reading] = []
    assert whole.timeline.time == max(
        (HOUR * h for h, (_, y) in zip(hours, steps, strict=True) if y is not None), default=None
    )
    while start < len(rows):
        end = data.draw(st.integers(start + 1, len(rows)))
        again = data.draw(st.integers(max(0, start - 3), start))
        plan = line.read(rows[again:end])
        readings, line, start = readings + plan.readings, plan.timeline, end
    assert readings == whole.readings
    assert {k: str(v) for k, v in line.to_arrays().items()} == {
        k: str(v) for k, v in whole.timeline.to_arrays().items()
    }


def test_a_timeline_is_kept() -> None:
    line = timeline(features=["wind"], late="correct", every=None)
    for rows in ([at(h, 1.0 * h, wind=None if h == 3 else h) for h in range(5)], [at(h, wind=h) for h in range(5, 12)]):
        line = line.read(rows).timeline
        back = Timeline.from_arrays(line.spec, 100, line.to_arrays())
        assert {k: str(v) for k, v in back.to_arrays().items()} == {k: str(v) for k, v in line.to_arrays().items()}
        for y in (5.0, None):  # a missing one is held
            rows = [at(12, y, wind=1.0), at(13, 1.0, wind=1.0)]
            assert back.read(rows).readings == line.read(rows).readings


def test_columns_become_rows() -> None:
    assert rows_of({"time": [0, 1], "y": [2.0, 3.0]}) == [{"time": 0, "y": 2.0}, {"time": 1, "y": 3.0}]


@pytest.mark.parametrize(
    ("every", "jitter", "expected"),
    [(300, 3, "5min"), (60, 2, "1min"), (3600, 60, "1h"), (86400, 600, "1d"), (307, 0, "307s"), (30, 2, "30s")],
)
def test_readings_with_some_jitter_are_even_parts_of_a_day_apart(every: int, jitter: int, expected: str) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        off = random.integers(-jitter, jitter + 1, size=400)
        rows = [{"time": NOW + every * i + int(off[i]), "y": 1.0} for i in range(400)]
        plan = read(timeline(every=None), *rows)
        assert (str(plan.timeline.every), plan.accepted) == (expected, 400)
        assert [reading.slot for reading in plan.readings] == list(range(400))
    irregular = [{"time": NOW + 1000 * i + (i * i) % 230, "y": 1.0} for i in range(8)]
    assert 900 < read(timeline(every=None), *irregular).timeline.every.seconds < 1100  # type: ignore[union-attr]


ALIGNS = ("nearest", "mean", "last")
UNEVEN = st.lists(
    st.tuples(st.floats(0.01, 2.9), st.integers(-50, 50) | st.none()), min_size=1, max_size=40
)  # hours after the row before, and its value


def aligned(rows: list[dict[str, Any]], align: str) -> dict[float, float]:
    """Return the readings of rows by the hour, as pandas aligns them; those of the last hour are not over."""
    grid = pd.Series({pd.Timestamp(row["time"]): row["y"] for row in rows}, dtype=float)
    if align == "nearest":
        kept = grid.groupby(grid.index.round("h")).first()  # of hours with nothing but empty values NaN
    else:
        side = {"mean": "left", "last": "right"}[align]
        kept = getattr(grid.dropna().resample("h", closed=side, label=side), align)().dropna()[:-1]
    return {time.timestamp(): float(value) for time, value in kept.dropna().items()}


@pytest.mark.parametrize("align", ALIGNS)
@given(rows=UNEVEN, cuts=st.sets(st.integers(0, 40)), again=st.booleans())
def test_aligned_readings_are_those_of_pandas_however_they_come(
    align: str, rows: list[tuple[float, int | None]], cuts: set[int], again: bool
) -> None:
    hours = np.cumsum([gap for gap, _ in rows]).round(3) + 0.0005  # never halfway
    times = [moment(HOUR * float(hour)).isoformat() for hour in hours]
    sent = [{"time": time, "y": y} for time, (_, y) in zip(times, rows, strict=True)]
    whole = line = timeline(align=align)
    whole = read(whole, *sent).timeline
    ends = [*sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    for first, last in zip([0, *ends], ends, strict=False):
        line = read(line, *sent[0 if again else first : last]).timeline  # what came before changes nothing
        line = Timeline.from_arrays(line.spec, 100, codec.decode(codec.encode(line.to_arrays())))
    for one in (whole, line):
        found = {time: past.values[0] for time, past in one.past.items() if not past.held}
        assert found == pytest.approx(aligned(sent, align))


def test_a_sensor_that_starts_again_at_another_minute_stays_on_the_grid() -> None:
    hours = [0.0, 1.001, 1.998, 3.0, 4.33, 5.34, 6.33, 7.6]
    assert "not on the clock" in str(refusal(read(timeline(), *map(at, hours[:4])).timeline, at(4.33)))
    line = read(timeline(align="nearest"), *map(at, hours)).timeline
    assert list(line.past) == [HOUR * hour for hour in (0, 1, 2, 3, 4, 5, 6, 7, 8)]
    assert [past.held for past in line.past.values()] == [False] * 7 + [True, False]


def test_an_aligned_interval_that_is_not_over_is_erased_by_any_of_its_times() -> None:
    line = read(timeline(align="mean"), at(0), at(1.2), at(1.7, 5.0)).timeline
    assert line.on_grid(1.7 * HOUR) == HOUR
    assert line.open is not None
    line.forget({HOUR}, beyond=False)
    assert line.open is None
    assert read(line, at(2.5), at(3)).timeline.past.keys() == {0.0, HOUR, 2 * HOUR}


@pytest.mark.parametrize(
    ("every", "when", "begins"),
    [
        ("15min", "2026-03-29T03:59+02:00", "2026-03-29T03:45+02:00"),
        ("1d", "2026-03-29T23:30+02:00", "2026-03-29T00:00+01:00"),
        ("1w", "2026-03-29T23:30+02:00", "2026-03-23T00:00+01:00"),
        ("1mo", "2026-03-29T23:30+02:00", "2026-03-01T00:00+01:00"),
        ("3mo", "2026-05-29T23:30+02:00", "2026-04-01T00:00+02:00"),
        ("1y", "2026-05-29T23:30+02:00", "2026-01-01T00:00+01:00"),
    ],
)
def test_the_grid_is_that_of_the_clock_and_the_calendar(every: str, when: str, begins: str) -> None:
    found = duration(every, ZoneInfo("Europe/Berlin")).floor(seconds_of(datetime.fromisoformat(when)))
    assert found == seconds_of(datetime.fromisoformat(begins))


def test_a_grid_needs_an_interval() -> None:
    with pytest.raises(ValueError, match="align: needs times, and `every`"):
        spec_of({"target": "y", "align": "mean"})
