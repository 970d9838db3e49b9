"""Solving a working set along a path, for problems on which steps of pairs make too little progress.

If features have very different sizes, or the kernel matrix nearly has a low rank, the curvature along most pairs is
tiny compared with that of the whole problem, and pairs need millions of steps. A path moves the coefficients of all
free examples at once, with a factor of their kernel matrix.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.errors import MemoryLimit, NotOptimal, NotPositiveSemidefinite
from livesvm.solvers.homotopy.batch_update import Edit, update
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.kernels.gram import Gram
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.problem.piecewise_linear import leaving
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.pu.problem import pu_losses
from livesvm.solvers.runtime.types import Floats

ROOM = 64  # spare slots that a state may have


def solved_by_path(K: Floats, F: Floats, sigma: Floats, c2: Floats) -> Floats:
    """Return the optimal coefficients (q,) of a working set, with the coefficients of all other examples fixed.

    If the path does not improve the objective, ``sigma`` is returned.

    One additional example represents the contribution of all other examples, and of the positives, to f; its
    coefficient is fixed to the sum of ``sigma``.

    Parameters
    ----------
    K : (q, q) kernel matrix
    F : (q,) f without intercept at ``sigma`` (q,)
    """
    q, total = sigma.size, float(sigma.sum())
    gram = Gram()
    gram.values = np.empty((q + 1, q + 1))
    gram.values[:q, :q] = K
    gram.values[q, :q] = gram.values[:q, q] = (F + K @ sigma) / total
    gram.values[q, q] = K.diagonal().max()
    kernel = Kernel("precomputed", 1.0, gram=gram)
    state = PathState(kernel, refactorize, intercept=True, cache_bytes=8 * (q + ROOM) ** 2)
    losses = pu_losses(np.array([total]), c2).of(np.roll(np.arange(q + 1), -1))
    numbers = np.arange(q + 1, dtype=np.float64)[:, None]
    try:
        slots, _ = update(state, numbers, losses, Edit(NO_EXAMPLES, NO_EXAMPLES, leaving(0)))
    except (NotOptimal, NotPositiveSemidefinite, MemoryLimit):
        return sigma
    found = np.clip(-state.examples.beta[slots[:q]], 0.0, c2)
    return found if _is_better(K, F, sigma, c2, found) else sigma


def _is_better(K: Floats, F: Floats, sigma: Floats, c2: Floats, found: Floats) -> bool:
    """Say whether the dual objective of ``found`` is above that of ``sigma``."""
    d = found - sigma
    penalty = np.abs(found - 0.5 * c2) - np.abs(sigma - 0.5 * c2)
    return bool(d @ F - 0.5 * d @ (K @ d) > penalty.sum())
