"""How far the target of an example is from what a model decides, and what that costs."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.pairs_predictor import winners
from livesvm.solvers.runtime.types import Floats


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
