"""The table of all tasks, which defines all differences between models of different tasks.

A task is one entry of ``TASKS``: its estimator, its parameters, the checks of its targets, and its decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.models.arrays import Rows, Targets, Vector
from livesvm.service.models.classifier import ServedClassifier, ServedLargeClassifier
from livesvm.service.models.labels import check_labels, check_numbers
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier, check_kinds
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.pairs_predictor import PairsPredictor, scores, winners
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.target_scale import in_units

Check = Callable[[Targets | None, str], object]
"""Raises InvalidInput, naming the field, unless every entry of y (m,) is a target; None: no check."""


@dataclass(frozen=True)
class Task:
    """One kind of task that models can have.

    Parameters
    ----------
    estimator : the class of the estimator
    parameters : the task's own parameters besides the kernel, with their defaults
    check_targets : checks targets to learn
    decide : returns decision values (m,) and predictions (m,) of rows (m, d), given the labels of classes (k,) and the
        wanted shape of decisions of more than two classes: one for each class, (m, k), or each pair, (m, n_pairs)
    error : name of the error of a model
    check_validation : checks targets of validation data, if they differ from targets to learn
    fixed : parameters of the estimator that are the same for every model
    has_free_intercept : whether a model may be without an intercept
    has_classes : whether a path needs examples of two classes
    has_labels : whether classes can have any labels, and be more than two
    has_thresholds : whether decisions can be cut by a share of alerts or by precision
    has_values : whether predictions are numbers and not labels
    options : further fields of a specification that the task has, with defaults
    is_changeable : whether a live model's parameters can be changed
    has_cost : whether C, the weight of the losses, can be changed, under that name or another
    walks : the parameter of a regularization path if a request names none, with the ends of its default range
    tuned_by : the parameter that can be `auto`: it, and others with it, are chosen by the window; None: there is none
    is_exact : whether each update leads to the optimum of the window; if not, only retraining does
    solvers : solvers that can retrain a model; the first one is the default
    ends_of : turns a range of that parameter into the arguments of the estimator's ``regularization_path``
    """

    estimator: type[LiveEstimator]
    parameters: dict[str, Any]
    check_targets: Check
    decide: Callable[[Any, Rows, NDArray[Any] | None, str], tuple[Vector, NDArray[Any]]]
    error: str
    check_validation: Check | None = None
    fixed: dict[str, Any] = field(default_factory=dict)
    has_free_intercept: bool = True
    has_classes: bool = False
    has_labels: bool = False
    has_thresholds: bool = False
    has_values: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    is_changeable: bool = False
    has_cost: bool = True
    tuned_by: str | None = None
    is_exact: bool = True
    solvers: tuple[str, ...] = ("batch",)
    walks: tuple[str, float, float] = ("C", 1e-3, 1e3)
    ends_of: Callable[[float, float], tuple[float, float]] = lambda low, high: (low, high)


def check_signs(y: Targets | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is -1 or 1."""
    labels = check_numbers(y, field)
    wrong = np.flatnonzero(np.abs(labels) != 1.0)
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput(f"a label is -1 or 1, not {labels[row]:g}", field=field, row=row)


def _check_absent(y: Targets | None, field: str) -> None:
    if y is not None:
        raise InvalidInput("a one-class model has no targets", field=field)


def check_known(y: Targets | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is 1 (positive), 0 (unlabelled) or -1 (known as negative)."""
    check_kinds(check_numbers(y, field), field)


def _label(
    predictor: Predictor | PairsPredictor, X: Rows, classes: NDArray[Any] | None, shape: str
) -> tuple[Vector, NDArray[Any]]:
    assert classes is not None
    decision = predictor.decide(X)
    if decision.ndim == 1:
        return decision, classes[np.where(decision > 0, classes.size - 1, 0)]
    won = classes[winners(decision, classes.size)]
    return decision if shape == "ovo" else scores(decision, classes.size), won


def _positive(predictor: Predictor, X: Rows, *_: object) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decide(X)
    return decision, np.where(decision > 0, 1, 0)


def _value(predictor: Predictor, X: Rows, *_: object) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decide(X)
    return decision, in_units(predictor.target_scale, decision)


def _inside(predictor: Predictor, X: Rows, *_: object) -> tuple[Vector, NDArray[Any]]:
    """Return the decision values, and predictions: 1 inside or on the boundary, -1 outside."""
    decision = predictor.decide(X)
    return decision, np.where(decision >= 0, 1, -1)


def _check_validated(y: Targets | None, field: str) -> None:
    if y is not None:
        check_signs(y, field)


LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "epsilon_insensitive": {"epsilon": 0.1},
    "absolute": {},
    "pinball": {"quantile": 0.5},
}
"""The parameters of each loss of regression, with their defaults."""

_OF_FEATURES: dict[str, Any] = {"scale": "none", "columns": None, "components": None}
TASKS: dict[str, Task] = {
    "svc": Task(
        ServedClassifier,
        {"C": 1.0},
        check_labels,
        _label,
        "share of wrong labels",
        has_classes=True,
        has_labels=True,
        options={"class_weight": None, **_OF_FEATURES},
        is_changeable=True,
        tuned_by="C",
    ),
    "svr": Task(
        LiveSVR,
        {"C": 1.0, "loss": "epsilon_insensitive"},
        check_numbers,
        _value,
        "mean absolute error",
        has_values=True,
        options={**_OF_FEATURES, "target_scale": "none"},
        is_changeable=True,
        tuned_by="C",
    ),
    "oneclass": Task(
        LiveOneClassSVM,
        {"nu": 0.5},
        _check_absent,
        _inside,
        "share of wrong decisions",
        check_validation=_check_validated,
        has_free_intercept=False,
        has_cost=False,
        options=_OF_FEATURES,
        is_changeable=True,
        walks=("nu", 0.01, 1.0),
    ),
    "pu": Task(
        LivePUClassifier,
        {"prior": "estimate", "lam": "auto"},
        check_known,
        _positive,
        "risk for the class prior",
        has_free_intercept=False,
        has_classes=True,
        has_thresholds=True,
        options=_OF_FEATURES,
        is_changeable=True,
        tuned_by="lam",
        solvers=("usmo", "batch"),
        ends_of=lambda low, high: (0.5 / high, 0.5 / low),  # C is 1 / (2 lam), and its path is walked over lam
    ),
    "l2svc": Task(
        ServedLargeClassifier,
        {"C": 1.0},
        check_labels,
        _label,
        "share of wrong labels",
        has_free_intercept=False,
        has_classes=True,
        has_labels=True,
        options={"columns": None},
        is_exact=False,
        solvers=("blocks", "fw", "mfw"),
    ),
}
