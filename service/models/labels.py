"""The checks of targets that are labels: words, or whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.errors import not_among
from livesvm.service.models.arrays import MAX_KEY, Targets, Vector, targets
from livesvm.solvers.errors import InvalidInput

MOST_NAMED = 1000
"""Most classes that a specification may name."""
SIGNS = np.array([-1, 1])
"""The classes of a model as long as it has seen no other label."""


def check_numbers(y: Targets | None, field: str) -> Vector:
    """Return the targets; raises InvalidInput if there are none, or if they are not numbers."""
    if y is None:
        raise InvalidInput("is missing; this task learns targets", field=field)
    if y.dtype.kind == "U":
        raise InvalidInput("must be a number, not a string", field=field, row=0)
    return y


def check_labels(y: Targets | None, field: str) -> None:
    """Raise InvalidInput unless every entry of y (m,) is a label: a word, or a whole number."""
    if y is not None and y.dtype.kind == "U":
        return
    numbers = check_numbers(y, field)
    wrong = np.flatnonzero((numbers != np.rint(numbers)) | (np.abs(numbers) >= MAX_KEY))
    if wrong.size:
        row = int(wrong[0])
        reason = f"a label is a string or a whole number below 2**53, not {numbers[row]:g}"
        raise InvalidInput(reason, field=field, row=row)


def check_closed(value: Any, field: str = "labels") -> list[Any]:
    """Return a list of all allowed labels, distinct words or whole numbers; raises InvalidInput for any other list."""
    found = targets(value, field)
    check_labels(found, field)
    labels: list[Any] = as_labels(found).tolist()
    if len(labels) > MOST_NAMED:
        raise InvalidInput(f"holds {len(labels)} labels, the limit is {MOST_NAMED}", field=field)
    for row, label in enumerate(labels):
        if label in labels[:row]:
            raise InvalidInput(f"holds {label!r} twice", field=field, row=row)
    return labels


def check_among(y: Targets, labels: list[Any], field: str) -> None:
    """Raise InvalidInput for the first entry of y (m,) that is not in the list of allowed labels."""
    known = set(labels)
    for row, label in enumerate(as_labels(y).tolist()):
        if label not in known:
            raise InvalidInput(f"{label!r} {not_among(repr(label), map(repr, labels))}", field=field, row=row)


def as_labels(y: Any) -> NDArray[Any]:
    """Return labels in the form that models store: whole numbers as int64, or words."""
    found = np.asarray(y)
    if found.dtype.kind == "f" and (found == np.rint(found)).all():
        return found.astype(np.int64)
    return found


def are_signs(labels: NDArray[Any]) -> bool:
    """Return whether all labels are -1 or 1."""
    return labels.dtype.kind in "if" and bool((np.abs(labels) == 1).all())
