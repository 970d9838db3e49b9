"""Readings forgotten: a feed is as if they had been missing, and nothing of their values is left in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from livesvm.service.feeds import model_selection, snapshot
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forget import forget
from livesvm.service.feeds.interval import seconds_of
from livesvm.service.feeds.scores import ScoredForecast
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.step_model import StepModel
from livesvm.service.store import codec
from livesvm.solvers.errors import InvalidInput
from tests.support.feeds import FEED, rows_of, series

N = 150
SPEC = FEED | {"steps": [1, 3], "late": "correct", "C": 1.0, "gamma": 0.05, "represent": "level"}


def rows(columns: int = 1, n: int = N) -> list[dict[str, Any]]:
    """Return readings of so many columns."""
    values = [series(n, seed) for seed in range(columns)]
    names = ["y", "u", "v"][:columns]
    return [
        row | {name: float(column[i]) for name, column in zip(names, values, strict=True)}
        for i, row in enumerate(rows_of(values[0]))
    ]


def fed(spec: dict[str, Any], given: list[dict[str, Any]], call: int = 12) -> Forecaster:
    """Return a feed that took readings, so many a call."""
    feed = Forecaster(spec_of(spec))
    for begin in range(0, len(given), call):
        feed.observe(given[begin : begin + call])
    return feed


def times_of(feed: Forecaster, slots: list[int]) -> list[float]:
    """Return times of slots that the window holds."""
    return [time for time, past in feed.timeline.past.items() if past.slot in slots]


def missing(given: list[dict[str, Any]], slots: list[int]) -> list[dict[str, Any]]:
    """Return the same readings, some of them without a value."""
    return [
        {name: None if i in slots and name != "time" else value for name, value in row.items()}
        for i, row in enumerate(given)
    ]


def decisions(feed: Forecaster, step: int, recipe: Any) -> np.ndarray[Any, Any]:
    """Return what models that learn a feed's window from nothing say of its rows."""
    assert feed.rows is not None
    known = feed.rows.known(step)
    X, y = model_selection.examples(feed.spec, feed.rows, step, recipe.represent, known)
    model = StepModel(feed.spec, recipe)
    model.fit(X, y, known)
    return model.predict(X)


def traces(feed: Forecaster, given: list[dict[str, Any]], slots: list[int]) -> list[str]:
    """Return where the bytes of a forgotten value stand in what would be stored of a feed."""
    stored = codec.encode({"feed": snapshot.to_arrays(feed)})
    names = [name for name in given[0] if name != "time"]
    return [f"{name} {slot}" for slot in slots for name in names if np.float64(given[slot][name]).tobytes() in stored]


FORGOTTEN: list[tuple[list[int], dict[str, Any]]] = [
    ([120], {}),
    ([149], {"represent": "change"}),
    ([91], {"represent": "seasonal-change"}),
    ([100, 101, 102, 140], {"features": ["u"]}),
    ([*range(95, 130)], {"quantiles": [0.1, 0.9]}),
    ([130, 149], {"task": "direction"}),
    ([100, 120], {"components": 20}),
    ([120], {"components": 10, "quantiles": [0.1, 0.9]}),
]


