"""Models with components: the map against dense matrices, updates from features against paths over kernel rows."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, sparse

from livesvm import solvers
from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    load_model,
    save_model,
)
from livesvm.solvers.analyses.tuning import rank
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy import by_features, coordinate_descent, linear
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import fitted
from livesvm.solvers.models import base, warnings
from livesvm.solvers.models.change import Batch, Change
from livesvm.solvers.problem.piecewise_linear import epsilon_insensitive, hinge
from livesvm.solvers.problem.state import are_free, empty_examples
from livesvm.solvers.robust.settings import Robustness
from tests import oracle

Vector = NDArray[np.float64]


def made(n: int, d: int = 4, seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.8 * rng.normal(size=n)


@pytest.fixture
def from_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve small windows as large ones are solved."""
    monkeypatch.setattr(linear, "LEAST", 50)
    monkeypatch.setattr(by_features, "EACH", 2)


def test_windows_are_updated_from_features_from_half_the_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "LEAST", 200)
    updates = mock.Mock(wraps=by_features.update)
    monkeypatch.setattr(by_features, "update", updates)
    X, numbers = made(160)
    for n, count in ((80, 0), (130, 1)):
        model = IncrementalSVC(C=1.0, gamma=0.5, components=5).fit(X[:n], numbers[:n] > 0)
        updates.reset_mock()
        model.update(add=(X[n : n + 10], numbers[n : n + 10] > 0))
        assert updates.call_count == count
        assert model.certificate().relative_gap < 1e-8


@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly"])
def test_products_are_the_projection_of_the_whole_kernel(name: str) -> None:
    X, _ = made(120)
    kernel = Kernel(name, 0.3, 3, 1.0)
    found = fitted(kernel, None, X, 15)
    Z = found.landmarks
    assert 50 < len(Z) == len(np.unique(Z, axis=0)) <= 60
    assert found.basis.shape[1] == 15
    whole, onto = (kernel.matrix(A, np.ascontiguousarray(X.T)) for A in (X, Z))
    values, vectors = linalg.eigh(
        kernel.matrix(Z, np.ascontiguousarray(Z.T)), subset_by_index=(len(Z) - 15, len(Z) - 1)
    )
    dense = onto.T @ (vectors / values) @ vectors.T @ onto
    mapped = found.apply(X)
    np.testing.assert_allclose(mapped @ mapped.T, dense, rtol=1e-8, atol=1e-8)
    left = 1.0 - dense.diagonal() / whole.diagonal()
    np.testing.assert_allclose(found.left_out(X), np.maximum(left, 0.0), atol=1e-8)
    assert left.max() > 0.01


def test_a_row_is_mapped_alike_in_any_company() -> None:
    X, _ = made(300)
    found = fitted(Kernel("rbf", 0.3), None, X, 33)
    mapped = found.apply(X)
    for part in (slice(0, 1), slice(7, 150), slice(299, 300)):
        assert (found.apply(X[part]) == mapped[part]).all()


def test_copies_are_no_landmarks() -> None:
    X, y = made(40)
    twice = np.repeat(X[:12], 5, axis=0)
    found = fitted(Kernel("rbf", 0.3), None, twice, 30)
    assert len(found.landmarks) == len(np.unique(found.landmarks, axis=0)) == 12
    model = IncrementalSVC(gamma=0.3, components=30).fit(twice, np.repeat(y[:12] > 0, 5))
    certificate: Any = model.certificate()
    assert certificate.left_out == pytest.approx(0.0, abs=1e-7)


def test_the_certificate_names_the_kernel_and_the_distance() -> None:
    X, y = made(200)
    model = IncrementalSVC(C=2.0, gamma=0.4, components=20, scale="standard").fit(X, y > 0)
    found: Any = model.certificate()
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    at = [np.flatnonzero((row == X).all(axis=1))[0] for row in model.feature_scale_.landmarks]
    K = np.array(oracle.Kernel("rbf", 0.4)(rows, rows), np.float64)
    values, vectors = linalg.eigh(K[np.ix_(at, at)], subset_by_index=(len(at) - 20, len(at) - 1))
    dense = K[:, at] @ (vectors / values) @ vectors.T @ K[at]
    assert (found.kernel, found.components) == ("rbf", 20)
    assert found.left_out == pytest.approx(1.0 - np.trace(dense) / np.trace(K), abs=1e-9)
    np.testing.assert_allclose(model.left_out(X[:9]), 1.0 - dense.diagonal()[:9], atol=1e-9)
    beta, free = model.window_coefficients, model.window_is_free
    f = dense @ beta + model.intercept_
    np.testing.assert_allclose(f, model.decision_function(X), atol=1e-8)
    labels = np.where(y > 0, 1.0, -1.0)
    loss = 2.0 * np.maximum(0.0, 1.0 - labels * f).sum()
    gap = beta @ dense @ beta + loss - np.abs(beta).sum()
    assert abs(gap) < 1e-8 * loss
    assert 0 < np.count_nonzero(free) <= 21


