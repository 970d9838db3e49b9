"""What a program may hand to an estimator, and the errors of the rest: which argument, which row, and why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, leave_one_out
from livesvm.solvers.errors import InvalidInput, InvalidType, NotOptimal
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.validation import check_finite

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
    "negative weight": ({"reweight": {1: 1.0, 2: -1.0}}, "reweight", 1),
    "no weight": ({"reweight": {1: None}}, "reweight", 0),
    "text for new keys": ({"add": (X[:2], Y[:2]), "keys": "ab"}, "keys", None),
    "a key in no list": ({"add": (X[:1], Y[:1]), "keys": np.array(100)}, "keys", None),
    "a key to remove in no list": ({"remove": np.array(3)}, "remove", None),
    "labels without features": ({"add": (None, Y[:2]), "remove": [0]}, "X", None),
    "neither features nor labels": ({"add": (None, None)}, "X", None),
    "a feature beyond float64": ({"add": ([[0.0, 0.0, 0.0], [0.0, 10**400, 0.0]], Y[:2])}, "X", 1),
    "a feature as text": ({"add": (np.array([[0.0, 0.0, "1"]], dtype=object), Y[:1])}, "X", 0),
    "a complex feature": ({"add": (np.array([[0.0, 0.0, np.complex128(1j)]], dtype=object), Y[:1])}, "X", 0),
    "a long double beyond float64": ({"add": (X[:2] * np.longdouble("1e4000"), Y[:2])}, "X", 0),
    "masked features": ({"add": (np.ma.masked_array(X[:2], mask=[[False] * 3, [False, True, False]]), Y[:2])}, "X", 1),
    "masked labels": ({"add": (X[:2], np.ma.masked_array(Y[:2], mask=[False, True]))}, "y", 1),
    "one label for all": ({"add": (X[:2], "up")}, "y", None),
    "two columns of labels": ({"add": (X[:2], [["up", "up"], ["up", "up"]])}, "y", None),
    "lists of labels": ({"add": (X[:2], [["up"], ["up", "up"]])}, "y", None),
    "sparse labels": ({"add": (X[:2], csr_array([[0.0, 1.0]]))}, "y", None),
    "a list for a label": ({"relabel": {1: "up", 2: ["up"]}}, "relabel", 1),
    "an array for each label": ({"relabel": {1: np.array(["up"])}}, "relabel", 0),
    "a weight as text": ({"reweight": {1: "2"}}, "reweight", 0),
    "a weight as text among numbers": ({"reweight": {1: 2, 2: "2", 3: Fraction(1, 2)}}, "reweight", 1),
    "a list for a weight": ({"reweight": {1: [2.0]}}, "reweight", 0),
    "a weight beyond float64": ({"reweight": {1: 1.0, 2: 10**400}}, "reweight", 1),
    "a weight too large for sums": ({"reweight": {1: 1.0, 2: 1e101}}, "reweight", 1),
    "a complex weight": ({"add": (X[:2], Y[:2]), "sample_weight": 2 + 3j}, "sample_weight", None),
    "weights as text": ({"add": (X[:2], Y[:2]), "sample_weight": ["1", "2"]}, "sample_weight", 0),
    "a masked weight": (
        {"add": (X[:2], Y[:2]), "sample_weight": np.ma.masked_array([1.0, 1.0], mask=[False, True])},
        "sample_weight",
        1,
    ),
    "a complex C": ({"C": 1j}, "C", None),
    "a C beyond float64": ({"C": 10**400}, "C", None),
    "a C too large for sums": ({"C": 1e308}, "C", None),
    "several C": ({"C": np.array([1.0, 2.0])}, "C", None),
    "a complex decay": ({"decay": np.complex128(0.5)}, "decay", None),
    "a decay beyond float64": ({"decay": 10**400}, "decay", None),
    "several decays": ({"decay": np.array([0.5, 0.5])}, "decay", None),
    "a decay that is a boolean": ({"decay": True}, "decay", None),
    "no robustness": ({"robust": "x"}, "robust", None),
    "a list of outliers": ({"robust": Robustness(0.5, 0.0, [1])}, "outliers", None),  # type: ignore[arg-type]
}
REGRESSION_UPDATES: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "complex targets": ({"add": (X[:2], [1 + 5j, 2])}, "y", None),
    "a complex correction": ({"relabel": {1: 1 + 5j}}, "relabel", None),
    "a list for a correction": ({"relabel": {1: [1.0]}}, "relabel", 0),
    "dates": ({"add": (X[:2], np.array(["2020-01-01", "NaT"], "M8[s]"))}, "y", 1),
    "durations": ({"add": (X[:2], np.array([1, 2], "m8[s]"))}, "y", None),
    "targets as text": ({"add": (X[:2], ["1", "2"])}, "y", None),
    "targets as bytes": ({"add": (X[:2], [b"1", b"2"])}, "y", None),
    "a target beyond float64": ({"add": (X[:2], [1.0, 10**400])}, "y", 1),
    "one target for all": ({"add": (X[:2], 1.0)}, "y", None),
    "two columns of targets": ({"add": (X[:2], [[1.0, 2.0], [3.0, 4.0]])}, "y", None),
    "sparse targets": ({"add": (X[:2], csr_array([[0.0, 1.0]]))}, "y", None),
    "masked targets": ({"add": (X[:2], np.ma.masked_array([1.0, 2.0], mask=[False, True]))}, "y", 1),
}


@pytest.mark.parametrize("case", [*UPDATES, *REGRESSION_UPDATES])
def test_what_cannot_be_used_is_named_and_changes_nothing(case: str) -> None:
    arguments, field, row = (UPDATES | REGRESSION_UPDATES)[case]
    model: IncrementalSVC | IncrementalSVR = IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y)
    if case in REGRESSION_UPDATES:
        model = IncrementalSVR(C=3.0, gamma=0.5).fit(X, X[:, 0])
    before = model.to_arrays()
    with pytest.raises(InvalidInput) as caught:
        model.update(**arguments)
    assert (caught.value.field, caught.value.row) == (field, row)
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_cannot_be_predicted_is_named() -> None:
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y)
    with pytest.raises(InvalidInput) as caught:
        model.predict([[0.0, 0.0, 0.0], [0.0, 10**400, 0.0]])
    assert (caught.value.field, caught.value.row, caught.value.column) == ("X", 1, 1)


@pytest.mark.parametrize("classes", [[1, 1], [1], [0, 1, 1], 5, "ab", [[1], [1, 2]]])
def test_classes_are_two_different_labels(classes: Any) -> None:
    for model, later in ((IncrementalSVC(), {"classes": classes}), (IncrementalSVC(classes=classes), {})):
        with pytest.raises(InvalidInput, match="classes: must be two different labels"):
            model.partial_fit(X, X[:, 0] > 0, **later)
        assert not hasattr(model, "classes_")


def test_numbers_need_not_be_floats() -> None:
    exact: dict[str, Any] = {"C": Fraction(7, 2), "epsilon": Decimal("0.125"), "gamma": Fraction(1, 2)}
    plain = {name: float(value) for name, value in exact.items()}
    kinds: list[tuple[Any, dict[str, Any]]] = [(Fraction, exact), (float, plain)]
    decisions = []
    for number, parameters in kinds:
        model = IncrementalSVR(**parameters).fit(X, X[:, 0])
        model.update(decay=number(0.5), reweight={3: number(2.5)}, C=number(1.5))
        model.update(add=([[number(0.5)] * 3], [number(0.25)]), robust=Robustness(number(0.5), number(3.0)))
        decisions.append(model.predict(X))
    np.testing.assert_array_equal(decisions[0], decisions[1])


def test_features_with_a_mask_that_hides_nothing_are_features() -> None:
    masked = np.ma.masked_array(X)
    np.testing.assert_array_equal(IncrementalSVC().fit(masked, Y).window_X, X)


PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "kernel": ({"kernel": ["rbf"]}, "kernel: unknown kernel ['rbf']"),
    "C": ({"C": 1e308}, "C: must be at most 1e+100, not 1e+308"),
    "a weight of a class that is too large": ({"class_weight": {"up": 1e101}}, "class_weight: the weight of 'up' must"),
    "a weight of a class as text": ({"class_weight": {"up": "2"}}, "class_weight: the weight of 'up' must be a number"),
    "a weight of a class that is none": ({"class_weight": {"up": "a"}}, "class_weight: the weight of 'up' must be"),
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


OTHERS: dict[str, tuple[LiveEstimator, str]] = {
    "quantile": (
        IncrementalSVR(loss="pinball", quantile="a"),  # type: ignore[arg-type]
        "quantile: must lie between 0 and 1, both excluded, not 'a'",
    ),
    "no nu": (IncrementalOneClassSVM(nu=None), "nu: must lie in (0, 1], not None"),  # type: ignore[arg-type]
    "nu": (IncrementalOneClassSVM(nu="a"), "nu: must lie in (0, 1], not 'a'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_parameter_of_another_model_that_cannot_be_used_is_named(case: str) -> None:
    model, reason = OTHERS[case]
    with pytest.raises(InvalidInput) as caught:
        model.fit(X, X[:, 0])
    assert str(caught.value) == reason


def test_labels_that_are_no_classes_are_named() -> None:
    for labels in (X[:, 0], 1j * X[:, 0]):
        with pytest.raises(InvalidInput) as caught:
            IncrementalSVC().fit(X, labels)
        assert caught.value.field == "y"


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


def test_names_that_are_no_text_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError("Feature names are only supported if all input features have string names")

    monkeypatch.setattr("livesvm.solvers.estimators.scikit.validate_data", refuse)
    with pytest.raises(InvalidType, match="X: Feature names are only supported"):
        IncrementalSVC().fit(X, Y)


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
    assert model.update().changed == 0


def test_an_array_set_for_a_parameter_is_named() -> None:
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y)
    for name, reason in (("C", "C: must be a positive finite number"), ("gamma", "gamma: is array.*call fit")):
        was = getattr(model, name)
        model.set_params(**{name: np.array([was, was])})
        with pytest.raises(InvalidInput, match=reason):
            model.update(remove=[0])
        model.set_params(**{name: was})
    assert model.update(remove=[0]).changed == 0


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


@pytest.mark.parametrize("n", [10, 20_000])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found_in_arrays_of_any_size(n: int, wrong: float) -> None:
    X = np.full((n, 2), 1e308)  # whose sum is not finite
    check_finite(X, "X")
    X[n // 2, 1] = wrong
    with pytest.raises(InvalidInput) as found:
        check_finite(X, "X")
    assert (found.value.row, found.value.column) == (n // 2, 1)
    X[n // 3, 0] = -wrong  # two that could make up for each other
    with pytest.raises(InvalidInput) as found:
        check_finite(X, "X")
    assert (found.value.row, found.value.column) == (n // 3, 0)
