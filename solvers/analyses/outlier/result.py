"""The result of an outlier path: a model for every parameter value, the outliers in order, and the best value."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View
from livesvm.solvers.robust.path import AT_ONCE, Leg, Nodes, RobustSolution, Walked
from livesvm.solvers.robust.ramp_losses import WITHIN, Parameter, Sides
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.interrupt import parts
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import SparseRows
from livesvm.solvers.validation import Key


class Breakpoint(NamedTuple):
    """A change of one example along an outlier path, such as becoming an outlier."""

    value: float  #: of theta or s
    key: Key
    #: "becomes outlier", "becomes inlier"; between D-steps "joins margin", "leaves margin", "crosses margin"
    event: str


class BestRobust(NamedTuple):
    """The breakpoint with the least validation error; of equal errors the first along the path."""

    value: float  #: of theta or s
    error: float  #: share of wrong labels, or mean absolute error in units of y (regression; or pinball loss)
    model: Any  #: live estimator; of several classes one for each pair of labels


def arrays_at(arrays: Mapping[str, Any], found: RobustSolution, sides: Sides, robust: Robustness) -> dict[str, Any]:
    """Return the ``arrays`` of a model (see ``to_arrays``) with ``found``, another solution of its window, in place."""
    place = {"beta": found.beta, "segments": found.segment, "intercept": found.b, "sides": sides}
    return {**arrays, **place, "robust": np.array([robust.theta, robust.s])}


def _decisions(kernel: Floats, nodes: Nodes) -> Floats:
    """Return f of m rows at each of k nodes of the path, (k, m), given the rows' ``kernel`` values (m, n)."""
    f = np.empty((nodes.b.size, kernel.shape[0]))
    for part in parts(kernel.shape[0], nodes.beta.size):
        f[:, part] = (kernel[part] @ nodes.beta.T + nodes.b).T
    return f


