"""Columns that are known ahead: announced, held, learnt as they are served, and what errors assume of them."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from livesvm.service.feeds import presenter
from livesvm.service.feeds.commands import Delivery, Observations, decode_call
from livesvm.service.feeds.features import calendar_rows, layout_of
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.holidays import _days
from livesvm.service.feeds.interval import Every
from livesvm.service.feeds.past_forecasts import what_if
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.sources.base import SourceEntry
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.state import FeedState
from livesvm.service.feeds.timeline import Row
from livesvm.solvers.errors import InvalidInput
from tests.support.feeds import FEED

N = 200
WEATHER = np.random.default_rng(3).normal(size=N).cumsum() * 0.5
Y = 5 * WEATHER + 0.1 * np.random.default_rng(4).normal(size=N)
STEPS = (1, 3)


def rows(begin: int, end: int, *, target: bool | None = True) -> list[Row]:
    """Return readings with their weather; of announcements without the target, or with an empty one (None)."""
    found: list[Row] = []
    for i in range(begin, min(end, N)):
        own: dict[str, Any] = {} if target is False else {"y": Y[i] if target else None}
        found.append({"time": 3600.0 * i, "w": WEATHER[i], **own})
    return found


def feed(**settings: Any) -> Forecaster:
    return Forecaster(
        spec_of(FEED | {"known": ["w"], "season": 0, "C": 10.0, "gamma": 0.02, "represent": "change"} | settings)
    )


def run(one: Forecaster, end: int = N, size: int = 8, target: bool | None = False, lead: int = 3) -> Forecaster:
    """Send readings with what is known of those behind them."""
    for begin in range(0, end, size):
        one.observe([*rows(begin, begin + size), *rows(begin + size, begin + size + lead, target=target)])
    return one


def errors(one: Forecaster) -> list[float]:
    return [scores.overall("value")["mae"] / scores.overall("value")["last_value_mae"] for scores in one.scores]


def learnt(one: Forecaster, step: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the weather that rows of a step learn with, and the slots of these rows."""
    assert one.rows is not None
    at = one.rows.places(one.rows.known(step))
    return one.rows.own[at, step, -2], one.rows.slot[at]


def test_what_is_known_ahead_serves_however_it_comes() -> None:
    whole = feed()
    whole.observe(rows(0, N))  # rows of one call know each other's
    for one in (whole, run(feed()), run(feed(), target=None)):
        assert max(errors(one)) < 0.65
        assert [one.knowledge.assumed(i) for i in range(2)] == ["perfect", "perfect"]
    assert whole.knowledge.counts[:, 0].min() > 130
    by_rows, by_empty_targets = run(feed()), run(feed(), target=None)
    assert by_rows.latest == by_empty_targets.latest


def test_what_is_not_announced_is_held_when_it_is_served_and_when_it_is_learnt() -> None:
    held = feed()
    for n, row in enumerate(rows(0, N), 1):
        held.observe([row])
        if n == 60:  # the first window, too
            weather, slots = learnt(held, 1)
            assert len(slots) > 40
            np.testing.assert_array_equal(weather, WEATHER[slots])
    assert [held.knowledge.assumed(i) for i in range(2)] == ["held", "held"]
    assert not any(one.known for one in held.latest)
    for i in range(2):
        weather, slots = learnt(held, i)
        np.testing.assert_array_equal(weather, WEATHER[slots])
    assert min(errors(held)) > 0.8


def test_announced_columns_are_learnt_while_they_are_announced() -> None:
    one = feed()
    for row in rows(0, 80):
        one.observe([row])
    assert one.knowledge.lead == 0
    before = one.latest
    outcome = one.observe(rows(80, 83, target=False))
    assert [(event.kind, event.detail) for event in outcome.events] == [("known", {"lead": 3})]
    assert outcome.forecasts == one.latest
    assert [(f.slot, f.known) for f in one.latest] == [(80, True), (82, True)]
    assert [abs(f.value - Y[f.slot]) for f in one.latest] < [abs(f.value - Y[f.slot]) for f in before]
    for i, step in enumerate(STEPS):
        weather, slots = learnt(one, i)
        np.testing.assert_array_equal(weather, WEATHER[slots + step])
    assert len(one.pending[80]) == 2  # of one step ahead, and of three from earlier; none twice
    events = [event for row in rows(80, 115) for event in one.observe([row]).events if event.kind == "known"]
    assert [event.detail for event in events] == [{"lead": 0}]
    weather, slots = learnt(one, 1)
    assert (weather[slots > 85] == WEATHER[slots[slots > 85]]).all()
    assert one.knowledge.assumed(1) == "mixed"
    assert one.gap() < 1e-8


