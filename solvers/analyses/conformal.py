"""Prediction sets and intervals from exact leave-one-out decisions, with a guarantee that holds for any distribution.

Intervals are jackknife+ and jackknife-minmax [Barber et al. 2021, sections 2 and 3.1]. Sets of classes are
cross-conformal with as many folds as examples [Vovk 2015], by the rule of [Barber et al. 2021, eq. 12]. With weights
the quantiles are those of [Barber et al. 2023, section 4.2].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.models_without import ModelsWithout, models_without_each
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, scores_of, strangeness
from livesvm.solvers.models.predictor import rows_of
from livesvm.solvers.models.target_scale import in_units
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.runtime.types import Bools, Floats

Method = Literal["plus", "minmax"]
BLOCK = 2**21  # decisions that are held at once


@dataclass(frozen=True)
class Conformal:
    """Prediction intervals, or sets of classes, with a guarantee that follows from a model's leave-one-out residuals.

    Attributes
    ----------
    classes : ndarray of shape (k,) or None
        The labels; None of regression.
    scores : ndarray of shape (n,)
        Residuals abs(y_i - f(x_i)) of regression, in units of f; of classes how far y_i is from being predicted. Each
        is by the model without example i.
    weights : ndarray of shape (n,)
        Of the examples in quantiles, at most 1; ones where all count the same.
    models : ModelsWithout
        The models without one example each.
    target_scale : str, default "none"
        Of f; the order of values is the same in units of y, so that quantiles and the guarantee are, too.
    """

    classes: NDArray[Any] | None
    scores: Floats
    weights: Floats
    models: ModelsWithout = field(repr=False)
    target_scale: str = "none"

    _repr_html_ = html_of

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return self.models.nbytes + self.scores.nbytes + self.weights.nbytes

    def intervals(self, X: Any, coverage: float, method: Method = "plus") -> tuple[Floats, Floats]:
        """Return the ends of an interval for the target of each row, (m,) and (m,); infinite where n is too small.

        Parameters
        ----------
        X : array-like or sparse of shape (m, d)
            Rows.
        coverage : float
            1 - alpha, between 0 and 1.
        method : {"plus", "minmax"}, default "plus"
            "plus": at least 1 - 2 alpha of targets are inside, and 1 - alpha but for unstable models. "minmax": at
            least 1 - alpha, by wider intervals. Both hold where examples and rows are exchangeable; with weights less
            by how much the distribution has changed [Barber et al. 2023, Theorem 2].

        Returns
        -------
        tuple of two ndarrays of shape (m,)
            The lower and the upper ends, in units of y.

        Raises
        ------
        InvalidInput
            Of a model with classes; rows of another width; a coverage that is none.
        """
        if self.classes is not None:
            raise InvalidInput("asks for an interval; this model has classes, and sets of them", field="coverage")
        level = validation.fraction(coverage, "coverage")
        rows = rows_of(self.models.predictor, X)
        low, high = np.empty((2, len(rows)))
        for part, f in self._blocks(rows):
            scores = self.scores[:, None]
            if method == "minmax":
                reach = self._quantile(scores, level)
                low[part], high[part] = f.min(axis=0) - reach, f.max(axis=0) + reach
            else:
                low[part], high[part] = -self._quantile(scores - f, level), self._quantile(scores + f, level)
        return in_units(self.target_scale, low), in_units(self.target_scale, high)

    def sets(self, X: Any, coverage: float) -> Bools:
        """Return which classes are in the set of each row, (m, k); a set may be empty, or have all classes.

        Parameters
        ----------
        X : array-like or sparse of shape (m, d)
            Rows.
        coverage : float
            1 - alpha, between 0 and 1; at least 1 - 2 alpha of labels are in their sets.

        Returns
        -------
        ndarray of bool of shape (m, k)
            Whether a class is in the set of a row.

        Raises
        ------
        InvalidInput
            Of a model without classes; rows of another width; a coverage that is none.
        """
        if self.classes is None:
            raise InvalidInput("asks for a set of classes; this model has none, and intervals", field="coverage")
        level = validation.fraction(coverage, "coverage")
        rows = rows_of(self.models.predictor, X)
        found = np.empty((len(rows), self.classes.size), dtype=bool)
        share, n = self.weights / (self.weights.sum() + 1.0), self.classes.size
        for part, f in self._blocks(rows):
            for label in range(n):
                is_stranger = strangeness(f, label, n) > self.scores[:, None]
                found[part, label] = share @ is_stranger < level
        return found

    def _blocks(self, rows: Any) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, each with the decisions on these rows by all models that lack one example."""
        step = max(1, BLOCK // self.scores.size)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, self.models.decisions(rows[part])

    def _quantile(self, values: Floats, level: float) -> Floats:
        """Return the weighted ``level`` quantile of each column (n, m), with an infinite value of weight 1 added."""
        order = np.argsort(values, axis=0)
        weight = np.cumsum(self.weights[order], axis=0) / (self.weights.sum() + 1.0)
        place = (weight < level - 1e-12).sum(axis=0)
        ordered = np.take_along_axis(values, order, axis=0)
        ends = np.vstack([ordered, np.full((1, values.shape[1]), np.inf)])
        return np.asarray(ends[place, np.arange(values.shape[1])])


def conformal(model: LiveEstimator, *, weights: ArrayLike | None = None, progress: Progress | None = None) -> Conformal:
    """Return intervals or sets of classes with a guarantee, from exact leave-one-out decisions on a model's window.

    Parameters
    ----------
    model : live classifier or regression model
        Fitted on at least two examples; it is not changed.
    weights : array-like of shape (n,) or None, default None
        Between 0 and 1, of the window's examples, oldest first: how much each counts in quantiles, as by its age. They
        have to be fixed before the rows are seen.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Conformal
        What gives intervals, or sets of classes.

    Raises
    ------
    InvalidInput
        A model without targets, fewer than two examples, or weights that are none.
    NotOptimal
        A path could not be followed.

    Examples
    --------
    >>> import numpy as np
    >>> from livesvm.solvers import IncrementalSVR, conformal
    >>> X = np.linspace(0.0, 3.0, 40)[:, None]
    >>> found = conformal(IncrementalSVR(C=10.0, gamma=1.0).fit(X, np.sin(X[:, 0])))
    >>> low, high = found.intervals([[1.0], [2.0]], coverage=0.9)
    >>> bool((low < np.sin([1.0, 2.0])).all() and (np.sin([1.0, 2.0]) < high).all())
    True
    """
    view, found = View(model), models_without_each(model, progress=progress)
    y, n = np.asarray(view.window.y), len(found.keys)
    counted = np.ones(n) if weights is None else validation.vector(weights, n, field="weights")
    if (counted < 0).any() or (counted > 1).any():
        raise InvalidInput("must be between 0 and 1", field="weights")
    if view.prices is not None:
        return Conformal(None, scores_of(view, found.own, y), counted, found, model.target_scale_)
    labels = np.asarray(view.labels)
    if labels.size < 2:
        raise InvalidInput("has no targets, and so no residuals", field="model")
    return Conformal(labels, scores_of(view, found.own, y), counted, found)
