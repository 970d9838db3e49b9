"""Kernel values of new examples in the rows of the others."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.kernels.row_cache import RowCache


@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 16, 30])
def test_columns_go_into_the_rows_that_are_there(m: int) -> None:
    rng = np.random.default_rng(m)
    cache = RowCache(10**6)
    cache.resize(50)
    held = rng.permutation(50)[:20]
    cache.hold(held, cache.vacate(20, held[:0]))
    cache.values[:] = -1.0
    slots, others = rng.permutation(50)[:m], rng.permutation(50)[:40]
    source, rows = rng.normal(size=(m + 5, 40)), rng.permutation(m + 5)[:m]
    expected = cache.values.copy()
    for k, other in enumerate(others):
        if cache.row_of[other] >= 0:
            expected[cache.row_of[other], slots] = source[rows, k]
    cache.update_columns(slots, others, source, rows)
    np.testing.assert_array_equal(cache.values, expected)


@pytest.mark.parametrize("m", [1, 5, 8, 21])
def test_cached_rows_stay_true_while_examples_come_and_go(m: int) -> None:
    rng = np.random.default_rng(m)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1, -1)
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X[:60], y[:60])
    for start in range(60, 200 - m, m):
        model.update(add=(X[start : start + m], y[start : start + m]), remove=model.keys_[:m])
        state = model._window.state
        slots = model._window.slots
        cached = slots[state.rows.row_of[slots] >= 0]
        assert cached.size > m
        true = state.kernel_rows(cached)[:, slots]
        np.testing.assert_array_equal(state.rows.values[state.rows.row_of[cached]][:, slots], true)
