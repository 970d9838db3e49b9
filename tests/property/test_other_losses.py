"""Regression and one-class models obey the laws of classification: optimal after any updates, whatever the detour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVR
from tests.judge import coefficients
from tests.oracle import (
    Gap,
    Kernel,
    Losses,
    Matrix,
    Vector,
    absolute,
    epsilon_insensitive,
    gap,
    one_class,
    pinball,
    solve,
)
from tests.problems import FAMILIES, Problem, Rows, problem
from tests.property.strategies import problems

Model = IncrementalSVR | IncrementalOneClassSVM


@dataclass(frozen=True)
class Task:
    """A kind of model, and what the oracle says its losses are: targets, C, weights -> losses."""

    make: Callable[..., Model]
    losses: Callable[[Vector, float, Vector, bool], Losses]
    has_targets: bool = True


TASKS = {
    "tube": Task(
        lambda **given: IncrementalSVR(epsilon=0.25, **given),
        lambda y, C, w, b: epsilon_insensitive(y, C, 0.25, w, fit_intercept=b),
    ),
    "absolute": Task(
        lambda **given: IncrementalSVR(loss="absolute", **given),
        lambda y, C, w, b: absolute(y, C, w, fit_intercept=b),
    ),
    "pinball": Task(
        lambda **given: IncrementalSVR(loss="pinball", quantile=0.8, **given),
        lambda y, C, w, b: pinball(y, C, 0.8, w, fit_intercept=b),
    ),
    "one class": Task(
        lambda C, fit_intercept, **given: IncrementalOneClassSVM(nu=0.3, **given),
        lambda y, C, w, b: one_class(w, 0.3),
        has_targets=False,
    ),
}


def targets(drawn: Problem, kind: int) -> Vector:
    """Return targets that go with the rows: smooth and noisy, whole numbers, all equal, or the labels."""
    random = np.random.default_rng(drawn.seed)
    smooth = np.sin(drawn.X.sum(axis=1)) + 0.3 * random.normal(size=len(drawn.X))
    return (smooth, np.round(2 * smooth), np.full_like(smooth, 1.5), drawn.y)[kind]


def parameters(drawn: Problem) -> dict[str, Any]:
    """Return the arguments that every kind of model has."""
    given = drawn.parameters()
    del given["classes"]
    return given


def update(task: Task, model: Model, drawn: Problem, y: Vector, come: Rows, gone: Rows) -> None:
    """Move rows in and out; the keys are the rows."""
    added = (drawn.X[come], y[come] if task.has_targets else None) if len(come) else None
    weights = drawn.weight[come] if len(come) else None
    model.update(add=added, remove=gone.tolist() or None, keys=come.tolist() or None, sample_weight=weights)


def judge(task: Task, model: Model, drawn: Problem, y: Vector, window: Rows) -> Gap:
    """Recompute the gap of the window from the data."""
    assert list(model.keys_) == window.tolist()
    losses = task.losses(y[window], drawn.C, drawn.weight[window], drawn.fit_intercept)
    K = drawn.kernel(drawn.X[window], drawn.X[window])
    return gap(K, losses, coefficients(model), float(model.intercept_[0]))


def negligible(task: Task, drawn: Problem, y: Vector, window: Rows) -> float:
    """Return a gap that says nothing: 1e-9 of what the model costs that is zero everywhere.

    Where the targets are constant the optimum costs nothing, and a gap relative to it is rounding over rounding.
    """
    losses = task.losses(y[window], drawn.C, drawn.weight[window], drawn.fit_intercept)
    steepest, furthest = np.abs(losses.slopes).max(axis=1), np.abs(losses.kinks).max(axis=1)
    return float((1e-9 * steepest * furthest + 1e-14 * steepest).sum())


def check_every_update(task: Task, drawn: Problem, kind: int) -> None:
    """Assert that every update ends at an optimum of the task."""
    y = targets(drawn, kind)
    model = task.make(**parameters(drawn))
    unit = drawn.C if task.has_targets else 1.0
    for batch, window in zip(drawn.batches, drawn.windows(), strict=True):
        update(task, model, drawn, y, batch.add, batch.remove)
        found = judge(task, model, drawn, y, window)
        nothing = negligible(task, drawn, y, window)
        assert found.relative <= (1e-8 if drawn.C <= 1e4 else 1e-7) or found.gap <= nothing, found
        off = max(found.box_violation, found.sum_violation)
        assert off <= (1e-12 if found.primal > nothing else 1e-9) * unit * max(len(window), 1), found
        ours = model.certificate()
        assert ours.n_examples == len(window)
        assert ours.duality_gap == pytest.approx(
            found.gap, abs=1e-9 * abs(found.primal) + 100 * found.resolution + nothing
        )


@pytest.mark.parametrize("name", TASKS)
@given(drawn=problems(), kind=st.integers(0, 3))
def test_every_update_ends_at_an_optimum(name: str, drawn: Problem, kind: int) -> None:
    check_every_update(TASKS[name], drawn, kind)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TASKS)
def test_every_update_of_a_degenerate_problem_ends_at_an_optimum(name: str, family: str) -> None:
    for seed in range(3):
        check_every_update(TASKS[name], problem(seed, family), seed % 3)


@pytest.mark.parametrize("name", TASKS)
@given(drawn=problems(), kind=st.integers(0, 3))
def test_adding_and_removing_again_changes_nothing(name: str, drawn: Problem, kind: int) -> None:
    task, y, every_example = TASKS[name], targets(drawn, kind), np.arange(len(drawn.X))
    no_example: Rows = every_example[:0]
    kept, guests = every_example[: len(every_example) // 2 + 1], every_example[len(every_example) // 2 + 1 :]
    model = task.make(**parameters(drawn))
    update(task, model, drawn, y, kept, no_example)
    before = judge(task, model, drawn, y, kept)
    if len(guests):
        update(task, model, drawn, y, guests, no_example)
        update(task, model, drawn, y, no_example, guests)
    after = judge(task, model, drawn, y, kept)
    slack = 1e-7 * max(abs(before.primal), abs(after.primal)) + before.resolution + after.resolution
    slack += negligible(task, drawn, y, kept)
    assert abs(before.primal - after.primal) <= slack
    assert abs(before.dual - after.dual) <= slack


@pytest.mark.parametrize("name", TASKS)
@given(drawn=problems(), kind=st.integers(0, 3))
def test_a_predictor_and_arrays_are_the_model(name: str, drawn: Problem, kind: int) -> None:
    task, y, every_example = TASKS[name], targets(drawn, kind), np.arange(len(drawn.X))
    model = task.make(**parameters(drawn))
    update(task, model, drawn, y, every_example, every_example[:0])
    again = type(model).from_arrays(model.get_params(), model.to_arrays())
    found = judge(task, again, drawn, y, every_example)
    assert found.relative <= (1e-8 if drawn.C <= 1e4 else 1e-7) or found.gap <= negligible(
        task, drawn, y, every_example
    )
    decisions = model.predict(drawn.X) if isinstance(model, IncrementalSVR) else model.decision_function(drawn.X)
    assert np.array_equal(model.predictor().decision_function(drawn.X), decisions)


@cache
def real_sets() -> dict[str, tuple[Matrix, Vector]]:
    """Load two sets of scikit-learn, standardised: disease progression, and tumours with their mean radius."""
    X, y = load_diabetes(return_X_y=True)
    Z, _ = load_breast_cancer(return_X_y=True)
    Z = scale(Z)
    return {"diabetes": (scale(X)[:250], scale(y)[:250]), "wdbc": (Z[:250, 1:], Z[:250, 0])}


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("data", real_sets())
@pytest.mark.parametrize("name", TASKS)
def test_real_sets_agree_with_a_qp_solver(name: str, data: str, weighted: bool, C: float) -> None:
    task = TASKS[name]
    X, y = real_sets()[data]
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y)) if weighted else np.ones(len(y))
    kernel = Kernel("rbf", 0.03)
    model = task.make(C=C, kernel="rbf", gamma=0.03, fit_intercept=True)
    half = len(y) // 2
    for rows in (slice(half), slice(half, None)):
        model.update(add=(X[rows], y[rows] if task.has_targets else None), sample_weight=weight[rows])
    K, losses = kernel(X, X), task.losses(y, C, weight, True)
    ours = gap(K, losses, coefficients(model), float(model.intercept_[0]))
    qp = solve(K, losses)
    theirs = gap(K, losses, qp.beta, qp.intercept)
    assert ours.relative <= 1e-8
    assert theirs.relative <= 1e-6
    assert ours.primal == pytest.approx(theirs.primal, abs=theirs.gap + 1e-8 * abs(theirs.primal), rel=0)
