"""Features of a few landmarks, for what need not be exact, as scorers [Williams & Seeger 2001]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.problem import TINY
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, columns_of

LANDMARKS = 200
LEAST = 1e-10  # of the largest eigenvalue: directions with less are rounding


def landmarks(kernel: Kernel, X: Features, rng: np.random.Generator) -> Callable[[Features], Floats]:
    """Choose landmarks at random from ``X`` (n, d); return what computes the features of rows (l, d) from them.

    These are (l, r + 1), the last one a one: what makes kernel values with the landmarks independent.
    """
    marks = X[rng.permutation(len(X))[:LANDMARKS]]
    Z = columns_of(marks)
    values, vectors = np.linalg.eigh(kernel.matrix(marks, Z))
    kept = values > LEAST * max(float(values[-1]), TINY)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return lambda rows: np.column_stack([kernel.matrix(rows, Z) @ root, np.ones(len(rows))])
