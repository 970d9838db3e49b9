"""Results of a regularization path: the optimum and the validation error for every value of a parameter.

Errors are exact. Every f is linear between two events, so the parameter values at which a decision changes its sign can
be computed. The mean absolute error and the mean pinball loss are linear between the values at which a residual changes
its sign. No error is interpolated between sampled values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers.runtime.docstrings import Taking
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.types import Floats, Ints

ROUNDING = 1e-10  # errors that differ by less than this share of the largest are the same


@dataclass(frozen=True)
class ErrorCurve:
    """An error as a function of the parameter: linear on each of k intervals, perhaps with jumps between them.

    Attributes
    ----------
    edges : ndarray, shape (k + 1,)
        Ends of the intervals, in units of the parameter, ascending.
    left, right : ndarray, shape (k,)
        The error at both ends of each interval; the same in classification, where it is constant.
    """

    edges: Floats
    left: Floats
    right: Floats

    def __call__(self, value: float) -> float:
        """Return the error at a value of the parameter."""
        i = np.clip(np.searchsorted(self.edges, value, side="right") - 1, 0, self.left.size - 1)
        share = (value - self.edges[i]) / (self.edges[i + 1] - self.edges[i])
        return float(self.left[i] + share * (self.right[i] - self.left[i]))

    def best(self) -> Best:
        """Return the interval with the least error; of several such intervals the longest, by the ratio of its ends.

        Returns
        -------
        Best
            The middle and the ends of that interval.
        """
        least = float(min(self.left.min(), self.right.min()))
        level = least + ROUNDING * float(max(self.left.max(), self.right.max()))
        flat = np.flatnonzero((self.left <= level) & (self.right <= level))
        if flat.size == 0:
            i = int(np.argmin(np.minimum(self.left, self.right)))
            at = float(self.edges[i] if self.left[i] <= self.right[i] else self.edges[i + 1])
            return Best(at, least, at, at)
        starts = flat[np.flatnonzero(np.diff(flat, prepend=-2) > 1)]
        ends = flat[np.flatnonzero(np.diff(flat, append=flat[-1] + 2) > 1)]
        low, high = self.edges[starts], self.edges[ends + 1]
        widest = int(np.argmax(np.log(high) - np.log(low)))
        return Best(float(np.sqrt(low[widest] * high[widest])), least, float(low[widest]), float(high[widest]))


@dataclass(frozen=True)
class Best:
    """The least error of a path.

    Attributes
    ----------
    value : float
        The parameter in the (geometric) middle of the interval.
    error : float
        The error there.
    low, high : float
        The whole interval on which the error is that.
    """

    value: float
    error: float
    low: float
    high: float

    _repr_html_ = html_of


def from_counts(wrong: int, values: Floats, delta: Ints, ends: tuple[float, float], m: int) -> ErrorCurve:
    """Return the share of wrong decisions as a function of the parameter between two values.

    Parameters
    ----------
    wrong : how many of the ``m`` decisions are wrong at the first of ``ends``
    values, delta : where that number changes on the way to the second, and by how much; in any order
    """
    low, high = sorted(ends)
    where, which = np.unique(values.clip(low, high), return_inverse=True)
    passed = np.concatenate([[0.0], np.cumsum(np.bincount(which, weights=delta, minlength=where.size))])
    edges = np.concatenate([[low], where, [high]])
    wide = np.diff(edges) > 0
    share = (wrong + (passed if ends[0] < ends[1] else passed[-1] - passed))[wide] / m
    return ErrorCurve(np.append(edges[:-1][wide], high), share, share)


def from_residuals(sums: Floats, bends: Floats, taus: Floats, ends: tuple[float, float], m: int) -> ErrorCurve:
    """Return the mean absolute residual, or pinball loss, as a function of the parameter on one leg.

    Parameters
    ----------
    sums : (s, 3) of each segment the sum of those sizes at its start and at its end, and its slope at the start
    bends : (c, 3) segment, distance in tau from its start, and change of slope, of each residual that turns its sign
    taus : (s, 2) where the segments start and end, from 1 to 0
    ends : the values of the parameter at the start and at the end of the leg
    """
    at_start, at_end, slope = sums.T
    bend, distance, turn = bends.T
    owner = np.concatenate([np.arange(at_start.size), bend.astype(np.int64)])
    distance, turn = (np.concatenate([np.zeros(at_start.size), a]) for a in (distance, turn))
    order = np.lexsort((distance, owner))
    owner, distance, turn = owner[order], distance[order], turn[order]
    first = np.searchsorted(owner, owner)
    slopes, offsets = (np.cumsum(a) - a for a in (turn, turn * distance))
    left = at_start[owner] + (slope[owner] + slopes - slopes[first]) * distance - (offsets - offsets[first])
    right = np.append(left[1:], 0.0)
    last = np.append(owner[1:] != owner[:-1], True)
    right[last] = at_end
    edges = ends[1] - np.append(taus[owner, 0] - distance, taus[-1, 1]) * (ends[1] - ends[0])
    if ends[1] < ends[0]:
        edges, left, right = edges[::-1], right[::-1], left[::-1]
    wide = np.diff(edges) > 0
    return ErrorCurve(np.append(edges[:-1][wide], edges[-1]), left[wide] / m, right[wide] / m)


def joined(curves: list[ErrorCurve]) -> ErrorCurve:
    """Join curves over consecutive ranges, and merge neighbouring intervals with the same constant error."""
    edges = np.concatenate([*(curve.edges[:-1] for curve in curves), curves[-1].edges[-1:]])
    left, right = (np.concatenate([getattr(curve, side) for curve in curves]) for side in ("left", "right"))
    new = np.ones(left.size, np.bool_)
    new[1:] = (left[1:] != right[:-1]) | (left[1:] != right[1:]) | (left[:-1] != right[:-1])
    keep = np.flatnonzero(new)
    last = np.append(keep[1:], left.size) - 1
    return ErrorCurve(np.append(edges[keep], edges[-1]), left[keep], right[last])


def mean_of(curves: list[ErrorCurve], shares: Floats) -> ErrorCurve:
    """Return the weighted sum of curves over the same range."""
    edges = np.unique(np.concatenate([curve.edges for curve in curves]))
    left, right = np.zeros((2, edges.size - 1))
    for curve, share in zip(curves, shares, strict=True):
        i = np.clip(np.searchsorted(curve.edges, edges[:-1], "right") - 1, 0, curve.left.size - 1)
        width = curve.edges[i + 1] - curve.edges[i]
        slope = (curve.right[i] - curve.left[i]) / width
        left += share * (curve.left[i] + slope * (edges[:-1] - curve.edges[i]))
        right += share * (curve.left[i] + slope * (edges[1:] - curve.edges[i]))
    return ErrorCurve(edges, left, right)


at_a_value = Taking(
    """
    value : float
        A value of the path's parameter.
    """,
    """
    InvalidInput
        The value is not on the path.
    """,
)


class Sizes(NamedTuple):
    """The numbers of free examples, and of support vectors: examples free or with a nonzero coefficient at a bound."""

    n_free: int
    n_support: int


class Optima(ABC):
    """The optimum of a window for every value of a parameter."""

    @abstractmethod
    @at_a_value("live estimator\n    Fitted; it knows nothing of the path.")
    def at(self, value: float) -> Any:
        """Return a fitted estimator for a value of the parameter."""

    @abstractmethod
    @at_a_value(
        """
        ndarray, shape (n,)
            Signed coefficients beta, oldest example first. Of more than two classes (n, n_classes - 1): column r is of
            the pair with the r-th other class, positive for the first of the two.
        """
    )
    def coefficients(self, value: float) -> Floats:
        """Return the coefficients at a value of the parameter."""

    @abstractmethod
    @at_a_value("Sizes\n    Counts of examples.")
    def sizes(self, value: float) -> Sizes:
        """Return how many examples are free at a value of the parameter, and how many are support vectors."""

    @abstractmethod
    def validation_error(self, X: ArrayLike, y: ArrayLike | None = None) -> ErrorCurve:
        """Return the error for every value of the parameter.

        The error is the share of wrong labels (classification, one-class) or, in regression, the mean absolute error in
        units of y; for a model with pinball loss it is the mean pinball loss.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,), or None, default None
            Their targets; of a one-class model 1 for inliers, all of them by default, and -1 for outliers.

        Returns
        -------
        ErrorCurve
            The error for every value of the parameter.

        Raises
        ------
        InvalidInput
            There are no rows, or targets that cannot be.
        """

    def best(self, X: ArrayLike, y: ArrayLike | None = None) -> Best:
        """Return the value of the parameter with the least error, and the whole interval with that error.

        Parameters
        ----------
        X : array_like, shape (m, d)
            Validation examples; with the kernel "precomputed" their kernel values (m, n) with the window.
        y : array_like, shape (m,), or None, default None
            Their targets.

        Returns
        -------
        Best
            The value, the error there, and the interval.
        """
        return self.validation_error(X, y).best()
