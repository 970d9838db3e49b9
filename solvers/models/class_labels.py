"""Labels of classes: which ones are known, what targets they become, and which values are refused.

Two labels are the same if they are equal in Python: 7 and 7.0 are equal, 2**60 + 1 and 2.0**60 are not. NumPy compares
and joins whole numbers of different types as floats, which would make 2**60 + 1 and 2.0**60 equal. Only this module
joins arrays of labels and looks up labels in them, because NumPy may treat different labels as equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.types import Floats, Ints


def labels_with(known: NDArray[Any], labels: NDArray[Any], field: str) -> NDArray[Any]:
    """Return the known labels together with ``labels`` (m,), ascending; raises InvalidInput for invalid labels."""
    try:
        is_one_kind = known.dtype.kind == labels.dtype.kind or _are_dates(known) == _are_dates(labels)
        if is_one_kind and {*known.tolist()}.issuperset(labels.tolist()):
            return known
    except TypeError:  # a label that is a list
        raise InvalidInput("labels must be one value for each row", field=field) from None
    _check_finite(labels, field)
    check_kind(known, labels, field)
    try:
        _check_classes(labels)
        if not known.size:
            return np.unique(labels)
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error), field=field) from None
    return joined(known, labels, field)


def joined(known: NDArray[Any], labels: NDArray[Any], field: str = "y") -> NDArray[Any]:
    """Return the labels that are in either array, ascending, in a type that keeps each exactly.

    Raises
    ------
    InvalidInput : there is no such type; names the first row of ``labels`` (m,) that is not ``known``
    """
    if known.dtype == labels.dtype:
        return np.union1d(known, labels)
    before, given, found = known.tolist(), labels.tolist(), None
    with suppress(TypeError):  # labels may not be comparable
        every = sorted({*before, *given})
        found = _exact_array(every, np.result_type(known, labels), known.dtype.kind + labels.dtype.kind)
    if found is None:
        row = next(row for row, label in enumerate(given) if label not in before)
        raise _no_common_type(given[row], f"the labels {before}", field, row)
    return found


def exact_labels(given: Any, found: NDArray[Any], field: str) -> NDArray[Any]:
    """Return labels (m,) in a type that rounds no number; ``given`` is the caller's value, ``found`` NumPy's array.

    Raises
    ------
    InvalidInput : there is no type that keeps each exactly; names a row
    """
    if found.dtype.kind == "T":  # strings of any length, which scikit-learn does not take as labels
        return np.array(found.tolist(), object)
    is_as_it_came = not isinstance(given, list | tuple)
    if found.dtype.kind not in "fO" or (is_as_it_came and found.dtype.kind == "f"):
        return found
    values = [_plain(value) for value in (found if is_as_it_came else given)]
    kinds = {type(value) for value in values}
    if not kinds <= {bool, int, float} or (kinds == {float} and found.dtype.kind == "f"):
        return found  # words, or labels of other types, which are refused later
    if not all(map(math.isfinite, values)):
        return found
    exact = _exact_array(values, np.dtype(np.float64), "f" if float in kinds else "i")
    if exact is None:
        row = int(np.argmax([abs(value) for value in values]))
        raise _no_common_type(values[row], "the other labels", field, row)
    return exact


def _no_common_type(label: Any, others: str, field: str, row: int) -> InvalidInput:
    reason = f"{label!r} and {others} have no common type that keeps each exactly; name the classes by strings"
    return InvalidInput(reason, field=field, row=row)


def _plain(value: Any) -> Any:
    """Return one label as a Python value."""
    if isinstance(value, list | tuple | np.ndarray) and len(value) == 1:  # of a column (m, 1)
        value = value[0]
    return value.item() if isinstance(value, np.generic) else value


def _exact_array(values: list[Any], common: np.dtype[Any], kinds: str) -> NDArray[Any] | None:
    """Return an array of the ``common`` type, or of whole numbers, that keeps all values exactly; None if none does.

    If ``kinds``, the types of the original arrays, are whole numbers only, the result has whole numbers where possible.
    """
    whole = [np.dtype(np.int64), np.dtype(np.uint64)]
    types = [*whole, common] if common.kind == "f" and "f" not in kinds else [common, *whole]
    for dtype in types:
        try:
            found = np.array(values, dtype)
        except (OverflowError, TypeError, ValueError):
            continue
        if found.tolist() == values:
            return found
    return None


def places_of(labels: NDArray[Any], known: NDArray[Any], field: str = "y") -> Ints:
    """Return the place of each label (m,) among those that are ``known``; raises InvalidInput for any other."""
    return targets_of(labels, known, range(known.size), field).astype(np.int64)


def are_among(labels: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which labels (m,) are ``known``."""
    if labels.dtype == known.dtype:
        return np.isin(labels, known)
    there = {*known.tolist()}
    return np.fromiter((label in there for label in labels.tolist()), np.bool_, labels.size)


