"""Parameters chosen on exact paths are as good as those of a grid that is searched by fitting again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import mean_absolute_error

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, k_fold, leave_one_out, tune
from livesvm.solvers.analyses.regularization.optima import ErrorCurve, mean_of
from livesvm.solvers.analyses.tuning.folds import splits
from livesvm.solvers.analyses.tuning.stepwise import FoldWorkspace
from livesvm.solvers.analyses.tuning.tune import _least
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.kernels.kernel import Kernel

TUMOURS = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)


def table(n: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Return some rows of tumours, few enough features to be hard."""
    X, y = TUMOURS
    return X[:n, :4], y[:n]


def judged(model: Any, X: np.ndarray, y: np.ndarray, parameters: dict[str, float], judge: Any, folds: int) -> float:
    """Return the error of parameters by fitting again for each fold."""
    total = wrong = 0.0
    for learnt, judging in splits(y, judge, folds, classes=not isinstance(model, IncrementalSVR)):
        found = clone(model).set_params(**parameters).fit(X[learnt], y[learnt]).predict(X[judging])
        bad = np.abs(found - y[judging]) if isinstance(model, IncrementalSVR) else found != y[judging]
        wrong, total = wrong + float(bad.sum()), total + judging.size
    return wrong / total


@pytest.mark.parametrize("components", [None, 25])
@pytest.mark.parametrize("judge", ["k_fold", "rolling_origin"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
def test_the_error_is_that_of_models_fitted_for_it(judge: Any, kind: str, components: int | None) -> None:
    rng = np.random.default_rng(0)
    X, y = {"two classes": table(), "three classes": IRIS, "regression": load_diabetes(return_X_y=True)}[kind]
    rows = rng.permutation(len(X))[:120]
    X, y = X[rows], y[rows]
    model = (IncrementalSVR(epsilon=5.0) if kind == "regression" else IncrementalSVC()).set_params(
        scale="standard", components=components
    )
    model.fit(X, y)
    before = model.to_arrays()
    found = tune(model, judge=judge, folds=4, C=(0.05, 500.0))
    assert all(np.array_equal(before[name], after) for name, after in model.to_arrays().items())
    assert found.error == pytest.approx(judged(model, X, y, found.parameters, judge, 4), abs=1e-6)
    others = [{"C": C, "gamma": gamma} for C in (0.1, 1.0, 100.0) for gamma in found.gammas]
    worse = 0.02 * (1.0 if kind != "regression" else found.error)  # than a value that is good by chance
    assert found.error <= min(judged(model, X, y, one, judge, 4) for one in others) + worse
    assert found.errors.shape == (found.gammas.size, found.C.size)
    assert np.nanmin(found.errors) == pytest.approx(found.error, abs=1e-12)
    found.apply(model)
    assert {name: model.get_params()[name] for name in found.parameters} == found.parameters
    assert model.certificate().relative_gap < 1e-8


@pytest.mark.parametrize("intercept", [True, False])
def test_values_of_C_are_walked_to_as_models_are(intercept: bool) -> None:
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(60, 2)))  # a grid: ties and duplicates, some with both labels
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    weights, C = rng.uniform(0.5, 2.0, 40), np.geomspace(2.0**-5, 2.0**15, 21)
    weights[:3] = 0.0
    for gamma in (1e-3, 0.3):
        kernel = Kernel("rbf", gamma)
        workspace = FoldWorkspace(50)
        K = kernel.matrix(X[:40], X.T)
        for given in (np.asfortranarray(K), K):  # what was before it makes no difference
            f = workspace.decisions(given, y[:40], weights, C, intercept=intercept)
        for value, found in zip(C, f, strict=True):
            model = LiveSVC(C=value, gamma=gamma, fit_intercept=intercept, classes=(-1, 1))
            model.fit(X[:40], y[:40], sample_weight=weights)
            np.testing.assert_allclose(found, model.decision_function(X[40:]), atol=1e-5)


