"""Suspected labels: all examples of a window, ranked by how badly each label fits a model without the example."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.analyses.leave_one_out.assessment import held_out_by_class, left_out
from livesvm.solvers.analyses.leave_one_out.models_without import checked, leave_own
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, places_of
from livesvm.solvers.models.pairs_predictor import by_other_class
from livesvm.solvers.runtime import interrupt
from livesvm.solvers.runtime.html import table_of
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import Key

SMALL = 1500  #: examples up to which leave-one-out costs at most three times as much as folds
MOST_FREE = 0.2  #: share of free examples up to which this holds in larger windows
NEAREST = 3  #: examples of the better label that are listed with an example
EXPLAINED = 100  #: labels with which they are listed: so many, or all with a negative margin


NAMES = "key", "label", "better", "margin", "doubt", "why"


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
    why : tuple of tuple of str or int
        Keys of the three examples of the better label that are nearest by the kernel, the nearest first. None beyond
        the first 100 where the margin is positive.
    method : str
        "leave_one_out" or "k_fold": which models the margins are by.
    seconds : float
        Wall time.
    """

    keys: tuple[Key, ...]
    labels: NDArray[Any]
    better: NDArray[Any]
    margin: Floats
    doubt: Floats
    why: tuple[tuple[Key, ...], ...]
    method: Literal["leave_one_out", "k_fold"]
    seconds: float

    def head(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the worst labels as rows, which a data frame takes.

        Parameters
        ----------
        n : int, default 10
            How many.

        Returns
        -------
        list of dict
            Each with key, label, better, margin, doubt and why.
        """
        columns = (one[:n].tolist() for one in (self.labels, self.better, self.margin, self.doubt))
        rows = zip(self.keys[:n], *columns, map(list, self.why[:n]), strict=True)
        return [dict(zip(NAMES, row, strict=True)) for row in rows]

    def _repr_html_(self) -> str:
        worst = self.head()
        return table_of("SuspectedLabels", [list(row.values()) for row in worst], NAMES)


def suspected_labels(
    model: LiveEstimator, *, confirmed: Iterable[Key] = (), progress: Progress | None = None
) -> SuspectedLabels:
    """Return all examples of a classifier's window, worst label first, by exact decisions of models without them.

    Leave-one-out ranks a little better than folds, and is used unless it may cost more than about three times as much:
    where many examples of a large window are free. Leave-one-out is not used if a pair of classes has no free example,
    because every leave-one-out label may then be wrong, see ``leave_one_out``. Folds are those of ``predict_proba``.

    Parameters
    ----------
    model : live classifier
        Fitted; it is not changed.
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
    view = checked(model)
    places = places_of(view, view.window.y).astype(np.int64)
    counts = np.bincount(places, minlength=len(view.labels))
    if np.count_nonzero(counts) < 2:
        raise InvalidInput("has one class only; add examples of another before labels can be suspected", field="window")
    method: Literal["leave_one_out", "k_fold"] = "leave_one_out" if _is_worth_its_cost(view) else "k_fold"
    with steadily(progress, places.size) as tell:
        if method == "leave_one_out":
            every = np.arange(places.size)
            decisions = left_out(model, every, tell) if view.shares_costs else leave_own(view, tell)
        else:
            decisions = held_out_by_class(model, tell=tell)
        margin, better = margins(decisions, places, counts)
        order, known = np.argsort(margin, kind="stable"), set(confirmed)
        keys = list(view.window.keys)
        order = order[[keys[i] not in known for i in order.tolist()]] if known else order
        nearest = _nearest(view, places, better, order[: max(EXPLAINED, np.count_nonzero(margin[order] < 0.0))])
        tell(places.size, places.size)
    labels = np.asarray(cast(Any, model).classes_)
    return SuspectedLabels(
        tuple(keys[i] for i in order),
        labels[places[order]],
        labels[better[order]],
        margin[order],
        _doubts(margin, view.window.weights)[order],
        tuple(tuple(keys[j] for j in nearest[i]) for i in order),
        method,
        time.perf_counter() - started,
    )


def _is_worth_its_cost(view: View) -> bool:
    """Say whether leave-one-out is reliable for this window, and takes at most about three times as long as folds."""
    n, pairs = view.model.n_window_, getattr(view.window, "pairs", {})
    free = [pairs[two].n_free for two in view.both_there] if pairs else [view.state.n_free]
    return min(free) > 0 and (n <= SMALL or max(free) <= MOST_FREE * n)


def margins(decisions: Floats, places: Ints, counts: Ints) -> tuple[Floats, Ints]:
    """Return by how much each example's class is ahead of the best other class with examples, (n,), and that class.

    Parameters
    ----------
    decisions : ndarray, shape (n,) or (n, n_pairs)
        Of two classes positive for the second one; of several positive for the first class of a pair.
    places : ndarray, shape (n,)
        Numbers of the examples' own classes.
    counts : ndarray, shape (n_classes,)
        Numbers of examples by class.
    """
    first = -decisions[None] if decisions.ndim == 1 else decisions.T  # positive for the first class of each pair
    others = np.arange(counts.size - 1) + (np.arange(counts.size - 1) >= places[:, None])
    ahead = by_other_class(-first, places, counts.size) * np.where(others > places[:, None], 1.0, -1.0)
    ahead[counts[others] == 0] = np.inf
    best = ahead.argmin(axis=1)
    return ahead[np.arange(places.size), best], others[np.arange(places.size), best]


def _nearest(view: View, places: Ints, better: Ints, worst: Ints) -> list[list[int]]:
    """Return the positions of each example's nearest examples in its ``better`` class, only for the examples ``worst``
    (m,)."""
    found: list[list[int]] = [[] for _ in places]
    for label in np.unique(better[worst]):
        members, others = worst[better[worst] == label], np.flatnonzero(places == label)
        most = min(NEAREST, others.size)
        for part in interrupt.parts(members.size, others.size * (view.window.width or 1)):
            distances = view.distances(members[part], others)
            near = np.argpartition(distances, most - 1, axis=1)[:, :most]
            for i, row, far in zip(members[part], near, np.take_along_axis(distances, near, axis=1), strict=True):
                found[i] = others[row[np.lexsort((row, far))]].tolist()
    return found


def _doubts(margin: Floats, weights: Floats) -> Floats:
    """Return 1 - p (n,), p = 1 / (1 + exp(-a margin)), with ``a`` fitted to a share (W + 1) / (W + 2) of right labels.

    W is the sum of all weights. This is Platt's sigmoid without an intercept; as in [Platt 1999] the share below 1
    keeps ``a`` finite if all margins are positive. A negative ``a`` becomes 0, so that each doubt is 0.5.
    """
    from scipy.optimize import brentq  # takes long to load, and a service may never need it
    from scipy.special import expit

    share = (weights.sum() + 1.0) / (weights.sum() + 2.0)
    scaled = margin / max(np.abs(margin).max(), np.finfo(np.float64).tiny)

    def slope(a: float) -> float:
        return float(weights @ (scaled * (share - expit(a * scaled))))

    top = 1.0
    while slope(top) > 0.0 and top < 1e12:
        top *= 4.0
    a = brentq(slope, 0.0, top) if slope(0.0) > 0.0 > slope(top) else 0.0
    return np.asarray(expit(-a * scaled))