ESTIMATORS: dict[str, Any] = {
    "svc": lambda **more: IncrementalSVC(C=2.0, gamma=0.3, components=20, **more),
    "weighted": lambda **more: IncrementalSVC(
        C=2.0, gamma=0.3, components=20, class_weight={True: 3.0}, fit_intercept=False, **more
    ),
    "classes": lambda **more: IncrementalSVC(C=2.0, gamma=0.3, components=20, **more),
    "svr": lambda **more: IncrementalSVR(C=2.0, gamma=0.3, epsilon=0.2, components=20, **more),
    "pinball": lambda **more: IncrementalSVR(C=2.0, gamma=0.3, loss="pinball", quantile=0.8, components=20, **more),
    "one class": lambda **more: IncrementalOneClassSVM(nu=0.3, gamma=0.3, components=20, **more),
    "pu": lambda **more: IncrementalPUClassifier(prior=0.4, lam=0.003, gamma=0.3, components=20, **more),
}


@pytest.mark.usefixtures("from_features")
@pytest.mark.parametrize("many", [by_features.MANY, 10])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_updates_from_features_end_where_training_anew_does(
    kind: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_features, "MANY", many)
    counted = mock.Mock(wraps=by_features._descend_among)
    monkeypatch.setattr(by_features, "_descend_among", counted)
    X, numbers = made(420, seed=3)
    y: Any = numbers if kind in ("svr", "pinball") else numbers > 0
    if kind == "classes":
        y = np.digitize(numbers, [-0.7, 0.7])
    if kind == "pu":
        y = 1 * (np.abs(numbers - 1.3) < 0.8)
    model = ESTIMATORS[kind]().fit(X[:200], y[:200])
    rng, at = np.random.default_rng(1), 200
    for k in range(8):
        keys = model.keys_
        gone = rng.choice(keys, 20, replace=False).tolist()
        stay = [key for key in keys if key not in gone][:3]
        more: dict[str, Any] = {}
        if k % 3 == 1:
            labels = {} if kind == "one class" else {stay[0]: y[at], stay[1]: y[at + 1]}
            more = {"relabel": labels, "reweight": {stay[2]: 2.5}}
        if k == 5:
            costs = {} if kind == "one class" else {"C": 90.0 if kind == "pu" else 0.7}
            more = {**costs, "decay": 0.99}
        report = model.update(add=(X[at : at + 25], y[at : at + 25]), remove=gone, **more)
        at += 25
        assert report.relative_gap <= SETTINGS.acceptable
        assert model.certificate().relative_gap <= SETTINGS.acceptable
        assert counted.called == (many == 10)
        if kind == "classes":
            assert all(pair.raw_state._rows.values.size == 0 for pair in model._window.pairs.values())
    mapped, window = model.feature_scale_.apply(model.window_features), model.window_y
    anew = type(model)(**{**model.get_params(), "kernel": "linear", "components": None})
    anew.fit(mapped, window, sample_weight=model.window_sample_weight)
    fresh = model.feature_scale_.apply(X)
    decide, known = (getattr(one, "decision_function", one.predict) for one in (model, anew))
    np.testing.assert_allclose(decide(X), known(fresh), atol=1e-6)
    assert model._window.state.n_free <= 21 * (3 if kind == "classes" else 1)
    again = type(model).from_arrays(model.get_params(), model.to_arrays())
    np.testing.assert_allclose(decide(X), getattr(again, decide.__name__)(X), atol=1e-9)


