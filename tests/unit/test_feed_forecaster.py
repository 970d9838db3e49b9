"""The forecasting core: exact, prequential, the same when replayed, and back after drift."""

from __future__ import annotations

import tracemalloc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from livesvm.service.feeds import drift, model_selection
from livesvm.service.feeds.features import seasonal_ends, shared_row
from livesvm.service.feeds.forecaster import LOOKS, FeedOutcome, Forecaster
from livesvm.service.feeds.model_selection import Trial, examples, rolling_forecasts
from livesvm.service.feeds.proofs import proofs_of
from livesvm.service.feeds.represent import represented
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import FeedSpec, spec_of
from livesvm.service.feeds.step_model import Recipe, StepModel, weights
from livesvm.service.feeds.timeline import Reading, Row
from livesvm.service.store import codec
from livesvm.solvers.errors import InvalidInput

Floats = NDArray[np.float64]

FIXED = {"C": 1.0, "gamma": 0.01, "represent": "change"}


def series(n: int, seed: int = 0, noise: float = 1.0) -> Floats:
    """Return a level that wanders, a season of 12, and noise."""
    random = np.random.default_rng(seed)
    t = np.arange(n)
    walk = random.normal(size=n).cumsum() * 0.1
    return np.asarray(10 + walk + 3 * np.sin(2 * np.pi * t / 12) + noise * random.normal(size=n))


def rows_of(y: Floats, first: int = 0) -> list[dict[str, Any]]:
    return [{"time": 3600.0 * (first + i), "y": None if np.isnan(v) else float(v)} for i, v in enumerate(y)]


def feed(**given: Any) -> Forecaster:
    own = {"target": "y", "every": "1h", "window": 120, "steps": [1, 3, 9], "rolling": {"mean": [12]}, "lags": 6}
    return Forecaster(spec_of(own | FIXED | given))


def observe(one: Forecaster, rows: list[dict[str, Any]], size: int = 12) -> list[FeedOutcome]:
    return [one.observe(rows[i : i + size]) for i in range(0, len(rows), size)]


def same(a: Any, b: Any, tolerance: float = 0.0) -> None:
    """Assert that two states agree."""
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, np.ndarray):
            assert np.allclose(value, b[name], rtol=tolerance, atol=tolerance, equal_nan=True), name
        elif isinstance(value, float):
            assert value == pytest.approx(b[name], rel=tolerance or 1e-15), name
        else:
            assert value == b[name], name


def test_every_steps_model_is_the_optimum_over_its_window() -> None:
    one, y = feed(), series(300)
    observe(one, rows_of(y))
    assert one.state == "live"
    assert one.gap() < 1e-10
    assert one.rows is not None
    for i, step in enumerate(one.steps):
        model = one.models[i]
        known = list(range(one.rows.oldest, one.rows.count - step))
        assert one.rows.known(i) == known == model.models[0].keys_
        X, target = examples(one.spec, one.rows, i, "change", known)
        slots = one.rows.slot[one.rows.places(known)]
        assert target == pytest.approx(y[slots + step] - y[slots])
        again = SVR(C=1.0, gamma=0.01, epsilon=0.05, tol=1e-8).fit(model.scaled(X), model._targets(target))
        newest = one.examples(i, [one.rows.count - 1])[0]
        assert model.scale is not None
        expected = again.predict(model.scaled(newest)) * model.scale.unit + model.scale.middle + y[-1]
        assert one.latest[i].experts[0] == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.parametrize("task", ["value", "direction"])
