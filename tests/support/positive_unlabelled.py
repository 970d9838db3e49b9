"""PU models and the problem that they solve."""

from __future__ import annotations

from livesvm.solvers import IncrementalPUClassifier
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from livesvm.solvers.pu.usmo import usmo
from livesvm.solvers.sparse import dense
from tests.pu_problems import best_objective, judged


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
