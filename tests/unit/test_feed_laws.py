"""Parts of feeds against their definitions, written down plainly, on whatever comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from livesvm import IncrementalSVC, IncrementalSVR
from livesvm.service.feeds import drift, model_selection
from livesvm.service.feeds.bands import BEYOND, RATE, Band, ConformalBand, Side
from livesvm.service.feeds.erased_times import Forgotten, are_of
from livesvm.service.feeds.features import (
    Ahead,
    RowLayout,
    calendar_cycles,
    day_in,
    layout_of,
    local_times,
    natural_period,
    waves,
)
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.interval import DAY, Every, duration, moment
from livesvm.service.feeds.represent import FAR, LEAST_CORE, MOST, MOVED, StepScale, fitted, has_moved, scaled, spread
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.scores import FIELDS, ScoredForecast, StepScores
from livesvm.service.feeds.season import _is_peak
from livesvm.service.feeds.spec import FeedSpec, spec_of
from livesvm.service.feeds.step_model import EPSILON, Recipe, StepModel, new_models
from livesvm.service.feeds.timeline import Timeline
from livesvm.service.store import codec
from livesvm.solvers.errors import InvalidInput

Floats = NDArray[np.float64]
STEPS = (1, 3)
numbers = st.floats(-100, 100).map(lambda x: round(x, 2))


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that two kept states agree."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=40), numbers)
def test_rows_are_the_newest_with_targets_that_have_come(came: list[tuple[int, bool, bool]], value: float) -> None:
    layout = layout_of(spec_of({"target": "y", "lags": 2, "rolling": {}, "time": None, "season": 3}), 3, Every(1.0))
    rows, kept, window, size, slot = Rows(layout, 2, 6, 2), list[dict[str, Any]](), 6, 9, 0
    for ordinal, (gap, drops, learns) in enumerate(came):
        slot += gap
        expected = [(i, one["n"]) for i, h in enumerate(STEPS) for one in kept[-size:] if one["slot"] == slot - h]
        assert rows.come_true(slot, STEPS, value + slot) == expected
        for i, n in expected:
            kept[n]["target"][i] = value + slot
        assert rows.append(slot, np.full(layout.shared, slot), np.full((2, layout.own), -slot), (), gap) == ordinal
        kept.append({"n": ordinal, "slot": slot, "target": [math.nan] * 2, "learnt": [False] * 2, "lead": gap})
        if drops and ordinal > 2:
            rows.drop(ordinal - 2)
            kept[ordinal - 2] |= {"slot": -1, "target": [math.nan] * 2, "learnt": [False] * 2, "lead": 0}
        oldest = max(0, len(kept) - window)
        assert rows.oldest == oldest
        for i in range(2):
            known = [one["n"] for one in kept[oldest:] if not math.isnan(one["target"][i])]
            assert rows.known(i) == known
            if learns:
                left = [one for one in kept[-size:] if one["learnt"][i] and one["n"] < oldest]
                assert rows.leaving(i) == [one["n"] for one in left]
                rows.learnt[rows.places(known), i] = True
                for one in kept:
                    one["learnt"][i] = one["n"] in known or (one["learnt"][i] and one not in left)
        there = kept[-size:]
        state = rows.to_arrays()
        slots = [one["slot"] for one in there]
        assert rows.by_slot == {one["slot"]: one["n"] for one in there if one["slot"] >= 0}
        shared = np.maximum(slots, 0)[:, None] * np.ones(layout.shared)
        own = np.broadcast_to(-np.maximum(slots, 0)[:, None, None], (len(there), 2, layout.own))
        reported = {name: [one[name] for one in there] for name in ("target", "slot", "learnt", "lead")}
        same(state, reported | {"shared": shared, "own": own, "now": np.empty((len(there), 0)), "count": len(kept)})
        back = Rows(layout, 2, 6, 2)
        back.restore(state)
        same(back.to_arrays(), state)
        assert back.by_slot == rows.by_slot


@given(st.lists(numbers, min_size=1, max_size=30), st.integers(1, 12), st.sampled_from([0.05, 0.3, 0.5]), st.data())
def test_a_side_is_a_quantile_of_the_newest_scores(
    scores: list[float], most: int, miss: float, data: st.DataObject
) -> None:
    side, level, kept = Side(miss, most), miss, list[float]()
    for score in scores:
        offset = data.draw(st.sampled_from([None, score, score - 0.01, 100.0]))
        side.learn(score, offset)
        level += 0.0 if offset is None else RATE * (miss - (score > offset))
        kept = [*kept, score][-most:]
        assert list(side.scores) == kept
        assert side.level == pytest.approx(level)
    for level in (-0.01, 0.0, 0.01, miss, 0.99, 1.0, 1.2):
        side.level = level
        n, top = len(kept), max(kept)
        behind = (n + 1) * (1 - level)  # of so many scores, the side lies at the last
        expected = sorted(kept)[max(math.ceil(behind), 1) - 1] if behind <= n else top
        beyond = max(0.0, behind / n - 1)
        assert side.offset() == pytest.approx(expected + BEYOND * beyond * abs(top))


scored = st.tuples(*[st.integers(-3, 3).map(float)] * 5, st.booleans())


@given(st.lists(scored, min_size=1, max_size=25), st.integers(0, 2**12 - 1), st.sampled_from([None, 0.8]))
def test_scores_that_are_forgotten_never_were(made: list[tuple[float, ...]], mask: int, coverage: float | None) -> None:
    scores, most, every = StepScores(coverage, 10), 10, []
    for i, (value, actual, last, seasonal, change, banded) in enumerate(made):
        low, high = (value - 1, value + 2) if banded else (math.nan, math.nan)
        every.append(
            ScoredForecast(i, float(i), i - 1.0, value, low, high, actual, last, seasonal, change, 0.0, seasonal)
        )
        scores.learn(every[-1:])
    recent = every[-most:]
    goes = np.array([bool(mask >> i & 1) for i in range(len(recent))])
    left = [*every[:-most], *(one for one, is_gone in zip(recent, goes, strict=True) if not is_gone)]
    scores.forget(goes)
    other = StepScores(coverage, most)
    for one in left:
        other.learn([one])
    n = len(left)
    up = sum(one.actual > one.last for one in left)
    for task in ("value", "direction"):
        assert scores.overall(task) == pytest.approx(other.overall(task))
        if n and task == "direction":
            rates = {
                "model": sum((one.value > 0) == (one.actual > one.last) for one in left) / n,
                "last change": sum((one.last_change > 0) == (one.actual > one.last) for one in left) / n,
                "majority": max(up, n - up) / n,
            }
            found = scores.overall(task)
            assert [found[name] for name in ("accuracy", "last_change_accuracy", "majority_accuracy")] == list(
                rates.values()
            )
            assert found["ahead"] == max(rates, key=rates.__getitem__)  # the first of several
    inside = [one for one in left if coverage is not None and not math.isnan(one.low)]
    assert scores.overall("value").get("coverage") == (
        pytest.approx(np.mean([one.low <= one.actual <= one.high for one in inside])) if inside else None
    )
    after = [one for one, is_gone in zip(recent, goes, strict=True) if not is_gone]
    np.testing.assert_array_equal(scores.recent, np.array([one[:-1] for one in after]).reshape(-1, len(FIELDS)))
    for _ in range(12):  # and the ring goes on from there
        scores.learn(every[:1])
        after = [*after, every[0]][-most:]
        np.testing.assert_array_equal(scores.recent, np.array([one[:-1] for one in after]))


@given(
    st.dictionaries(st.integers(1, 12), numbers, max_size=6), st.integers(0, 4), st.sets(st.integers(1, 9), min_size=1)
)
def test_what_is_known_ahead_is_the_last_known_up_to_then(said: dict[int, float], slot: int, steps: set[int]) -> None:
    ahead, known = Ahead(1), {0: -7.0}
    for at, value in said.items():
        ahead.announce(at, (value,))
    for at in range(slot + 1):
        known[at] = said.get(at, known.get(at - 1, -7.0))
        ahead.reach(at, (known[at],))
    known |= said
    kept = Ahead(1)
    kept.restore(ahead.to_arrays())
    for one in (ahead, kept):
        assert set(one.values) == {at for at in said if at > slot}
        found = one.of(slot, tuple(sorted(steps)))
        assert found[:, 0].tolist() == [known[max(at for at in known if at <= slot + step)] for step in sorted(steps)]


@given(st.integers(0, 50), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_scales_go_with_units_and_say_when_these_have_moved(seed: int, unit: float, shift: float) -> None:
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(60, 2)), random.standard_t(2, 60)
    one, other = fitted(X, y, 1), fitted(shift + unit * X, shift + unit * y, 1)
    for name in ("centre", "width", "middle", "unit", "spreads"):
        expected = np.asarray(getattr(one, name)) * unit + (shift if name in ("centre", "middle") else 0)
        np.testing.assert_allclose(getattr(other, name), expected, rtol=1e-6, atol=1e-6 * unit)
    for rare in (y, np.where(np.arange(60) % 7 == 0, y, 0.0)):  # however far from 0 most of them are
        cores = {fitted(X, shift + unit * rare).core, fitted(X, rare).core}
        assert cores == {1.0 if rare is y else LEAST_CORE}
    np.testing.assert_array_equal(one.centre, np.median(X, axis=0))
    assert (one.middle, one.spreads[1]) == (np.median(y), spread(X[:, 1]))
    low, high = np.quantile(y, [1 / 6, 5 / 6])
    far = FAR * (high - low) / 2
    assert one.unit == pytest.approx(np.clip(y, one.middle - far, one.middle + far).std())
    for factor, moves in ((MOVED * 0.999, False), (MOVED * 1.001, True), (1.001 / MOVED, False), (0.999 / MOVED, True)):
        assert has_moved(one, one.middle + factor * (y - one.middle), X[:, 1]) is moves
        assert has_moved(one, y, factor * X[:, 1]) is moves


HOUR = 3600.0


@pytest.mark.parametrize(
    ("seconds", "day", "natural", "cycles"),
    [
        (HOUR, 24, 24, 3),
        (8 * HOUR, 3, 3, 3),
        (8 * HOUR + 287, 3, 3, 2),  # a day, to within a hundredth of it
        (8 * HOUR - 287, 3, 3, 3),
        (8 * HOUR + 289, 0, 0, 2),
        (8 * HOUR - 289, 0, 0, 3),
        (12 * HOUR, 0, 14, 2),
        (DAY, 0, 7, 2),
        (7 * DAY / 3, 0, 3, 2),
        (7 * DAY / 3 + 1, 0, 3, 1),
        (4 * DAY, 0, 0, 1),
        (365.2425 * DAY / 3, 0, 0, 1),
        (122 * DAY, 0, 0, 0),
    ],
)
def test_a_day_and_a_week_are_whole_numbers_of_readings(seconds: float, day: int, natural: int, cycles: int) -> None:
    every = Every(seconds)
    assert (day_in(every), natural_period(every), len(calendar_cycles(every))) == (day, natural, cycles)


def test_a_week_is_a_season_where_it_fits_twice_into_the_window() -> None:
    for window, season, expected in ((336, 24, (24, 168)), (335, 24, (24,)), (336, 23, (23,)), (336, 0, ())):
        assert layout_of(spec_of({"target": "y", "window": window}), season, Every(HOUR)).seasons == expected


@given(st.integers(0, 10**6), st.integers(1, 400), st.sampled_from([DAY, 7 * DAY]))
def test_the_calendar_comes_again(hours: int, count: int, cycle: float) -> None:
    times = np.array([HOUR * hours + n * cycle for n in (0, count)])
    first, later = waves(local_times(times, moment(0.0).tzinfo), (cycle,))
    assert first == pytest.approx(later, abs=1e-6)
    angle = math.atan2(first[0], first[1]) / (2 * math.pi) % 1.0
    assert angle * cycle / HOUR % (cycle / HOUR) == pytest.approx(hours % (cycle / HOUR), abs=1e-5) or angle > 0.999


@given(st.integers(1, 31), st.integers(1, 24), st.integers(0, 60), st.integers(0, 23))
def test_months_later_is_so_many_months_between(day: int, months: int, count: int, hour: int) -> None:
    every = Every(months=months).seen((day - 1) * DAY + hour * HOUR)  # in January
    start = (day - 1) * DAY + hour * HOUR
    later = moment(every.after(start, count))
    months_later = later.year * 12 + later.month - (1970 * 12 + 1)
    assert (months_later, later.hour) == (months * count, hour)
    assert later.day == min(day, (moment(Every(months=1, day=31).after(start, months * count))).day)
    assert every.after(every.after(start, count), -count) == start
    assert round(every.between(start, every.after(start, count)), 1) == pytest.approx(count, abs=0.1)


@pytest.mark.parametrize("text", ["1ms", "1500ms", "1s", "90s", "15min", "90min", "1h", "36h", "1d", "10d", "1w", "2w"])
def test_a_duration_is_shown_as_one_that_is_the_same(text: str) -> None:
    assert duration(str(duration(text))) == duration(text)
    assert duration(text) == duration(duration(text).seconds)


CURVE = [1.0, 0.5, 0.1, 0.3, 0.6, 0.3, 0.2, 0.4, 0.7, 0.4, 0.1]


@pytest.mark.parametrize(
    ("change", "least", "slack", "is_peak"),
    [
        ({}, 0.6, 0.0, True),
        ({}, 0.7, 0.0, False),
        ({2: 0.2, 6: 0.2, 10: 0.2}, 0.55, 0.0, False),  # no higher than somewhere before, by so much
        ({6: 0.75}, 0.3, 0.0, False),  # within a quarter of the lag before
        ({10: 0.75}, 0.3, 0.0, False),  # and behind
        ({10: 0.75}, 0.3, 0.1, True),
        ({5: 0.75}, 0.3, 0.0, True),
    ],
)
def test_a_peak_stands_out(change: dict[int, float], least: float, slack: float, is_peak: bool) -> None:
    r = np.array([change.get(i, v) for i, v in enumerate([*CURVE, 0.9])])
    assert _is_peak(r, 8, least, slack) is is_peak


def test_months_have_the_periods_of_a_year() -> None:
    assert [natural_period(Every(months=n)) for n in (1, 2, 3, 4, 6, 12, 24)] == [12, 6, 4, 3, 0, 0, 0]
    assert [len(calendar_cycles(Every(months=n))) for n in (1, 4, 6)] == [1, 1, 0]


def test_readings_without_times_have_no_calendar() -> None:
    for settings, cycles in (({}, 5), ({"calendar": False}, 0), ({"time": None}, 0), ({"generation": 1}, 3)):
        assert len(layout_of(spec_of({"target": "y"} | settings), 0, Every(HOUR)).cycles) == cycles


slots = st.sets(st.integers(0, 20), max_size=4)


@given(slots, slots, st.none() | st.integers(0, 20), st.integers(-1, 21), st.integers(0, 6))
def test_what_is_forgotten_is_named_by_its_slots_or_by_all_before_one(
    gone: set[int], changed: set[int], oldest: int | None, first: int, length: int
) -> None:
    values = dict.fromkeys(sorted(gone | changed), (0.0,))
    forgotten, last = Forgotten(frozenset(gone), values, oldest), first + length
    lost = {slot for slot in range(-2, 30) if slot in values or (oldest is not None and slot < oldest)}
    assert set(np.arange(-2, 30)[forgotten.names(np.arange(-2, 30))].tolist()) == lost
    assert forgotten.concerns(first, last) is any(slot in lost for slot in range(first, last + 1) if slot > -2)
    assert forgotten.takes(first, last) is any(slot in gone for slot in range(first, last + 1))
    for lags, season, step in (((1,), 0, 2), ((1, 4), 3, 2), ((1, 2), 5, 5)):
        layout = RowLayout(lags, (), 0, 0, (season,) if season else (), ())
        made = np.arange(6, 20)
        before = lags[1] - 1 if len(lags) > 1 else 0
        seasonal = max(s for s in range(-9, 1) if season == 0 or (step - s) % season == 0)
        beside = [{m, m + step, m - before, m + seasonal} for m in made.tolist()]
        goes = are_of(layout, layout.seasons, step, made, forgotten).tolist()
        assert goes == [bool(these & lost) for these in beside]


READINGS = [
    ({}, 1, True), ({}, 1.25, True), ({}, 1.26, False), ({}, 0.75, True), ({}, 0.74, False), ({}, 0.4, False),
    ({}, 39.25, True), ({}, 39.26, False), ({}, 80.49, True), ({}, 79.51, True), ({}, 41.2, True), ({}, 41.27, False),
    ({}, 366 * 24, True), ({}, 366 * 24 + 1, False),
    ({"window": 9000}, 9000, True), ({"window": 9000}, 9001, False),
    ({"every": "1y"}, 24 * 365, True), ({"every": "1y"}, 24 * 500, False),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "hours", "is_taken"), READINGS)
def test_readings_are_on_the_clock_and_leap_over_no_more_than_a_year_or_the_window(
    settings: dict[str, Any], hours: float, is_taken: bool
) -> None:
    spec = spec_of({"target": "y", "every": "1h", "window": 100, "missing": "skip"} | settings)
    line = Timeline(spec, 100).read([{"time": 0.0, "y": 1.0}]).timeline
    if is_taken:
        plan = line.read([{"time": hours * HOUR, "y": 2.0}])
        assert [reading.slot for reading in plan.readings] == [1]
    else:
        with pytest.raises(InvalidInput):
            line.read([{"time": hours * HOUR, "y": 2.0}])


class Given:
    """Features of examples whose keys are rows of ``X`` (n, d)."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def of(self, ordinals: Sequence[int], /) -> Any:
        return self.X[list(ordinals)]

    def write(self, scale: StepScale, ordinals: Any, out: Any, /) -> None:
        out[:, : len(ordinals)] = scaled(scale, self.X[ordinals]).T


