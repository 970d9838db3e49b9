"""Best bin estimation of the class prior, the share of positives among unlabelled [Garg et al. 2021, alg. 1].

A scorer trained to separate positives from unlabelled examples ranks held-out examples. Nearly all unlabelled examples
with high scores are positive. So as the threshold rises, the prior is approached by a ratio: the share of unlabelled
above the threshold divided by the share of positives above it. The threshold with the least upper confidence bound of
the ratio is chosen. Apart from sampling error, the ratio at any threshold is an upper bound of the prior. The estimate
is right if some region contains only positives, which every method must assume.

Garg, Wu, Smola, Balakrishnan & Lipton, "Mixture proportion estimation and PU learning: a modern approach", 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.gram import Gram
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.problem import TINY
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Bools, Floats
from livesvm.solvers.sparse import Features, columns_of, dense, stacked
from livesvm.solvers.validation import fraction

LANDMARKS = 200
LEAST = 1e-10  # of the largest eigenvalue: directions with less are rounding


def landmarks(kernel: Kernel, X: Features, rng: np.random.Generator) -> Callable[[Features], Floats]:
    """Choose random landmarks from ``X`` (n, d); return a function that computes features of rows (l, d) from them.

    The features (l, r + 1) are linearly independent combinations of the rows' kernel values with the landmarks, and a
    last column of ones.
    """
    marks = X[rng.permutation(len(X))[:LANDMARKS]]
    Z = columns_of(marks)
    values, vectors = np.linalg.eigh(kernel.matrix(marks, Z))
    kept = values > LEAST * max(float(values[-1]), TINY)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return lambda rows: np.column_stack([kernel.matrix(rows, Z) @ root, np.ones(len(rows))])


DELTA = 0.1  # the bounds hold with probability 1 - DELTA [Garg et al.]
SLACK = 0.01  # their gamma
RIDGES = tuple(10.0**power for power in range(-4, 2))  # candidates, relative to the mean square of a feature
MOST = 20_000  # unlabelled that are scored: the error is then that of the positives
FOLDS = 5
REPEATS = 200  # bootstrap samples
EDGE = 1e-3  # estimates keep this distance from 0 and 1, which are not valid priors


@dataclass(frozen=True)
class PriorEstimate:
    """An estimated class prior and how far it may be off."""

    prior: float  #: the estimate, in (0, 1)
    low: float  #: lower end of its 90% interval when both samples are drawn again (bootstrap percentiles)
    high: float  #: upper end
    #: the prior is below it with probability 0.9, whatever the distributions: uniform bounds of both shares
    bound: float
    threshold: float  #: the share of held-out positives above the chosen threshold


def is_open(prior: object) -> bool:
    """Say whether the prior is to be estimated, as None or "estimate"; raise InvalidInput for an invalid prior."""
    if prior is None or (isinstance(prior, str) and prior == "estimate"):
        return True
    fraction(prior, "prior")
    return False


def numbered(kernel: Kernel, X: Features) -> tuple[Kernel, Features]:
    """Return the kernel and the examples in a form in which a subset of rows is a valid set of examples.

    With the kernel "precomputed", ``X`` (n, n) holds kernel values; the returned examples are then row numbers of a new
    kernel matrix. With any other kernel, kernel and examples are returned unchanged.
    """
    if kernel.name != "precomputed":
        return kernel, X
    gram = Gram()
    numbers = gram.admit(dense(X), np.empty(0, np.int64))
    return replace(kernel, gram=gram), numbers[:, None].astype(np.float64)


def check_enough(positives: int, unlabelled: int) -> None:
    """Raise InvalidInput if there are too few examples to estimate a prior."""
    for count, what in ((positives, "positive"), (unlabelled, "unlabelled")):
        if count < 2:
            reason = f"cannot be estimated from fewer than two {what} examples; give it, or more of these"
            raise InvalidInput(reason, field="prior")


def estimate_prior(kernel: Kernel, P: Features, U: Features) -> PriorEstimate:
    """Estimate the share of positives among the unlabelled examples ``U`` (n, d), given positives ``P`` (p, d).

    The scorer is a least squares classifier with this kernel; each fold is scored by a classifier trained on all other
    folds.

    Raises
    ------
    InvalidInput : fewer than two examples of a kind
    """
    check_enough(len(P), len(U))
    rng = np.random.default_rng(0)
    U = U[rng.permutation(len(U))[:MOST]]
    p, u = held_out_scores(kernel, P, U, FOLDS, rng)
    prior, bound, threshold = best_bin(p, u)
    again = []
    for _ in range(REPEATS):
        check()
        again.append(best_bin(p[rng.integers(0, p.size, p.size)], u[rng.integers(0, u.size, u.size)])[0])
    low, high = np.quantile(again, [0.05, 0.95])
    return PriorEstimate(prior, min(prior, float(low)), max(prior, float(high)), bound, threshold)


def best_bin(positives: Floats, unlabelled: Floats) -> tuple[float, float, float]:
    """Return the estimated prior, its upper bound, and the share of positives above the threshold, by scores."""
    candidates = np.unique(positives)
    ranked_p, ranked_u = np.sort(positives), np.sort(unlabelled)
    above_p = 1.0 - np.searchsorted(ranked_p, candidates) / positives.size
    above_u = 1.0 - np.searchsorted(ranked_u, candidates) / unlabelled.size
    error = sum(np.sqrt(np.log(4.0 / DELTA) / (2.0 * m)) for m in (unlabelled.size, positives.size))
    bounds = (above_u + (1.0 + SLACK) * error) / above_p
    best = int(bounds.argmin())
    prior = float(np.clip(above_u[best] / above_p[best], EDGE, 1.0 - EDGE))
    return prior, float(min(1.0, bounds[best])), float(above_p[best])


def held_out_scores(
    kernel: Kernel, P: Features, U: Features, folds: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return scores of positives (p,) and of unlabelled (n,), each by a scorer trained without the example's fold."""
    X = stacked([P, U])
    target = np.concatenate([np.ones(len(P)), -np.ones(len(U))])
    weight = np.concatenate([np.full(len(P), 0.5 / len(P)), np.full(len(U), 0.5 / len(U))])
    fold = np.concatenate([rng.permutation(len(rows)) % folds for rows in (P, U)])
    features = landmarks(kernel, X, rng)(X)
    grams = [_gram(features, target, weight, fold == k) for k in range(folds)]
    whole = tuple(sum(parts) for parts in zip(*grams, strict=True))
    size = float(np.trace(whole[0])) / features.shape[1]
    best, found = np.inf, np.zeros(len(X))
    for ridge in RIDGES:
        scores = np.empty(len(X))
        for k, (A, c) in enumerate(grams):
            lhs = whole[0] - A + ridge * size * np.eye(features.shape[1])
            scores[fold == k] = features[fold == k] @ np.linalg.solve(lhs, whole[1] - c)
        loss = float(weight @ np.square(scores - target))
        if loss < best:
            best, found = loss, scores
    return found[: len(P)], found[len(P) :]


def _gram(features: Floats, target: Floats, weight: Floats, which: Bools) -> tuple[Floats, Floats]:
    """Return the matrix and the right-hand side of the weighted normal equations of the examples ``which``."""
    part = features[which]
    weighted = part * weight[which, None]
    return weighted.T @ part, weighted.T @ target[which]
