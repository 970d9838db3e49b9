"""The parts of the Frank-Wolfe methods, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from livesvm.solvers.frank_wolfe import blocks, by_blocks, growth, steps, subproblem
from livesvm.solvers.frank_wolfe import problem as problem_module
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.one_versus_one import pairs
from livesvm.solvers.frank_wolfe.problem import OLD, Known, Problem, carried, exact_parts, since
from livesvm.solvers.frank_wolfe.single_steps import NEAR, Core, SampledSearch
from livesvm.solvers.frank_wolfe.solution import GapTrace
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows
from livesvm.solvers.models.pairs_predictor import scores
from tests.oracle import Matrix, Vector

RBF = Kernel("rbf", gamma=0.4)


def problem_of(n: int, seed: int = 0, cost: float = 1.0) -> tuple[Problem, Matrix]:
    """Return a problem and its matrix K~."""
    random = np.random.default_rng(seed)
    X, costs = random.normal(size=(n, 3)), cost * random.uniform(0.5, 2.0, n)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    K = np.exp(-0.4 * ((X[:, None] - X) ** 2).sum(axis=2))
    return Problem(PreparedRows.of(RBF, X), y, costs), y[:, None] * y * (K + 1.0) + np.diag(1.0 / costs)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_the_small_problem_is_a_least_squares_problem_without_negative_ones(scale: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    A = random.normal(size=(60, 40)) * np.where(random.random(40) < 0.2, scale, 1.0)
    aim = random.normal(size=60)
    x, slope = np.zeros(40), -A.T @ aim
    subproblem.minimize(A.T @ A, x, slope, np.zeros(40), 1e-11 * np.abs(slope).max())
    expected, _ = nnls(A, aim)
    assert np.linalg.norm(A @ x - aim) == pytest.approx(np.linalg.norm(A @ expected - aim), rel=1e-9)
    assert (x >= 0).all()
    np.testing.assert_allclose(slope, A.T @ (A @ x - aim), atol=1e-9 * np.abs(A.T @ aim).max())


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_exact_where_examples_are_alike_and_cost_much(seed: int) -> None:
    random = np.random.default_rng(seed)
    X = (random.random((256, 12)) < 0.2).astype(float)
    y = np.where(random.random(256) < 0.5, 1.0, -1.0)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    Q = y[:, None] * y * (K + 1.0) + np.eye(256) / 4096.0
    x, slope, low = np.zeros(256), -np.ones(256), np.zeros(256)
    subproblem.minimize(Q, x, slope, low, 1e-3)
    assert subproblem.derivatives(x, slope, low).max() < 1e-10  # the last step needed no other after it


@pytest.mark.parametrize("scale", [1.0, 1.0001 * steps.SMALLEST_SCALE, 0.9999 / steps.SMALLEST_SCALE])
def test_steps_keep_g_and_the_objective_whatever_the_common_factor(scale: float) -> None:
    problem, Q = problem_of(40, cost=1e4)
    a = np.full(40, 1 / 40)
    values = problem.y[:, None] * problem.y * (Q - np.diag(problem.ridge)) - 1.0
    at = steps.At.of(scale, a @ Q @ a, np.inf, 0, 40)
    stored, g = a / scale, Q @ a / scale
    arrays = np.arange(40), problem.y, problem.ridge, problem.diagonal, stored, g, at
    assert steps.walk(values, *arrays, True, 1e-12, 200) == steps.PAUSE
    assert steps.SMALLEST_SCALE < at[0].scale < 1.0 / steps.SMALLEST_SCALE
    a = at[0].scale * stored
    assert a.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(at[0].scale * g, Q @ a, atol=1e-10)
    np.testing.assert_allclose(at[0].R, a @ Q @ a, rtol=1e-6)
    assert at[0].n_active == np.count_nonzero(a) < 40


@pytest.mark.parametrize("away", [False, True])
def test_a_step_goes_no_further_than_to_the_example(away: bool) -> None:
    x, one = np.array([10.0, 1.0]), np.ones(2)
    values, ridge = np.outer(x, x), 0.1 * one
    Q = values + 1.0 + np.diag(ridge)
    a, at = np.array([1.0, 0.0]), steps.At.of(1.0, Q[0, 0], np.inf, 0, 1)
    g = Q[:, 0].copy()
    steps.walk(values, np.arange(2), one, ridge, Q.diagonal().copy(), a, g, at, away, 1e-12, 1)
    assert (at[0].scale * a).tolist() == [0.0, 1.0]
    np.testing.assert_allclose(at[0].scale * g, Q[:, 1])


def test_what_a_look_at_all_has_found_is_tried_before_another_look() -> None:
    problem, Q = problem_of(60)
    a = np.zeros(60)
    a[:2] = 0.5
    search = SampledSearch(Core(problem, problem.examples, a, 60), 59, np.random.default_rng(0))
    search.find(0.01)  # none of the samples is without
    near = np.flatnonzero(2.0 * (a @ Q @ a - Q @ a) > NEAR * 0.01 * (a @ Q @ a))
    found = set()
    search._look(0.01)
    assert set(search._near) == set(near)
    for left in range(near.size - 1, 0, -1):
        found.add(search.find(0.01).i)
        assert set(search._near) == set(near) - found or left < 2
    assert found <= set(near)


def test_parts_are_those_of_the_classes() -> None:
    problem, Q = problem_of(50)
    b = np.maximum(np.random.default_rng(1).normal(size=50), 0.0)
    parts = exact_parts(problem, b)
    for c, sign in ((0, -1.0), (1, 1.0)):
        np.testing.assert_allclose(parts[c], Q @ np.where(problem.y == sign, b, 0.0), atol=1e-12)
    some = np.array([3, 40, 7])
    np.testing.assert_allclose(problem.parts(problem.examples, b, some), parts[:, some], atol=1e-12)


def test_what_is_known_saves_work_and_changes_nothing() -> None:
    problem, Q = problem_of(50)
    before = np.maximum(np.random.default_rng(1).normal(size=50), 0.0)
    after = before * np.where(problem.y > 0, 1.5, 0.7)
    after[:3] += 1.0
    scales, changes = since(problem.of_class, after, before)
    assert scales == pytest.approx([0.7, 1.5])
    assert np.flatnonzero(changes).tolist() == [0, 1, 2]
    found = exact_parts(problem, after, Known(before, exact_parts(problem, before)))
    np.testing.assert_allclose(found.sum(axis=0), Q @ after, atol=1e-12)


@pytest.mark.parametrize("age", [0, 7])
def test_a_proof_is_in_double_precision_and_counts_how_old_errors_are(
    age: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_module, "SMALL", 0)
    monkeypatch.setattr(growth, "FIRST", 200)
    problem, Q = problem_of(400, cost=30.0)
    trace = GapTrace(0.1)
    search = by_blocks._begun(problem, None, 2**20, np.random.default_rng(0))
    search.optimize(0.01, 100, trace)
    search.look()
    b, exact = search.b, Q @ search.b
    error = float(np.abs(search.parts.sum(axis=0) - exact).max())
    assert 1e-9 < error < 1e-3  # it was searched in single precision
    search.exact = Known(b.copy(), search.problem.parts(problem.examples, b), age)
    monkeypatch.setattr(by_blocks, "TRUSTED", 3.0 * error / problem_module.CLEAR)  # of one look three times its error
    search.prove()
    np.testing.assert_allclose(search.active.parts.sum(axis=0), exact[search.active.indices], rtol=1e-10)
    assert search.exact.rough is not None
    assert search.exact.rough.any() == (age == 0)


@pytest.mark.parametrize("change", ["nothing", "costs", "labels", "most have gone", "old"])
def test_a_start_is_carried_to_the_next_window(change: str) -> None:
    problem, _ = problem_of(50)
    b = np.maximum(np.random.default_rng(1).normal(size=50), 0.0)
    first = 40 if change == "most have gone" else 5
    values, places = problem.examples.values[:, :3], np.r_[first:50, -1, -1]
    X = np.vstack([values[first:], [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]])
    costs = np.append(problem.costs[first:], [1.0, 1.0]) * (2.0 if change == "costs" else 1.0)
    y = np.append(problem.y[first:], [1.0, -1.0])
    stays = np.append(np.ones(50 - first, bool), [False, False])
    if change == "labels":
        stays[:3] = False
        y[:3] *= -1.0
    after = Problem(PreparedRows.of(RBF, X), y, costs)
    age = OLD if change == "old" else 7
    start = carried(after, problem, Known(b, exact_parts(problem, b), age), places)
    np.testing.assert_array_equal(start.b, np.where(stays, np.append(b[first:], [0.0, 0.0]), 0.0))
    np.testing.assert_allclose(start.parts, exact_parts(after, start.b), atol=1e-12)
    np.testing.assert_array_equal(start.come, np.flatnonzero(~stays))
    assert start.age == (0 if change in ("most have gone", "old") else 8)


@pytest.mark.parametrize("limit", [1, 4000, 10**6])
def test_rows_are_right_whatever_is_kept(limit: int) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3))
    K = RBF.matrix(X, np.ascontiguousarray(X.T))
    order = random.permutation(120)
    examples = PreparedRows.of(RBF, X)
    indices = order[:40]
    rows = ActiveRows(examples.take(indices), limit, 1, random, 120)
    for step in range(30):
        chosen = random.choice(indices.size, 15, replace=False)
        weights = random.normal(size=(2, 15))
        np.testing.assert_allclose(rows.times(chosen, weights), weights @ K[indices[chosen]][:, indices], atol=1e-11)
        if step % 5 == 4 and indices.size < 100:
            new = np.setdiff1d(order, indices)[: 4 if step % 10 == 4 else 15]
            if not rows.extend(examples.take(np.concatenate([indices, new]))):
                stay = (
                    np.sort(random.choice(indices.size, indices.size - 5, replace=False))
                    if step < 20
                    else np.arange(indices.size)
                )
                indices = indices[stay]
                rows.change(examples.take(np.concatenate([indices, new])), stay)
            indices = np.concatenate([indices, new])


def test_the_first_active_examples_are_of_both_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "FIRST", 40)
    random = np.random.default_rng(0)
    for positive in (3, 100, 980, 999):
        of_class = (np.arange(1000) < positive).astype(np.int64)
        chosen = growth.first(of_class, random)
        assert np.unique(chosen).size == 40
        assert min(np.bincount(of_class[chosen])) >= min(10, positive, 1000 - positive)


def test_the_last_goal_is_asked_for_where_it_is_not_far_or_all_are_active() -> None:
    last = by_blocks.MARGIN * 0.01
    assert by_blocks.next_goal(1.0, 1.0, 0.01, 5) == by_blocks.INSIDE
    assert by_blocks.next_goal(0.1, 1.0, 0.01, 5) == 0.1
    assert by_blocks.next_goal(1.0, 1.0, 0.01, 0) == last
    assert by_blocks.next_goal(1.0, 0.02, 0.01, 5) == last


def active_of(problem: Problem, b: Vector) -> blocks.Active:
    """Return a search among all examples of a small problem."""
    rows = ActiveRows(problem.examples, 10**6, 1, np.random.default_rng(0), problem.n)
    return blocks.active_of(problem, np.arange(problem.n), b, exact_parts(problem, b), rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scales", [True, False])
def test_a_block_step_is_the_optimum_of_the_block_and_of_the_factors_of_both_classes(seed: int, scales: bool) -> None:
    problem, Q = problem_of(60, seed)
    random = np.random.default_rng(seed)
    before = np.maximum(random.normal(size=60), 0.0)
    active, indices = active_of(problem, before.copy()), random.permutation(60)[:20]
    blocks._step(active, indices, 0.0, scales=scales)
    b, g = active.b, active.parts.sum(axis=0)
    np.testing.assert_allclose(g, Q @ b, atol=1e-9)
    np.testing.assert_allclose(active.parts, exact_parts(problem, b), atol=1e-9)
    np.testing.assert_allclose(g[indices][b[indices] > 0], 1.0, atol=1e-7)
    assert (g[indices] > 1.0 - 1e-7).all()
    others = np.setdiff1d(np.flatnonzero(before), indices)
    for c in (0, 1):
        own = others[problem.of_class[others] == c]
        (factor,) = set(np.round(b[own] / before[own], 9))
        if not scales:
            assert factor == 1.0
        else:
            assert b[own] @ (g[own] - 1.0) == pytest.approx(0.0, abs=1e-6) or factor == blocks.LEAST_FACTOR


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_of_either_class_come_into_a_block(seed: int) -> None:
    random = np.random.default_rng(seed)
    problem, _ = problem_of(60, seed)
    active, kept = active_of(problem, np.zeros(60)), random.permutation(60)[:9]
    violations = random.integers(0, 40, 60) / 10 + random.permutation(60) * 1e-3
    for count, least in ((10, 0.5), (50, 0.5), (6, 3.5), (10, float(np.sort(violations)[40]))):
        expected = set()
        for c in (0, 1):
            own = [i for i in range(60) if active.of_class[i] == c and violations[i] > least and i not in kept]
            expected |= set(sorted(own, key=lambda i: -violations[i])[: count // 2])
        assert set(blocks._worst(active, violations, kept, count, least).tolist()) == expected


def test_votes_are_counted_and_ties_are_decided_by_the_sums() -> None:
    assert pairs(3) == [(0, 1), (0, 2), (1, 2)]
    decisions: Vector = np.array([[1.0, 1.0, -1.0], [1.0, -2.0, 0.5]])
    assert scores(-decisions, 3).argmax(axis=1).tolist() == [1, 0]


def test_a_trace_is_thinned_out_and_tells_how_far_it_is() -> None:
    reported: list[int] = []
    trace = GapTrace(1e-3, lambda done, total: reported.append(done))
    for gap in np.geomspace(1.0, 1e-3, 10_000):
        trace(float(gap))
    assert len(trace.points) <= 2001
    assert reported[0] == 0
    assert reported[-1] == 1000
    assert reported == sorted(reported)
