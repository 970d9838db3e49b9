"""Kernel values that were rounded to single or half precision are learnt from, exactly, by every estimator."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

from livesvm.solvers import (
    FrankWolfeSVC,
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    PUClassifier,
)
from livesvm.solvers.errors import InvalidInput, NotOptimal, NotPositiveSemidefinite
from livesvm.solvers.kernels.definiteness import MOST
from livesvm.solvers.kernels.gram import precision_of

N = 120


def embeddings(n: int = N, d: int = 16) -> np.ndarray:
    """Return rows of length 1 in single precision, fewer features than rows: the kernel matrix is singular."""
    E = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    found: np.ndarray = E / np.linalg.norm(E, axis=1, keepdims=True)
    return found


E = embeddings()
COSINES = E @ E.T
SIGNS = np.where(E[:, 0] > 0, 1, -1)
THREE = np.digitize(E[:, 1], [-0.1, 0.1])
ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "single": lambda K: K.astype(np.float32),
    "half": lambda K: K.astype(np.float16),
    "as double": lambda K: K.astype(np.float32).astype(np.float64),
    "averaged": lambda K: 0.5 * (K.astype(np.float64) + 1.0),
    "crooked": lambda K: K * (1.0 + 1e-7 * np.tri(len(K), K.shape[1], dtype=np.float32)),
}
LIVE: dict[str, tuple[Callable[..., Any], Any]] = {
    "two classes": (IncrementalSVC, SIGNS),
    "three classes": (IncrementalSVC, THREE),
    "regression": (IncrementalSVR, E[:, 2].astype(np.float64)),
    "one class": (IncrementalOneClassSVM, None),
    "pu": (lambda kernel: IncrementalPUClassifier(0.5, 0.01, kernel), (SIGNS > 0).astype(int)),
}


def cosine(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.asarray(A.astype(np.float32) @ B.astype(np.float32).T)


def cosine_of_lists(A: list[Any], B: list[Any]) -> np.ndarray:
    return cosine(np.array(A, np.float32), np.array(B, np.float32))


def part(y: Any, chosen: Any) -> Any:
    return None if y is None else y[chosen]


@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("kind", LIVE)
def test_a_rounded_matrix_is_learnt_from_as_it_grows_and_shrinks(kind: str, form: str) -> None:
    made, y = LIVE[kind]
    K = ROUNDED[form](COSINES)
    model, window = made(kernel="precomputed").fit(K[:30, :30], part(y, slice(30))), list(range(30))
    for start in range(30, N, 30):
        new, gone = list(range(start, start + 30)), window[3:15]
        model.update(add=(K[np.ix_(new, window + new)], part(y, new)), remove=gone, keys=new)
        window = [i for i in window if i not in gone] + new
        assert model.certificate().relative_gap <= 1e-8
        assert np.linalg.eigvalsh(model.window_X)[0] > -1e-9
    assert 0.0 < model.diagonal_raised_ <= MOST * np.abs(K).max()
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    assert back.diagonal_raised_ == model.diagonal_raised_
    for other in (back, pickle.loads(pickle.dumps(model))):
        found, expected = (one.predictor().decision_function(K[:, window]) for one in (other, model))
        np.testing.assert_allclose(found, expected, atol=1e-9)
        other.update(add=(K[np.ix_([3], [*window, 3])], part(y, [3])))
        assert other.certificate().relative_gap <= 1e-8


def test_it_is_the_solution_of_the_raised_matrix() -> None:
    K = COSINES.astype(np.float64)
    model = IncrementalSVC(C=10.0, kernel="precomputed").fit(COSINES, SIGNS)
    raised = K + model.diagonal_raised_ * np.eye(N)
    theirs = SVC(C=10.0, kernel="precomputed", tol=1e-10).fit(raised, SIGNS)
    np.testing.assert_allclose(model.decision_function(K), theirs.decision_function(K), atol=1e-6)


@pytest.mark.parametrize("kind", LIVE)
@pytest.mark.parametrize("objects", [False, True])
def test_a_function_that_rounds_is_learnt_from(kind: str, objects: bool) -> None:
    made, y = LIVE[kind]
    X: Any = [list(row) for row in E.tolist()] if objects else E
    texts = [str(i) for i in range(N)]

    def of_texts(A: list[str], B: list[str]) -> np.ndarray:
        return cosine_of_lists([X[int(one)] for one in A], [X[int(one)] for one in B])

    rows: Any = texts if objects else X
    model = made(kernel=of_texts if objects else cosine).fit(rows[:40], part(y, slice(40)))
    for start in range(40, N, 20):
        new = slice(start, start + 20)
        model.update(add=(rows[new], part(y, new)), remove=model.keys_[5:12])
        assert model.certificate().relative_gap <= 1e-8
    assert model.diagonal_raised_ > 0.0
    decisions = model.predictor().decision_function(rows)
    assert len(decisions) == N
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    np.testing.assert_allclose(back.predictor().decision_function(rows), decisions, atol=1e-4)
    back.update(remove=back.keys_[:3])
    assert back.certificate().relative_gap <= 1e-8


@pytest.mark.parametrize("form", ["single", "half", "as double"])
def test_the_batch_estimators_take_them_too(form: str) -> None:
    K = ROUNDED[form](COSINES)
    pu = PUClassifier(0.5, 0.01, "precomputed").fit(K, (SIGNS > 0).astype(int))
    assert pu.certificate().relative_gap <= 1e-6
    assert pu.diagonal_raised_ > 0.0
    for y in (SIGNS, THREE):
        large = FrankWolfeSVC(C=1e9, kernel="precomputed", tol=1e-3).fit(K, y)
        assert 0.0 <= large.certificate(K, y).relative <= 1e-3


@pytest.mark.parametrize("kind", LIVE)
def test_an_indefinite_matrix_is_refused_with_its_eigenvalue(kind: str) -> None:
    made, y = LIVE[kind]
    values, Q = np.linalg.eigh(COSINES.astype(np.float64))
    values[0] = -0.1
    K = ((Q * values) @ Q.T).astype(np.float32)
    model = made(kernel="precomputed")
    with pytest.raises(NotPositiveSemidefinite, match=r"eigenvalue -0\.1.*below -.*add 0\.1 to its diagonal"):
        model.fit(K, y)
    model.fit(COSINES[:20, :20], part(y, slice(20)))
    before = model.to_arrays()
    row = np.zeros((1, 21), np.float32)
    row[0, :20], row[0, 20] = 0.9, 1.0
    with pytest.raises(NotPositiveSemidefinite):
        model.update(add=(row, part(y, [0])))
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_first_window_is_not_said_to_be_trained_again() -> None:
    """Rounded values of a function have to be raised, also where there is no solution yet."""
    report = IncrementalSVC(C=10.0, kernel=cosine).update(add=(E[:40], SIGNS[:40]))
    assert not report.retrained


def test_the_batch_estimators_refuse_an_indefinite_one() -> None:
    K = COSINES - 0.2 * np.eye(N, dtype=np.float32)
    with pytest.raises(NotPositiveSemidefinite, match="eigenvalue"):
        PUClassifier(0.5, 0.01, "precomputed").fit(K, (SIGNS > 0).astype(int))
    with pytest.raises(NotPositiveSemidefinite, match="eigenvalue"):
        FrankWolfeSVC(C=1e9, kernel="precomputed").fit(K, SIGNS)
    X = np.random.default_rng(1).normal(size=(60, 2))
    with pytest.raises(NotPositiveSemidefinite):
        PUClassifier(0.5, 0.01, "sigmoid", gamma=2.0, coef0=1.0).fit(X, (X[:, 0] > 0).astype(int))


def test_a_refused_update_leaves_the_tolerance_as_it_was() -> None:
    """What came in half precision and was refused does not let more pass later."""
    K = COSINES.astype(np.float64) + np.linspace(0.1, 0.2, N)[:, None] * np.eye(N) / 3.0
    model = IncrementalSVC(kernel="precomputed").fit(K[:40, :40], SIGNS[:40])
    gram = model._window.state.kernel.gram
    assert gram is not None
    before = gram.precision, gram.raised
    with pytest.raises(InvalidInput):
        model.update(add=(np.full((1, 41), 0.3001, np.float16), [9.5]))
    with pytest.raises((NotPositiveSemidefinite, NotOptimal)):
        model.update(add=(np.full((1, 41), 30.01, np.float16), [1]))
    assert (gram.precision, gram.raised) == before


def test_precision_is_told_by_the_last_bits() -> None:
    rng = np.random.default_rng(0)
    K = rng.normal(size=(20, 20))
    half, single = (float(np.finfo(dtype).eps) for dtype in (np.float16, np.float32))
    assert precision_of(K) == 0.0
    assert precision_of(K.astype(np.float32).astype(np.float64)) == single
    assert precision_of(0.5 * (K.astype(np.float32).astype(np.float64) + 1.0)) == single
    assert precision_of(K.astype(np.float16).astype(np.float64)) == half
    assert precision_of(np.round(100.0 * K)) == 0.0
    assert precision_of(np.zeros((3, 3))) == 0.0
