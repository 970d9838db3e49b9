"""scikit-learn estimators over the live solvers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from solvers import incremental, validation
from solvers.certificate import Certificate
from solvers.errors import InvalidInput
from solvers.follow import Trace
from solvers.kernels import Kernel
from solvers.losses import hinge
from solvers.predictor import Predictor
from solvers.validation import Key
from solvers.window import Window

Floats = NDArray[np.float64]

KERNEL_ALIASES = {"polynomial": "poly"}


@dataclass(frozen=True)
class UpdateReport:
    """What one update did.

    Attributes
    ----------
    added, removed : keys, in the order in which they were given
    events : breakpoints of the path: examples that changed sides
    seconds : wall time of the update
    n, n_free, n_bound : examples in the window, how many of them are at a kink, and how many have a coefficient at a bound
    max_violation : largest violation of the optimality conditions after the update, in units of f
    relative_gap : duality gap over the objective, by the f that the solver tracks
    rounds, exchanges, stalls, refreshes, refactorizations : how the path was walked, see ``solvers.follow``
    """

    added: tuple[Key, ...]
    removed: tuple[Key, ...]
    events: int
    seconds: float
    n: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float
    rounds: int
    exchanges: int
    stalls: int
    refreshes: int
    refactorizations: int


class IncrementalSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A support vector classifier that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i f(x_i))`` over its window; an update moves many examples in and
    out along one multi-parametric path [Karasuyama & Takeuchi].

    Parameters
    ----------
    C : weight of the losses, > 0
    kernel : "linear", "rbf", "poly" or "sigmoid"
    gamma : coefficient of rbf, poly and sigmoid; "scale" is 1 / (n_features * variance of the first data seen), and stays
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

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        keys: Iterable[Key] | None = None,
    ) -> Self:
        """Train on ``X`` (n, d) and ``y`` (n,) from nothing; whatever was in the window is gone."""
        self._forget()
        validate_data(self, X, y, skip_check_array=True)
        self._learn(X, y, sample_weight, keys, ())
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add examples to the window: the same as ``update(add=(X, y))``; ``classes`` fixes the labels on the first call."""
        if classes is not None and not hasattr(self, "classes_"):
            self._set_classes(np.asarray(classes))
        validate_data(self, X, y, reset=not hasattr(self, "n_features_in_"), skip_check_array=True)
        self._learn(X, y, sample_weight, None, ())
        return self

    def update(
        self,
        add: tuple[ArrayLike, ArrayLike] | None = None,
        remove: Iterable[Key] | None = None,
        *,
        keys: Iterable[Key] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> UpdateReport:
        """Add and remove examples along one path; all or nothing.

        Parameters
        ----------
        add : features (m, d) and labels (m,) of new examples
        remove : keys of examples that leave; a key that leaves can come back in the same call
        keys : m names for the new examples, strings or whole numbers; unused whole numbers by default
        sample_weight : (m,) weights of the new examples, >= 0

        Raises
        ------
        InvalidInput, DuplicateKey, UnknownKey : see the message; nothing was changed
        NotPositiveSemidefinite, NotOptimal, MemoryLimit : the path could not be followed; the model is as it was
        """
        X, y = add if add is not None else (None, None)
        return self._learn(X, y, sample_weight, keys, () if remove is None else remove)

    def _learn(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        keys: Iterable[Key] | None,
        remove: Iterable[Key],
    ) -> UpdateReport:
        started = time.perf_counter()
        window = self._window if hasattr(self, "_window") else None
        width = window.width if window is not None else None
        if X is None:
            X_new, y_new = np.empty((0, width or 0)), np.empty(0)
        else:
            X_new = validation.matrix(X, width=width)
            if X_new.shape[0] == 0:
                raise InvalidInput("Found array with 0 sample(s) while a minimum of 1 is required", field="X")
            if X_new.shape[1] == 0:
                raise InvalidInput(
                    f"Found array with 0 feature(s) (shape={X_new.shape}) while a minimum of 1 is required.",
                    field="X",
                )
            if y is None:
                raise InvalidInput("requires y to be passed, but the target y is None", field="y")
            y_new = self._signs(y, X_new.shape[0])
        weights = validation.sample_weights(sample_weight, X_new.shape[0])
        if window is None:
            window = self._new_window(X_new, weights)
        leaving = validation.known_keys(remove, window.keys)
        taken = window.keys if not leaving else set(window.keys) - set(leaving)
        names = window.unused_keys(len(y_new)) if keys is None else keys
        adding = validation.new_keys(names, len(y_new), taken)
        losses = hinge(y_new, self._costs(y_new, weights))
        trace = window.update(X_new, y_new, weights, losses, adding, leaving)
        self._window = window
        self.n_features_in_ = window.width
        self.gamma_ = window.state.kernel.gamma
        return self._report(trace, adding, leaving, time.perf_counter() - started)

    def _report(self, trace: Trace, added: list[Key], removed: list[Key], seconds: float) -> UpdateReport:
        state = self._window.state
        bound = int(np.count_nonzero(state.examples.beta[: state.n_slots])) - state.n_free_supports()
        return UpdateReport(
            added=tuple(added),
            removed=tuple(removed),
            events=trace.events,
            seconds=seconds,
            n=state.n,
            n_free=state.n_free,
            n_bound=bound,
            max_violation=trace.max_violation,
            relative_gap=trace.relative_gap,
            rounds=trace.rounds,
            exchanges=trace.exchanges,
            stalls=trace.stalls,
            refreshes=trace.refreshed,
            refactorizations=trace.refactored,
        )

    # -- labels and parameters -----------------------------------------------------------------------------------------

    def _signs(self, y: ArrayLike, m: int) -> Floats:
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f":
            validation.check_finite(labels, "y")
        check_classification_targets(labels)
        if labels.shape != (m,):
            raise InvalidInput(f"{labels.shape[0]} labels for {m} rows", field="y")
        present = np.unique(labels)
        known = self._known_classes(present)
        unknown = ~np.isin(labels, known)
        if unknown.any():
            row = int(np.argmax(unknown))
            raise InvalidInput(
                f"{labels[row]!s} is not one of the labels {[str(c) for c in known]}", field="y", row=row
            )
        self._set_classes(known)
        return np.where(labels == known[-1], 1.0, -1.0)

    def _known_classes(self, present: NDArray[Any]) -> NDArray[Any]:
        """Return the labels known after seeing ``present``."""
        if self.classes is not None:
            return np.asarray(self.classes)
        if not hasattr(self, "classes_"):
            known = present
        elif self.classes_.size == 1:
            known = np.union1d(self.classes_, present)
        else:
            known = self.classes_
        if known.size > 2:
            raise InvalidInput(
                f"Only binary classification is supported. The type of the target is multiclass: {known.size} classes",
                field="y",
            )
        return known

    def _set_classes(self, known: NDArray[Any]) -> None:
        before = getattr(self, "classes_", None)
        if before is not None and before.size == 1 and known.size == 2 and known[0] == before[0]:
            self._window.flip_signs()  # what was the only class, and so the positive one, is the negative one now
        self.classes_ = known

    def _costs(self, y: Floats, weights: Floats) -> Floats:
        costs = validation.positive(self.C, "C") * weights
        if self.class_weight is None:
            return costs
        if not isinstance(self.class_weight, Mapping):
            raise InvalidInput("must be a mapping from label to weight", field="class_weight")
        of = {label: float(self.class_weight.get(label, 1.0)) for label in self.classes_.tolist()}
        for label, weight in of.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise InvalidInput(
                    f"the weight of {label!r} must be a number that is not negative", field="class_weight"
                )
        negative, positive = of[self.classes_.tolist()[0]], of[self.classes_.tolist()[-1]]
        return costs * np.where(y > 0, positive, negative)

    def _new_window(self, X: Floats, weights: Floats) -> Window:
        name = KERNEL_ALIASES.get(self.kernel, self.kernel)
        if isinstance(self.gamma, str):
            if self.gamma != "scale":
                raise InvalidInput(f"must be a number or 'scale', not {self.gamma!r}", field="gamma")
            variance = _variance(X, weights)
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        else:
            gamma = validation.positive(self.gamma, "gamma")
        kernel = Kernel(name, gamma, self.degree, self.coef0)  # type: ignore[arg-type]
        return Window(kernel, intercept=self.fit_intercept, cache_bytes=int(self.cache_mb * 2**20))

    def _forget(self) -> None:
        for name in ("_window", "classes_", "gamma_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)

    # -- answers -------------------------------------------------------------------------------------------------------

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return f(x) for ``X`` (m, d), as (m,); positive for ``classes_[1]``."""
        check_is_fitted(self, "_window")
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.predictor().decision_function(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row of ``X`` (m, d)."""
        positive = self.decision_function(X) > 0
        return self.classes_[np.where(positive, self.classes_.size - 1, 0)]

    def predictor(self) -> Predictor:
        """Return the model as it is now, frozen: safe to share between threads."""
        check_is_fitted(self, "_window")
        return self._window.predictor()

    def certificate(self) -> Certificate:
        """Return how far the model is from the optimum of its window, recomputed from the data."""
        check_is_fitted(self, "_window")
        return self._window.certificate()

    # -- the window ----------------------------------------------------------------------------------------------------

    @property
    def keys_(self) -> list[Key]:
        return list(self._window.keys)

    @property
    def n_window_(self) -> int:
        return len(self._window.keys)

    @property
    def window_X(self) -> Floats:
        """Features of the window, (n, d), oldest first."""
        return self._window.X

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window, (n,), oldest first."""
        return self.classes_[np.where(self._window.y > 0, self.classes_.size - 1, 0)]

    @property
    def window_sample_weight(self) -> Floats:
        """Weights of the window's examples, (n,), oldest first."""
        return self._window.weights

    @property
    def support_(self) -> NDArray[np.int32]:
        return np.flatnonzero(self._window.beta).astype(np.int32)

    @property
    def support_vectors_(self) -> Floats:
        return self.window_X[self.support_]

    @property
    def dual_coef_(self) -> Floats:
        return self._window.beta[self.support_][None, :]

    @property
    def intercept_(self) -> Floats:
        return np.array([self._window.state.b])

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return everything a checkpoint needs: arrays, numbers, and the keys as a list."""
        check_is_fitted(self, "_window")
        return {**self._window.to_arrays(), "classes": self.classes_}

    @classmethod
    def from_arrays(cls, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` was taken from; ``params`` are those of ``get_params``.

        Raises
        ------
        NotOptimal : the arrays do not describe a model that can be brought to its optimum
        """
        model = cls(**params)
        model.classes_ = np.asarray(arrays["classes"])
        kernel = model._new_window(np.zeros((1, 1)), np.ones(1)).state.kernel
        kernel = Kernel(kernel.name, float(arrays["gamma"]), kernel.degree, kernel.coef0)
        window = Window(kernel, intercept=model.fit_intercept, cache_bytes=int(model.cache_mb * 2**20))
        y, weights = np.asarray(arrays["y"], np.float64), np.asarray(arrays["sample_weight"], np.float64)
        window.restore(arrays, hinge(y, model._costs(y, weights)))
        model._window = window
        model.n_features_in_ = window.width
        model.gamma_ = kernel.gamma
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _variance(X: Floats, weights: Floats) -> float:
    """Return the variance of all entries of ``X``, rows weighted."""
    total = weights.sum() * X.shape[1]
    if total <= 0:
        return float(X.var())
    mean = (weights @ X).sum() / total
    return float((weights @ (X - mean) ** 2).sum() / total)
