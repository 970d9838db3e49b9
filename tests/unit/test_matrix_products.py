"""Kernel values by matrix products against those pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from livesvm.solvers.kernels import matrix_products
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows, block, product, write

KERNELS = [
    Kernel("linear"),
    Kernel("rbf", gamma=0.3),
    Kernel("poly", gamma=0.5, degree=3, coef0=1.0),
    Kernel("sigmoid", gamma=0.1, coef0=0.2),
]


def data(n: int, seed: int = 0) -> Any:
    X = np.random.default_rng(seed).normal(size=(n, 7)) + 3.0
    X[X < 2.5] = 0.0
    return X


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_values_are_those_pair_by_pair(kernel: Kernel, is_sparse: bool, single: bool) -> None:
    X, Z = data(50), data(1100, 1)
    expected = kernel.matrix(X, np.ascontiguousarray(Z.T))
    columns = PreparedRows.of(kernel, sparse.csr_array(Z) if is_sparse else Z)
    rows = PreparedRows.of(kernel, sparse.csr_array(X) if is_sparse else X, like=columns)
    if single:
        rows, columns = rows.single(), columns.single()
    close = 1e-5 if single else 1e-12
    np.testing.assert_allclose(block(rows, columns), expected, rtol=10 * close, atol=close)
    out = np.zeros((60, 1200), columns.dtype)
    write(rows, columns, out, np.arange(5, 55), threads=2, first=7)
    np.testing.assert_allclose(out[5:55, 7:1107], expected, rtol=10 * close, atol=close)
    assert np.count_nonzero(out) <= expected.size
    weights = np.random.default_rng(2).normal(size=(50, 2))
    size = np.abs(expected).max()
    found = product(columns, rows, weights, threads=2)
    np.testing.assert_allclose(found, expected.T @ weights, rtol=10 * close, atol=20 * size * close)
    np.testing.assert_allclose(columns.diagonal(), kernel.diagonal(Z), rtol=10 * close, atol=close)


def test_precomputed_values_are_taken_as_they_are() -> None:
    K = np.arange(36.0).reshape(6, 6)
    examples = PreparedRows.of(Kernel("precomputed"), K + K.T)
    some, others = examples.take(np.array([1, 4])), examples.take(slice(2, 5))
    np.testing.assert_array_equal(block(some, others), (K + K.T)[[1, 4]][:, 2:5])
    np.testing.assert_array_equal(others.diagonal(), 2 * np.diagonal(K)[2:5])


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    examples = PreparedRows.of(KERNELS[1], data(9000))
    weights = np.random.default_rng(3).normal(size=(600, 2))
    one, two = (product(examples, examples.take(slice(0, 600)), weights, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_wide_sparse_rows_are_written_out_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_products, "WRITTEN_OUT", 20)
    X = sparse.csr_array(data(40))
    examples = PreparedRows.of(KERNELS[1], X)
    weights = np.ones((40, 1))
    expected = KERNELS[1].matrix(X.toarray(), np.ascontiguousarray(X.toarray().T)).sum(axis=1)
    np.testing.assert_allclose(product(examples, examples, weights)[:, 0], expected)


def test_distances_far_from_the_origin_keep_their_digits() -> None:
    X = data(30)
    near, far = PreparedRows.of(KERNELS[1], X), PreparedRows.of(KERNELS[1], X + 1e6)
    np.testing.assert_allclose(block(far, far), block(near, near), atol=1e-8)
