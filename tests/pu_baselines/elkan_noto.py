"""The two-step baseline: a classifier of labelled and unlabelled examples, divided by how often positives are labelled.

Where labelled examples are drawn from the positives of the sample at random, ``P(positive | x) = P(labelled | x) / c``
with the same c everywhere: the mean of ``P(labelled | x)`` over held-out positives [Elkan & Noto 2008, estimator e1].
The classifier is kernel logistic regression on landmark features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.prior import landmarks
from livesvm.solvers.runtime.types import Bools, Floats

FOLDS = 5
RIDGE = 1e-2  # of the mean square of a feature, times the number of examples
MOST_STEPS = 50
ENOUGH = 1e-8  # change of the coefficients, relative to their size


@dataclass(frozen=True)
class ElkanNoto:
    """A classifier of labelled examples, and the probability ``c`` that a positive is labelled."""

    features: Callable[[Floats], Floats]
    weights: Floats
    c: float

    def decision_function(self, X: Floats) -> Floats:
        """Return the estimated probability of being positive less a half, for ``X`` (m, d), as (m,)."""
        return np.asarray(_probability(self.features(X), self.weights) / self.c - 0.5)


def elkan_noto(kernel: Kernel, P: Floats, U: Floats, seed: int = 0) -> ElkanNoto:
    """Learn from positives ``P`` (p, d), labelled at random, and unlabelled ``U`` (n, d).

    Raises
    ------
    InvalidInput : fewer than two positives, or no unlabelled
    """
    if len(P) < 2 or not len(U):
        raise InvalidInput("two positive examples and an unlabelled one are needed", field="s")
    rng = np.random.default_rng(seed)
    features = landmarks(kernel, np.concatenate([P, U]), rng)
    A = features(np.concatenate([P, U]))
    labelled = np.arange(len(A)) < len(P)
    fold = rng.permutation(len(P)) % min(FOLDS, len(P))
    held_out = np.empty(len(P))
    for k in range(fold.max() + 1):
        out = np.zeros(len(A), np.bool_)
        out[: len(P)] = fold == k
        held_out[fold == k] = _probability(A[out], _logistic(A[~out], labelled[~out]))
    return ElkanNoto(features, _logistic(A, labelled), float(held_out.mean()))


def _logistic(A: Floats, labelled: Bools) -> Floats:
    """Return the coefficients of ridge logistic regression, by Newton's method; the last, of the one, is free."""
    penalty = np.full(A.shape[1], RIDGE * float(np.mean(np.square(A[:, :-1]))) * len(A))
    penalty[-1] = 1e-9 * len(A)
    w = np.zeros(A.shape[1])
    for _ in range(MOST_STEPS):
        p = _probability(A, w)
        hessian = (A * (p * (1.0 - p))[:, None]).T @ A + np.diag(penalty)
        step = np.linalg.solve(hessian, A.T @ (labelled - p) - penalty * w)
        w = w + step
        if np.abs(step).max() <= ENOUGH * max(1.0, float(np.abs(w).max())):
            break
    return w


def _probability(A: Floats, w: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(A @ w, -500.0, 500.0))))
