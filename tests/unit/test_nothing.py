"""Problems with an optimum of 0, or without free examples: constant targets, nu = 1, empty windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests import oracle

Floats = NDArray[np.float64]


@pytest.mark.parametrize("value", [0.0, 2.0])
@pytest.mark.parametrize("n", [2, 30, 100])
@pytest.mark.parametrize("loss", ["absolute", "pinball"])
def test_constant_targets_are_learnt_exactly(loss: Any, n: int, value: float) -> None:
    random = np.random.default_rng(n)
    model = IncrementalSVR(C=25.0, loss=loss, quantile=0.3, gamma=1.0)
    model.fit(random.normal(size=(n, 3)), np.full(n, value))
    for size in (1, n):  # some leave, then all; a reading that is not constant comes and goes again
        model.update(add=(random.normal(size=(size, 3)), np.full(size, value)), remove=model.keys_[:size])
        model.update(add=(random.normal(size=(1, 3)), [value + 1.0]))
        report = model.update(remove=model.keys_[-1:])
        assert report.relative_gap <= 1e-8
        assert model.certificate().duality_gap <= 1e-12
        np.testing.assert_allclose(model.predict(random.normal(size=(5, 3))), value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", [1.0, 0.99])
@pytest.mark.parametrize("binary", [True, False])
def test_one_class_with_nu_of_one_has_all_examples_at_the_bound(binary: bool, decay: float) -> None:
    random = np.random.default_rng(0)

    def rows(m: int) -> Floats:
        return random.integers(0, 2, (m, 3)).astype(float) if binary else random.normal(size=(m, 3))

    model = IncrementalOneClassSVM(nu=1.0, gamma=0.1).fit(rows(1000))
    for _ in range(5):
        model.update(add=(rows(5), None), remove=model.keys_[:7], decay=decay)
        weights = model._window.weights
        rounding = weights.size * np.finfo(float).eps * weights.sum()  # of the sum, which one example makes up
        np.testing.assert_allclose(model._window.beta, weights, rtol=0, atol=rounding)
        assert model.certificate().relative_gap < 1e-9


def test_one_class_whose_optimum_is_zero_is_certified() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]] * 4)
    model = IncrementalOneClassSVM(nu=0.3, kernel="linear").fit(X)
    report = model.update(add=([[1.0, 1.0], [0.0, 0.0]], None), remove=[0])
    certificate = model.certificate()
    assert max(abs(certificate.primal), abs(certificate.dual)) < 1e-14
    assert (report.relative_gap, certificate.relative_gap) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("params", "X"),
    [
        ({"kernel": "linear", "nu": 0.5}, [[1e-6], [2e-6], [1e3]]),
        ({"kernel": "linear", "nu": 0.5}, [[1e-4, 0.0], [0.0, 2e-4], [1e4, 1e5]]),
        (
            {"kernel": "poly", "gamma": 1000.0, "degree": 3, "coef0": 1.0, "nu": 0.3},
            [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]],
        ),
    ],
)
def test_one_class_is_solved_where_norms_differ_by_orders(params: dict[str, Any], X: list[list[float]]) -> None:
    model = IncrementalOneClassSVM(**params).fit(X)
    K = oracle.Kernel(params["kernel"], params.get("gamma", 1.0), params.get("degree", 3), params.get("coef0", 0.0))
    losses = oracle.one_class(np.ones(len(X)), params["nu"])
    found = oracle.gap(K(X, X), losses, model._window.beta, model._window.state.b)
    assert found.strict < 1e-8
    assert model.certificate().relative_gap < 1e-8


@pytest.mark.parametrize("estimator", [IncrementalSVC, IncrementalSVR])
@pytest.mark.parametrize(("parameter", "end"), [("theta", 0.0), ("s", None)])
def test_a_robust_model_can_be_emptied_and_filled_again(estimator: Any, parameter: Any, end: float | None) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(20, 2))
    y = np.where(X[:, 0] + random.normal(size=20) > 0, 1.0, -1.0)
    model = estimator(gamma=0.5).fit(X, y)
    path = model.outlier_path(parameter)
    model.update(robust=path.robustness(path.end if end is None else end))
    assert model.robustness() is not None
    assert model.update(remove=model.keys_).n == 0
    model = type(model).from_arrays(model.get_params(), model.to_arrays())
    model.update(decay=0.5)
    assert model.update(add=(X, y)).n == 20
    assert model.certificate().relative_gap < 1e-8


def test_an_emptied_model_knows_nothing() -> None:
    model = IncrementalSVR().fit([[0.0], [1.0], [2.0]], [1000.0, 1001.0, 1002.0])
    model.update(remove=model.keys_)
    np.testing.assert_array_equal(model.predict([[0.0], [5.0]]), 0.0)
