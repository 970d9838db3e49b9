"""The classifiers of the service, which take the labels in the data, numbers or words, as their classes.

A classifier with exact updates has the classes -1 and 1 until examples with other labels are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.models.arrays import Targets
from livesvm.service.models.labels import SIGNS, are_signs, as_labels
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.class_labels import labels_with

Two = tuple[Any, Any]


class ServedClassifier(LiveSVC):
    """A live classifier with class weights by label, which may name labels that no example has yet.

    As long as all labels are -1 or 1, both are classes, even if only one of them occurs. If these are the classes, f(x)
    is positive for class 1.
    """

    def check_classes(self, y: Targets, most: int, field: str = "y") -> None:
        """Raise InvalidInput for labels of another kind than the known ones, or for more than ``most`` classes."""
        before, labels = vars(self).get("classes_", y[:0]), as_labels(y)
        check_number(before, self._known_classes(labels, field), labels, most, field)

    @property
    def pair_certificates(self) -> dict[Two, Any]:
        """The certificate of every pair of labels; empty with at most two classes."""
        if not self._has_several():
            return {}
        return {two: self.certificate_of(*two) for two in self.pairs_}

    def successor(self, made: LiveEstimator, labels: Targets, *, afresh: bool = False) -> None:
        """Give an untrained estimator the classes that this estimator would have after learning these labels.

        With ``afresh``, the untrained estimator has only the classes of these labels.
        """
        if not hasattr(self, "classes_") or not isinstance(made, ServedClassifier):
            return
        if afresh:
            made._know(made._known_classes(labels, "y"))
            return
        sign = _only_sign(self._window) if np.array_equal(self.classes_, SIGNS) else 0
        made._know(self.classes_ if not sign or are_signs(as_labels(labels)) else SIGNS[sign == SIGNS])

    def knows_only(self, labels: Targets) -> bool:
        """Return whether a new classifier would have the same classes after learning only these labels (m,)."""
        return np.array_equal(self.classes_, type(self)()._known_classes(labels, "y"))

    # -- labels --------------------------------------------------------------------------------------------------------

    def _known_classes(self, labels: NDArray[Any], field: str) -> NDArray[Any]:
        found = as_labels(labels)
        if not hasattr(self, "classes_") and are_signs(found):
            return SIGNS
        return super()._known_classes(found, field)

    def _weights_by_class(self) -> NDArray[np.float64]:
        weights: Mapping[str, float] = self.class_weight  # type: ignore[assignment]
        return np.array([float(weights.get(str(label), 1.0)) for label in self.classes_.tolist()])

    def _meet(self, given: list[Any]) -> None:
        if not all(are_signs(as_labels(labels)) for labels in given):
            self._drop_unused_sign()
        super()._meet(given)

    def _drop_unused_sign(self) -> None:
        """Drop the class -1 or 1 if it has no example."""
        sign = _only_sign(self._window)
        if sign and np.array_equal(self.classes_, SIGNS):
            if sign < 0:
                self._window.flip_signs()  # the only class is the positive one
            self.classes_ = SIGNS[sign == SIGNS]


class ServedLargeClassifier(LiveL2SVC):
    """A live classifier for windows that are too large for exact updates; its labels are numbers or words."""

    def check_classes(self, y: Targets, most: int, field: str = "y") -> None:
        """Raise InvalidInput for labels of another kind than the known ones, or for more than ``most`` classes."""
        before, labels = self.labels_, as_labels(y)
        check_number(before, labels_with(before, labels, field), labels, most, field)

    def knows_only(self, labels: Targets) -> bool:
        """Return whether the classes are exactly the ones in these labels (m,)."""
        return np.array_equal(self.labels_, np.unique(as_labels(labels)))

    def _with_labels(self, known: NDArray[Any], y: Any, m: int, field: str) -> tuple[NDArray[Any], NDArray[Any]]:
        return super()._with_labels(known, None if y is None else as_labels(y), m, field)


Served = ServedClassifier | ServedLargeClassifier  #: classifiers whose classes come with the data


def check_number(before: NDArray[Any], known: NDArray[Any], labels: NDArray[Any], most: int, field: str) -> None:
    """Raise InvalidInput if the ``known`` classes and new ones in ``labels`` (m,) are together more than ``most``."""
    if known.size > most:
        new = np.setdiff1d(known, before)
        row = int(np.flatnonzero(np.isin(labels, new))[0]) if new.size else None
        raise InvalidInput(f"would make {known.size} classes, the limit is {most}", field=field, row=row)


def labels_of(arrays: Mapping[str, Any]) -> NDArray[Any]:
    """Return the labels (n,) of the examples in ``arrays``, which an estimator's ``to_arrays`` returned."""
    classes, y = np.asarray(arrays["classes"]), np.asarray(arrays["y"])
    places = y.astype(np.int64) if classes.size > 2 else np.where(y > 0, classes.size - 1, 0)
    labels: NDArray[Any] = classes[places]
    return labels


def _only_sign(window: Any) -> int:
    """Return the sign of all examples' labels; 0 if both signs occur, or the window is empty or has other classes."""
    if window.pairs or not window.keys:
        return 0
    y = window.y
    return int(y[0]) if (y == y[0]).all() else 0
