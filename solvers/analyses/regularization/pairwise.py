"""The regularization path of several classes: one path over C for each pair of classes, and the joint results.

Every pair of classes is a separate problem [Hsu & Lin, one-against-one], so the optimum for a C consists of the optima
of all pairs for this C.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.regularization.continuation import PathReport
from livesvm.solvers.analyses.regularization.optima import ErrorCurve, Optima, Sizes, at_a_value, from_counts, joined
from livesvm.solvers.analyses.regularization.path import RegularizationPath, Turns, regularization_path
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, restored
from livesvm.solvers.models.pairs_predictor import Two, by_other_class, winners
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.progress import Progress, part_of
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, dense

OFTEN = 1024  # changes of sign between two looks at whether to stop


class PairBreakpoints(NamedTuple):
    """All m changes of sides along the paths of all pairs, by ascending value of the parameter."""

    value: Floats  #: (m,)
    example: Ints  #: (m,) index into the window's ``keys``
    pair: Ints  #: (m,) number of the pair among ``pairs``
    before: Ints  #: (m,) place on the example's staircase, as in ``Breakpoints``
    after: Ints  #: (m,)
    n_free: Ints  #: (m,) number of examples that are free in some pair just above the value
    n_support: Ints  #: (m,) number of support vectors of some pair there


class PairwiseRegularizationPath(Optima):
    """The optimal models of a classifier of several classes, for every C in [``minimum``, ``maximum``].

    ``minimum`` and ``maximum`` are the requested ends, or values of C at which the path of a pair ended early: see
    ``report.ended``.

    Attributes
    ----------
    parameter : str
        "C".
    minimum, maximum : float
        The ends of the path.
    keys : tuple of str or int
        The window's keys, oldest first.
    pairs : dict
        The path of each pair of labels of which both have examples; its keys are theirs, and its decisions
        positive for the second label, as in every model of two classes.
    report : PathReport
        What all paths took together.
    """

    parameter = "C"

    def __init__(self, copy: View, paths: Mapping[Two, RegularizationPath], seconds: float) -> None:
        self.minimum = max(path.minimum for path in paths.values())
        self.maximum = min(path.maximum for path in paths.values())
        if not self.minimum < self.maximum:
            raise NotOptimal("there is no C to which the paths of all pairs could be followed")
        self.keys = tuple(copy.window.keys)
        self.pairs = {(copy.labels[a], copy.labels[b]): path for (a, b), path in paths.items()}
        self.report = _together([path.report for path in paths.values()], seconds)
        self._view = copy
        self._paths = dict(paths)
        self._classes = copy.window.y.astype(np.int64)

    def at(self, value: float) -> Any:
        model = self._view.model
        arrays = model.to_arrays()
        rows, segments, intercepts, start = [], [], list(arrays["intercept"]), 0
        for q, two in enumerate(self._view.pairs):
            part = slice(start, start + self._here(two).size)
            start = part.stop
            found = self._paths[two].position(value) if two in self._paths else None
            rows.append(arrays["beta"][part] if found is None else found.beta)
            segments.append(arrays["segments"][part] if found is None else found.segment)
            intercepts[q] = intercepts[q] if found is None else found.b
        known = {"beta": np.concatenate(rows), "segments": np.concatenate(segments), "intercept": np.array(intercepts)}
        parameters = {**model.get_params(deep=False), self.parameter: float(value)}
        return restored(type(model), self._view.names, parameters, {**arrays, **known})

    def coefficients(self, value: float) -> Floats:
        rows = np.zeros((len(self._view.pairs), len(self.keys)))
        for row, two in zip(rows, self._view.pairs, strict=True):
            if two in self._paths:
                row[self._here(two)] = self._paths[two].coefficients(value)
        return by_other_class(rows, self._classes, len(self._view.labels))

    @at_a_value("ndarray, shape (n_pairs,)\n    Intercepts, of the sign of ``coefficients``.")
    def intercepts(self, value: float) -> Floats:
        """Return the intercept of each of ``pairs`` at a value of C."""
        return -np.array([path.intercept(value) for path in self.pairs.values()])

    def sizes(self, value: float) -> Sizes:
        return Sizes(*(int(np.count_nonzero(counts)) for counts in self._counts(value)))

    def validation_error(self, X: ArrayLike, y: ArrayLike | None = None) -> ErrorCurve:
        rows = self._view.rows(X)
        m = len(rows)
        if m == 0:
            raise InvalidInput("at least one example is needed", field="X")
        targets = self._view.targets(y, m).astype(np.int64)
        all_turns = [self._turns(q, two, rows) for q, two in enumerate(self._view.pairs)]
        wins = np.stack([turns.positive for turns in all_turns], axis=1)  # of the second class
        value, row = (np.concatenate([turns[i] for turns in all_turns]) for i in (1, 2))
        pair = np.repeat(np.arange(len(all_turns)), [turns.row.size for turns in all_turns])
        order = np.argsort(value, kind="stable")
        wrong = self._winners(wins) != targets
        counts, first = np.zeros(order.size, np.int64), int(wrong.sum())
        for k, i in enumerate(order.tolist()):
            if k % OFTEN == 0:
                check()
            at = row[i]
            wins[at, pair[i]] ^= True
            now = bool(self._winners(wins[at : at + 1])[0] != targets[at])
            counts[k] = int(now) - int(wrong[at])
            wrong[at] = now
        return joined([from_counts(first, value[order], counts, (self.minimum, self.maximum), m)])

    # -- inside --------------------------------------------------------------------------------------------------------

    def _here(self, two: Two) -> Ints:
        """Return the positions in the window of the examples of a pair of classes."""
        return np.flatnonzero(np.isin(self._classes, two))

    def _winners(self, wins: Bools) -> Ints:
        """Return the class that wins most pairs in each row; ``wins`` (m, n_pairs) says where the second class wins."""
        return winners(np.where(wins, -1.0, 1.0), len(self._view.labels))

    def _turns(self, q: int, two: Two, rows: Features) -> Turns:
        """Return where decisions of pair ``q`` change their sign; if one of its classes is empty, they never do."""
        if two not in self._paths:
            decisions = self._view.model.predictor().decide(rows)[:, q]
            return Turns(~(decisions > 0), np.empty(0), np.empty(0, np.int64))
        given = self._view.window.kernel.gram is not None
        return self._paths[two].turns(dense(rows)[:, self._here(two)] if given else rows)

    def _counts(self, value: float) -> tuple[Ints, Ints]:
        """Return, for each example, the number of pairs in which it is free, and in which it is a support vector."""
        free, support = np.zeros((2, len(self.keys)), np.int64)
        for two, path in self._paths.items():
            found, here = path.position(value), self._here(two)
            is_free = are_free(found.segment)
            free[here] += is_free
            support[here] += is_free | (found.beta != 0.0)
        return free, support

    @cached_property
    def breakpoints(self) -> PairBreakpoints:
        """Every change of sides, by ascending value."""
        parts: list[tuple[Any, ...]] = []
        for q, (two, path) in enumerate(self._paths.items()):
            found = path.breakpoints
            supports = np.diff(found.n_support, prepend=path.sizes(path.minimum).n_support)
            pair = np.full(found.value.size, q)
            parts.append((found.value, self._here(two)[found.example], pair, found.before, found.after, supports))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        order = order[(columns[0][order] >= self.minimum) & (columns[0][order] <= self.maximum)]
        value, example, pair, before, after, supports = (column[order] for column in columns)
        free, support = self._counts(self.minimum)
        n_free = _how_many(example, np.subtract(are_free(after), are_free(before), dtype=np.int64), free)
        n_support = _how_many(example, supports, support)
        return PairBreakpoints(value, example, pair, before, after, n_free, n_support)


def _how_many(example: Ints, change: Ints, at_first: Ints) -> Ints:
    """Return the number of examples with a count above 0, (m,), after each of m changes of the counts.

    Parameters
    ----------
    example, change : (m,) of which example the count changes, and by how much
    at_first : (n,) the counts before
    """
    order = np.argsort(example, kind="stable")
    grouped = example[order]
    total = np.cumsum(change[order])
    first = np.searchsorted(grouped, grouped)
    after = at_first[grouped] + total - (total - change[order])[first]
    gained = np.empty(example.size, np.int64)
    gained[order] = (after > 0).astype(np.int64) - (after - change[order] > 0)
    return np.count_nonzero(at_first) + np.cumsum(gained)


def _together(reports: list[PathReport], seconds: float) -> PathReport:
    """Return one report on all paths: the sums of their counts, and the largest gap."""
    sums = {
        name: sum(getattr(one, name) for one in reports) for name in ("events", "legs", "exchanges", "last_resorts")
    }
    gap = max(one.relative_gap for one in reports)
    ended = tuple(end for one in reports for end in one.ended)
    return replace(reports[0], **sums, relative_gap=gap, seconds=seconds, ended=ended)


def pairwise_regularization_path(
    model: LiveEstimator, minimum: float, maximum: float, progress: Progress | None = None
) -> PairwiseRegularizationPath:
    """Return the path of a window with several classes over all values of C from ``minimum`` to ``maximum``.

    The model is not changed.

    Raises
    ------
    InvalidInput : the range is empty or not positive, the window is, or has one class only
    Cancelled : ``progress`` said so
    NotOptimal : a path could not be followed to the acceptable gap
    """
    started = time.perf_counter()
    copy = View(model).copy()
    todo = copy.both_there
    if not todo:
        raise InvalidInput("all examples have one class; a path needs two at least", field="window")
    paths = {}
    for number, two in enumerate(todo):
        tell = part_of(progress, number, len(todo))
        paths[two] = regularization_path(copy.of_pair(two, alone=True), "C", minimum, maximum, tell)
    return PairwiseRegularizationPath(copy, paths, time.perf_counter() - started)
