"""Outlier paths: every model on them satisfies the paper's conditions, every D-step lowers the objective."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.analyses.outlier.cccp import cccp
from livesvm.solvers.analyses.outlier.result import OutlierPath
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.robust.d_step import MANY_SWITCHES
from livesvm.solvers.robust.path import SEGMENTS
from livesvm.solvers.robust.ramp_losses import Parameter
from tests.oracle import Kernel, Matrix, Vector
from tests.robust import judge_labels, judge_targets
from tests.support.outlier_paths import PARAMETERS, STRICT, decisions, labelled, measured


def places(path: OutlierPath, seed: int = 0, most: int = 12) -> list[float]:
    """Return values of breakpoints and values between them."""
    rng = np.random.default_rng(seed)
    values = sorted({point.value for point in path.breakpoints})
    chosen = rng.choice(values, min(most, len(values)), replace=False).tolist() if values else []
    low, high = sorted((path.start, path.end))
    return [*chosen, *rng.uniform(low, high, most).tolist(), path.end]


def signs(model: LiveEstimator, X: Matrix) -> Vector:
    """Return the labels that a model gives."""
    return np.where(decisions(model, X) > 0, 1.0, -1.0)


def kernel_of(name: str, d: int) -> Kernel:
    return Kernel(name, 1.0 / d)


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_labels_every_model_satisfies_theorem_4(parameter: Any, kernel: str, C: float, fit_intercept: bool) -> None:
    X, y, _ = labelled()
    model = IncrementalSVC(C=C, kernel=kernel, gamma=1 / 30, fit_intercept=fit_intercept).fit(X, y)
    path = model.outlier_path(parameter)
    assert path.stalls == 0
    for value in places(path):
        theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
        found = judge_labels(path.at(value), kernel_of(kernel, 30), C, theta, s)
        assert found.violation <= STRICT, value
        assert found.cutoff > 0.0, value


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("loss", "epsilon"), [("absolute", 0.0), ("epsilon_insensitive", 0.2)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_targets_every_model_satisfies_theorem_5(
    parameter: Any, kernel: str, loss: str, epsilon: float, fit_intercept: bool
) -> None:
    X, y = measured()
    for C in (0.01, 1.0, 100.0):
        model = IncrementalSVR(C=C, kernel=kernel, gamma=0.1, loss=loss, epsilon=epsilon, fit_intercept=fit_intercept)
        path = model.fit(X, y).outlier_path(parameter)
        for value in places(path, most=6):
            theta, s = (value, path.fixed) if parameter == "theta" else (0.0, value)
            found = judge_targets(path.at(value), kernel_of(kernel, 10), C, theta, s, epsilon)
            assert found.violation <= STRICT, (C, value)
            assert found.cutoff > 0.0, (C, value)


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_space_for_one_leg_at_first_makes_no_difference(parameter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = labelled(150, seed=3, wrong=0.25)
    model = IncrementalSVC(C=0.1, kernel="linear").fit(X, y)
    path = model.outlier_path(parameter)
    monkeypatch.setattr("livesvm.solvers.robust.path.LEGS", 1)
    again = model.outlier_path(parameter)
    assert path.d_steps > 1
    assert again.breakpoints == path.breakpoints
    np.testing.assert_array_equal(again.drops, path.drops)


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_objective_falls_at_every_d_step(parameter: Any, C: float) -> None:
    X, y, _ = labelled(150, seed=3, wrong=0.25)
    model = IncrementalSVC(C=C, kernel="linear", fit_intercept=False).fit(X, y)
    path = model.outlier_path(parameter)
    assert path.d_steps > 0
    assert (path.drops > 0.0).all()
    for before, jump in zip(path.walked.legs[:-1], path.walked.jumps, strict=True):
        theta, s = (jump.value, 0.0) if parameter == "theta" else (0.0, jump.value)
        arrived = path.restored({**path.arrays, **_place(before.at(jump.value), before.sides, theta, s)})
        kernel = Kernel("linear")
        worse = judge_labels(arrived, kernel, C, theta, s).objective
        better = judge_labels(path.at(jump.value), kernel, C, theta, s).objective
        assert better < worse
        if jump.value not in [other.value for other in path.walked.jumps if other is not jump]:
            assert worse - better == pytest.approx(jump.drop, rel=1e-6, abs=1e-9 * abs(worse))


def _place(solution: Any, sides: Any, theta: float, s: float) -> dict[str, Any]:
    return {
        "beta": solution.beta,
        "segments": solution.segment,
        "intercept": solution.b,
        "sides": sides,
        "robust": np.array([theta, s]),
    }


def test_where_no_example_is_free_b_moves_from_wall_to_wall() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 3))
    y = np.tile([1.0, -1.0], 40)  # as many of each class, and a C so small that no example is free
    model = IncrementalSVC(C=1e-3, gamma=0.5).fit(X, y)
    assert model._window.state.n_free == 0
    path = model.outlier_path("theta")
    assert path.end == 0.0
    for value in places(path):
        found = judge_labels(path.at(value), Kernel("rbf", 0.5), 1e-3, value, 0.0)
        assert found.violation <= STRICT
        assert found.cutoff > 0.0


def test_duplicates_and_weights() -> None:
    X, y, _ = labelled(40, seed=1)
    X, y = np.vstack([X, X, X[:10]]), np.concatenate([y, y, -y[:10]])
    weight = np.tile([1.0, 0.5, 2.0], 30)
    for parameter in PARAMETERS:
        model = IncrementalSVC(C=2.0, gamma=0.05).fit(X, y, sample_weight=weight)
        path = model.outlier_path(parameter)
        for value in places(path):
            theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
            assert judge_labels(path.at(value), Kernel("rbf", 0.05), 2.0, theta, s).violation <= STRICT


def test_a_row_of_zeros_rests_at_its_wall() -> None:
    X, y, _ = labelled(60, seed=2)
    X = np.vstack([X, np.zeros(30)])
    y = np.append(y, 1.0)
    model = IncrementalSVC(C=1.0, kernel="linear", fit_intercept=False).fit(X, y)
    for parameter in PARAMETERS:
        final = model.outlier_path(parameter).at(0.0)
        found = final.local_optimality()
        assert found.violation <= STRICT
        assert found.held.tolist() == [60]
        assert found.wall_distance > 0.0


@pytest.mark.parametrize("weight", [1e-300, 1e-100, 1e-18, 1e-13])
def test_an_example_of_next_to_no_weight_does_not_hold_up_the_path(weight: float) -> None:
    """Its weight moves no other f by more than rounding, so that its cutoff is reached again and again."""
    for seed in (18, 19, 23, 26):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-2, 2, (32, 3)).round(3), np.tile([1.0, -1.0], 16)
        weights = rng.choice([weight, 2 * weight], 32)
        counting = int(rng.integers(2, 14))
        weights[-counting:] = rng.choice([1.0, 2.0, 0.999], counting)
        looks: list[int] = []

        def progress(done: int, total: int, looks: list[int] = looks) -> bool:
            looks.append(done)
            return len(looks) < 400

        model = IncrementalSVC(C=9.0, gamma=0.5).fit(X, y, sample_weight=weights)
        path = model.outlier_path("s", theta=0.5, progress=progress)
        assert len(path.walked.legs) < 10 * len(X)
        for value in places(path, most=4):
            assert judge_labels(path.at(value), Kernel("rbf", 0.5), 9.0, 0.5, value).violation <= STRICT


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_both_labels_on_the_same_features_part_at_their_wall(parameter: Parameter) -> None:
    X = np.array([[1.0, 0.0], [1.0, 0.1], [0.9, -0.1], [-1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    y = np.array([1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    X, y = np.vstack([X, [[1.0, 0.0]], [[-0.9, 0.0]]]), np.append(y, [-1.0, 1.0])
    model = IncrementalSVC(C=0.1, kernel="linear", fit_intercept=False).fit(X, y)
    final = model.outlier_path(parameter).at(0.0)
    found = judge_labels(final, Kernel("linear"), 0.1, 0.0, 0.0)
    assert found.violation <= STRICT
    assert found.cutoff > 1e-3


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_features_of_few_values_hold_examples_at_their_walls(parameter: Parameter, fit_intercept: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.integers(-1, 2, (60, 4)).astype(np.float64)
        y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=60) > 0, 1.0, -1.0)
        path = IncrementalSVC(C=1.0, kernel="linear", fit_intercept=fit_intercept).fit(X, y).outlier_path(parameter)
        for value in places(path, most=4):
            theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
            model = path.at(value)
            assert judge_labels(model, Kernel("linear"), 1.0, theta, s).violation <= STRICT
            assert model.local_optimality().wall_distance > 1e-9


def test_labels_that_give_way_first_are_wrong() -> None:
    X, y, true = labelled(569, seed=0)
    for parameter in PARAMETERS:
        path = IncrementalSVC(C=1.0, gamma=1 / 30).fit(X, y).outlier_path(parameter)
        first = np.array([int(key) for key, _ in path.order_of_outliers()[:20]])
        assert np.mean(y[first] != true[first]) >= 0.9


def test_outliers_are_those_beyond_the_wall() -> None:
    X, y, _ = labelled()
    path = IncrementalSVC(C=1.0, gamma=1 / 30).fit(X, y).outlier_path("s")
    names = [str(key) for key in range(len(y))]
    named = IncrementalSVC(C=1.0, gamma=1 / 30).fit(X, y, keys=names).outlier_path("s")
    for value in places(path, most=4):
        model = path.at(value)
        beyond = np.flatnonzero(y * decisions(model, X) < value)
        assert path.outliers(value) == beyond.tolist()
        assert named.outliers(value) == [str(key) for key in beyond]
        assert dict(path.robustness(value).outliers).keys() == set(beyond.tolist())
    order = path.order_of_outliers()
    assert sorted(key for key, _ in order) == path.outliers()
    assert [value for _, value in order] == sorted(value for _, value in order)


def test_best_has_the_least_validation_error_of_all_breakpoints() -> None:
    X, y, true = labelled(200, seed=4)
    model = IncrementalSVC(C=10.0, kernel="linear").fit(X[:120], y[:120])
    for parameter in PARAMETERS:
        path = model.outlier_path(parameter)
        values, errors = path.validation_errors(X[120:], true[120:])
        for value, error in list(zip(values, errors, strict=True))[:: max(1, len(values) // 10)]:
            assert np.mean(signs(path.at(value), X[120:]) != true[120:]) == pytest.approx(error)
        best = path.best(X[120:], true[120:])
        assert best.error == errors.min()
        assert np.mean(signs(best.model, X[120:]) != true[120:]) == pytest.approx(best.error)


def test_a_precomputed_kernel_gives_the_same_path() -> None:
    X, y, true = labelled(100)
    K = X @ X.T
    path = IncrementalSVC(C=1.0, kernel="linear").fit(X[:70], y[:70]).outlier_path("theta")
    same = IncrementalSVC(C=1.0, kernel="precomputed").fit(K[:70, :70], y[:70]).outlier_path("theta")
    np.testing.assert_allclose(
        [point.value for point in path.breakpoints], [point.value for point in same.breakpoints], atol=1e-9
    )
    errors = path.validation_errors(X[70:], true[70:])[1]
    np.testing.assert_allclose(same.validation_errors(K[70:, :70], true[70:])[1], errors)


def test_the_model_itself_does_not_change() -> None:
    X, y, _ = labelled()
    model = IncrementalSVC(C=1.0, gamma=0.1).fit(X, y)
    before = model.to_arrays()
    model.outlier_path("theta")
    cccp(model, "s")
    after = model.to_arrays()
    for name, value in before.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(after[name]))


def test_cccp_finds_local_optima_too() -> None:
    X, y, _ = labelled()
    model = IncrementalSVC(C=1.0, kernel="linear").fit(X, y)
    for parameter in PARAMETERS:
        found = cccp(model, parameter)
        path = model.outlier_path(parameter)
        assert [one.value for one in found.found] == np.linspace(path.start, path.end, 5).tolist()
        for i, one in enumerate(found.found):
            theta, s = one.robustness.theta, one.robustness.s
            judged = judge_labels(found.at(i), Kernel("linear"), 1.0, theta, s)
            assert judged.violation <= STRICT
            assert judged.objective == pytest.approx(one.objective, rel=1e-9)


def test_a_leg_ends_where_the_first_comes_to_his_wall() -> None:
    X, y, _ = labelled(150, seed=3, wrong=0.25)
    model = IncrementalSVC(C=1.0, kernel="linear", fit_intercept=False).fit(X, y)
    for parameter in PARAMETERS:
        path = model.outlier_path(parameter)
        assert path.d_steps > 3
        seen = 0
        for leg, jump in zip(path.walked.legs[:-1], path.walked.jumps, strict=True):
            if leg.start == leg.end:
                continue
            seen += 1
            theta, s = (jump.value, 0.0) if parameter == "theta" else (0.0, jump.value)
            arrays = {**path.arrays, **_place(leg.at(jump.value), leg.sides, theta, s)}
            f = decisions(path.restored(arrays), X)
            assert np.abs(y * f - s).min() <= 1e-9
            tied = {j for j, _ in jump.switched}
            assert set(np.flatnonzero(np.abs(y * f - s) <= 1e-10)) <= tied
        assert seen > 3


def test_twins_switch_together() -> None:
    X, y, _ = labelled(50, seed=3, wrong=0.25)
    X = X[:, :5]
    model = IncrementalSVC(C=1.0, kernel="linear").fit(np.vstack([X, X]), np.tile(y, 2))
    for parameter in PARAMETERS:
        path = model.outlier_path(parameter)
        assert path.d_steps > 0
        for jump in path.walked.jumps:
            times = Counter(j for j, _ in jump.switched)
            assert {j % 50: times[j] for j in times if j < 50} == {j % 50: times[j] for j in times if j >= 50}


def test_a_path_of_many_events_finds_space() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, 1.0, -1.0)
    for parameter in PARAMETERS:
        path = IncrementalSVC(C=10.0, kernel="linear").fit(X, y).outlier_path(parameter)
        assert path.events > SEGMENTS
        assert path.d_steps + 1 == len(path.walked.legs)
        for value in places(path, most=3):
            theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
            assert judge_labels(path.at(value), Kernel("linear"), 10.0, theta, s).violation <= STRICT


def test_a_small_cache_of_kernel_rows_is_enough() -> None:
    X, y, _ = labelled(150, seed=2)
    for parameter in PARAMETERS:
        path = IncrementalSVC(C=1.0, gamma=1 / 30, cache_mb=0.08).fit(X, y).outlier_path(parameter)
        roomy = IncrementalSVC(C=1.0, gamma=1 / 30).fit(X, y).outlier_path(parameter)
        assert path.outliers() == roomy.outliers()
        assert path.d_steps == roomy.d_steps
        np.testing.assert_allclose(decisions(path.at(0.0), X), decisions(roomy.at(0.0), X), atol=1e-9)


def test_a_cascade_is_one_walk() -> None:
    """An example at a cutoff during a D-step gives way on that walk, and the objective still falls."""
    X, y, _ = labelled()
    path = IncrementalSVC(C=1.0, kernel="rbf", gamma=0.01).fit(X, y).outlier_path("s")
    jumps = path.walked.jumps
    assert max(len(jump.switched) for jump in jumps) > 1
    assert sum(jump.rounds for jump in jumps) <= 1.1 * len(jumps)
    assert (path.drops > 0.0).all()


def test_a_crowd_at_its_wall_switches_in_one_walk() -> None:
    """One feature tells the labels but for the wrong ones, which all have a margin of -1 and give way together."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    X, y = np.column_stack([x, 0.6 * rng.normal(size=(200, 4))]), np.where(rng.random(200) < 0.15, -x, x)
    model = IncrementalSVC(C=1.0, kernel="linear", fit_intercept=False).fit(X, y)
    path = model.outlier_path("s")
    (jump,) = path.walked.jumps
    assert len(jump.switched) > MANY_SWITCHES
    assert jump.rounds == 1
    assert path.outliers() == [model.keys_[j] for j in np.flatnonzero(x != y)]
    assert judge_labels(path.at(path.end), Kernel("linear"), 1.0, 0.0, path.end).violation <= STRICT


def test_examples_held_at_their_wall_switch_once() -> None:
    """With one feature of two values all wrong labels are held at a margin of -1: none of them goes back."""
    x = np.repeat([-1.0, 1.0], 30)
    y = x.copy()
    y[::5] *= -1.0
    path = IncrementalSVC(C=1.0).fit(x[:, None], y).outlier_path("s")
    assert [len(jump.switched) for jump in path.walked.jumps] == [12]
    assert path.at(path.end).local_optimality().violation <= STRICT
