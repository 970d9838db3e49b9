"""The batch classifier of positive and unlabelled examples, its class prior, and its metrics."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from livesvm.solvers import IncrementalPUClassifier, PUClassifier
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.held_out import zero_one_risk
from livesvm.solvers.pu.prior import best_bin, estimate_prior, held_out_scores
from tests.oracle import Matrix, Vector
from tests.pu_baselines.metrics import pu_risk, scores
from tests.pu_problems import two_clouds
from tests.support.positive_unlabelled import assert_optimal_with_negatives

pytestmark = pytest.mark.filterwarnings("ignore:.* would be predicted to be positive")  # of tiny windows


def examples(seed: int = 0, p: int = 40, n: int = 300, prior: float = 0.4) -> tuple[Matrix, Vector]:
    """Return positives and unlabelled, mixed, with their labels."""
    P, U = two_clouds(seed, p, n, prior=prior)
    order = np.random.default_rng(seed).permutation(p + n)
    return np.vstack([P, U])[order], np.concatenate([np.ones(p), np.zeros(n)])[order]


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_it_is_the_live_model(kernel: str) -> None:
    X, s = examples()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, s.size)
    shape: dict[str, Any] = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1.0}
    batch = PUClassifier(0.4, 0.01, tol=1e-9, **shape).fit(X, s, weights)
    live = IncrementalPUClassifier(0.4, 0.01, **shape).fit(X, s, weights)
    np.testing.assert_allclose(batch.decision_function(X), live.decision_function(X), atol=1e-5)
    assert batch.certificate().primal == pytest.approx(live.certificate().primal, rel=1e-9)
    assert batch.certificate().relative_gap <= 1e-8
    assert batch.dual_coef_.sum() == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_array_equal(batch.support_vectors_, X[batch.support_])
    f = live._window.state.kernel.matrix(X, np.ascontiguousarray(X[batch.support_].T)) @ batch.dual_coef_[0]
    np.testing.assert_allclose(f + batch.intercept_, batch.decision_function(X), atol=1e-8)


def test_a_precomputed_kernel_is_the_same() -> None:
    X, s = examples(n=60)
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    given = PUClassifier(0.4, kernel="precomputed").fit(K, s)
    known = PUClassifier(0.4, gamma=0.5).fit(X, s)
    np.testing.assert_allclose(given.decision_function(K[:7]), known.decision_function(X[:7]), atol=1e-4)
    np.testing.assert_array_equal(given.support_vectors_, K[given.support_])


def test_it_is_an_estimator_of_scikit_learn() -> None:
    X, s = examples()
    model = make_pipeline(StandardScaler(), PUClassifier(0.4, gamma=0.5)).fit(X, s)
    assert set(model.predict(X)) == {0, 1}
    again = clone(model[-1]).set_params(lam=0.1).fit(X, s)
    assert again.n_features_in_ == 2
    back = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(back.predict(X), again.predict(X))
    with pytest.raises(NotFittedError):
        PUClassifier().predict(X)
    with pytest.raises(Cancelled):
        PUClassifier(0.4).fit(X, s, progress=lambda done, total: False)


def test_a_prior_is_estimated_with_an_interval() -> None:
    for prior in (0.2, 0.5):
        X, s = examples(3, 150, 1500, prior)
        model = PUClassifier(gamma=0.5).fit(3.0 * X, s)
        estimate = model.prior_estimate_
        assert estimate is not None
        assert model.prior_ == estimate.prior == pytest.approx(prior, abs=0.08)
        assert estimate.low <= estimate.prior <= estimate.high <= estimate.bound
        assert prior <= estimate.bound
    assert PUClassifier(0.3).fit(X, s).prior_estimate_ is None


def test_a_prior_is_not_estimated_from_one_positive() -> None:
    with pytest.raises(InvalidInput, match="two positive"):
        estimate_prior(Kernel("linear"), np.ones((1, 2)), np.ones((9, 2)))


def test_the_bound_and_the_interval_are_those_of_their_formulas() -> None:
    P, U = two_clouds(5, 60, 300, prior=0.3)
    kernel = Kernel("rbf", 0.5)
    rng = np.random.default_rng(0)
    p, u = held_out_scores(kernel, P, U[rng.permutation(300)], 5, rng)
    slack = 1.01 * (np.sqrt(np.log(40.0) / 600.0) + np.sqrt(np.log(40.0) / 120.0))  # [Garg et al., alg. 1]
    shares = [(float(np.mean(u >= c)), float(np.mean(p >= c))) for c in np.unique(p)]
    bound, prior, above = min(((a + slack) / b, a / b, b) for a, b in shares)
    again = []
    for _ in range(200):
        drawn = p[rng.integers(0, 60, 60)], u[rng.integers(0, 300, 300)]
        again.append(best_bin(*drawn)[0])
    found = estimate_prior(kernel, P, U)
    assert (found.prior, found.bound, found.threshold) == pytest.approx((prior, bound, above), rel=1e-12)
    ranked = np.sort(again)  # the quantile lies between two of 200: 0.05 of the way from the 1st to the last
    low, high = (np.interp(share * 199, np.arange(200), ranked) for share in (0.05, 0.95))
    assert (found.low, found.high) == pytest.approx((min(prior, low), max(prior, high)), rel=1e-12)


def test_there_is_a_label_for_every_decision() -> None:
    with pytest.raises(InvalidInput):
        scores([1.0, 2.0], [1])


def test_the_risk_without_labels_is_the_risk_with_them() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.3
    f = rng.normal(size=y.size) + np.where(y, 1.0, -1.0)
    double_hinge = [np.maximum(0.0, np.maximum(0.5 * (1.0 - m), -m)) for m in (f[y], -f[~y])]
    with_labels = 0.3 * double_hinge[0].mean() + 0.7 * double_hinge[1].mean()
    assert pu_risk(f[y], f, 0.3) == pytest.approx(with_labels, abs=0.01)
    assert zero_one_risk(f[y], f, 0.3) == pytest.approx(float(np.mean((f > 0) != y)), abs=0.01)
    assert np.isnan(zero_one_risk(f[:0], f, 0.3))
    for positives, unlabelled in (([], [1.0]), ([1.0], []), ([np.nan], [1.0])):
        with pytest.raises(InvalidInput):
            pu_risk(positives, unlabelled, 0.3)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.5, 2.0, np.nan, "a"])
def test_a_prior_that_makes_no_problem_is_refused(prior: float) -> None:
    with pytest.raises(InvalidInput, match="prior: must lie between 0 and 1"):
        PUClassifier(prior).fit(*examples(n=20))


def test_input_that_cannot_be_learnt_from_is_refused() -> None:
    X, s = examples(n=20)
    cases: list[tuple[Any, str]] = [
        (np.zeros(60), "no positive"),
        (np.ones(60), "no unlabelled"),
        (3 * s, "a label is 1"),
        (s[:-1], "one value for each"),
        (None, "requires y"),
    ]
    for labels, reason in cases:
        with pytest.raises(InvalidInput, match=reason):
            PUClassifier().fit(X, labels)
    for parameters, reason in (
        ({"lam": 0.0}, "lam"),
        ({"tol": -1.0}, "tol"),
        ({"gamma": "auto"}, "gamma"),
        ({"kernel": "wave"}, "kernel"),
        ({"start": "warm"}, "start"),
        ({"cache_mb": 0}, "cache_mb"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            PUClassifier(0.5).set_params(**parameters).fit(X, s)
    with pytest.raises(InvalidInput, match="row 3"):
        PUClassifier(0.5).fit(np.where(np.arange(60)[:, None] == 3, np.nan, X), s)
    model = PUClassifier(0.5).fit(X, s)
    with pytest.raises(InvalidInput):
        model.predict(X[:, :1])


def test_extremes_have_an_answer() -> None:
    X, s = examples(n=30)
    for prior in (1e-6, 1.0 - 1e-6):
        assert PUClassifier(prior, gamma=0.5).fit(X, s).certificate().relative_gap <= 1e-6
    X[s == 0] = X[s == 0][0]
    assert PUClassifier(0.3, gamma=0.5).fit(X, s).certificate().relative_gap <= 1e-6
    alone = PUClassifier(0.3, kernel="linear").fit([[1.0], [-1.0]], [1, 0])
    assert alone.certificate().relative_gap <= 1e-6


def test_sparse_rows_are_learnt_from_as_dense_ones() -> None:
    X, s = sparse_rows()
    dense, given = (PUClassifier(0.5, 0.01, gamma=0.5).fit(form(X), s) for form in (np.asarray, sparse.csr_array))
    np.testing.assert_array_equal(dense.decision_function(X), given.decision_function(sparse.csr_matrix(X)))
    assert given.predict(sparse.csr_array(X[:3])).tolist() == dense.predict(X[:3]).tolist()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_confirmed_negatives_count_as_in_the_live_model(kernel: str) -> None:
    X, s = examples(n=200)
    s[np.flatnonzero(s == 0)[::8]] = -1
    weights = np.random.default_rng(0).uniform(0.0, 2.0, s.size) * (np.arange(s.size) % 9 > 0)
    rows = X @ X.T if kernel == "precomputed" else X
    live = IncrementalPUClassifier(0.4, None, kernel=kernel, gamma=0.5).fit(rows, s, sample_weight=weights)
    batch = PUClassifier(0.4, None, kernel=kernel, gamma=0.5, tol=1e-8).fit(rows, s, weights)
    if kernel != "precomputed":
        assert_optimal_with_negatives(live)
    assert batch.lam_ == live.lam_
    assert batch.certificate().relative_gap <= 1e-8
    np.testing.assert_allclose(batch.decision_function(rows), live.decision_function(rows), atol=1e-6)
    assert batch.threshold(alerts=0.1) == pytest.approx(live.threshold(alerts=0.1), abs=1e-9)
    assert batch.score(rows, s) == live.score(rows, s) == np.mean(live.predict(rows) == np.maximum(s, 0))
    without = PUClassifier(0.4, batch.lam_, kernel=kernel, gamma=0.5).fit(rows, np.maximum(s, 0), weights)
    assert np.abs(without.decision_function(rows) - batch.decision_function(rows)).max() > 0.01


def sparse_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.3)
    return X, (X[:, 0] + X[:, 1] > 0.2).astype(int)