@pytest.mark.usefixtures("from_features")
@pytest.mark.parametrize("kind", ["linear", "one class"])
def test_linear_models_without_a_map_use_their_features_too(kind: str) -> None:
    X, numbers = made(300, seed=5)
    if kind == "linear":
        model: Any = IncrementalSVC(C=0.5, kernel="linear").fit(X[:200], numbers[:200] > 0)
        model.update(add=(X[200:], numbers[200:] > 0), remove=range(60))
    else:
        model = IncrementalOneClassSVM(nu=0.2, kernel="linear").fit(X[:200] + 3.0)
        model.update(add=(X[200:] + 3.0, None), remove=range(60))
    assert model._window.state._rows.values.size == 0
    assert model.certificate().relative_gap <= SETTINGS.acceptable


@pytest.mark.usefixtures("from_features")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["svc", "svr", "weighted"])
def test_newton_steps_fill_what_coordinate_descent_does_not(
    kind: str, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinate_descent, "FEW_PASSES", 1)
    counted = mock.Mock(wraps=coordinate_descent.newton)
    monkeypatch.setattr(coordinate_descent, "newton", counted)
    X, numbers = made(400, seed=7)
    X = np.c_[X, X[:, :2] + X[:, 2:], 30.0 * X[:, :1]]  # some features depend on others
    if kind == "svr":
        model: Any = IncrementalSVR(C=20.0, epsilon=0.1, kernel="linear", fit_intercept=intercept).fit(X, numbers)
    else:
        weights = None if kind == "svc" else np.linspace(0.1, 3.0, 400)
        model = IncrementalSVC(C=20.0, kernel="linear", fit_intercept=intercept)
        model.fit(X, numbers > 0, sample_weight=weights)
    assert counted.called
    assert model.certificate().relative_gap <= SETTINGS.acceptable
    assert model._window.state.n_free <= 5


@pytest.mark.usefixtures("from_features")
@pytest.mark.parametrize("several", [False, True])
def test_features_far_from_the_origin_are_centered_in_large_linear_windows(several: bool) -> None:
    X, numbers = made(300, seed=8)
    X, y = X + np.array([1e4, 0.0, -300.0, 5.0]), np.digitize(numbers, [-0.7, 0.7] if several else [0.0])
    model = IncrementalSVC(C=0.5, kernel="linear").fit(X[:200], y[:200])
    model.update(add=(X[200:], y[200:]), remove=range(60))
    assert model.certificate().relative_gap <= SETTINGS.acceptable
    anew = IncrementalSVC(C=0.5, kernel="linear")
    with mock.patch.object(linear, "LEAST", 10_000):
        anew.fit(X[60:], y[60:])
        expected = anew.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)
    again = IncrementalSVC.from_arrays(model.get_params(), model.to_arrays())
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-9)


@pytest.mark.usefixtures("from_features")
@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_linear_windows_of_sparse_rows_are_filled_without_kernel_rows_of_all(kind: str) -> None:
    random = np.random.default_rng(9)
    X = sparse.random(300, 80, 0.1, format="csr", random_state=9)
    numbers = X @ random.normal(size=80) + 0.2 * random.normal(size=300)
    model: Any = IncrementalSVC(C=2.0, kernel="linear") if kind == "svc" else IncrementalSVR(C=2.0, kernel="linear")
    model.fit(X[:250], numbers[:250] > 0 if kind == "svc" else numbers[:250])
    state = model._window.state
    assert state.n_free <= np.count_nonzero(state.rows.slot_of >= 0) < state.n // 2
    model.update(add=(X[250:], numbers[250:] > 0 if kind == "svc" else numbers[250:]), remove=range(40))
    assert model.certificate().relative_gap <= SETTINGS.acceptable


@pytest.mark.usefixtures("from_features")
def test_a_failed_update_leaves_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    X, numbers = made(260)
    model = ESTIMATORS["svc"]().fit(X[:200], numbers[:200] > 0)
    before, f = model.certificate(), model.decision_function(X)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(by_features, "_follow_among", fails)
        with pytest.raises(KeyboardInterrupt):
            model.update(add=(X[200:], numbers[200:] > 0), remove=range(30))
    assert model.keys_ == list(range(200))
    assert model.certificate() == before
    assert (model.decision_function(X) == f).all()
    model.update(add=(X[200:], numbers[200:] > 0), remove=range(30))
    assert model.certificate().relative_gap <= SETTINGS.acceptable


