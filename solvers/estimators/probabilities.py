"""Probabilities of classes, calibrated from exact decisions of folds, and kept up to date with the window."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from livesvm.solvers.analyses.leave_one_out.assessment import held_out_by_class
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.calibration import Calibration, columns
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.types import Floats

METHODS = {True: "sigmoid", "platt": "sigmoid", "sigmoid": "sigmoid", "isotonic": "isotonic"}

PROBABILITY = """    probability : bool, "platt" or "isotonic", default False
        Whether there is ``predict_proba``, and how decisions become probabilities; True is "platt". That is fitted to
        exact decisions of the window's examples by models without their fold, of ten, in windows over 1,000 of five,
        when it is asked for the first time after an update. The class with the largest probability is not always the
        one that ``predict`` returns.
"""


class _Decisions(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the decisions themselves as features, so that scikit-learn can calibrate them."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes
        self.classes_ = classes

    def fit(self, X: Floats, y: Any = None) -> _Decisions:
        """Learn nothing."""
        return self

    def decision_function(self, X: Floats) -> Floats:
        """Return the features, which are decisions already: (m, n_classes), or (m,) for two classes."""
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X: Floats) -> NDArray[Any]:
        """Return the class with the largest decision."""
        places = (X[:, 0] > 0).astype(np.int64) if X.shape[1] == 1 else X.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _is_asked_for(model: Any) -> bool:
    return bool(model.probability)


class Kept(NamedTuple):
    """A calibration, with the window and the method that it belongs to."""

    window: Any
    updates: int
    method: str
    calibration: Calibration


class Probabilities(ChangingEstimator):
    """``predict_proba`` of a live classifier; goes before it among the bases."""

    probability: bool | str
    _calibration: Kept | None = None

    @available_if(_is_asked_for)  # type: ignore[untyped-decorator]
    @taking_rows(
        "ndarray, shape (m, n_classes)\n    Probabilities, in the order of ``classes_``.",
        """
        InvalidInput
            The window has fewer than two classes, or one of them a single example.
        """,
    )
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        self._check_fitted()
        values = columns(self._decision(X), self.classes_.size)
        return self._calibrated().probabilities(values)

    @available_if(_is_asked_for)  # type: ignore[untyped-decorator]
    @taking_rows("ndarray, shape (m, n_classes)\n    Logarithms of probabilities.")
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _calibrated(self) -> Calibration:
        """Return the calibration for the present window."""
        method = METHODS.get(self.probability)
        if method is None:
            raise InvalidInput(
                f"must be a boolean, 'platt' or 'isotonic', not {self.probability!r}", field="probability"
            )
        kept = self._calibration
        if (
            kept is None
            or kept.window is not self._window
            or (kept.updates, kept.method) != (self._window.updates, method)
        ):
            kept = self._calibration = Kept(self._window, self._window.updates, method, calibrated(self, method))
        return kept.calibration


def calibrated(model: Any, method: str) -> Calibration:
    """Return the calibration of a live classifier's window, by exact decisions of its examples without their fold.

    Parameters
    ----------
    method : "sigmoid" or "isotonic"

    Raises
    ------
    InvalidInput : the window has fewer than two classes, or one of them a single example
    """
    y, classes = model.window_y, model.classes_
    if classes.size < 2:
        raise InvalidInput("probabilities need two classes, with two examples of each", field="window")
    for label in classes.tolist():
        if (n := np.count_nonzero(y == label)) < 2:
            reason = f"probabilities need two examples of each class, and {label!r} has {n}"
            raise InvalidInput(reason, field="window")
    values = columns(held_out_by_class(model), classes.size)
    every_example = np.arange(y.size)
    from sklearn import config_context
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Frozen(FrozenEstimator):  # type: ignore[misc]
        """A frozen estimator that takes weights, without a warning that it does not use them."""

        def fit(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> Frozen:
            return self

    frozen = Frozen(_Decisions(classes))
    made = CalibratedClassifierCV(frozen, method=method, cv=[(every_example, every_example)], ensemble=False)
    weights = model.window_sample_weight
    with config_context(enable_metadata_routing=False):  # whatever the user's own pipelines need
        made.fit(values, y, sample_weight=None if (weights == weights[0]).all() else weights)
    maps = made.calibrated_classifiers_[0].calibrators
    if method == "sigmoid":
        return Calibration(method, tuple((np.array([one.a_]), np.array([one.b_])) for one in maps))
    return Calibration(method, tuple((one.X_thresholds_, one.y_thresholds_) for one in maps))
