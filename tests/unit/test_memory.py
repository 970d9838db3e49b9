"""Where arrays begin in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.runtime.memory import LINE, aligned, padded
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import dense


@pytest.mark.parametrize("make", [np.empty, np.zeros])
@pytest.mark.parametrize("shape", [(0, 0), (1, 8), (3, 24), (40, 1832), (5,)])
def test_rows_of_padded_length_begin_at_lines(shape: tuple[int, ...], make: Callable[[int], Floats]) -> None:
    array = aligned(*shape, make=make)
    assert array.shape == shape
    assert array.flags.c_contiguous
    if make is np.zeros:
        assert not array.any()
    starts = [array[i : i + 1].ctypes.data for i in range(shape[0])] if len(shape) > 1 else [array.ctypes.data]
    assert all(start % (8 * LINE) == 0 for start in starts)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 17, 512, 513, 4096])
def test_padded_lengths_are_odd_numbers_of_lines(length: int) -> None:
    found = padded(length)
    assert length <= found < length + 2 * LINE
    assert found % LINE == 0
    assert found // LINE % 2 == 1
    assert padded(found) == found


def test_rows_of_a_window_are_aligned_however_it_grows() -> None:
    rng = np.random.default_rng(3)
    model = IncrementalSVC(C=10.0, gamma=0.5)
    for m in (30, 1, 200, 57):
        X = rng.normal(size=(m, 3))
        model.update(add=(X, np.where(X[:, 0] + rng.normal(size=m) > 0, 1, -1)))
        state = model._window.state
        arrays = [state.rows.values, dense(state.XT), state.factor.R, *state.examples[:4], *state.motion]
        assert all(array.ctypes.data % (8 * LINE) == 0 for array in arrays if array.dtype == np.float64)
        assert all(stride % (8 * LINE) == 0 for stride in (state.rows.values.strides[0], state.factor.R.strides[0]))
