"""Private copies of a state: the same model under other slots, nothing shared, the rows that are worth it."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.kernels.row_cache import RowCache
from livesvm.solvers.problem import snapshot
from livesvm.solvers.problem.snapshot import compact_copy
from tests.support.outlier_paths import labelled


def live() -> IncrementalSVC:
    """Return a model whose slots are not in the order of its window."""
    X, y, _ = labelled(60)
    model = IncrementalSVC(C=1.0, gamma=0.1).fit(X[:50], y[:50])
    model.update(remove=model.keys_[5:15])
    model.update(add=(X[50:], y[50:]))
    return model


@pytest.mark.parametrize("few", [True, False])
def test_a_copy_is_the_same_model_and_shares_nothing(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LITTLE", 100 if few else 100_000)
    window = live()._window
    state, slots = window.state, window.slots
    assert (slots != np.arange(slots.size)).any()
    copy = compact_copy(state, slots)
    np.testing.assert_array_equal(copy.examples.f, state.examples.f[slots])
    np.testing.assert_array_equal(np.sort(slots[copy.free_slots()]), np.sort(state.free_slots()))
    held = np.flatnonzero(copy.rows.row_of >= 0)
    wanted = state.rows.row_of[slots] >= 0
    if few:
        assert not (copy.examples.beta[held] == 0.0).any()
        wanted &= copy.examples.beta != 0.0
    np.testing.assert_array_equal(held, np.flatnonzero(wanted))
    np.testing.assert_array_equal(copy.rows.slot_of[copy.rows.row_of[held]], held)
    np.testing.assert_allclose(copy.rows.values[copy.rows.row_of[held]], copy.kernel_rows(held), rtol=1e-12)
    assert not np.shares_memory(copy.rows.values, state.rows.values)
    assert not np.shares_memory(copy.factor.R, state.factor.R)


def test_where_not_all_rows_fit_those_used_last_are_taken() -> None:
    rows = RowCache(1 << 20)
    rows.resize(6)
    rows.hold(np.arange(6), rows.vacate(6, np.arange(0)))
    rows.values[:6] = np.arange(36.0).reshape(6, 6)
    for slot in (4, 1, 3):
        rows.missing(np.array([slot]))
    few = RowCache(2 * 8 * 6)
    few.copy_from(rows, np.arange(6)[::-1].copy(), np.arange(6))
    held = np.flatnonzero(few.row_of >= 0)
    assert held.tolist() == [2, 4]  # slots 3 and 1 of the other
    np.testing.assert_array_equal(few.values[few.row_of[held]], np.array([np.arange(23, 17, -1), np.arange(11, 5, -1)]))
    assert few.missing(np.array([0, 2])).tolist() == [0]
