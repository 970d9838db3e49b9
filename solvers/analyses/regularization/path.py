"""The whole regularization path: the optimum for every value of a parameter, exact between its breakpoints.

The parameter is C [Ong, Shao & Yang], epsilon of a regression, or nu of a one-class model. Kinks, levels and the sum of
the coefficients are linear in each of these parameters, so ``parametric`` can track the path. The path is computed in
legs, up and down from the model's value of the parameter; a leg spans at most a factor of ten, so that small values
keep their digits. A path stores its linear segments and all changes of sides, so its memory grows with the number of
events times that of free examples.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.regularization.continuation import STEPS, Leg, PathReport, Walker
from livesvm.solvers.analyses.regularization.optima import (
    ErrorCurve,
    Optima,
    Sizes,
    at_a_value,
    from_counts,
    from_residuals,
    joined,
)
from livesvm.solvers.analyses.regularization.validation_sweep import Pieces, residual_sums, sign_changes
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.piecewise import Position, position
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, restored
from livesvm.solvers.models.window import ON_BOUNDARY
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.html import table_of
from livesvm.solvers.runtime.interrupt import raise_what_stopped, watch
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows

BLOCK = 512  # rows whose kernel values are held at once


class Breakpoints(NamedTuple):
    """All m changes of sides along a path, by ascending value of the parameter.

    ``before`` and ``after`` are segments of the example (``segment`` of ``problem.state``) just below and above the
    value. An even segment means that the example is bound, an odd one that it is free, at the margin.
    """

    value: Floats  #: (m,)
    example: Ints  #: (m,) index into ``keys``
    before: Ints  #: (m,)
    after: Ints  #: (m,)
    n_free: Ints  #: (m,) number of free examples just above the value
    n_support: Ints  #: (m,) number of examples that are free there or have a nonzero coefficient at a bound


class Turns(NamedTuple):
    """The parameter values at which decisions on m rows change their sign along a path."""

    positive: Bools  #: (m,) at the least value of the parameter
    value: Floats  #: (k,)
    row: Ints  #: (k,)


class RegularizationPath(Optima):
    """The optimum of a window for every value of a parameter in [``minimum``, ``maximum``].

    ``minimum`` and ``maximum`` are the requested ends, or values beyond which the path could not be followed: see
    ``report.ended``. Where no example is free, b is the middle of the optimal interval, as in a model that was trained
    there.

    Attributes
    ----------
    parameter : {"C", "epsilon", "nu"}
        What the path is over.
    minimum, maximum : float
        The ends of the path, in units of the parameter.
    keys : tuple of str or int
        The window's keys, oldest first.
    report : PathReport
        The cost and the accuracy of the path.

    References
    ----------
    [Ong, Shao & Yang]; see the papers in ``solvers/README.md``.
    """

    def __init__(self, copy: View, parameter: str, legs: list[Leg], report: PathReport) -> None:
        self.parameter = parameter
        self.minimum, self.maximum = legs[0].low, legs[-1].high
        self.keys = tuple(copy.window.keys)
        self.report = report
        self._view = copy
        self._model = copy.model
        self._arrays = copy.model.to_arrays()
        self._legs = legs
        self._highs = [leg.high for leg in legs]

    def _repr_html_(self) -> str:
        ends = [["minimum", self.minimum], ["maximum", self.maximum], ["examples", len(self.keys)]]
        return table_of(f"Path over {self.parameter}", ends + [[*row] for row in vars(self.report).items()])

    def at(self, value: float) -> Any:
        found = self.position(value)
        known = {"beta": found.beta, "segments": found.segment, "intercept": found.b}
        parameters = {**self._model.get_params(deep=False), self.parameter: float(value)}
        return restored(type(self._model), self._view.names, parameters, {**self._arrays, **known})

    def coefficients(self, value: float) -> Floats:
        return self.position(value).beta

    @at_a_value("float\n    b.")
    def intercept(self, value: float) -> float:
        """Return b at a value of the parameter, in the units of the features."""
        found = self.position(value)
        return found.b - self._view.window.moved(found.beta)

    def sizes(self, value: float) -> Sizes:
        found = self.position(value)
        free = are_free(found.segment)
        return Sizes(int(np.count_nonzero(free)), int(np.count_nonzero(free | (found.beta != 0.0))))

    def validation_error(self, X: ArrayLike, y: ArrayLike | None = None) -> ErrorCurve:
        rows, targets = self._examples(X, y)
        prices = self._view.prices
        starts = [self._pieces(leg) for leg in self._legs]
        found: list[list[Any]] = [[] for _ in self._legs]
        boundary = ON_BOUNDARY if self.parameter == "nu" else 0.0
        for first in range(0, targets.size, BLOCK):
            part = targets[first : first + BLOCK]
            K = self._kernel_columns(rows[first : first + BLOCK])
            for mine, pieces in zip(found, starts, strict=True):
                watch(pieces.stop, 0)
                if prices is None:
                    mine.append(sign_changes(pieces, K, part > 0, boundary))
                else:
                    mine.append(residual_sums(pieces, K, part, *prices))
                raise_what_stopped()
        curve = _count_curve if prices is None else _residual_curve
        return joined([curve(leg, mine, targets.size) for leg, mine in zip(self._legs, found, strict=True)])

    def turns(self, X: ArrayLike | SparseRows) -> Turns:
        """Return where decisions change their sign; only for paths over C or epsilon.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.

        Returns
        -------
        Turns
            Signs at the least value, and where which row changes its own.
        """
        rows = self._view.scaled(self._view.rows(X))
        starts = [self._pieces(leg) for leg in self._legs]
        positive, values, turned = [np.zeros(0, np.bool_)], [np.empty(0)], [np.empty(0, np.int64)]
        for first in range(0, len(rows), BLOCK):
            K = self._kernel_columns(rows[first : first + BLOCK])
            m = K.shape[1]
            before = None
            for leg, pieces in zip(self._legs, starts, strict=True):
                watch(pieces.stop, 0)
                low, tau, _, row = sign_changes(pieces, K, np.zeros(m, np.bool_), 0.0)
                raise_what_stopped()
                high = low ^ (np.bincount(row, minlength=m) & 1 == 1)
                if leg.start > leg.end:
                    low, high = high, low
                if before is None:
                    positive.append(low)
                else:  # rounding may have another sign at the start of a leg than at the end of that before
                    differs = np.flatnonzero(low != before)
                    values.append(np.full(differs.size, leg.low))
                    turned.append(first + differs)
                before = high
                values.append(leg.value(tau))
                turned.append(first + row)
        return Turns(np.concatenate(positive), np.concatenate(values), np.concatenate(turned))

    @at_a_value("Position\n    By example, oldest first.")
    def position(self, value: float) -> Position:
        """Return coefficients, segments of the losses and b at a value of the parameter, oldest example first."""
        if not self.minimum <= value <= self.maximum:
            raise InvalidInput(
                f"the path goes from {self.minimum:.6g} to {self.maximum:.6g}, not to {value!r}", field=self.parameter
            )
        leg = self._legs[bisect_left(self._highs, value)]
        levels = self._view.losses_at(self.parameter, value).levels
        return position(leg.places, leg.segments, leg.changes, leg.tau(value), levels)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _examples(self, X: ArrayLike, y: ArrayLike | None) -> tuple[Features, Floats]:
        rows = self._view.rows(X)
        if len(rows) == 0:
            raise InvalidInput("at least one example is needed", field="X")
        if self.parameter == "nu":
            targets = np.ones(len(rows)) if y is None else validation.vector(y, len(rows), field="y")
        else:
            targets = self._view.on_scale(self._view.targets(y, len(rows)))
        return self._view.scaled(rows), targets

    def _kernel_columns(self, rows: Features) -> Floats:
        return np.ascontiguousarray(self._view.window.kernel_values(rows).T)

    def _pieces(self, leg: Leg) -> Pieces:
        start, end = (self._view.losses_at(self.parameter, value).levels for value in (leg.start, leg.end))
        segment, rates = leg.places, end - start
        at_start = position(segment, leg.segments, leg.changes, 1.0, start).beta
        bound = np.take_along_axis(rates, (segment // 2)[:, None], 1)[:, 0] * (~are_free(segment))
        changes = leg.changes[1:]  # without their places
        return Pieces(leg.segments, *changes, rates, at_start, bound, np.zeros(1, np.int64))

    @cached_property
    def breakpoints(self) -> Breakpoints:
        """Every change of sides, by ascending value."""
        parts = [_ascending(leg) for leg in self._legs]
        ends = [leg.ends for leg in self._legs]
        for i in range(len(parts) - 1, 0, -1):  # where no example is free, sides may change between two legs
            low, high = ends[i - 1][1], ends[i][0]
            parted = np.flatnonzero(low != high)
            parts.insert(i, (np.full(parted.size, self._legs[i].low), parted, low[parted], high[parted]))
        value, example, before, after = (np.concatenate([p[i] for p in parts]) for i in range(4))
        levels = self._view.losses_at(self.parameter, 0.5 * (self.minimum + self.maximum)).levels
        counted = (levels != 0.0) | (levels[:, :1] == levels[:, -1:])
        first = ends[0][0]

        def weighs(indices: Ints, segment: Ints) -> Ints:
            return np.asarray((are_free(segment)) | counted[indices, segment // 2], np.int64)

        freed = np.subtract(are_free(after), are_free(before), dtype=np.int64)
        free = np.count_nonzero(are_free(first)) + np.cumsum(freed)
        every_example = np.arange(first.size)
        support = int(weighs(every_example, first).sum()) + np.cumsum(weighs(example, after) - weighs(example, before))
        return Breakpoints(value, example, before, after, free, support)


def _ascending(leg: Leg) -> tuple[Floats, Ints, Ints, Ints]:
    c = leg.changes
    value = leg.value(c.tau)
    if leg.start < leg.end:
        return value, c.slot, c.before, c.after
    return value[::-1], c.slot[::-1], c.after[::-1], c.before[::-1]


def _count_curve(leg: Leg, parts: list[tuple[Bools, Floats, Ints, Ints]], m: int) -> ErrorCurve:
    wrong = sum(int(part[0].sum()) for part in parts)
    tau, delta = np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
    return from_counts(wrong, leg.value(tau), delta, (leg.start, leg.end), m)


def _residual_curve(leg: Leg, parts: list[tuple[Floats, Floats]], m: int) -> ErrorCurve:
    sums = np.sum([part[0] for part in parts], axis=0)
    bends = np.concatenate([part[1] for part in parts])
    taus = np.stack([leg.segments.start_tau, leg.segments.end_tau], axis=1)
    return from_residuals(sums, bends, taus, (leg.start, leg.end), m)


def regularization_path(
    model: LiveEstimator, parameter: str, minimum: float, maximum: float, progress: Progress | None = None
) -> RegularizationPath:
    """Return the path of a fitted model's optimum over all values of ``parameter`` from ``minimum`` to ``maximum``.

    The model is not changed: the path is computed on a copy.

    Raises
    ------
    InvalidInput : the range is empty or not positive, the window is, or has one class only
    Cancelled : ``progress`` said so
    NotOptimal : the path could not be followed to the acceptable gap, not even its first piece; one that is followed
        for a while ends there, and says so in its report
    """
    started = time.perf_counter()
    low, high = (validation.positive(v, f"{parameter}_{end}") for v, end in ((minimum, "min"), (maximum, "max")))
    if not low < high:
        raise InvalidInput(f"must be above {parameter}_min = {minimum!r}, not {maximum!r}", field=f"{parameter}_max")
    if model.n_window_ == 0:
        raise InvalidInput("the window is empty; a path needs examples", field="window")
    with steadily(progress, STEPS) as teller:
        copy = View(model).copy()
        walker = Walker(copy, parameter, low, high, teller)
        legs = walker.walk()
    return RegularizationPath(copy, parameter, legs, walker.report(time.perf_counter() - started))
