"""Labels of classes where these are learned from the data: which are known after more have been seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    try:
        _check_classes(labels)
        _check_kind(known, labels)
        return np.union1d(known, labels) if known.size else np.unique(labels)
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error), field=field) from None


def check_known(known: NDArray[Any], labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput unless every label (m,) is known."""
    there = {*known.tolist()}
    for row, label in enumerate(labels.tolist()):
        if label not in there:
            reason = f"{label!s} is not one of the labels {[str(c) for c in known]}"
            raise InvalidInput(reason, field=field, row=row)
