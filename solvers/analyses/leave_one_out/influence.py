"""Exact decisions on any rows by the models that lack one example of the window each.

Removing an example without a coefficient changes no decision. For all other examples the models are those of
``leave_one_out.models_without``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.leave_one_out.models_without import models_without_each
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import Key


@dataclass(frozen=True)
class Influences:
    """Decisions on rows by a model, and by each model that lacks one example of the window.

    Attributes
    ----------
    keys : tuple
        Of the k examples that have a part in the model, oldest first; no other changes a decision.
    decisions : ndarray of shape (m,) or (m, n_pairs)
        f(x) of the model as it is; of several classes one value for each pair.
    without : ndarray of shape (k, m) or (k, m, n_pairs)
        f(x) of the model trained without example i.
    events : int
        Changes of sides on all paths together.
    seconds : float
        Wall time.
    """

    keys: tuple[Key, ...]
    decisions: Floats
    without: Floats
    events: int
    seconds: float

    _repr_html_ = html_of


def influences(model: LiveEstimator, X: Any, *, progress: Progress | None = None) -> Influences:
    """Return how the decisions of rows depend on each example of a model's window, by exact unlearning.

    Parameters
    ----------
    model : live estimator
        Fitted on at least two examples; it is not changed.
    X : array-like or sparse of shape (m, d)
        Rows; for the kernel "precomputed" kernel values (m, n) of rows and window, oldest first.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Influences
        Decisions by the model, and by the models without one example each.

    Raises
    ------
    InvalidInput
        Rows of another width, or a window of fewer than two examples.
    NotOptimal
        A path could not be followed.

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, influences
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> found = influences(model, [[0.6]])
    >>> moved = found.decisions - found.without
    >>> [(key, round(float(move), 3)) for key, move in zip(found.keys, moved[:, 0])]
    [(0, -0.344), (1, 1.115), (2, 0.568)]
    """
    rows, found = View(model).rows(X), models_without_each(model, progress=progress)
    places = found.matters
    decisions = np.asarray(found.predictor.decide(rows))
    keys = tuple(found.keys[place] for place in places)
    return Influences(keys, decisions, found.decisions(rows, places), found.events, found.seconds)


@dataclass(frozen=True)
class DataValues:
    """The value of each example of a window for the loss on given rows.

    Attributes
    ----------
    keys : tuple
        Of the k examples that have a part in the model, oldest first; all others are worth 0.
    values : ndarray of shape (k,)
        Loss of the model trained without example i, less ``loss``: below 0 the example does harm.
    loss : float
        Mean loss of the rows by the model as it is: hinge loss of classes, over the pairs of a row's class where there
        are several; of regression the mean absolute error, or mean pinball loss, in units of y.
    events : int
        Changes of sides on all paths together.
    seconds : float
        Wall time.
    """

    keys: tuple[Key, ...]
    values: Floats
    loss: float
    events: int
    seconds: float

    _repr_html_ = html_of


def data_values(model: LiveEstimator, X: Any, y: ArrayLike, *, progress: Progress | None = None) -> DataValues:
    """Return the exact leave-one-out value of each example of a model's window for rows with known targets.

    Parameters
    ----------
    model : live estimator
        Fitted on at least two examples; it is not changed.
    X : array-like or sparse of shape (m, d)
        Rows with known targets.
    y : array-like of shape (m,)
        Targets of the rows.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    DataValues
        Values by key, and their loss.

    Raises
    ------
    InvalidInput
        As of :func:`influences`; targets that the model cannot have.
    NotOptimal
        A path could not be followed.

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, data_values
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> found = data_values(model, [[0.2], [1.5]], [-1, 1])
    >>> [(key, round(float(value), 3)) for key, value in zip(found.keys, found.values)]
    [(0, 0.343), (1, -0.327), (2, -0.063)]
    """
    view = View(model)
    found = influences(model, X, progress=progress)
    targets = view.targets(y, found.decisions.shape[0])
    loss = _loss(view, found.decisions, targets)
    without = []
    for decisions in found.without:
        check()
        without.append(_loss(view, decisions, targets))
    return DataValues(found.keys, np.array(without) - loss, loss, found.events, found.seconds)


def _loss(view: View, decisions: Floats, targets: Floats) -> float:
    """Return the mean loss of rows, given their decisions, (m,) or (m, n_pairs)."""
    if view.prices is not None:
        return view.error(decisions, targets)
    if not view.pairs:
        return float(np.maximum(0.0, 1.0 - targets * decisions).mean())
    sides = np.stack([(targets == a).astype(float) - (targets == b) for a, b in view.pairs], axis=1)
    lost = np.where(sides == 0.0, 0.0, np.maximum(0.0, 1.0 - sides * decisions))
    return float((lost.sum(axis=1) / np.abs(sides).sum(axis=1)).mean())