def test_models_with_components_are_linear_models_on_their_maps(task: str) -> None:
    one = feed(components=20, task=task)
    observe(one, rows_of(series(300)))
    assert (one.state, one.gap() < 1e-10) == ("live", True)
    assert one.rows is not None
    for i, step in enumerate(one.models):
        (model,) = step.models
        mapped = cast("Any", model.feature_scale_).apply(model.window_features)
        machine = (SVR(C=1.0, epsilon=0.05, tol=1e-8) if task == "value" else SVC(C=1.0, tol=1e-8)).set_params(
            kernel="linear"
        )
        machine.fit(mapped, model.window_y)
        decide = machine.predict if task == "value" else machine.decision_function
        X, y = one.examples(i, one.rows.known(i))
        assert step._targets(y) == pytest.approx(model.window_y)
        assert model.predictor().decision_function(step.scaled(X)) == pytest.approx(decide(mapped), abs=1e-5)
        assert model.predictor().kernel.is_projected
    proofs = proofs_of(one)
    assert {proof["approximation"]["components"] for proof in proofs} == {20}
    assert all(0.0 < proof["approximation"]["left_out"] < 1.0 for proof in proofs)
    before = one.predict([one.rows.count - 1])
    one.cool()
    assert (one.is_cool, one.hot_bytes) == (True, 0)
    assert one.predict([one.rows.count - 1]) == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize(("outliers", "batch"), [("learn", 7), ("hold", 1)])
def test_the_future_changes_no_earlier_forecast(outliers: str, batch: int) -> None:
    y = series(200)

    def made(first: int) -> dict[tuple[int, float], tuple[Any, ...]]:
        """Return forecasts by step and time; every reading from ``first`` on is changed."""
        random, others = np.random.default_rng(9), np.cos(np.arange(400.0)).reshape(2, 200)
        values = y.copy()
        values[first:] = random.normal(size=200 - first) * 1e3
        others[0, first:] = random.normal(size=200 - first)  # the other column is known ahead
        one = feed(batch=batch, features=["u"], known=["v"], outliers=outliers)
        rows = [{**row, "u": u, "v": v} for row, u, v in zip(rows_of(values), *others.tolist(), strict=True)]
        outcomes = observe(one, rows, 40)
        scored = [(step, s) for outcome in outcomes for step, s in outcome.scored]
        return {(step, s.made_at): (s.value, s.low, s.high, s.last, s.seasonal) for step, s in scored}

    expected = made(200)
    for first in (161, 166, 167, 172):  # at the second, last and first of batches of 7, and in the midst of one
        before = {key: one for key, one in made(first).items() if key[1] < 3600.0 * first}
        assert len(before) > 100
        assert before == {key: expected[key] for key in before}


@pytest.mark.parametrize("step", [0, 1, 2])
def test_settings_are_judged_by_forecasts_that_knew_nothing_of_what_came(step: int) -> None:
    """Whatever readings come after one, what was forecast from it and from those before is the same."""
    one, recipe = feed(), Recipe("change", 0.01, 1.0)
    observe(one, rows_of(series(120)))
    assert one.rows is not None
    targets, arrive = one.rows.target.copy(), one.rows.slot + one.steps[step]
    expected, y = rolling_forecasts(one.spec, one.rows, step, recipe)
    slots = one.rows.slot[one.rows.places(one.rows.known(step))][-len(y) :]
    assert len(y) > 20
    for last in slots.tolist():
        one.rows.target[:, step] = np.where(arrive > last, targets[:, step] + 1e3 * np.cos(arrive), targets[:, step])
        found, _ = rolling_forecasts(one.spec, one.rows, step, recipe)
        np.testing.assert_array_equal(found[slots <= last], expected[slots <= last])


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=8, max_size=20), st.integers(0, 5))
def test_with_batches_of_one_it_does_not_matter_how_calls_are_cut(sizes: list[int], again: int) -> None:
    y = series(130)
    y[[40, 85, 99, 100, 129]] = np.nan
    rows = rows_of(y)
    whole = feed(batch=1, steps=[1, 3], window=80)
    expected = whole.observe(rows)
    events, scored = [], []
    cut, start = feed(batch=1, steps=[1, 3], window=80), 0
    for size in [*sizes, 130]:
        outcome = cut.observe(rows[max(0, start - again) : start + size])
        assert outcome.accepted + outcome.ignored == min(130, start + size) - max(0, start - again)
        events += outcome.events
        scored += outcome.scored
        start = min(130, start + size)
    assert (events, scored) == (expected.events, expected.scored)
    same(to_arrays(cut), to_arrays(whole))


