"""The factor of a whole block: that of LAPACK, by any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.solvers.linalg.cholesky import PANEL, TILE, factor_block
from livesvm.solvers.runtime.threads import threads

Floats = NDArray[np.float64]


def positive(m: int) -> Floats:
    A = np.random.default_rng(m).normal(size=(m, m + 5))
    return A @ A.T


def factored(K: Floats, spare: int = 3) -> tuple[bool, Floats]:
    R = np.zeros((len(K) + spare, len(K) + spare))
    return factor_block(R, len(K), lambda rows, columns: K[rows, columns].copy()), R


@pytest.mark.parametrize("m", [1, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + TILE + 7])
@pytest.mark.parametrize("count", [1, 2])
def test_the_factor_is_that_of_the_block_and_the_rest_is_left_alone(m: int, count: int) -> None:
    K = positive(m)
    with threads(count):
        done, R = factored(K)
    assert done
    np.testing.assert_allclose(R[:m, :m], np.linalg.cholesky(K).T, rtol=0, atol=1e-9 * np.sqrt(K.max()))
    assert not np.tril(R, -1).any()
    assert not R[m:].any()
    assert not R[:, m:].any()


@pytest.mark.parametrize("place", [0, PANEL - 1, PANEL, PANEL + 40])
def test_a_block_that_is_not_positive_definite_is_reported(place: int) -> None:
    K = positive(PANEL + 50)
    K[place, place] = -1.0
    done, _ = factored(K)
    assert not done


def test_a_tile_that_cannot_be_computed_is_reported() -> None:
    def block(rows: slice, columns: slice) -> Floats:
        if columns.start > PANEL:
            raise MemoryError("no room for this tile")
        return np.eye(rows.stop - rows.start, columns.stop - columns.start)

    with threads(2), pytest.raises(MemoryError, match="no room"):
        factor_block(np.zeros((4 * PANEL, 4 * PANEL)), 4 * PANEL, block)