MODELS = [
    {}, {"epsilon": 0.3, "represent": "level"}, {"quantiles": [0.2, 0.7]}, {"task": "direction", "represent": "level"},
]  # fmt: skip


@pytest.mark.parametrize("settings", MODELS)
def test_a_steps_models_are_those_of_its_recipe_in_units_of_what_they_learn(settings: dict[str, Any]) -> None:
    spec = spec_of({"target": "y", "lags": 2, "rolling": {}, "calendar": False} | settings)
    recipe, random = Recipe(settings.get("represent", "change"), 0.3, 2.0), np.random.default_rng(0)
    X = random.normal(size=(60, 4)) * [1.0, 5.0, 100.0, 1.0] + 7.0
    y = 50.0 + 20.0 * np.sin(X[:, 0]) + random.normal(size=60)
    if spec.task == "direction":
        y = np.where(y > np.median(y), 1.0, -1.0)
    step, keys = StepModel(spec, recipe), list(range(50))
    step.fit(X[:50], y[:50], keys)
    scale = step.scale
    assert scale is not None
    assert scale.spreads == (spread(y[:50]), spread(X[:50, 2 if recipe.represent == "level" else 0]))
    Z = np.clip((X - scale.centre) / scale.width, -MOST, MOST)
    np.testing.assert_array_equal(step.scaled(np.vstack([X, X + 1e4])), np.vstack([Z, np.full_like(Z, MOST)]))
    values = (y if spec.task == "direction" else (y - scale.middle) / scale.unit)[:50]
    common: dict[str, Any] = {"C": 2.0, "gamma": 0.3}
    models: list[Any] = [IncrementalSVC(**common)]
    if spec.task == "value":
        epsilon = EPSILON if spec.epsilon == "auto" else spec.epsilon
        models = [IncrementalSVR(epsilon=epsilon, **common)]
        models += [IncrementalSVR(loss="pinball", quantile=q, **common) for q in spec.quantiles or ()]
    of = [getattr(model.fit(Z[:50], values), "decision_function", model.predict)(Z) for model in models]
    expected = np.stack(of, axis=1)
    if spec.task == "value":
        expected = expected * scale.unit + scale.middle
        expected[:, 1:].sort(axis=1)
    np.testing.assert_allclose(step.predict(X), expected, atol=1e-6)
    back = StepModel.from_arrays(spec, step.to_arrays(), Given(X))
    assert (back.refits, back.recipe) == (step.refits, recipe) == (1, recipe)
    other = -y[3]
    for one in (step, back):
        one.update(X[50:], y[50:], list(range(50, 60)), [0, 1])
        one.relabel(3, other)
        assert one.models[0].keys_ == list(range(2, 60))
        assert one.gap() < 1e-9
    again = StepModel(spec, recipe)
    again.scale, again.models[:] = scale, new_models(spec, recipe, scale.core)
    again.update(X[2:], np.where(np.arange(60) == 3, other, y)[2:], list(range(2, 60)), [])
    for one in (step, back):
        np.testing.assert_allclose(one.predict(X), again.predict(X), atol=1e-6)


