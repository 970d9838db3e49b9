"""Exact decisions of any rows by the models that have not seen one example of the window.

An example without a coefficient leaves every decision as it is. For each of the others the path on which it leaves is
followed, the rows are decided at its end, and the model is put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.leave_one_out.assessment import checked, may_be_missed, tell_nothing
from livesvm.solvers.analyses.leave_one_out.by_path import leave_each_out
from livesvm.solvers.analyses.leave_one_out.by_updates import left_out
from livesvm.solvers.homotopy.recompute import refresh
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.predictor import kernel_values
from livesvm.solvers.models.view import View
from livesvm.solvers.runtime.progress import Progress, Teller, steadily
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import Key


@dataclass(frozen=True)
class Influences:
    """Decisions of rows by a model, and by the models without one of its examples.

    Attributes
    ----------
    keys : of the k examples that have a part in the model, oldest first; all others change no decision
    decisions : (m,) f(x) of the model as it is; of several classes (m, n_pairs)
    without : (k, m) f(x) of the model trained without example i; of several classes (k, m, n_pairs)
    events : breakpoints of all paths together
    seconds : wall time
    """

    keys: tuple[Key, ...]
    decisions: Floats
    without: Floats
    events: int
    seconds: float


def influences(model: LiveEstimator, X: ArrayLike | Features, *, progress: Progress | None = None) -> Influences:
    """Return how the decisions of rows depend on each example of a model's window, by exact unlearning.

    Parameters
    ----------
    model : a live estimator that has learnt at least two examples; it is not touched
    X : (m, d) rows; for the kernel "precomputed" (m, n) kernel values of rows and window, oldest first
    progress : called with how many examples were left out, and how many there are; what it raises ends the work

    Raises
    ------
    InvalidInput : rows of another width, or a window of fewer than two examples
    Cancelled : ``progress`` said so
    NotOptimal : a path could not be followed

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, influences
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> found = influences(model, [[0.6]])
    >>> moved = found.decisions - found.without
    >>> [(key, round(float(move), 3)) for key, move in zip(found.keys, moved[:, 0])]
    [(0, -0.344), (1, 1.115), (2, 0.568)]
    """
    started = time.perf_counter()
    view = checked(model)
    predictor = model.predictor()
    rows = predictor.validate(X)
    decisions = np.asarray(predictor.decision_function(rows))
    with steadily(progress, model.n_window_) as tell:
        copy = view.copy()
        if copy.shares_costs:
            places, without, events = _by_updates(copy, rows, decisions, tell)
        elif copy.pairs:
            places, without, events = _pair_by_pair(copy, rows, decisions, tell)
        else:
            places, without, events = _one_by_one(copy, rows, tell)
    keys = list(view.window.keys)
    named = tuple(keys[place] for place in places)
    return Influences(named, decisions, without, events, time.perf_counter() - started)


def _one_by_one(copy: View, rows: Features, tell: Callable[[int, int], None]) -> tuple[Ints, Floats, int]:
    """Return the places of examples that may be missed, the decisions (k, m) without each, and all events."""
    window, state = copy.window, copy.state
    refresh(state)
    places = np.flatnonzero(may_be_missed(copy, window.slots))
    totals = state.total - copy.total_of(1.0) * window.weights[places]
    without, events = leave_each_out(state, window.slots[places], totals, tell, _kernel_values(copy, rows))
    return places, without, events


def _kernel_values(copy: View, rows: Features) -> Floats:
    """Return the kernel values (m, n_slots) of rows and the window's examples, by slot."""
    state, slots = copy.state, copy.window.slots
    values = np.zeros((rows.shape[0], state.n_slots))
    if state.kernel.gram is not None:
        values[:, slots] = dense(rows)
    else:
        scale = getattr(copy.model, "feature_scale_", None)
        values[:, slots] = kernel_values(state.kernel, rows, state.columns(slots), scale)
    return values


def _pair_by_pair(copy: View, rows: Features, decisions: Floats, tell: Teller) -> tuple[Ints, Floats, int]:
    """Return the same of several classes; an example of another class leaves a pair as it is."""
    found, events = [], 0
    for done, two in enumerate(copy.pairs):
        tell(done, len(copy.pairs))
        places, without, count = _one_by_one(View(copy.of_pair(two)), rows, tell_nothing)
        found.append((places, without))
        events += count
    tell(len(copy.pairs), len(copy.pairs))
    every = np.unique(np.concatenate([places for places, _ in found]))
    out = np.repeat(decisions[None], every.size, axis=0)
    for pair, (places, without) in enumerate(found):
        out[np.searchsorted(every, places), :, pair] = -without
    return every, out, events


def _by_updates(copy: View, rows: Features, decisions: Floats, tell: Teller) -> tuple[Ints, Floats, int]:
    """Return the same where the losses of all depend on which examples are there: each leaves by an update."""
    keys, gram = list(copy.window.keys), copy.state.kernel.gram
    places = np.arange(len(keys))
    without, events = np.empty((len(keys), *decisions.shape)), 0
    for place, key in enumerate(keys):
        tell(place, len(keys))
        X = rows if gram is None else np.delete(dense(rows), place, axis=1)
        without[place], count = left_out(copy.model, [key], X)
        events += count
    tell(len(keys), len(keys))
    return places, without, events


@dataclass(frozen=True)
class DataValues:
    """What each example of a window is worth for the loss on given rows.

    Attributes
    ----------
    keys : of the k examples that have a part in the model, oldest first; all others are worth 0
    values : (k,) loss of the model trained without example i, less ``loss``: below 0 the example does harm
    loss : mean loss of the rows by the model as it is: hinge loss of classes, over the pairs of a row's class where
        there are several; of regression what the model's error is, in units of y
    events : breakpoints of all paths together
    seconds : wall time
    """

    keys: tuple[Key, ...]
    values: Floats
    loss: float
    events: int
    seconds: float


def data_values(
    model: LiveEstimator, X: ArrayLike | Features, y: ArrayLike, *, progress: Progress | None = None
) -> DataValues:
    """Return the exact leave-one-out value of each example of a model's window for rows whose targets are known.

    Parameters
    ----------
    model, X, progress : as of :func:`influences`
    y : (m,) targets of the rows

    Raises
    ------
    InvalidInput, Cancelled, NotOptimal : as of :func:`influences`; targets that the model cannot have

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, data_values
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> found = data_values(model, [[0.2], [1.5]], [-1, 1])
    >>> [(key, round(float(value), 3)) for key, value in zip(found.keys, found.values)]
    [(0, 0.343), (1, -0.327), (2, -0.063)]
    """
    found, view = influences(model, X, progress=progress), View(model)
    targets = view.targets(y, found.decisions.shape[0])
    loss = _loss(view, found.decisions, targets)
    without = [_loss(view, decisions, targets) for decisions in found.without]
    return DataValues(found.keys, np.array(without) - loss, loss, found.events, found.seconds)


def _loss(view: View, decisions: Floats, targets: Floats) -> float:
    """Return the mean loss of rows by their decisions, (m,) or (m, n_pairs)."""
    if view.prices is not None:
        return view.error(decisions, targets)
    if not view.pairs:
        return float(np.maximum(0.0, 1.0 - targets * decisions).mean())
    sides = np.stack([(targets == a).astype(float) - (targets == b) for a, b in view.pairs], axis=1)
    lost = np.where(sides == 0.0, 0.0, np.maximum(0.0, 1.0 - sides * decisions))
    return float((lost.sum(axis=1) / np.abs(sides).sum(axis=1)).mean())