@pytest.mark.parametrize("components", [None, 25])
def test_the_same_calls_give_the_same_state_and_so_does_a_kept_one(components: int | None) -> None:
    y = series(260)
    y[[50, 170, 171]] = np.nan
    rows = rows_of(y)
    auto: dict[str, Any] = {"C": "auto", "represent": "auto", "components": components}
    live, replayed = feed(**auto), feed(**auto)
    for start in range(0, 260, 20):
        live.observe(rows[start : start + 20])
    for start in range(0, 260, 20):
        replayed.observe(rows[start : start + 20])
    same(to_arrays(live), to_arrays(replayed))
    for until in (30, 130, 200):
        kept = feed(components=components)
        observe(kept, rows[:until], 10)
        back = from_arrays(kept.spec, to_arrays(kept))
        same(to_arrays(back), to_arrays(kept), 1e-9)
        assert back.gap() < 1e-10
        for one in (kept, back):
            observe(one, rows[until:], 10)
        same(to_arrays(back), to_arrays(kept), 1e-7)


def test_a_refused_call_changes_nothing() -> None:
    one = feed()
    observe(one, rows_of(series(150)))
    before = to_arrays(one)
    with pytest.raises(InvalidInput) as caught:
        one.observe([*rows_of(series(3), 150), {"time": 3600.0 * 153, "y": "many"}])
    assert (caught.value.field, caught.value.row) == ("y", 3)
    same(to_arrays(one), before)


def test_the_season_and_the_distance_are_found_and_announced() -> None:
    one = feed(every=None, C="auto", gamma="auto", represent="auto")
    events = [event for outcome in observe(one, rows_of(series(130, noise=0.3))) for event in outcome.events]
    assert events[0].kind == "live"
    assert (events[0].detail["season"], events[0].detail["every"], events[0].slot) == (12, "1h", 119)
    assert [chosen["step"] for chosen in events[0].detail["chosen"]] == [1, 3, 9]
    assert one.choice is not None
    tried = {trial.recipe.represent for trial in one.choice.trials}
    assert tried == {"change", "level", "seasonal-change"}
    for step, model in zip(one.steps, one.models, strict=True):
        trials = [trial for trial in one.choice.trials if trial.step == step]
        chosen = next(trial for trial in trials if trial.recipe == model.recipe)
        assert 0.97 * chosen.error <= min(trial.error for trial in trials)


def test_forecasts_beat_naive_ones_and_bands_hold() -> None:
    one = feed(window=300, C="auto", gamma="auto", represent="auto")
    observe(one, rows_of(series(1000)), 20)
    for scores in one.scores:
        found = scores.overall("value")
        assert found["ahead"] == "model"
        assert 0.85 < found["coverage"] < 0.95


def test_a_band_reaches_as_far_as_that_of_the_step_before() -> None:
    one = feed()
    observe(one, rows_of(series(200)))
    band = one.bands[1]
    assert band is not None
    below, above = band.sides
    below.scores, above.scores = 0 * below.scores, above.scores + 100.0  # the second step seems better, and worse
    one.observe(rows_of(series(201)[200:], 200))
    ends = [(each.value - (each.low or 0.0), (each.high or 0.0) - each.value) for each in one.latest]
    assert ends[0][0] == pytest.approx(ends[1][0])
    assert ends[0][0] > 0.0
    assert ends[2][1] == pytest.approx(ends[1][1])
    assert ends[1][1] > 90.0