@pytest.mark.parametrize("components", [None, 25])
@pytest.mark.parametrize("several", [True, False])
def test_what_is_walked_by_models_is_judged_alike(
    several: bool, components: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = IRIS if several else table(90)
    names = np.array(["a", "b", "c"])[y]
    model = IncrementalSVC(scale="standard", class_weight={"b": 3.0}, components=components).fit(X, names)
    asked: dict[str, Any] = {"gammas": [0.02, 0.5], "C": (0.1, 100.0), "folds": 3}
    found = tune(model, **asked)
    monkeypatch.setattr("livesvm.solvers.analyses.tuning.folds.callable", lambda kernel: True, raising=False)
    by_models = tune(model, **asked)
    np.testing.assert_array_equal(found.errors, by_models.errors)
    assert found.parameters == by_models.parameters


def test_the_past_is_what_happened_before_and_not_what_came_before() -> None:
    rng = np.random.default_rng(4)
    X, y = table(90)
    late = rng.permutation(90)
    asked: dict[str, Any] = {"judge": "rolling_origin", "folds": 3, "gammas": [0.1, 1.0], "C": (0.1, 100.0)}
    in_order = tune(IncrementalSVC(scale="standard").fit(X, y), **asked)
    model = IncrementalSVC(scale="standard").fit(X[late], y[late])
    found = tune(model, times=late / 7.0, **asked)
    np.testing.assert_allclose(found.errors, in_order.errors, atol=1e-12)
    assert found.parameters == pytest.approx(in_order.parameters)
    assert not np.allclose(tune(model, **asked).errors, in_order.errors)
    straight = k_fold(IncrementalSVC().fit(X, y), 4).decisions
    by_time = k_fold(IncrementalSVC().fit(X[late], y[late]), 4, times=late)
    np.testing.assert_allclose(by_time.decisions, straight[late], atol=1e-7)
    for times in ([1.0], np.full(90, np.nan)):
        with pytest.raises(InvalidInput) as caught:
            tune(model, times=times, **asked)
        assert caught.value.field == "times"


def test_leave_one_out_judges_exactly() -> None:
    X, y = table(60)
    model = IncrementalSVC(scale="standard").fit(X, y)
    found = tune(model, judge="leave_one_out", gammas=[0.1, 1.0], C=(0.1, 100.0))
    found.apply(model)
    assert leave_one_out(model).error == found.error
    assert found.error == found.errors.min()


def test_epsilon_is_chosen_along_its_path() -> None:
    X, t = load_diabetes(return_X_y=True)
    X, t = X[:150], t[:150]
    model = IncrementalSVR(epsilon=1.0, scale="standard").fit(X, t)
    plain = tune(model, gammas=[0.02, 0.1], C=(1.0, 100.0))
    found = tune(model, gammas=[0.02, 0.1], C=(1.0, 100.0), epsilon=(0.5, 60.0))
    assert 0.5 <= found.parameters["epsilon"] <= 60.0
    assert found.error <= plain.error + 1e-9
    assert found.error == pytest.approx(judged(model, X, t, found.parameters, "k_fold", 5), abs=1e-5)
    assert mean_absolute_error(t, found.apply(model) and model.predict(X)) < np.abs(t - np.median(t)).mean()


def test_a_linear_kernel_has_no_gamma() -> None:
    found = tune(IncrementalSVC(kernel="linear", scale="standard").fit(*table()))
    assert found.parameters.keys() == {"C"}
    assert found.gammas.size == 0


@pytest.mark.parametrize("judge", ["k_fold", "rolling_origin", "leave_one_out"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
def test_sparse_examples_are_judged_as_dense_ones_are(judge: Any, kind: str) -> None:
    if judge == "leave_one_out" and kind == "regression":
        return  # it takes long, and differs in nothing from that of classes
    X, y = IRIS[0].round() * (IRIS[0] > 1.0), IRIS[1]
    order = np.random.default_rng(0).permutation(len(X))[:60]
    X, y = X[order], y[order] > 0 if kind == "two classes" else y[order]
    model: Any = IncrementalSVR() if kind == "regression" else IncrementalSVC()
    gammas = None if kind == "two classes" else [0.05, 0.5]
    dense, held = (
        tune(model.fit(rows, y), judge=judge, folds=3, C=(0.1, 10.0), gammas=gammas) for rows in (X, csr_array(X))
    )
    assert held.parameters == pytest.approx(dense.parameters)
    assert held.error == pytest.approx(dense.error)


def test_what_cannot_be_tuned_is_named() -> None:
    X, y = table()
    model = IncrementalSVC(scale="standard").fit(X, y)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (IncrementalSVC(kernel="precomputed").fit(X @ X.T, y), {}, "kernel"),
        (IncrementalOneClassSVM().fit(X), {}, "model"),
        (model, {"C": (1.0, 1.0)}, "C"),
        (model, {"gammas": []}, "gammas"),
        (model, {"judge": "guess"}, "judge"),
        (model, {"folds": 1}, "folds"),
        (model, {"epsilon": (0.1, 1.0)}, "epsilon"),
        (IncrementalSVC().fit(X[:20], np.arange(20) > 18), {"judge": "rolling_origin"}, "folds"),
    ]
    for live, asked, field in cases:
        with pytest.raises(InvalidInput) as caught:
            tune(live, **asked)
        assert caught.value.field == field
    with pytest.raises(Cancelled):
        tune(model, progress=lambda done, total: False)


def test_classes_are_dealt_out_to_all_folds() -> None:
    y = np.array([0] * 40 + [1] * 5)
    for learnt, judging in splits(y, "k_fold", 5, classes=True):
        assert np.bincount(y[judging]).tolist() == [8, 1]
        assert np.union1d(learnt, judging).size == 45
    for learnt, judging in splits(y, "rolling_origin", 2, classes=False):
        assert learnt.max() < judging.min()


@pytest.mark.parametrize("judge", ["k_fold", "rolling_origin", "leave_one_out"])
@pytest.mark.parametrize(
    "kind", ["two classes", "balanced", "three classes", "balanced three classes", "regression", "epsilon"]
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_what_is_returned_is_the_least_of_the_table(seed: int, kind: str, judge: Any) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    noisy = X[:, 0] + rng.normal(size=40)
    asked: dict[str, Any] = {"C": (0.05, 20.0), "folds": 3, "gammas": [0.05, 0.4, 3.0], "judge": judge}
    model: Any = IncrementalSVC(class_weight="balanced" if "balanced" in kind else None)
    y: Any = np.digitize(noisy, [-0.4, 0.4]) if "three classes" in kind else noisy > 0
    if kind in ("regression", "epsilon"):
        model, y = IncrementalSVR(epsilon=0.5), noisy
        if kind == "epsilon":
            if judge == "leave_one_out":
                return  # epsilon is chosen by folds
            asked["epsilon"] = (0.01, 0.4)
    found = tune(model.fit(X, y), **asked)
    chosen = found.errors[found.gammas == found.parameters["gamma"], found.parameters["C"] == found.C]
    assert chosen.tolist() == [found.error]
    assert np.nanmin(found.errors) == pytest.approx(found.error, abs=1e-12)


def test_of_equal_errors_the_middle_of_the_longest_row_is_taken() -> None:
    assert _least(np.array([0.1, 0.3, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1])) == 3
    assert _least(np.array([0.2, 0.1, 0.1])) == 1


def test_a_mean_of_curves_is_exact() -> None:
    one = ErrorCurve(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0]), np.array([0.5, 3.0]))
    other = ErrorCurve(np.array([1.0, 3.0, 4.0]), np.array([2.0, 0.0]), np.array([2.0, 0.0]))
    both = mean_of([one, other], np.array([0.25, 0.75]))
    for value in np.linspace(1.01, 3.99, 50):
        assert both(value) == pytest.approx(0.25 * one(value) + 0.75 * other(value))
