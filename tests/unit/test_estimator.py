"""`IncrementalSVC` as users of scikit-learn meet it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import InvalidInput
from tests.oracle import Kernel, gap, hinge
from tests.problems import problem

TABLE = problem(0, "regular")


def wdbc(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first rows of the Wisconsin breast cancer set, standardised; labels -1 and +1."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:n], np.where(y[:n] > 0, 1.0, -1.0)


def relative_gap(model: IncrementalSVC, X: np.ndarray, y: np.ndarray, cost: np.ndarray) -> float:
    """Return the oracle's gap for a fitted RBF model; ``cost`` is C times the weight of each row."""
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    K = Kernel("rbf", float(model.gamma))(X, X)
    return gap(K, hinge(y, 1.0, cost), beta, float(model.intercept_[0])).relative


def test_fit_is_exact_where_libsvm_is_nearly() -> None:
    X, y = wdbc(300)
    model = IncrementalSVC(C=10.0, gamma=0.02).fit(X, y)
    assert relative_gap(model, X, y, np.full(300, 10.0)) <= 1e-8
    rival = SVC(C=10.0, gamma=0.02, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), rival.decision_function(X), atol=1e-4)
    assert np.array_equal(model.predict(X), rival.predict(X))


def test_fitted_attributes_have_scikit_learn_shapes() -> None:
    X, y = wdbc(120)
    model = IncrementalSVC(C=1.0, gamma=0.1).fit(X, y)
    count = len(model.support_)
    assert 0 < count <= 120
    assert model.support_vectors_.shape == (count, 30)
    assert np.array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (1, count)
    assert model.intercept_.shape == (1,)
    assert model.n_features_in_ == 30
    assert model.classes_.tolist() == [-1.0, 1.0]
    assert model.n_window_ == 120
    assert np.array_equal(model.window_X, X)
    assert np.array_equal(model.window_sample_weight, np.ones(120))
    by_hand = Kernel("rbf", 0.1)(X, model.support_vectors_) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), by_hand.astype(np.float64), atol=1e-12)


def test_labels_may_have_names() -> None:
    names = np.where(TABLE.y > 0, "rise", "fall")
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(TABLE.X, names)
    plain = IncrementalSVC(C=1.0, gamma=0.5).fit(TABLE.X, TABLE.y)
    assert model.classes_.tolist() == ["fall", "rise"]
    assert set(model.predict(TABLE.X)) <= {"fall", "rise"}
    assert np.array_equal(model.decision_function(TABLE.X), plain.decision_function(TABLE.X))
    assert np.array_equal(model.predict(TABLE.X) == "rise", plain.predict(TABLE.X) == 1)


def test_gamma_scale_is_that_of_scikit_learn_at_the_first_fit() -> None:
    X, y = wdbc(100)
    scaled = IncrementalSVC(C=1.0, gamma="scale").fit(X, y)
    fixed = IncrementalSVC(C=1.0, gamma=1.0 / (30 * X.var())).fit(X, y)
    np.testing.assert_allclose(scaled.decision_function(X), fixed.decision_function(X), atol=1e-9)


def test_class_weights_multiply_sample_weights() -> None:
    X, y = wdbc(150)
    weight = np.linspace(0.1, 2.0, 150)
    model = IncrementalSVC(C=4.0, gamma=0.05, class_weight={-1.0: 3.0, 1.0: 0.5})
    model.fit(X, y, sample_weight=weight)
    assert relative_gap(model, X, y, 4.0 * weight * np.where(y > 0, 0.5, 3.0)) <= 1e-8


def test_polynomial_is_another_name_of_poly() -> None:
    shape: dict[str, Any] = {"C": 1.0, "gamma": 0.3, "degree": 2, "coef0": 1.0}
    long = IncrementalSVC(kernel="polynomial", **shape).fit(TABLE.X, TABLE.y)
    short = IncrementalSVC(kernel="poly", **shape).fit(TABLE.X, TABLE.y)
    assert np.array_equal(long.decision_function(TABLE.X), short.decision_function(TABLE.X))


def test_partial_fit_adds_and_fit_begins_again() -> None:
    X, y = wdbc(90)
    model = IncrementalSVC(C=1.0, gamma=0.1, classes=(-1.0, 1.0))
    model.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert model.n_window_ == 90
    assert relative_gap(model, X, y, np.ones(90)) <= 1e-8
    model.fit(X[:40], y[:40])
    assert model.n_window_ == 40
    assert relative_gap(model, X[:40], y[:40], np.ones(40)) <= 1e-8


def test_update_returns_keys_that_remove() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, classes=(-1, 1))
    first = model.update(add=(TABLE.X[:4], TABLE.y[:4]))
    named = model.update(add=(TABLE.X[4:6], TABLE.y[4:6]), keys=["x", 9])
    assert first.added == (0, 1, 2, 3)
    assert named.added == ("x", 9)
    third = model.update(add=(TABLE.X[:1], TABLE.y[:1]), remove=[0, "x"])
    assert third.removed == (0, "x")
    assert third.added[0] not in (0, 1, 2, 3, 9)
    assert list(model.keys_) == [1, 2, 3, 9, *third.added]