@pytest.mark.parametrize("kind", ["level", "scale"])
def test_drift_is_announced_and_forecasts_are_soon_ahead_again(kind: str) -> None:
    y, n = series(950), 500
    y[n:] = y[n:] + 300.0 if kind == "level" else 10 * y[n:]
    one = feed(window=300, C="auto", gamma="auto", represent="auto")
    events = [event for outcome in observe(one, rows_of(y)) for event in outcome.events if event.slot >= n]
    found = {event.kind for event in events if event.slot < n + 150}
    assert {"shifted" if kind == "level" else "drift", "rescaled"} <= found
    assert one.gap() < 1e-9
    for scores in one.scores:
        rows = scores.recent[:200]  # those from half a window after the change
        assert rows[0, 0] == n + 150
        error, last, seasonal = (np.abs(rows[:, i] - rows[:, 6]).mean() for i in (3, 7, 8))
        assert error < min(last, seasonal)


def test_directions_are_those_of_an_exact_classifier() -> None:
    one, y = feed(task="direction"), series(300)
    scored = [each for outcome in observe(one, rows_of(y)) for each in outcome.scored]
    assert one.gap() < 1e-10
    assert one.rows is not None
    for i, step in enumerate(one.steps):
        known = one.rows.known(i)
        X, label = one.examples(i, known)
        slots = one.rows.slot[one.rows.places(known)]
        assert (label > 0).tolist() == (y[slots + step] > y[slots]).tolist()
        again = SVC(C=1.0, gamma=0.01, tol=1e-8).fit(one.models[i].scaled(X), label)
        newest = one.models[i].scaled(one.examples(i, [one.rows.count - 1])[0])
        assert one.latest[i].value == pytest.approx(again.decision_function(newest)[0], abs=1e-4)
        assert one.scores[i].overall("direction")["accuracy"] > 0.6
        errors = drift.tests_of(one.steps)[i]
        for s in [s for ahead, s in scored if ahead == step]:
            drift.learn(errors, step, s.slot, float((s.value > 0) != (s.actual > s.last)))
            assert s.last_change == pytest.approx(y[s.slot - step] - y[s.slot - step - 1])
        assert codec.encode(one.drifts[i].to_arrays()) == codec.encode(errors.to_arrays())
    assert one.latest[0].low is None


def test_directions_of_a_series_that_only_rises() -> None:
    one = feed(task="direction", C="auto")
    observe(one, rows_of(np.arange(200.0)))
    assert one.scores[0].overall("direction")["accuracy"] == 1.0


def test_quantiles_are_conformalized() -> None:
    one = feed(quantiles=[0.1, 0.9], window=200)
    observe(one, rows_of(series(700)))
    assert len(one.models[0].models) == 3
    assert one.gap() < 1e-9
    assert all(0.75 < scores.overall("value")["coverage"] < 0.85 for scores in one.scores)


def test_a_correction_relabels_what_was_learnt_from_it() -> None:
    one, y = feed(late="correct"), series(200)
    observe(one, rows_of(y))
    outcome = one.observe([{"time": 3600.0 * 180, "y": 99.0}])
    assert outcome.corrected == 1
    assert one.rows is not None
    for i, step in enumerate(one.steps):
        keys = one.models[i].models[0].keys_
        ordinal = one.rows.by_slot[180 - step]
        assert one.models[i].models[0].window_y[keys.index(ordinal)] == pytest.approx(
            one.models[i]._targets(np.array([99.0 - y[180 - step]]))[0]
        )
    assert one.gap() < 1e-10
    assert one.history.back(19) == 99.0


def test_a_correction_while_the_window_fills_is_as_if_it_had_come_so() -> None:
    y = series(150)
    corrected, other = feed(late="correct"), feed(late="correct")
    observe(corrected, rows_of(y[:60]))
    corrected.observe([{"time": 3600.0 * 20, "y": 15.0}])
    y[20] = 15.0
    observe(other, rows_of(y[:60]))
    for one in (corrected, other):
        observe(one, rows_of(y[60:], 60))
    same(to_arrays(corrected), to_arrays(other))


