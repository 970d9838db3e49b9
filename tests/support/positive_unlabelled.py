"""PU models and the problem that they solve."""

from __future__ import annotations

import numpy as np

from livesvm.solvers import IncrementalPUClassifier
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from livesvm.solvers.pu.usmo import usmo
from livesvm.solvers.sparse import dense
from tests import oracle
from tests.pu_problems import best_objective, judged

CONFIRMED = 3.0  # what a confirmed negative counts, besides as one of the unlabelled


def problem_of(model: IncrementalPUClassifier) -> PUProblem:
    """Return the problem of a model's window."""
    positive, X, weights = model.window_y == 1, dense(model._window.X), model.window_sample_weight
    found = costs(model.prior_, model.lam_, weights[positive], weights[~positive])
    return pu_problem(model._window.state.kernel, X[positive], X[~positive], *found)


def assert_optimal(model: IncrementalPUClassifier) -> None:
    """Compare a model with USMO from nothing, and both with an independent quadratic program."""
    problem, certificate = problem_of(model), model.certificate()
    solution = usmo(problem)
    from_nothing = problem.certificate(solution.sigma, solution.b)
    assert certificate.relative_gap <= 1e-7
    assert abs(certificate.primal - from_nothing.primal) <= 1e-6 * abs(from_nothing.primal) + 1e-9
    assert abs(certificate.primal - best_objective(problem)) <= 1e-6 * abs(certificate.primal) + 1e-9
    sigma = -model._window.beta[model.window_y == 0]
    gap = judged(problem, sigma, float(model.intercept_[0]))
    assert gap.gap <= 1e-7 * max(abs(gap.primal), abs(gap.dual)) + 1e-9


def assert_optimal_with_negatives(model: IncrementalPUClassifier) -> None:
    """Compare a model with an independent quadratic program of both risks [Sakai et al. 2017], means written out."""
    y, weights, prior = model.window_y, model.window_sample_weight, model.prior_
    of_positives, of_unlabelled, of_negatives = (
        np.where(which, weights, 0.0) / max(weights[which].sum(), 1e-300) for which in (y == 1, y != 1, y == -1)
    )
    odds = CONFIRMED * weights[y == -1].sum() / weights[y != 1].sum() / (1.0 - prior)  # of the risk of P and N
    share = 1.0 / (1.0 + odds)
    l_of_f, l_of_minus_f = np.array([-1.0, -0.5, 0.0]), np.array([0.0, 0.5, 1.0])  # slopes of the double hinge
    labelled = prior * np.outer(of_positives, l_of_f) + (1.0 - prior) * np.outer(of_negatives, l_of_minus_f)
    unlabelled = np.outer(of_unlabelled, l_of_minus_f) - prior * np.outer(of_positives, np.ones(3))
    slopes = ((1.0 - share) * labelled + share * unlabelled) / (2.0 * model.lam_)
    losses = oracle.Losses(np.tile([-1.0, 1.0], (y.size, 1)), slopes)
    kernel = model._window.state.kernel
    X = dense(model._window.X)
    K = np.asarray(oracle.Kernel(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)(X, X), np.float64)
    best, found = oracle.solve(K, losses).objective, oracle.gap(K, losses, model._window.beta, model._window.state.b)
    assert model.certificate().relative_gap <= 1e-7
    assert found.gap <= 1e-7 * max(abs(found.primal), abs(found.dual)) + 1e-9
    assert abs(found.primal - best) <= 1e-6 * abs(best) + 1e-9