@pytest.mark.usefixtures("from_features")
def test_analyses_make_kernel_rows_when_they_need_them() -> None:
    X, numbers = made(200)
    model = ESTIMATORS["svc"]().fit(X, numbers > 0)
    assert model._window.state._rows.values.size == 0
    path = model.regularization_path(1.0, 4.0)
    np.testing.assert_allclose(path.at(2.0).decision_function(X), model.decision_function(X), atol=1e-7)
    model.update(add=(X[:30] + 0.1, numbers[:30] > 0), remove=range(20))
    assert model.certificate().relative_gap <= SETTINGS.acceptable


def test_several_classes_share_one_map() -> None:
    X, numbers = made(240)
    y = np.digitize(numbers, [-0.7, 0.7])
    model: Any = IncrementalSVC(C=1.0, gamma=0.3, components=25).fit(X[:200], y[:200])
    model.update(add=(X[200:], y[200:]), remove=range(40))
    found = model.certificate()
    assert found.components == 25 == model._window.shared.n_features
    assert found.relative_gap <= SETTINGS.acceptable
    again = type(model).from_arrays(model.get_params(), model.to_arrays())
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-9)


def test_landmarks_grow_with_a_window_that_began_small_and_then_stay() -> None:
    X, numbers = made(300)
    y = numbers > 0
    model, counts = ESTIMATORS["svc"](), []
    for k in range(0, 300, 5):
        report = model.update(add=(X[k : k + 5], y[k : k + 5]))
        assert report.added == tuple(range(k, k + 5))
        counts.append(model.feature_scale_.basis.shape[1])
    assert counts[:8] == [5, 10, 10, 20, 20, 20, 20, 20]
    assert counts[-1] == 20
    assert model.feature_scale_.fitted == 40
    assert model.is_settled
    anew = ESTIMATORS["svc"]().fit(X, y)
    assert abs(model.score(X, y) - anew.score(X, y)) < 0.05


def test_a_model_that_waits_chooses_landmarks_when_both_kinds_have_come() -> None:
    X, numbers = made(120)
    model = IncrementalPUClassifier(gamma=0.3, components=10)
    model.update(add=(X[:40], np.zeros(40)))
    assert model.is_waiting_
    assert not model.is_settled
    y = 1 * (numbers[40:] > 0.5)
    model.update(add=(X[40:], y))
    assert model.is_settled
    assert model.feature_scale_.fitted == 120
    anew = IncrementalPUClassifier(gamma=0.3, components=10).fit(X, [0] * 40 + y.tolist())
    assert (model.prior_, model.lam_) == (anew.prior_, anew.lam_)
    np.testing.assert_allclose(model.decision_function(X), anew.decision_function(X), atol=1e-7)


def test_files_and_checkpoints_keep_the_map(tmp_path: Path) -> None:
    X, numbers = made(200)
    model = IncrementalSVC(C=1.0, gamma="scale", components=20, scale="minmax").fit(X[:150], numbers[:150] > 0)
    model.update(add=(X[150:], numbers[150:] > 0), remove=range(50))
    save_model(model, tmp_path / "model.npz")
    for other in (load_model(tmp_path / "model.npz"), type(model).from_arrays(model.get_params(), model.to_arrays())):
        assert (other.feature_scale_.landmarks == model.feature_scale_.landmarks).all()
        assert (other.window_X == model.window_X).all()
        np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-12)
        other.update(add=(X[:5], numbers[:5] > 0))
        assert other.certificate().relative_gap <= SETTINGS.acceptable


@pytest.mark.parametrize("classes", [2, 3])
def test_cells_of_a_table_are_encoded_and_then_mapped(tmp_path: Path, classes: int) -> None:
    X, numbers = made(200)
    table = [{"a": float(row[0]), "b": "high" if row[1] > 0.4 else None, "c": float(row[2])} for row in X]
    y = numbers > 0 if classes == 2 else np.digitize(numbers, [-0.7, 0.7])
    model: Any = IncrementalSVC(C=1.0, gamma=0.3, components=15, columns="auto").fit(table[:120], y[:120])
    model.update((table[120:], y[120:]), remove=range(60))
    for step in ("update", "rescale"):
        if step == "rescale":
            model.rescale()
        mapped = model.feature_scale_.apply(model.window_features)
        linear = IncrementalSVC(C=1.0, kernel="linear").fit(mapped, y[60:])
        np.testing.assert_allclose(model.decision_function(table[60:]), linear.decision_function(mapped), atol=1e-7)
    own, known = (solvers.leave_one_out(one).decisions for one in (model, linear))
    np.testing.assert_allclose(own, known, atol=1e-7)
    save_model(model, tmp_path / "model.npz")
    for other in (load_model(tmp_path / "model.npz"), type(model).from_arrays(model.get_params(), model.to_arrays())):
        assert (other.decision_function(table) == model.decision_function(table)).all()
        assert other.window_X == model.window_X
        other.update((table[:5], y[:5]))
    own = model.certificate()
    assert (own.components, own.relative_gap < 1e-8) == (15, True)
    assert own.left_out == pytest.approx(float(model.left_out(table[60:]).mean()), abs=1e-9)


