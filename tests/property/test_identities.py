"""What updates must not depend on: detours, order, history, names of labels, how weights are written."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from livesvm.solvers import IncrementalSVC
from tests.judge import apply, build, coefficients, judge, window_problem
from tests.oracle import ROUNDING, Kernel, Wide
from tests.problems import Batch, Problem, Rows
from tests.property.strategies import family_problems, problems, tiny_problems

NO_EXAMPLES: Rows = np.zeros(0, dtype=np.int64)


def assert_same_solution(
    drawn: Problem, first: IncrementalSVC, second: IncrementalSVC, window: Rows, other: Rows
) -> None:
    """Assert that two models of one set of rows, in two orders, have one objective and one normal vector.

    The primal is strongly convex in the normal vector, so two answers with gaps g and h are at most
    ``sqrt(2 g) + sqrt(2 h)`` apart. Coefficients and intercept need not be unique and are not compared.
    """
    a, b = judge(first, drawn, window), judge(second, drawn, other)
    tolerance = 1e-7 * max(abs(a.primal), abs(b.primal)) + a.resolution + b.resolution
    assert abs(a.primal - b.primal) <= tolerance
    assert abs(a.dual - b.dual) <= tolerance
    K, _ = window_problem(drawn, window)
    place = {row: i for i, row in enumerate(other.tolist())}
    moved = coefficients(second)[[place[row] for row in window.tolist()]]
    difference = (coefficients(first) - moved).astype(Wide)
    apart = float(difference @ (K @ difference))
    rounding = ROUNDING * float(np.abs(K).max(initial=0)) * float(np.abs(difference).sum()) ** 2
    assert (
        apart <= (np.sqrt(2 * max(a.gap, 0)) + np.sqrt(2 * max(b.gap, 0))) ** 2 + rounding + a.resolution + b.resolution
    )


def of_batches(drawn: Problem, *batches: Batch) -> Problem:
    """Return the problem with other updates."""
    return dataclasses.replace(drawn, batches=batches)


@given(drawn=problems())
def test_an_update_is_training_from_nothing(drawn: Problem) -> None:
    window = drawn.windows()[-1]
    assume(len(window) > 0)
    fresh = build(of_batches(drawn, Batch(window, NO_EXAMPLES)))
    assert_same_solution(drawn, build(drawn), fresh, window, window)


@given(drawn=problems(), data=st.data())
def test_adding_and_removing_again_changes_nothing(drawn: Problem, data: st.DataObject) -> None:
    window = drawn.windows()[-1]
    outside = np.setdiff1d(np.arange(len(drawn.X)), window)
    guests = outside[: data.draw(st.integers(0, len(outside)))]
    model = build(drawn)
    if len(guests):
        apply(model, drawn, Batch(guests, NO_EXAMPLES))
        apply(model, drawn, Batch(NO_EXAMPLES, guests))
    assert_same_solution(drawn, model, build(drawn), window, window)


@given(drawn=problems())
def test_removing_and_adding_again_changes_nothing(drawn: Problem) -> None:
    window = drawn.windows()[-1]
    model, part = build(drawn), window[: len(window) // 2]
    if len(part):
        apply(model, drawn, Batch(NO_EXAMPLES, part))
        apply(model, drawn, Batch(part, NO_EXAMPLES))
    assert_same_solution(drawn, model, build(drawn), np.concatenate([window[len(part) :], part]), window)


@given(drawn=problems(), cuts=st.lists(st.floats(0, 1), max_size=4), seed=st.integers(0, 99))
def test_the_order_of_batches_does_not_matter(drawn: Problem, cuts: list[float], seed: int) -> None:
    window = drawn.windows()[-1]
    assume(len(window) > 0)
    shuffled = np.random.default_rng(seed).permutation(window)
    parts = np.split(shuffled, sorted(int(cut * len(window)) for cut in cuts))
    batches = [Batch(part, NO_EXAMPLES) for part in parts if len(part)]
    together = build(of_batches(drawn, Batch(window, NO_EXAMPLES)))
    assert_same_solution(drawn, build(of_batches(drawn, *batches)), together, shuffled, window)


@given(drawn=problems())
def test_one_at_a_time_ends_where_all_at_once_does(drawn: Problem) -> None:
    window = drawn.windows()[-1]
    assume(len(window) > 0)
    singles = [Batch(window[i : i + 1], NO_EXAMPLES) for i in range(len(window))]
    together = build(of_batches(drawn, Batch(window, NO_EXAMPLES)))
    assert_same_solution(drawn, build(of_batches(drawn, *singles)), together, window, window)


@given(drawn=tiny_problems(), data=st.data())
def test_a_weight_is_a_number_of_copies(drawn: Problem, data: st.DataObject) -> None:
    copies = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(drawn.X), max_size=len(drawn.X))))
    repeated = np.repeat(np.arange(len(drawn.X)), copies)
    weighted = dataclasses.replace(drawn, weight=copies.astype(np.float64))
    copied = dataclasses.replace(drawn, X=drawn.X[repeated], y=drawn.y[repeated], weight=np.ones(len(repeated)))
    every, each = np.arange(len(drawn.X)), np.arange(len(repeated))
    first = build(of_batches(weighted, Batch(every, NO_EXAMPLES)))
    second = build(of_batches(copied, Batch(each, NO_EXAMPLES)))
    a, b = judge(first, weighted, every), judge(second, copied, each)
    assert abs(a.primal - b.primal) <= 1e-8 * abs(a.primal) + a.resolution + b.resolution
    K = drawn.kernel(drawn.X, drawn.X)
    summed = np.bincount(repeated, weights=coefficients(second), minlength=len(drawn.X))
    difference = (coefficients(first) - summed).astype(Wide)
    apart = float(difference @ (K @ difference))
    rounding = ROUNDING * float(np.abs(K).max()) * float(np.abs(difference).sum()) ** 2
    assert (
        apart <= (np.sqrt(2 * max(a.gap, 0)) + np.sqrt(2 * max(b.gap, 0))) ** 2 + rounding + a.resolution + b.resolution
    )


@given(drawn=problems())
def test_swapping_the_labels_swaps_the_sign(drawn: Problem) -> None:
    window = drawn.windows()[-1]
    swapped = dataclasses.replace(drawn, y=-drawn.y)
    mirrored = build(swapped)
    straight = build(drawn)
    a, b = judge(straight, drawn, window), judge(mirrored, swapped, window)
    assert abs(a.primal - b.primal) <= 1e-7 * abs(a.primal) + a.resolution + b.resolution
    K, _ = window_problem(drawn, window)
    added = (coefficients(straight) + coefficients(mirrored)).astype(Wide)
    rounding = ROUNDING * float(np.abs(K).max(initial=0)) * float(np.abs(added).sum()) ** 2
    bound = (np.sqrt(2 * max(a.gap, 0)) + np.sqrt(2 * max(b.gap, 0))) ** 2
    assert float(added @ (K @ added)) <= bound + rounding + a.resolution + b.resolution


@given(drawn=tiny_problems(), power=st.sampled_from([-20, -7, 7, 20]))
def test_the_unit_of_the_features_does_not_matter(drawn: Problem, power: int) -> None:
    plain = dataclasses.replace(drawn, kernel=Kernel("linear"))
    scaled = dataclasses.replace(plain, X=plain.X * 2.0**power, C=plain.C * 4.0**-power)
    first, second = build(plain), build(scaled)
    assert np.array_equal(coefficients(first), coefficients(second) * 4.0**power)
    assert np.array_equal(first.intercept_, second.intercept_)


@given(drawn=family_problems())
def test_the_same_updates_give_the_same_bits(drawn: Problem) -> None:
    first, second = build(drawn), build(drawn)
    assert np.array_equal(first.dual_coef_, second.dual_coef_)
    assert np.array_equal(first.intercept_, second.intercept_)


@given(drawn=problems())
def test_decisions_are_those_of_the_coefficients(drawn: Problem) -> None:
    window, model = drawn.windows()[-1], build(drawn)
    if len(window) == 0:
        return
    beta = coefficients(model)
    K = drawn.kernel(drawn.X, drawn.X[window])
    expected = (K @ beta.astype(Wide) + Wide(model.intercept_[0])).astype(np.float64)
    size = float(np.abs(K).max()) * float(np.abs(beta).sum()) + abs(float(model.intercept_[0]))
    got = model.decision_function(drawn.X)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * size)
    clear = np.abs(expected) > 1e-13 * size
    assert np.array_equal(model.predict(drawn.X)[clear], np.where(got > 0, 1, -1)[clear])