def test_what_was_announced_otherwise_is_learnt_as_it_was() -> None:
    one = feed(steps=[1])
    one.observe(rows(0, 80))
    for i in range(80, 120):
        one.observe([{"time": 3600.0 * i, "w": WEATHER[i] + 1.0}])
        one.observe(rows(i, i + 1))
    assert one.knowledge.assumed(0) == "announced"
    weather, slots = learnt(one, 0)
    late = slots >= 80
    np.testing.assert_allclose(weather[late], WEATHER[slots[late] + 1] + 1.0)


def test_an_announcement_changes_forecasts_at_once_as_if_it_had_come_before() -> None:
    sooner, later = run(feed(), 160), run(feed(), 160)
    warm = [{"time": 3600.0 * i, "w": 9.0} for i in range(160, 163)]
    before = later.latest
    outcome = later.observe(warm)
    assert outcome.announced == 3
    assert [a.value != b.value for a, b in zip(before, later.latest, strict=True)] == [True, True]
    assert {slot: len(found) for slot, found in later.pending.items()} == {160: 2, 161: 1, 162: 1}
    told_of = what_if(sooner, warm)
    assert [one["value"] for one in told_of["forecasts"]] == [one.value for one in later.latest]
    assert sooner.latest == before  # nothing is stored of it
    assert sooner.pending == run(feed(), 160).pending
    for wrong in ([*warm, *rows(160, 161)], rows(160, 161)):
        with pytest.raises(InvalidInput):
            sooner.forecasts_if(wrong)
    with pytest.raises(InvalidInput, match="no models"):
        feed().forecasts_if([])


def test_where_that_is_asked_for_no_forecast_is_made_of_what_is_not_known() -> None:
    one = run(feed(unannounced="refuse"), 160, lead=2)
    assert [f.step for f in one.latest] == [1]
    one.observe(rows(162, 163, target=False))
    assert [f.step for f in one.latest] == [1, 3]


def test_what_is_known_is_stored_and_reported() -> None:
    one = run(feed(), 160)
    back = from_arrays(one.spec, to_arrays(one))
    for kept in (one, back):
        run_on = [*rows(160, 168), *rows(168, 171, target=False)]
        kept.observe(run_on)
    for found, expected in zip(back.latest, one.latest, strict=True):
        assert (found.slot, found.value, found.low) == pytest.approx((expected.slot, expected.value, expected.low))
    assert (back.knowledge.counts == one.knowledge.counts).all()
    overall = presenter.Scores(one).overall
    assert [score["assumes"] for score in overall] == ["perfect", "perfect"]
    assert [f["known"] for f in presenter.forecasts(one.timeline, one.latest)] == ["announced", "announced"]
    assert presenter.settings(one)["chosen"]["known_ahead"] == 3


@pytest.mark.parametrize("clock", [0.0, 1.0e9, 4.0e9])
def test_a_log_gives_one_state_whatever_the_time_is(clock: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1.8e9
    state, again = (FeedState.empty(spec_of({"target": "y", "every": "1h"})) for _ in range(2))
    entries = [
        SourceEntry((i,), {"time": now + 3600.0 * hour, "y": 1.0}, None) for i, hour in enumerate((1, 2, 3, 90, 2))
    ]
    delivered = Delivery.of(entries, state.forecaster, now)
    assert [letter.position for letter in delivered.dead] == [(2,), (3,)]  # neither waits for its time
    calls = (Observations.of([{"time": now, "y": 2.0}], None, now), delivered)
    for call in calls:
        state.apply(call, call.check(state.forecaster))
    monkeypatch.setattr(time, "time", lambda: clock)
    for call in calls:
        again.apply(decode_call(call.encode()))
    assert again.encode() == state.encode()
    assert again.forecaster.timeline.time == now + 7200.0


def test_holidays_are_known_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import date

    def country_holidays(country: str, subdiv: str | None, years: int = 2024) -> list[date]:
        if country != "AU":
            raise NotImplementedError
        return [date(years, 1, 26)] if subdiv == "VIC" else []

    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "holidays", SimpleNamespace(country_holidays=country_holidays))
    _days.cache_clear()
    layout = layout_of(spec_of({"target": "y", "holidays": "AU-VIC"}), 0, Every(3600.0))
    noon = 1706184000.0  # of 25 January 2024
    found = calendar_rows(layout, noon + 3600.0 * np.array([0, 11, 12, 35, 36]), None)
    assert found[:, -2:].tolist() == [[0, 0], [0, 1], [0, 1], [0, 0]]
    assert layout.own == 2 * len(layout.cycles) + 4
    with pytest.raises(ValueError, match="no place 'XX'"):
        spec_of({"target": "y", "holidays": "XX"})
    with pytest.raises(ValueError, match="readings have times"):
        spec_of({"target": "y", "holidays": "AU", "time": None})
    monkeypatch.setitem(modules, "holidays", None)
    with pytest.raises(ValueError, match=r"livesvm\[holidays\]"):
        spec_of({"target": "y", "holidays": "AU"})
    _days.cache_clear()
