"""Features that come in have the names that the model knows, in their order, whatever is asked of it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from livesvm import solvers
from livesvm.solvers import (
    FrankWolfeSVC,
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    PUClassifier,
    before_learning,
    conformal,
    data_values,
    influences,
    update_singly,
)
from livesvm.solvers.errors import InvalidInput

RNG = np.random.default_rng(2)
X = pd.DataFrame(RNG.normal(size=(24, 3)), columns=["a", "b", "c"])
Y = np.where(X["a"] + RNG.normal(size=24) > 0, 1, 0)
THREE = np.digitize(X["a"], [-0.5, 0.5])

ROOMS = ("analyses.", "estimators.", "models.base", "models.fitted", "models.predictor", "models.pairs_predictor")
"""Of the modules that have public entries."""
INTERNAL = {
    "choose_rank": "has features of the window, for its kernel",
    "FrankWolfeSVC.fit": "notes the names",
    "LiveEstimator.fit": "notes the names",
    "PUClassifier.fit": "notes the names",
    "LiveEstimator.checked": "rows are checked",
    "LiveL2SVC.check_scale": "served: rows have no names",
    "LiveL2SVC.retrain_on": "served: rows have no names",
    "LiveL2SVC.update": "served: rows have no names",
    "ModelsWithout.decisions": "rows are checked",
    "checked_rows": "the gate itself",
    "convex_costs": "rows are checked",
    "read": "calls the gate",
    "read_by_function": "called by an entry",
    "rows_of": "calls the gate",
    "values_with": "called by an entry",
    "examples_of": "called by an entry",
    "evidence": "called with the window",
    "folds_of": "called with the window",
    "matrix_of": "called by an entry",
    "problems_of": "called by an entry",
    "scale_of": "called by an entry",
}


def svc(y: Any = Y) -> IncrementalSVC:
    return IncrementalSVC(C=2.0, gamma=0.5).fit(X, y)


def three() -> Any:
    return svc(THREE).predictor()


def svr() -> IncrementalSVR:
    return IncrementalSVR(C=2.0, gamma=0.5).fit(X, X["b"])


def one_class() -> IncrementalOneClassSVM:
    return IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X)


def pu() -> IncrementalPUClassifier:
    return IncrementalPUClassifier(prior=0.4, lam=0.003, gamma=0.5).fit(X, Y)


def in_batch() -> PUClassifier:
    return PUClassifier(prior=0.4, lam=0.003, gamma=0.5).fit(X, Y)


def frank_wolfe() -> FrankWolfeSVC:
    return FrankWolfeSVC(gamma=0.5, tol=0.1).fit(X, Y)


Ask = Callable[[Any], Any]

ENTRIES: dict[str, list[Callable[[], Ask]]] = {
    "Conformal.intervals": [lambda: lambda rows: conformal(svr()).intervals(rows, 0.5)],
    "Fitted.left_out": [lambda: IncrementalSVC(gamma=0.5, components=5).fit(X, Y).left_out],
    "Conformal.sets": [lambda: lambda rows: conformal(svc()).sets(rows, 0.5)],
    "before_learning": [lambda: lambda rows: before_learning(svc(), rows, Y)],
    "influences": [lambda: lambda rows: influences(svc(), rows), lambda: lambda rows: influences(svc(THREE), rows)],
    "data_values": [lambda: lambda rows: data_values(svc(), rows, Y)],
    "update_singly": [lambda: lambda rows: update_singly(svc(), (rows[:2], Y[:2]))],
    "PairwiseOutlierPath.validation_errors": [
        lambda: lambda rows: svc(THREE).outlier_path("theta").validation_errors(rows, THREE)
    ],
    "PairwiseOutlierPath.best": [lambda: lambda rows: svc(THREE).outlier_path("theta").best(rows, THREE)],
    "OutlierPath.validation_errors": [lambda: lambda rows: svc().outlier_path("s").validation_errors(rows, Y)],
    "OutlierPath.decisions": [lambda: lambda rows: svc().outlier_path("theta").decisions(rows, np.array([0.5]))],
    "OutlierPath.best": [lambda: lambda rows: svr().outlier_path("theta").best(rows, X["b"])],
    "Optima.validation_error": [lambda: lambda rows: svr().epsilon_path(0.1, 1.0).validation_error(rows, X["b"])],
    "Optima.best": [
        lambda: lambda rows: svc().regularization_path(0.1, 9.0).best(rows, Y),
        lambda: lambda rows: pu().regularization_path(0.01, 0.1).best(rows, Y),
        lambda: lambda rows: one_class().regularization_path(0.2, 0.5).best(rows),
    ],
    "PairwiseRegularizationPath.validation_error": [
        lambda: lambda rows: svc(THREE).regularization_path(0.1, 9.0).validation_error(rows, THREE)
    ],
    "RegularizationPath.validation_error": [
        lambda: lambda rows: svc().regularization_path(0.1, 9.0).validation_error(rows, Y)
    ],
    "RegularizationPath.turns": [lambda: lambda rows: svc().regularization_path(0.1, 9.0).turns(rows)],
    "LiveSVC.decision_function": [lambda: svc().decision_function, lambda: svc(THREE).decision_function],
    "LiveSVC.predict": [lambda: svc().predict],
    "LiveSVC.partial_fit": [lambda: lambda rows: svc().partial_fit(rows, Y)],
    "Probabilities.predict_proba": [lambda: svc().set_params(probability=True).predict_proba],
    "Probabilities.predict_log_proba": [lambda: svc().set_params(probability=True).predict_log_proba],
    "FrankWolfeSVC.decision_function": [lambda: frank_wolfe().decision_function],
    "FrankWolfeSVC.predict": [lambda: frank_wolfe().predict],
    "FrankWolfeSVC.certificate": [lambda: lambda rows: frank_wolfe().certificate(rows, Y)],
    "LiveOneClassSVM.decision_function": [lambda: one_class().decision_function],
    "LiveOneClassSVM.score_samples": [lambda: one_class().score_samples],
    "LiveOneClassSVM.predict": [lambda: one_class().predict],
    "LivePUClassifier.update": [lambda: lambda rows: pu().update((rows, Y))],
    "LiveSVR.predict": [lambda: svr().predict],
    "WithThresholds.decision_function": [lambda: pu().decision_function, lambda: in_batch().decision_function],
    "WithThresholds.predict": [lambda: in_batch().predict],
    "ChangingEstimator.partial_fit": [lambda: lambda rows: svr().partial_fit(rows, X["b"])],
    "LiveEstimator.update": [lambda: lambda rows: svr().update((rows, X["b"]))],
    "LiveEstimator.check_scale": [lambda: svc().check_scale],
    "PairsPredictor.predict": [lambda: three().predict],
    "ReadsRows.validate": [
        lambda: svc().predictor().validate,
        lambda: in_batch().predictor_.validate,
        lambda: three().validate,
    ],
    "ReadsRows.decision_function": [lambda: svr().predictor().decision_function, lambda: three().decision_function],
}


def entries() -> Iterator[str]:
    """Yield the names of all public functions and methods that features come in by."""
    for module in pkgutil.walk_packages(solvers.__path__, "livesvm.solvers."):
        if module.name.removeprefix("livesvm.solvers.").startswith(ROOMS):
            for name, one in vars(importlib.import_module(module.name)).items():
                if name.startswith("_") or getattr(one, "__module__", "") != module.name:
                    continue
                functions = {name: one} if inspect.isfunction(one) else vars(one) if inspect.isclass(one) else {}
                for own, function in functions.items():
                    if not own.startswith("_") and inspect.isfunction(function) and takes_features(function):
                        yield own if function is one else f"{name}.{own}"


def takes_features(function: Callable[..., Any]) -> bool:
    return bool({"X", "add"} & {*inspect.signature(function).parameters})


def test_every_entry_is_tried() -> None:
    found = {*entries()}
    assert found - ENTRIES.keys() - INTERNAL.keys() == set()
    assert len(ENTRIES.keys() & found) > 30


@pytest.mark.parametrize("name", ENTRIES)
def test_columns_in_another_order_are_refused(name: str) -> None:
    for ask in ENTRIES[name]:
        ask()(X)
        with pytest.raises(InvalidInput, match="X: The feature names should match"):
            ask()(X[["b", "a", "c"]])
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            ask()(X.to_numpy())


def test_names_that_the_model_does_not_know_are_warned_of_as_predict_does() -> None:
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X.to_numpy(), Y)
    path = model.regularization_path(0.1, 9.0)
    for ask in (model.predict, lambda rows: path.best(rows, Y), conformal(model).models.predictor.validate):
        with pytest.warns(UserWarning, match="X has feature names, but IncrementalSVC was fitted without"):
            ask(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(X.to_numpy())


def test_a_frozen_predictor_and_models_of_a_path_keep_the_names() -> None:
    model = svc()
    frozen = model.predictor()
    assert model.regularization_path(0.1, 9.0).at(2.0).feature_names_in_.tolist() == ["a", "b", "c"]
    assert svc(THREE).regularization_path(0.1, 9.0).at(2.0).feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.outlier_path("theta").best(X, Y).model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit(X[["c", "b", "a"]], Y)
    frozen.validate(X)
    with pytest.raises(InvalidInput, match="feature names"):
        model.predictor().validate(X)


def test_a_model_with_a_scale_takes_its_names_along() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 9.0], columns=["a", "b"])
    model = IncrementalSVC(scale="standard").fit(frame, np.arange(20) % 2)
    theirs = model.to_sklearn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(theirs.decision_function(frame), model.decision_function(frame))
    with pytest.raises(ValueError, match="feature names"):
        theirs.predict(frame[["b", "a"]])
