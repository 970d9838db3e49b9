"""Products with kernel rows, four at a time: any number of rows, in any order, and columns across a tile's end."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers.homotopy.refresh import add_multiples
from livesvm.solvers.linalg.products import TILE, add_rows, add_rows_and_multiply, add_rows_to_both


@pytest.mark.parametrize("n", [1, 30, TILE + 5])
@pytest.mark.parametrize("m", range(10))
def test_products_are_those_of_numpy(m: int, n: int) -> None:
    random = np.random.default_rng(m)
    rows, row = random.normal(size=(12, n + 3)), random.permutation(12)[:m]
    c, x, y, beta = random.normal(size=(2, m + 2)), random.normal(size=n), random.normal(size=n), random.normal(size=n)
    c[:, m:] = np.nan  # space that is not used
    taken = rows[row, :n]
    expected = x + c[0, :m] @ taken

    found = x.copy()
    add_rows(rows, row, c[0], found)
    np.testing.assert_allclose(found, expected, atol=1e-13)

    found, other = x.copy(), y.copy()
    add_rows_to_both(rows, row, c, found, other, n)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(other, y + c[1, :m] @ taken, atol=1e-13)

    found, products = x.copy(), np.full(m + 2, 7.0)
    add_rows_and_multiply(rows, row, c[0], found, beta, products, n)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(products[:m], taken @ beta, atol=1e-11)
    assert (products[m:] == 7.0).all()


def test_examples_without_a_row_add_nothing() -> None:
    rows = np.vstack([np.full(4, np.nan), np.eye(4)])
    total = np.zeros(4)
    add_multiples(total, rows, np.array([-1, 2, -1, 4]), np.arange(4), np.array([5.0, 6.0, 7.0, 8.0]))
    assert total.tolist() == [0.0, 6.0, 0.0, 8.0]
