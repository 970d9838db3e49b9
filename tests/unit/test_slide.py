"""A small update of a model that keeps neither features nor kernel rows, compared with that of a whole one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from livesvm.service.feeds.commands import Observations
from livesvm.service.feeds.represent import StepFeatures
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.state import FeedState
from livesvm.service.feeds.step_model import StepModel
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.homotopy import run
from livesvm.solvers.models import slide as slides
from livesvm.solvers.models.slide import Objective, Sliding, Standing, decide, slide, stand
from tests.support.feeds import FEED, rows_of, series

N, D = 120, 6
AHEAD = np.array([2 * N - 1])
MODELS = {
    "tube": LiveSVR(C=2.0, epsilon=0.1, gamma=0.1),
    "absolute": LiveSVR(C=2.0, loss="absolute", gamma=0.1),
    "pinball": LiveSVR(C=2.0, loss="pinball", quantile=0.9, gamma=0.1),
    "classes": LiveSVC(C=2.0, gamma=0.1, classes=(-1, 1)),
}


def data(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2 * N, D))
    X[N + 3] = X[N + 1] = X[0]  # copies
    y = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=2 * N)
    return X, np.where(y > 0, 1.0, -1.0) if kind == "classes" else y


def standing(model: Any) -> Standing:
    arrays = model.to_warm_arrays()
    return Standing.of(arrays | {"keys": np.array(arrays["keys"])})


@pytest.mark.parametrize("kind", MODELS)
def test_a_slide_leads_where_an_update_of_the_whole_model_does(kind: str) -> None:
    X, y = data(kind)
    whole: Any = type(MODELS[kind])(**MODELS[kind].get_params()).fit(X[:N], y[:N], keys=range(N))
    sliding = Sliding(Objective.of(MODELS[kind]), D, lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    stood, first, last = standing(whole), 0, N
    for come, leave in [(1, 1), (2, 1), (1, 0), (0, 2), (3, 3), (1, 1), (1, 2), (4, 4), *[(1, 1)] * 12]:
        at = X[last + come : last + come + 3]
        new = np.arange(last, last + come), y[last : last + come]
        found = slide(sliding, stood, *new, leave, np.arange(last + come, last + come + 3))
        assert found is not None
        (stood, decided), add = found, (X[last : last + come], y[last : last + come]) if come else None
        whole.update(add=add, remove=range(first, first + leave), keys=range(last, last + come) if come else None)
        first, last = first + leave, last + come
        assert stood.keys.tolist() == whole.keys_ == list(range(first, last))
        np.testing.assert_array_equal(stood.y, whole.window_y)
        again = type(whole).from_arrays(whole.get_params(), whole.to_arrays() | {
            "beta": stood.beta, "segments": stood.segments, "intercept": stood.b})  # fmt: skip
        np.testing.assert_array_equal(again.window_coefficients, stood.beta)  # nothing had to be corrected
        assert again.certificate().relative_gap <= 1e-9
        np.testing.assert_array_equal(decided, decide(sliding, stood, at))
        np.testing.assert_allclose(decided, again.predictor().decision_function(at), atol=1e-12)
        np.testing.assert_allclose(decided, whole.predictor().decision_function(at), atol=1e-8)
        f = stand(sliding, stood)
        assert f is not None
        np.testing.assert_allclose(f, stood.f, atol=1e-12)


def test_a_slide_makes_the_kernel_rows_that_it_lacks_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data("tube")
    model: Any = LiveSVR(**MODELS["tube"].get_params()).fit(X[:N], y[:N], keys=range(N))
    sliding = Sliding(Objective.of(model), D, lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    monkeypatch.setattr(run, "fetch_rows", lambda *_: pytest.fail("a row was fetched from Python"))
    found = None
    for last in range(N, N + 20):
        found = slide(sliding, standing(model) if found is None else found[0], np.array([last]), y[[last]], 1, AHEAD)
        assert found is not None


def test_a_window_of_few_has_space_for_all_kernel_rows() -> None:
    X, y = data("tube")
    n = 24  # as many as a line of memory has slots, or bound examples are taken along
    model: Any = LiveSVR(**MODELS["tube"].get_params()).fit(X[:n], y[:n], keys=range(n))
    sliding = Sliding(Objective.of(model), D, lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    stood, ahead, found = standing(model), np.arange(2 * N - slides.MOST, 2 * N), list[Any]()
    alone = threading.Thread(target=lambda: found.append(slide(sliding, stood, np.arange(0), y[:0], 1, ahead)))
    alone.start()  # in a thread that has no memory of larger windows
    alone.join()
    assert found[0] is not None
    after, decided = found[0]
    model.update(remove=[0])
    np.testing.assert_allclose(after.beta, model.window_coefficients, atol=1e-8)
    np.testing.assert_allclose(decided, model.predictor().decision_function(X[ahead]), atol=1e-8)


def test_what_is_damaged_or_no_optimum_does_not_stand() -> None:
    X, y = data("tube")
    model: Any = LiveSVR(**MODELS["tube"].get_params()).fit(X[:N], y[:N], keys=range(N))
    sliding = Sliding(Objective.of(model), D, lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    stood = standing(model)
    assert stand(sliding, stood) is not None
    free = int(np.flatnonzero(stood.segments % 2)[0])
    for name, value in [("beta", stood.beta[free] + 1e-3), ("beta", np.nan), ("segments", 9)]:
        damaged = getattr(stood, name).copy()
        damaged[free] = value
        assert stand(sliding, stood._replace(**{name: damaged})) is None
    assert stand(sliding, stood._replace(b=stood.b + 1e-3)) is None


def test_what_moves_much_is_no_slide(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data("tube")
    model: Any = LiveSVR(**MODELS["tube"].get_params()).fit(X[:N], y[:N], keys=range(N))
    sliding = Sliding(Objective.of(model), D, lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    stood = standing(model)
    assert slide(sliding, stood, np.arange(N, N + slides.MOST), y[N : N + slides.MOST], 1, AHEAD) is None

    def fails(*given: Any) -> None:
        raise NotOptimal("the path ended")

    monkeypatch.setattr(slides.Memory, "solve", fails)
    assert slide(sliding, stood, np.arange(N, N + 1), y[N : N + 1], 1, AHEAD) is None
    monkeypatch.undo()
    assert slide(sliding, stood, np.arange(N, N + 1), y[N : N + 1], 1, AHEAD)  # whatever that left in memory


SETTINGS = FEED | {"C": 1.0, "gamma": 0.01, "represent": "change", "time": "time", "every": "1h", "steps": [1, 3]}


@pytest.mark.parametrize(
    "more", [{}, {"represent": "level"}, {"quantiles": [0.1, 0.9]}, {"features": ["u"]}, {"season": 24}], ids=str
)
def test_rows_that_stay_packed_say_the_same(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(series(200))
    rows = [row | dict.fromkeys(more.get("features", []), 7.0 * row["y"] ** 2) for row in rows]
    feeds = [FeedState.empty(spec_of(SETTINGS | more)) for _ in range(2)]
    for state in feeds:
        state.apply(Observations.of(rows[:100], None, 0.0))
    feeds[1].cool()
    restored: list[StepModel] = []
    monkeypatch.setattr(StepModel, "_restore", lambda model, *given: restored.append(model))
    for first in range(100, 140):
        for state in feeds:
            state.apply(Observations.of(rows[first : first + 1], None, 0.0))
        feeds[1].cool()
    plain, kept = (state.forecaster.rows for state in feeds)
    assert plain is not None
    assert kept is not None
    assert restored == []
    assert kept._packed is not None
    ordinals = range(kept.count - kept.size, kept.count)
    for ours, theirs in zip(kept.features(ordinals), plain.features(ordinals), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for i, model in enumerate(feeds[1].forecaster.models):
        scale, keys = model.scale, np.array([*ordinals[3:20], *ordinals[30:]])
        assert scale is not None
        out = np.empty((2, scale.centre.size, keys.size))
        for rows_held, to in zip((kept, plain), out, strict=True):
            StepFeatures(rows_held, i, model.recipe.represent).write(scale, keys, to)
        np.testing.assert_array_equal(*out)
