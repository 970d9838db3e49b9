"""Data with wrong labels, and what a robust model has to be."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.robust.ramp_losses import Parameter
from tests.oracle import Matrix, Vector

PARAMETERS: tuple[Parameter, ...] = ("theta", "s")


STRICT = 1e-7


def labelled(n: int = 120, seed: int = 0, wrong: float = 0.15) -> tuple[Matrix, Vector, Vector]:
    """Return scaled rows of the breast cancer data, their labels of which some are wrong, and the true ones."""
    rng = np.random.default_rng(seed)
    X, target = load_breast_cancer(return_X_y=True)
    rows = rng.permutation(len(target))[:n]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(target[rows] > 0, 1.0, -1.0)
    return X[rows], np.where(rng.random(n) < wrong, -y, y), y


def measured(n: int = 90, seed: int = 0) -> tuple[Matrix, Vector]:
    """Return scaled rows of the diabetes data and their targets, some far off."""
    rng = np.random.default_rng(seed)
    X, y = load_diabetes(return_X_y=True)
    rows = rng.permutation(len(y))[:n]
    X, y = X[rows] / X.std(axis=0), (y[rows] - y.mean()) / y.std()
    far = rng.random(n) < 0.08
    return X, np.where(far, y + 6.0 * rng.normal(size=n), y)


def decisions(model: LiveEstimator, X: Matrix) -> Vector:
    """Return f of a model."""
    return model.predictor().decision_function(X)
