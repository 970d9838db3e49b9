"""Labels of classes where these are learned from the data: which are known after more have been seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.classification import _check_classes, _check_finite
from livesvm.solvers.estimators.several_classes import _check_kind


def labels_with(known: NDArray[Any], labels: NDArray[Any], field: str) -> NDArray[Any]:
    """Return the labels, ascending, that are known after ``labels`` (m,); raises InvalidInput for what are none."""
    try:
        if {*known.tolist()}.issuperset(labels.tolist()):
            return known
    except TypeError:  # a label that is a list
        raise InvalidInput("labels must be one value for each row", field=field) from None
    _check_finite(labels, field)
    _check_kind(known, labels, field)
    try:
        _check_classes(labels)
        return np.union1d(known, labels) if known.size else np.unique(labels)
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error), field=field) from None


def labels_after(
    known: NDArray[Any], y: ArrayLike | None, m: int, field: str, *, is_fixed: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels known after ``y`` (m,), and these; raises InvalidInput.

    Parameters
    ----------
    is_fixed : whether there may be no others than are known
    """
    if y is None:
        if m:
            raise InvalidInput("is missing; this task learns targets", field=field)
        return known, known[:0]
    labels = validation.column(y, field)
    if labels.shape != (m,):
        raise InvalidInput(f"{labels.shape[0]} labels for {m} rows", field=field)
    if is_fixed:
        check_known(known, labels, field)
        return known, labels
    return labels_with(known, labels, field), labels


def check_known(known: NDArray[Any], labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput unless every label (m,) is known."""
    there = {*known.tolist()}
    for row, label in enumerate(labels.tolist()):
        if label not in there:
            reason = f"{label!r} is not one of the labels {known.tolist()}"
            raise InvalidInput(reason, field=field, row=row)
