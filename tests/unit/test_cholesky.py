"""The factor of the free block, as examples come and go."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers.linalg.cholesky import Factor, append, compact, delete, empty_factor, schur, solve_forward
from tests.oracle import Matrix, Vector

N, KAPPA = 40, 1.5


def _column(K: Matrix, fac: Factor, slot: int) -> Vector:
    """Return an example's kernel values with those in the factor, by position; nothing where there is none."""
    positions = fac.slot[: fac.size[0]]
    return np.where(positions >= 0, K[slot, positions] + KAPPA, 0.0)


def _enter(K: Matrix, fac: Factor, slot: int, rhs: float) -> None:
    size = int(fac.size[0])
    fac.column[:size] = _column(K, fac, slot)
    append(fac, fac.column, schur(fac, fac.column, K[slot, slot] + KAPPA), slot, rhs)


@pytest.mark.parametrize("seed", range(3))
def test_an_example_that_leaves_takes_row_and_column_along(seed: int) -> None:
    random = np.random.default_rng(seed)
    X, rhs = random.random((N, 5)), random.normal(size=N)
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    fac = empty_factor(N, N)
    for slot in range(N):
        _enter(K, fac, slot, rhs[slot])
    for slot in random.permutation(N)[: N - 2].tolist():
        delete(fac, slot)
        size = int(fac.size[0])
        solved = _column(K, fac, slot)
        solve_forward(fac.R, size, solved)
        np.testing.assert_allclose(fac.column[:size], solved, atol=1e-12)
        if random.random() < 0.3:
            compact(fac)
            size = int(fac.size[0])
        live = np.flatnonzero(fac.slot[:size] >= 0)
        slots = fac.slot[live]
        R = fac.R[:size, :size]
        np.testing.assert_allclose((R.T @ R)[np.ix_(live, live)], K[np.ix_(slots, slots)] + KAPPA, atol=1e-12)
        np.testing.assert_allclose((R.T @ fac.y[:, :size].T)[live], np.stack([rhs[slots], np.ones(live.size)], axis=1))
        np.testing.assert_array_equal(fac.position[slots], live)
