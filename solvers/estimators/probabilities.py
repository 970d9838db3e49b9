"""Class probabilities, calibrated by exact decisions on held-out folds; computed again after changes of the window."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from livesvm.solvers.analyses.leave_one_out.assessment import dealt, folds_for, held_out_by_class
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.calibration import Calibration, columns
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.runtime.docstrings import taking_rows
from livesvm.solvers.runtime.types import Bools, Floats, Ints

JUDGING = 100  #: examples to whose decisions a sigmoid is fitted, at least
OF_EACH, OF_MANY = 10, 20  #: of each of two classes; of each of several, to leave out which costs less
STEPS, RIDGE = 100, 1e-12  #: of Newton's method, and what is added to the diagonal of its matrix
METHODS = {True: "sigmoid", "platt": "sigmoid", "sigmoid": "sigmoid", "isotonic": "isotonic"}

PROBABILITY = """    probability : bool, "platt" or "isotonic", default False
        Whether there is ``predict_proba``, and how decisions become probabilities; True is "platt". That is fitted to
        exact decisions of the window's examples by models without their fold, of ten, in windows over 1,000 of five,
        when it is asked for the first time after an update; of a sigmoid as many folds are left out as hold 100
        examples and 10 of each class, of several classes 20. The class with the largest probability is not always the
        one that ``predict`` returns.
"""


def _is_asked_for(model: Any) -> bool:
    return bool(model.probability)


class Kept(NamedTuple):
    """A stored calibration, with the window, the number of updates and the method for which it was computed."""

    window: Any
    updates: int
    method: str
    calibration: Calibration


class Probabilities(ChangingEstimator):
    """``predict_proba`` for a live classifier: a base class, listed before the live classifier."""

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
        """Return the calibration for the present window, computed at the first request after an update."""
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
    """Return a live classifier's calibration, fitted to exact decisions on each fold by a model without this fold.

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
    places, folds = _judging(y, method)
    decisions = held_out_by_class(model, places, folds=folds, keeps_weight=method == "isotonic")
    y, weights, of = y[places], model.window_sample_weight[places], classes[1:] if classes.size == 2 else classes
    each = zip(columns(decisions, classes.size).T, of, strict=True)
    return Calibration(method, tuple(MAPS[method](f, y == label, weights) for f, label in each))


def _judging(y: NDArray[Any], method: str) -> tuple[Ints, int]:
    """Return the positions of the examples to hold out, and the number of folds.

    A sigmoid has two parameters, for which ``JUDGING`` held-out examples suffice. So for a sigmoid only as many folds
    are held out as contain ``JUDGING`` examples.
    """
    folds = folds_for(y.size)
    if method == "sigmoid":
        counts = np.unique(y, return_counts=True)[1]
        share = max(JUDGING / y.size, (OF_EACH if counts.size == 2 else OF_MANY) / counts.min())
        left_out = min(folds, math.ceil(folds * share))
        return np.flatnonzero(dealt(y, folds) < left_out), left_out
    return np.arange(y.size), folds


def _sigmoid(f: Floats, positive: Bools, weights: Floats) -> tuple[Floats, Floats]:
    """Return a and b, (1,) each, for which 1 / (1 + exp(a f + b)) has the least log loss for Platt's targets.

    The method is Newton's with step halving [Lin, Lin & Weng 2007, "A note on Platt's probabilistic outputs"].
    """
    from scipy.special import expit  # importing it takes a twentieth of the start of a service

    ups, downs = float(weights[positive].sum()), float(weights[~positive].sum())
    target = np.where(positive, (ups + 1.0) / (ups + 2.0), 1.0 / (downs + 2.0))
    scale = float(np.abs(f).max()) or 1.0
    x = np.stack([f / scale, np.ones(f.size)])

    def loss(at: Floats) -> float:
        z = at @ x
        return float(weights @ (np.logaddexp(0.0, z) - target * z))

    now = np.array([0.0, math.log((ups + 1.0) / (downs + 1.0))])
    least = loss(now)
    for _ in range(STEPS):
        p = expit(now @ x)
        slope = x @ (weights * (p - target))
        bend = (x * (weights * p * (1.0 - p))) @ x.T + RIDGE * np.eye(2)
        step = np.linalg.solve(bend, slope)
        gained = float(slope @ step)
        share = 1.0
        while (found := loss(now - share * step)) > least - 1e-4 * share * gained and share > RIDGE:
            share /= 2.0
        if not found < least:
            break
        now, least = now - share * step, found
    return np.array([-now[0] / scale]), np.array([-now[1]])


def _isotonic(f: Floats, positive: Bools, weights: Floats) -> tuple[Floats, Floats]:
    """Return thresholds and values of the nondecreasing map from f to probabilities with the least squared error."""
    from sklearn.isotonic import IsotonicRegression

    found = IsotonicRegression(out_of_bounds="clip").fit(f, positive.astype(np.float64), sample_weight=weights)
    return found.X_thresholds_, found.y_thresholds_


MAPS = {"sigmoid": _sigmoid, "isotonic": _isotonic}