def test_a_map_knows_whether_its_landmarks_are_in_the_window() -> None:
    X, numbers = made(200)
    model = ESTIMATORS["svc"]().fit(X, numbers > 0)
    scale, ones = model.feature_scale_, np.ones(200)
    is_landmark = (X[:, None] == scale.landmarks[None]).all(axis=2).any(axis=1)
    assert scale.is_of(X, ones)
    assert scale.is_of(X[is_landmark], ones)
    assert not scale.is_of(X[1 + np.flatnonzero(is_landmark)[0] :], ones)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"components": 0}, "components"),
        ({"components": 1.5}, "components"),
        ({"components": 5, "kernel": "precomputed"}, "components"),
        ({"components": 5, "kernel": "sigmoid"}, "components"),
        ({"components": "auto"}, "components"),
        ({"components": "some", "C": "auto"}, "components"),
    ],
)
def test_what_has_no_components_is_refused(parameters: dict[str, Any], field: str) -> None:
    X, numbers = made(30)
    model = IncrementalSVC(**parameters)
    with pytest.raises(InvalidInput) as refused:
        model.fit(X @ X.T if model.kernel == "precomputed" else X, numbers > 0)
    assert refused.value.field == field


@pytest.mark.parametrize("kind", [IncrementalOneClassSVM, IncrementalPUClassifier])
def test_other_kinds_say_that_they_do_not_choose_the_number(kind: Any) -> None:
    X, numbers = made(60)
    with pytest.raises(InvalidInput, match="for classifiers and regressions"):
        kind(components="auto").fit(X, numbers > 0)


@pytest.mark.parametrize(
    ("parameters", "is_sparse", "cure"),
    [
        ({}, False, "a smaller C or gamma, or components=300"),
        ({"kernel": "linear"}, False, "a smaller C, or components=300"),
        ({"kernel": "linear"}, True, "a smaller C"),
        ({"kernel": "precomputed"}, False, "a smaller C"),
        ({"components": 200}, False, "a smaller C"),
    ],
)
def test_a_warning_of_many_free_examples_names_what_helps(
    parameters: dict[str, Any], is_sparse: bool, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "MANY", 50)
    monkeypatch.setattr(warnings, "MOST_FREE", -1.0)
    X, numbers = made(80)
    X = X @ X.T if parameters.get("kernel") == "precomputed" else X
    model = IncrementalSVC(**parameters).fit(sparse.csr_array(X) if is_sparse else X, numbers > 0)
    (found,) = [one.message for one in model.warnings_ if one.name == "most_are_free"]
    assert found.endswith(f"; choose {cure}")
    if is_sparse:
        with pytest.raises(InvalidInput, match="pass dense features"):
            model.change(components=20)


