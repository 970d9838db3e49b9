"""Labels of classes: which are known after more have been seen, what targets they are, and what is refused as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Floats


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
    labels = column_of(y, m, field)
    if is_fixed:
        targets_of(labels, known, range(known.size), field)
        return known, labels
    return labels_with(known, labels, field), labels


def targets_of(labels: NDArray[Any], known: NDArray[Any], values: Iterable[float], field: str) -> Floats:
    """Return the target of each label (m,), of which there is one among ``values`` for each that is ``known``.

    Raises
    ------
    InvalidInput : a label is not known; names the row
    """
    given, target = labels.tolist(), dict(zip(known.tolist(), values, strict=True))
    try:
        return np.fromiter(map(target.__getitem__, given), np.float64, len(given))
    except (KeyError, TypeError):  # of the latter kind is a label that is a list
        _check_finite(labels, field)
        row = _first_unknown(given, target)
        reason = f"{given[row]!r} is not one of the labels {known.tolist()}"
        raise InvalidInput(reason, field=field, row=row) from None


def column_of(y: ArrayLike | None, m: int, field: str) -> NDArray[Any]:
    """Return labels (m,); raises InvalidInput where they are not so many."""
    labels = validation.column(y, field)
    if labels.shape != (m,):
        raise InvalidInput(f"{labels.shape[0]} labels for {m} rows", field=field)
    return labels


def several_labels(classes: Any) -> NDArray[Any]:
    """Return two labels (negative, positive), or more in ascending order; raises InvalidInput for anything else."""
    try:
        labels = np.array(given := list(classes))
    except (TypeError, ValueError):
        given, labels = [], np.empty(0)
    is_text = isinstance(classes, str)
    if is_text or labels.ndim != 1 or labels.size < 2 or len({*labels.tolist()}) < labels.size:
        raise InvalidInput(f"must be two different labels or more, not {classes!r}", field="classes")
    validation.check_one_kind(given, labels, "classes")
    return labels if labels.size == 2 else np.unique(labels)


def _first_unknown(labels: list[Any], known: Mapping[Any, float]) -> int:
    """Return the row of the first label that is not known; one that has no hash is not."""
    for row, label in enumerate(labels):
        try:
            known[label]
        except (KeyError, TypeError):
            return row
    raise AssertionError("one of them is not")


def _check_finite(labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput for a label that is none: not finite, or missing."""
    if labels.dtype.kind not in "fO":
        return
    for row, label in enumerate(labels.tolist()):
        if validation.is_missing(label):
            raise InvalidInput(validation.MISSING, field=field, row=row)
    if labels.dtype.kind == "f":
        validation.check_finite(labels, field)


def _check_classes(labels: NDArray[Any]) -> None:
    """Raise ValueError, with scikit-learn's words, for labels that are not classes."""
    if labels.dtype.kind in "biuU":
        return  # whole numbers and words are classes
    if labels.dtype.kind == "f" and (labels == np.floor(labels)).all():
        return
    if labels.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(labels)


def _check_kind(known: NDArray[Any], labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput for words among numbers, which would all be words from then on, or numbers among words."""
    if known.size and labels.size and _are_words(known) != _are_words(labels):
        one = labels.tolist()[0]
        wrong = "is no string, as labels before are" if _are_words(known) else "is a string, as no label before is"
        raise InvalidInput(f"{one!r} {wrong}", field=field, row=0)


def _are_words(labels: NDArray[Any]) -> bool:
    """Return whether labels, which belong to one kind, are text."""
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))