def test_the_window_is_first_full_at_one_reading_whatever_the_batch() -> None:
    one, y = feed(batch=24), series(126)
    observe(one, rows_of(y[:115]), 115)
    (outcome,) = observe(one, rows_of(y[115:], 115))
    assert [(event.kind, event.slot) for event in outcome.events] == [("live", 119)]


def test_scales_are_looked_at_so_often_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(model: StepModel, X: Floats, y: Floats) -> bool:
        looks.append(model)
        return False

    monkeypatch.setattr(StepModel, "is_off_scale", look)
    one = feed(steps=[1])
    observe(one, rows_of(series(120)))
    looks.clear()
    observe(one, rows_of(series(240)[120:], 120), 1)
    assert len(looks) == LOOKS


def test_missing_readings_are_neither_learnt_nor_scored() -> None:
    one, y = feed(), series(260)
    y[150:160] = np.nan
    outcomes = observe(one, rows_of(y))
    assert one.rows is not None
    slots = one.rows.slot[one.rows.places(one.rows.known(0))]
    assert not set(range(149, 160)) & set(slots.tolist())
    scored = {s.slot for outcome in outcomes for _, s in outcome.scored}
    made = set(range(119, 260)) - set(range(150, 160))
    assert scored == {slot + step for slot in made for step in one.steps} & made - {119}
    outcome = one.observe(rows_of(series(5), 260 + 24 * 30))  # a month is missing
    assert len(outcome.forecasts) == 3
    assert one.gap() < 1e-10
    assert min(one.pending) > one.timeline.slot


def test_what_is_to_come_is_forecast_from_held_values_and_not_scored() -> None:
    held, y = feed(window=80, calendar=False, generation=1), series(120)
    observe(held, rows_of(y))
    assert held.rows is not None
    layout = held.rows.layout
    waiting = {slot: list(found) for slot, found in held.pending.items()}
    for slot in range(120, 124):
        outcome = held.take(held.check([{"time": 3600.0 * slot, "y": None}], is_first=True))  # as it was logged once
        assert [(f.slot, f.made_at) for f in outcome.forecasts] == [(slot + step, 3600.0 * slot) for step in (1, 3, 9)]
        assert all(f.low is not None and f.high is not None and f.low < f.value < f.high for f in outcome.forecasts)
        past = np.append(y, np.full(slot - 119, y[-1]))  # as if the last value had come again
        shared = shared_row(layout, past, Reading(slot, 3600.0 * slot, (float(y[-1]),)))
        own = past[seasonal_ends(layout, held.steps)]
        for i, made in enumerate(outcome.forecasts):
            change = held.models[i].predict(represented(layout, "change", shared[None], own[i : i + 1]))
            assert made.value == pytest.approx(y[-1] + change[0, 0], abs=1e-12)
    assert held.pending == {slot: found for slot, found in waiting.items() if slot > 123}
    back = from_arrays(held.spec, to_arrays(held))
    assert back.latest == held.latest
    scored = held.observe(rows_of(y[:1], 124)).scored
    assert [(step, s.made_at) for step, s in scored] == [(9, 115 * 3600.0)]


@pytest.mark.parametrize("constant", [0.0, 5.0, -1e9])
def test_constant_series_are_forecast(constant: float) -> None:
    one = feed(C="auto", gamma="auto", represent="auto")
    observe(one, rows_of(np.full(200, constant)))
    assert [forecast.value for forecast in one.latest] == pytest.approx([constant] * 3, abs=0.1)


@pytest.mark.parametrize(
    "settings", [{"window": 40, "steps": 10, "lags": None}, {"window": 40, "steps": 9, "lags": 20}]
)
def test_small_windows(settings: dict[str, Any]) -> None:
    one = feed(**settings, C="auto", gamma="auto", represent="auto")
    observe(one, rows_of(series(100)), 5)
    assert len(one.latest) == len(one.steps)
    assert one.gap() < 1e-10