def test_components_can_be_changed() -> None:
    X, numbers = made(150)
    model = ESTIMATORS["svc"]().fit(X, numbers > 0)
    model.change(components=None)
    whole = IncrementalSVC(C=2.0, gamma=0.3).fit(X, numbers > 0)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-7)
    model.change(components=10)
    assert model.certificate().components == 10


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["hinge", "tube"])
def test_crossing_over_moves_neither_w_nor_the_sum(kind: str, intercept: bool) -> None:
    X, numbers = made(300, d=6)
    C = np.full(300, 0.5)
    losses = hinge(np.sign(numbers), C) if kind == "hinge" else epsilon_insensitive(numbers, 0.1, C)
    beta = coordinate_descent.descend(X, losses, 0.0, intercept).beta
    rng = np.random.default_rng(1)
    low, high = losses.levels[np.arange(300), losses.n_kinks], losses.levels[:, 0]
    inside = rng.random(300) < 0.3
    beta = np.where(inside, low + (high - low) * rng.random(300), beta)
    e = empty_examples(300)
    e.kinks[:], e.levels[:], e.n_kinks[:] = losses
    coordinate_descent.put_all(e, beta)
    before = np.count_nonzero(are_free(e.segment))
    coordinate_descent.cross_over(X, e, intercept)
    free = are_free(e.segment)
    assert before > 60
    assert np.count_nonzero(free) <= 6 + intercept
    np.testing.assert_allclose(e.beta @ X, beta @ X, atol=1e-10)
    if intercept:
        assert e.beta.sum() == pytest.approx(beta.sum(), abs=1e-10)
    q = e.segment // 2
    at = np.arange(300)
    assert (np.where(free, True, e.beta == e.levels[at, q])).all()
    assert ((e.beta <= high) & (e.beta >= low)).all()


ANALYSES: dict[str, Any] = {
    "leave one out": lambda model, X, y: solvers.leave_one_out(model).decisions,
    "folds": lambda model, X, y: solvers.k_fold(model, 4).decisions,
    "influences": lambda model, X, y: solvers.influences(model, X[:3]).decisions,
    "path": lambda model, X, y: model.regularization_path(0.1, 0.9).breakpoints.value,
    "outliers": lambda model, X, y: model.outlier_path().at(0.5).decision_function(X),
    "probabilities": lambda model, X, y: model.predict_proba(X),
    "suspects": lambda model, X, y: solvers.suspected_labels(model).doubt,
    "values": lambda model, X, y: solvers.data_values(model, X[:20], y[:20]).values,
    "drift": lambda model, X, y: list(solvers.drift(model).errors.values()),
    "conformal": lambda model, X, y: solvers.conformal(model).scores,
    "coefficients": lambda model, X, y: model.window_coefficients,
}
KINDS: dict[str, Any] = {
    "two classes": (lambda **more: IncrementalSVC(C=1.0, probability=True, **more), lambda numbers: numbers > 0),
    "three classes": (
        lambda **more: IncrementalSVC(C=1.0, probability=True, **more),
        lambda numbers: np.digitize(numbers, [-0.7, 0.7]),
    ),
    "regression": (lambda **more: IncrementalSVR(C=1.0, epsilon=0.2, **more), lambda numbers: numbers),
    "one class": (lambda **more: IncrementalOneClassSVM(nu=0.3, **more), lambda numbers: None),
    "positive and unlabelled": (IncrementalPUClassifier, lambda numbers: 1 * (np.abs(numbers - 1.3) < 0.8)),
}
ONLY = {
    "outliers": ("two classes",),
    "probabilities": ("two classes", "three classes"),
    "suspects": ("two classes", "three classes"),
    "values": [kind for kind in KINDS if kind != "one class"],
    "drift": ("two classes", "three classes", "regression"),
    "conformal": [kind for kind in KINDS if kind != "one class"],
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in ANALYSES for kind in ONLY.get(name, KINDS)])
def test_an_analysis_is_that_of_the_linear_model_on_the_map(name: str, kind: str) -> None:
    X, numbers = made(120)
    make, targets = KINDS[kind]
    y = targets(numbers)
    model = make(gamma=0.3, components=15).fit(X, y)
    mapped = model.feature_scale_.apply(X)
    linear = make(kernel="linear").fit(mapped, y)
    found = [ANALYSES[name](one, rows, y) for one, rows in ((model, X), (linear, mapped))]
    if isinstance(found[0], tuple):
        found = [np.concatenate([np.ravel(part) for part in one]) for one in found]
    of_map, of_linear = (np.asarray(one, np.float64) for one in found)
    np.testing.assert_allclose(of_map, of_linear, atol=1e-8)


def cut(y: Any, part: slice) -> Any:
    return None if y is None else y[part]


def changed_back(model: Any) -> None:
    """Give the model other parameters of its losses by each way that there is."""
    fixed = model.fixed_by({"C": 2.0})
    assert fixed == {}
    if hasattr(model, "nu"):
        model.change(nu=0.2)
    elif hasattr(model, "lam"):
        model.change(lam=0.02)
        model.keep_estimate(model.to_arrays())
        model.keep_estimate_of(model)
    else:
        model.adopt({"C": 1.0})
        model.change(C=3.0)


