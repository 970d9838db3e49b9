"""Piecewise-linear convex losses as tables of kinks and levels; ``homotopy.solve`` follows the optimum as these move.

An example's loss has kinks ``k_0 < k_1 < ...`` and slopes ``s_0 < s_1 < ...`` between them. For each slope the
optimality conditions demand the coefficient ``beta = -w s``; these coefficients are the *levels* ``a_0 > a_1 > ...``.
Plotted as ``beta`` against ``f``, the allowed values are a descending staircase. On a step (a *piece*) ``beta`` is
constant at a level; on a riser (a *kink*) ``f`` is constant and ``beta`` is free. ::

    hinge, y = +1 :  kinks [1]    levels [C, 0]         hinge, y = -1 :  kinks [-1]   levels [0, -C]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Bools, Floats, Ints

MAX_KINKS = 2  #: most kinks of a loss, and the width of tables: the tube loss has two, all others have fewer

# Columns of the two kinks in the tables. Loops over all examples read each by name: an inner loop over kinks would keep
# the compiler from vector instructions. With another MAX_KINKS this line fails at import.
FIRST, LAST = range(MAX_KINKS)


@by_reference
class Losses(NamedTuple):
    """A loss in each row; unused kinks are ``+inf``, and unused levels repeat the last one."""

    kinks: Floats  #: (m, MAX_KINKS) ascending
    levels: Floats  #: (m, MAX_KINKS + 1) descending, weight included
    n_kinks: Ints  #: (m,)

    def of(self, indices: Ints) -> Losses:
        """Return the losses of some examples, by position."""
        return Losses(self.kinks[indices], self.levels[indices], self.n_kinks[indices])


def hinge(y: Floats, C: Floats) -> Losses:
    """Return the hinge losses ``C max(0, 1 - y f)`` for labels ``y`` (m,) in {-1, +1} and weights ``C`` (m,).

    An example of weight zero has no loss at all.
    """
    losses = _empty(y.size)
    _fill_hinge(losses, y, C)
    return losses


def epsilon_insensitive(y: Floats, epsilon: float, C: Floats) -> Losses:
    """Return the losses ``C max(0, |y - f| - epsilon)``; for ``epsilon = 0`` the absolute deviation, with one kink."""
    if epsilon == 0.0:
        return _one_kink(y, C, -C)
    losses = _empty(y.size)
    _fill_tube(losses, y, epsilon, C)
    return losses


def pinball(y: Floats, quantile: float, C: Floats) -> Losses:
    """Return the losses ``C max(q (y - f), (1 - q) (f - y))``; the best constant f is the quantile ``q`` of y."""
    return _one_kink(y, C * quantile, -C * (1.0 - quantile))


def one_class(weights: Floats) -> Losses:
    """Return the losses ``weight max(0, -f)``, for a model in which betas sum up to ``nu`` times the sum of weights."""
    return _one_kink(np.zeros(weights.size), weights, np.zeros(weights.size))


def positive_unlabelled(
    y: Floats, weights: Floats, prices: tuple[float, float, float] = (1.0, 1.0, 1.0), linear: float = 1.0
) -> Losses:
    """Return the losses of examples with labels ``y`` (m,): 1 positive, 0 unlabelled, -1 negative.

    The losses are made of the double hinge ``l(z) = max(0, (1 - z) / 2, -z)`` [du Plessis et al. 2015] and the cost
    ``c``, the weight times the price of the label. Unlabelled and negative examples have the loss ``c l(-f)``; positive
    examples have the loss ``linear`` times ``-c f`` plus ``1 - linear`` times ``c l(f)`` [Sakai et al. 2017].
    """
    losses = _empty(weights.size)
    _fill_positive_unlabelled(losses, y, weights, np.array(prices), linear)
    return losses


def _one_kink(kink: Floats, left: Floats, right: Floats) -> Losses:
    """Return losses with one kink each, given the coefficients that each loss demands left and right of its kink."""
    losses = _empty(kink.size)
    _fill(losses, np.array(kink, np.float64), np.array(left, np.float64), np.array(right, np.float64))
    return losses


@compiled
def _fill_hinge(losses: Losses, y: Floats, C: Floats) -> None:
    for i in range(y.size):
        _set(losses, i, y[i], max(y[i], 0.0) * C[i], min(y[i], 0.0) * C[i])


@compiled
def _fill_tube(losses: Losses, y: Floats, epsilon: float, C: Floats) -> None:
    for i in range(y.size):
        losses.kinks[i, FIRST] = y[i] - epsilon if C[i] > 0.0 else np.inf
        losses.kinks[i, LAST] = y[i] + epsilon if C[i] > 0.0 else np.inf
        losses.levels[i, FIRST], losses.levels[i, LAST], losses.levels[i, MAX_KINKS] = C[i], 0.0, -C[i]
        losses.n_kinks[i] = 2 if C[i] > 0.0 else 0


@compiled
def _fill_positive_unlabelled(losses: Losses, y: Floats, weights: Floats, prices: Floats, linear: float) -> None:
    for i in range(weights.size):
        cost = prices[0 if y[i] > 0.0 else (1 if y[i] == 0.0 else 2)] * weights[i]
        first, last = (cost, linear * cost) if y[i] > 0.0 else (0.0, -cost)
        has_kinks = first > last
        losses.kinks[i, FIRST], losses.kinks[i, LAST] = (-1.0, 1.0) if has_kinks else (np.inf, np.inf)
        losses.levels[i, FIRST], losses.levels[i, LAST], losses.levels[i, MAX_KINKS] = first, 0.5 * (first + last), last
        losses.n_kinks[i] = 2 if has_kinks else 0


@compiled
def _fill(losses: Losses, kink: Floats, left: Floats, right: Floats) -> None:
    for i in range(kink.size):
        _set(losses, i, kink[i], left[i], right[i])


@compiled
def _set(losses: Losses, i: int, kink: float, left: float, right: float) -> None:
    losses.levels[i, 0] = left
    losses.levels[i, 1:] = right
    losses.kinks[i, 0] = kink if left > right else np.inf
    losses.kinks[i, 1:] = np.inf
    losses.n_kinks[i] = left > right


def leaving(m: int) -> Losses:
    """Return the losses of ``m`` examples that leave the window: zero everywhere."""
    return Losses(np.full((m, MAX_KINKS), np.inf), np.zeros((m, MAX_KINKS + 1)), np.zeros(m, np.int64))


def _empty(m: int) -> Losses:
    """Return space for the losses of ``m`` examples."""
    return Losses(np.empty((m, MAX_KINKS)), np.empty((m, MAX_KINKS + 1)), np.empty(m, np.int64))


NO_LOSSES = leaving(0)


def values(losses: Losses, f: Floats) -> Floats:
    """Return the value of each loss at ``f`` (m,), which is 0 at the first kink; a loss without kinks is linear."""
    kinks, levels, n_kinks = losses
    anchor = np.where(n_kinks > 0, kinks[:, 0], 0.0)
    total: Floats = -levels[:, 0] * (f - anchor)
    for q in range(kinks.shape[1]):
        there = n_kinks > q
        total[there] += (levels[there, q] - levels[there, q + 1]) * np.maximum(0.0, f[there] - kinks[there, q])
    return total


def nearest_kink(losses: Losses, beta: Floats) -> tuple[Floats, Bools]:
    """Return for each example the kink that allows ``beta`` (m,), and whether the example has a kink at all."""
    kinks, levels, n_kinks = losses
    q = np.zeros(beta.size, np.int64)
    for k in range(1, kinks.shape[1]):
        q[(n_kinks > k) & (beta < levels[:, k])] = k
    has = n_kinks > 0
    return np.where(has, np.take_along_axis(kinks, q[:, None], 1)[:, 0], 0.0), has
