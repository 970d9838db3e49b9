"""What does not fit into the cache of kernel rows is refused, and the model goes on as if it had not been asked."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import MemoryLimit
from tests.oracle import Matrix, Vector


def examples(n: int, seed: int = 0) -> tuple[Matrix, Vector]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, np.where(X.sum(axis=1) + random.normal(size=n) > 0, 1.0, -1.0)


def test_a_refused_request_leaves_space_for_others() -> None:
    model = IncrementalSVC(C=10.0, gamma=0.3, cache_mb=1.2).fit(*examples(400))
    never_asked = copy.deepcopy(model)
    state = model._window.state
    capacity, n_free = state.capacity, state.n_free
    for _ in range(2):
        with pytest.raises(MemoryLimit):
            model.update(add=examples(3000, 1))
    assert (state.capacity, state.n_free) == (capacity, n_free)
    for step in ({"add": examples(1, 2)}, {"remove": [3]}, {"reweight": {5: 2.0}}, {"remove": list(range(10, 390))}):
        for each in (model, never_asked):
            assert each.update(**step).relative_gap < 1e-8
            assert each.certificate().relative_gap < 1e-8
    np.testing.assert_allclose(model.decision_function(examples(9)[0]), never_asked.decision_function(examples(9)[0]))


def test_the_limit_can_be_set_again() -> None:
    model = IncrementalSVC(C=10.0, gamma=0.3, cache_mb=1.2).fit(*examples(400))
    with pytest.raises(MemoryLimit, match="cache_mb="):
        model.update(add=examples(3000, 1))
    model.set_params(cache_mb=16).update(add=examples(3000, 1))
    assert model.certificate().relative_gap < 1e-8
    before = model.decision_function(examples(9)[0])
    with pytest.raises(MemoryLimit):
        model.set_params(cache_mb=0.5).update(remove=[0])
    np.testing.assert_array_equal(model.decision_function(examples(9)[0]), before)
    model.set_params(cache_mb=8).update(remove=[0])
    assert model.n_window_ == 3399