#: What is done to a model, or asked of it; what is returned is compared, besides the decisions after it.
VERBS: dict[str, Any] = {
    "add and remove": lambda m, X, y: m.update((X[90:], cut(y, slice(90, 120))), remove=range(10)),
    "partial fit": lambda m, X, y: m.partial_fit(X[90:], cut(y, slice(90, 120))),
    "replace": lambda m, X, y: m.update((X[90:92], cut(y, slice(90, 92))), keys=[5, 6], on_repeat="replace"),
    "relabel": lambda m, X, y: m.update(relabel={3: y[9], 4: y[8]}),
    "reweight": lambda m, X, y: m.update(reweight={3: 0.5, 4: 2.0}),
    "decay": lambda m, X, y: m.update(decay=0.9),
    "C": lambda m, X, y: m.update(C=0.5),
    "robust": lambda m, X, y: m.update(robust=Robustness(0.2, -0.5)),
    "local optimum": lambda m, X, y: [
        m.update(robust=Robustness(0.2, -0.5)),
        m.robustness().outliers,
        m.local_optimality(),
    ],
    "candidates": lambda m, X, y: solvers.cccp(m, "theta"),
    "singly": lambda m, X, y: solvers.update_singly(m, (X[90:95], y[90:95]), remove=[0, 1]),
    "changes": lambda m, X, y: changed_back(m),
    "cool and prepare": lambda m, X, y: [m.cool(), m.prepare()],
    "checks": lambda m, X, y: [m.check_scale(X), m.checked(Change(Batch(X[:5], cut(y, slice(5))))) and None],
    "record": lambda m, X, y: m.record_with([(X[90:], cut(y, slice(90, 120)))]).overall.error,
    "before learning": lambda m, X, y: np.concatenate(solvers.before_learning(m, X[90:], y[90:])),
    "epsilon path": lambda m, X, y: m.epsilon_path(0.1, 0.5).breakpoints.value,
    "thresholds": lambda m, X, y: np.append(m.held_out().positives, m.threshold(alerts=0.2).value),
    "log probabilities": lambda m, X, y: m.predict_log_proba(X),
    "samples": lambda m, X, y: m.score_samples(X),
    "score": lambda m, X, y: m.score(X, y),
    "pair": lambda m, X, y: m.certificate_of(0, 1).primal,
    "losses": lambda m, X, y: m.losses_of(np.ones(2), np.ones(2)).levels,
    "predictor": lambda m, X, y: m.predictor().decision_function(X),
    "certificate": lambda m, X, y: [m.certificate().primal, m.certificate().dual],
}
REFUSED = (InvalidInput, AttributeError, TypeError, AssertionError)  #: of a kind that has no such thing


def outcome_of(verb: Any, model: Any, rows: Vector, y: Any) -> Any:
    """Return what a verb answers in numbers, and the decisions after it; if it is refused, the error and its field."""
    try:
        told = verb(model, rows, y)
    except REFUSED as error:
        return type(error), getattr(error, "field", None)
    numbers = np.ravel(told).astype(np.float64) if isinstance(told, np.ndarray | float) else np.zeros(0)
    return np.concatenate([numbers, np.ravel(getattr(model, "decision_function", model.predict)(rows))])


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_does_to_the_map_what_it_does_to_a_linear_model(name: str) -> None:
    X, numbers = made(120)
    worked = 0
    kinds = {**KINDS, "logarithms": (lambda **more: IncrementalSVR(C=1.0, target_scale="log", **more), np.exp)}
    for make, targets in kinds.values():
        y = targets(numbers)
        model = make(gamma=0.3, components=15).fit(X[:90], cut(y, slice(90)))
        mapped = model.feature_scale_.apply(X)
        linear = make(kernel="linear").fit(mapped[:90], cut(y, slice(90)))
        own, expected = outcome_of(VERBS[name], model, X, y), outcome_of(VERBS[name], linear, mapped, y)
        if isinstance(expected, tuple):
            assert own == expected
            continue
        worked += 1
        np.testing.assert_allclose(own, expected, rtol=1e-6, atol=1e-6)
        assert model.certificate().relative_gap <= SETTINGS.acceptable
    assert worked


