"""The table of tasks: what a model can be asked to learn, and the estimator that learns it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.models.arrays import Matrix, Vector
from livesvm.service.models.commands import Update
from livesvm.service.models.spec import LOSS_PARAMETERS, TASK_PARAMETERS, ModelSpec
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.predictor import Predictor


@dataclass(frozen=True)
class Task:
    """One task.

    Parameters
    ----------
    estimator : the class that learns it
    fixed : parameters of the estimator that are the same for every model
    check_targets : raises InvalidInput, for the field that it is told, unless every entry of y (m,) can be learnt
    decide : decision values (m,) and what is predicted, (m,), of rows (m, d)
    """

    estimator: type[LiveEstimator]
    fixed: dict[str, Any]
    check_targets: Callable[[Vector | None, str], object]
    decide: Callable[[Predictor, Matrix], tuple[Vector, NDArray[Any]]]


def check_signs(y: Vector | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is -1 or 1."""
    labels = _check_present(y, field)
    wrong = np.flatnonzero(np.abs(labels) != 1.0)
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput(f"a label is -1 or 1, not {labels[row]:g}", field=field, row=row)


def _check_present(y: Vector | None, field: str) -> Vector:
    if y is None:
        raise InvalidInput("is missing; this task learns targets", field=field)
    return y


def _check_absent(y: Vector | None, field: str) -> None:
    if y is not None:
        raise InvalidInput("a one-class model has no targets", field=field)


def check_known(y: Vector | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is 1, positive, or 0, unlabelled."""
    labels = _check_present(y, field)
    wrong = np.flatnonzero((labels != 1.0) & (labels != 0.0))
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput(f"a label is 1 (positive) or 0 (unlabelled), not {labels[row]:g}", field=field, row=row)


def _sign(predictor: Predictor, X: Matrix) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decision_function(X)
    return decision, np.where(decision > 0, 1, -1)


def _positive(predictor: Predictor, X: Matrix) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decision_function(X)
    return decision, np.where(decision > 0, 1, 0)


def _value(predictor: Predictor, X: Matrix) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decision_function(X)
    return decision, decision


def _inside(predictor: Predictor, X: Matrix) -> tuple[Vector, NDArray[Any]]:
    """1 inside and on the boundary, -1 outside."""
    decision = predictor.decision_function(X)
    return decision, np.where(decision >= 0, 1, -1)


TASKS: dict[str, Task] = {
    "svc": Task(LiveSVC, {"classes": (-1, 1)}, check_signs, _sign),
    "svr": Task(LiveSVR, {}, _check_present, _value),
    "oneclass": Task(LiveOneClassSVM, {}, _check_absent, _inside),
    "pu": Task(LivePUClassifier, {}, check_known, _positive),
}


def task_of(spec: ModelSpec) -> Task:
    """The entry of a model's task."""
    return TASKS[spec.task]


def check_update(spec: ModelSpec, update: Update) -> None:
    """Raise InvalidInput if an update holds what the model's task cannot learn."""
    task = task_of(spec)
    if update.add is not None:
        task.check_targets(update.add.y, "y")
    if update.edits is None:
        return
    if update.edits.relabel:
        task.check_targets(np.array(list(update.edits.relabel.values())), "relabel.y")
    if update.edits.C is not None and not spec.has_C:
        raise InvalidInput(f"is no parameter of {spec.task}", field="C")


def parameters(spec: ModelSpec, cache_mb: int) -> dict[str, Any]:
    """The estimator's parameters that a specification asks for."""
    kernel = spec.kernel
    own = TASK_PARAMETERS[spec.task] | ({} if spec.loss is None else LOSS_PARAMETERS[spec.loss])
    return {
        **task_of(spec).fixed,
        **{name: getattr(spec, name) for name in own},
        **({} if spec.task in ("oneclass", "pu") else {"fit_intercept": spec.fit_intercept}),
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        "cache_mb": cache_mb,
    }


def new_estimator(spec: ModelSpec, cache_mb: int, **changed: Any) -> LiveEstimator:
    """An untrained estimator for a specification, but for the parameters that have been ``changed`` since."""
    estimator = task_of(spec).estimator(**parameters(spec, cache_mb))
    for name, value in changed.items():
        setattr(estimator, name, value)
    return estimator


def restored_estimator(spec: ModelSpec, cache_mb: int, arrays: dict[str, Any], **changed: Any) -> LiveEstimator:
    """The estimator that ``to_arrays`` described; raises NotOptimal or InvalidInput if the arrays are damaged."""
    return task_of(spec).estimator.from_arrays(parameters(spec, cache_mb) | changed, arrays)
