"""Exact leave-one-out and k-fold decisions of a live window, by removing examples from its optimum.

Removing an example without a coefficient changes neither the model nor the decision on the example. Examples with a
coefficient are removed by block pivots on one tableau of the optimum. If the block pivots fail, the example is removed
along a path, the decision is computed at the end of the path, and the model is restored. No model is retrained, and the
live model is not changed: paths are followed on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.by_path import decisions_by_pairs, decisions_by_updates
from livesvm.solvers.analyses.leave_one_out.models_without import checked, leave_each
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import Key

FOLDS, MORE = 5, 10  #: of each class; the second for a window of no more than
FEW = 1000  #: examples, of which a fold is missed more, and costs little
ALIKE = 0.1  #: by less than which a fold may change the balance of classes of which each pair has a free example
LEAST_SHARE = 1e-12  #: of the weight of a class: what is less is left by rounding


@dataclass(frozen=True)
class Assessment:
    """Decisions of a window's examples by models that have not seen them.

    Attributes
    ----------
    keys : tuple of str or int
        The window's keys, oldest first.
    decisions : ndarray, shape (n,) or (n, n_pairs)
        f(x_i) of the model trained without example i, or without its fold; of several classes see ``positive``.
    error : float
        Share of wrong labels or of outliers, or mean absolute error in units of y; of models with the pinball loss
        its mean.
    events : int
        Changes of sides on all paths together.
    seconds : float
        Wall time.
    positive, negative : tuple
        The labels that decisions above 0 are for, and the others: of two classes one each, of several one for each
        column of ``decisions``; none of a model without classes.
    """

    keys: tuple[Key, ...]
    decisions: Floats
    error: float
    events: int
    seconds: float
    positive: tuple[Any, ...] = ()
    negative: tuple[Any, ...] = ()

    _repr_html_ = html_of


def leave_one_out(model: LiveEstimator, *, progress: Progress | None = None) -> Assessment:
    """Return the exact leave-one-out decisions of a model's window, by paths from its optimum [Karasuyama & Takeuchi].

    Exact decisions may mislead. If a classifier has equally many examples of each class and no free example, the
    intercept turns against the class that an example leaves, and all leave-one-out labels may be wrong. No example is
    free if C is too small. Without free examples use ``k_fold``, which does not mislead because its folds hold equally
    many examples of each class.

    Parameters
    ----------
    model : live estimator
        Fitted; it is not changed.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Assessment
        Decisions, and the error that they come to.

    Raises
    ------
    InvalidInput
        The window holds fewer than two examples.
    NotOptimal
        A path could not be followed.
    """
    started, view = time.perf_counter(), checked(model)
    n = model.n_window_
    with steadily(progress, n) as tell:
        decisions, events, _ = leave_each(view, np.arange(n), tell, is_kept=False)
        tell(n, n)
    return _assessment(view, decisions, events, started)


def left_out(model: LiveEstimator, places: Ints, tell: Callable[[int, int], None]) -> Floats:
    """Return the exact leave-one-out decisions, (m,) or (m, n_pairs), of the window's examples at ``places`` (m,)."""
    return leave_each(checked(model), places, tell, is_kept=False)[0][places]