@dataclass(frozen=True)
class OutlierPath:
    """Models from the convex one at ``start`` to the most robust one at ``end``."""

    parameter: Parameter  #: "theta" or "s": which of the two runs
    fixed: float  #: the value of the other parameter
    start: float  #: value of the parameter at which the path begins
    end: float  #: value at which it ends
    keys: tuple[Key, ...]  #: the window's keys, oldest first
    note: str  #: why the path is only one model, if it is; else empty
    walked: Walked
    depth: Floats  #: (n,) position of each f at the start, in units of s; the least is the deepest beyond a cutoff
    grows: bool  #: whether the parameter grows along the path
    restored: Callable[[Mapping[str, Any]], LiveEstimator]
    arrays: Mapping[str, Any]  #: of the model that the path began with

    @property
    def d_steps(self) -> int:
        """The number of D-steps, at which examples become outliers or inliers."""
        return len(self.walked.jumps)

    @property
    def drops(self) -> Floats:
        """The decrease of the objective at each D-step, (d_steps,)."""
        return np.array([jump.drop for jump in self.walked.jumps])

    @property
    def events(self) -> int:
        """The number of breakpoints of the path, including those within D-steps."""
        return self.walked.events

    @property
    def stalls(self) -> int:
        """How often tied limits had to be moved apart, by 1e-8 of a loss."""
        return self.walked.stalls

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """The changes of examples in the order of the path."""
        out = []
        for i, leg in enumerate(self.walked.legs):
            out += [Breakpoint(value, self.keys[j], event) for value, j, event in leg.breakpoints_within()]
            if i < self.d_steps:
                jump = self.walked.jumps[i]
                out += [
                    Breakpoint(jump.value, self.keys[j], "becomes inlier" if side == WITHIN else "becomes outlier")
                    for j, side in jump.switched
                ]
        return out

    def at(self, value: float) -> LiveEstimator:
        """Return the robust model for a value of the parameter, as a fitted, live copy.

        At the value of a D-step the returned model is that after the step. For a value of s at which no example is
        beyond its cutoff yet, the returned model is the convex one.

        Raises
        ------
        InvalidInput : the value is not one of the path's
        """
        leg = self._leg(value)
        robust = self.robustness(value)
        return self.restored(arrays_at(self.arrays, leg.at(value), leg.sides, robust))

    def robustness(self, value: float) -> Robustness:
        """Return a value for ``update(robust=...)``, which turns a live model of the same window into ``at(value)``."""
        leg = self._leg(value)
        theta, s = (value, self.fixed) if self.parameter == "theta" else (self.fixed, value)
        return Robustness(theta, s, {self.keys[j]: int(leg.sides[j]) for j in np.flatnonzero(leg.sides)})

    def outliers(self, value: float | None = None) -> list[Key]:
        """Return the keys of the outliers at a value of the parameter, by default at the end, oldest first."""
        leg = self._leg(self.end if value is None else value)
        return [self.keys[j] for j in np.flatnonzero(leg.sides)]

    def order_of_outliers(self) -> list[tuple[Key, float]]:
        """Return key and parameter value of each outlier at the end, in the order in which they became outliers.

        Examples beyond their cutoff at the start of the path come first, those furthest beyond it before others.
        """
        sides = self.walked.legs[0].sides
        worst_first = np.argsort(self.depth, kind="stable")
        since = {j: self.start for j in worst_first.tolist() if sides[j]}
        for jump in self.walked.jumps:
            for j, side in jump.switched:
                since.pop(j, None)
                if side != WITHIN:
                    since[j] = jump.value
        return [(self.keys[j], value) for j, value in since.items()]

    def validation_errors(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the parameter values of all breakpoints, (k,), and the errors at these on ``X`` (m, d), ``y`` (m,)."""
        model = self.at(self.start)
        view = View(model)
        rows = view.scaled(view.rows(X))
        targets, kernel = view.targets(y, len(rows)), view.window.kernel_values(rows)
        values, errors = [np.empty(0)], []
        for leg in self.walked.legs:
            last = leg is self.walked.legs[-1]
            if leg.start == leg.end and not last:
                continue  # two D-steps at one value: only the models after the second count
            for nodes in leg.nodes(last):
                values.append(nodes.values)
                errors += [view.error(f, targets) for f in _decisions(kernel, nodes)]
        return np.concatenate(values), np.array(errors)

    def decisions(self, X: ArrayLike | SparseRows, values: Floats) -> Floats:
        """Return f of the rows ``X`` (m, d) for each of k ``values`` of the parameter, (k, m)."""
        model = self.at(self.start)
        view = View(model)
        kernel = view.window.kernel_values(view.scaled(view.rows(X)))
        out = np.empty((values.size, kernel.shape[0]))
        for start in range(0, values.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found = [self._leg(value).at(value) for value in values[part].tolist()]
            nodes = Nodes(values[part], np.array([one.beta for one in found]), np.array([one.b for one in found]))
            out[part] = _decisions(kernel, nodes)
        return out

    def best(self, X: ArrayLike, y: ArrayLike) -> BestRobust:
        """Return the breakpoint with the least error on validation examples ``X`` (m, d) with targets ``y`` (m,)."""
        values, errors = self.validation_errors(X, y)
        i = int(np.argmin(errors))
        return BestRobust(float(values[i]), float(errors[i]), self.at(float(values[i])))

    def _leg(self, value: float) -> Leg:
        number = validation.number_or_none(value)
        if number is None:
            raise InvalidInput(f"must be a finite number, not {value!r}", field=self.parameter)
        sign = 1.0 if self.grows else -1.0
        before = self.parameter == "s" or sign * number >= sign * self.start
        if not before or sign * number > sign * self.end:
            low, high = sorted((self.start, self.end))
            raise InvalidInput(f"the path runs from {low:g} to {high:g}; {number:g} is not on it", field=self.parameter)
        legs = self.walked.legs
        return legs[max(0, bisect_right([sign * leg.start for leg in legs], sign * number) - 1)]
