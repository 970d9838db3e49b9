"""Detection of changes in a window by exact leave-one-out scores, and comparison of smaller windows and other settings.

The false alarm rate of the test holds for any scores that do not depend on the order of the examples, such as
leave-one-out scores. The reported errors of classifiers are k-fold errors, with folds that hold equally many examples
of each class. With balanced classes and no free example, leaving one example out reverses the decision on it, so every
leave-one-out label would be wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.drift.martingale import RUN, Alarm, DriftTest
from livesvm.solvers.analyses.leave_one_out.assessment import held_out_by_class, in_order, left_out
from livesvm.solvers.analyses.leave_one_out.models_without import checked
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, losses_of, places_of, scores_of
from livesvm.solvers.models.target_scale import in_units
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.progress import Progress, Teller, steadily
from livesvm.solvers.runtime.types import Floats, Ints

LEAST = 30
"""Least number of newest examples that remedies are judged by."""
SHARES = (2, 4, 8)
"""Divisors that give the shorter windows that are tried: the newest half, and so on."""
COSTS = (0.1, 1 / math.sqrt(10.0), math.sqrt(10.0), 10.0)
"""Other C that are tried, as multiples of the present one."""
PARTS = 2 + len(SHARES) + len(COSTS)  #: of the work, each of a whole window
SURE = 2.0
"""Standard errors by which a remedy has to be better before it is proposed."""
BLOCKS = 8
"""Number of means in a rolling error."""


@dataclass(frozen=True)
class Remedy:
    """A model that could replace the present one, judged by the newest examples.

    Attributes
    ----------
    kind : "window" or "C"
        What changes: the model has the newest ``value`` examples alone, or a C of ``value``.
    value : float
        Examples that stay, or C.
    error : float
        Mean loss of the newest examples by that model without them, as ``Drift.error``.
    better : float
        The error of the present model less ``error``.
    spread : float
        Standard error of ``better``, from the differences example by example.
    """

    kind: Literal["window", "C"]
    value: float
    error: float
    better: float
    spread: float


@dataclass(frozen=True)
class Drift:
    """Signs of change in a window, from exact decisions on each example by the model without the example.

    Attributes
    ----------
    n : int
        Examples in the window.
    error : float
        Mean loss of examples by models without them: of classes the share of wrong labels, by models without one of
        ten folds of each class, in windows over 1,000 of five; of regression the mean absolute error or pinball loss of
        leave-one-out.
    errors : dict
        The same of each class; none of regression.
    rolling : ndarray of shape (8,) or fewer
        The same of consecutive parts of the window, oldest first.
    alarm : Alarm or None
        The newest change that the test has found; examples are numbered in the order of their times, from 1.
    evidence : float
        The largest capital of the test at its end, over the one that gives an alarm.
    newest : int
        Examples that remedies are judged by.
    present : float
        Mean loss of those by the present model without them.
    remedies : tuple of Remedy
        All that were tried.
    proposed : Remedy or None
        The best of those that are better by two standard errors.
    seconds : float
        Wall time.
    """

    n: int
    error: float
    errors: dict[Any, float]
    rolling: Floats
    alarm: Alarm | None
    evidence: float
    newest: int
    present: float
    remedies: tuple[Remedy, ...]
    proposed: Remedy | None
    seconds: float

    _repr_html_ = html_of


def drift(
    model: LiveEstimator,
    *,
    false_alarms: float = 0.01,
    run: int = RUN,
    times: ArrayLike | None = None,
    tested: ArrayLike | None = None,
    newest: int | None = None,
    progress: Progress | None = None,
) -> Drift:
    """Test whether a model's window has changed, and try remedies.

    Parameters
    ----------
    model : live classifier or regression model
        Fitted on at least two examples; it is not changed.
    false_alarms : float, default 0.01
        Largest probability of an alarm where nothing has changed, in ``run`` examples. It holds where the examples
        are exchangeable and have equal weights.
    run : int, default 5000
        Examples after which the test begins again.
    times : array-like of shape (n,) or None, default None
        When each of the window's examples happened (numbers, datetimes or ISO 8601 texts), by which they are
        ordered; by default as they came.
    tested : array-like of bool of shape (n,) or None, default None
        Which of the window's examples the test takes, as those with errors that do not depend on each other; by
        default all.
    newest : int or None, default None
        Examples that remedies are judged by; by default those since the change, or an eighth of the window, and at
        least 30.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Drift
        Errors, the newest change, and remedies.

    Raises
    ------
    InvalidInput
        A model without targets, fewer than two examples, or a number that is out of range.
    NotOptimal
        A path could not be followed.

    Examples
    --------
    >>> import numpy as np
    >>> from livesvm.solvers import IncrementalSVC, drift
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> y[240:] = -y[240:]
    >>> found = drift(IncrementalSVC(C=1.0, gamma=0.5).fit(X, y))
    >>> found.alarm.began
    237
    >>> found.proposed.kind, found.proposed.value
    ('window', 64)
    """
    started, view, test = time.perf_counter(), checked(model), DriftTest(false_alarms, run=run)
    n, order = model.n_window_, in_order(times, model.n_window_)
    taken = np.arange(n) if tested is None else np.flatnonzero(np.asarray(tested, np.bool_)[order])
    if view.prices is None and (len(view.labels) < 2 or not hasattr(model, "class_weight")):
        raise InvalidInput("has no targets, and so no errors", field="model")
    if newest is not None and not 2 <= newest <= n:
        raise InvalidInput(f"must be between 2 and the {n} examples of the window, not {newest}", field="newest")
    with steadily(progress, PARTS * n) as tell:
        losses, alarm = _tested(view, order, taken, test, tell)
        m = newest or _newest(n, alarm)
        present = losses[-m:]
        if view.labels:
            losses, present = _losses(view, order, tell), _losses(view, order[-m:], tell)
        tried = [_remedy(kind, value, present, found) for kind, value, found in _tried(view, order, m, alarm, tell)]
    sure = [one for one in tried if one.better > SURE * one.spread and one.better > 0.0]
    return Drift(
        n,
        float(losses.mean()),
        _by_class(view, losses, order),
        means(losses),
        alarm,
        test.strongest,
        m,
        float(present.mean()),
        tuple(tried),
        min(sure, key=lambda one: one.error, default=None),
        time.perf_counter() - started,
    )


def before_learning(model: LiveEstimator, X: Any, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return the strangeness and the loss of each row for a model that has not learnt the rows, (m,) and (m,).

    Parameters
    ----------
    model : live classifier or regression model
        Fitted; it is not changed.
    X : array-like or sparse of shape (m, d)
        Rows.
    y : array-like of shape (m,)
        Their targets; of classes that the model knows.

    Returns
    -------
    tuple of two ndarrays of shape (m,)
        Scores for :meth:`DriftTest.learn`, and losses: 1 where a label is wrong, or of regression absolute or pinball,
        both in units of y.

    Raises
    ------
    InvalidInput
        Rows of another width, or targets that the model cannot have.

    Examples
    --------
    >>> from livesvm.solvers import IncrementalSVC, before_learning
    >>> model = IncrementalSVC(C=1.0, gamma=0.5).fit([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> scores, losses = before_learning(model, [[1.0], [2.0]], [1, -1])
    >>> losses.tolist()
    [0.0, 1.0]
    """
    view, decisions = View(model), np.asarray(model.predictor().decision_function(X))
    targets = view.targets(y, len(decisions))
    if view.prices is None:
        return scores_of(view, decisions, targets), losses_of(view, decisions, targets)
    (too_low, too_high), off = view.prices, np.asarray(targets - in_units(model.target_scale_, decisions))
    return np.asarray(np.abs(off)), np.asarray(np.maximum(too_low * off, -too_high * off))


