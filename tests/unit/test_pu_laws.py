"""What is estimated of positive and unlabelled examples, against formulas written down plainly, on whatever comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu import prior as prior_module
from livesvm.solvers.pu.held_out import Folds, HeldOut, Threshold, zero_one_risk
from livesvm.solvers.pu.prior import DELTA, EDGE, RIDGES, SLACK, best_bin, held_out_scores, landmarks
from livesvm.solvers.pu.problem import PUProblem, costs, live_losses, pu_losses, pu_problem, slacks
from livesvm.solvers.pu.starts import NU, feasible_start, one_class_scores
from tests import oracle
from tests.oracle import Matrix, Vector
from tests.pu_baselines.elkan_noto import FOLDS, RIDGE, elkan_noto
from tests.pu_baselines.metrics import pu_risk, scores
from tests.pu_baselines.quadratic_program import quadratic_program
from tests.pu_baselines.ramp import ramp_loss
from tests.pu_problems import two_clouds

Ints = NDArray[np.int64]
RBF = Kernel("rbf", 0.5)
decisions = st.lists(st.integers(-4, 4).map(lambda v: v / 2), min_size=1, max_size=9).map(np.array)
priors = st.floats(0.05, 0.95)


def double_hinge(f: float) -> float:
    return max(0.0, (1 + f) / 2, f)


@given(decisions, st.integers(0, 2**9 - 1))
def test_scores_are_those_of_every_pair(f: Vector, mask: int) -> None:
    true = [bool(mask >> i & 1) for i in range(f.size)]
    hits, found, there = (sum(x) for x in ([t and v > 0 for t, v in zip(true, f, strict=True)], f > 0, true))
    reported = scores(f, true)
    assert reported.precision == (hits / found if found else 0.0)
    assert reported.recall == (hits / there if there else 0.0)
    both = reported.precision + reported.recall
    assert reported.f_measure == pytest.approx(2 * reported.precision * reported.recall / both if both else 0.0)
    pairs = [
        (a > b) + 0.5 * (a == b) for a, t in zip(f, true, strict=True) for b, u in zip(f, true, strict=True) if t > u
    ]
    assert reported.auc == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


@given(decisions, decisions, priors)
def test_risks_are_means_over_both_kinds(P: Vector, U: Vector, prior: float) -> None:
    hinge = np.mean([double_hinge(f) for f in U]) + prior * np.mean([double_hinge(-f) - double_hinge(f) for f in P])
    assert pu_risk(P, U, prior) == pytest.approx(float(hinge))
    wrong = prior * np.mean(P <= 0) + (np.mean(U > 0) - prior * np.mean(P > 0))
    assert zero_one_risk(P, U, prior) == pytest.approx(float(wrong))
    assert np.isnan(zero_one_risk(P, U[:0], prior))
    assert np.isnan(zero_one_risk(P[:0], U, prior))


@given(decisions, decisions)
def test_the_best_bin_has_the_least_bound(P: Vector, U: Vector) -> None:
    error = (1 + SLACK) * (np.sqrt(np.log(4 / DELTA) / (2 * U.size)) + np.sqrt(np.log(4 / DELTA) / (2 * P.size)))
    bins = [(float(np.mean(cut <= U)), float(np.mean(cut <= P))) for cut in sorted(set(P))]
    bounds = [(u + error) / p for u, p in bins]
    u, p = bins[int(np.argmin(bounds))]
    assert best_bin(P, U) == pytest.approx((min(max(u / p, EDGE), 1 - EDGE), min(1.0, min(bounds)), p))


@given(decisions, decisions, priors, st.floats(0.01, 0.99), st.booleans())
def test_a_threshold_is_the_lowest_that_keeps_to_what_was_asked(
    P: Vector, U: Vector, prior: float, asked: float, by_alerts: bool
) -> None:
    def reported(value: float) -> Threshold:
        recall, alerts = float(np.mean(value < P)), float(np.mean(value < U))
        return Threshold(value, alerts, min(1.0, prior * recall / alerts) if alerts else 0.0, recall)

    held = HeldOut(np.sort(P), np.sort(U), prior)
    assert held.at(0.5) == pytest.approx(reported(0.5))
    cuts = sorted({*U.tolist(), -9.0})  # nothing lies below the lowest of both but what is everything
    if by_alerts:
        allowed = [cut for cut in cuts if np.count_nonzero(cut < U) <= int(asked * U.size)]
        best = max(min(allowed), float(U.min()))
        found = held.threshold(alerts=asked)
    else:
        enough = [cut for cut in cuts if reported(cut).precision >= asked]
        if not enough:
            with pytest.raises(InvalidInput, match=f"{max(reported(cut).precision for cut in cuts):.3f}"):
                held.threshold(precision=asked)
            return
        best, found = min(enough), held.threshold(precision=asked)
    assert found[1:] == pytest.approx(reported(best)[1:])
    assert found.value == best or (best == -9.0 and found.value < min(P.min(), U.min()))


def ridge_scores(A: Matrix, fold: Ints, target: Vector, weight: Vector) -> Vector:
    """Return scores of each fold by regression on the others with the ridge of least weighted error."""
    size, d = float((weight[:, None] * A**2).sum() / A.shape[1]), A.shape[1]
    tried = []
    for ridge in RIDGES:
        found = np.empty(len(A))
        for k in set(fold.tolist()):
            rest, root = fold != k, np.sqrt(ridge * size)
            w = np.sqrt(weight[rest])
            left = np.vstack([w[:, None] * A[rest], root * np.eye(d)])
            right = np.concatenate([w * target[rest], np.zeros(d)])
            found[fold == k] = A[fold == k] @ np.linalg.lstsq(left, right)[0]
        tried.append((float(weight @ (found - target) ** 2), found))
    return min(tried, key=lambda one: one[0])[1]


@pytest.mark.parametrize(("p", "n", "folds"), [(12, 40, 5), (20, 15, 3), (3, 9, 5)])
def test_scores_are_of_regressions_that_have_not_seen_the_example(p: int, n: int, folds: int) -> None:
    P, U = two_clouds(p, p, n)
    found = held_out_scores(RBF, P, U, folds, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    fold = np.concatenate([rng.permutation(m) % folds for m in (p, n)])
    X = np.vstack([P, U])
    A = landmarks(RBF, X, rng)(X)
    target, weight = np.repeat([1.0, -1.0], [p, n]), np.repeat([0.5 / p, 0.5 / n], [p, n])
    np.testing.assert_allclose(np.concatenate(found), ridge_scores(A, fold, target, weight), atol=1e-7)


@pytest.mark.parametrize("few", [7, 200])
def test_features_of_landmarks_have_the_kernel_for_their_product(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prior_module, "LANDMARKS", few)
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[5] = X[6]  # directions that are rounding are left out
    K = np.asarray(oracle.Kernel("rbf", 0.5)(X, X), np.float64)
    A = landmarks(RBF, X, np.random.default_rng(3))(X)
    indices = np.random.default_rng(3).permutation(30)[:few]
    projected = K[:, indices] @ np.linalg.pinv(K[np.ix_(indices, indices)], rcond=1e-10) @ K[indices]
    np.testing.assert_allclose(A[:, :-1] @ A[:, :-1].T, projected, atol=1e-6)
    np.testing.assert_array_equal(A[:, -1], 1.0)
    assert A.shape[1] - 1 <= min(few, 29)


@pytest.mark.parametrize("p", [3, 14])
def test_elkan_and_noto_divide_by_the_mean_of_held_out_positives(p: int) -> None:
    P, U = two_clouds(0, p, 30)
    found, X, rng = elkan_noto(RBF, P, U, seed=5), np.vstack([P, U]), np.random.default_rng(5)
    A = landmarks(RBF, X, rng)(X)
    y, fold = np.arange(len(X)) < p, rng.permutation(p) % min(FOLDS, p)

    def fitted(rows: NDArray[np.bool_]) -> Vector:
        B, t = A[rows], y[rows].astype(float)
        penalty = np.full(A.shape[1], RIDGE * len(B) * np.mean(B[:, :-1] ** 2))
        penalty[-1] = 1e-9 * len(B)

        def loss(w: Vector) -> tuple[float, Vector]:
            z = B @ w
            value = np.logaddexp(0.0, z).sum() - t @ z + 0.5 * penalty @ w**2
            return float(value), B.T @ (1 / (1 + np.exp(-z)) - t) + penalty * w

        start = np.zeros(A.shape[1])
        return np.asarray(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x)

    def probability(rows: NDArray[np.bool_], w: Vector) -> Vector:
        return np.asarray(1 / (1 + np.exp(-(A[rows] @ w))))

    held_out = np.empty(p)
    for k in range(fold.max() + 1):
        out = np.concatenate([fold == k, np.zeros(len(U), bool)])
        held_out[fold == k] = probability(out, fitted(~out))
    assert found.c == pytest.approx(held_out.mean(), abs=1e-5)
    every_example = np.ones(len(X), bool)
    expected = probability(every_example, fitted(every_example)) / held_out.mean() - 0.5
    np.testing.assert_allclose(found.decision_function(X), expected, atol=1e-4)


@given(st.integers(0, 10**6), priors, st.sampled_from([1e-2, 1.0]))
def test_objectives_are_those_of_their_formulas(seed: int, prior: float, lam: float) -> None:
    random = np.random.default_rng(seed)
    p, n = int(random.integers(1, 5)), int(random.integers(1, 7))
    P, U = two_clouds(seed, p, n)
    weights = random.choice([0.0, 1.0, 2.5], p), random.choice([0.0, 1.0, 2.5], n)
    weights[0][0] = weights[1][0] = 1.0
    c1, c2 = costs(prior, lam, *weights)
    np.testing.assert_allclose(c1, prior / (2 * lam) * weights[0] / weights[0].sum())
    np.testing.assert_allclose(c2, 1 / (2 * lam) * weights[1] / weights[1].sum())
    problem = pu_problem(RBF, P, U, c1, c2)
    K = oracle.Kernel("rbf", 0.5)(np.vstack([P, U]), np.vstack([P, U]))
    sigma = feasible_start(problem)
    np.testing.assert_allclose(sigma, prior * c2)
    sigma = sigma + random.uniform(-0.5, 0.5, n) * c2  # beyond its box too
    beta, b = np.concatenate([c1, -sigma]), float(random.normal())
    F = K[p:] @ beta
    np.testing.assert_allclose(problem.q, K[p:, :p] @ c1)
    assert problem.own == pytest.approx(c1 @ K[:p, :p] @ c1)
    conjugate = [max(-s, s - c) for s, c in zip(sigma, c2, strict=True)]  # of c2 times the double hinge, at sigma
    assert problem.dual(sigma, F) == pytest.approx(-0.5 * beta @ K @ beta - sum(conjugate))
    f = F + b
    inside = np.clip(sigma, 0.0, c2)
    gaps = [c * double_hinge(v) + max(-s, s - c) - s * v for c, v, s in zip(c2, f, inside, strict=True)]
    np.testing.assert_allclose(slacks(F, b, inside, c2), gaps, atol=1e-9)
    one, mixed = pu_losses(c1, c2), random.permutation(p + n)
    both = np.concatenate(weights)[mixed]
    mass = np.array([weights[1].sum(), weights[0].sum(), 0.0])
    live = live_losses((mixed < p).astype(np.float64), both, mass, prior, lam)
    for name in ("kinks", "levels", "n_kinks"):
        np.testing.assert_allclose(getattr(live, name), getattr(one, name)[mixed])
    indices = np.sort(random.permutation(n)[: int(random.integers(1, n + 1))])
    if c2[indices].sum() > 0:
        part = problem.part(indices)
        assert part.c2.sum() == pytest.approx(c2.sum())
        np.testing.assert_allclose(part.c2 * c2[indices].sum(), c2[indices] * c2.sum())
        np.testing.assert_array_equal(part.U, U[indices])
        np.testing.assert_array_equal(part.q, problem.q[indices])


def test_one_class_scores_are_those_of_a_quadratic_program() -> None:
    P, U = two_clouds(1, 30, 50)
    problem = pu_problem(RBF, P, U, *costs(0.4, 0.01, np.ones(30), np.ones(50)))
    K, top = np.asarray(oracle.Kernel("rbf", 0.5)(P, P), np.float64), 1.0 / (NU * 30)
    found = minimize(
        lambda a: (0.5 * a @ K @ a, K @ a), np.full(30, 1 / 30), jac=True, bounds=[(0.0, top)] * 30,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1.0, "jac": np.ones_like}, method="SLSQP",
        options={"ftol": 1e-14},
    )  # fmt: skip
    expected = np.asarray(oracle.Kernel("rbf", 0.5)(U, P), np.float64) @ found.x
    np.testing.assert_allclose(one_class_scores(problem), expected, atol=5e-3)


@pytest.mark.parametrize("lam", [1e-3, 1e-2])
def test_the_ramp_objective_is_that_of_its_formula_and_a_round_is_its_convex_problem(lam: float) -> None:
    P, U = two_clouds(2, 15, 60)
    prior, X, y = 0.4, np.vstack([P, U]), np.repeat([1.0, -1.0], [15, 60])
    found, K = ramp_loss(RBF, P, U, prior, lam), oracle.Kernel("rbf", 0.5)(X, X)
    assert found.beta.sum() == pytest.approx(0.0, abs=1e-9)
    z = y * (K @ found.beta + found.b)
    ramp = np.minimum(1.0, np.maximum(0.0, (1 - z) / 2))
    risk = 2 * prior * ramp[:15].mean() + ramp[15:].mean()
    assert found.objectives[-1] == pytest.approx((lam * found.beta @ K @ found.beta + risk) / (2 * lam))


def test_both_halves_of_the_examples_are_folded_and_those_without_a_weight_left_out() -> None:
    X, positive = np.arange(60.0)[:, None], np.arange(60) % 4 == 0
    weights = np.where(np.arange(60) % 5 == 0, 0.0, 1.0 + np.arange(60))
    folds = Folds(RBF, X, positive.astype(float), weights)
    rows = folds.X[:, 0].astype(int)
    assert sorted(rows) == [i for i in range(60) if weights[i] > 0]
    np.testing.assert_array_equal(folds.positive, positive[rows])
    np.testing.assert_array_equal(folds.weights, weights[rows])
    for kind in (True, False):
        sizes = np.bincount(folds.fold[folds.positive == kind], minlength=3)
        assert sizes.max() - sizes.min() <= 1
    assert folds.sizes == (int(folds.positive.sum()), int((~folds.positive).sum()))


def test_the_quadratic_program_takes_few_newton_steps() -> None:
    for seed in range(3):
        P, U = two_clouds(seed, 12, 60)
        problem: PUProblem = pu_problem(RBF, P, U, *costs(0.4, 0.01, np.ones(12), np.ones(60)))
        assert quadratic_program(problem).iterations <= 25
