"""Small random problems of positive and unlabelled examples, and the independent solver's view of them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from tests import oracle
from tests.oracle import Matrix, Vector

Family = Literal["clouds", "grid", "doubles", "equal", "weights"]
FAMILIES: tuple[Family, ...] = ("clouds", "grid", "doubles", "equal", "weights")


def two_clouds(seed: int, p: int, n: int, d: int = 2, prior: float = 0.4) -> tuple[Matrix, Matrix]:
    """Return positives (p, d) and unlabelled (n, d), a ``prior`` share of which come from the same cloud."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(p, d)) + 1.0
    own = rng.random(n) < prior
    U = rng.normal(size=(n, d)) + np.where(own, 1.0, -1.0)[:, None]
    return P, U


def draw(family: Family, seed: int, kernel: Kernel, lam: float, p: int = 12, n: int = 60) -> PUProblem:
    """Return a problem with ties, duplicates, or weights, by family."""
    rng = np.random.default_rng(seed)
    P, U = two_clouds(seed, p, n)
    weights = np.ones(p), np.ones(n)
    if family == "grid":
        P, U = np.round(P), np.round(U)
    elif family == "doubles":
        U[n // 2 :] = U[: n - n // 2]
        P[0] = U[0]
    elif family == "equal":
        U[:] = U[0]
    elif family == "weights":
        weights = rng.uniform(0.1, 3.0, p), rng.uniform(0.1, 3.0, n)
    return pu_problem(kernel, P, U, *costs(float(rng.uniform(0.1, 0.9)), lam, *weights))


def oracle_losses(problem: PUProblem) -> oracle.Losses:
    """Return the losses of positives, then of unlabelled, as the independent solver has them."""
    flat = np.outer(problem.c1, [-1.0, -1.0, -1.0])
    hinge = np.outer(problem.c2, [0.0, 0.5, 1.0])
    slopes = np.concatenate([flat, hinge])
    return oracle.Losses(np.tile([-1.0, 1.0], (len(slopes), 1)), slopes)


def oracle_matrix(problem: PUProblem) -> Matrix:
    """Return the kernel matrix of positives, then unlabelled, by the independent kernels."""
    k = problem.kernel
    X = np.concatenate([problem.P, problem.U])
    return np.asarray(oracle.Kernel(k.name, k.gamma, k.degree, k.coef0)(X, X), np.float64)


def best_objective(problem: PUProblem) -> float:
    """Return the optimum of a problem as the independent quadratic program has it.

    The shift by which the oracle makes the smallest loss over the kinks 0 is taken back.
    """
    losses = oracle_losses(problem)
    return oracle.solve(oracle_matrix(problem), losses).objective - float(losses._shift().sum())


def judged(problem: PUProblem, sigma: Vector, b: float) -> oracle.Gap:
    """Return what coefficients of the unlabelled and an intercept are worth, by the oracle."""
    beta = np.concatenate([problem.c1, -sigma])
    return oracle.gap(oracle_matrix(problem), oracle_losses(problem), beta, b)
