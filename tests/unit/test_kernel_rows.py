"""Kernel rows for solvers without an engine: the same values whatever is kept of them."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.rows import KernelRows
from tests import oracle


@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("places", [3, 40])
def test_rows_are_those_of_the_kernel_however_few_are_kept(name: str, places: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 5))
    K = oracle.Kernel(name, 0.3, 3, 1.0)(X, X).astype(np.float64)
    rows = KernelRows(Kernel(name, 0.3, 3, 1.0), X, cache_bytes=8 * 40 * places)
    assert rows.max_rows == places
    for _ in range(30):
        indices = rng.permutation(40)[:3]
        np.testing.assert_allclose(rows.values[rows.fetch(indices), :40], K[indices], rtol=1e-12, atol=1e-14)
    indices, others = rng.permutation(40)[:11], rng.permutation(40)[:4]
    np.testing.assert_allclose(rows.block(indices, others), K[np.ix_(indices, others)], rtol=1e-12, atol=1e-14)


def test_a_product_in_tiles_is_that_of_the_whole_matrix() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2100, 2))
    rows = KernelRows(Kernel("rbf", 0.5), X, cache_bytes=2**20)
    indices, c = rng.permutation(2100)[:300], rng.normal(size=300)
    expected = oracle.Kernel("rbf", 0.5)(X, X[indices]).astype(np.float64) @ c
    np.testing.assert_allclose(rows.times(indices, c), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows.product(X[:5], indices, c), expected[:5], rtol=1e-9, atol=1e-12)
    assert rows.product(X[:0], indices, c).shape == (0,)


def test_more_rows_than_fit_are_refused() -> None:
    rows = KernelRows(Kernel("linear"), np.ones((5, 1)), cache_bytes=80)
    with pytest.raises(MemoryLimit):
        rows.fetch(np.arange(3))
