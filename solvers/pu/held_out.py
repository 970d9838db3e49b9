"""Decisions on held-out examples, from which lam and a threshold of decisions are chosen.

The decisions on the examples of a fold are those of the model trained on all other folds. The weights of examples count
in training, but not in the shares of examples above a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu.prior import landmarks
from livesvm.solvers.pu.problem import LITTLE, coefficients, labelled_problem
from livesvm.solvers.pu.usmo import usmo
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense
from livesvm.solvers.validation import fraction

FOLDS = 3
MOST = 10_000  # examples of a kind that are used: a share among them has an error of half a percent
FEWEST = 2 * FOLDS  # examples of a kind by which lam is chosen
LAM = 0.01  #: lam if there are fewer
STEPS = tuple(-0.5 * step for step in range(2, 13))  #: logarithms to the base 10 of lam / k(x, x) that are tried
WORSE = 3  # the search ends after this many values of lam in a row that are worse than the best
TAU = 1e-2  # tolerance of the models of folds, in units of f: a share needs no more


class Threshold(NamedTuple):
    """A threshold of decisions, and its effect on held-out examples."""

    value: float  #: rows with a larger decision are predicted to be positive
    alerts: float  #: share of the unlabelled that are above
    precision: float  #: estimated share of positives among these, ``prior * recall / alerts``: as right as the prior is
    recall: float  #: share of the positives that are above


@dataclass(frozen=True)
class HeldOut:
    """Decisions of held-out positives (p,) and unlabelled (n,), each ascending, and the class prior."""

    positives: Floats
    unlabelled: Floats
    prior: float

    def at(self, value: float) -> Threshold:
        """Return the threshold ``value`` with its alerts, precision and recall."""
        recall, alerts = _above(self.positives, value), _above(self.unlabelled, value)
        precision = min(1.0, self.prior * recall / alerts) if alerts else 0.0
        return Threshold(value, alerts, precision, recall)

    def threshold(self, alerts: float | None = None, precision: float | None = None) -> Threshold:
        """Return the lowest threshold with at most the given share of alerts, or with at least the given precision.

        Parameters
        ----------
        alerts : largest share of the unlabelled above it, in (0, 1)
        precision : least estimated share of positives among those above it, in (0, 1)

        Raises
        ------
        InvalidInput : not exactly one of them is given, or it is out of range, or no threshold has that precision
        """
        if (alerts is None) == (precision is None):
            raise InvalidInput("give one of alerts and precision", field="alerts")
        if alerts is not None:
            allowed = int(fraction(alerts, "alerts") * self.unlabelled.size)
            return self.at(float(self.unlabelled[-1 - allowed]))
        wanted = fraction(precision, "precision")
        below = np.nextafter(min(self.unlabelled[0], self.positives[0]), -np.inf)
        found = [self.at(value) for value in (float(below), *np.unique(self.unlabelled).tolist())]
        for one in found:
            if one.precision >= wanted:
                return one
        best = max(one.precision for one in found)
        reason = f"no threshold is estimated to reach {wanted:g}; the highest estimate is {best:.3f}"
        raise InvalidInput(reason, field="precision")


class Folds:
    """Examples of both kinds, in folds, on which models are trained for any prior and lam.

    Parameters
    ----------
    X : (n, d) features; of the kernel "precomputed" the numbers (n, 1) of examples in its ``gram``. Sparse ones are
        looked at through a few landmarks
    y : (n,) 1 positive, 0 unlabelled, -1 unlabelled and confirmed to be negative
    weights : (n,); examples without a weight are left out
    """

    def __init__(self, kernel: Kernel, X: Features, y: Floats, weights: Floats) -> None:
        rng = np.random.default_rng(0)
        kinds = [rng.permutation(np.flatnonzero(which & (weights > 0)))[:MOST] for which in (y > 0, y <= 0)]
        rows = np.concatenate(kinds)
        X, self.y, self.weights = X[rows], y[rows], weights[rows]
        self.positive = self.y > 0
        self.fold = np.concatenate([np.arange(kind.size) % FOLDS for kind in kinds])
        self.sizes = tuple(kind.size for kind in kinds)
        if isinstance(X, SparseRows):
            X, kernel = landmarks(kernel, X, rng)(X)[:, :-1], Kernel("linear")
        self.kernel, self.X = kernel, dense(X)

    def held_out(self, prior: float, lam: float) -> HeldOut:
        """Return the decisions on all examples, each by a model trained without the example's fold.

        Raises
        ------
        InvalidInput : there are fewer than two examples of a kind
        NotOptimal : a model cannot be found
        """
        if min(self.sizes) < 2:
            raise InvalidInput("two positive and two unlabelled examples are needed, at least", field="window")
        decisions = np.empty(self.fold.size)
        for fold in range(min(FOLDS, max(self.sizes))):
            out = np.flatnonzero(self.fold == fold)
            decisions[out] = self._decided(np.flatnonzero(self.fold != fold), out, prior, lam)
        return HeldOut(np.sort(decisions[self.positive]), np.sort(decisions[~self.positive]), prior)

    def _decided(self, rest: Ints, out: Ints, prior: float, lam: float) -> Floats:
        """Return the decisions on the examples ``out`` by the model trained on the examples ``rest``."""
        X, y = self.X[rest], self.y[rest]
        problem, places = labelled_problem(self.kernel, X, y, self.weights[rest], prior, lam)
        found = usmo(problem, TAU)
        support = KernelRows(self.kernel, X, cache_bytes=LITTLE)
        beta = coefficients(problem, found.sigma, y, places)
        return support.product(self.X[out], np.arange(beta.size), beta) + found.b

    def best_lam(self, prior: float) -> float:
        """Return the lam with the least estimated risk, of equal risks the largest; or 0.01 for very few examples."""
        if min(self.sizes) < FEWEST:
            return LAM
        risks = self.risks(prior)
        return min(risks, key=lambda lam: risks[lam], default=LAM)

    def risks(self, prior: float) -> dict[float, float]:
        """Return the estimated risk for descending values of lam, until three in a row are worse than the best."""
        found: dict[float, float] = {}
        least, worse = np.inf, 0
        for lam, risk in self._risks(prior):
            found[lam] = risk
            least, worse = (risk, 0) if risk < least else (least, worse + 1)
            if worse == WORSE and least < prior:  # which is the risk of a model that flags nothing
                break
        return found

    def _risks(self, prior: float) -> Iterator[tuple[float, float]]:
        """Yield descending values of lam, each with its estimated risk, until a model cannot be trained."""
        size = float(self.kernel.diagonal(self.X).mean())
        unit = round(2.0 * np.log10(size)) / 2.0 if size > 0.0 else 0.0
        for step in STEPS:
            lam = float(f"{10.0 ** (unit + step):.2g}")
            if (risk := self.risk(prior, lam)) == np.inf:
                return
            yield lam, risk

    def risk(self, prior: float, lam: float) -> float:
        """Return the estimated risk of held-out examples for ``lam``; infinite if a model cannot be trained."""
        try:
            found = self.held_out(prior, lam)
        except NotOptimal:
            return np.inf
        return zero_one_risk(found.positives, found.unlabelled, prior)


def _above(ascending: Floats, value: float) -> float:
    """Return the share of the ``ascending`` values that are above ``value``."""
    return 1.0 - float(np.searchsorted(ascending, value, side="right")) / ascending.size


def zero_one_risk(positives: Floats, unlabelled: Floats, prior: float) -> float:
    """Return an unbiased estimate of the share of wrong labels, from decisions on positive and unlabelled examples.

    The estimate is ``2 prior P(f <= 0 | positive) + P(f > 0) - prior`` [du Plessis et al. 2014]; with few examples it
    may be below 0. The estimate is NaN if there are no positive or no unlabelled examples.
    """
    if not positives.size or not unlabelled.size:
        return float("nan")
    return float(2.0 * prior * np.mean(positives <= 0) + np.mean(unlabelled > 0) - prior)
