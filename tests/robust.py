"""An independent judge of robust models: the paper's conditions and objective from the data; no `solvers`' formulas.

Theorems 4 and 5 of Suzumura et al. name for each margin or residual the coefficients that are allowed. Plotted, they
are segments; a model is judged by the distance of its points from them, coefficients in units of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracle import Kernel, Vector

INF = np.inf


@dataclass(frozen=True)
class Judged:
    """How well the conditions hold, the distance to the nearest cutoff, and the objective with nothing dropped."""

    violation: float
    cutoff: float
    objective: float


def _parts(model: Any, kernel: Kernel) -> tuple[Vector, Vector, float]:
    """Return beta, f and |w|^2 of a model, from its data and what it shows of itself."""
    X = model.window_X
    K = np.asarray(kernel(X, X), np.float64)
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    return beta, K @ beta + float(model.intercept_[0]), float(beta @ K @ beta)


def _distance(z: Vector, a: Vector, segments: list[tuple[float, float, float, float]]) -> Vector:
    """Return how far the points (z, a) are from the nearest of the segments [z low, z high] x [a low, a high]."""
    each = [
        np.maximum.reduce([low - z, z - high, bottom - a, a - top, np.zeros_like(z)])
        for low, high, bottom, top in segments
    ]
    return np.asarray(np.min(each, axis=0))


def judge_labels(model: Any, kernel: Kernel, C: float, theta: float, s: float) -> Judged:
    """Judge a robust classifier by conditions (19) and the loss (5) as it is continuous."""
    y = np.asarray(model.window_y, np.float64)
    cost = C * model.window_sample_weight
    beta, f, square = _parts(model, kernel)
    z, a = y * f, y * beta / cost
    allowed = [(1.0, INF, 0.0, 0.0), (1.0, 1.0, 0.0, 1.0), (s, 1.0, 1.0, 1.0), (-INF, s, theta, theta)]
    loss = np.where(z >= s, np.maximum(0.0, 1.0 - z), 1.0 - (1.0 - theta) * s - theta * z)
    balance = abs(beta.sum()) / C if model.fit_intercept else 0.0
    violation = max(float(_distance(z, a, allowed).max()), balance)
    return Judged(violation, float(np.abs(z - s).min()), 0.5 * square + float(cost @ loss))


def judge_targets(model: Any, kernel: Kernel, C: float, theta: float, s: float, epsilon: float = 0.0) -> Judged:
    """Judge a robust regressor by conditions (26), with a tube, and the loss (9)."""
    y = np.asarray(model.window_y, np.float64)
    cost = C * model.window_sample_weight
    beta, f, square = _parts(model, kernel)
    r, a = y - f, beta / cost
    upper = [(epsilon, epsilon, 0.0, 1.0), (epsilon, s, 1.0, 1.0), (s, INF, theta, theta)]
    lower = [(-high, -low, -top, -bottom) for low, high, bottom, top in upper]
    allowed = [*upper, *lower, (-epsilon, epsilon, 0.0, 0.0)]
    size = np.abs(r)
    loss = np.where(size < s, np.maximum(0.0, size - epsilon), (size - s) * theta + s - epsilon)
    balance = abs(beta.sum()) / C if model.fit_intercept else 0.0
    violation = max(float(_distance(r, a, allowed).max()), balance)
    return Judged(violation, float(np.abs(size - s).min()), 0.5 * square + float(cost @ loss))
