"""Features far from 0: a linear kernel loses no digits there, and what double precision cannot do is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    load_model,
    save_model,
    tune,
)
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.estimators import drop_in
from livesvm.solvers.models import warnings as warnings_of_models
from livesvm.solvers.models.scaling import center_of
from tests import oracle

N = 1000
RANDOM = np.random.default_rng(0)
NEAR = (RANDOM.normal(size=(N, 6)) * 2**20).round() / 2**20  # few digits, so that no sum with an offset loses any
NOISE = RANDOM.normal(size=N)
Y = np.where(NEAR[:, 0] + 0.5 * NOISE > 0, 1, -1)
T = NEAR @ np.arange(6.0) + NOISE
THREE = np.digitize(NEAR[:, 0] + 0.3 * NOISE, [-0.5, 0.5])
FAR = float(2**20)
SOME = slice(0, 300)

MODELS: dict[str, Any] = {
    "two classes": lambda X: IncrementalSVC(kernel="linear").fit(X, Y[: len(X)]),
    "three classes": lambda X: IncrementalSVC(kernel="linear").fit(X, THREE[: len(X)]),
    "regression": lambda X: IncrementalSVR(kernel="linear").fit(X, T[: len(X)]),
    "a quantile": lambda X: IncrementalSVR(kernel="linear", loss="pinball", quantile=0.2).fit(X, T[: len(X)]),
    "positive and unlabelled": lambda X: IncrementalPUClassifier(0.5, lam=0.01, kernel="linear").fit(
        X, np.where(Y[: len(X)] > 0, np.arange(len(X)) % 2, 0)
    ),
}


def decisions(model: Any, X: Any) -> np.ndarray:
    return np.asarray(model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X))


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_decisions_are_those_near_the_origin(offset: float, C: float) -> None:
    near, far = (IncrementalSVC(kernel="linear", C=C).fit(X, Y) for X in (NEAR, NEAR + offset))
    for model in (near, far):
        assert model.certificate().relative_gap < 1e-10
    np.testing.assert_allclose(far.decision_function(NEAR + offset), near.decision_function(NEAR), atol=1e-6)
    if C == 1.0:  # libsvm holds kernel values in single precision
        theirs = SVC(kernel="linear", C=C, tol=1e-6).fit(NEAR, Y)
        np.testing.assert_allclose(far.decision_function(NEAR + offset), theirs.decision_function(NEAR), atol=1e-4)


def test_the_oracle_agrees_far_away() -> None:
    model = IncrementalSVC(kernel="linear", C=10.0).fit(NEAR + FAR, Y)
    beta, K = model.window_coefficients, oracle.Kernel("linear")(NEAR, NEAR)
    b = float(np.median((model.decision_function(NEAR + FAR) - K @ beta).astype(np.float64)))
    assert oracle.gap(K, oracle.hinge(Y, 10.0), beta, b).relative < 1e-10


def test_years_and_seconds_are_certified() -> None:
    X = np.column_stack([1.7e9 + 1e5 * RANDOM.random(N), RANDOM.integers(1998, 2025, N), NEAR[:, 0]])
    assert IncrementalSVC(kernel="linear").fit(X, Y).certificate().relative_gap < 1e-6
    assert IncrementalSVC(kernel="linear").fit(X[:, 1:], Y).certificate().relative_gap < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_updates_and_copies_keep_the_center(name: str, tmp_path: Path) -> None:
    near, far = MODELS[name](NEAR[SOME]), MODELS[name](NEAR[SOME] + FAR)
    labels = near.window_y
    for step in (slice(300, 320), slice(320, 340)):
        for model, X in ((near, NEAR), (far, NEAR + FAR)):
            model.update((X[step], labels[:20]), remove=model.keys_[:20])
    expected = decisions(near, NEAR[:50])
    save_model(far, tmp_path / "model.npz")
    again = type(far).from_arrays(far.get_params(deep=False), far.to_arrays())
    for model in (far, again, load_model(tmp_path / "model.npz")):
        np.testing.assert_allclose(decisions(model, NEAR[:50] + FAR), expected, atol=1e-6)
        assert model.certificate().relative_gap < 1e-9
        np.testing.assert_array_equal(model.window_X, far.window_X)
    np.testing.assert_array_equal(far.window_X, NEAR[40:340] + FAR)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "positive and unlabelled"])
def test_weights_and_intercept_are_in_the_units_of_the_features(name: str) -> None:
    near, far = MODELS[name](NEAR[SOME]), MODELS[name](NEAR[SOME] + FAR)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-8)
    np.testing.assert_allclose(far.intercept_, near.intercept_ - far.coef_.sum(axis=1) * FAR, rtol=1e-9)
    other = far.to_sklearn()
    np.testing.assert_allclose(decisions(other, NEAR[:50] + FAR), decisions(near, NEAR[:50]), atol=1e-5)


def test_a_model_kept_without_a_center_is_read_without() -> None:
    model = IncrementalSVC(kernel="linear").fit(NEAR[SOME] + 100.0, Y[SOME])
    old = {name: value for name, value in model.to_arrays().items() if name != "center"}
    old["intercept"] = float(model.intercept_[0])
    again = IncrementalSVC.from_arrays(model.get_params(), old)
    assert again._window.state.kernel.center is None
    assert again.certificate().relative_gap < 1e-9
    np.testing.assert_allclose(again.decision_function(NEAR + 100.0), model.decision_function(NEAR + 100.0), atol=1e-8)


def test_a_window_that_moves_away_gets_another_center() -> None:
    model = IncrementalSVC(kernel="linear").fit(NEAR[SOME], Y[SOME])
    for step in range(1, 150):
        rows = np.arange(25 * step, 25 * step + 25) % N
        model.update((NEAR[rows] + step, Y[rows]), remove=model.keys_[:25])
    X, y = model.window_X, model.window_y
    afresh = IncrementalSVC(kernel="linear").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), afresh.decision_function(X), atol=1e-6)
    assert model.to_arrays()["center"].min() > 50.0
    beginning = IncrementalSVC(kernel="linear", classes=(-1, 1))
    beginning.partial_fit(NEAR[:1] + FAR, Y[:1])
    beginning.partial_fit(NEAR[1:40] + FAR, Y[1:40])
    for start in range(40, 300, 20):
        beginning.partial_fit(NEAR[start : start + 20] + FAR, Y[start : start + 20])
    expected = IncrementalSVC(kernel="linear").fit(NEAR[SOME], Y[SOME])
    np.testing.assert_allclose(beginning.decision_function(NEAR + FAR), expected.decision_function(NEAR), atol=1e-6)


def test_where_the_origin_counts_there_is_no_center() -> None:
    X = NEAR[SOME] + 50.0
    one_class = IncrementalOneClassSVM(nu=0.5, kernel="linear").fit(X)
    through = IncrementalSVC(kernel="linear", fit_intercept=False).fit(X, Y[SOME])
    poly = IncrementalSVC(kernel="poly", degree=2).fit(X, Y[SOME])
    thin = IncrementalSVC(kernel="linear").fit(sparse.csr_array(X), Y[SOME])
    for model in (one_class, through, poly, thin):
        assert "center" not in model.to_arrays()
    assert thin._window.is_sparse
    dense = IncrementalSVC(kernel="linear").fit(X, Y[SOME])
    assert dense.to_arrays()["center"].tolist() == pytest.approx([50.0] * 6, abs=1.0)
    np.testing.assert_allclose(dense.decision_function(sparse.csr_array(X)), thin.decision_function(X), atol=1e-7)


def test_a_center_costs_features_with_few_digits_none() -> None:
    years = np.column_stack([RANDOM.integers(1998, 2025, 100), RANDOM.integers(0, 2, 100)]).astype(float)
    center = center_of(years)
    assert center is not None
    assert (center % 1 == 0).all()
    assert center[1] == 0.0
    np.testing.assert_array_equal(center_of(-years), -center)
    constant = center_of(np.column_stack([years[:, 0], np.full(100, 1000.3)]))
    assert constant is not None
    assert constant.tolist() == [center[0], 1000.3]  # of a constant feature all is lost
    assert center_of(years[:, 1:]) is None
    assert center_of(years[:1]) is None
    assert center_of(np.full((5, 2), 1e200)) is None


def test_leave_one_out_tuning_and_paths_know_the_center() -> None:
    X = NEAR[:120] + FAR
    near, far = (IncrementalSVC(kernel="linear").fit(rows, Y[:120]) for rows in (NEAR[:120], X))
    ours, theirs = (tune(model, C=(2.0**-3, 2.0**3)) for model in (far, near))
    assert ours.error == theirs.error
    paths = [model.regularization_path(0.01, 100.0) for model in (far, near)]
    np.testing.assert_allclose(paths[0].coefficients(3.0), paths[1].coefficients(3.0), atol=1e-6)
    at = paths[0].at(3.0)
    np.testing.assert_allclose(at.decision_function(X), paths[1].at(3.0).decision_function(NEAR[:120]), atol=1e-6)
    assert paths[0].intercept(3.0) == pytest.approx(at.intercept_[0], rel=1e-12)


def test_what_rounding_spoils_is_warned_of_or_refused() -> None:
    """Sparse features have no center; further and further away each model is good, warns, or is refused."""
    found = []
    for offset in np.geomspace(1e4, 1e6, 9):
        model = IncrementalSVC(kernel="linear")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(sparse.csr_array(NEAR + offset), Y)
            except NotOptimal as error:
                found.append("refused" if "scale the features" in str(error) else "refused without advice")
                continue
        warned = [one.category for one in caught] == [RuntimeWarning]
        assert warned == ([one.name for one in model.warnings_] == ["gap_is_large"])
        assert model.certificate().relative_gap < (1e-3 if warned else 1e-5)
        found.append("warned" if warned else "good")
    assert found[0] == "good"
    assert found[-1] == "refused"


def test_a_large_gap_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (drop_in, warnings_of_models):
        monkeypatch.setattr(place, "LARGE_GAP", 1e-10)
    with pytest.warns(RuntimeWarning, match="scale the features"):
        model = IncrementalSVC(kernel="linear").fit(sparse.csr_array(NEAR + 1e4), Y)
    assert [one.name for one in model.warnings_] == ["gap_is_large"]


def test_a_path_keeps_what_it_has_solved() -> None:
    model = IncrementalSVC(kernel="linear").fit(sparse.csr_array(NEAR + 2e3), Y)
    path = model.regularization_path(1e-2, 1e4)
    assert path.minimum == 1e-2
    assert 1.0 < path.maximum < 1e4
    (end,) = path.report.ended
    assert end.value == path.maximum
    assert "gap" in end.reason
    assert path.at(path.maximum).certificate().relative_gap < 1e-6
