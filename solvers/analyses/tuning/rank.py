"""Choice of the number of landmarks of a kernel: none if exact updates are cheap, else by held-out errors.

The time of an exact update grows with the square of the number of free examples, so landmarks pay off where many
examples are free. The number of free examples grows as a power of the size of the window, and the power is small where
the data have little noise. So the number of free examples in a large window is estimated from two smaller windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from livesvm.solvers.analyses.tuning.folds import Split, splits
from livesvm.solvers.analyses.tuning.relevance import spread_evenly
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats

CHEAPEST_FIRST = (100, 300, 600, None)  #: numbers of landmarks; None: the whole kernel
MOST_FREE = 5000  #: examples on the margin beyond which updates with the whole kernel would take seconds
FEW_FREE = 1000  #: examples on the margin at which an update with 300 landmarks takes less time than an exact one
SMALLER = (1000, 2000)  #: examples of the windows from which the number of free examples follows
MOST = 3000  #: examples of the folds
FOLDS = 3


def choose_rank(model: Any, given: dict[str, Any], X: Floats, y: Any, weights: Floats) -> int | None:
    """Return how many landmarks suit a model's window; None stands for the whole kernel.

    If many examples are on the margin, the cheapest kernel is chosen, among those with a held-out error of at most one
    standard error above the least. The whole kernel is not tried if too many examples would be free.

    Parameters
    ----------
    model : fitted live classifier or regressor
    given : the parameters that it is to have
    X, y, weights : (m, d), (m,), (m,) examples spread over its window, oldest first, with features for its kernel
    """
    n_free = _free_of(model, given, X, y, weights)
    if n_free <= FEW_FREE:
        return None
    tried = CHEAPEST_FIRST if n_free <= MOST_FREE else CHEAPEST_FIRST[:-1]
    parts = splits(y, "k_fold", FOLDS, classes=model._prices is None)
    kernels = {components: model._like(**given, components=components) for components in tried}
    errors = {components: _errors(one, X, y, weights, parts) for components, one in kernels.items()}
    best = min(errors.values(), key=np.mean)
    most = best.mean() + best.std() / math.sqrt(best.size)
    return next(components for components, wrong in errors.items() if wrong.mean() <= most)


def _errors(model: Any, X: Floats, y: Any, weights: Floats, parts: list[Split]) -> Floats:
    """Return the errors (m,) of held-out examples, fold after fold, each in the unit of the model's error."""
    found = []
    for learnt, judging in parts:
        check()
        said, truth = model.fit(X[learnt], y[learnt], sample_weight=weights[learnt]).predict(X[judging]), y[judging]
        found.append(1.0 * (said != truth) if model._prices is None else model.errors_of(said, truth))
    return np.concatenate(found)


def _free_of(model: Any, given: dict[str, Any], X: Floats, y: Any, weights: Floats) -> float:
    """Estimate how many examples of a model's window would be free with the whole kernel.

    With more than two classes, the result is the size of one free block; an update of it takes as long as an update of
    the free blocks of all pairs.
    """
    counts = []
    for size in SMALLER:
        check()
        some = spread_evenly(len(X), size)
        window = model._like(**given, components=None).fit(X[some], y[some], sample_weight=weights[some])._window
        counts.append((some.size, max(1.0, math.hypot(*(one.n_free for one in window.problems.values())))))
    (a, fewer), (b, more) = counts
    power = min(max(math.log(more / fewer) / math.log(b / a), 0.0), 1.0)
    return float(more * (model.n_window_ / b) ** power)