@pytest.mark.parametrize(("slots", "more"), FORGOTTEN)
def test_a_feed_is_as_if_they_had_been_missing(slots: list[int], more: dict[str, Any]) -> None:
    spec = SPEC | more
    given = rows(2 if "features" in more else 1)
    feed = fed(spec, given)
    assert traces(feed, given, slots)
    before = [model.recipe for model in feed.models]
    assert forget(feed, times_of(feed, slots)) == len(slots)
    assert traces(feed, given, slots) == []
    untold = fed(spec, missing(given, slots))
    assert feed.rows is not None
    assert untold.rows is not None
    for slot, ordinal in feed.rows.by_slot.items():  # features are those of a feed that never had them
        other = untold.rows.by_slot[slot]
        here, there = feed.rows.places([ordinal])[0], untold.rows.places([other])[0]
        np.testing.assert_allclose(feed.rows.shared[here], untold.rows.shared[there], rtol=1e-12)
        np.testing.assert_allclose(feed.rows.own[here], untold.rows.own[there], rtol=1e-12)
    for step, model in enumerate(feed.models):
        assert model.recipe == before[step]
        known = feed.rows.known(step)
        X, _ = model_selection.examples(feed.spec, feed.rows, step, model.recipe.represent, known)
        np.testing.assert_allclose(model.predict(X), decisions(feed, step, model.recipe), rtol=0, atol=1e-9)
        assert model.gap() <= 1e-8
        assert not {int(feed.rows.slot[n % feed.rows.size]) + feed.steps[step] for n in known} & set(slots)
    left = max(set(range(N)) - set(slots))
    assert [past.held for past in feed.timeline.past.values()].count(True) == sum(slot < left for slot in slots)
    assert feed.timeline.slot == left
    newest = feed.timeline.slot
    assert [one.slot for one in feed.latest] == [newest + step for step in feed.steps]  # of what is held, if need be
    assert {one.slot for waiting in feed.pending.values() for one in [p.forecast for p in waiting]} <= {
        newest + 1,
        newest + 2,
        newest + 3,
    }
    made = [(slot, p.step, p.forecast.made_at) for slot, waiting in feed.pending.items() for p in waiting]
    assert len(made) == len(set(made))
    for scores in feed.scores:
        assert not set(scores.recent[:, 0].astype(int)) & set(slots)
        assert scores.overall(feed.spec.task)["n"] >= len(scores.recent)
    again = snapshot.from_arrays(feed.spec, codec.decode(codec.encode(snapshot.to_arrays(feed))))
    more_rows = rows(2 if "features" in more else 1, N + 24)[N:]
    for one in (feed, again):  # it goes on, and comes back as it is
        one.observe(more_rows)
    for mine, theirs in zip(feed.latest, again.latest, strict=True):
        assert mine.value == pytest.approx(theirs.value, abs=1e-7)


Known = list[dict[tuple[float, float], ScoredForecast]]


