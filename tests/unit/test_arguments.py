"""What a program may hand to an estimator, and what it is told of the rest: which argument, which row, and why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, leave_one_out
from solvers.errors import InvalidInput, NotOptimal
from solvers.robustness import Robustness

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
Y = np.where(X[:, 0] + 0.5 * RANDOM.normal(size=60) > 0, "up", "down")


UPDATES: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "no pair": ({"add": X}, "add", None),
    "half a pair": ({"add": (X,)}, "add", None),
    "a key that is none": ({"remove": 3}, "remove", None),
    "text for keys": ({"remove": "ab"}, "remove", None),
    "a boolean": ({"remove": [1, True]}, "remove", 1),
    "a list of labels": ({"relabel": ["up"]}, "relabel", None),
    "no such label": ({"relabel": {1: "up", 2: "sideways"}}, "relabel", 1),
    "negative weight": ({"reweight": {1: 1.0, 2: -1.0}}, "reweight", 1),
    "no weight": ({"reweight": {1: None}}, "reweight", 0),
    "text for new keys": ({"add": (X[:2], Y[:2]), "keys": "ab"}, "keys", None),
}


@pytest.mark.parametrize("case", UPDATES)
def test_what_cannot_be_used_is_named_and_changes_nothing(case: str) -> None:
    arguments, field, row = UPDATES[case]
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y)
    before = model.to_arrays()
    with pytest.raises(InvalidInput) as caught:
        model.update(**arguments)
    assert (caught.value.field, caught.value.row) == (field, row)
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "coef0": ({"kernel": "poly", "coef0": None}, "coef0: must be a finite number, not None"),
    "degree": ({"kernel": "poly", "degree": "3"}, "degree: must be a whole number of at least 1, not '3'"),
    "gamma": ({"gamma": 0}, "gamma: must be a positive finite number, not 0"),
    "a class that is none": ({"class_weight": {"Up": 2.0}}, "class_weight: names 'Up', which is none of the labels"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_a_parameter_that_cannot_be_used_is_named_once(case: str) -> None:
    parameters, reason = PARAMETERS[case]
    with pytest.raises(InvalidInput) as caught:
        IncrementalSVC(**parameters).fit(X, Y)
    assert str(caught.value).startswith(reason)


def test_features_that_overflow_are_refused_by_row() -> None:
    large = X.copy()
    large[7] *= 1e110
    with pytest.raises(InvalidInput, match="X, row 7: the poly kernel of this example is not finite"):
        IncrementalSVC(kernel="poly", gamma=1.0, coef0=1.0).fit(large, Y)
    with pytest.raises(InvalidInput, match="gamma: is 'scale', but the features have the variance inf"):
        IncrementalSVC().fit(X * 1e200, Y)


@pytest.mark.parametrize("scale", [1e7, 1e8, 1e20])
def test_where_sixteen_digits_do_not_suffice_the_update_is_refused(scale: float) -> None:
    model = IncrementalSVC(C=10.0, kernel="linear").fit(X, Y)
    before = model.to_arrays()
    with pytest.raises(NotOptimal, match="scale the features"):
        model.update(add=(X * scale, Y), remove=model.keys_)
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("scale", [1e5, 1e7])
def test_large_features_that_are_easy_are_learnt(scale: float) -> None:
    model = IncrementalSVC(C=10.0, kernel="linear").fit(X[:, :1] * scale, X[:, 0] > 0)
    assert model.certificate().relative_gap <= 1e-8


ANSWERS: dict[str, Callable[[IncrementalSVC], object]] = {
    "keys_": lambda model: model.keys_,
    "support_": lambda model: model.support_,
    "window_X": lambda model: model.window_X,
    "intercept_": lambda model: model.intercept_,
    "predict": lambda model: model.predict(X),
    "certificate": lambda model: model.certificate(),
    "to_arrays": lambda model: model.to_arrays(),
    "leave_one_out": leave_one_out,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_model_that_knows_nothing_says_so(name: str) -> None:
    with pytest.raises(NotFittedError, match="has not seen any example"):
        ANSWERS[name](IncrementalSVC())


def test_a_first_update_has_to_add() -> None:
    model = IncrementalSVC()
    with pytest.raises(InvalidInput, match="its first update adds some"):
        model.update(C=2.0)
    assert model.C == 1.0
    model.update(add=(X, Y))
    assert model.gamma_ == IncrementalSVC().fit(X, Y).gamma_


def test_a_first_update_that_fails_leaves_nothing() -> None:
    broken = X.copy()
    broken[3, 1] = np.nan
    model = IncrementalSVC()
    with pytest.raises(InvalidInput, match="X, row 3, column 1"):
        model.partial_fit(broken, Y, classes=["down", "up"])
    assert set(vars(model)) == set(model.get_params())
    assert model.partial_fit(X[:, :2], Y).n_features_in_ == 2


BROKEN = X.copy()
BROKEN[3, 1] = np.nan
REFITS: dict[str, dict[str, Any]] = {
    "a value that is none": {"X": BROKEN, "y": Y},
    "other features and labels": {"X": X[:, :2], "y": [None if label == "up" else "left" for label in Y]},
    "no features": {"X": None, "y": Y},
    "one label too few": {"X": X, "y": Y[1:]},
    "a key twice": {"X": X, "y": Y, "keys": [0] * 60},
    "a negative weight": {"X": X, "y": Y, "sample_weight": np.linspace(-1, 1, 60)},
    "weights of zero": {"X": X[:, :2], "y": Y, "sample_weight": np.zeros(60)},
    "features beyond sixteen digits": {"X": X * 1e200, "y": np.where(Y == "up", "left", "right")},
}


@pytest.mark.parametrize("case", REFITS)
def test_a_fit_that_fails_changes_nothing(case: str) -> None:
    model = IncrementalSVC(C=3.0, kernel="linear").fit(X, Y)
    model.update(robust=Robustness(theta=0.5, s=0.0))
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    before, attributes = model.to_arrays(), dict(vars(model))
    with pytest.raises((InvalidInput, NotOptimal)):
        model.fit(**REFITS[case])
    assert vars(model) == attributes
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    del model.feature_names_in_
    model.update(remove=[0])
    assert model.n_window_ == 59
    assert model.certificate().relative_gap <= 1e-9


def test_a_fit_of_another_kernel_that_fails_can_be_taken_back() -> None:
    model = IncrementalOneClassSVM(nu=0.2, gamma=0.5).fit(X).set_params(gamma=-1.0)
    with pytest.raises(InvalidInput, match="gamma"):
        model.fit(X)
    assert model.set_params(gamma=0.5).update(remove=[0]).n == 59


def test_an_update_compares_the_features() -> None:
    model = IncrementalSVC().fit(X, Y)
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.update(add=(X, Y))
    assert model.n_window_ == 120


def test_partial_fit_takes_kernel_values() -> None:
    K = X @ X.T
    model = IncrementalSVC(kernel="precomputed").partial_fit(K[:40, :40], Y[:40])
    model.partial_fit(K[40:, :], Y[40:])
    whole = IncrementalSVC(kernel="linear").fit(X, Y)
    np.testing.assert_allclose(model.decision_function(K), whole.decision_function(X), rtol=0, atol=1e-9)


def test_a_parameter_set_later_holds_for_the_whole_window() -> None:
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    start, more = slice(0, 50), slice(50, 60)
    for before, setting, targets in (
        (IncrementalSVC(C=3.0, gamma=0.5), {"C": 30.0}, Y),
        (IncrementalSVC(C=3.0, gamma=0.5), {"class_weight": {"up": 4.0}}, Y),
        (IncrementalSVR(C=3.0, gamma=0.5), {"epsilon": 0.5}, y),
        (IncrementalSVR(C=3.0, gamma=0.5), {"loss": "pinball", "quantile": 0.8}, y),
        (IncrementalOneClassSVM(gamma=0.5), {"nu": 0.2}, None),
    ):
        model = before.fit(X[start], None if targets is None else targets[start]).set_params(**setting)
        model.update(add=(X[more], None if targets is None else targets[more]))
        wanted = type(model)(**model.get_params()).fit(X, targets)
        np.testing.assert_allclose(
            model.predictor().decision_function(X), wanted.predictor().decision_function(X), rtol=0, atol=1e-8
        )
        assert model.certificate().relative_gap <= 1e-9


def test_a_parameter_set_later_is_enough_for_an_update() -> None:
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y).set_params(C=30.0)
    asked: list[Callable[[], object]] = [
        lambda: leave_one_out(model),
        lambda: model.regularization_path(0.1, 10.0),
        lambda: model.outlier_path("s"),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match="C: was set since the window was learnt"):
            ask()
    assert model.update().changed == 60
    one = IncrementalOneClassSVM(nu=0.5, gamma=0.5).fit(X).set_params(nu=0.2)
    assert one.update().events > 0
    wanted = IncrementalSVC(C=30.0, gamma=0.5).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), wanted, rtol=0, atol=1e-9)
    with pytest.raises(InvalidInput, match="nothing to add"):
        model.update()


@pytest.mark.parametrize("setting", [{"gamma": 5.0}, {"kernel": "linear"}, {"fit_intercept": False}])
def test_another_kernel_needs_another_fit(setting: dict[str, Any]) -> None:
    model = IncrementalSVC(gamma=0.5).fit(X[:50], Y[:50])
    expected = model.decision_function(X)
    model.set_params(**setting)
    with pytest.raises(InvalidInput, match="call fit") as caught:
        model.update(add=(X[50:], Y[50:]))
    assert caught.value.field == next(iter(setting))
    np.testing.assert_array_equal(model.decision_function(X), expected)
    assert model.fit(X, Y).certificate().relative_gap <= 1e-9


def test_no_warning_of_arithmetic_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = IncrementalSVC().fit(np.zeros((4, 2)), [0, 1, 0, 1]), IncrementalSVC(gamma=1.0).fit(X * 1e200, Y)
    assert [model.certificate().relative_gap <= 1e-9 for model in models] == [True, True]