class Recorded(StepModel):
    """A step's model that notes what it learns, and forecasts the number of examples it knows."""

    learnt: ClassVar[list[int]] = []

    def fit(self, X: Floats, y: Floats, keys: list[int]) -> None:
        self.scale = fitted(X, y)
        self.learnt[:] = keys

    def update(self, X: Floats, y: Floats, keys: list[int], leaving: list[int]) -> None:
        assert (len(X), len(y), leaving) == (len(keys), len(keys), [])
        self.learnt.extend(keys)

    def predict(self, X: Floats) -> Floats:
        return np.full((len(X), 1), float(len(self.learnt)))


@pytest.mark.parametrize(("n", "ahead"), [(40, 1), (60, 3), (60, 15), (90, 1), (17, 1), (25, 12), (9, 1)])
def test_settings_are_judged_on_blocks_by_models_of_all_that_was_known(
    n: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of({"target": "y", "steps": [ahead], "window": 100, "lags": 1, "rolling": {}, "calendar": False})
    rows = Rows(layout_of(spec, 0, Every(HOUR)), 1, 100, 24)
    for slot in range(n + ahead):
        rows.come_true(slot, (ahead,), float(slot))
        rows.append(slot, np.full(rows.layout.shared, slot), np.zeros((1, rows.layout.own)))
    monkeypatch.setattr(model_selection, "StepModel", Recorded)
    found, y = model_selection.rolling_forecasts(spec, rows, 0, Recipe("change", 0.1, 1.0))
    first = max(round(model_selection.FIRST * n), model_selection.LEAST + ahead - 1)  # so many are known then
    assert y.tolist() == [float(ahead)] * max(0, n - first)
    edges = sorted({int(edge) for edge in np.linspace(first, n, model_selection.BLOCKS + 1)}) if first < n else []
    starts = [max(edge for edge in edges if edge <= i) for i in range(first, n)]
    assert found[:, 0].tolist() == [start - ahead + 1 for start in starts]  # those whose reading has come
    if starts:
        assert Recorded.learnt == list(range(starts[-1] - ahead + 1))


R0, LEVEL, SEASONAL = "change", "level", "seasonal-change"
AUTO = {"C": "auto", "gamma": "auto", "represent": "auto"}


@pytest.mark.parametrize(
    ("settings", "errors", "naive", "expected"),
    [
        (AUTO, {}, 2.0, (R0, 0.1, 1.0)),  # nothing is better than what is begun with
        (AUTO, {LEVEL: 0.9}, 2.0, (LEVEL, 0.1, 1.0)),
        (AUTO, {LEVEL: 0.98}, 2.0, (R0, 0.1, 1.0)),  # not clearly
        (AUTO, {LEVEL: 0.9, SEASONAL: 0.8, 0.4: 0.5, 3.0: 0.5, 10.0: 0.4}, 2.0, (SEASONAL, 0.4, 10.0)),
        (AUTO, {0.02: 0.9, 0.3: 0.9, 0.01: 0.1}, 2.0, (R0, 0.02, 0.3)),  # cautious ones are not tried
        (AUTO, {0.01: 0.9, 0.001: 0.95}, 1.0, (R0, 0.02, 0.01)),
        (AUTO, {0.01: 1.2, 0.001: 1.1}, 1.0, (R0, 0.1, 1.0)),
        (AUTO, {0.001: 0.9}, 1.04, (R0, 0.1, 1.0)),  # it is clearly ahead
        (AUTO, {0.001: 0.9}, 1.02, (R0, 0.02, 0.001)),
        (AUTO | {"C": 0.5}, {0.001: 0.1, 0.4: 0.9}, 1.0, (R0, 0.4, 0.5)),
        (AUTO | {"gamma": 0.7}, {0.001: 0.9, 3.0: 0.95}, 0.9, (R0, 0.7, 0.001)),
        (AUTO | {"represent": LEVEL}, {R0: 0.1, 3.0: 0.9}, 9.0, (LEVEL, 0.1, 3.0)),
    ],
)
def test_one_setting_is_chosen_after_the_other_where_it_is_clearly_better(
    settings: dict[str, Any], errors: dict[Any, float], naive: float, expected: tuple[str, float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The error of a recipe is the product of what is said of its parts; gammas are times the number of features."""
    spec = spec_of({"target": "y", "season": 4, "window": 100, "band": None, "generation": 1} | settings)
    rows = Rows(layout_of(spec, 4, Every(HOUR)), 1, 100, 24)
    d = 1 if spec.gamma != "auto" else rows.layout.shared + rows.layout.own

    def rolling(spec: FeedSpec, rows: Rows, step: int, recipe: Recipe) -> tuple[Floats, Floats]:
        parts = (recipe.represent, round(recipe.gamma * d, 6), recipe.C)
        error = math.prod(errors.get(part, 1.0) for part in parts)
        y = np.array([naive, -naive])
        return (y - [error, -error])[:, None], y

    monkeypatch.setattr(model_selection, "rolling_forecasts", rolling)
    chosen = model_selection.choose(spec, rows)
    (recipe,) = chosen.recipes
    assert (recipe.represent, round(recipe.gamma * d, 9), recipe.C) == expected
    assert len({trial.recipe for trial in chosen.trials}) == len(chosen.trials)
    assert recipe in {trial.recipe for trial in chosen.trials}


@given(st.sets(st.integers(1, 200), min_size=1, max_size=30))
def test_some_steps_are_tried_that_grow_by_a_factor(steps: set[int]) -> None:
    horizons = tuple(sorted(steps))
    tried = [horizons[i] for i in model_selection.tried_steps(horizons)]
    wanted = [
        horizons[0] * (horizons[-1] / horizons[0]) ** (k / (model_selection.TRIED - 1))
        for k in range(model_selection.TRIED)
    ]
    nearest = {min(horizons, key=lambda step: abs(step - w)) for w in wanted}
    assert tried == (sorted(nearest) if len(horizons) > model_selection.TRIED else list(horizons))


RECORDED = [
    {}, {"quantiles": [0.1, 0.8]}, {"band": None, "lags": 1, "season": 0}, {"task": "direction"}, {"batch": 1},
    {"missing": "skip"}, {"time": None},
]  # fmt: skip


@pytest.mark.parametrize("settings", RECORDED)
def test_what_is_scored_is_what_was_said_and_what_came(settings: dict[str, Any]) -> None:
    """Values by slot, naive forecasts, bands moved reading by reading, drift, and what waits."""
    own = {"target": "y", "every": "1h", "window": 60, "steps": [1, 3], "lags": 4, "rolling": {"mean": [8]}, "batch": 7,
           "minimum": None}  # fmt: skip
    fixed = {"season": 6, "C": 1.0, "gamma": 0.05, "represent": "change"}
    feed = Forecaster(spec_of(own | fixed | settings))
    y = 10.0 + np.random.default_rng(1).normal(size=140).cumsum()
    y[[70, 80, 81, 100]] = math.nan
    rows = [({} if feed.spec.time is None else {"time": i * HOUR}) | {"y": v} for i, v in enumerate(y)]
    outcomes = [feed.observe(rows[i : i + 10]) for i in range(0, 140, 10)]
    closed = feed.spec.missing == "skip"  # over gaps
    real = np.flatnonzero(~np.isnan(y))
    at = {slot: int(i) for slot, i in enumerate(real)} if closed else {int(i): int(i) for i in real}
    held = y[real] if closed else np.array([y[real[real <= i][-1]] for i in range(140)])  # by slot
    (live, *_), *others = [outcome.events for outcome in outcomes if outcome.events]
    full = next(slot for slot, i in at.items() if (real <= i).sum() == 60)
    assert (live.kind, live.slot, live.detail["season"]) == ("live", full, feed.spec.season)
    assert all(event.kind in ("rescaled", "drift") for events in others for event in events)
    bands = [None if feed.spec.coverage is None else ConformalBand(feed.spec.coverage, 60) for _ in feed.steps]
    fresh = Forecaster(feed.spec)
    for start in range(0, 60, 10):
        fresh.observe(rows[start : start + 10])
    assert fresh.rows is not None
    residuals = [] if fresh.choice is None else model_selection.choose(fresh.spec, fresh.rows).residuals
    for step, (band, before) in enumerate(zip(bands, residuals, strict=False)):
        if band is not None:
            errors = fresh._begin_blend(step, before[:, 0])
            band.seed(*((errors, errors) if before.shape[1] == 1 else before[:, 1:].T))
    drifts, waiting, scored = drift.tests_of(feed.steps), dict[tuple[int, int], Any](), 0
    found = {(step, one.slot): one for outcome in outcomes for step, one in outcome.scored}
    last_slot = len(held) - 1

    def time_of(slot: int) -> float:
        return float(slot) if feed.spec.time is None else at[slot] * HOUR

    for slot in range(full, last_slot + 1):
        for i, step in enumerate(feed.steps):
            said = waiting.pop((step, slot), None)
            assert ((step, slot) in found) is (said is not None and slot in at)
            if said is None or slot not in at:
                continue
            one, made, (low, high) = found[step, slot], slot - step, said
            scored += 1
            season = feed.spec.season or 1
            seasonal = held[max(s for s in range(made + 1) if (slot - s) % season == 0)]
            change = 0.0 if feed.spec.lag_list == (1,) else held[made] - held[made - 1]
            expected = (slot, time_of(slot), time_of(made), one.value, *said, held[slot], held[made], seasonal, change)
            np.testing.assert_allclose(np.array(one[:10]), expected, atol=1e-9, equal_nan=True)
            band, was_wrong = bands[i], (one.value > 0) != (held[slot] > held[made])
            if band is not None and feed.spec.quantiles is None:
                band.learn(held[slot], one.value, one.value, Band(low, high))
            wrong = float(was_wrong) if feed.spec.task == "direction" else abs(held[slot] - one.value)
            drift.learn(drifts[i], step, slot, wrong)
        reach = -math.inf, -math.inf  # no band is narrower on a side than that of the step before
        for i, step in enumerate(feed.steps):
            if slot in at:
                later, band = found.get((step, slot + step)), bands[i]
                if band is not None and feed.spec.quantiles is None:
                    around = band.around(0.0, 0.0)
                    assert around.low is not None
                    assert around.high is not None
                    reach = max(-around.low, reach[0]), max(around.high, reach[1])
                if later is not None and band is not None and feed.spec.quantiles is None:
                    waiting[step, slot + step] = later.value - reach[0], later.value + reach[1]
                else:
                    waiting[step, slot + step] = (math.nan,) * 2 if later is None else (later.low, later.high)
                    assert later is None or (band is None) is math.isnan(later.low)
    assert scored > 100
    assert set(feed.pending) == {slot for _, slot in waiting}
    for test, other in zip(feed.drifts, drifts, strict=True):
        assert codec.encode(test.to_arrays()) == codec.encode(other.to_arrays())
    for band, mine in zip(bands, feed.bands, strict=True):
        if band is not None and mine is not None and feed.spec.quantiles is None:
            same(mine.to_arrays(), band.to_arrays())


def bursts(random: np.random.Generator, longest: int) -> list[list[float]]:
    """Return hours of readings that come in bursts with holes between them, a call each."""
    is_regular, sizes, holes = random.random() < 0.5, (1, 30), (1, longest)
    size, hole = int(random.integers(*sizes)), int(random.integers(*holes))
    found, hour = list[list[float]](), 0
    while sum(map(len, found)) < 120:
        if not is_regular:
            size, hole = int(random.integers(*sizes)), int(random.integers(*holes))
        found.append([float(hour + i) for i in range(size)])
        hour += size + hole
    return found


@pytest.mark.parametrize("missing", ["hold", "skip", "refuse"])
@pytest.mark.parametrize("season", [None, 0, 20], ids=["found", "none", "half of the window"])
@pytest.mark.parametrize("step", [1, 10])
def test_bursts_of_readings_with_long_holes_are_learnt(missing: str, season: int | None, step: int) -> None:
    more: dict[str, Any] = {"missing": missing, "season": season, "steps": [step], "C": 1.0, "gamma": 0.1}
    for seed in (0, 3) if step == 1 else (1, 2):
        random = np.random.default_rng(seed)
        quantiles: dict[str, Any] = {"task": "direction", "quantiles": [0.1, 0.9]} if seed == 3 else {}
        spec = spec_of({"target": "y", "time": "time", "every": "1h", "window": 40, **more, **quantiles})
        feed, behind = Forecaster(spec), 0.0
        for hours in bursts(random, [3, 200, 2000, 500][seed]):
            rows = [{"time": 3600 * hour, "y": math.sin(hour / 4) + 0.1 * random.normal()} for hour in hours]
            if missing == "refuse" and hours[0]:
                with pytest.raises(InvalidInput, match="readings are missing before this one"):
                    feed.observe([{**rows[0], "time": rows[0]["time"] - behind}, *rows[1:]])
                assert feed.timeline.newest.time <= 3600 * hours[0] - behind - 7200  # as it was
                behind = 3600 * hours[0] - feed.timeline.newest.time - 3600
                rows = [{**row, "time": row["time"] - behind} for row in rows]
            feed.observe(rows)
        assert feed.state == "live"
        assert (feed.season or 0) <= spec.window // 2
        assert feed.gap() < 1e-6
        assert all(math.isfinite(one.value) for one in feed.latest)
        assert [one.step for one in feed.latest] == [step]


def test_ten_readings_each_saturday_are_forecast() -> None:
    feed = Forecaster(spec_of({"target": "y", "time": "time", "every": "1h", "window": 100}))
    for week in range(14):
        hours = [168 * week + 48 + hour for hour in range(10)]
        feed.observe([{"time": 3600.0 * hour, "y": math.sin(hour / 3) + hour / 1000} for hour in hours])
    assert feed.state == "live"
    assert feed.gap() < 1e-6
