"""What a model or a feed gives up until its next update, and what it says of its bytes."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections import deque
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.service.feeds import packed, presenter
from livesvm.service.feeds.commands import Observations
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.state import ANNOUNCED, FeedState, View
from livesvm.service.feeds.step_model import StepModel
from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.homotopy import refactorize
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.memory import padded, scratch
from tests.support.feeds import FEED, rows_of, series
from tests.unit.test_feed_forecaster import same

N = 150


def trained(classes: int = 2) -> Any:
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=N)
    X = rng.normal(size=(N, 5)) + 0.4 * y[:, None]
    return LiveSVC(C=1.0, gamma=0.2).fit(X, y)


def exchange(model: Any, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    model.update(add=(rng.normal(size=(1, 5)), [int(rng.integers(2))]), remove=model.keys_[:1])


def test_a_cool_model_holds_its_data_and_little_else() -> None:
    model = trained()
    data = 8 * model.n_window_ * (model.n_features_in_ + 15)
    assert model.hot_bytes >= 8 * model.n_window_ * model._window.state.n_free
    held, hot = model.held_bytes, model.hot_bytes
    X, before = model.window_X, model.certificate()
    decisions = model.decision_function(X)
    model.cool()
    assert model.hot_bytes == 0
    assert data <= model.held_bytes <= held - hot
    assert model.held_bytes <= 1.5 * data  # with the table of keys
    assert model.certificate() == before
    assert np.array_equal(model.decision_function(X), decisions)


def test_a_model_that_comes_back_is_cool() -> None:
    model = trained()
    model.cool()
    for again in (LiveSVC.from_arrays(model.get_params(), model.to_arrays()), copy.deepcopy(model)):
        assert again.hot_bytes == 0
        assert again.held_bytes <= 1.1 * model.held_bytes
        exchange(again)
        assert again.hot_bytes > 0


def test_a_model_that_knows_nothing_has_nothing_to_give_up() -> None:
    model = IncrementalSVR()
    model.cool()
    assert (model.hot_bytes, model.held_bytes) == (0, 0)
    model.update(add=([[0.0], [1.0]], [0.0, 1.0]), keys=["a", "b"])
    model.update(remove=["a", "b"])
    model.cool()
    assert model.hot_bytes == 0
    model.update(add=([[0.0], [1.0]], [0.0, 1.0]))
    assert model.certificate().relative_gap <= 1e-9


def test_space_for_more_examples_comes_back() -> None:
    model = trained()
    for _ in range(3):
        model.cool()
        assert model._window.state.capacity == padded(model._window.state.n_slots)
        rng = np.random.default_rng(2)
        model.update(add=(rng.normal(size=(40, 5)), rng.integers(2, size=40)))
        assert model.certificate().relative_gap <= 1e-9


def test_an_update_that_fails_leaves_a_cool_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained()
    model.cool()
    arrays = model.to_arrays()

    def fails(state: PathState, free: NDArray[np.int64]) -> None:
        raise MemoryLimit(2, 1)

    monkeypatch.setattr(model._window.state, "build", fails)
    with pytest.raises(MemoryLimit):
        exchange(model)
    same(model.to_arrays(), arrays)
    monkeypatch.setattr(model._window.state, "build", refactorize.refactorize)
    exchange(model)
    other = trained()
    exchange(other)
    np.testing.assert_allclose(model.decision_function(other.window_X), other.decision_function(other.window_X))


def test_pairs_of_classes_give_up_theirs() -> None:
    model, other = trained(3), trained(3)
    exchange(model)
    exchange(other)
    for seed in range(3):
        held, hot = model.held_bytes, model.hot_bytes
        assert hot > 0
        model.cool()
        assert model.hot_bytes == 0
        assert model.held_bytes <= held - hot
        exchange(model, seed)
        exchange(other, seed)
        X = other.window_X
        np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), rtol=0, atol=1e-9)


def test_a_precomputed_matrix_is_data() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = IncrementalSVC(kernel="precomputed").fit(X @ X.T, np.sign(X[:, 0]))
    model.cool()
    assert model.held_bytes >= 8 * 40 * 40
    model.update(remove=model.keys_[:3])
    assert model.certificate().relative_gap <= 1e-9


def test_threads_have_work_memory_of_their_own() -> None:
    found = [scratch()]
    other = threading.Thread(target=lambda: found.append(scratch()))
    other.start()
    other.join()
    assert scratch() is found[0]
    assert not np.shares_memory(found[0], found[1])


SETTINGS = FEED | {"C": 1.0, "gamma": 0.01, "represent": "change"}


def taken(state: FeedState, first: int, n: int) -> Any:
    return state.apply(Observations.of(rows_of(series(200))[first : first + n], None, 0.0))


@pytest.mark.parametrize(
    "more",
    [{}, {"quantiles": [0.1, 0.9]}, {"task": "direction"}, {"late": "correct", "window": 40}],
    ids=["value", "quantiles", "direction", "corrections"],
)
def test_a_feed_that_cools_at_any_moment_is_the_same(more: dict[str, Any]) -> None:
    spec = spec_of(SETTINGS | more)
    plain, cool = FeedState.empty(spec), FeedState.empty(spec)
    cool.cool()
    rng, first, most = np.random.default_rng(0), 0, 0
    while first < 100:
        n = int(rng.integers(1, 9))
        done = [taken(state, first, n) for state in (plain, cool)]
        assert len(done[0]["forecasts"]) == len(done[1]["forecasts"])
        first += n
        if "late" in more and first > 50:
            rows = rows_of(series(200))[first - 3 : first - 2]
            for state in (plain, cool):
                state.apply(Observations.of([rows[0] | {"y": 9.0}], None, 0.0))
        if rng.random() < 0.6:
            view, encoded, held, hot = View.of(cool), cool.encode(), cool.held_bytes, cool.hot_bytes
            most = max(most, hot)
            cool.cool()
            assert cool.hot_bytes == 0
            assert cool.held_bytes <= held - hot
            assert View.of(cool) == view
            assert cool.names() == plain.names()
            cool.cool()
            assert cool.encode() == encoded
        assert cool.forecaster.gap() <= 1e-8
        for ours, theirs in zip(cool.forecaster.latest, plain.forecaster.latest, strict=True):
            both = np.array([ours[:7], theirs[:7]], np.float64)
            np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-8)
            assert ours[7:9] == theirs[7:9]
            for said, theirs_said in zip(ours[9:], theirs[9:], strict=True):
                both = np.array([said, theirs_said], np.float64)  # None is NaN
                np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-8)
    assert most > 0
    assert (cool.version, cool.position) == (plain.version, plain.position)


def test_a_view_says_what_was_true_when_it_was_made() -> None:
    state = FeedState.empty(spec_of(SETTINGS))
    taken(state, 0, 100)
    views, events = [], []
    for first in range(100, 140):
        taken(state, first, 1)
        if first % 3 == 0:
            state._announce({"kind": "rescaled"})
        views.append((View.of(state), presenter.Scores(state.forecaster).lately))
        events.append([event for event in state.events if event["kind"] != "readings"][-ANNOUNCED:])
    assert len(events[-1]) == ANNOUNCED
    for (view, recent), announced in zip(views, events, strict=True):
        assert list(view.announced) == announced
        other = pickle.loads(pickle.dumps(view))
        assert (view.recent, other.recent, other.scores) == (recent, recent, view.scores)
    assert [one.recent for one, _ in views[:-1]] != [one.recent for one, _ in views[1:]]
    assert len(pickle.dumps(views[-1][0].scored)) < 2000


def test_models_of_a_cool_feed_come_back_when_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    state = FeedState.empty(spec_of(SETTINGS))
    taken(state, 0, 100)
    state.cool()
    restored: list[int] = []
    restore = StepModel._restore

    def noted(model: StepModel, *given: Any) -> None:
        restored.append(len(given[0]))
        restore(model, *given)

    monkeypatch.setattr(StepModel, "_restore", noted)
    again = FeedState.decode(state.spec, state.encode())
    taken(again, 100, 1)
    assert restored == []  # nor those of a snapshot, at first
    assert again.forecaster.models[0].models[0].n_window_ > 0
    assert again.forecaster.models[1].models[0].n_window_ > 0
    assert restored == [1, 1]
    taken(state, 100, 1)
    state.cool()
    taken(state, 101, 1)
    assert restored == [1, 1]  # those of a feed that cools each time learn where they lie
    taken(state, 102, 1)
    assert restored == [1, 1, 1, 1]
    assert state.forecaster.gap() <= 1e-8


def test_nothing_is_held_ahead_of_a_feed_without_known_columns() -> None:
    state = FeedState.empty(spec_of(SETTINGS))
    taken(state, 0, 100)
    assert state.forecaster.ahead.values == {}


def test_what_a_cool_feed_forgets_leaves_no_trace() -> None:
    plain, cool = (FeedState.empty(spec_of(SETTINGS)) for _ in range(2))
    for state in (plain, cool):
        taken(state, 0, 100)
    cool.cool()
    name, time = list(plain.readings().items())[30]
    assert name in cool.readings()
    for state in (plain, cool):
        state.forget([time], beyond=False)
    cool.cool()
    for state in (plain, cool):
        taken(state, 100, 3)
    assert cool.readings() == plain.readings()
    assert cool.forecaster.gap() <= 1e-8
    both = np.array([[one[:7] for one in state.forecaster.latest] for state in (plain, cool)], np.float64)
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-8)


def test_rows_are_packed_where_they_say_the_same_twice() -> None:
    feeds = [FeedState.empty(spec_of(SETTINGS)) for _ in range(3)]
    for number, state in enumerate(feeds):
        taken(state, 0, 140)
        if number == 2:  # a gap
            state.apply(Observations.of(rows_of(series(144))[143:], None, 0.0))
        before = state.encode()
        state.cool()
        assert state.encode() == before
        state.cool()
    rows = [state.forecaster.rows for state in feeds]
    kept = [one._packed for one in rows if one is not None]
    assert kept[0] is not None
    assert kept[1] is not None
    assert kept[0].calendar is kept[1].calendar
    assert kept[2] is None
    assert all(state.hot_bytes == 0 for state in feeds)


def size_of(one: Any, seen: set[int]) -> int:
    """Return the bytes of an object and of all that it alone refers to."""
    if id(one) in seen or isinstance(one, type) or callable(one):
        return 0
    seen.add(id(one))
    if isinstance(one, np.ndarray):
        return one.nbytes if one.base is None else size_of(one.base, seen)
    inside = [vars(one)] if hasattr(one, "__dict__") else [getattr(one, name) for name in getattr(one, "__slots__", ())]
    if isinstance(one, dict):
        inside += [*one.keys(), *one.values()]
    elif isinstance(one, list | tuple | set | deque):
        inside += list(one)
    return sys.getsizeof(one) + sum(size_of(each, seen) for each in inside)


OBJECT = 2500  # bytes of an object and its attributes, less what they hold


@pytest.mark.parametrize("more", [{}, {"quantiles": [0.1, 0.9]}, {"features": ["u", "v"]}, {"steps": [1, 2, 3, 5]}])
def test_the_bytes_of_a_feed_are_those_of_its_parts(more: dict[str, Any]) -> None:
    spec = spec_of(SETTINGS | more)
    state, names = FeedState.empty(spec), more.get("features", [])
    for first in range(0, 150, 10):
        rows = [row | dict.fromkeys(names, row["y"]) for row in rows_of(series(150))[first : first + 10]]
        state.apply(Observations.of(rows, None, 0.0))
    for _ in range(2):  # then cool
        reported, feed = 0, state.forecaster
        for part in (feed.timeline, feed.history, feed.rows, feed.scores, feed.models, feed.bands):
            several: list[Any] = part if isinstance(part, list) else [part]
            held = sum(one.held_bytes for one in several)
            of_others: list[Any] = [spec, *packed._calendars.values(), *([] if part is feed.rows else [feed.rows])]
            of_others += [] if feed.rows is None else [feed.rows.layout, getattr(feed.rows._packed, "places", None)]
            size = size_of(several, set(map(id, of_others)))
            assert 0.6 * (size - OBJECT * len(several)) <= held <= 1.1 * size
            reported += held
        events = state.held_bytes - reported
        assert 0.55 <= events / size_of(state.events, set()) <= 1.1
        state.cool()
