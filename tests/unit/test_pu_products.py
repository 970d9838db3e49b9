"""Products with the kernel matrix of the unlabelled: each way to compute them against the whole matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.low_rank import low_rank
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.pu import products
from livesvm.solvers.pu.products import VALUE, FromRows, Linear, Products, Whole, exact
from tests.oracle import Kernel as Reference
from tests.oracle import Matrix

RBF, TOLERANCE, N = Kernel("rbf", 0.05), 1e-6, 60
X: Matrix = np.random.default_rng(0).normal(size=(N, 2))
PIVOTS = low_rank(RBF, X, TOLERANCE, N)
assert PIVOTS is not None
WAYS: dict[str, tuple[Kernel, Callable[[], Products]]] = {
    "linear": (Kernel("linear"), lambda: Linear(X)),
    "whole": (RBF, lambda: Whole(RBF.matrix(X, np.ascontiguousarray(X.T)))),
    "rows": (RBF, lambda: FromRows(KernelRows(RBF, X, cache_bytes=VALUE * N * 20))),
    "pivots": (RBF, lambda: FromRows(KernelRows(RBF, X, cache_bytes=VALUE * N * 20), PIVOTS)),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), size=st.integers(1, N), parts=st.integers(0, 2))
def test_products_are_those_of_the_whole_matrix(way: str, seed: int, size: int, parts: int) -> None:
    """For as many examples as there are, of a part of a part too, within the error that is reported."""
    kernel, make = WAYS[way]
    random, own = np.random.default_rng(seed), make()
    K = Reference(kernel.name, kernel.gamma)(X, X)
    for _ in range(parts):
        stay = np.sort(random.permutation(len(K))[: max(1, len(K) - int(random.integers(0, 5)))])
        K, own = K[np.ix_(stay, stay)], own.part(stay)
        assert own.error == 0.0
    n = len(K)
    indices, others = np.sort(random.permutation(n)[:size]), random.permutation(n)[: random.integers(1, n + 1)]
    c = random.normal(size=indices.size)
    slack = own.error * np.abs(c).sum() + 1e-12 * n
    np.testing.assert_allclose(own.block(indices), K[np.ix_(indices, indices)], atol=1e-12)
    for _ in range(2):  # of rows that are kept, too
        assert np.abs(own.times(indices, c) - K[:, indices] @ c).max() <= slack
    assert np.abs(own.ahead(others, indices, c) - K[np.ix_(others, indices)] @ c).max() <= slack


def test_products_with_many_go_through_pivots_and_those_with_few_do_not() -> None:
    assert PIVOTS is not None
    own, r = WAYS["pivots"][1](), PIVOTS.pivots.size
    assert own.error == PIVOTS.error > 0
    K = RBF.matrix(X, np.ascontiguousarray(X.T))
    for size, is_exact in ((2 * r, True), (2 * r + 1, False)):
        indices, c = np.arange(size), np.ones(size)
        for found in (own.times(indices, c), own.ahead(np.arange(N), indices, c)):
            assert bool(np.abs(found - K[:, indices] @ c).max() < 1e-12) is is_exact


@pytest.mark.parametrize("cache", [VALUE * N**2, VALUE * N**2 - 1])
def test_the_whole_matrix_is_computed_where_there_is_memory_for_it(cache: int) -> None:
    assert isinstance(exact(RBF, X, cache), Whole if cache == VALUE * N**2 else FromRows)
    assert isinstance(exact(Kernel("linear"), X, cache), Linear)


@pytest.mark.parametrize(
    ("kernel", "few", "rank", "tolerance", "by_pivots"),
    [
        (RBF, N, 5, TOLERANCE, True),
        (RBF, N + 1, 5, TOLERANCE, False),
        (RBF, N, 1, TOLERANCE, False),  # more pivots would be needed
        (RBF, N, 5, 1e-15, False),
        (Kernel("linear"), 0, 5, TOLERANCE, False),
        (Kernel("sigmoid", 0.05), 0, 5, TOLERANCE, False),
    ],
)
def test_pivots_are_looked_for_among_many_and_taken_where_few_are_enough(
    kernel: Kernel, few: int, rank: int, tolerance: float, by_pivots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "FEW_EXAMPLES", few)
    monkeypatch.setattr(products, "RANK", rank)
    found = products.products(kernel, X, VALUE * N**2, tolerance)
    assert isinstance(found, FromRows) is by_pivots
    if isinstance(found, FromRows):
        assert found.pivots is not None
        assert found.error <= tolerance
        assert found.pivots.pivots.size <= rank * 7  # 7 = isqrt(60)
