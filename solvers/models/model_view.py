"""A model as analyses see it: what they need of it and its users do not, and how wrong its decisions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.pairs_predictor import Two, winners
from livesvm.solvers.models.predictor import Gate, rows_of
from livesvm.solvers.models.window import Window
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.robust.ramp_losses import CutoffRule
from livesvm.solvers.robust.settings import Robustness, Terms
from livesvm.solvers.runtime.types import Floats, Ints


def restored(
    kind: type[LiveEstimator], names: Any, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> LiveEstimator:
    """Return the model of ``from_arrays``, with these names of features, of which arrays know nothing."""
    model = kind.from_arrays(parameters, arrays)
    if names is not None:
        vars(model)["feature_names_in_"] = names
    return model


class View:
    """A model that has learnt.

    Raises
    ------
    NotFitted : it has not
    """

    def __init__(self, model: LiveEstimator, of: View | None = None) -> None:
        model._check_fitted()
        self.model = model
        #: the names of its features, and what compares them; a private copy ``of`` a model has none itself
        self.names: Any = getattr(model, "feature_names_in_", None) if of is None else of.names
        self._gate: Gate | None = model._gate() if of is None else of._gate

    def rows(self, X: Any) -> Any:
        """Return rows that come in, (m, d), checked as those to predict are; or a list of objects."""
        return rows_of(replace(self.model.predictor(), gate=self._gate), X)

    @property
    def window(self) -> Window:
        """Its examples, by key."""
        return self.model._window

    @property
    def state(self) -> PathState:
        """Where they stand, by slot."""
        return self.model._window.state

    @property
    def robustness(self) -> Robustness | None:
        """What makes it robust; None: its losses are convex."""
        return self.model.robust_

    @property
    def prices(self) -> tuple[float, float] | None:
        """What a unit counts by which f is too low, or too high; None: errors are counted."""
        return self.model._prices

    @property
    def shares_costs(self) -> bool:
        """Whether the losses of all examples depend on the whole window."""
        return self.model._shares_costs

    @property
    def kinds(self) -> Ints:
        """Numbers (n,), oldest first: examples of one number leave the same losses to all others."""
        return self.model._kinds(self.window)

    def weigh_without(self, place: int) -> int:
        """Bring a private copy to the losses that all have without one example, which stays; return the events."""
        return self.model._weigh_without(list(self.window.keys)[place])

    def decisions(self, places: Ints) -> Floats:
        """Return the decisions of examples of the window by the model as it is, (m,); of several classes (m, pairs)."""
        return np.asarray(self.window.predictor().decision_function(self.window.X[places]))

    @property
    def pairs(self) -> list[Two]:
        """The pairs of its classes where these are more than two, by place; else no example."""
        return list(getattr(self.model._window, "pairs", ()))

    def of_pair(self, two: Two, *, alone: bool = False) -> LiveEstimator:
        """Return a private model of one pair that has the whole window, those of other classes with no weight.

        Or it has the examples of its classes ``alone``, under their labels. Kernel rows of all such models together may
        take as much memory as those of this one.
        """
        return cast("LiveEstimator", cast(Any, self.model)._of_pair(two, alone=alone))

    @property
    def labels(self) -> list[Any]:
        """The labels of its classes, by place; of a model without classes nothing."""
        return list(np.asarray(getattr(self.model, "classes_", ())).tolist())

    @property
    def both_there(self) -> list[Two]:
        """The pairs of its classes of which both have examples."""
        there = set(self.window.y.tolist())
        return [two for two in self.pairs if there.issuperset(two)]

    @property
    def class_weights(self) -> dict[Any, float]:
        """The weight of each class now, by label."""
        targets = np.arange(len(self.labels)) if self.pairs else np.array([-1.0, 1.0])[: len(self.labels)]
        return dict(zip(self.labels, cast(Any, self.model)._class_weights(targets).tolist(), strict=True))

    def copy(self, **parameters: Any) -> View:
        """Return a private copy, all of it, but for ``parameters`` that leave its losses as they are."""
        model = self.model
        own = model._decided() | parameters
        return View(type(model).from_arrays(own, model.to_arrays()), self)

    def scaled(self, rows: Any) -> Any:
        """Return features (m, d) as its window has them; a list of objects as it is."""
        return rows if isinstance(rows, list) else self.model._scaled(rows)

    def value_of(self, parameter: str) -> float:
        """Return the value of a parameter of the losses; where it is "auto", the one that was chosen."""
        value: float = getattr(self.model, f"{parameter}_", None) or getattr(self.model, parameter)
        return value

    def losses_at(self, parameter: str, value: float) -> Losses:
        """Return the losses of its examples, oldest first, at a value of a parameter, which a private copy then has."""
        setattr(self.model, parameter, value)
        return self.model._losses(self.window.y, self.window.weights)

    def total_of(self, weight: float) -> float:
        """Return what examples of so much weight contribute to the sum of the coefficients."""
        return self.model._total_per_weight() * weight

    def targets(self, y: ArrayLike | None, m: int) -> Floats:
        """Return the targets that ``y`` means, (m,), of which the model learns nothing; raises InvalidInput."""
        return self.model._known_targets(y, m)

    def error(self, decisions: Floats, targets: Floats) -> float:
        """Return the error of decisions (m,) for targets (m,), in the units of the task."""
        return self.model._error(decisions, targets)

    def cutoff_rule(self, s: float | None = None) -> CutoffRule:
        """Return where its cutoffs may be; raises InvalidInput where they may not be at ``s``."""
        return self.model._cutoff_rule(s)

    def terms(self, robust: Robustness) -> Terms:
        """Return how robust losses are computed."""
        return self.model._terms(robust)


def strangeness(decisions: Floats, label: int, n_classes: int) -> Floats:
    """Return by how much a class is behind the others at worst, of decisions (...,) or of pairs (..., n_pairs)."""
    if n_classes == 2:
        return -decisions if label == 1 else decisions
    sides = [
        (place, 1.0 if label == b else -1.0)
        for place, (a, b) in enumerate(combinations(range(n_classes), 2))
        if label in (a, b)
    ]
    return np.asarray(np.max(np.stack([side * decisions[..., place] for place, side in sides], axis=-1), axis=-1))


def scores_of(view: View, decisions: Floats, targets: Floats) -> Floats:
    """Return how strange targets (m,) of a window are for decisions (m,) or (m, n_pairs).

    Of regression that is the residual, abs(y - f); of classes how far the class is from being predicted.
    """
    if view.prices is not None:
        return np.asarray(np.abs(targets - decisions))
    places, n_classes = places_of(view, targets), max(2, len(view.labels))
    scores = np.empty(len(targets))
    for label in np.unique(places):
        those = places == label
        scores[those] = strangeness(decisions[those], int(label), n_classes)
    return scores


def places_of(view: View, targets: Floats) -> Floats:
    """Return the places of classes, (m,), that targets of a window mean."""
    return np.asarray(targets if view.pairs else targets > 0, np.int64)


def losses_of(view: View, decisions: Floats, targets: Floats) -> Floats:
    """Return what decisions cost, (m,): 1 where a class is wrong; of regression what a model's error is the mean of."""
    if view.prices is not None:
        too_low, too_high = view.prices
        return np.asarray(np.maximum(too_low * (targets - decisions), too_high * (decisions - targets)))
    if view.pairs:
        return np.asarray(winners(decisions, len(view.labels)) != targets, np.float64)
    return np.asarray((decisions > 0) != (targets > 0), np.float64)
