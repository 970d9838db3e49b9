"""The scale of features as part of a model; parameters that change while it lives; what it warns of."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, leave_one_out
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models import warnings as limits

X, Y = load_wine(return_X_y=True)
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}


@pytest.mark.parametrize("scale", SCALERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_scale_is_that_of_a_pipeline(scale: str, classes: int) -> None:
    indices = classes > Y
    theirs = make_pipeline(SCALERS[scale](), SVC(tol=1e-9)).fit(X[indices], Y[indices])
    ours = IncrementalSVC(scale=scale).fit(X[indices], Y[indices])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    assert ours.feature_scale_.kind == scale
    np.testing.assert_allclose(ours.window_X, X[indices], rtol=1e-12)


def test_rows_weigh_in_a_standard_scale() -> None:
    indices, weights = Y < 2, np.linspace(0.0, 3.0, 130)
    theirs = StandardScaler().fit(X[indices], sample_weight=weights)
    model = IncrementalSVC(scale="standard").fit(X[indices], Y[indices], sample_weight=weights)
    np.testing.assert_allclose(model.feature_scale_.offset, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.feature_scale_.factor, theirs.scale_, rtol=1e-12)
    model.update(reweight=dict.fromkeys(range(65), 0.25))
    model.rescale()
    weights[:65] = 0.25
    theirs.fit(X[indices], sample_weight=weights)
    np.testing.assert_allclose(model.feature_scale_.offset, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.feature_scale_.factor, theirs.scale_, rtol=1e-12)


@pytest.mark.parametrize("scale", SCALERS)
def test_a_scale_is_kept_until_it_is_fitted_again(scale: str) -> None:
    model = IncrementalSVC(scale=scale, C=3.0).fit(X[:100], Y[:100])
    kept, gamma = model.feature_scale_, model.gamma_
    model.update(add=(X[100:], Y[100:]), remove=model.keys_[:40])
    assert model.feature_scale_ is kept
    report = model.rescale()
    assert report.retrained
    assert report.changed == model.n_window_ == 138
    assert (model.gamma_ != gamma) == (scale != "standard")  # of which it is always 1 / n_features
    fresh = IncrementalSVC(scale=scale, C=3.0).fit(X[40:], Y[40:])
    np.testing.assert_allclose(model.feature_scale_.offset, fresh.feature_scale_.offset, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-6)
    assert model.keys_ == list(range(40, 178))
    assert model.update(add=(X[:1], Y[:1])).added == (178,)


@pytest.mark.parametrize("way", ["arrays", "pickle", "deepcopy"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_scale_is_taken_along(way: str, classes: int) -> None:
    indices = classes > Y
    model = IncrementalSVC(scale="standard").fit(X[indices], Y[indices])
    made: dict[str, Any] = {
        "arrays": lambda: IncrementalSVC.from_arrays(model.get_params(), model.to_arrays()),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "deepcopy": lambda: copy.deepcopy(model),
    }
    other = made[way]()
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-9)
    for each in (model, other):
        each.update(add=(X[:3], Y[:3]))
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-6)


def test_analyses_know_of_the_scale() -> None:
    indices = Y <= 1
    model = IncrementalSVC(scale="standard", gamma=0.1).fit(X[indices], Y[indices])
    scaled = StandardScaler().fit(X[indices])
    plain = IncrementalSVC(gamma=0.1).fit(scaled.transform(X[indices]), Y[indices])
    np.testing.assert_allclose(leave_one_out(model).decisions, leave_one_out(plain).decisions, atol=1e-6)
    path, other = model.regularization_path(0.1, 10.0), plain.regularization_path(0.1, 10.0)
    assert path.best(X[indices], Y[indices]).error == other.best(scaled.transform(X[indices]), Y[indices]).error
    np.testing.assert_allclose(
        path.at(2.0).decision_function(X), other.at(2.0).decision_function(scaled.transform(X)), atol=1e-6
    )


def test_a_constant_feature_is_left_alone() -> None:
    Z = np.column_stack([X[:, :2], np.full(len(X), 0.1)])
    for scale in SCALERS:
        model = IncrementalSVC(scale=scale).fit(Z, Y)
        assert model.feature_scale_.factor[2] == 1.0


@pytest.mark.parametrize(
    ("parameters", "field"), [({"scale": "log"}, "scale"), ({"scale": "standard", "kernel": "precomputed"}, "scale")]
)
def test_a_scale_that_cannot_be_is_refused(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        IncrementalSVC(**parameters).fit(np.eye(4), [0, 1, 0, 1])
    assert caught.value.field == field
    with pytest.raises(InvalidInput, match="scales nothing"):
        IncrementalSVC().fit(np.eye(4), [0, 1, 0, 1]).rescale()


CHANGES: list[dict[str, Any]] = [
    {"C": 20.0},
    {"gamma": 0.5},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.1},
    {"scale": "minmax"},
    {"C": 0.1, "gamma": "scale"},
    {"class_weight": {0: 3.0}},
    {"fit_intercept": False},
]


@pytest.mark.parametrize("parameters", CHANGES, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_any_parameter_of_a_classifier_can_change(parameters: dict[str, Any], classes: int) -> None:
    indices = classes > Y
    model = IncrementalSVC(scale="standard", gamma=0.1).fit(X[indices][10:], Y[indices][10:])
    model.change(**parameters)
    fresh = IncrementalSVC(**{"scale": "standard", "gamma": 0.1, **parameters}).fit(X[indices][10:], Y[indices][10:])
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-5)
    assert {name: model.get_params()[name] for name in parameters} == parameters
    model.update(add=(X[indices][:10], Y[indices][:10]))
    assert model.certificate().relative_gap < 1e-9


def test_epsilon_changes_along_its_path() -> None:
    D, t = load_diabetes(return_X_y=True)
    model = IncrementalSVR(C=100.0, epsilon=5.0, scale="standard").fit(D[:150], t[:150])
    report = model.change(epsilon=20.0, C=50.0)
    assert not report.retrained
    theirs = make_pipeline(StandardScaler(), SVR(C=50.0, epsilon=20.0, tol=1e-8)).fit(D[:150], t[:150])
    np.testing.assert_allclose(model.predict(D), theirs.predict(D), atol=1e-3)


def test_a_change_that_fails_changes_nothing() -> None:
    model = IncrementalSVC(scale="standard", gamma=0.1).fit(X, Y)
    before, decisions = model.get_params(), model.decision_function(X)
    for bad, field in (
        ({"gamma": -1.0}, "gamma"),
        ({"C": 0.0}, "C"),
        ({"kernel": "cosine", "C": 2.0}, "kernel"),
        ({"kernel": "precomputed"}, "kernel"),
    ):
        with pytest.raises(InvalidInput) as caught:
            model.change(**bad)
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match="no such parameter"):
        model.change(cost=2.0)
    assert model.get_params() == before
    assert np.array_equal(model.decision_function(X), decisions)
    assert model.change(C=model.C).changed == 0


def test_a_one_class_model_changes_too() -> None:
    model = IncrementalOneClassSVM(nu=0.2, scale="robust").fit(X)
    model.change(nu=0.1)
    model.change(gamma=0.05)
    fresh = IncrementalOneClassSVM(nu=0.1, gamma=0.05, scale="robust").fit(X)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-6)


def test_a_model_warns_of_a_scale_that_makes_it_useless() -> None:
    names = {
        "kernel_is_identity": IncrementalSVC(gamma=1.0).fit(X, Y),
        "kernel_is_constant": IncrementalSVC(gamma=1e-12).fit(X, Y),
        "one_feature_decides": IncrementalSVC().fit(X, Y),
    }
    for name, model in names.items():
        (found,) = model.warnings_
        assert found.name == name
        assert "scale='standard'" in found.message
    assert IncrementalSVC(scale="standard").fit(X, Y).warnings_ == []
    assert IncrementalSVC(kernel="linear").fit(X, Y).warnings_ == []
    again = IncrementalSVC(scale="standard", gamma=1e3).fit(X, Y)
    assert [one.name for one in again.warnings_] == ["kernel_is_identity"]
    assert "smaller gamma" in again.warnings_[0].message
    assert limits.ALONE < 0.01


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust"])
def test_a_scale_that_follows_outliers_is_warned_of(scale: str) -> None:
    model = IncrementalSVC(scale=scale).fit(X, Y)
    model.update(add=(X[:3] * 1e5, Y[:3]))
    assert model.warnings_ == []
    model.rescale()
    (found,) = model.warnings_
    assert found.name == "kernel_is_constant"
    assert "remove outliers and rescale" in found.message
    model.update(remove=model.keys_[-3:])
    model.rescale()
    assert model.warnings_ == []
