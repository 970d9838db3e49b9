"""What a regularization path says of itself, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, leave_one_out
from livesvm.solvers.analyses.regularization.intercept_interval import cut, envelope
from livesvm.solvers.analyses.regularization.optima import ErrorCurve, from_counts, from_residuals, joined
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.homotopy.piecewise import Segments

Floats = NDArray[np.float64]


def data(n: int = 90, seed: int = 5) -> tuple[Floats, Floats]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.8 * random.normal(size=n) > 0.4, 1.0, -1.0)


def model(**given: Any) -> IncrementalSVC:
    X, y = data()
    return IncrementalSVC(gamma=0.3, **given).fit(X, y, keys=[f"k{i}" for i in range(len(y))])


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [1e-6, 0.1, 3.0, 1e6])
def test_the_path_is_training_at_every_value_wherever_it_starts(kernel: str, C: float) -> None:
    X, y = data()
    path = model(C=C, kernel=kernel).regularization_path(1e-3, 1e3)
    for value in (1e-3, 0.0123, 0.7, 5.1, 88.0, 1e3):
        trained = IncrementalSVC(C=value, kernel=kernel, gamma=0.3).fit(X, y)
        np.testing.assert_allclose(path.coefficients(value), trained._window.beta, atol=1e-7 * value)
        assert path.intercept(value) == pytest.approx(float(trained.intercept_[0]), abs=1e-7)
        taken = path.at(value)
        assert value == taken.C
        assert taken.keys_ == list(path.keys) == [f"k{i}" for i in range(len(y))]
        np.testing.assert_allclose(taken.decision_function(X), trained.decision_function(X), atol=1e-6)


def test_balanced_classes_at_small_C_have_the_middle_b() -> None:
    X, y = data()
    rows = np.concatenate([np.flatnonzero(y > 0)[:20], np.flatnonzero(y < 0)[:20]])
    path = IncrementalSVC(C=5.0, gamma=0.3).fit(X[rows], y[rows]).regularization_path(1e-4, 10.0)
    for value in (1e-4, 1e-3, 0.01, 0.03):
        trained = IncrementalSVC(C=value, gamma=0.3).fit(X[rows], y[rows])
        assert trained._window.state.n_free == 0
        assert path.intercept(value) == pytest.approx(float(trained.intercept_[0]), abs=1e-9)
    curve = path.validation_error(X, y)
    for value in 10 ** np.random.default_rng(0).uniform(-4, 1, 50):
        assert curve(value) == pytest.approx(float(np.mean(path.at(value).predict(X) != y)), abs=1e-12)


def test_the_model_itself_is_not_changed() -> None:
    live = model(C=2.0)
    before = live.to_arrays()
    live.regularization_path(0.01, 100.0)
    after = live.to_arrays()
    assert live.C == 2.0
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_breakpoints_ascend_and_count_free_and_support_vectors() -> None:
    path = model(C=1.0).regularization_path(1e-2, 1e2)
    found = path.breakpoints
    assert found.value.size == path.report.events > 50
    assert np.all(np.diff(found.value) >= -1e-9 * found.value[1:])
    assert path.breakpoints is found
    gaps = np.flatnonzero(np.diff(found.value) > 1e-6 * found.value[1:])
    for i in gaps[:: max(1, len(gaps) // 12)]:
        between = path.at(float(np.sqrt(found.value[i] * found.value[i + 1])))
        assert found.n_free[i] == between._window.state.n_free
        assert found.n_support[i] == between.support_.size
    for example in range(10):
        mine = np.flatnonzero(found.example == example)
        np.testing.assert_array_equal(found.before[mine][1:], found.after[mine][:-1])


def test_the_best_C_comes_with_its_whole_interval() -> None:
    X, y = data(300, seed=9)
    path = model(C=1.0).regularization_path(1e-3, 1e3)
    curve, best = path.validation_error(X, y), path.best(X, y)
    assert best.low < best.value < best.high
    assert best.error == curve(best.value) == min(curve.left)
    inside = path.at(best.low * (1 + 1e-9)), path.at(best.high * (1 - 1e-9))
    assert [float(np.mean(m.predict(X) != y)) for m in inside] == [best.error] * 2
    if best.low > path.minimum:
        assert np.mean(path.at(best.low * (1 - 1e-7)).predict(X) != y) > best.error
    if best.high < path.maximum:
        assert np.mean(path.at(best.high * (1 + 1e-7)).predict(X) != y) > best.error


def test_class_and_sample_weights_multiply_every_C() -> None:
    X, y = data()
    weight = np.random.default_rng(2).uniform(0, 2, y.size)
    weight[:3] = 0.0
    given: dict[str, Any] = {"gamma": 0.3, "class_weight": {-1: 0.5, 1: 2.0}}
    path = IncrementalSVC(**given).fit(X, y, sample_weight=weight).regularization_path(0.01, 100.0)
    for value in (0.013, 2.2, 71.0):
        trained = IncrementalSVC(C=value, **given).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(path.coefficients(value), trained._window.beta, atol=1e-7 * value)


def test_nothing_is_walked_where_no_example_is_left_at_a_bound() -> None:
    X = np.array([[0.0], [1.0], [4.0], [5.0]])
    path = IncrementalSVC(C=1.0, kernel="linear").fit(X, [-1, -1, 1, 1]).regularization_path(0.1, 1e9)
    assert path._legs[-1].end == 1e9
    assert path._legs[-1].start <= 10.0
    assert path.coefficients(1e9) == pytest.approx(path.coefficients(100.0))


def test_a_kernel_matrix_that_is_given() -> None:
    X, y = data()
    K = np.exp(-0.3 * np.square(X[:, None] - X[None]).sum(axis=2))
    given = IncrementalSVC(kernel="precomputed").fit(K, y).regularization_path(0.01, 10.0)
    path = model().regularization_path(0.01, 10.0)
    np.testing.assert_allclose(given.coefficients(3.3), path.coefficients(3.3), atol=1e-9)
    assert given.best(K[:30], y[:30]).error == path.best(X[:30], y[:30]).error


def test_progress_is_reported_and_can_cancel() -> None:
    reported: list[tuple[int, int]] = []

    def go_on(done: int, total: int) -> bool:
        reported.append((done, total))
        return True

    live = model()
    live.regularization_path(1e-3, 1e3, progress=go_on)
    assert reported[0] == (0, 1000)
    assert reported[-1] == (1000, 1000)
    assert reported == sorted(reported)
    with pytest.raises(Cancelled):
        live.regularization_path(1e-3, 1e3, progress=lambda done, total: done < 300)
    assert live.certificate().relative_gap <= 1e-9


def test_what_cannot_be_asked_for() -> None:
    live = model()
    X, y = data()
    for low, high, field in ((1.0, 1.0, "C_max"), (2.0, 1.0, "C_max"), (0.0, 1.0, "C_min"), (1.0, np.inf, "C_max")):
        with pytest.raises(InvalidInput) as refused:
            live.regularization_path(low, high)
        assert refused.value.field == field
    path = live.regularization_path(0.1, 10.0)
    for value in (0.09, 10.1, np.nan):
        with pytest.raises(InvalidInput, match=r"the path goes from 0.1 to 10"):
            path.at(value)
        with pytest.raises(InvalidInput, match=r"the path goes from 0.1 to 10"):
            path.coefficients(value)
    with pytest.raises(InvalidInput, match="at least one example"):
        path.validation_error(np.empty((0, 3)), [])
    with pytest.raises(InvalidInput, match="is not one of the labels"):
        path.validation_error(X[:2], [3, 4])
    live.update(remove=live.keys_)
    with pytest.raises(InvalidInput, match="window"):
        live.regularization_path(0.1, 10.0)
    with pytest.raises(InvalidInput, match="one class"):
        IncrementalSVC(gamma=0.3).fit(X, np.ones(y.size)).regularization_path(0.1, 10.0)
    svr = IncrementalSVR(loss="absolute").fit(X, y)
    with pytest.raises(InvalidInput, match="epsilon_insensitive"):
        svr.epsilon_path(0.1, 1.0)
    with pytest.raises(InvalidInput, match="nu_max"):
        IncrementalOneClassSVM().fit(X).regularization_path(0.1, 1.5)


def test_counts_become_a_curve_over_the_parameter() -> None:
    up = from_counts(3, np.array([3.0, 1.0, 1.0]), np.array([1, -1, -1]), (0.0, 4.0), 4)
    assert up.edges.tolist() == [0.0, 1.0, 3.0, 4.0]
    assert up.left.tolist() == up.right.tolist() == [0.75, 0.25, 0.5]
    down = from_counts(3, np.array([-2.0]), np.array([-1]), (0.0, -4.0), 4)
    assert down.edges.tolist() == [-4.0, -2.0, 0.0]
    assert down.left.tolist() == [0.5, 0.75]
    both = joined([down, up])
    assert both.edges.tolist() == [-4.0, -2.0, 1.0, 3.0, 4.0]
    assert both.left.tolist() == [0.5, 0.75, 0.25, 0.5]


def test_residuals_become_a_curve_that_bends_where_one_turns_its_sign() -> None:
    # residuals 1 - 4s and 2s - 1 + ... of a way s from 0 to 1, in one segment: |1 - 4s| + |2s - 1|
    sums = np.array([[2.0, 4.0, -6.0]])
    bends = np.array([[0.0, 0.5, 4.0], [0.0, 0.25, 8.0]])
    curve = from_residuals(sums, bends, np.array([[1.0, 0.0]]), (0.0, 1.0), 1)
    assert curve.edges.tolist() == [0.0, 0.25, 0.5, 1.0]
    for s in (0.0, 0.1, 0.25, 0.3, 0.5, 0.8, 1.0):
        assert curve(s) == pytest.approx(abs(1 - 4 * s) + abs(2 * s - 1))
    best = curve.best()
    assert (best.value, best.low, best.high) == (0.25, 0.25, 0.25)


def test_of_several_best_intervals_the_longest_is_taken() -> None:
    error = np.array([0.1, 0.2, 0.1, 0.1, 0.3])
    best = ErrorCurve(np.array([1.0, 2.0, 3.0, 5.0, 12.0, 20.0]), error, error).best()
    assert (best.low, best.high, best.error) == (3.0, 12.0, 0.1)
    assert best.value == pytest.approx(6.0)
    almost = error - np.array([0.0, 0.0, 1e-15, 0.0, 0.0])
    assert ErrorCurve(np.array([1.0, 2.0, 3.0, 5.0, 12.0, 20.0]), almost, almost).best().high == 12.0


def test_the_largest_of_lines_is_found_with_its_bends() -> None:
    lines = np.random.default_rng(0).normal(size=(40, 2))
    found = envelope(lines)
    assert found is not None
    for t in np.linspace(0, 1, 21):
        assert np.interp(t, *found) == pytest.approx(np.max((1 - t) * lines[:, 0] + t * lines[:, 1]))
    assert envelope(np.empty((0, 2))) is None


def test_pinball_models_are_judged_by_their_loss() -> None:
    X, _ = data(150)
    y = X[:, 0] + np.random.default_rng(0).exponential(size=150)
    model = IncrementalSVR(loss="pinball", quantile=0.9, gamma=0.3).fit(X[:100], y[:100])
    path = model.regularization_path(0.01, 100.0)
    curve, best = path.validation_error(X[100:], y[100:]), path.best(X[100:], y[100:])

    def loss(C: float) -> float:
        above = y[100:] - path.at(C).predict(X[100:])
        return float(np.mean(np.maximum(0.9 * above, -0.1 * above)))

    for C in np.geomspace(0.01, 100.0, 30):
        assert curve(C) == pytest.approx(loss(C), abs=1e-9)
        assert best.error <= loss(C) + 1e-9
    assert best.error == pytest.approx(loss(best.value), abs=1e-9)
    decisions = leave_one_out(model)
    above = y[:100] - decisions.decisions
    assert decisions.error == pytest.approx(float(np.mean(np.maximum(0.9 * above, -0.1 * above))), abs=1e-12)


def test_segments_without_length_are_not_cut() -> None:
    tau = np.array([1.0, 0.5, 0.5, 0.0])
    segments = Segments(
        tau[:3],
        tau[1:],
        np.zeros(3),
        np.zeros(3),
        np.arange(4),
        np.zeros(3, np.int64),
        np.ones(3, np.bool_),
        np.zeros(3, np.int32),
        np.array([0.0, 1.0, 3.0]),
        np.array([1.0, 3.0, 5.0]),
    )
    for places, starts, ends in (
        ([0.5], [0.0, 1.0, 3.0], [1.0, 3.0, 5.0]),
        ([0.75, 0.25], [0.0, 0.5, 1.0, 3.0, 4.0], [0.5, 1.0, 3.0, 4.0, 5.0]),
    ):
        found = cut(segments, 0, 2, np.array(places))
        np.testing.assert_array_equal(found.start_beta, starts)
        np.testing.assert_array_equal(found.end_beta, ends)
        np.testing.assert_array_equal(found.start_tau[1:], found.end_tau[:-1])
