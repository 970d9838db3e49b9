"""Sparse examples lead to the optimum that the same examples lead to dense, after any sequence of updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from livesvm.solvers import IncrementalOneClassSVM, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.sparse import SparseRows, columns_of, stacked
from tests.judge import infeasibility, judge
from tests.problems import Problem
from tests.property.strategies import tiny_problems
from tests.support.optimality import allowed

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def drawn_rows(rng: np.random.Generator, m: int, d: int = 12) -> Matrix:
    """Return rows with few entries, some of them empty, some twice."""
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.3)
    X[: m // 4] = X[m // 4 : 2 * (m // 4)]
    return X


@given(drawn=tiny_problems())
def test_every_update_with_sparse_rows_ends_at_an_optimum(drawn: Problem) -> None:
    model = IncrementalSVC(**drawn.parameters())
    for batch, window in zip(drawn.batches, drawn.windows(), strict=True):
        rows = batch.add
        add = (sparse.csr_array(drawn.X[rows]), drawn.y[rows]) if rows.size else None
        model.update(add, batch.remove.tolist() or None, keys=rows.tolist(), sample_weight=drawn.weight[rows])
        found = judge(model, drawn, window)
        assert found.relative <= allowed(drawn.C), found
        assert infeasibility(found, drawn) <= 1e-12 * max(len(window), 1), found


@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(["rbf", "linear", "poly"]),
    kind=st.sampled_from(["svc", "several", "svr", "oneclass", "pu"]),
)
def test_sparse_and_dense_reach_the_same_optimum(seed: int, kernel: str, kind: str) -> None:
    rng = np.random.default_rng(seed)
    kinds: dict[str, tuple[Any, dict[str, Any], Callable[[int], Any]]] = {
        "svc": (IncrementalSVC, {"C": 3.0}, lambda m: rng.choice([-1, 1], m)),
        "several": (IncrementalSVC, {"C": 3.0}, lambda m: rng.integers(0, 4, m)),
        "svr": (IncrementalSVR, {"C": 3.0}, lambda m: rng.normal(size=m)),
        "oneclass": (IncrementalOneClassSVM, {"nu": 0.4}, lambda m: None),
        "pu": (IncrementalPUClassifier, {"prior": 0.5}, lambda m: np.arange(m) % 2),
    }
    estimator, more, targets = kinds[kind]
    # "scale": of the same numbers, summed in another order
    gamma = 0.5 if seed % 2 else "scale"
    dense, held = (estimator(kernel=kernel, gamma=gamma, coef0=1.0, **more) for _ in range(2))
    for step in range(4):
        m = int(rng.integers(4, 12))
        X, y = drawn_rows(rng, m), targets(m)
        gone = rng.permutation(dense.keys_)[: int(rng.integers(0, 4))].tolist() if step else []
        dense.update(add=(X, y), remove=gone)
        held.update(add=(sparse.csr_array(X), y), remove=gone)
        ours, theirs = held.certificate(), dense.certificate()
        assert ours.relative_gap <= 1e-8
        assert ours.dual == pytest.approx(theirs.dual, rel=1e-8, abs=1e-12)
        assert held.gamma_ == pytest.approx(dense.gamma_, rel=1e-12)
    assert (held.window_X.toarray() == dense.window_X).all()
    again = estimator.from_arrays(held.get_params(), held.to_arrays())
    assert again.certificate().dual == pytest.approx(ours.dual, rel=1e-12)
    rows = drawn_rows(rng, 7)
    for one, other in ((held, held), (again, held)):
        sparse_rows = one.predictor().decision_function(sparse.csr_array(rows))
        assert sparse_rows == pytest.approx(other.predictor().decision_function(rows), rel=1e-9, abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["linear", "rbf", "poly", "sigmoid"]))
def test_kernel_values_are_those_of_dense_rows_and_symmetric(seed: int, name: Any) -> None:
    rng = np.random.default_rng(seed)
    X = drawn_rows(rng, 20) * 10.0 ** rng.integers(-8, 8)
    kernel, rows = Kernel(name, 0.3, 2, 1.0), SparseRows.of_dense(X)
    K = kernel.matrix(rows, rows)
    assert pytest.approx(kernel.matrix(X, columns_of(X)), rel=1e-12, abs=1e-300) == K
    assert (K == K.T).all()
    assert (K.diagonal() == kernel.diagonal(rows)).all()
    some = rng.permutation(20)[:7]
    assert (kernel.matrix(rows[some], rows[some[::-1]]) == K[np.ix_(some, some[::-1])]).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_are_put_and_taken_as_those_of_an_array(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, held = np.zeros((5, 12)), SparseRows.empty(5, 12)
    for _ in range(6):
        grown = len(table) + int(rng.integers(0, 5))
        table, held = np.vstack([table, np.zeros((grown - len(table), 12))]), held.resized(grown)
        places = rng.permutation(grown)[: int(rng.integers(0, 5))]
        X, before = drawn_rows(rng, places.size), held[np.arange(grown)]
        table_before = table.copy()
        table[places], held = X, held.put(places, SparseRows.of_dense(X))
        assert (held.toarray() == table).all()
        assert (before.toarray() == table_before).all()  # earlier rows stay
        some = rng.integers(0, grown, 6)
        assert (held[some].packed().toarray() == table[some]).all()
        both = stacked([held[some], held[:3]])
        assert isinstance(both, SparseRows)
        assert (both.tocsr() != sparse.csr_array(np.vstack([table[some], table[:3]]))).nnz == 0
    assert (SparseRows.from_arrays(held.to_arrays()).toarray() == table).all()
    assert held.indices.size <= 2 * 12 * 5 + 2 * held.nnz  # what is dropped leaves
