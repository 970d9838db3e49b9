"""The estimator of a model, new or as it was stored, and what its task makes of an update."""

from __future__ import annotations

from typing import Any

import numpy as np

from livesvm.service.models.commands import DRIFT_ALARMS, Edits, Update
from livesvm.service.models.labels import Targets, check_among
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.tasks import LOSS_PARAMETERS, TASKS, Task
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.sparse import SparseRows

KERNEL_PARAMETERS = ("kernel", "gamma", "degree", "coef0")
"""Of every estimator."""
CHANGEABLE = ("epsilon", "quantile", "nu", "class_weight", "fit_intercept", "scale", "prior", "lam")
"""What else a live model's parameters are, besides C."""
SOLVED_AGAIN = (*KERNEL_PARAMETERS, "fit_intercept", "scale")
"""Of these, those that mean another problem, which is solved from nothing."""


def task_of(spec: ModelSpec) -> Task:
    """Return the entry of a model's task."""
    return TASKS[spec.task]


def check_update(spec: ModelSpec, update: Update) -> None:
    """Raise InvalidInput if an update holds what the model's task cannot learn."""
    task = task_of(spec)
    if update.add is not None:
        if isinstance(update.add.X, SparseRows) and not task.is_exact:
            raise InvalidInput(f"is sparse; models of task {spec.task} take dense rows, or a dataset", field="X")
        _check_targets(spec, task, update.add.y, "y")
    if update.edits is None:
        return
    if update.edits.of_parameters:
        _check_change(spec, update.edits)
    if update.edits.relabel:
        _check_targets(spec, task, np.array(list(update.edits.relabel.values())), "relabel.y")
    if update.edits.C is not None and not spec.has_C:
        raise InvalidInput(f"is no parameter of {spec.task}", field="C")


def _check_targets(spec: ModelSpec, task: Task, y: Targets | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is a target of the task, and among the labels there may be."""
    task.check_targets(y, field)
    if spec.labels is not None and y is not None:
        check_among(y, spec.labels, field)


def _check_change(spec: ModelSpec, edits: Edits) -> None:
    """Raise InvalidInput for parameters that models of this kind do not have, or do not change."""
    if DRIFT_ALARMS in (edits.change or {}) and not spec.has_errors:
        raise InvalidInput(f"is no parameter of {spec.task}", field=f"change.{DRIFT_ALARMS}")
    if not task_of(spec).is_changeable:
        verb = "rescale" if edits.rescale else "change"
        raise InvalidInput(f"models of task {spec.task} do not change so; retrain them", field=verb)
    known = parameters(spec, 1)
    for name in edits.parameters:
        if name not in known and not (name == "C" and spec.has_C):
            kind = spec.task if spec.loss is None else f"{spec.task} with loss {spec.loss}"
            raise InvalidInput(f"is no parameter of {kind}", field=f"change.{name}")


def parameters(spec: ModelSpec, cache_mb: int) -> dict[str, Any]:
    """Return the estimator's parameters that a specification asks for."""
    kernel, task = spec.kernel, task_of(spec)
    own = task.parameters | ({} if spec.loss is None else LOSS_PARAMETERS[spec.loss])
    return {
        **task.fixed,
        **{name: getattr(spec, name) for name in (*own, *task.options)},
        **({"fit_intercept": spec.fit_intercept} if task.has_free_intercept else {}),
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        "cache_mb": cache_mb,
    }


def new_estimator(spec: ModelSpec, cache_mb: int, **changed: Any) -> LiveEstimator:
    """Return an untrained estimator for a specification, but for the parameters that have been ``changed`` since."""
    estimator = task_of(spec).estimator(**parameters(spec, cache_mb))
    for name, value in changed.items():
        setattr(estimator, name, value)
    return estimator


def restored_estimator(spec: ModelSpec, cache_mb: int, arrays: dict[str, Any], **changed: Any) -> LiveEstimator:
    """Return the estimator that ``to_arrays`` described.

    Raises NotOptimal or InvalidInput if the arrays are damaged.
    """
    return task_of(spec).estimator.from_arrays(parameters(spec, cache_mb) | changed, arrays)