def k_fold(
    model: LiveEstimator,
    folds: int | Sequence[int],
    *,
    times: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Assessment:
    """Return the exact k-fold decisions of a model's window.

    Parameters
    ----------
    model : live estimator
        Fitted; it is not changed.
    folds : int or sequence of int, shape (n,)
        Number of folds of consecutive examples, oldest first; or the fold of each example.
    times : array_like, shape (n,), or None, default None
        When each of the window's examples happened (numbers, datetimes or ISO 8601 texts), by which they are
        ordered; by default, and of equals, as they came.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Assessment
        Decisions, and the error that they come to.

    Raises
    ------
    InvalidInput
        Fewer than two folds, or more than examples.
    NotOptimal
        A path could not be followed.
    """
    started = time.perf_counter()
    view = checked(model)
    fold = _folds(folds, in_order(times, model.n_window_))
    names = np.unique(fold)
    with steadily(progress, names.size) as tell:
        copy = view.copy()
        groups = [np.flatnonzero(fold == name) for name in names]
        decisions, events = decisions_by_updates(copy.model, groups, tell)
        tell(names.size, names.size)
    return _assessment(copy, decisions, events, started)


def held_out_by_class(
    model: LiveEstimator,
    places: Ints | None = None,
    *,
    folds: int | None = None,
    keeps_weight: bool = True,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Floats:
    """Return exact k-fold decisions of a classifier on its examples, (m,) or (m, n_pairs), with stratified folds.

    The examples of each class are assigned to the folds in turn. While a fold is held out, the other examples of each
    class get the weight of the whole class. So the models without a fold have the same balance of classes as the whole
    model. The intercept depends on the balance of the classes: if no example is free, one example more or less changes
    the intercept by up to 2.

    Parameters
    ----------
    model : fitted classifier; it is not changed
    places : (m,) the examples that are held out, by place; None: all
    folds : how many folds; None: ``MORE``, in a large window ``FOLDS``
    keeps_weight : without it the largest class keeps the weights of its examples, and others get the same balance:
        paths are shorter. Of several classes all weights stay if they would change by less than a tenth, and each pair
        has a free example, which sets its intercept
    tell : called with how many folds are done, and a total; what it raises ends the work

    Raises
    ------
    NotOptimal : a path could not be followed
    """
    view = checked(model)
    y, weights = view.window.y, view.window.weights
    places = np.arange(y.size) if places is None else places
    folds = folds or folds_for(y.size)
    fold = dealt(y[places], folds)
    if not fold.any() and places.size == y.size:  # one of each class: some have to stay
        fold = np.arange(y.size) % folds
    which = np.unique(y, return_inverse=True)[1]
    whole = np.bincount(which, weights)

    def shares(out: Ints) -> Floats:
        left = whole - np.bincount(which[out], weights[out], whole.size)
        share: Floats = np.divide(whole, left, out=np.ones(whole.size), where=left > LEAST_SHARE * whole)
        return share if keeps_weight else np.asarray(share / share[whole.argmax()])

    groups = [places[fold == name] for name in np.unique(fold)]
    if not keeps_weight and view.pairs and view.robustness is None:
        off = max(float(np.abs(shares(out) - 1.0).max()) for out in groups)
        if off < ALIKE and all(pair.n_free for pair in view.window.pairs.values()):
            found = decisions_by_pairs(view.window, groups)
            if found is not None:
                return found[places]
    copy = (view.copy(class_weight=view.class_weights) if view.shares_costs else view.copy()).model
    keys = copy.keys_

    def as_heavy(out: Ints) -> dict[Key, float]:
        share = shares(out)
        changed = np.flatnonzero((share[which] != 1.0) & (weights > 0.0))
        changed = np.setdiff1d(changed, out, assume_unique=True)
        found = (weights[changed] * share[which[changed]]).clip(max=validation.LARGEST)
        return dict(zip([keys[i] for i in changed.tolist()], found.tolist(), strict=True))

    return decisions_by_updates(copy, groups, tell, weights=as_heavy)[0][places]


def folds_for(n: int) -> int:
    """Return the default number of folds for a window of ``n`` examples."""
    return MORE if n <= FEW else FOLDS


def dealt(y: NDArray[Any], folds: int) -> Ints:
    """Return the fold of each example, (n,); the examples of each class are assigned to the folds in turn."""
    fold = np.empty(y.size, np.int64)
    for label in np.unique(y):
        places = np.flatnonzero(y == label)
        fold[places] = np.arange(places.size) % folds
    return fold


def in_order(times: ArrayLike | None, n: int) -> Ints:
    """Return the positions of ``n`` examples sorted by ``times`` (n,); examples with equal times keep their order."""
    if times is None:
        return np.arange(n)
    return np.argsort(validation.times(times, n), kind="stable")


def _folds(folds: int | Sequence[int], order: Ints) -> Ints:
    n = order.size
    if isinstance(folds, int | np.integer):
        if not 2 <= folds <= n:
            raise InvalidInput(f"must be between 2 and the {n} examples of the window, not {folds}", field="folds")
        out = np.empty(n, np.int64)
        out[order] = np.arange(n) * int(folds) // n
        return out
    fold = validation.vector(folds, n, field="folds").astype(np.int64)
    if np.unique(fold).size < 2:
        raise InvalidInput("at least two folds are needed", field="folds")
    return fold


def _assessment(copy: View, decisions: Floats, events: int, started: float) -> Assessment:
    error = copy.error(decisions, copy.window.y)
    seconds = time.perf_counter() - started
    return Assessment(tuple(copy.window.keys), decisions, error, events, seconds, *_meanings(copy))


def _meanings(copy: View) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return, for each column of decisions, the labels that positive and negative decisions stand for."""
    labels = copy.labels
    if len(labels) == 2:
        return (labels[1],), (labels[0],)
    return tuple(labels[a] for a, _ in copy.pairs), tuple(labels[b] for _, b in copy.pairs)
