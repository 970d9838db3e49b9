"""Leave-one-out and k-fold by decremental steps are what training without the examples gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, k_fold, leave_one_out
from solvers.errors import Cancelled, InvalidInput
from solvers.eventless import leave_without_events

Floats = NDArray[np.float64]


def data(n: int = 60) -> tuple[Floats, Floats]:
    random = np.random.default_rng(2)
    X = random.normal(size=(n, 2))
    return X, np.where(X[:, 0] + random.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("n", [60, 150])  # walked whole, and in strides
@pytest.mark.parametrize("C", [0.3, 100.0])
def test_leave_one_out_is_exact_for_classification(C: float, n: int) -> None:
    X, y = data(n)
    model = IncrementalSVC(C=C, gamma=0.5).fit(X, y)
    before = model.to_arrays()
    found = leave_one_out(model)
    without = np.array(
        [
            IncrementalSVC(C=C, gamma=0.5).fit(X[keep], y[keep]).decision_function(X[[i]])[0]
            for i, keep in ((i, np.arange(n) != i) for i in range(n))
        ]
    )
    np.testing.assert_allclose(found.decisions, without, atol=1e-8)
    assert found.error == pytest.approx(np.mean(np.sign(without) != y))
    assert found.keys == tuple(range(n))
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_who_leaves_without_an_event_is_solved_for_at_once(fit_intercept: bool) -> None:
    X, y = data(80)
    params: dict[str, Any] = {"C": 1.0, "gamma": 20.0, "fit_intercept": fit_intercept}
    model = IncrementalSVC(**params).fit(X, y)
    state = model._window.state
    who = np.flatnonzero(state.examples.beta[: state.n_slots])
    tried = leave_without_events(state, who, 1.0, lambda done: None)
    assert np.isfinite(tried).sum() >= 10
    assert np.isnan(tried).any()  # for some there is an event
    for slot, decision in zip(who, tried, strict=True):
        if np.isfinite(decision):
            keep = np.arange(80) != slot
            trained = IncrementalSVC(**params).fit(X[keep], y[keep])
            assert decision == pytest.approx(trained.decision_function(X[[slot]])[0], abs=1e-9)


def test_leave_one_out_of_duplicates_and_of_the_last_of_a_class() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0], [5.0]])
    y = np.array([-1.0, -1, -1, 1, -1, -1, 1])
    found = leave_one_out(IncrementalSVC(C=10.0, kernel="linear").fit(X, y))
    for i in range(7):
        keep = np.arange(7) != i
        trained = IncrementalSVC(C=10.0, kernel="linear").fit(X[keep], y[keep])
        assert trained.certificate().relative_gap <= 1e-9
    assert found.decisions.shape == (7,)
    assert np.isfinite(found.decisions).all()


def test_leave_one_out_is_exact_for_regression_and_one_class() -> None:
    X, _ = data(40)
    regression = leave_one_out(IncrementalSVR(C=2.0, gamma=0.5).fit(X, X[:, 0]))
    outliers = leave_one_out(IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X))
    for i in range(40):
        keep = np.arange(40) != i
        predicted = IncrementalSVR(C=2.0, gamma=0.5).fit(X[keep], X[keep, 0]).predict(X[[i]])[0]
        assert regression.decisions[i] == pytest.approx(predicted, abs=1e-9)
        inside = IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X[keep]).decision_function(X[[i]])[0]
        assert outliers.decisions[i] == pytest.approx(inside, abs=1e-8)
    assert regression.error == pytest.approx(np.abs(regression.decisions - X[:, 0]).mean())


def test_k_fold_is_exact() -> None:
    X, y = data()
    fold = np.arange(60) % 4
    found = k_fold(IncrementalSVC(C=3.0, gamma=0.5).fit(X, y), fold.tolist())
    for name in range(4):
        out = fold == name
        trained = IncrementalSVC(C=3.0, gamma=0.5).fit(X[~out], y[~out])
        np.testing.assert_allclose(found.decisions[out], trained.decision_function(X[out]), atol=1e-9)
    assert k_fold(IncrementalSVC(C=3.0, gamma=0.5).fit(X, y), 5).decisions.shape == (60,)


def test_progress_is_told_and_can_cancel() -> None:
    X, y = data()
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X, y)
    steps: list[tuple[int, int]] = []

    def tell(done: int, count: int) -> bool:
        steps.append((done, count))
        return True

    leave_one_out(model, progress=tell)
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]
    with pytest.raises(Cancelled):
        leave_one_out(model, progress=lambda done, count: False)
    with pytest.raises(Cancelled):
        k_fold(model, 3, progress=lambda done, count: done < 1)


@pytest.mark.parametrize("folds", [1, 61, [0] * 60, [0, 1]])
def test_folds_that_make_no_sense_are_refused(folds: int | list[int]) -> None:
    X, y = data()
    with pytest.raises(InvalidInput) as caught:
        k_fold(IncrementalSVC(C=1.0, gamma=0.5).fit(X, y), folds)
    assert caught.value.field == "folds"
