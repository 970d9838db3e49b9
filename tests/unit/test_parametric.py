"""A tracked way is optimal wherever one looks, for the losses of that place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.homotopy import parametric
from livesvm.solvers.homotopy.parametric import Track, track
from livesvm.solvers.problem import piecewise_linear
from livesvm.solvers.problem.piecewise_linear import Losses
from tests import oracle
from tests.oracle import Vector
from tests.problems import FAMILIES, Problem, problem

LOOKS = (1.0, 0.83, 0.5, 0.31, 0.02, 0.0)


def between(start: Losses, end: Losses, tau: float) -> Vector:
    """Return the levels at ``tau`` of the straight way between two."""
    return np.asarray(tau * start.levels + (1 - tau) * end.levels)


def worst_gap(given: Problem, way: Track, start: Losses, end: Losses, asked: Callable[[float], oracle.Losses]) -> float:
    """Return the largest relative gap at several places of a way; ``asked`` says what the losses are there."""
    K = given.kernel(given.X, given.X)
    found = [way.at(tau, between(start, end, tau)) for tau in LOOKS]
    return max(oracle.gap(K, asked(tau), at.beta, at.b).relative for tau, at in zip(LOOKS, found, strict=True))


def classifier(given: Problem, C: float) -> IncrementalSVC:
    model = IncrementalSVC(**(given.parameters() | {"C": C}))
    model.update(add=(given.X, given.y), sample_weight=given.weight)
    return model


def hinge(given: Problem, C: float) -> Losses:
    return piecewise_linear.hinge(given.y, C * given.weight)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(2))
def test_the_weight_of_all_losses_moves(family: str, seed: int) -> None:
    given, C = problem(seed, family), 1.0
    state = classifier(given, C)._window.state
    slots = np.arange(given.y.size)
    for factor in (10, 10, 10, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1):
        way = track(state, slots, hinge(given, C * factor), 0.0)
        gap = worst_gap(
            given,
            way,
            hinge(given, C),
            hinge(given, C * factor),
            lambda tau, C=C, to=C * factor: oracle.hinge(  # type: ignore[misc]
                given.y, tau * C + (1 - tau) * to, given.weight, fit_intercept=given.fit_intercept
            ),
        )
        assert gap <= (1e-7 if family == "skewed" else 1e-8)  # there f hardly tells the examples apart
        C *= factor


@pytest.mark.parametrize("family", ["regular", "duplicates", "grid", "linear", "constant"])
def test_the_width_of_a_tube_moves(family: str) -> None:
    given = problem(1, family)
    y = np.round(given.X.sum(axis=1) + given.y, 1)
    widths = (0.4, 0.01, 0.8)
    model = IncrementalSVR(
        C=2.0, epsilon=widths[0], kernel=given.kernel.name, gamma=given.kernel.gamma, fit_intercept=True
    ).fit(given.X, y)
    state, slots = model._window.state, np.arange(y.size)
    cost = np.full(y.size, 2.0)
    for before, after in pairwise(widths):
        start, end = (piecewise_linear.epsilon_insensitive(y, width, cost) for width in (before, after))
        way = track(state, slots, end, 0.0)
        gap = worst_gap(
            given,
            way,
            start,
            end,
            lambda tau, a=before, b=after: oracle.epsilon_insensitive(  # type: ignore[misc]
                y, 2.0, tau * a + (1 - tau) * b
            ),
        )
        assert gap <= 1e-8


@pytest.mark.parametrize("family", ["regular", "duplicates", "grid", "identity"])
def test_the_sum_of_the_coefficients_moves(family: str) -> None:
    given = problem(2, family)
    n = given.y.size
    model = IncrementalOneClassSVM(nu=0.5, kernel="rbf", gamma=0.5).fit(given.X)
    given = Problem(**(vars(given) | {"kernel": oracle.Kernel("rbf", 0.5)}))
    state, slots, ones = model._window.state, np.arange(n), np.ones(n)
    for before, after in ((0.5, 0.9), (0.9, 0.1), (0.1, 0.02)):
        way = track(state, slots, piecewise_linear.one_class(ones), after * n)
        gap = worst_gap(
            given,
            way,
            piecewise_linear.one_class(ones),
            piecewise_linear.one_class(ones),
            lambda tau, a=before, b=after: oracle.one_class(ones, tau * a + (1 - tau) * b),  # type: ignore[misc]
        )
        assert gap <= 1e-8


def test_there_and_back_again_is_the_same_way() -> None:
    given = problem(0, "regular")
    state, slots = classifier(given, 1.0)._window.state, np.arange(given.y.size)
    there = track(state, slots, hinge(given, 10.0), 0.0)
    back = track(state, slots, hinge(given, 1.0), 0.0)
    assert there.changes.tau.size > 5
    np.testing.assert_allclose(1 - back.changes.tau[::-1], there.changes.tau, atol=1e-9)
    assert back.changes.slot[::-1].tolist() == there.changes.slot.tolist()
    assert back.changes.after[::-1].tolist() == there.changes.before.tolist()


def test_no_example_is_free_and_b_is_one_that_the_way_goes_on_with() -> None:
    X: Vector = np.array([[0.0], [1.0], [3.0], [4.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    given = Problem(**(vars(problem(0, "regular")) | {"X": X, "y": y, "kernel": oracle.Kernel("rbf", 0.5)}))
    given = Problem(**(vars(given) | {"weight": np.ones(4), "fit_intercept": True}))
    state = classifier(given, 0.1)._window.state
    assert state.n_free == 0
    way = track(state, np.arange(4), hinge(given, 0.2), 0.0)
    gap = worst_gap(
        given,
        way,
        hinge(given, 0.1),
        hinge(given, 0.2),
        lambda tau: oracle.hinge(y, 0.1 * tau + 0.2 * (1 - tau)),
    )
    assert gap <= 1e-12
    np.testing.assert_allclose(np.abs(way.at(0.5, hinge(given, 0.15).levels).beta), 0.15)


def test_it_can_be_cancelled_and_does_not_take_other_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parametric, "PORTION", 5)
    given = problem(0, "regular")
    state, slots = classifier(given, 1.0)._window.state, np.arange(given.y.size)
    with pytest.raises(InvalidInput, match="gain or lose kinks"):
        track(state, slots, piecewise_linear.leaving(given.y.size), 0.0)

    def cancel(done: float) -> None:
        assert 0.0 < done < 1.0
        raise Cancelled

    with pytest.raises(Cancelled):
        track(state, slots, hinge(given, 100.0), 0.0, tell=cancel)
