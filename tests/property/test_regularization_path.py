"""Wherever one looks, a path is the optimum of an independent judge, and its errors are those of its models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.analyses.regularization.path import RegularizationPath
from tests import oracle
from tests.oracle import Losses, Vector, gap, solve
from tests.problems import FAMILIES, Problem, problem
from tests.property.strategies import problems

RANGES = {"C": (1e-4, 1e4), "tube": (1e-3, 1e3), "epsilon": (1e-2, 2.0), "nu": (0.02, 1.0)}
TUBE = 0.25


def targets(drawn: Problem) -> Vector:
    """Return whole numbers or noisy ones."""
    noise = np.random.default_rng(drawn.seed).normal(size=len(drawn.X))
    smooth = np.asarray(np.sin(drawn.X.sum(axis=1)) + 0.3 * noise)
    return np.round(2 * smooth) if drawn.seed % 2 else smooth


def path_of(kind: str, drawn: Problem) -> tuple[RegularizationPath, Callable[[float], Losses], Vector]:
    """Return a path of a problem, what its losses are at a value, and the targets of its rows."""
    given: dict[str, Any] = drawn.parameters() | {"C": 1.0}
    y, weight, b = drawn.y, drawn.weight, drawn.fit_intercept
    if kind == "C":
        model = IncrementalSVC(**given)
        model.update(add=(drawn.X, y), sample_weight=weight)
        return model.regularization_path(*RANGES[kind]), lambda C: oracle.hinge(y, C, weight, fit_intercept=b), y
    del given["classes"]
    if kind == "nu":
        del given["C"], given["fit_intercept"]
        one = IncrementalOneClassSVM(**given)
        one.update(add=(drawn.X, None), sample_weight=weight)
        return one.regularization_path(*RANGES[kind]), lambda nu: oracle.one_class(weight, nu), np.ones(y.size)
    y = targets(drawn)
    svr = IncrementalSVR(epsilon=TUBE, **given)
    svr.update(add=(drawn.X, y), sample_weight=weight)
    if kind == "tube":
        path = svr.regularization_path(*RANGES[kind])
        return path, lambda C: oracle.epsilon_insensitive(y, C, TUBE, weight, fit_intercept=b), y
    path = svr.epsilon_path(*RANGES[kind])
    return path, lambda eps: oracle.epsilon_insensitive(y, 1.0, eps, weight, fit_intercept=b), y


def check_path(kind: str, drawn: Problem) -> None:
    """Assert that a path is optimal at its ends and at random places, and that models taken from it are."""
    path, asked, y = path_of(kind, drawn)
    low, high = RANGES[kind]
    random = np.random.default_rng(drawn.seed)
    K = drawn.kernel(drawn.X, drawn.X)
    X = drawn.X + 0.3 * random.normal(size=drawn.X.shape)
    curve = path.validation_error(X, y)
    for value in [low, high, *np.exp(random.uniform(np.log(low), np.log(high), 4))]:
        losses = asked(value)
        steep, far = np.abs(losses.slopes).max(axis=1), np.abs(losses.kinks).max(axis=1)
        nothing = float((1e-9 * steep * far + 1e-13 * steep * (1 + np.abs(K).max() * steep.sum())).sum())
        found = gap(K, losses, path.coefficients(value), path.intercept(value))
        assert found.relative <= 1e-7 or found.gap <= nothing, found
        model = path.at(value)
        beta = np.zeros(y.size)
        beta[model.support_] = model.dual_coef_[0]
        ours = gap(K, losses, beta, float(model.intercept_[0]))
        assert ours.relative <= 1e-7 or ours.gap <= nothing, ours
        f = model.predictor().decision_function(X)
        check_error(kind, curve(value), f, y, float(np.abs(K).max() * np.abs(beta).sum()))


def check_error(kind: str, error: float, f: Vector, y: Vector, scale: float) -> None:
    """Assert that an error is that of decision values, but for those that are zero but for rounding."""
    rounding = 1e-8 * (scale + float(np.abs(f).max() + np.abs(y).max()))
    if kind in ("tube", "epsilon"):
        assert error == pytest.approx(float(np.abs(f - y).mean()), abs=rounding)
        return
    uncertain_band = int(np.count_nonzero(np.abs(f) <= rounding))
    assert abs(error * y.size - np.count_nonzero((f > 0) != (y > 0))) <= uncertain_band + 1e-9


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", RANGES)
def test_paths_of_degenerate_problems(kind: str, family: str) -> None:
    drawn = problem(0, family)
    if kind == "C" and np.unique(drawn.y).size == 1:
        drawn = Problem(**(vars(drawn) | {"y": np.where(np.arange(drawn.y.size) == 0, -drawn.y, drawn.y)}))
    check_path(kind, drawn)


@given(drawn=problems(), kind=st.sampled_from(sorted(RANGES)))
def test_paths_of_drawn_problems(drawn: Problem, kind: str) -> None:
    assume(kind != "C" or np.unique(drawn.y).size == 2)
    check_path(kind, drawn)


@pytest.mark.parametrize("family", ["regular", "duplicates", "monks", "linear", "wide"])
def test_every_row_doubled_against_an_independent_qp_solver(family: str) -> None:
    drawn = problem(1, family)
    twice = {"X": np.vstack([drawn.X, drawn.X]), "y": np.tile(drawn.y, 2), "weight": np.tile(drawn.weight, 2)}
    drawn = Problem(**(vars(drawn) | twice))
    path, asked, _ = path_of("C", drawn)
    K = drawn.kernel(drawn.X, drawn.X)
    for C in 10.0 ** np.random.default_rng(0).uniform(-3, 2, 5):
        qp = solve(K, asked(C))
        ours = gap(K, asked(C), path.coefficients(C), path.intercept(C))
        assert ours.primal <= gap(K, asked(C), qp.beta, qp.intercept).primal * (1 + 1e-9)
