"""A kernel matrix in place of features: the same model, as it moves."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC, leave_one_out
from livesvm.solvers.errors import InvalidInput, NotPositiveSemidefinite

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 3))
Y = np.where(X[:, 0] + 0.5 * RANDOM.normal(size=120) > 0, 1, -1)
K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))


def test_it_is_the_model_of_the_kernel_it_was_computed_with() -> None:
    computed = IncrementalSVC(C=5.0, gamma=0.3).fit(X[:60], Y[:60])
    given = IncrementalSVC(C=5.0, kernel="precomputed").fit(K[:60, :60], Y[:60])
    window = list(range(60))
    for start in range(60, 120, 20):
        new, gone = list(range(start, start + 20)), window[5:28]
        computed.update(add=(X[new], Y[new]), remove=gone, keys=new)
        given.update(add=(K[np.ix_(new, window + new)], Y[new]), remove=gone, keys=new)
        window = [i for i in window if i not in gone] + new
        expected = computed.decision_function(X)
        np.testing.assert_allclose(given.decision_function(K[:, window]), expected, atol=1e-10)
        assert given.certificate().relative_gap <= 1e-12
    again = IncrementalSVC.from_arrays(given.get_params(), given.to_arrays())
    np.testing.assert_allclose(again.decision_function(K[:, window]), expected, atol=1e-10)
    assert leave_one_out(again).error == leave_one_out(computed).error


def test_what_is_no_kernel_matrix_is_refused() -> None:
    model = IncrementalSVC(C=1.0, kernel="precomputed").fit(K[:10, :10], Y[:10])
    before = model.to_arrays()
    with pytest.raises(InvalidInput, match="13, not 5"):
        model.update(add=(K[:3, :5], Y[:3]))
    crooked = K[10:13, :13].copy()
    crooked[0, 11] += 0.5
    with pytest.raises(InvalidInput, match="not symmetric"):
        model.update(add=(crooked, Y[10:13]))
    with pytest.raises(NotPositiveSemidefinite):
        model.update(add=(np.full((1, 11), -3.0), Y[:1]))
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)
