"""Several classes judged pair by pair, by the oracle, from the data alone."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from livesvm.solvers import IncrementalSVC
from tests.oracle import Gap, Kernel, gap, hinge


def gaps(model: IncrementalSVC) -> dict[tuple[Any, Any], Gap]:
    """Return the gap of every pair of classes, recomputed from the window and from what the model shows of itself."""
    X, y, weight = model.window_X, model.window_y, model.window_sample_weight
    kernel = Kernel(model.kernel, model.gamma_, model.degree, model.coef0)
    labels, beta = model.classes_, coefficients(model)
    found = {}
    for q, (a, b) in enumerate(combinations(range(labels.size), 2)):
        indices = np.flatnonzero((y == labels[a]) | (y == labels[b]))
        if np.unique(y[indices]).size == 0:
            continue
        costs = weight[indices] * class_weights(model, y)[indices]
        positive = labels[a] if labels.size > 2 else labels[b]  # two classes have the sign of ``classes_[1]``
        losses = hinge(np.where(y[indices] == positive, 1.0, -1.0), model.C, costs, fit_intercept=model.fit_intercept)
        K = kernel(X[indices], X[indices])
        found[labels[a], labels[b]] = gap(K, losses, beta[q][indices], float(model.intercept_[q]))
    return found


def coefficients(model: IncrementalSVC) -> np.ndarray:
    """Return beta (n_pairs, n) of the window from ``dual_coef_`` as libsvm lays it."""
    support, dual, y = model.support_, model.dual_coef_, model.window_y
    labels = model.classes_
    out = np.zeros((labels.size * (labels.size - 1) // 2, y.size))
    for q, (a, b) in enumerate(combinations(range(labels.size), 2)):
        first, second = y[support] == labels[a], y[support] == labels[b]
        out[q, support[first]] = dual[b - 1, first]
        out[q, support[second]] = dual[a, second]
    return out


def class_weights(model: IncrementalSVC, y: np.ndarray) -> np.ndarray:
    """Return the weight of each example's class."""
    if model.class_weight is None:
        return np.ones(y.size)
    labels, counts = np.unique(y, return_counts=True)
    if isinstance(model.class_weight, str):
        table = dict(zip(labels.tolist(), (y.size / (labels.size * counts)).tolist(), strict=True))
    else:
        table = dict(model.class_weight)
    return np.array([table.get(label, 1.0) for label in y.tolist()])
