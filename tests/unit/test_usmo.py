"""USMO against a quadratic program of its own, with the whole of its machinery on small problems."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers.errors import Cancelled, InvalidInput, NotOptimal, TimeLimit
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.low_rank import low_rank
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu import products, usmo
from livesvm.solvers.pu.pair_selection import STEPS, step_of, working_set
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from livesvm.solvers.pu.starts import feasible_start
from livesvm.solvers.runtime.interrupt import time_limit
from tests.pu_baselines.quadratic_program import quadratic_program
from tests.pu_problems import FAMILIES, Family, best_objective, draw, judged, two_clouds

LAMS = (1e-4, 1e-2, 1.0)
KERNELS = (Kernel("linear"), Kernel("rbf", 0.5), Kernel("poly", 0.5, 2, 1.0))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_objective_is_that_of_a_quadratic_program(family: Family, kernel: Kernel) -> None:
    for seed, lam in enumerate(LAMS):
        problem = draw(family, seed, kernel, lam)
        solution = usmo.usmo(problem)
        gap = judged(problem, solution.sigma, solution.b)
        best = best_objective(problem)
        certificate = problem.certificate(solution.sigma, solution.b)
        assert gap.gap <= 1e-6 * max(abs(gap.primal), abs(gap.dual))
        assert abs(certificate.primal - best) <= 1e-6 * abs(best) + 1e-9
        assert certificate.relative_gap == pytest.approx(solution.relative_gap, abs=1e-9)
        assert solution.violation <= 1e-6
        assert solution.sigma.sum() == pytest.approx(problem.total, rel=1e-12)
        assert (solution.sigma >= 0).all()
        assert (solution.sigma <= problem.c2).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_baseline_reaches_the_same_optimum(family: Family) -> None:
    for kernel in KERNELS[:2]:
        problem = draw(family, 7, kernel, 1e-2)
        found = quadratic_program(problem)
        mine = usmo.usmo(problem)
        baseline, own = (problem.certificate(s.sigma, s.b) for s in (found, mine))
        assert baseline.primal == pytest.approx(own.primal, rel=1e-6, abs=1e-9)
        assert baseline.relative_gap < 1e-5


@pytest.mark.parametrize("start", ["nested", "one_class", "feasible"])
@pytest.mark.parametrize("kernel", KERNELS[:2], ids=lambda k: k.name)
def test_small_working_sets_come_to_the_same_from_every_start(
    start: usmo.Start, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = draw("clouds", 3, kernel, 1e-3, n=400)
    whole = usmo.usmo(problem)
    monkeypatch.setattr(usmo, "WORKING", 24)
    parts = usmo.usmo(problem, start=start, cache_bytes=8 * 400 * 30)
    assert parts.passes > 2
    assert parts.violation <= 1e-6
    first, second = (problem.certificate(s.sigma, s.b) for s in (whole, parts))
    assert second.primal == pytest.approx(first.primal, rel=1e-6)
    assert second.max_violation <= 1e-6


def test_a_step_is_the_minimum_over_all_pieces() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        top_i, top_j = rng.uniform(0.5, 2.0, 2)
        si, sj = rng.choice([0.0, 0.25, 0.5, 0.8]) * top_i, rng.choice([0.2, 0.5, 0.75, 1.0]) * top_j
        curvature, slope = float(rng.choice([0.0, rng.uniform(0.1, 9.0)])), float(rng.uniform(0.01, 8.0))
        t = step_of(slope, curvature, si, top_i, sj, top_j, 1.0)
        limit = min(top_i - si, sj)
        grid = np.concatenate([np.linspace(0.0, limit, 4001), [t]])
        at_start = (-1.0 if si < 0.5 * top_i else 1.0) + (-1.0 if sj > 0.5 * top_j else 1.0)
        penalty = np.abs(si + grid - 0.5 * top_i) + np.abs(sj - grid - 0.5 * top_j)
        value = -(slope + at_start) * grid + 0.5 * curvature * grid**2 + penalty
        assert 0.0 <= t <= limit
        assert value[-1] <= value.min() + 1e-9


@pytest.mark.parametrize("n_free", [0, 2, 4, 5, 30])
def test_a_working_set_has_the_non_bound_and_the_worst_violators(n_free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usmo, "WORKING", 8)
    problem, rng = draw("clouds", 1, KERNELS[1], 1e-2, n=60), np.random.default_rng(n_free)
    free, n = rng.permutation(problem.n)[:n_free].tolist(), problem.n
    sigma = problem.c2 * rng.choice([0.0, 0.5, 1.0], n)
    sigma[free] = problem.c2[free] * rng.uniform(0.1, 0.4, n_free)
    run = usmo.Run(problem, products.exact(problem.kernel, problem.U, 10**6), sigma)
    if n_free > 4:
        worst = np.maximum(run.up - run.lowest, run.highest - run.down)
        free = sorted(free, key=lambda i: -worst[i])[:4]
    chosen, each = list(free), (8 - len(free)) // 2
    for values in (-run.up, run.down):
        chosen += sorted(set(range(n)).difference(chosen), key=lambda i, v=values: v[i])[:each]  # type: ignore[misc]
    assert run.choose().tolist() == sorted(chosen)


def test_b_is_in_the_middle_where_no_example_is_non_bound() -> None:
    U = np.array([[-2.0], [-2.5], [2.0], [2.5]])
    problem = pu_problem(Kernel("linear"), np.array([[2.2]]), U, *costs(0.5, 2.0, np.ones(1), np.ones(4)))
    solution = usmo.usmo(problem)
    found = problem.certificate(solution.sigma, solution.b)
    assert found.primal == pytest.approx(best_objective(problem), rel=1e-9)
    F, half = problem.q - U[:, 0] * (U[:, 0] @ solution.sigma), 0.5 * problem.c2
    assert np.isin(solution.sigma, [0.0, half[0], problem.c2[0]]).all()
    up, down = np.where(solution.sigma < half, 1.0, -1.0), np.where(solution.sigma <= half, 1.0, -1.0)
    highest = (F + up)[solution.sigma < problem.c2].max()
    lowest = (F + down)[solution.sigma > 0].min()
    assert highest < lowest
    assert solution.b == pytest.approx(-0.5 * (highest + lowest))


def test_pivots_bound_their_error() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 2))
    kernel = Kernel("rbf", 0.1)
    found = low_rank(kernel, X, 1e-9, 200)
    assert found is not None
    indices, c = np.arange(1000, 3000), np.random.default_rng(1).normal(size=2000)
    rows = KernelRows(kernel, X, cache_bytes=2**16)
    off = found.product(rows, X, indices, c) - rows.times(indices, c)
    assert np.abs(off).max() <= found.error * np.abs(c).sum()
    assert found.error <= 1e-9
    assert low_rank(kernel, X, 1e-9, 5) is None
    assert low_rank(kernel, X, 1e-15, 3000) is None


def test_pivots_and_rows_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = draw("clouds", 5, Kernel("rbf", 0.1), 1e-2, n=1500)
    by_rows = usmo.usmo(problem)
    monkeypatch.setattr(products, "FEW_EXAMPLES", 0)
    by_pivots = usmo.usmo(problem, cache_bytes=2**20)
    assert by_pivots.by_pivots
    assert not by_rows.by_pivots
    assert by_pivots.relative_gap <= 1e-6
    first, second = (problem.certificate(s.sigma, s.b) for s in (by_rows, by_pivots))
    assert second.primal == pytest.approx(first.primal, rel=1e-6)
    assert second.relative_gap <= by_pivots.relative_gap
    assert second.max_violation <= by_pivots.violation


def _begun() -> usmo.Run:
    problem = draw("clouds", 3, Kernel("rbf", 0.5), 1e-2)
    return usmo.Run(problem, products.exact(problem.kernel, problem.U, 2**20), feasible_start(problem))


def test_f_is_computed_again_where_it_was_carried_along_for_many_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    run, passes = _begun(), [usmo.FRESH + 1, usmo.FRESH]
    F = run.F.copy()

    def optimize(run: usmo.Run, *_: object) -> None:
        run.passes += passes.pop(0)
        run.F += 1e-3

    monkeypatch.setattr(usmo, "optimize", optimize)
    usmo._finished(run, 1e-6, lambda _: None)
    assert passes == []
    np.testing.assert_allclose(run.F, F + 1e-3, rtol=1e-12)


def test_passes_that_end_before_pairs_do_are_counted_in_a_row() -> None:
    run, found = _begun(), []
    indices = np.arange(run.sigma.size)
    w = working_set(run.K.block(indices), run.F, run.sigma, run.problem.c2)
    for steps in (usmo.STEPS_EACH * usmo.WORKING, usmo.STEPS_EACH * usmo.WORKING, 5):
        w.counters[STEPS] = steps
        run._brought_on(w, run.problem.c2)
        found.append(run.unfinished)
    assert found == [1, 2, 0]


def _problem() -> PUProblem:
    P, U = two_clouds(1, 20, 1500)
    return pu_problem(Kernel("rbf", 0.5), P, U, *costs(0.4, 1e-3, np.ones(20), np.ones(1500)))


def test_progress_is_reported_and_can_cancel() -> None:
    reported: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> bool:
        reported.append((done, total))
        return True

    usmo.usmo(_problem(), progress=tell)
    assert reported == sorted(reported)
    assert reported[-1] == (usmo.PARTS, usmo.PARTS)
    with pytest.raises(Cancelled):
        usmo.usmo(_problem(), progress=lambda done, total: False)


def test_a_solve_can_be_interrupted() -> None:
    with pytest.raises(TimeLimit), time_limit(1e-6):
        usmo.usmo(_problem())


def test_what_cannot_be_solved_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = np.ones(1), np.ones(2)
    for prior in (0.0, 1.0, -0.1, np.nan, "half"):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            costs(prior, 1.0, one, two)  # type: ignore[arg-type]
    for lam in (0.0, -1.0, np.inf):
        with pytest.raises(InvalidInput, match="positive finite"):
            costs(0.5, lam, one, two)
    with pytest.raises(InvalidInput, match="no positive example"):
        costs(0.5, 1.0, np.zeros(3), two)
    with pytest.raises(InvalidInput, match="no unlabelled example"):
        costs(0.5, 1.0, one, np.empty(0))
    with pytest.raises(InvalidInput, match="'feasible'"):
        usmo.usmo(_problem(), start="warm")  # type: ignore[arg-type]
    monkeypatch.setattr(usmo, "MOST_PASSES", 0)
    with pytest.raises(NotOptimal):
        usmo.usmo(_problem())


def test_a_gap_is_enough_where_pairs_make_no_way(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = draw("clouds", 3, Kernel("rbf", 1e-3), 1e-4)
    monkeypatch.setattr(usmo, "STEPS_EACH", 0.01)
    monkeypatch.setattr(usmo, "MOST_UNFINISHED", 3)
    solution = usmo.usmo(problem)
    assert solution.relative_gap <= 1e-6
    assert problem.certificate(solution.sigma, solution.b).relative_gap <= 1e-6


def test_badly_scaled_features_are_solved_or_refused() -> None:
    rng = np.random.default_rng(0)
    P, U = (rng.normal(size=(n, 6)) * 10.0 ** np.linspace(-1, 1, 6) for n in (10, 60))
    for kernel in KERNELS[:2]:
        problem = pu_problem(kernel, P, U, *costs(0.3, 1e-3, np.ones(10), np.ones(60)))
        solution = usmo.usmo(problem)
        assert problem.certificate(solution.sigma, solution.b).relative_gap <= 1e-6
    far = pu_problem(Kernel("poly", 0.5, 2, 1.0), P + 1e5, U + 1e5, *costs(0.3, 1.0, np.ones(10), np.ones(60)))
    with pytest.raises(NotOptimal, match="double precision"):
        usmo.usmo(far)


@pytest.mark.parametrize(("n", "lam"), [(80, 1e-4), (300, 1e-2), (1200, 1e-4)])
def test_features_of_very_different_sizes_take_few_steps(n: int, lam: float) -> None:
    P, U = two_clouds(n, 10, n, d=12)
    sizes = 10.0 ** np.linspace(-3, 3, 12)
    problem = pu_problem(KERNELS[0], P * sizes, U * sizes, *costs(0.3, lam, np.ones(10), np.ones(n)))
    solution = usmo.usmo(problem)
    assert problem.certificate(solution.sigma, solution.b).relative_gap <= 1e-6
    assert solution.steps <= 10 * usmo.STEPS_EACH * usmo.WORKING