def test_a_key_that_has_left_may_come_back_with_other_data() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, classes=(-1, 1))
    model.update(add=([[0.0], [1.0]], [1, -1]), keys=["a", "b"])
    model.update(remove=["a"])
    model.update(add=([[5.0]], [-1]), keys=["a"])
    assert model.window_X.tolist() == [[1.0], [5.0]]


def test_a_key_that_leaves_may_come_back_in_the_same_update() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, classes=(-1, 1))
    model.update(add=([[0.0], [1.0]], [1, -1]), keys=["a", "b"])
    report = model.update(add=([[5.0]], [-1]), keys=["a"], remove=["a"])
    assert (report.added, report.removed) == (("a",), ("a",))
    assert list(model.keys_) == ["b", "a"]
    assert model.window_X.tolist() == [[1.0], [5.0]]


def test_one_class_is_constant() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, classes=(-1, 1))
    report = model.update(add=(TABLE.X, np.ones(len(TABLE.X))))
    assert report.n_free + report.n_bound == len(model.support_) == 0
    assert np.array_equal(model.predict(TABLE.X), np.ones(len(TABLE.X)))
    assert (model.decision_function(TABLE.X) >= 1.0).all()


def test_the_last_example_of_a_class_may_leave_and_return() -> None:
    model = IncrementalSVC(C=10.0, gamma=0.5, classes=(-1, 1))
    model.update(add=([[0.0], [1.0], [2.0]], [1, 1, -1]), keys=["p", "q", "r"])
    model.update(remove=["r"])
    assert model.predict([[0.0], [5.0]]).tolist() == [1, 1]
    model.update(add=([[2.0]], [-1]), keys=["r"])
    assert model.predict([[0.0], [2.0]]).tolist() == [1, -1]
    model.update(remove=["p", "q", "r"])
    assert model.n_window_ == 0
    assert model.certificate().relative_gap == 0.0


def test_a_zero_weight_is_an_example_that_says_nothing() -> None:
    weight = np.where(np.arange(len(TABLE.X)) % 3 == 0, 0.0, 1.0)
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(TABLE.X, TABLE.y, sample_weight=weight)
    kept = weight > 0
    without = IncrementalSVC(C=1.0, gamma=0.5).fit(TABLE.X[kept], TABLE.y[kept])
    np.testing.assert_allclose(model.decision_function(TABLE.X), without.decision_function(TABLE.X), atol=1e-7)


def test_no_intercept_is_zero() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, fit_intercept=False).fit(TABLE.X, TABLE.y)
    assert model.intercept_.tolist() == [0.0]


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"C": float("nan")}, "C"),
        ({"C": float("-inf")}, "C"),
        ({"kernel": "cosine"}, "kernel"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": "large"}, "gamma"),
        ({"kernel": "poly", "degree": 0}, "degree"),
        ({"kernel": "poly", "coef0": float("nan")}, "coef0"),
        ({"classes": (1,)}, "classes"),
        ({"classes": (0, 1, 1)}, "classes"),
    ],
)
def test_parameters_out_of_range_are_named(parameters: dict[str, Any], field: str) -> None:
    model = IncrementalSVC(**parameters)
    with pytest.raises(InvalidInput) as refused:
        model.update(add=([[0.0], [1.0]], [1, -1]))
    assert refused.value.field == field


def test_predicting_before_any_data_is_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        IncrementalSVC().predict([[0.0]])


def test_predictions_are_validated() -> None:
    model = IncrementalSVC(gamma=0.5).fit(TABLE.X, TABLE.y)
    predictor = model.predictor()
    for bad in ([[float("nan")] * TABLE.X.shape[1]], [[0.0] * (TABLE.X.shape[1] + 1)]):
        with pytest.raises(InvalidInput):
            predictor.validate(bad)


def test_a_copy_lives_on_its_own() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(TABLE.X, TABLE.y)
    before = model.decision_function(TABLE.X)
    copied = pickle.loads(pickle.dumps(model))
    copied.update(remove=list(copied.keys_)[: len(TABLE.X) // 2])
    assert np.array_equal(model.decision_function(TABLE.X), before)
    assert copied.n_window_ == len(TABLE.X) - len(TABLE.X) // 2


def test_clone_has_the_parameters_and_no_data() -> None:
    model = IncrementalSVC(C=3.0, kernel="linear", classes=(-1, 1)).fit(TABLE.X, TABLE.y)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "dual_coef_")


def test_it_searches_grids() -> None:
    X, y = wdbc(80)
    search = GridSearchCV(IncrementalSVC(gamma=0.05), {"C": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    rival = GridSearchCV(SVC(gamma=0.05, tol=1e-8), {"C": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], rival.cv_results_["mean_test_score"])


@pytest.mark.parametrize(("n", "d"), [(569, 30), (1500, 2)])
def test_a_pickle_takes_no_kernel_rows_along(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    model = IncrementalSVC(gamma=0.1).fit(X, y)
    model.update(remove=model.keys_[:7])
    pickled = pickle.dumps(model)
    assert len(pickled) <= 2 * len(pickle.dumps(model.to_arrays()))
    for other in (pickle.loads(pickled), copy.deepcopy(model)):
        assert (other.decision_function(X) == model.decision_function(X)).all()
        other.update(add=(X[:7], y[:7]), remove=other.keys_[:5])
        assert other.certificate().relative_gap < 1e-9
