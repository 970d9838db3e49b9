"""Suspected labels: all examples of a window, ranked by how badly each label fits a model without the example."""

from __future__ import annotations

import time
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.analyses.leave_one_out.assessment import held_out_by_class, left_out
from livesvm.solvers.analyses.leave_one_out.held import OwnParts, held_margins
from livesvm.solvers.analyses.leave_one_out.models_without import checked
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, places_of
from livesvm.solvers.models.pairs_predictor import by_other_class
from livesvm.solvers.runtime import interrupt
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.html import table_of
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, columns_of
from livesvm.solvers.validation import Key

SMALL = 1500  #: examples up to which leave-one-out costs at most three times as much as folds
MOST_FREE = 0.2  #: share of free examples up to which this holds in larger windows
NEAREST = 3  #: examples of the better label that are listed with an example
STEPS = 100  #: of Newton's method at most, of which about eight are needed
EXPLAINED = 100  #: labels with which they are listed: so many, or all with a negative margin


NAMES = "key", "label", "better", "margin", "doubt", "why", "age"


@dataclass(frozen=True)
class SuspectedLabels:
    """The examples of a window, worst label first.

    Attributes
    ----------
    keys : tuple of str or int
        The window's keys; of equal margins the oldest first.
    labels : ndarray of shape (n,)
        The labels that they have.
    better : ndarray of shape (n,)
        Of the other labels the one that fits best.
    margin : ndarray of shape (n,)
        By how much the label that is given fits better than that one, in units of f, as models say that have not seen
        the example. Negative: another label fits better.
    doubt : ndarray of shape (n,)
        Probability that the label is the wrong one of the two, above 0.5 where the margin is negative.
    method : str
        "leave_one_out" or "k_fold": which models the margins are by.
    age : ndarray of shape (n,)
        How many rankings ago the path without the example was followed. 0: the margin is exact. Otherwise decisions
        are those of now, and what the example adds to its own decision is as old as that. -1: no path was followed, as
        the example has too little influence to be in doubt without it; its margin is at most the given one, and
        positive.
    seconds : float
        Wall time.
    """

    keys: tuple[Key, ...]
    labels: NDArray[Any]
    better: NDArray[Any]
    margin: Floats
    doubt: Floats
    method: Literal["leave_one_out", "k_fold"]
    age: Ints
    seconds: float
    _steepness: float = field(default=0.0, init=False, repr=False, compare=False)
    _parts: OwnParts | None = field(default=None, init=False, repr=False, compare=False)
    _near: Neighbours | None = field(default=None, init=False, repr=False, compare=False)

    @cached_property
    def why(self) -> tuple[tuple[Key, ...], ...]:
        """Keys of the three examples of the better label that are nearest by the kernel, the nearest first.

        Labels beyond the first 100 have no such examples if their margin is positive. The examples are found at the
        first use, in the window at the time of the ranking; ``head`` finds only those for its rows.
        """
        return self._why(len(self.keys))

    def _why(self, n: int) -> tuple[tuple[Key, ...], ...]:
        """Return the neighbours of the worst n examples."""
        if self._near is None or "why" in vars(self):
            return ((),) * n if self._near is None else self.why[:n]
        most = min(n, max(EXPLAINED, int((self.margin < 0.0).sum())))
        return *self._near.nearest(most), *((),) * (n - most)

    def without_window(self) -> SuspectedLabels:
        """Return what the next ranking needs to begin from this one.

        Returns
        -------
        SuspectedLabels
            The same ranking without the copy of the window's features, so that ``why`` is empty.
        """
        kept = copy(self)
        vars(kept)["_near"] = None
        return kept

    def head(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the worst labels as rows, from which a data frame can be made.

        Parameters
        ----------
        n : int, default 10
            How many.

        Returns
        -------
        list of dict
            Each with key, label, better, margin, doubt, why and age.
        """
        keys, arrays = self.keys[:n], (self.labels, self.better, self.margin, self.doubt, self.age)
        *columns, age = (one[:n].tolist() for one in arrays)
        rows = zip(keys, *columns, map(list, self._why(len(keys))), age, strict=True)
        return [dict(zip(NAMES, row, strict=True)) for row in rows]

    def _repr_html_(self) -> str:
        worst = self.head()
        return table_of("SuspectedLabels", [list(row.values()) for row in worst], NAMES)


def suspected_labels(
    model: LiveEstimator,
    *,
    before: SuspectedLabels | None = None,
    confirmed: Iterable[Key] = (),
    progress: Progress | None = None,
) -> SuspectedLabels:
    """Return all examples of a classifier's window, worst label first, by exact decisions of models without them.

    Leave-one-out ranks a little better than folds. Leave-one-out is used unless it may take more than about three times
    as long as folds, because many examples of a large window are free. Leave-one-out is not used if a pair of classes
    has no free example, because every leave-one-out label may then be wrong, see ``leave_one_out``. The folds are those
    of ``predict_proba``.

    A ranking that begins from an earlier one costs about as much as three updates. Such a ranking uses the present
    decisions of all examples. Paths are followed only to remove examples that are new or had no influence before. For
    each other example, the ranking keeps what the example adds to the decision on itself, see ``age``. An example with
    other features, label or weight is new.

    Parameters
    ----------
    model : live classifier
        Fitted; it is not changed.
    before : SuspectedLabels or None, default None
        An earlier ranking of this model, from which this one begins. It is not used by models with balanced class
        weights or robust losses, for kernels that are matrices or functions, or with another kernel or other classes.
    confirmed : iterable of str or int, default ()
        Keys of examples with labels that are known to be right. They are evidence, and are left out of the ranking. A
        key that is not in the window is ignored.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    SuspectedLabels
        Keys, labels, margins and doubts. A class with a single example is unknown without it, and so its label fits
        worse than any other.

    Raises
    ------
    InvalidInput
        The model is no live classifier, or its window has fewer than two classes.
    NotOptimal
        A path could not be followed.

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, suspected_labels
    >>> X = [[0.0], [0.1], [0.2], [0.3], [3.0], [3.1], [3.2], [3.3]]
    >>> model = IncrementalSVC(C=10.0, gamma=0.5).fit(X, ["a", "a", "b", "a", "b", "b", "b", "b"])
    >>> found = suspected_labels(model)
    >>> first = found.head(1)[0]
    >>> first["key"], first["label"], first["better"], first["margin"] < 0
    (2, 'b', 'a', True)
    """
    started = time.perf_counter()
    if not isinstance(cast(object, model), LiveEstimator) or not hasattr(model, "class_weight"):
        reason = f"must be a live classifier, not {type(model).__name__}; only a classifier has labels to suspect"
        raise InvalidInput(reason, field="model")
    if not isinstance(cast(object, before), SuspectedLabels | None):
        raise InvalidInput(f"must be a ranking of labels, not {type(before).__name__}", field="before")
    view = checked(model)
    places = places_of(view, view.window.y).astype(np.int64)
    counts = np.bincount(places, minlength=len(view.labels))
    if np.count_nonzero(counts) < 2:
        raise InvalidInput("has one class only; add examples of another before labels can be suspected", field="window")
    method: Literal["leave_one_out", "k_fold"] = "leave_one_out" if _is_worth_its_cost(view, before) else "k_fold"
    keys, old, parts = list(view.window.keys), None if before is None else before._parts, None
    ages = np.zeros(places.size, np.int64)
    with steadily(progress, places.size) as tell:
        if method == "leave_one_out" and not view.shares_costs:
            ahead, ages, parts = held_margins(view, places, keys, old, tell)
        elif method == "leave_one_out":
            ahead = margins_of(left_out(model, np.arange(places.size), tell), places, counts)
        else:
            ahead = margins_of(held_out_by_class(model, tell=tell), places, counts)
        margin, better = least(ahead, places)
        order, known = np.argsort(margin, kind="stable"), set(confirmed)
        order = order[[keys[i] not in known for i in order.tolist()]] if known else order
        tell(places.size, places.size)
    labels = np.asarray(cast(Any, model).classes_)
    steepness = _steepness(margin, view.window.weights, 0.0 if before is None else before._steepness)
    columns = view.window.store.columns(view.window.slots) if parts is None else parts.XT
    found = SuspectedLabels(
        tuple(map(keys.__getitem__, order.tolist())),
        labels[places[order]],
        labels[better[order]],
        margin[order],
        _doubts(margin, steepness)[order],
        method,
        ages[order],
        time.perf_counter() - started,
    )
    near = Neighbours(view.window.kernel, columns, keys, places, order, better)
    vars(found).update(_steepness=steepness, _parts=parts, _near=near)
    if parts is None:  # kernel values that were given may change, and those of a function take long
        found.why  # noqa: B018
    return found


def _is_worth_its_cost(view: View, before: SuspectedLabels | None) -> bool:
    """Say whether leave-one-out is reliable for this window, and takes at most about three times as long as folds.

    A ranking that begins from an earlier one is always worth its cost, because most of the cost arises only once.
    """
    n, free = view.model.n_window_, [view.window.problems[two].n_free for two in view.both_there]
    is_live = before is not None and not view.shares_costs and view.robustness is None
    return min(free) > 0 and (n <= SMALL or max(free) <= MOST_FREE * n or is_live)


def margins(decisions: Floats, places: Ints, counts: Ints) -> tuple[Floats, Ints]:
    """Return how far each example's class is ahead of the best other class with examples, (n,), and that other class.

    For the arguments see ``margins_of``.
    """
    return least(margins_of(decisions, places, counts), places)


def margins_of(decisions: Floats, places: Ints, counts: Ints) -> Floats:
    """Return how far each example's class is ahead of each other class, (n, n_classes - 1), in order of classes.

    Parameters
    ----------
    decisions : ndarray, shape (n,) or (n, n_pairs)
        Of two classes positive for the second one; of several positive for the first class of a pair.
    places : ndarray, shape (n,)
        Numbers of the examples' own classes.
    counts : ndarray, shape (n_classes,)
        Numbers of examples by class; of a class without examples the margin is infinite.
    """
    first = -decisions[None] if decisions.ndim == 1 else decisions.T  # positive for the first class of each pair
    others = _others(places, counts.size)
    ahead = by_other_class(-first, places, counts.size) * np.where(others > places[:, None], 1.0, -1.0)
    ahead[counts[others] == 0] = np.inf
    return ahead


def least(ahead: Floats, places: Ints) -> tuple[Floats, Ints]:
    """Return the least margin of each example, (n,), and the other class to which this margin belongs."""
    best, at = ahead.argmin(axis=1), np.arange(places.size)
    return ahead[at, best], _others(places, ahead.shape[1] + 1)[at, best]


def _others(places: Ints, n_classes: int) -> Ints:
    """Return, for each example, all classes except its own, (n, n_classes - 1)."""
    return np.arange(n_classes - 1) + (np.arange(n_classes - 1) >= places[:, None])


class Neighbours(NamedTuple):
    """The window at the time of a ranking, to find the examples that explain why a label is in doubt."""

    kernel: Kernel
    XT: Features
    keys: list[Key]
    places: Ints  #: (n,) class numbers
    order: Ints  #: (m,) the examples of the ranking
    better: Ints  #: (n,) classes

    def nearest(self, count: int) -> list[tuple[Key, ...]]:
        """Return, for each of the ``count`` worst labels, the keys of the nearest examples of the better class."""
        worst, kernel, X = self.order[:count], self.kernel, columns_of(self.XT)
        squares, found = kernel.diagonal(X), dict[int, tuple[Key, ...]]()
        for label in np.unique(self.better[worst]):
            members, others = np.flatnonzero(self.better[worst] == label), np.flatnonzero(self.places == label)
            most, XT = min(NEAREST, others.size), columns_of(X[others])
            for part in interrupt.parts(members.size, others.size * X.shape[1]):
                distances = squares[others] - 2.0 * kernel.matrix(X[worst[members[part]]], XT)
                near = np.sort(np.argpartition(distances, most - 1, axis=1)[:, :most], axis=1)
                nearest = np.argsort(np.take_along_axis(distances, near, axis=1), axis=1, kind="stable")
                rows = others[np.take_along_axis(near, nearest, axis=1)].tolist()
                keys = [tuple(map(self.keys.__getitem__, row)) for row in rows]
                found.update(zip(members[part].tolist(), keys, strict=True))
        return list(map(found.__getitem__, range(count)))


def _steepness(margin: Floats, weights: Floats, start: float) -> float:
    """Return the ``a`` of ``_doubts`` that fits margins (n,) best to a share (W + 1) / (W + 2) of right labels.

    W is the sum of all weights. The fit is that of Platt's sigmoid without an intercept. As in [Platt 1999], the share
    below 1 keeps ``a`` finite if all margins are positive. A negative ``a`` becomes 0, so that each doubt is 0.5. The
    slope of the likelihood falls and is convex, so Newton's steps from any ``start`` end below the solution, and never
    pass it.
    """
    share, scale = (weights.sum() + 1.0) / (weights.sum() + 2.0), max(np.abs(margin).max(), np.finfo(np.float64).tiny)
    x = margin / scale
    once, a = weights * x, start * scale
    twice = once * x
    for _ in range(STEPS):
        t = np.tanh(0.5 * a * x)  # 2 p - 1
        now, a = a, max(0.0, a + (once @ (share - 0.5 - 0.5 * t)) / max(0.25 * (twice @ (1.0 - t * t)), 1e-300))
        if abs(a - now) <= 1e-9 * a:  # the next step is the square of that
            break
    return float(a / scale)


def _doubts(margin: Floats, steepness: float) -> Floats:
    """Return 1 - p (n,), p = 1 / (1 + exp(-steepness margin))."""
    from scipy.special import expit  # takes long to load, and a service may never need it

    return np.asarray(expit(-steepness * margin))
