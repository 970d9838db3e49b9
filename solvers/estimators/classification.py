"""The live classifier: what its labels mean, and which losses it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.class_labels import column_of, labels_with, targets_of, two_labels
from livesvm.solvers.estimators.paths import WithPaths
from livesvm.solvers.models.base import keep
from livesvm.solvers.models.window_edits import Edited
from livesvm.solvers.problem.piecewise_linear import Losses, hinge
from livesvm.solvers.robust.ramp_losses import LABELS, CutoffRule
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import Key


class LiveSVC(WithPaths):
    """A support vector classifier that stays exactly optimal while examples come and go.

    It minimizes ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i f(x_i))`` over its window; an update moves many
    examples in and out along one multi-parametric path [Karasuyama & Takeuchi].

    Parameters are those of ``IncrementalSVC``, which it is for two classes.
    """

    class_weight: Mapping[Any, float] | str | None
    classes: Any
    _loss_parameters = ("C", "class_weight")
    balance_: dict[float, float]  #: with "balanced" classes, the weight of each target's

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        fit_intercept: bool = True,
        classes: tuple[Any, Any] | None = None,
        cache_mb: float = 512,
        scale: str = "none",
    ) -> None:
        keep(self, locals())

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return f(x) for ``X`` (m, d), as (m,); positive for ``classes_[1]``."""
        return self._decision(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row of ``X`` (m, d)."""
        return self._labels(self.decision_function(X))

    def _path_over_C(self, C_min: float, C_max: float, progress: Progress | None) -> Any:
        if np.unique(self._window.y).size == 1:
            raise InvalidInput("all examples have one class; a path needs both", field="window")
        return super()._path_over_C(C_min, C_max, progress)

    @property
    def window_y(self) -> NDArray[Any]:
        """Labels of the window, (n,), oldest first."""
        return self._labels(self._window.y)

    def _labels(self, f: Floats) -> NDArray[Any]:
        return self.classes_[np.where(f > 0, self.classes_.size - 1, 0)]

    def _targets(self, y: ArrayLike | None, m: int, field: str = "y") -> Floats:
        labels = column_of(y, m, field)
        known = self._known_classes(labels, field)
        targets = targets_of(labels, known, (-1.0, 1.0)[-known.size :], field)
        self._set_classes(known)
        return targets

    def _known_classes(self, labels: NDArray[Any], field: str) -> NDArray[Any]:
        """Return the classes known after seeing ``labels``."""
        if self.classes is not None:
            return two_labels(self.classes)
        known: NDArray[Any] = getattr(self, "classes_", labels[:0])
        if known.size == 2:
            return known
        known = labels_with(known, labels, field)
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

    def _standing(self) -> Any:
        known = vars(self)
        return known.get("_window"), known.get("classes_"), known.get("balance_")

    def _take_back(self, before: Any) -> None:
        _, classes, balance = before
        if classes is not None and balance is not None:
            self.balance_ = balance
        after = vars(self).get("classes_")
        if classes is not None and after is not None and after is not classes:
            self.classes_ = classes
            if self._mirrors(after):
                self._window.flip_signs()

    def _error(self, decisions: Floats, targets: Floats) -> float:
        return float(np.mean(np.where(decisions > 0, 1.0, -1.0) != targets))

    def _losses(self, targets: Floats, weights: Floats, C: float | None = None) -> Losses:
        costs = validation.cost(self.C if C is None else C) * weights
        return hinge(targets, costs if self.class_weight is None else costs * self._class_weights(targets))

    @property
    def _shares_costs(self) -> bool:  # type: ignore[override]
        return self._is_balanced

    @property
    def _is_balanced(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == "balanced"

    def _weigh(self, window: Any, leaving: list[Key], new: tuple[Floats, Floats], changed: Edited) -> bool:
        if not self._is_balanced:
            return False
        stay, _ = window.examples_except([*leaving, *changed.keys])
        return self._balance(np.concatenate([stay, new[0], changed.y]))

    def _kinds(self, window: Any) -> Ints:
        return np.asarray(window.y, np.int64)

    def _balance(self, targets: Floats) -> bool:
        """Take note of the weights that balance these targets; say whether they are other ones than before."""
        values, counts = np.unique(targets, return_counts=True)
        weights = targets.size / (values.size * counts) if values.size else counts
        before = vars(self).get("balance_")
        self.balance_ = dict(zip(values.tolist(), weights.tolist(), strict=True))
        return bool(self.balance_) and before != self.balance_

    def _unit_cost(self, C: float | None) -> float:
        weights = self.class_weight
        if self._is_balanced:
            return super()._unit_cost(C) * max(vars(self).get("balance_", {}).values(), default=1.0)
        if not isinstance(weights, Mapping):
            return super()._unit_cost(C)
        return super()._unit_cost(C) * max([_weight_of(label, weights) for label in weights], default=1.0)

    def _cutoff_rule(self, s: float | None = None) -> CutoffRule:
        if s is not None and s > 0:
            raise InvalidInput(f"a margin beyond which labels are wrong is not positive, but s is {s:g}", field="s")
        return LABELS

    def _class_weights(self, targets: Floats) -> Floats:
        """Return the weight of each target's class."""
        if self._is_balanced:
            return np.array([self.balance_.get(target, 1.0) for target in targets.tolist()])
        weights = self._weights_by_class()
        return np.asarray(np.where(targets > 0, weights[-1], weights[0]), np.float64)

    def _weights_by_class(self) -> Floats:
        """Return the weight of each class by name, (n_classes,); raises InvalidInput."""
        if not isinstance(self.class_weight, Mapping):
            raise InvalidInput("must be a mapping from label to weight, or 'balanced'", field="class_weight")
        labels = self.classes_.tolist()
        unknown = [label for label in self.class_weight if label not in labels]
        if len(labels) > 1 and unknown:
            raise InvalidInput(f"names {unknown[0]!r}, which is none of the labels {labels}", field="class_weight")
        return np.array([_weight_of(label, self.class_weight) for label in labels])

    def to_arrays(self) -> dict[str, Any]:
        return {**super().to_arrays(), "classes": self.classes_}

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        self.classes_ = np.asarray(arrays["classes"])
        if self._is_balanced:
            self._balance(np.asarray(arrays["y"], np.float64))
        super()._restore(arrays)


def _weight_of(label: Any, weights: Mapping[Any, float]) -> float:
    """Return the weight of a class; raises InvalidInput."""
    weight = validation.number_or_none(weights.get(label, 1.0))
    if weight is None or not 0 <= weight <= validation.LARGEST:
        reason = f"the weight of {label!r} must be a number from 0 to {validation.LARGEST:g}"
        raise InvalidInput(reason, field="class_weight")
    return weight
