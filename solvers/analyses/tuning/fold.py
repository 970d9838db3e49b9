"""Wrong labels of examples that judge, for one value of C after the other, pair of classes by pair."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.analyses.tuning.splits import Split
from livesvm.solvers.analyses.tuning.stepwise import FoldWorkspace
from livesvm.solvers.models.pairs_predictor import winners
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows


class Fold(NamedTuple):
    """A part of the window that is learnt, and the held-out examples, on the scale of that part."""

    learnt: Floats  #: (n, d) features
    judging: Floats  #: (m, d) features
    y: Ints  #: (n,) places of the classes of those learnt, ascending
    truth: Ints  #: (m,) of examples that judge; -1 where no example learnt belongs to that class
    costs: Floats  #: (n,) of an error at C = 1
    n_classes: int  #: of those learnt

    def wrong(self, kernel: Any, C: Floats, workspace: FoldWorkspace, *, intercept: bool) -> Bools | None:
        """Return which of the judging examples are labelled wrongly, (p, m), at each C (p,); None: not to be had."""
        n, m = self.y.size, self.truth.size
        K = kernel.matrix(self.learnt, np.concatenate([self.learnt, self.judging]).T)
        edges = np.searchsorted(self.y, np.arange(self.n_classes + 1))
        found = []
        for two in combinations(range(self.n_classes), 2):
            check()
            first, second = (slice(edges[place], edges[place + 1]) for place in two)
            mine = K
            if self.n_classes > 2:
                rows = np.concatenate([K[first], K[second]])
                mine = np.concatenate([rows[:, first], rows[:, second], rows[:, n:]], axis=1)
            signs = np.where(np.arange(len(mine)) < first.stop - first.start, -1.0, 1.0)
            costs = np.concatenate([self.costs[first], self.costs[second]])
            found.append(workspace.decisions(mine, signs, costs, C, intercept=intercept))
            if np.isnan(found[-1][-1]).any():
                return None
        if self.n_classes == 2:
            return np.asarray((found[0] > 0) != self.truth)
        votes = winners(-np.stack(found, axis=-1).reshape(C.size * m, -1), self.n_classes)
        return np.asarray(votes.reshape(C.size, m) != self.truth)


def folds_of(model: Any, X: Features, y: Any, weights: Floats, parts: list[Split]) -> list[Fold]:
    """Return the folds of a classifier with small convex problems, one for each pair; else none.

    Parameters
    ----------
    X, y, weights : (n, d), (n,), (n,) the window
    """
    largest = max(learnt.size for learnt, _ in parts)
    if (
        callable(model.kernel)
        or not model._kernel(1.0).always_positive
        or isinstance(X, SparseRows)
        or model.robust_ is not None
        or 3 * 8 * largest * y.size > model._cache_bytes()
    ):
        return []
    return [_fold(model, X, y, weights, part) for part in parts]


def _fold(model: Any, X: Floats, y: Any, weights: Floats, part: Split) -> Fold:
    learnt, judging = part
    rows, others = X[learnt], X[judging]
    scale = model._fitted_scale(rows, weights[learnt])
    if scale is not None:
        rows, others = scale.apply(rows), scale.apply(others)
    center = model._center_of(rows)
    if center is not None:
        rows, others = rows - center, others - center
    classes = [label for label in model.classes_.tolist() if (y[learnt] == label).any()]
    place = {label: i for i, label in enumerate(classes)}
    costs = weights[learnt]
    if model.class_weight is not None:
        by_class = dict(zip(model.classes_.tolist(), model._weights_by_class().tolist(), strict=True))
        costs = costs * np.array([by_class[label] for label in y[learnt].tolist()])
    known = np.array([place[label] for label in y[learnt].tolist()], np.int64)
    truth = np.array([place.get(label, -1) for label in y[judging].tolist()], np.int64)
    order = np.argsort(known, kind="stable")
    return Fold(rows[order], others, known[order], truth, costs[order], len(classes))
