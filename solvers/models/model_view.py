"""A trained model as analyses use it: the model's internals, and the errors of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.pairs_predictor import Two, winners
from livesvm.solvers.models.predictor import Gate, rows_of
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.snapshot import compact_copy
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.robust.ramp_losses import CutoffRule
from livesvm.solvers.robust.settings import Robustness, Terms
from livesvm.solvers.runtime.types import Floats, Ints


def restored(
    kind: type[LiveEstimator], names: Any, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> LiveEstimator:
    """Return the model of ``from_arrays`` with the names of its features, which the arrays do not contain."""
    model = kind.from_arrays(parameters, arrays)
    if names is not None:
        vars(model)["feature_names_in_"] = names
    return model


class View:
    """The internals of a trained model, for analyses.

    Raises
    ------
    NotFitted : it has not
    """

    def __init__(self, model: LiveEstimator, of: View | None = None) -> None:
        model._check_fitted()
        self.model = model
        #: names of the features, and the check of them; a private copy takes both from the view it is a copy ``of``
        self.names: Any = getattr(model, "feature_names_in_", None) if of is None else of.names
        self._gate: Gate | None = model._gate() if of is None else of._gate

    def rows(self, X: Any) -> Any:
        """Return incoming rows (m, d), checked like rows to predict, or a list of objects."""
        return rows_of(replace(self.model.predictor(), gate=self._gate), X)

    @property
    def window(self) -> Window:
        """The window of the model."""
        return self.model._window

    @property
    def state(self) -> PathState:
        """The path state of the window."""
        return self.model._window.state

    @property
    def robustness(self) -> Robustness | None:
        """The robust losses of the model; None if its losses are convex."""
        return self.model.robust_

    @property
    def prices(self) -> tuple[float, float] | None:
        """The costs of a decision one unit too low and one unit too high; None if the error counts wrong decisions."""
        return self.model._prices

    @property
    def shares_costs(self) -> bool:
        """Whether the losses of all examples depend on the whole window."""
        return self.model._shares_costs

    @property
    def kinds(self) -> Ints:
        """The group of each example, (n,), oldest first; the losses after a removal depend only on the group."""
        return self.model._kinds(self.window)

    def weigh_without(self, place: int) -> int:
        """Set the losses of a private copy as if one example were removed, but keep it; return the number of events."""
        return self.model._weigh_without(list(self.window.keys)[place])

    def decisions(self, places: Ints) -> Floats:
        """Return the present decisions for examples of the window, (m,), or with several classes (m, pairs)."""
        return np.asarray(self.window.predictor().decision_function(self.window.X[places]))

    @property
    def pairs(self) -> list[Two]:
        """The pairs of class numbers if there are more than two classes; else an empty list."""
        return list(self.model._window.pairs)

    def of_pair(self, two: Two, arrays: Mapping[str, Any] | None = None, *, alone: bool = False) -> LiveEstimator:
        """Return a private model of one pair with the whole window, in which examples of other classes have no weight.

        With ``alone`` the model has only the examples of the two classes, with their labels as targets. The kernel rows
        of the models of all pairs may take as much memory as those of this model. ``arrays`` is the result of
        ``to_arrays``, if the caller has it: making it takes as long as making all pairs.
        """
        arrays = self.model.to_arrays() if arrays is None else arrays
        return cast("LiveEstimator", cast(Any, self.model)._of_pair(two, arrays, alone=alone))

    @property
    def labels(self) -> list[Any]:
        """The labels of the classes, by class number; empty for a model without classes."""
        return list(np.asarray(getattr(self.model, "classes_", ())).tolist())

    @property
    def both_there(self) -> list[Two]:
        """The pairs of classes in which each class has examples."""
        there = set(places_of(self, self.window.y).tolist())
        return [two for two in self.window.problems if there.issuperset(two)]

    @property
    def class_weights(self) -> dict[Any, float]:
        """The present weight of each class, by label."""
        targets = np.arange(len(self.labels)) if self.pairs else np.array([-1.0, 1.0])[: len(self.labels)]
        return dict(zip(self.labels, cast(Any, self.model)._class_weights(targets).tolist(), strict=True))

    def copy(self, **parameters: Any) -> View:
        """Return a private copy of the model with the given ``parameters``, which must not change its losses."""
        model, window = self.model, self.model._learnt
        own, arrays = model._decided() | parameters, model.to_warm_arrays()
        scale = model.feature_scale_
        if scale is not None and scale.columns is not None:
            arrays["encoding"] = getattr(scale, "scale", scale)  # never changed, so it need not be taken apart
            arrays["encoded"] = window.X  # to encode a window takes as long as to copy everything else
        copied = type(model).from_arrays(own, arrays)
        is_copied = not window.pairs and type(window.kernel) is Kernel and window.kernel.gram is None
        if is_copied and window.state.is_prepared:
            copied._window.stand_on(compact_copy(window.state, window.slots))  # kernel rows are not computed again
        copied.keeps_record = False
        return View(copied, self)

    def scaled(self, rows: Any) -> Any:
        """Return features (m, d) as the window stores them; a list of objects is returned unchanged."""
        return rows if isinstance(rows, list) else self.model._scaled(rows)

    def value_of(self, parameter: str) -> float:
        """Return the value of a parameter of the losses; if it is "auto", the value that was chosen."""
        value: float = getattr(self.model, f"{parameter}_", None) or getattr(self.model, parameter)
        return value

    def losses_at(self, parameter: str, value: float) -> Losses:
        """Set a parameter of a private copy to a value, and return the losses of all examples, oldest first."""
        setattr(self.model, parameter, value)
        return self.model._losses(self.window.y, self.window.weights)

    def total_of(self, weight: float) -> float:
        """Return the contribution of examples with this total weight to the sum of the coefficients."""
        return self.model._total_per_weight() * weight

    def targets(self, y: ArrayLike | None, m: int) -> Floats:
        """Return the targets (m,) that ``y`` stands for, and leave the model unchanged; raises InvalidInput."""
        return self.model._known_targets(y, m)

    def on_scale(self, targets: Floats) -> Floats:
        """Return targets (m,) of the window in the units of decisions."""
        return self.model._on_scale(targets)

    def error(self, decisions: Floats, targets: Floats) -> float:
        """Return the error of decisions (m,) for targets (m,), in the units of the task."""
        return self.model._error(decisions, targets)

    def cutoff_rule(self, s: float | None = None) -> CutoffRule:
        """Return the rule that places the cutoffs; raises InvalidInput if ``s`` is not allowed."""
        return self.model._cutoff_rule(s)

    def terms(self, robust: Robustness) -> Terms:
        """Return the functions that compute robust losses."""
        return self.model._terms(robust)


def strangeness(decisions: Floats, label: int, n_classes: int) -> Floats:
    """Return by how much the class ``label`` loses its worst pair, given decisions (...,) or (..., n_pairs)."""
    if n_classes == 2:
        return -decisions if label == 1 else decisions
    sides = [
        (place, 1.0 if label == b else -1.0)
        for place, (a, b) in enumerate(combinations(range(n_classes), 2))
        if label in (a, b)
    ]
    return np.asarray(np.max(np.stack([side * decisions[..., place] for place, side in sides], axis=-1), axis=-1))


def scores_of(view: View, decisions: Floats, targets: Floats) -> Floats:
    """Return how strange targets (m,) of a window are, given decisions (m,) or (m, n_pairs).

    For regression the score is the size of the residual; for classes, it is how far the class is from being predicted.
    """
    if view.prices is not None:
        return np.asarray(np.abs(view.on_scale(targets) - decisions))
    places, n_classes = places_of(view, targets), max(2, len(view.labels))
    scores = np.empty(len(targets))
    for label in np.unique(places):
        those = places == label
        scores[those] = strangeness(decisions[those], int(label), n_classes)
    return scores


def places_of(view: View, targets: Floats) -> Floats:
    """Return the class numbers (m,) that the targets of a window stand for."""
    return np.asarray(targets if view.pairs else targets > 0, np.int64)


def losses_of(view: View, decisions: Floats, targets: Floats) -> Floats:
    """Return the cost of each decision, (m,): 1 for a wrong class; for regression the decision's share of the error."""
    if view.prices is not None:
        (too_low, too_high), targets = view.prices, view.on_scale(targets)
        return np.asarray(np.maximum(too_low * (targets - decisions), too_high * (decisions - targets)))
    if view.pairs:
        return np.asarray(winners(decisions, len(view.labels)) != targets, np.float64)
    return np.asarray((decisions > 0) != (targets > 0), np.float64)
