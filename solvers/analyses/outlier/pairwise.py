"""The outlier paths of several classes: one path for each pair of classes, and one list of suspected labels.

An example belongs to the pairs of its class with each other class. If the label of an example contradicts the examples
of another class, it becomes an outlier on the path of that pair. The label that suits an outlier better is the other
class of the first pair in which it became an outlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.analyses.outlier.path import outlier_path
from livesvm.solvers.analyses.outlier.result import BestRobust, OutlierPath
from livesvm.solvers.analyses.regularization.optima import at_a_value
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.models.pairs_predictor import winners
from livesvm.solvers.robust.ramp_losses import Parameter
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.progress import Progress, part_of
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import dense
from livesvm.solvers.validation import Key

MOST_VALUES = 500  #: of the parameter at which errors are computed


class Suspect(NamedTuple):
    """An example with a label that looks wrong."""

    key: Key
    value: float  #: theta or s at which the example gave way first
    label: Any  #: its own
    others: tuple[Any, ...]  #: the other labels of the pairs in which it gave way, in that order


@dataclass(frozen=True)
class PairwiseOutlierPath:
    """The outlier paths of the pairs of several classes, all towards the same end.

    Attributes
    ----------
    parameter : {"theta", "s"}
        Which of the two runs.
    fixed : float
        The value of the other.
    keys : tuple of str or int
        The window's keys, oldest first.
    pairs : mapping
        The path of each pair of labels of which both have examples; its decisions are positive for the second.
    copy : View
        The model that the paths begin with.
    """

    parameter: Parameter
    keys: tuple[Key, ...]
    pairs: Mapping[tuple[Any, Any], OutlierPath]
    copy: View  #: of the model that the paths begin with

    @property
    def fixed(self) -> float:
        """The value of the parameter that is constant along the paths."""
        return self._any.fixed

    @property
    def start(self) -> float:
        """The parameter value at which the first of the paths starts."""
        starts = [path.start for path in self.pairs.values()]
        return min(starts) if self._any.grows else max(starts)

    @property
    def end(self) -> float:
        """The value at which all paths end."""
        return self._any.end

    @property
    def note(self) -> str:
        """The reason if every path is only a single model; else an empty text."""
        notes = {path.note for path in self.pairs.values()}
        return notes.pop() if len(notes) == 1 else ""

    @property
    def d_steps(self) -> int:
        """The number of D-steps, at which examples switch sides, on the paths of all pairs."""
        return sum(path.d_steps for path in self.pairs.values())

    @property
    def events(self) -> int:
        """Breakpoints of all paths, including those within D-steps."""
        return sum(path.events for path in self.pairs.values())

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Examples that are outliers of some pair at the end, in the order in which they first became outliers.

        Examples that become outliers at the same value are sorted by their margins in these pairs, the worst first.
        """
        sign = 1.0 if self._any.grows else -1.0
        found: dict[Key, list[tuple[float, float, int, float]]] = {}
        for number, path in enumerate(self.pairs.values()):
            depth = dict(zip(path.keys, path.depth.tolist(), strict=True))
            for key, value in path.order_of_outliers():
                found.setdefault(key, []).append((sign * value, depth[key], number, value))
        labels, pairs = dict(zip(self.keys, self._labels, strict=True)), list(self.pairs)
        out = []
        for key in sorted(found, key=lambda key: min(found[key])):
            gave_way = sorted(found[key])
            others = (two[two[0] == labels[key]] for two in (pairs[number] for _, _, number, _ in gave_way))
            out.append(Suspect(key, gave_way[0][3], labels[key], tuple(others)))
        return out

    def order_of_outliers(self) -> list[tuple[Key, float]]:
        """Return the key of each of ``suspects``, in order, and the value at which the example first became an outlier.

        Returns
        -------
        list of tuple
            (key, value of the parameter).
        """
        return [(one.key, one.value) for one in self.suspects]

    @at_a_value("dict\n    {pair of labels: live estimator}.")
    def at(self, value: float) -> dict[tuple[Any, Any], LiveEstimator]:
        """Return the robust model of each pair at a value of the parameter, as fitted, live copies."""
        return {two: path.at(value) for two, path in self.pairs.items()}

    def validation_errors(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the share of wrong labels along the path, by votes of the pairs.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,)
            Their labels.

        Returns
        -------
        values : ndarray, shape (k,)
            Values of the parameter: the breakpoints of all pairs, or 500 evenly among them.
        errors : ndarray, shape (k,)
            The share of wrong labels at each.
        """
        view = self.copy
        rows = view.rows(X)
        targets, values = view.targets(y, len(rows)), self._values()
        wins = np.empty((values.size, len(rows), len(view.pairs)), np.bool_)  # of the second class
        given = view.window.kernel.gram is not None
        for q, two in enumerate(view.pairs):
            path = self.pairs.get((view.labels[two[0]], view.labels[two[1]]))
            if path is None:  # one of the two has no examples
                wins[:, :, q] = ~(view.model.predictor().decide(rows)[:, q] > 0)
                continue
            here = np.flatnonzero(np.isin(view.window.y, two))
            wins[:, :, q] = path.decisions(dense(rows)[:, here] if given else rows, values) > 0
        n_classes = len(view.labels)
        labels = np.stack([winners(np.where(now, -1.0, 1.0), n_classes) for now in wins])
        return values, np.asarray((labels != targets).mean(axis=1))

    def best(self, X: ArrayLike, y: ArrayLike) -> BestRobust:
        """Return the value with the least error on validation examples.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,)
            Their labels.

        Returns
        -------
        BestRobust
            The value, the share of wrong labels there, and the models of the pairs.
        """
        values, errors = self.validation_errors(X, y)
        i = int(np.argmin(errors))
        return BestRobust(float(values[i]), float(errors[i]), self.at(float(values[i])))

    @property
    def _any(self) -> OutlierPath:
        return next(iter(self.pairs.values()))

    @property
    def _labels(self) -> list[Any]:
        """The label of each example in the window, oldest first."""
        return [self.copy.labels[int(place)] for place in self.copy.window.y]

    def _values(self) -> Floats:
        """Return the parameter values of all pairs' breakpoints, from start to end, thinned out if there are many."""
        every = [one.value for path in self.pairs.values() for one in path.breakpoints]
        values = np.unique([self.start, self.end, *every])
        if values.size > MOST_VALUES:
            values = values[np.round(np.linspace(0, values.size - 1, MOST_VALUES)).astype(np.int64)]
        return values if self._any.grows else values[::-1]


def pairwise_outlier_path(
    model: LiveEstimator,
    parameter: Parameter = "theta",
    *,
    theta: float = 0.0,
    s: float | None = None,
    progress: Progress | None = None,
) -> PairwiseOutlierPath:
    """Follow the outlier path of each pair of classes in a window, from the convex optimum of the pair.

    The parameters are those of ``outlier_path``; the model is not changed.

    Raises
    ------
    InvalidInput : a parameter cannot be used, or all examples have one class
    Cancelled : ``progress`` said so
    NotOptimal : a path could not be followed
    """
    copy = View(model).copy()
    todo = copy.both_there
    if not todo:
        raise InvalidInput("all examples have one class; no label contradicts another", field="window")
    labels, paths = copy.labels, {}
    for number, (a, b) in enumerate(todo):
        tell = part_of(progress, number, len(todo))
        alone = copy.of_pair((a, b), alone=True)
        paths[labels[a], labels[b]] = outlier_path(alone, parameter, theta=theta, s=s, progress=tell)
    return PairwiseOutlierPath(parameter, tuple(copy.window.keys), paths, copy)
