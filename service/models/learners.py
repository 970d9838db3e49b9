"""Functions that create and restore a model's estimator, and that check updates and apply them to the estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from livesvm.service.models.arrays import Targets
from livesvm.service.models.commands import Command, Outcome, Sizes, follow, rows_of
from livesvm.service.models.labels import check_among
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.tasks import LOSS_PARAMETERS, TASKS, Task
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import NO_WINDOW
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import DRIFT_ALARMS, Batch, Change, Edits
from livesvm.solvers.sparse import SparseRows, like, stacked
from livesvm.solvers.tables.columns import Codes, below

KERNEL_PARAMETERS = ("kernel", "gamma", "degree", "coef0")
"""Parameters that every estimator has."""
CHANGEABLE = (
    *("epsilon", "quantile", "nu", "class_weight", "fit_intercept", "scale", "columns", "components"),
    *("prior", "lam", "target_scale"),
)
"""Other parameters of a live model that can be changed, besides C."""
SOLVED_AGAIN = (*KERNEL_PARAMETERS, "fit_intercept", "scale", "columns", "components")
"""Parameters whose change makes another problem, which is solved from nothing."""


def task_of(spec: ModelSpec) -> Task:
    """Return the entry of :data:`TASKS` for a model's task."""
    return TASKS[spec.task]


def check_update(spec: ModelSpec, update: Change) -> None:
    """Raise InvalidInput if the model's task cannot apply an update."""
    task = TASKS[spec.task]
    if update.add is not None:
        if spec.columns is not None and not task.is_exact:
            raise InvalidInput(NO_WINDOW, field="rows")
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
    """Raise InvalidInput unless every entry of y (m,) is a valid target for the task, and is an allowed label."""
    task.check_targets(y, field)
    if spec.labels is not None and y is not None:
        check_among(y, spec.labels, field)


def _check_change(spec: ModelSpec, edits: Edits) -> None:
    """Raise InvalidInput for parameters that models of this kind do not have, or cannot change."""
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
    """Return the parameters of the estimator for a model's specification."""
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
    """Return an untrained estimator for a specification, but with the parameters in ``changed``."""
    estimator = task_of(spec).estimator(**parameters(spec, cache_mb))
    for name, value in changed.items():
        setattr(estimator, name, value)
    return _recording(spec, estimator)


def _recording(spec: ModelSpec, estimator: LiveEstimator) -> LiveEstimator:
    """Return the estimator, set to record its predictions if the specification asks for a record."""
    estimator.keeps_record = spec.record and spec.has_errors
    return estimator


def restored_estimator(spec: ModelSpec, cache_mb: int, arrays: dict[str, Any], **changed: Any) -> LiveEstimator:
    """Rebuild an estimator from the arrays that its ``to_arrays`` returned.

    Raises NotOptimal or InvalidInput if the arrays are damaged.
    """
    return _recording(spec, task_of(spec).estimator.from_arrays(parameters(spec, cache_mb) | changed, arrays))


def window_after(model: LiveEstimator | None, command: Command, edits: Edits) -> Batch:
    """Return all examples of a window after a command, in the order in which the examples were added.

    ``model`` has the window before the command; None stands for an empty window.
    """
    leaving = set(command.remove)
    add, here = command.add, [] if model is None else model.keys_
    keys = [key for key in here if key not in leaving]
    parts = []
    if model is not None:
        stay = np.array([key not in leaving for key in here], dtype=bool)
        y, weights = model.window_y[stay], model.window_sample_weight[stay] * edits.decay
        y = np.array([edits.relabel.get(key, old) for key, old in zip(keys, y.tolist(), strict=True)])
        weights = [edits.reweight.get(key, old) for key, old in zip(keys, weights, strict=True)]
        parts.append((model.window_features[stay], y, np.array(weights, dtype=np.float64)))
    if add is not None:
        n = len(add.X)
        y = np.ones(n) if add.y is None else add.y
        parts.append((add.X, y, np.ones(n) if add.weights is None else add.weights))
    rows, y, weights = zip(*parts, strict=True)
    y, weights = np.concatenate(y), np.concatenate(weights)
    is_sparse = isinstance(rows[0], SparseRows)
    X = below(rows) if isinstance(rows[0], Codes) else stacked([like(one, is_sparse) for one in rows])
    return Batch(X, y, keys + command.added, weights)


def learnt(estimator: LiveEstimator, window: Batch, size: int) -> Outcome:
    """Let a new estimator learn all examples of a window, ``size`` examples at a time; return the outcome."""
    outcome, events, seconds = Outcome(Sizes()), 0, 0.0
    for start in range(0, len(window.X), size):
        there = np.zeros(len(window.X), dtype=bool)
        there[start : start + size] = True
        outcome = follow(estimator, Change(rows_of(window, there)))
        events, seconds = events + outcome.events, seconds + outcome.seconds
    return replace(outcome, events=events, seconds=seconds)
