"""The certificate is recomputed from the data, and the oracle behind these tests is right itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.svm import SVR, OneClassSVM

from livesvm.solvers import Certificate, IncrementalSVC
from tests.judge import apply, build, coefficients, judge, window_problem
from tests.oracle import Kernel, Losses, absolute, epsilon_insensitive, gap, hinge, one_class, pinball, solve
from tests.problems import FAMILIES, problem


@pytest.mark.parametrize("family", FAMILIES)
def test_certificate_and_oracle_agree(family: str) -> None:
    drawn = problem(3, family)
    model = IncrementalSVC(**drawn.parameters())
    for batch, window in zip(drawn.batches, drawn.windows(), strict=True):
        apply(model, drawn, batch)
        ours, found = model.certificate(), judge(model, drawn, window)
        close = 1e-9 * max(abs(found.primal), abs(found.dual)) + 100 * found.resolution
        assert ours.primal == pytest.approx(found.primal, abs=close)
        assert ours.dual == pytest.approx(found.dual, abs=close)
        assert ours.duality_gap == pytest.approx(found.gap, abs=close)
        assert ours.n_examples == len(window)


def test_certificate_is_frozen() -> None:
    certificate = build(problem(0, "regular")).certificate()
    assert isinstance(certificate, Certificate)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.duality_gap = 0.0  # type: ignore[misc]


def test_the_oracle_notices_a_wrong_coefficient_and_a_wrong_intercept() -> None:
    drawn = dataclasses.replace(problem(0, "regular"), C=1.0, fit_intercept=True)
    model, window = build(drawn), drawn.windows()[-1]
    K, losses = window_problem(drawn, window)
    beta, b = coefficients(model), float(model.intercept_[0])
    right = gap(K, losses, beta, b)
    assert right.relative <= 1e-8
    moved = beta.copy()
    moved[0] = losses.upper[0] if beta[0] == losses.lower[0] else losses.lower[0]
    wrong = gap(K, losses, moved, b)
    assert wrong.relative > 1e-6
    assert wrong.sum_violation > 1e-3 * drawn.C
    assert gap(K, losses, beta, b + 0.1).relative > 1e-6
    assert gap(K, losses, 2 * beta + 1e-3, b).box_violation > 0


def regression() -> tuple[np.ndarray, np.ndarray]:
    """Sixty noisy rows of a smooth function."""
    random = np.random.default_rng(5)
    X = random.normal(size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * random.normal(size=60)


X, TARGET = regression()
RBF = Kernel("rbf", 0.5)


@pytest.mark.parametrize(
    "losses",
    [
        hinge(np.sign(TARGET), 10.0),
        hinge(np.sign(TARGET), 10.0, fit_intercept=False),
        epsilon_insensitive(TARGET, 10.0, 0.2),
        absolute(TARGET, 3.0),
        pinball(TARGET, 5.0, 0.9),
        one_class(np.ones(60), 0.3),
    ],
)
def test_the_qp_solver_closes_the_gap_of_every_loss(losses: Losses) -> None:
    K = RBF(X, X)
    found = solve(K, losses)
    judged = gap(K, losses, found.beta, found.intercept)
    assert judged.relative <= 1e-9
    assert found.objective == pytest.approx(judged.primal, rel=1e-8)


def test_the_oracle_agrees_with_libsvm_on_regression() -> None:
    rival = SVR(C=10.0, gamma=0.5, epsilon=0.2, tol=1e-8).fit(X, TARGET)
    beta = np.zeros(60)
    beta[rival.support_] = rival.dual_coef_[0]
    found = gap(RBF(X, X), epsilon_insensitive(TARGET, 10.0, 0.2), beta, float(rival.intercept_[0]))
    assert found.relative <= 1e-4
    assert found.sum_violation <= 1e-9


def test_the_oracle_agrees_with_libsvm_on_one_class() -> None:
    rival = OneClassSVM(nu=0.3, gamma=0.5, tol=1e-8).fit(X)
    beta = np.zeros(60)
    beta[rival.support_] = rival.dual_coef_[0]
    found = gap(RBF(X, X), one_class(np.ones(60), 0.3), beta, float(rival.intercept_[0]))
    assert found.relative <= 1e-6


def test_pinball_interpolates_the_quantile() -> None:
    losses = pinball(TARGET, 1e-6, 0.9)
    found = solve(RBF(X, X), losses)
    assert np.mean(found.intercept >= TARGET) == pytest.approx(0.9, abs=1 / 60)