def labels_after(
    known: NDArray[Any], y: ArrayLike | None, m: int, field: str, *, is_fixed: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels that are known after learning ``y`` (m,), and the labels of ``y``; raises InvalidInput.

    Parameters
    ----------
    is_fixed : whether only labels that are known are allowed
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
    """Return the target of each label (m,); ``values`` has one target for each label that is ``known``.

    Raises
    ------
    InvalidInput : a label is not known; names the row
    """
    given, target = labels.tolist(), dict(zip(known.tolist(), values, strict=True))
    try:
        return np.fromiter(map(target.__getitem__, given), np.float64, len(given))
    except (KeyError, TypeError):  # TypeError: a label is a list
        _check_finite(labels, field)
        row = _first_unknown(given, target)
        reason = f"{given[row]!r} is not one of the labels {known.tolist()}"
        raise InvalidInput(reason, field=field, row=row) from None


def are_equal(labels: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which labels (m,) equal those of the same rows of ``others`` (m,)."""
    if labels.dtype == others.dtype:
        return np.asarray(labels == others)
    return np.fromiter(map(eq, labels.tolist(), others.tolist()), np.bool_, labels.size)


def in_type_of(known: NDArray[Any], y: Any) -> Any:
    """Return labels (m,) in a type that compares exactly with the ``known`` labels, if there is one."""
    try:
        labels = exact_labels(y, np.asarray(y), "y")
        if {known.dtype.kind, labels.dtype.kind} <= {*"biuf"} and known.dtype != labels.dtype and labels.size:
            return labels.astype(joined(known, labels).dtype)
    except ValueError:  # to be refused, or counted as wrong
        pass
    return y


def column_of(y: ArrayLike | None, m: int, field: str) -> NDArray[Any]:
    """Return ``y`` as an array of labels (m,); raises InvalidInput unless there are ``m`` labels."""
    labels = exact_labels(y, validation.column(y, field), field)
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
    if is_text or labels.ndim != 1 or labels.size < 2 or len({*given}) < labels.size:
        raise InvalidInput(f"must be two different labels or more, not {classes!r}", field="classes")
    validation.check_one_kind(given, labels, "classes")
    labels = exact_labels(given, labels, "classes")
    return labels if labels.size == 2 else np.unique(labels)


def _first_unknown(labels: list[Any], known: Mapping[Any, float]) -> int:
    """Return the row of the first label that is not known, such as one without a hash."""
    for row, label in enumerate(labels):
        try:
            known[label]
        except (KeyError, TypeError):
            return row
    raise AssertionError("one of them is not")


def _check_finite(labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput for a value that is not a label: not finite, or missing."""
    if labels.dtype.kind not in "fO":
        return
    for row, label in enumerate(labels.tolist()):
        if validation.is_missing(label):
            raise InvalidInput(validation.MISSING, field=field, row=row)
    if labels.dtype.kind == "f":
        validation.check_finite(np.require(labels, requirements="A"), field)


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


def check_kind(known: NDArray[Any], labels: NDArray[Any], field: str) -> None:
    """Raise InvalidInput for labels of another kind than the known ones: strings, dates, or numbers."""
    if not known.size or not labels.size:
        return
    if _are_dates(known) != _are_dates(labels):
        wrong = "is no date, as labels before are" if _are_dates(known) else "is a date, as no label before is"
        raise InvalidInput(f"{labels.tolist()[0]!r} {wrong}", field=field, row=0)
    if _are_words(known) != _are_words(labels):
        one = labels.tolist()[0]
        wrong = "is no string, as labels before are" if _are_words(known) else "is a string, as no label before is"
        raise InvalidInput(f"{one!r} {wrong}", field=field, row=0)


def _are_dates(labels: NDArray[Any]) -> bool:
    """Return whether labels are dates or times."""
    return labels.dtype.kind in "mM"


def _are_words(labels: NDArray[Any]) -> bool:
    """Return whether labels, which belong to one kind, are text."""
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))
