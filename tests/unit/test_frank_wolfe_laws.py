"""Searches by Frank-Wolfe methods, watched: after each step what they hold is compared with dense products."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from livesvm.solvers.frank_wolfe import by_blocks, growth, single_steps
from livesvm.solvers.frank_wolfe import problem as problem_module
from livesvm.solvers.frank_wolfe.blocks import relative_gap
from livesvm.solvers.frank_wolfe.one_versus_one import coefficients_of, pairs, problems, solve
from livesvm.solvers.frank_wolfe.problem import CLEAR, Known, Problem, balanced, exact_parts, gap_of, rough_of
from livesvm.solvers.frank_wolfe.single_steps import _next, first
from livesvm.solvers.frank_wolfe.solution import GapTrace, Options, solution
from livesvm.solvers.kernels.matrix_products import PreparedRows
from tests.oracle import Matrix, Vector
from tests.unit.test_frank_wolfe_parts import RBF, problem_of

Ints = NDArray[np.int64]
SEEDS = st.integers(0, 10**6)


def of_classes(problem: Problem, b: Vector) -> list[Vector]:
    return [np.where(problem.y == sign, b, 0.0) for sign in (-1.0, 1.0)]


class WatchedBlocks(by_blocks.Search):
    """The search of the default over the problem with the matrix ``Q``."""

    Q: ClassVar[Matrix]
    looks: ClassVar[list[tuple[float, float, int]]]  # the goal before, the gap found, and how many were not active
    goals: ClassVar[list[float]]
    adds: ClassVar[int]

    def check(self, indices: Ints, tolerance: float) -> None:
        """Compare the parts of g of some."""
        for c, own in enumerate(of_classes(self.problem, self.b)):
            np.testing.assert_allclose(self.parts[c, indices], self.Q[indices] @ own, atol=tolerance)

    @property
    def tolerance(self) -> float:
        digits = 1e-9 if self.examples is self.problem.examples else 3e-4
        return digits * max(1.0, float(self.b.sum()))

    def check_active(self) -> None:
        active, indices = self.active, self.active.indices
        assert np.unique(indices).size == indices.size == active.rows.examples.n
        assert not self.b[self.outside()].any()
        np.testing.assert_array_equal(active.b, self.b[indices])
        np.testing.assert_array_equal(active.parts, self.parts[:, indices])
        np.testing.assert_array_equal(active.y, self.problem.y[indices])
        np.testing.assert_array_equal(active.of_class, self.problem.of_class[indices])
        np.testing.assert_array_equal(active.ridge, self.problem.ridge[indices])

    def optimize(self, tol: float, most: int, trace: GapTrace) -> bool:
        steps = self.steps
        self.goals.append(tol)
        is_there = super().optimize(tol, most, trace)
        assert steps <= self.steps <= max(steps, most)
        self.check_active()
        self.check(self.active.indices, self.tolerance)
        if is_there:
            assert relative_gap(self.active) <= tol
        return is_there

    def look(self) -> None:
        outside = self.outside()
        before = None if self.seen is None else self.seen.b
        _, changes = problem_module.since(self.problem.of_class, self.b, before)
        computed = self.computed
        super().look()
        assert self.computed - computed == outside.size * np.count_nonzero(changes)
        self.check(np.arange(self.problem.n), self.tolerance)
        assert self.seen is not None
        np.testing.assert_array_equal(self.seen.b, self.b)
        np.testing.assert_array_equal(self.seen.parts, self.parts)
        self.looks.append((self.goals[-1], self.gap(), outside.size))

    def add(self) -> None:
        before, room = self.active.indices, self.active.rows.values.shape[1]
        super().add()
        new = np.setdiff1d(self.active.indices, before)
        type(self).adds += new.size > 0
        self.check_active()
        if before.size + new.size <= room:
            assert np.isin(before, self.active.indices).all()  # none has to leave where there is space

    def prove(self) -> None:
        super().prove()
        g, near = self.parts.sum(axis=0), self.Q @ self.b
        scale = self.b.sum() / (self.b @ near)
        np.testing.assert_allclose(
            g[near * scale < 1.0 + 0.9 * CLEAR], near[near * scale < 1.0 + 0.9 * CLEAR], rtol=1e-9
        )
        assert self.exact is not None
        assert self.exact is self.seen
        assert self.exact.rough is not None
        self.check(np.flatnonzero(~self.exact.rough), 1e-9 * max(1.0, self.b.sum()))
        assert self.gap() == pytest.approx(2.0 * (1.0 - near.min() * self.b.sum() / (self.b @ near)), abs=1e-9)
        self.check_active()


@pytest.mark.parametrize(
    ("n", "single", "cost", "most", "warm", "rounds"),
    [
        (120, False, 2.0, 10**4, False, 60),
        (120, True, 2.0, 10**4, False, 60),
        (120, True, 300.0, 10**4, False, 60),
        (50, False, 2.0, 10**4, False, 60),
        (120, True, 2.0, 1, False, 60),
        (120, True, 2.0, 10**4, True, 60),
        (120, True, 2.0, 10**4, False, 1),
    ],
)
def test_parts_of_g_are_right_after_every_step_of_the_default(
    n: int, single: bool, cost: float, most: int, warm: bool, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FIRST", 50), ("GROWTH", 2)):
        monkeypatch.setattr(growth, name, value)
    monkeypatch.setattr(problem_module, "SMALL", 0 if single else n)
    monkeypatch.setattr(by_blocks, "Search", WatchedBlocks)
    monkeypatch.setattr(by_blocks, "ROUNDS", rounds)
    problem, WatchedBlocks.Q = problem_of(n, cost=cost)
    WatchedBlocks.adds, WatchedBlocks.looks, WatchedBlocks.goals = 0, [], []
    start = None
    if warm:
        b = np.maximum(np.random.default_rng(0).normal(size=n), 0.0)
        start = Known(b, exact_parts(problem, b), 3, np.array([2, 7]))
    options = Options(tol=1e-3, max_steps=most)
    found = solve(problem, options, GapTrace(1e-3), start)
    is_whole = most > 1 and rounds > 1
    assert found.is_converged is is_whole
    assert 1 <= found.steps <= most
    goals, looks = WatchedBlocks.goals, WatchedBlocks.looks
    assert goals[0] == (by_blocks.MARGIN * 1e-3 if n <= 50 else by_blocks.INSIDE)
    assert goals[1:] == [
        by_blocks.next_goal(goal, gap, 1e-3, outside) for goal, gap, outside in looks[: len(goals) - 1]
    ]
    assert {gap for _, gap, _ in looks[:-1] if gap > 1e-3} <= {*found.trace[:, 1].tolist()}
    assert WatchedBlocks.adds >= (n > 50 and is_whole and not warm)
    check_solution(problem, WatchedBlocks.Q, found, 1e-9 if is_whole else 1e-4)
    assert found.kernel_values > 0
    assert found.age == (3 if warm else 0)


def check_solution(problem: Problem, Q: Matrix, found: Any, digits: float) -> None:
    """Compare a solution with its definition."""
    assert found.a.sum() == pytest.approx(1.0)
    R = found.a @ Q @ found.a
    np.testing.assert_allclose(found.R, R)
    np.testing.assert_allclose(found.b, found.a / R)
    assert found.gap.relative == pytest.approx(2.0 * (1.0 - float((Q @ found.a).min()) / R), abs=1e-9)
    f = Q @ found.b - problem.ridge * found.b
    primal = 0.5 * found.b @ f + 0.5 * problem.costs @ np.maximum(0.0, 1.0 - f) ** 2
    assert found.gap.primal == pytest.approx(primal, rel=digits)
    assert found.gap.dual == pytest.approx(found.b.sum() - 0.5 * found.b @ Q @ found.b)
    known = found.known
    rough = (found.b == 0) & (Q @ found.b > 1.0 + 0.5 * CLEAR + 1e-3)
    assert known.rough[rough].all()
    assert not known.rough[(found.b > 0) | (Q @ found.b < 1.0)].any()
    for c, own in enumerate(of_classes(problem, found.b)):
        np.testing.assert_allclose(found.parts[c], Q @ own, atol=1e-3 * max(1.0, found.b.sum()))
    assert found.trace[-1, 1] == found.gap.relative


class WatchedCore(single_steps.Core):
    """A core over the problem with the matrix ``Q``."""

    Q: ClassVar[Matrix]

    def check(self) -> None:
        own, K = self.Q[np.ix_(self.indices, self.indices)], self.problem.y[:, None] * self.problem.y
        k, digits = self.indices.size, 1e-9 if self.examples is self.problem.examples else 1e-4
        kernel = (self.Q - np.diag(self.problem.ridge)) * K - 1.0
        np.testing.assert_allclose(self.values[:k, :k], kernel[np.ix_(self.indices, self.indices)], atol=digits)
        np.testing.assert_allclose(self.g, own @ self.a, atol=1e-4)
        np.testing.assert_array_equal(np.flatnonzero(self.place_of >= 0), np.sort(self.indices))
        np.testing.assert_array_equal(self.place_of[self.indices], np.arange(k))
        assert [i for i in range(self.problem.n) if self.holds(i)] == sorted(self.indices)
        np.testing.assert_allclose(self.diagonal, self.Q.diagonal()[self.indices])
        assert self.a.sum() == pytest.approx(1.0)
        assert self.is_full is (k == len(self.values))
        assert self.gap == pytest.approx(2.0 * (1.0 - float((own @ self.a).min() / (self.a @ own @ self.a))), abs=1e-3)

    def add(self, i: int, row: Any) -> None:
        self.check()
        was_here, k = self.holds(i), self.indices.size
        kernel = (self.Q[i] - np.where(np.arange(self.problem.n) == i, self.problem.ridge, 0.0)) * self.problem.y
        np.testing.assert_allclose(row, (kernel * self.problem.y[i])[self.indices] - 1.0, atol=1e-4)
        super().add(i, row)
        assert self.indices.size == k + (not was_here)
        self.check()


class WatchedSamples(single_steps.SampledSearch):
    """Its search."""

    def _worst(self, some: Ints) -> single_steps.SampledExample:
        found, held = super()._worst(some), self._core
        g = WatchedCore.Q[:, held.indices] @ held.a
        assert g[found.i] == pytest.approx(g[some].min(), abs=1e-4)
        assert found.gap == pytest.approx(2.0 * (1.0 - g[found.i] / (held.a @ g[held.indices])), abs=1e-3)
        return found


@pytest.mark.parametrize("variant", ["fw", "mfw"])
@pytest.mark.parametrize("single", [False, True])
def test_a_core_is_what_it_says_after_every_example_that_joins(
    variant: Any, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_module, "SMALL", 0 if single else 1000)
    monkeypatch.setattr(single_steps, "Core", WatchedCore)
    monkeypatch.setattr(single_steps, "SampledSearch", WatchedSamples)
    problem, WatchedCore.Q = problem_of(100, cost=3.0)
    found = solve(problem, Options(variant, tol=0.02, sampling=12), GapTrace(0.02))
    assert found.is_converged
    check_solution(problem, WatchedCore.Q, found, 1e-9)
    cut = solve(problem, Options(variant, tol=1e-9, sampling=12, max_steps=3), GapTrace(1e-9))
    assert (cut.steps, cut.is_converged) == (3, False)


@pytest.mark.parametrize("variant", ["fw", "mfw"])
def test_a_search_is_of_as_many_steps_as_it_says_and_lowers_the_objective(variant: Any) -> None:
    problem, Q = problem_of(80, cost=3.0)
    found = [solve(problem, Options(variant, tol=1e-6, sampling=None, max_steps=m), GapTrace(1e-6)) for m in (5, 6, 40)]
    assert [one.steps for one in found] == [5, 6, 40]
    for one in found:
        check_solution(problem, Q, one, 1e-9)
    values = [one.R for one in found]
    assert values == sorted(values, reverse=True)
    if variant == "fw":  # the step itself [Frandi et al., Algorithm 2]
        a, g = found[0].a, Q @ found[0].a
        i = int(g.argmin())
        R = a @ g
        best = (R - g[i]) / (R - 2 * g[i] + Q[i, i])
        np.testing.assert_allclose(found[1].a, (1 - best) * a + best * np.eye(80)[i], atol=1e-9)


@given(st.lists(st.booleans(), min_size=1, max_size=60).filter(lambda c: len(set(c)) == 2), SEEDS)
def test_the_first_coefficients_are_equal_and_of_both_classes(classes: list[bool], seed: int) -> None:
    of_class = np.array(classes, np.int64)
    a = first(of_class, np.random.default_rng(seed))
    counts = np.bincount(of_class[a > 0], minlength=2)
    assert counts.tolist() == np.minimum(np.bincount(of_class), 10).tolist()
    np.testing.assert_allclose(a[a > 0], 1.0 / counts.sum())


@given(SEEDS, st.integers(2, 40), st.integers(1, 40))
def test_rows_that_come_next_are_those_of_the_least_g(seed: int, n: int, most: int) -> None:
    random = np.random.default_rng(seed)
    g, wanted = random.normal(size=n), int(random.integers(n))
    place_of = np.where(random.random(n) < 0.3, 0, -1)
    place_of[wanted] = -1

    class Rows:
        pass

    rows: Any = Rows()
    rows.most, rows.place_of = most, place_of
    found = _next(rows, wanted, g).tolist()
    count = min(16, most, n - 1)
    least = [i for i in np.argsort(g)[: count - 1].tolist() if i != wanted and place_of[i] < 0] if count >= 2 else []
    assert found[0] == wanted
    assert sorted(found[1:]) == sorted(least)


@given(SEEDS, st.integers(2, 30), st.integers(0, 40))
def test_space_is_shared_by_class(seed: int, n: int, room: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, n, 2)
    found, total = growth.shared(counts, room), int(counts.sum())
    assert (found <= counts).all()
    assert found.sum() == min(total, room)
    if total > room:
        rarer = int(counts.argmin())
        wanted = max(room // 4, room * int(counts[rarer]) // total)
        assert found[rarer] == min(int(counts[rarer]), wanted) or counts[0] == counts[1]


@given(SEEDS, st.integers(1, 60))
def test_a_quarter_of_the_first_at_least_is_of_each_class(seed: int, n: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "FIRST", 20)
        counts = np.random.default_rng(seed).integers(0, n, 2)
        found, total = growth.of_first(counts), int(counts.sum())
        assert found.sum() == min(total, 20)
        assert (found <= counts).all()
        for c in (0, 1):
            assert found[c] >= min(5, int(counts[c]), total)
            share = 20 * counts[c] / total if total > 20 else counts[c]
            if 5 < share < 15:
                assert abs(found[c] - share) <= 0.5


@given(SEEDS, st.integers(2, 60), st.integers(1, 30))
def test_what_joins_violates_or_may_soon_or_is_chosen_by_chance(seed: int, n: int, active: int) -> None:
    random = np.random.default_rng(seed)
    outside, of_class = np.sort(random.permutation(200)[:n]), random.integers(0, 2, n)
    g = random.choice([0.5, 1.0, 1.0 + 0.9 * growth.NEAR, 1.0 + 1.1 * growth.NEAR, 2.0], n)
    found = growth.added(outside, g, of_class, active, random)
    room = (growth.GROWTH - 1) * active
    assert np.unique(found).size == found.size <= room
    assert set(found) <= set(outside)
    near = outside[g < 1.0 + growth.NEAR]
    if (g < 1.0).sum() <= room:
        assert set(found) == set(near) if near.size <= room else set(found) < set(near)
        assert found.size == min(near.size, room)
    else:
        assert found.size == min(n, room)
    b, far = random.choice([0.0, 1.0], n), random.choice([0.9, 1.0 + 1.1 * growth.SAFE], n)
    stay = growth.staying(b, far)
    expected = [i for i in range(n) if b[i] > 0 or far[i] < 1.0 + growth.SAFE]
    assert stay.tolist() == (expected if len(expected) < growth.MANY * n else list(range(n)))


def test_where_many_violate_those_that_do_not_may_be_chosen_too() -> None:
    g = np.where(np.arange(500) < 100, 0.5, 2.0)
    found = growth.added(np.arange(500), g, np.arange(500) % 2, 20, np.random.default_rng(0))
    assert 30 <= np.count_nonzero(found >= 100) < found.size == 60


@pytest.mark.parametrize("seed", range(5))
def test_a_balanced_start_is_the_best_of_all_scales_of_both_classes(seed: int) -> None:
    problem, Q = problem_of(40, seed)
    b = np.maximum(np.random.default_rng(seed).normal(size=40), 0.0) * np.where(problem.y > 0, 3.0, 0.1)
    found = balanced(problem, Known(b, exact_parts(problem, b), 4, np.array([1])))
    assert (found.age, found.come.tolist()) == (4, [1])
    for own, before in zip(of_classes(problem, found.b), of_classes(problem, b), strict=True):
        np.testing.assert_allclose(own * before.sum(), before * own.sum())
        assert own @ (Q @ found.b - 1.0) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(found.parts, exact_parts(problem, found.b), atol=1e-9)
    one = np.where(problem.y > 0, b, 0.0)
    alone = Known(one, exact_parts(problem, one))
    assert balanced(problem, alone) is alone


@given(SEEDS, st.integers(2, 4))
def test_pairs_hold_the_examples_of_two_classes(seed: int, n_classes: int) -> None:
    random = np.random.default_rng(seed)
    classes = random.permutation(np.concatenate([np.arange(n_classes), random.integers(-1, n_classes, 12)]))
    n, X, costs = classes.size, random.normal(size=(classes.size, 2)), random.uniform(0.5, 2.0, classes.size)
    own = problems(PreparedRows.of(RBF, X), classes, costs, n_classes, 3)
    found = []
    for (negative, positive), pair in zip(pairs(n_classes), own, strict=True):
        assert pair.indices.tolist() == [i for i in range(n) if classes[i] in (negative, positive)]
        np.testing.assert_array_equal(pair.problem.y, np.where(classes[pair.indices] == positive, 1.0, -1.0))
        np.testing.assert_array_equal(pair.problem.costs, costs[pair.indices])
        assert pair.problem.threads == (3 if n_classes == 2 else 1)
        b = np.where(random.random(pair.indices.size) < 0.5, 0.0, random.random(pair.indices.size))
        b[0] = 1.0
        found.append(solution(pair.problem, b, exact_parts(pair.problem, b), 0.1, 3, 4, GapTrace(0.1)))
    support, coefficients = coefficients_of(found, own, n)
    dense = np.zeros((len(own), n))
    for q, (pair, one) in enumerate(zip(own, found, strict=True)):
        dense[q, pair.indices] = one.a * pair.problem.y
    assert support.tolist() == np.flatnonzero(dense.any(axis=0)).tolist()
    np.testing.assert_array_equal(coefficients, dense[:, support])


@given(SEEDS)
def test_the_gap_bounds_how_far_an_answer_is_from_the_optimum(seed: int) -> None:
    problem, Q = problem_of(12, seed % 7)
    random = np.random.default_rng(seed)
    b = np.maximum(random.normal(size=12), 0.0) + 1e-3 * (random.random() < 0.5)
    b[0] += 0.1
    gap = gap_of(problem, 3.0 * b, exact_parts(problem, 3.0 * b))
    assert vars(gap) == pytest.approx(vars(gap_of(problem, b, exact_parts(problem, b))))
    a = b / b.sum()
    R, g = a @ Q @ a, Q @ a
    assert gap.relative == pytest.approx(2 * (R - g.min()) / R)
    assert gap.dual <= gap.primal
    assert gap.dual == pytest.approx(0.5 / R)
    assert rough_of(b, exact_parts(problem, b)).tolist() == ((b == 0) & (Q @ b > 1.0 + 0.5 * CLEAR)).tolist()
