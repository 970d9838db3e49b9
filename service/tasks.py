"""The table of tasks: what a model can be asked to learn, and the estimator that learns it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.arrays import Vector
from service.schemas import ModelSpec
from solvers import IncrementalSVC
from solvers.errors import InvalidInput


@dataclass(frozen=True)
class Task:
    """One task.

    Parameters
    ----------
    estimator : makes an untrained estimator from its parameters
    restore : makes one from its parameters and its arrays
    check_targets : raises InvalidInput unless every entry of y (n,) can be learnt
    predictions : decision values (m,) to what is predicted, (m,)
    """

    estimator: Callable[..., IncrementalSVC]
    restore: Callable[[dict[str, Any], dict[str, Any]], IncrementalSVC]
    check_targets: Callable[[Vector], None]
    predictions: Callable[[Vector], NDArray[Any]]


def _check_signs(y: Vector) -> None:
    wrong = np.flatnonzero(np.abs(y) != 1.0)
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput(f"a label is -1 or 1, not {y[row]:g}", field="y", row=row)


def _signs(decision: Vector) -> NDArray[Any]:
    return np.where(decision > 0, 1, -1)


TASKS: dict[str, Task] = {
    "svc": Task(
        estimator=IncrementalSVC,
        restore=IncrementalSVC.from_arrays,
        check_targets=_check_signs,
        predictions=_signs,
    ),
}


def task_of(spec: ModelSpec) -> Task:
    """The entry of a model's task."""
    return TASKS[spec.task]


def parameters(spec: ModelSpec, cache_mb: int) -> dict[str, Any]:
    """The estimator's parameters that a specification asks for."""
    kernel = spec.kernel
    return {
        "C": spec.C,
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        "fit_intercept": spec.fit_intercept,
        "classes": (-1, 1),
        "cache_mb": cache_mb,
    }


def new_estimator(spec: ModelSpec, cache_mb: int) -> IncrementalSVC:
    """An untrained estimator for a specification; the one place that says which class learns which task."""
    return task_of(spec).estimator(**parameters(spec, cache_mb))


def restored_estimator(spec: ModelSpec, cache_mb: int, arrays: dict[str, Any]) -> IncrementalSVC:
    """The estimator that ``to_arrays`` described; raises NotOptimal or InvalidInput if the arrays are damaged."""
    return task_of(spec).restore(parameters(spec, cache_mb), arrays)