def test_known_columns_and_features_are_used() -> None:
    random = np.random.default_rng(0)
    known = random.normal(size=320)
    y = 5 * known + 0.1 * random.normal(size=320)
    one = feed(known=["k"], features=["f"], steps=[1], window=200, gamma="auto", C=10.0)
    rows: list[Row] = [{"time": 3600.0 * i, "y": y[i], "k": known[i], "f": 0.0} for i in range(319)]
    for i, row in enumerate(rows):
        outcome = one.observe([row, {"time": 3600.0 * (i + 1), "k": known[i + 1]}])
        assert (outcome.accepted, outcome.announced) == (1, 1)
    assert len(one.ahead.values) == 1
    found = one.scores[0].overall("value")
    assert found["mae"] < 0.3 * found["last_value_mae"]


def test_where_nothing_is_ahead_of_naive_forecasts_models_that_stay_close_to_them_are_tried() -> None:
    """Unless naive forecasts are served themselves."""
    for generation, count in ((1, len(model_selection.CAUTIOUS)), (2, 0)):
        one = feed(C="auto", gamma="auto", represent="auto", steps=[1], generation=generation)
        observe(one, rows_of(np.random.default_rng(5).normal(size=120).cumsum()))
        assert one.choice is not None
        assert one.rows is not None
        d = (weights(one.spec, one.rows.layout.shared + one.rows.layout.own) ** 2).sum()
        cautious = [trial.recipe for trial in one.choice.trials if trial.recipe.C in model_selection.CAUTIOUS]
        assert len(cautious) == count
        assert {recipe.gamma for recipe in cautious} <= {model_selection.GAMMAS[0] / d}


def test_steps_that_are_not_tried_take_what_was_chosen_for_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    one = feed(steps=[1, 2, 3, 5, 8, 9, 11, 12])
    observe(one, rows_of(series(120)))
    assert one.rows is not None

    def found(spec: FeedSpec, rows: Rows, step: int, trials: list[Trial]) -> Recipe:
        return Recipe("change", 0.01, float(spec.horizons[step]))

    monkeypatch.setattr(model_selection, "_search", found)
    assert [one.steps[i] for i in model_selection.tried_steps(one.steps)] == [1, 2, 5, 12]
    assert [recipe.C for recipe in model_selection.choose(one.spec, one.rows).recipes] == [1, 2, 2, 5, 12, 12, 12, 12]


def test_recipes_are_adopted_and_what_is_auto_is_chosen_again() -> None:
    one = feed(C="auto", gamma="auto")
    observe(one, rows_of(series(200)))
    latest, pending = list(one.latest), dict(one.pending)
    bands = [band.to_arrays() for band in one.bands if band is not None]
    assert len(bands) == 3
    refits = [model.refits for model in one.models]
    outcome = one.adopt([Recipe("level", 0.1, 1.0)] * 3)
    assert [model.refits for model in one.models] == [count + 1 for count in refits]
    assert [event.kind for event in outcome.events] == ["chosen"]
    assert one.gap() < 1e-10
    assert (one.latest, dict(one.pending)) == (latest, pending)
    for band, before in zip(one.bands, bands, strict=True):  # the errors that came are still those of forecasts
        assert band is not None
        same(band.to_arrays(), before)
    eager = feed(C="auto", gamma="auto", on_drift="choose")
    y = series(400)
    y[200:] *= 20
    kinds = [event.kind for outcome in observe(eager, rows_of(y)) for event in outcome.events]
    assert "chosen" in kinds
    assert eager.gap() < 1e-9


def test_memory_does_not_grow() -> None:
    one, y = feed(batch=24, steps=2), series(2400)
    observe(one, rows_of(y[:1200]), 24)
    tracemalloc.start()
    try:
        sizes = []
        for start in range(1200, 2400, 300):
            observe(one, rows_of(y[start : start + 300], start), 24)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] < sizes[0] + 200_000
