"""Sparse features: what is held, what is refused by name, what goes along."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from livesvm.solvers import IncrementalSVC, IncrementalSVR, load_model, save_model
from livesvm.solvers.analyses.leave_one_out.assessment import leave_one_out
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.homotopy import batch_update
from livesvm.solvers.sparse import BYTES, SparseRows, checked

X = sparse.random(60, 40, 0.1, format="csr", random_state=np.random.default_rng(1))
y = np.where(np.arange(60) % 3 > 0, 1, -1)


def fitted(**parameters: Any) -> IncrementalSVC:
    return IncrementalSVC(**{"C": 5.0, "gamma": 0.5} | parameters).fit(X, y)


def test_memory_goes_by_what_is_not_zero() -> None:
    wide = sparse.random(200, 100_000, 1e-4, format="csr", random_state=np.random.default_rng(2))
    model = IncrementalSVC(kernel="linear").fit(wide, np.arange(200) % 2)
    for start in range(0, 200, 20):
        model.update(add=(wide[start : start + 20], np.arange(20) % 2), remove=model.keys_[:20])
    held = model._window.state.XT
    assert isinstance(held, SparseRows)
    assert held.indices.nbytes + held.values.nbytes <= 2 * BYTES * wide.nnz
    assert len(pickle.dumps(model.to_arrays()["X"])) <= 2 * BYTES * wide.nnz


def test_all_that_is_asked_of_a_window_is_that_of_the_dense_one() -> None:
    model, dense = fitted(kernel="linear"), IncrementalSVC(C=5.0, gamma=0.5, kernel="linear").fit(X.toarray(), y)
    assert sparse.issparse(model.window_X)
    assert sparse.issparse(model.support_vectors_)
    for name in ("coef_", "dual_coef_", "support_vectors_"):
        assert sparse.issparse(getattr(model, name))
        assert getattr(model, name).toarray() == pytest.approx(getattr(dense, name), abs=1e-9)
    with pytest.raises(ValueError, match="read-only"):
        model.coef_.data[0] = 0.0
    several = IncrementalSVC(kernel="linear").fit(sparse.csr_array(X), np.arange(X.shape[0]) % 3)
    plain = IncrementalSVC(kernel="linear").fit(X.toarray(), np.arange(X.shape[0]) % 3)
    assert several.coef_.toarray() == pytest.approx(plain.coef_, abs=1e-7)
    assert several.dual_coef_.toarray() == pytest.approx(plain.dual_coef_, abs=1e-7)
    assert model.n_features_in_ == 40
    assert leave_one_out(model).decisions == pytest.approx(leave_one_out(dense).decisions, abs=1e-7)
    ours, theirs = (m.regularization_path(0.1, 10.0).validation_error(X, y) for m in (model, dense))
    assert ours.best().error == pytest.approx(theirs.best().error)
    assert model.outlier_path().validation_errors(X, y)[1] == pytest.approx(
        dense.outlier_path().validation_errors(X.toarray(), y)[1]
    )
    assert model.to_sklearn().predict(X.toarray()).tolist() == model.predict(X).tolist()
    assert [w.name for w in fitted(gamma=1e9).warnings_] == ["kernel_is_identity"]
    assert fitted(gamma=1e-9).warnings_[0].name == "kernel_is_constant"


def test_a_function_is_given_sparse_rows_and_may_return_sparse_values() -> None:
    def inner(A: sparse.csr_array, B: sparse.csr_array) -> sparse.csr_array:
        assert sparse.issparse(A)
        assert sparse.issparse(B)
        return A @ B.T

    ours, theirs = fitted(kernel=inner), fitted(kernel="linear")
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-7)
    assert ours.certificate().relative_gap < 1e-8
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        IncrementalSVC(kernel="precomputed").fit(sparse.csr_array(np.eye(3)), [0, 1, 1])


def test_one_feature_that_decides_is_named() -> None:
    rows = X.toarray()
    rows[:, 3] *= 1000.0
    found = fitted(gamma=1e-3).fit(sparse.csr_array(rows), y).warnings_
    assert found == IncrementalSVC(C=5.0, gamma=1e-3).fit(rows, y).warnings_


def test_what_comes_later_is_brought_to_what_the_window_holds() -> None:
    held, dense = fitted(), IncrementalSVC(C=5.0, gamma=0.5).fit(X.toarray(), y)
    held.update(add=(X[:3].toarray(), y[:3]))
    dense.update(add=(X[:3], y[:3]))
    assert sparse.issparse(held.window_X)
    assert isinstance(dense.window_X, np.ndarray)
    assert (held.window_X.toarray() == dense.window_X).all()
    held.update(remove=held.keys_)
    held.update(add=(X[:5].toarray(), y[:5]))
    assert sparse.issparse(held.window_X)


@pytest.mark.parametrize("make", [sparse.coo_array, sparse.csc_matrix, sparse.lil_array, sparse.csr_matrix])
def test_any_format_of_scipy_is_taken(make: Any) -> None:
    assert (fitted().fit(make(X), y).window_X.toarray() == X.toarray()).all()


def test_entries_that_stand_twice_are_summed_up_as_scipy_means_them() -> None:
    twice = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    model = IncrementalSVC(gamma=1.0).fit(twice, [0, 1])
    assert model.window_X.toarray().tolist() == [[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]
    assert twice.nnz == 3


def refused(call: Any, *names: Any) -> None:
    with pytest.raises(InvalidInput) as found:
        call()
    assert (found.value.field, found.value.row, found.value.column) == names, str(found.value)


def test_what_cannot_be_used_is_refused_by_name() -> None:
    bad = X.copy().astype(float)
    bad.data[bad.indptr[7]] = np.nan
    column = int(bad.indices[bad.indptr[7]])
    model = fitted()
    before = model.to_arrays()
    refused(lambda: model.update(add=(bad, y)), "X", 7, column)
    refused(lambda: model.predict(bad), "X", 7, column)
    refused(lambda: model.update(add=(X[:, :39], y)), "X", None, None)
    refused(lambda: model.predict(X[:, :39]), "X", None, None)
    refused(lambda: IncrementalSVC(scale="standard").fit(X, y), "scale", None, None)
    refused(lambda: IncrementalSVC(kernel="precomputed").fit(X, y), "X", None, None)
    refused(lambda: fitted().fit(X.astype(complex), y), "X", None, None)
    refused(lambda: fitted().fit(X[:0], y[:0]), "X", None, None)
    assert (model.to_arrays()["X"].toarray() == before["X"].toarray()).all()


@pytest.mark.parametrize(
    ("indices", "values", "row", "column"),
    [
        ([0, 3, 1, 5], [1.0, 1.0, 1.0, 1.0], 1, None),
        ([0, 3, 1, -1], [1.0, 1.0, 1.0, 1.0], 1, None),
        ([3, 0, 1, 4], [1.0, 1.0, 1.0, 1.0], 0, None),
        ([0, 3, 2, 2], [1.0, 1.0, 1.0, 1.0], 1, None),
        ([0, 3, 1, 2], [1.0, 1.0, np.inf, 1.0], 1, 1),
    ],
)
def test_rows_are_checked(indices: list[int], values: list[float], row: int, column: int | None) -> None:
    refused(lambda: checked(np.array([0, 2, 4]), np.array(indices), np.array(values), 5), "X", row, column)


def test_a_file_and_a_pickle_hold_it_sparse(tmp_path: Path) -> None:
    model = fitted()
    save_model(model, tmp_path / "model.npz")
    for again in (load_model(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert (again.window_X != model.window_X).nnz == 0
        assert again.predict(X).tolist() == model.predict(X).tolist()
        again.update(add=(X[:4], y[:4]), remove=again.keys_[:4])
        assert again.certificate().relative_gap <= 1e-8
    with pytest.raises(InvalidInput, match="damaged"):
        SparseRows.from_arrays({**model.to_arrays()["X"].to_arrays(), "indptr": np.array([0, 9])})


def test_an_update_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = IncrementalSVR(C=2.0, gamma=0.5).fit(X, y.astype(float))
    before, decisions = model.window_X, model.predict(X)

    def fail(*_: Any, **__: Any) -> None:
        raise NotOptimal("on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(batch_update, "follow", fail)
        patch.setattr(batch_update, "correct", fail)
        with pytest.raises(NotOptimal):
            model.update(add=(X[:30], y[:30].astype(float)), remove=model.keys_[:10])
    assert (model.window_X != before).nnz == 0
    assert model.predict(X) == pytest.approx(decisions, abs=1e-12)
    model.update(add=(X[:30], y[:30].astype(float)), remove=model.keys_[:10])
    assert model.certificate().relative_gap <= 1e-8
