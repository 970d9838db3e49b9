"""Features of a few landmarks, for what need not be exact, as scorers [Williams & Seeger 2001]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import Features, columns_of

LANDMARKS = 200
LEAST = 1e-10  # of the largest eigenvalue: directions with less are rounding
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Landmarks:
    """Landmarks as kernels are computed with them, and what makes their kernel values independent features."""

    kernel: Kernel
    Z: Features
    root: Floats

    def of(self, X: Features) -> Floats:
        """Return the features of ``X`` (l, d), the last of which is a one, (l, r + 1)."""
        return np.column_stack([self.kernel.matrix(X, self.Z) @ self.root, np.ones(len(X))])


def landmarks(kernel: Kernel, X: Features, rng: np.random.Generator) -> Landmarks:
    """Choose landmarks at random from ``X`` (n, d)."""
    marks = X[rng.permutation(len(X))[:LANDMARKS]]
    Z = columns_of(marks)
    values, vectors = np.linalg.eigh(kernel.matrix(marks, Z))
    kept = values > LEAST * max(float(values[-1]), TINY)
    return Landmarks(kernel, Z, vectors[:, kept] / np.sqrt(values[kept]))
