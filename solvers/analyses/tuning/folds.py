"""Folds: training and held-out examples, and the wrong labels of held-out examples at several values of C."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.assessment import dealt
from livesvm.solvers.analyses.tuning.stepwise import FoldWorkspace
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import nystroem
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.pairs_predictor import winners
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows

Split = tuple[Ints, Ints]
Judge = Literal["k_fold", "rolling_origin", "leave_one_out"]


def splits(y: NDArray[Any], judge: Judge, folds: int, *, classes: bool) -> list[Split]:
    """Return, for each fold, the positions of the training examples and of the held-out examples, oldest first.

    Parameters
    ----------
    y : (n,) targets, oldest first
    judge : "k_fold": every class is dealt out to the folds in turn, in their order; "rolling_origin": of ``folds + 1``
        stretches of time each but the first judges a model of all before it
    classes : whether targets are labels

    Raises
    ------
    InvalidInput : there is no such judge, or there are too few examples for so many folds
    """
    if judge not in get_args(Judge):
        raise InvalidInput(f"must be one of {', '.join(get_args(Judge))}, not {judge!r}", field="judge")
    number = validation.number_or_none(folds)
    n = y.size
    if number is None or number != int(number) or not 2 <= number <= max(n // 2, 1):
        raise InvalidInput(f"must be a whole number from 2 to half of the {n} examples, not {folds!r}", field="folds")
    k, every_example = int(number), np.arange(n)
    if judge == "rolling_origin":
        edges = np.arange(1, k + 2) * n // (k + 1)
        out = [(every_example[:start], every_example[start:end]) for start, end in pairwise(edges.tolist())]
    else:
        fold = dealt(y, k) if classes else every_example % k
        out = [(every_example[fold != one], every_example[fold == one]) for one in range(k)]
    for learnt, judging in out:
        if judging.size == 0 or (classes and np.unique(y[learnt]).size < 2):
            raise InvalidInput(
                "a fold leaves one class only, or holds out no example; choose fewer folds", field="folds"
            )
    return out


class Fold(NamedTuple):
    """The training examples and the held-out examples of a fold, scaled by the scale of the training examples."""

    learnt: Floats  #: (n, d) features
    judging: Floats  #: (m, d) features
    y: Ints  #: (n,) places of the classes of those learnt, ascending
    truth: Ints  #: (m,) of examples that judge; -1 where no example learnt belongs to that class
    costs: Floats  #: (n,) of an error at C = 1
    n_classes: int  #: of those learnt
    mapped: tuple[Floats, int] | None  #: what a map is fitted to, (n, d) in order of time, and how many landmarks

    def wrong(self, kernel: Any, C: Floats, workspace: FoldWorkspace, *, intercept: bool) -> Bools | None:
        """Return a mask (p, m) of the wrongly labelled held-out examples for each C (p,), or None if a path fails."""
        n, m = self.y.size, self.truth.size
        rows, every_row = self.learnt, np.concatenate([self.learnt, self.judging])
        if self.mapped is not None:
            found = nystroem.fitted(kernel, None, *self.mapped)
            rows, every_row, kernel = found.apply(rows), found.apply(every_row), Kernel("linear")
        K = kernel.matrix(rows, every_row.T)
        edges = np.searchsorted(self.y, np.arange(self.n_classes + 1))
        decided = []
        for two in combinations(range(self.n_classes), 2):
            check()
            first, second = (slice(edges[place], edges[place + 1]) for place in two)
            mine = K
            if self.n_classes > 2:
                rows = np.concatenate([K[first], K[second]])
                mine = np.concatenate([rows[:, first], rows[:, second], rows[:, n:]], axis=1)
            signs = np.where(np.arange(len(mine)) < first.stop - first.start, -1.0, 1.0)
            costs = np.concatenate([self.costs[first], self.costs[second]])
            decided.append(workspace.decisions(mine, signs, costs, C, intercept=intercept))
            if np.isnan(decided[-1][-1]).any():
                return None
        if self.n_classes == 2:
            return np.asarray((decided[0] > 0) != self.truth)
        votes = winners(-np.stack(decided, axis=-1).reshape(C.size * m, -1), self.n_classes)
        return np.asarray(votes.reshape(C.size, m) != self.truth)


def folds_of(model: Any, X: Features, y: Any, weights: Floats, parts: list[Split]) -> list[Fold]:
    """Return the folds of a classifier if its pairs of classes are small convex problems, and otherwise no folds.

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
    scale = model._scale_alone(rows, weights[learnt])
    if scale is not None:
        rows, others = scale.apply(rows), scale.apply(others)
    mapped = None if model.components_ is None else (rows, model.components_)
    center = model._center_of(rows) if mapped is None else None
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
    return Fold(rows[order], others, known[order], truth, costs[order], len(classes), mapped)
