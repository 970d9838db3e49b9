"""Everything compiled here, on the smallest problems."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from livesvm.solvers.frank_wolfe import core_vector, steps, subproblem
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import Examples, write


def warm_up() -> None:
    """Run every compiled function once."""
    X = np.array([[0.0], [1.0]])
    indices, weights = np.arange(2), np.ones((2, 2))
    examples, thin = (Examples.of(Kernel("linear"), each) for each in (X, sparse.csr_array([[0.0, 0.0, 1.0]])))
    for own, few in ((examples, thin), (examples.single(), thin.single())):
        write(few, few, np.empty((1, 1), few.dtype), np.arange(1))
        rows = ActiveRows(own, 2**20, 1, np.random.default_rng(0), 2)
        rows.times(indices, weights)
        y, g = np.array([-1.0, 1.0]), np.array([0.5, 1.0])
        numbers, counts = np.array([1.0, 0.75, 1.0]), np.zeros(3, np.int64)
        arrays = rows.values, rows.place_of, y, np.ones(2), np.array([2.0, 3.0]), np.full(2, 0.5), g, numbers, counts
        steps.walk(*arrays, True, 0.1, 1)
        core_vector.minimize_pairwise(rows.values, y, np.ones(2), np.array([2.0, 3.0]), np.full(2, 0.5), g, 0.1, 1)
    subproblem.descend(np.eye(2), np.zeros(2), -np.ones(2), np.zeros(2), 1, 0.1)