def test_each_verb_and_analysis_is_tried() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    functions = {name for name in solvers.__all__ if inspect.isfunction(getattr(solvers, name))}
    methods = {
        name
        for kind in (IncrementalSVC, IncrementalSVR, IncrementalOneClassSVM, IncrementalPUClassifier)
        for name, found in inspect.getmembers(kind, callable)
        if not name.startswith("_") and str(getattr(found, "__module__", "")).startswith("livesvm")
    }
    elsewhere = {"time_limit", "tune", "warm_up", "to_warm_arrays"}
    elsewhere |= {"check_target_scale", "check_targets", "errors_of", "settled_targets"}  # know no features
    assert {name for name in functions | methods if f"{name}(" not in text} == elsewhere


@pytest.mark.parametrize("more", [{}, {"scale": "standard"}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "linear"}])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "positive and unlabelled"])
def test_scikit_learn_and_onnx_decide_alike(kind: str, more: dict[str, Any]) -> None:
    X, numbers = made(200)
    make, targets = KINDS[kind]
    model = make(gamma=0.3, components=15, **more).fit(
        X[:150], None if targets(numbers) is None else targets(numbers)[:150]
    )
    machine = model.to_sklearn()
    last = machine[-1] if more.get("scale") else machine
    assert len(last.support_vectors_) == len(model.feature_scale_.landmarks) * (2 if kind == "three classes" else 1)
    decide, theirs = (getattr(one, "decision_function", one.predict) for one in (model, machine))
    np.testing.assert_allclose(theirs(X), decide(X), rtol=1e-10, atol=1e-10)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": X.astype(np.float32)})[0].ravel()
    if kind == "regression":
        np.testing.assert_allclose(found, model.predict(X), atol=1e-5)
        return
    sure = np.abs(np.reshape(decide(X), (len(X), -1))).min(axis=1) > 1e-4
    assert (machine.predict(X)[sure] == model.predict(X)[sure]).all()
    assert (found[sure] == model.predict(X)[sure]).all()


def chosen_rank(kind: Any, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> tuple[Any, Vector, Any]:
    """Return a model that has chosen its rank with other limits, and its examples."""
    for name, value in limits.items():
        monkeypatch.setattr(rank, name, value)
    X, numbers = made(300)
    y = numbers > 0 if kind is IncrementalSVC else numbers
    return kind(C="auto", gamma=0.3, components="auto").fit(X, y), X, y


SMALL: dict[str, Any] = {"FEW_FREE": 5, "SMALLER": (100, 200), "CHEAPEST_FIRST": (2, 80, None)}


@pytest.mark.parametrize("kind", [IncrementalSVC, IncrementalSVR])
def test_a_rank_is_chosen_where_many_would_be_free(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, y = chosen_rank(kind, monkeypatch, **SMALL)
    assert (model.components, model.components_, model.choice_.parameters["components"]) == ("auto", 80, 80)
    anew = kind(**model.choice_.parameters).fit(X, y)
    own, known = (getattr(one, "decision_function", one.predict)(X) for one in (model, anew))
    np.testing.assert_allclose(own, known, atol=1e-7)
    again = type(model).from_arrays(model.get_params(), model.to_arrays())
    assert again.components_ == 80
    again.update((X[:5] + 0.01, y[:5]))
    assert again.certificate().components == 80
    model.change(C=1.0)
    assert (model.C, model.components) == (1.0, 80)


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({}, None),  # the window is small
        (SMALL | {"FEW_FREE": 290}, None),  # few would be free
        (SMALL | {"CHEAPEST_FIRST": (1, 2, None)}, None),  # no rank is good enough
        (SMALL | {"CHEAPEST_FIRST": (1, 2, None), "MOST_FREE": 5}, 1),  # but too many would be free
    ],
)
def test_what_is_chosen_is_the_cheapest_that_is_good(
    limits: dict[str, Any], found: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X, y = chosen_rank(IncrementalSVC, monkeypatch, **limits)
    assert model.components_ == found
    if found is None:
        whole = IncrementalSVC(C=model.C_, gamma=0.3).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-7)


def test_many_first_examples_begin_with_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MANY", 250)
    model, _, _ = chosen_rank(IncrementalSVC, monkeypatch)
    assert model.choice_.is_of_other_rank  # few are free: the whole kernel takes their place
    assert model.components_ is None