def means(losses: Floats) -> Floats:
    """Split ``losses`` into up to ``BLOCKS`` consecutive parts, and return the mean of each, oldest first."""
    return np.array([part.mean() for part in np.array_split(losses, BLOCKS) if part.size])


def _tested(view: View, order: Ints, taken: Ints, test: DriftTest, tell: Teller) -> tuple[Floats, Alarm | None]:
    """Return all leave-one-out losses in order of time, and the newest alarm of the test on the examples ``taken``."""
    decisions = left_out(view.model, order, lambda done, _: tell(done, PARTS * order.size))
    targets = np.asarray(view.window.y)[order]
    kinds = None if view.prices is not None else places_of(view, targets)[taken].tolist()
    alarm = test.learn(scores_of(view, decisions, targets)[taken], kinds)
    if alarm is not None:
        names, numbers = tuple(view.labels[place] for place in alarm.kinds), (taken + 1).tolist()
        began, at = numbers[alarm.began - 1], numbers[alarm.at - 1]
        alarm = Alarm(names, began, at, alarm.log10_evidence)
    return losses_of(view, decisions, targets), alarm


def _newest(n: int, alarm: Alarm | None) -> int:
    """Return the number of newest examples by which remedies are judged."""
    wanted = n // SHARES[-1] if alarm is None else n + 1 - alarm.began
    return min(n, max(LEAST, min(wanted, n // 2)))


def _tried(
    view: View, order: Ints, m: int, alarm: Alarm | None, tell: Teller
) -> Iterator[tuple[Literal["window", "C"], float, Floats]]:
    """Try shorter windows, then other values of C; yield kind, value, and the newest ``m`` losses of each trial."""
    n, keys = order.size, [list(view.window.keys)[place] for place in order]
    sizes = {n // share for share in SHARES} | ({n + 1 - alarm.began} if alarm is not None else set())
    shorter, left = view.copy().model, n
    for size in sorted((size for size in sizes if m <= size < n), reverse=True):
        shorter.update(remove=keys[n - left : n - size])
        left = size
        yield "window", size, _losses_of(shorter, keys[n - m :], tell)
    C = float(getattr(view.model, "C_", 0.0))
    other = view.copy().model
    for factor in COSTS if C else ():
        other.update(C=C * factor)
        yield "C", C * factor, _losses_of(other, keys[n - m :], tell)


def _losses_of(model: LiveEstimator, keys: list[Any], tell: Teller) -> Floats:
    """Return the losses (m,) of the examples with ``keys``, each by a model that was trained without the example."""
    place_of = {key: place for place, key in enumerate(model.keys_)}
    return _losses(View(model), np.array([place_of[key] for key in keys]), tell)


def _losses(view: View, places: Ints, tell: Teller) -> Floats:
    """Return the losses (m,) of the examples at ``places``, each by a model that was trained without the example."""
    tell.again()
    if view.labels:
        decisions = held_out_by_class(view.model, places)
    else:
        decisions = left_out(view.model, places, lambda done, total: tell.again())
    return losses_of(view, decisions, np.asarray(view.window.y)[places])


def _remedy(kind: Literal["window", "C"], value: float, present: Floats, found: Floats) -> Remedy:
    better = present - found
    spread = float(better.std(ddof=1) / math.sqrt(better.size))
    return Remedy(kind, value, float(found.mean()), float(better.mean()), spread)


def _by_class(view: View, losses: Floats, order: Ints) -> dict[Any, float]:
    """Return the mean loss of each class that has examples."""
    if view.prices is not None:
        return {}
    places = places_of(view, np.asarray(view.window.y)[order])
    return {view.labels[place]: float(losses[places == place].mean()) for place in np.unique(places).tolist()}
