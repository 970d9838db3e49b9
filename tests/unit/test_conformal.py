"""Intervals and sets are those of their definitions, by models trained without an example, and keep their promise."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, conformal
from livesvm.solvers.errors import InvalidInput

RNG = np.random.default_rng(8)
X = RNG.normal(size=(40, 2))
VALUES = X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=40)
SIGNS = np.where(X[:, 0] + 0.6 * RNG.normal(size=40) > 0, 1, -1)
WORDS = np.array(["ape", "bee", "cat"])[(X[:, 1] > 0).astype(int) + (X[:, 0] + 0.3 * RNG.normal(size=40) > 0.4)]
ROWS = RNG.normal(size=(30, 2))


def quantile(values: Any, weights: Any, level: float) -> float:
    """Return the smallest value that a share of weight is not above, as an endless one counts 1."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / (weights.sum() + 1.0) >= level - 1e-12
    return float(values[order][np.argmax(reached)]) if reached.any() else np.inf


@pytest.mark.parametrize("weights", [None, 0.9 ** np.arange(40)[::-1]], ids=["alike", "by age"])
@pytest.mark.parametrize("method", ["plus", "minmax"])
def test_intervals_are_those_of_the_definition(method: Any, weights: Any) -> None:
    found = conformal(IncrementalSVR(C=3.0, gamma=0.5, epsilon=0.05).fit(X, VALUES), weights=weights)
    low, high = found.intervals(ROWS, 0.8, method)
    stay = [np.arange(40) != i for i in range(40)]
    peers = [SVR(C=3.0, gamma=0.5, epsilon=0.05, tol=1e-9).fit(X[those], VALUES[those]) for those in stay]
    residuals = np.array([abs(VALUES[i] - peer.predict(X[[i]])[0]) for i, peer in enumerate(peers)])
    others = np.array([peer.predict(ROWS) for peer in peers])
    counted = np.ones(40) if weights is None else weights
    for row in range(len(ROWS)):
        f = others[:, row]
        if method == "plus":
            ends = -quantile(residuals - f, counted, 0.8), quantile(residuals + f, counted, 0.8)
        else:
            reach = quantile(residuals, counted, 0.8)
            ends = f.min() - reach, f.max() + reach
        assert (low[row], high[row]) == pytest.approx(ends, abs=1e-5)


@pytest.mark.parametrize("y", [SIGNS, WORDS], ids=["two classes", "three classes"])
def test_sets_are_those_of_the_definition(y: Any) -> None:
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, y)
    found = conformal(model).sets(ROWS, 0.8)
    classes = np.unique(y)

    def behind(peer: SVC, rows: Any, label: Any) -> Any:
        """Return by how much a class is behind the others at worst."""
        f = peer.decision_function(rows)
        if classes.size == 2:
            return -f if label == classes[1] else f
        pairs = list(enumerate(combinations(classes, 2)))
        return np.max([f[:, p] * (1 if label == b else -1) for p, (a, b) in pairs if label in (a, b)], axis=0)

    stranger = np.zeros((len(ROWS), classes.size))
    for i in range(40):
        stay = np.arange(40) != i
        peer = SVC(C=3.0, gamma=0.5, tol=1e-9, decision_function_shape="ovo").fit(X[stay], y[stay])
        for place, label in enumerate(classes):
            stranger[:, place] += behind(peer, ROWS, label) > behind(peer, X[[i]], y[i])[0] + 1e-6
    np.testing.assert_array_equal(found, stranger < 0.8 * 41)
    assert 0 < found.sum() < found.size


@pytest.mark.parametrize("seed", range(4))
def test_at_least_as_many_are_covered_as_is_promised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(1200, 3))
    y = A[:, 0] + A[:, 1] ** 2 + 0.5 * rng.standard_t(3, size=1200)
    signs = np.where(y > 1, 1, -1)
    learnt, rest = slice(0, 200), slice(200, 1200)
    least = 0.9 - 3 * np.sqrt(0.09 * (1 / 1000 + 1 / 200))  # three standard errors below
    low, high = conformal(IncrementalSVR(C=2.0, gamma=0.3).fit(A[learnt], y[learnt])).intervals(A[rest], 0.9)
    assert np.mean((low <= y[rest]) & (y[rest] <= high)) > least
    classifier = IncrementalSVC(C=2.0, gamma=0.3, class_weight="balanced").fit(A[learnt], signs[learnt])
    sets = conformal(classifier).sets(A[rest], 0.9)
    assert np.mean(sets[np.arange(1000), (signs[rest] > 0).astype(int)]) > least


def test_too_few_examples_promise_nothing() -> None:
    low, high = conformal(IncrementalSVR(C=2.0, gamma=0.3).fit(X[:5], VALUES[:5])).intervals(ROWS, 0.9)
    assert np.isinf(low).all()
    assert np.isinf(high).all()


def test_what_cannot_be_asked_is_refused() -> None:
    values = conformal(IncrementalSVR(C=2.0, gamma=0.3).fit(X, VALUES))
    classes = conformal(IncrementalSVC(C=2.0, gamma=0.3).fit(X, SIGNS))
    for ask, reason in (
        (lambda: values.sets(ROWS, 0.9), "has none, and intervals"),
        (lambda: classes.intervals(ROWS, 0.9), "sets of them"),
        (lambda: values.intervals(ROWS, 1.0), "coverage: must lie between 0 and 1"),
        (lambda: values.intervals(ROWS[:, :1], 0.9), "X"),
        (lambda: conformal(IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X)), "no targets"),
        (lambda: conformal(IncrementalSVC(C=2.0, gamma=0.3).fit(X, SIGNS), weights=np.full(40, 2.0)), "weights"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            ask()
