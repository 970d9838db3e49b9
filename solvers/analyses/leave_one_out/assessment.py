"""Exact leave-one-out and k-fold decisions of a live window, by decremental steps from its optimum.

An example that has no coefficient is not missed: its own decision value stays. All others leave by block pivots on one
tableau of the optimum. Where that fails the path on which an example leaves is followed, its decision value read at the
end, and the model put back. Nothing is trained again, and the live model is not touched: paths are walked on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.by_path import decisions_without, leave_each_out
from livesvm.solvers.analyses.leave_one_out.by_updates import decisions_by_updates
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.refresh import refresh
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.runtime.progress import Progress, Teller, steadily
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.validation import Key

LEAST_OF_A_KIND = 4  #: so many that leave the same losses share a path to those; of fewer each has an update


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


def leave_one_out(model: LiveEstimator, *, progress: Progress | None = None) -> Assessment:
    """Return the exact leave-one-out decisions of a model's window, by paths from its optimum [Karasuyama & Takeuchi].

    Parameters
    ----------
    model : live estimator
        Fitted; it is not changed.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False cancels.

    Returns
    -------
    Assessment
        Decisions, and the error that they come to.

    Raises
    ------
    InvalidInput
        The window holds fewer than two examples.
    Cancelled
        ``progress`` said so.
    NotOptimal
        A path could not be followed.
    """
    started = time.perf_counter()
    view = checked(model)
    with steadily(progress, model.n_window_) as tell:
        copy = view.copy()
        if copy.shares_costs:
            decisions, events = _kind_by_kind(copy, tell)
        elif copy.pairs:
            decisions, events = _pair_by_pair(copy, leave_one_out, tell)
        else:
            decisions, events = _leave_one_out(copy, tell)
    return _assessment(copy, decisions, events, started)


def _kind_by_kind(copy: View, tell: Teller) -> tuple[Floats, int]:
    """Return the leave-one-out decisions where the losses of all depend on which examples are there.

    They depend on how many there are in a kind, such as a class, and not on which of them leaves. One path takes the
    window to the losses that the others have once any of a kind has left; from there each of the kind leaves alone.
    """
    n, (alone, together) = copy.model.n_window_, leave_together(copy)
    decisions, events = decisions_by_updates(copy.model, alone[:, None], tell)
    done = alone.size
    for members in together:
        tell(done, n)
        events += copy.weigh_without(int(members[0]))
        found, count = _members_leave(copy, members, partial(_tell_after, tell, done, n))
        decisions[members] = found
        events += count
        done += members.size
    tell(n, n)
    return decisions, events


def leave_together(copy: View) -> tuple[Ints, list[Ints]]:
    """Return the places of examples that leave by an update each, and of those that leave alike, kind by kind."""
    kinds = copy.kinds
    names, counts = np.unique(kinds, return_counts=True)
    together = [] if copy.robustness else [np.flatnonzero(kinds == name) for name in names[counts >= LEAST_OF_A_KIND]]
    return np.setdiff1d(np.arange(kinds.size), np.concatenate([NO_EXAMPLES, *together])), together


def left_out(model: LiveEstimator, places: Ints, tell: Callable[[int, int], None]) -> Floats:
    """Return the exact leave-one-out decisions of some examples of a window, by place, (m,) or (m, n_pairs)."""
    copy = checked(model).copy()
    if copy.shares_costs:
        return leave_one_out(model).decisions[places]
    if not copy.pairs:
        return _members_leave(copy, places, tell)[0]
    y = copy.window.y[places]
    decisions = np.empty((places.size, len(copy.pairs)))
    for label in np.unique(y):
        decisions[y == label] = _members_leave(copy, places[y == label], tell)[0]
    return decisions


def tell_nothing(done: int, count: int) -> None:
    """Take no notice of progress."""


def _tell_after(tell: Teller, before: int, total: int, done: int, _: int) -> None:
    tell(before + done, total)


def _members_leave(copy: View, members: Ints, tell: Callable[[int, int], None]) -> tuple[Floats, int]:
    """Return the decisions of examples ``members``, by place, each by the model without it, and all events.

    No losses change but those of the example that leaves.
    """
    if not copy.pairs:
        return _leave_one_out(copy, tell, members)
    decisions = copy.decisions(members)
    mine, events = copy.window.y[members[0]], 0
    for place, two in enumerate(copy.pairs):
        tell(0, members.size)
        if mine in two:
            found, count = _leave_one_out(View(copy.of_pair(two)), tell_nothing, members)
            decisions[:, place] = -found
            events += count
    return decisions, events


def _leave_one_out(copy: View, tell: Callable[[int, int], None], members: Ints | None = None) -> tuple[Floats, int]:
    """Return the leave-one-out decisions of a copy's window, or of ``members`` by place, and all events."""
    window, state = copy.window, copy.state
    slots, weights = window.slots, window.weights
    if members is not None:
        slots, weights = slots[members], weights[members]
    per_weight = copy.total_of(1.0)
    refresh(state)
    decisions = state.examples.f[slots].copy()
    missed = np.flatnonzero(may_be_missed(copy, slots))
    totals = state.total - per_weight * weights[missed]
    decisions[missed], events = leave_each_out(state, slots[missed], totals, tell)
    return decisions, events