def check_records(feed: Forecaster, untold: Forecaster, never: Known) -> None:
    """Check that every record is as in a feed without the erased readings.

    ``never`` has what that one scored so far, of each step.
    """
    assert feed.rows is not None
    assert untold.rows is not None
    past, others = list(feed.timeline.past.items()), list(untold.timeline.past.items())
    assert past == others[len(others) - len(past) :]
    assert len(others) - len(past) <= 1  # the newest had moved the oldest out before it went
    assert feed.timeline.last == untold.timeline.last
    assert feed.newest_taken == untold.newest_taken
    held = min(feed.history.count, feed.history.longest, untold.history.longest)
    np.testing.assert_array_equal(feed.history.newest(held), untold.history.newest(held))
    np.testing.assert_array_equal(feed.ahead.newest, untold.ahead.newest)
    common = feed.rows.by_slot.keys() & untold.rows.by_slot.keys()
    assert len(common) == len(feed.rows.by_slot)
    here, there = (one.rows.places([one.rows.by_slot[slot] for slot in sorted(common)])
                   for one in (feed, untold) if one.rows is not None)  # fmt: skip
    for name in ("shared", "own", "target"):
        np.testing.assert_allclose(getattr(feed.rows, name)[here], getattr(untold.rows, name)[there], rtol=1e-12)
    for mine, other, scored in zip(feed.scores, untold.scores, never, strict=True):
        scored |= {(one.slot, one.made_at): one for one in (ScoredForecast(*row) for row in other.recent.tolist())}
        for one in (ScoredForecast(*row) for row in mine.recent.tolist()):  # of forecasts, what stands next to them
            known = scored[one.slot, one.made_at]
            assert np.allclose(one[6:10], known[6:10], rtol=1e-12, atol=0), (one, known)
    waiting = {(slot, one.step, one.forecast.made_at): one for slot, these in untold.pending.items() for one in these}
    for slot, these in feed.pending.items():
        for pending in these:
            known_pending = waiting[slot, pending.step, pending.forecast.made_at]
            ours, theirs = (
                np.array([*one.forecast.experts[1:3], *one[4:6]], float) for one in (pending, known_pending)
            )
            assert np.allclose(ours, theirs, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize(("slots", "more"), FORGOTTEN)
def test_every_record_is_as_of_a_feed_that_never_knew_them(slots: list[int], more: dict[str, Any]) -> None:
    """The last reading, too, which is none then; and so it stays."""
    columns = 2 if "features" in more else 1
    given = rows(columns, N + 36)
    given[N] = missing(given, [N])[N]
    feed, untold = fed(SPEC | more, given[:N]), fed(SPEC | more, missing(given[:N], slots))
    forget(feed, times_of(feed, slots))
    never: Known = [{} for _ in feed.steps]
    check_records(feed, untold, never)
    for part in (given[N : N + 1], given[N + 1 : N + 7], given[N + 7 :]):
        for one in (feed, untold):
            one.observe(part)
        check_records(feed, untold, never)


def test_rows_that_only_held_ones_lie_behind_go_only_where_nothing_else_is_known() -> None:
    feed = fed(SPEC, rows())
    assert feed.rows is not None
    before = set(feed.rows.by_slot)
    forget(feed, times_of(feed, [120]))
    assert before - set(feed.rows.by_slot) == {120}


@pytest.mark.parametrize("more", [{}, {"quantiles": [0.1, 0.9]}])
def test_a_band_begins_again_with_the_residuals_of_what_is_left(more: dict[str, Any]) -> None:
    feed = fed(SPEC | more, rows(n=80))
    forget(feed, times_of(feed, [50]))
    assert feed.rows is not None
    for step, band in enumerate(feed.bands):
        assert band is not None
        forecasts, y = model_selection.rolling_forecasts(feed.spec, feed.rows, step, feed.models[step].recipe)
        assert len(y) > 0
        for side, found in zip(band.sides, (forecasts[:, min(1, len(more))] - y, y - forecasts[:, -1]), strict=True):
            assert list(side.scores)[: len(y)] == pytest.approx(found.tolist())


def test_before_the_window() -> None:
    given = rows()
    feed = fed(SPEC, given)
    gone = [*range(90 - 12, 90)]
    assert traces(feed, given, gone)
    assert forget(feed, [0.0], beyond=True) == 0
    assert traces(feed, given, gone) == []
    assert forget(feed, [0.0], beyond=True) is None
    assert feed.state == "live"
    feed.observe(rows(n=N + 12)[N:])


@pytest.mark.parametrize("n", [5, 30, 59])
def test_while_the_window_fills(n: int) -> None:
    given = rows(n=120)
    spec = SPEC | {"every": None} if n == 5 else SPEC
    feed = fed(spec, given[:n], 5)
    slot = 2 if n == 5 else 20
    gone = [feed.timeline.waiting[slot][0]] if n == 5 else times_of(feed, [slot])
    assert traces(feed, given, [slot])
    forget(feed, gone)
    assert traces(feed, given, [slot]) == []
    for begin in range(n, 120, 12):
        feed.observe(given[begin : begin + 12])
    assert feed.state == "live"
    assert traces(feed, given, [slot]) == []


@pytest.mark.parametrize("share", [0.82, 0.95, 1.0])
def test_with_too_little_left_the_window_fills_again(share: float) -> None:
    given = rows(n=300)
    feed = fed(SPEC, given[:N])
    slots = [*range(90, 90 + round(60 * share))]
    assert forget(feed, times_of(feed, slots), beyond=True) == len(slots)
    assert feed.state == "filling"
    assert not feed.pending
    assert traces(feed, given, [*range(149 - 60, 90 + round(60 * share))]) == []
    for begin in range(N, 300, 12):
        feed.observe(given[begin : begin + 12])
    assert feed.state == "live"
    assert feed.gap() <= 1e-8


def test_columns_known_ahead_go_from_rows_before_too() -> None:
    random = np.random.default_rng(4)
    given = [row | {"k": float(value)} for row, value in zip(rows(), random.normal(size=N), strict=True)]
    feed = fed(SPEC | {"known": ["k"]}, given)
    assert traces(feed, given, [120])
    forget(feed, times_of(feed, [120]))
    assert traces(feed, given, [120]) == []


def test_those_that_were_missing_are_not_counted() -> None:
    feed = fed(SPEC, missing(rows(), [120]))
    assert forget(feed, times_of(feed, [119, 120])) == 1


def test_a_reading_that_comes_again_is_a_late_one() -> None:
    given = rows()
    feed = fed(SPEC, given)
    forget(feed, times_of(feed, [120]))
    outcome = feed.observe([given[120]])
    assert (outcome.accepted, outcome.corrected) == (1, 1)


@pytest.mark.parametrize(("n", "every"), [(5, None), (40, "1h"), (N, None)])
@pytest.mark.parametrize("leap", [1, 30, 2000])
def test_the_newest_reading_forgotten_gives_the_clock_back(n: int, leap: int, every: str | None) -> None:
    given = rows(n=N + 12)
    feed, never = (fed(SPEC | {"every": every, "late": "refuse"}, given[:n]) for _ in range(2))
    ahead = datetime.fromisoformat(given[n - 1]["time"]) + timedelta(hours=leap)
    stray = {"time": ahead.isoformat(), "y": 9.75}
    feed.observe([stray])
    with pytest.raises(InvalidInput):
        feed.observe(given[n : n + 1])
    forget(feed, [seconds_of(ahead.replace(tzinfo=UTC))])
    again = snapshot.from_arrays(feed.spec, codec.decode(codec.encode(snapshot.to_arrays(feed))))
    for one in (feed, again, never):
        assert one.observe(given[n : n + 1]).accepted == 1
        assert one.observe(given[n + 1 : n + 12]).accepted == 11
    assert feed.timeline.time == again.timeline.time == never.timeline.time
    assert feed.state == never.state
    if leap < SPEC["window"]:
        assert feed.timeline.past == again.timeline.past
        assert feed.timeline.past.items() <= never.timeline.past.items()  # those that a gap has moved out are gone
        if feed.rows is not None:
            np.testing.assert_array_equal(feed.history.newest(24), never.history.newest(24))
    assert [one.slot - feed.timeline.slot for one in feed.latest] == [one.step for one in never.latest]
    assert feed.gap() <= 1e-8


def test_a_feed_of_which_all_is_forgotten_takes_any_time() -> None:
    feed = fed(SPEC, rows())
    forget(feed, list(feed.timeline.past), beyond=True)
    assert (feed.timeline.time, feed.latest, feed.state) == (None, [], "filling")
    assert feed.observe(rows(n=40)).accepted == 40


def test_landmarks_hold_no_reading_that_left() -> None:
    feed = fed(SPEC | {"components": 10}, rows(n=420))
    for is_of in (False, True):
        for step in feed.models:
            (model,) = step.models
            scale: Any = model.feature_scale_
            assert scale.is_of(model.window_features, model.window_sample_weight) == is_of
        if not is_of:
            forget(feed, [], beyond=True)


def test_nothing_is_forgotten_of_times_that_are_not_there() -> None:
    feed = fed(SPEC, rows())
    before = codec.encode(snapshot.to_arrays(feed))
    assert forget(feed, [1.0, 2.0]) is None
    assert codec.encode(snapshot.to_arrays(feed)) == before


def slots_at_random() -> Iterator[Any]:
    """Yield some sets of slots of the window."""
    random = np.random.default_rng(8)
    for size in (1, 2, 7, 20):
        yield sorted(random.choice(np.arange(90, 150), size, replace=False).tolist())


@pytest.mark.parametrize("slots", list(slots_at_random()))
def test_one_after_the_other_is_as_all_at_once(slots: list[int]) -> None:
    given = rows()
    together, apart = fed(SPEC, given), fed(SPEC, given)
    forget(together, times_of(together, slots))
    for slot in slots:
        forget(apart, times_of(apart, [slot]))
    assert together.rows is not None
    assert apart.rows is not None
    assert together.rows.by_slot.keys() >= apart.rows.by_slot.keys()
    assert {p.values for p in together.timeline.past.values()} == {p.values for p in apart.timeline.past.values()}
    assert traces(apart, given, slots) == []


def test_a_scale_holds_no_reading_that_left() -> None:
    """A median is the value of a reading, and outlives its window; forgetting older readings ends that."""
    given = rows(n=420)
    spec = {name: value for name, value in SPEC.items() if name not in ("rolling", "season")}
    feed = fed(spec | {"represent": "change", "lags": 1}, given[:260])
    for end in (420, None):
        held = {past.slot for past in feed.timeline.past.values()}
        old = [slot for slot in range(260 if end else 420) if slot not in held]
        reach = min(held) - 100
        assert traces(feed, given, [slot for slot in old if slot < reach])
        assert forget(feed, [], beyond=True) == 0
        assert traces(feed, given, old) == []
        if end:
            feed.observe(given[260:end])
