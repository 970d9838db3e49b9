"""The live estimators: what their targets mean, and which losses they have.

They follow scikit-learn's conventions; ``solvers.scikit`` makes them its estimators in name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers import validation
from solvers.errors import InvalidInput
from solvers.legs import Progress
from solvers.live_estimator import LiveEstimator
from solvers.losses import Losses, epsilon_insensitive, hinge, one_class, pinball
from solvers.outlier import OutlierPaths
from solvers.regularization import RegularizationPath, regularization_path
from solvers.reports import UpdateReport
from solvers.robust_losses import LABELS, RESIDUALS, Walling

Floats = NDArray[np.float64]


class LiveSVC(OutlierPaths, LiveEstimator):
    """A support vector classifier that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i f(x_i))`` over its window; an update moves many
    examples in and out along one multi-parametric path [Karasuyama & Takeuchi].

    Parameters
    ----------
    C : weight of the losses, > 0
    kernel : "linear", "rbf", "poly", "sigmoid" or "precomputed": then X is a kernel matrix, see ``update``
    gamma : coefficient of rbf, poly and sigmoid; "scale" is 1 / (n_features * variance of the first data seen), and
        stays
    degree, coef0 : of the kernels that have them
    class_weight : multiplies C by class, {label: weight}
    fit_intercept : whether f has an intercept
    classes : the two labels (negative, positive); learned from the data by default
    cache_mb : memory that kernel rows may take, in MiB

    Attributes
    ----------
    support_ : (n_support,) indices into the window, oldest first
    support_vectors_ : (n_support, d)
    dual_coef_ : (1, n_support) signed coefficients beta
    intercept_ : (1,)
    keys_ : keys of the window, oldest first
    n_window_ : size of the window

    Examples
    --------
    >>> from solvers import IncrementalSVC
    >>> model = IncrementalSVC(C=10.0, gamma=0.5).fit([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> report = model.update(add=([[2.0]], [1]), remove=[0])
    >>> report.added, report.removed, report.n
    ((4,), (0,), 4)
    >>> model.certificate().relative_gap < 1e-9
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        classes: tuple[Any, Any] | None = None,
        cache_mb: float = 512,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.cache_mb = cache_mb

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add examples to the window, like ``update(add=(X, y))``; ``classes`` fixes the labels on the first call."""
        if classes is not None and not hasattr(self, "classes_"):
            self._set_classes(np.asarray(classes))
        self._check_features(X, y, reset=not hasattr(self, "n_features_in_"))
        self._learn(X, y, sample_weight, None, ())
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return f(x) for ``X`` (m, d), as (m,); positive for ``classes_[1]``."""
        return self._decision(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row of ``X`` (m, d)."""
        return self._labels(self.decision_function(X))

    def regularization_path(
        self, C_min: float, C_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every C from ``C_min`` to ``C_max``, exact between its breakpoints.

        The model itself stays as it is. Class and sample weights multiply every C.

        Parameters
        ----------
        progress : called with how much is done and how much there is; returning False cancels

        Raises
        ------
        InvalidInput : the range is empty, the window is, or it has examples of one class only
        Cancelled, NotOptimal : see the message

        Examples
        --------
        >>> from solvers import IncrementalSVC
        >>> model = IncrementalSVC(gamma=0.5).fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [-1, -1, 1, -1, 1])
        >>> path = model.regularization_path(C_min=0.01, C_max=100.0)
        >>> path.best([[1.8], [3.9]], [1, 1]).error
        0.0
        >>> path.at(10.0).certificate().relative_gap < 1e-9
        True
        """
        self._check_fitted()
        if np.unique(self._window.y).size == 1:
            raise InvalidInput("all examples are of one class; a path needs both", field="window")
        return regularization_path(self, "C", C_min, C_max, progress)

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window, (n,), oldest first."""
        return self._labels(self._window.y)

    def _labels(self, f: Floats) -> NDArray[Any]:
        return self.classes_[np.where(f > 0, self.classes_.size - 1, 0)]

    def _targets(self, y: ArrayLike | None, m: int) -> Floats:
        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None", field="y")
        labels = _column(y)
        if labels.dtype.kind == "f":
            validation.check_finite(labels, "y")
        if labels.shape != (m,):
            raise InvalidInput(f"{labels.shape[0]} labels for {m} rows", field="y")
        known = self._known_classes(labels)
        positive = labels == known[-1]
        unknown = ~(positive | (labels == known[0]))
        if unknown.any():
            row = int(np.argmax(unknown))
            raise InvalidInput(
                f"{labels[row]!s} is not one of the labels {[str(c) for c in known]}", field="y", row=row
            )
        self._set_classes(known)
        return np.where(positive, 1.0, -1.0)

    def _known_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the classes known after seeing ``labels``."""
        if self.classes is not None:
            fixed = np.array(list(self.classes))
            if fixed.shape != (2,) or fixed[0] == fixed[1]:
                raise InvalidInput(f"must be two different labels, not {self.classes!r}", field="classes")
            return fixed
        known: NDArray[Any] = getattr(self, "classes_", labels[:0])
        if known.size == 2:
            return known
        _check_classes(labels)
        known = np.union1d(known, labels)
        if known.size > 2:
            raise InvalidInput(
                f"Only binary classification is supported. The type of the target is multiclass: {known.size} classes",
                field="y",
            )
        return known

    def _set_classes(self, known: NDArray[Any]) -> None:
        if self._mirrors(known):
            self._window.flip_signs()  # what was the only class, and so the positive one, is the negative one now
        self.classes_ = known

    def _mirrors(self, known: NDArray[Any]) -> bool:
        """Say whether the only class so far has the other sign among the ``known`` ones."""
        before = getattr(self, "classes_", None)
        return before is not None and before.size == 1 and known.size == 2 and known[0] == before[0]

    def _learn(self, *args: Any, **kwargs: Any) -> UpdateReport:
        before = getattr(self, "classes_", None)
        try:
            return super()._learn(*args, **kwargs)
        except BaseException:
            if before is None:
                self.__dict__.pop("classes_", None)
            elif before is not self.classes_:
                mirrored, self.classes_ = self.classes_, before
                if self._mirrors(mirrored):
                    self._window.flip_signs()
            raise

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(np.where(decisions > 0, 1.0, -1.0) != targets))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        cost = validation.positive(self.C if C is None else C, "C")
        return hinge(targets, cost * weights * self._class_weights(targets))

    def _walling(self, s: float | None = None) -> Walling:
        if s is not None and s > 0:
            raise InvalidInput(f"a margin beyond which labels are wrong is not positive, but s is {s:g}", field="s")
        return LABELS

    def _class_weights(self, targets: Floats) -> Floats:
        if self.class_weight is None:
            return np.ones(targets.size)
        if not isinstance(self.class_weight, Mapping):
            raise InvalidInput("must be a mapping from label to weight", field="class_weight")
        of = {label: float(self.class_weight.get(label, 1.0)) for label in self.classes_.tolist()}
        for label, weight in of.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise InvalidInput(
                    f"the weight of {label!r} must be a number that is not negative", field="class_weight"
                )
        negative, positive = of[self.classes_.tolist()[0]], of[self.classes_.tolist()[-1]]
        return np.where(targets > 0, positive, negative)

    def to_arrays(self) -> dict[str, Any]:
        """Return everything a checkpoint needs: arrays, numbers, and the keys as a list."""
        return {**super().to_arrays(), "classes": self.classes_}

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self.classes_ = np.asarray(arrays["classes"])
        super()._restore(arrays)


class LiveSVR(OutlierPaths, LiveEstimator):
    """A support vector regressor that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i loss(y_i - f(x_i))`` over its window.

    Parameters
    ----------
    C : weight of the losses, > 0
    epsilon : half width of the tube without loss, >= 0, in units of y; for the epsilon-insensitive loss
    loss : "epsilon_insensitive", "absolute" or "pinball"
    quantile : level of the pinball loss, in (0, 1): f estimates that conditional quantile
    kernel, gamma, degree, coef0, fit_intercept, cache_mb : as in ``IncrementalSVC``

    Examples
    --------
    >>> from solvers import IncrementalSVR
    >>> model = IncrementalSVR(C=10.0, epsilon=0.1, kernel="linear").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.predict([[1.5]]).round(6).tolist()
    [1.45]
    """

    _counts_errors = False

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str = "rbf",
        *,
        loss: str = "epsilon_insensitive",
        quantile: float = 0.5,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        cache_mb: float = 512,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.loss = loss
        self.quantile = quantile
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.cache_mb = cache_mb

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add examples to the window: the same as ``update(add=(X, y))``."""
        self._check_features(X, y, reset=not hasattr(self, "n_features_in_"))
        self._learn(X, y, sample_weight, None, ())
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return f(x) for ``X`` (m, d), as (m,), in units of y."""
        return self._decision(X)

    def regularization_path(
        self, C_min: float, C_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every C; as ``IncrementalSVC.regularization_path``."""
        self._check_fitted()
        return regularization_path(self, "C", C_min, C_max, progress)

    def epsilon_path(
        self, epsilon_min: float, epsilon_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every width of the tube from ``epsilon_min`` > 0, in units of y.

        The loss has to be "epsilon_insensitive"; otherwise as ``IncrementalSVC.regularization_path``.
        """
        self._check_fitted()
        if self.loss != "epsilon_insensitive" or self.epsilon == 0:
            raise InvalidInput("a path over epsilon needs the loss 'epsilon_insensitive' and epsilon > 0", field="loss")
        return regularization_path(self, "epsilon", epsilon_min, epsilon_max, progress)

    def _targets(self, y: ArrayLike | None, m: int) -> Floats:
        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None", field="y")
        return validation.vector(_column(y), m, field="y")

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(np.abs(decisions - targets)))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        costs = validation.positive(self.C if C is None else C, "C") * weights
        if self.loss == "epsilon_insensitive":
            return epsilon_insensitive(targets, validation.not_negative(self.epsilon, "epsilon"), costs)
        if self.loss == "absolute":
            return epsilon_insensitive(targets, 0.0, costs)
        if self.loss == "pinball":
            if not 0 < self.quantile < 1:
                raise InvalidInput(f"must lie between 0 and 1, not {self.quantile!r}", field="quantile")
            return pinball(targets, self.quantile, costs)
        raise InvalidInput(f"must be 'epsilon_insensitive', 'absolute' or 'pinball', not {self.loss!r}", field="loss")

    def _walling(self, s: float | None = None) -> Walling:
        tube = float(self.epsilon) if self.loss == "epsilon_insensitive" else 0.0
        if s is not None and s <= tube:
            least = f"epsilon, {tube:g}" if tube > 0 else "zero"
            raise InvalidInput(f"a residual that counts as an outlier is larger than {least}, not {s:g}", field="s")
        return RESIDUALS._replace(tube=tube)


class LiveOneClassSVM(LiveEstimator):
    """A one-class support vector machine that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + sum_i weight_i (max(0, rho - w'x_i) - nu rho)``, the problem of [Schoelkopf et al.] times
    ``nu n``, so that coefficients lie in [0, weight_i] and sum up to ``nu sum_i weight_i``: an example that comes or
    goes changes the sum and nothing else. ``f = w'x - rho`` is negative for outliers.

    Parameters
    ----------
    nu : upper bound of the share of outliers, in (0, 1]
    kernel, gamma, degree, coef0, cache_mb : as in ``IncrementalSVC``

    Attributes
    ----------
    offset_ : rho; the decision function is ``score_samples`` minus it
    """

    fit_intercept = True

    def __init__(
        self,
        nu: float = 0.5,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 512,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_mb = cache_mb

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add examples to the window: the same as ``update(add=(X, None))``; ``y`` is ignored."""
        self._check_features(X, None, reset=not hasattr(self, "n_features_in_"))
        self._learn(X, None, sample_weight, None, ())
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the signed distance of ``X`` (m, d) to the boundary, as (m,); negative for outliers.

        Margin examples lie on the boundary: what only rounding keeps off it, 1e-10 of rho, is 0.
        """
        return self._decision(X)

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return ``w'x`` for ``X`` (m, d), as (m,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return +1 for inliers and -1 for outliers, for ``X`` (m, d)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def regularization_path(
        self, nu_min: float, nu_max: float, *, progress: Progress | None = None
    ) -> RegularizationPath:
        """Return the optimum of the window for every nu; as ``IncrementalSVC.regularization_path``."""
        self._check_fitted()
        if nu_max > 1:
            raise InvalidInput(f"must lie in (0, 1], not {nu_max!r}", field="nu_max")
        return regularization_path(self, "nu", nu_min, nu_max, progress)

    @property
    def offset_(self) -> float:
        self._check_fitted()
        return -self._window.state.b

    def _targets(self, y: ArrayLike | None, m: int) -> Floats:
        return np.ones(m)

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(decisions < 0))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        if C is not None:
            raise InvalidInput("a one-class model has none; its parameter is nu", field="C")
        return one_class(weights)

    def _total_per_weight(self) -> float:
        if isinstance(self.nu, bool) or not 0 < self.nu <= 1:
            raise InvalidInput(f"must lie in (0, 1], not {self.nu!r}", field="nu")
        return float(self.nu)


def _column(y: ArrayLike) -> NDArray[Any]:
    """Return targets as an array (m,); scikit-learn warns of, or refuses, what has another shape."""
    column = np.asarray(y)
    if column.ndim != 1:
        from sklearn.utils.validation import column_or_1d

        column = column_or_1d(y, warn=True)
    return column


def _check_classes(labels: NDArray[Any]) -> None:
    """Raise ValueError, with scikit-learn's words, for labels that are not classes."""
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(labels)