def may_be_missed(copy: View, slots: Ints) -> Bools:
    """Return which of the examples in ``slots`` (m,) have a part in the model, so that it is another without them."""
    state, e = copy.state, copy.state.examples
    if copy.total_of(1.0) or (state.intercept and state.n_free == 0):  # b depends on the others too
        return np.ones(slots.size, dtype=bool)
    return np.asarray((e.beta[slots] != 0.0) | are_free(e.segment[slots]))


def _pair_by_pair(copy: View, assess: Callable[[LiveEstimator], Assessment], tell: Teller) -> tuple[Floats, int]:
    """Return the decisions (n, n_pairs) of several classes, and the events of all paths.

    An example of another class leaves a pair as it is, and has its decision by that.
    """
    found = []
    for done, two in enumerate(copy.pairs):
        tell(done, len(copy.pairs))
        found.append(assess(copy.of_pair(two)))
    tell(len(copy.pairs), len(copy.pairs))
    return -np.stack([one.decisions for one in found], axis=1), sum(one.events for one in found)


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
        When each of the window's examples happened, in any unit, by which they are ordered; by default, and of
        equals, as they came.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False cancels.

    Returns
    -------
    Assessment
        Decisions, and the error that they come to.

    Raises
    ------
    InvalidInput
        Fewer than two folds, or more than examples.
    Cancelled
        ``progress`` said so.
    NotOptimal
        A path could not be followed.
    """
    started = time.perf_counter()
    view = checked(model)
    fold = _folds(folds, in_order(times, model.n_window_))
    names = np.unique(fold)
    decisions, events = np.empty(fold.size), 0
    with steadily(progress, names.size) as tell:
        copy = view.copy()
        if copy.shares_costs:
            groups = [np.flatnonzero(fold == name) for name in names]
            decisions, events = decisions_by_updates(copy.model, groups, tell)
            tell(names.size, names.size)
            return _assessment(copy, decisions, events, started)
        if copy.pairs:
            decisions, events = _pair_by_pair(copy, partial(k_fold, folds=fold.tolist()), tell)
            return _assessment(copy, decisions, events, started)
        state, slots, weights = copy.state, copy.window.slots, copy.window.weights
        for done, name in enumerate(names):
            tell(done, names.size)
            out = np.flatnonzero(fold == name)
            total = state.total - copy.total_of(float(weights[out].sum()))
            decisions[out], count = decisions_without(state, slots[out], total)
            events += count
        tell(names.size, names.size)
    return _assessment(copy, decisions, events, started)


def checked(model: LiveEstimator) -> View:
    """Return a model as analyses see it; raises InvalidInput for a window of fewer than two examples."""
    view = View(model)
    if model.n_window_ < 2:
        raise InvalidInput(f"the window holds {model.n_window_} examples; at least two are needed", field="window")
    return view


def in_order(times: ArrayLike | None, n: int) -> Ints:
    """Return the places of ``n`` examples by their times (n,), those of one time as they came."""
    if times is None:
        return np.arange(n)
    return np.argsort(validation.vector(times, n, field="times"), kind="stable")


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
    """Return the labels that positive and other decisions are for."""
    labels = copy.labels
    if len(labels) == 2:
        return (labels[1],), (labels[0],)
    return tuple(labels[a] for a, _ in copy.pairs), tuple(labels[b] for _, b in copy.pairs)
