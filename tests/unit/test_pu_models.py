"""The live model of positive and unlabelled examples: its verbs, its path over lam, its assessments, its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from livesvm.solvers import IncrementalPUClassifier, PUClassifier, k_fold, leave_one_out, tune
from livesvm.solvers.analyses.tuning.folds import splits
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.window import Window
from livesvm.solvers.pu.held_out import zero_one_risk
from livesvm.solvers.validation import Key
from tests.oracle import Matrix, Vector
from tests.pu_problems import best_objective, two_clouds
from tests.support.positive_unlabelled import assert_optimal, problem_of

pytestmark = pytest.mark.filterwarnings("ignore:.* would be predicted to be positive")  # of tiny windows


def examples(seed: int = 0, p: int = 12, n: int = 40) -> tuple[Matrix, Vector]:
    """Return positives, then unlabelled, with their labels."""
    P, U = two_clouds(seed, p, n)
    return np.vstack([P, U]), np.concatenate([np.ones(p), np.zeros(n)])


@pytest.fixture
def model() -> IncrementalPUClassifier:
    return IncrementalPUClassifier(0.4, 0.01, gamma=0.5).fit(*examples())


def test_a_positive_that_was_unlabelled_is_one_relabel(model: IncrementalPUClassifier) -> None:
    other = clone(model).fit(*examples())
    report = model.update(relabel={20: 1})
    X = other.window_X[20:21]
    other.update(add=(X, [1]), remove=[20])
    assert report.n == 52
    assert report.events > 0
    assert model.window_y.sum() == 13
    np.testing.assert_allclose(model.class_mass_, [39.0, 13.0, 0.0])
    assert model.certificate().primal == pytest.approx(other.certificate().primal, rel=1e-9)
    assert_optimal(model)


def test_there_and_back_is_the_same(model: IncrementalPUClassifier) -> None:
    before = model.decision_function(model.window_X), model.certificate().primal
    X = model.window_X
    model.update(add=(X[:5] + 0.1, [1, 0, 0, 1, 0]), keys=list("abcde"))
    assert_optimal(model)
    model.update(remove=list("abcde"))
    assert model.certificate().primal == pytest.approx(before[1], rel=1e-9)
    np.testing.assert_allclose(model.decision_function(X), before[0], atol=1e-6)


def test_a_path_over_lam_is_the_optimum_everywhere(model: IncrementalPUClassifier) -> None:
    path = model.regularization_path(1e-3, 1.0)
    for lam in (1e-3, 0.02, 0.3, 1.0):
        at = path.at(0.5 / lam)
        assert at.lam == pytest.approx(lam)
        assert at.certificate().relative_gap < 1e-8
        assert at.certificate().primal == pytest.approx(best_objective(problem_of(at)), rel=1e-6)
    X = model.window_X
    assert 0.0 <= path.best(X[:20], np.ones(20)).error <= 1.0
    with pytest.raises(InvalidInput, match="lam_max"):
        model.regularization_path(1.0, 0.1)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_leave_one_out_is_training_without_it(kernel: str) -> None:
    X, s = examples(1, 5, 14)
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    model = IncrementalPUClassifier(0.4, 0.01, kernel, gamma=0.5).fit(K if kernel == "precomputed" else X, s)
    before = model.certificate()
    found = leave_one_out(model)
    folds = k_fold(model, (np.arange(19) % 3).tolist())
    assert model.certificate() == before
    for i in (0, 3, 7, 18):
        rest = np.delete(np.arange(19), i)
        without = IncrementalPUClassifier(0.4, 0.01, gamma=0.5).fit(X[rest], s[rest])
        assert found.decisions[i] == pytest.approx(float(without.decision_function(X[i : i + 1])[0]), abs=1e-6)
    out = np.arange(19) % 3 == 2
    without = IncrementalPUClassifier(0.4, 0.01, gamma=0.5).fit(X[~out], s[~out])
    np.testing.assert_allclose(folds.decisions[out], without.decision_function(X[out]), atol=1e-6)
    assert folds.error == model._error(folds.decisions, s)


def test_it_comes_back_from_its_arrays(model: IncrementalPUClassifier) -> None:
    model.update(decay=0.7, add=([[0.3, 0.2]], [0]))
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    np.testing.assert_allclose(back.class_mass_, model.class_mass_)
    back.update(remove=[3])
    model.update(remove=[3])
    assert back.certificate().primal == pytest.approx(model.certificate().primal, rel=1e-9)
    model.update(lam=0.03)
    assert model.lam == 0.03
    assert model.set_params(prior=0.6).update().changed == model.n_window_
    assert_optimal(model)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prior": 1.0}, "prior: must lie between"),
        ({"prior": "half"}, "prior: must lie between"),
        ({"lam": 0.0}, "lam: must be a positive"),
        ({"kernel": "cubic"}, "unknown kernel"),
    ],
)
def test_parameters_that_cannot_be_are_named(change: dict[str, Any], reason: str) -> None:
    model = IncrementalPUClassifier(gamma=0.5).set_params(**change)
    with pytest.raises(InvalidInput, match=reason):
        model.fit(*examples())
    assert not hasattr(model, "n_window_") or model.n_window_ == 0


def test_masses_stay_as_they_are_where_as_much_comes_as_leaves(
    model: IncrementalPUClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    real = Window.examples_except

    def looked(window: Window, keys: list[Key]) -> tuple[Vector, Vector]:
        looks.append(keys)
        return real(window, keys)

    monkeypatch.setattr(Window, "examples_except", looked)
    assert model.update(add=([[0.1, 0.2]], [0]), remove=[12]).changed == 0
    assert not looks
    for change, mass in (
        ({"add": ([[0.1, 0.2]], [1]), "remove": [13]}, [39.0, 13.0, 0.0]),
        ({"add": ([[0.1, 0.2]], [0]), "remove": [14], "sample_weight": [2.0]}, [40.0, 13.0, 0.0]),
        ({"relabel": {15: 1}}, [39.0, 14.0, 0.0]),
        ({"relabel": {16: -1}}, [39.0, 14.0, 1.0]),
        ({"add": ([[0.1, 0.2]], [-1]), "remove": [17]}, [39.0, 14.0, 2.0]),
    ):
        model.update(**change)
        np.testing.assert_array_equal(model.class_mass_, mass)
    assert len(looks) == 5
    assert model.certificate().relative_gap < 1e-9


def test_windows_without_a_kind_are_refused_and_change_nothing(model: IncrementalPUClassifier) -> None:
    before = model.certificate()
    for refused, reason in (
        ({"remove": list(range(12))}, "no positive"),
        ({"remove": list(range(12, 52))}, "no unlabelled"),
        ({"relabel": dict.fromkeys(range(12), 0)}, "no positive"),
        ({"reweight": dict.fromkeys(range(12), 0.0)}, "no positive"),
        ({"add": ([[0.0, 0.0]], [-2])}, "row 0: a label is 1"),
        ({"add": ([[0.0, 0.0]], [0.5])}, "row 0: a label is 1"),
        ({"lam": -1.0}, "lam"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            model.update(**refused)
        assert model.certificate() == before
        np.testing.assert_array_equal(model.class_mass_, [40.0, 12.0, 0.0])
    for s in (np.ones(4), np.zeros(4)):
        with pytest.raises(InvalidInput, match="both kinds"):
            IncrementalPUClassifier(gamma=0.5).fit(np.eye(4), s)
    model.update(remove=model.keys_)
    assert model.n_window_ == 0
    model.update(add=examples())
    assert model.certificate().primal == pytest.approx(before.primal, rel=1e-9)


def test_a_prior_that_is_left_out_is_that_of_the_batch_classifier_and_stays() -> None:
    X, s = examples(p=30, n=120)
    for prior in (None, "estimate"):
        model = IncrementalPUClassifier(prior, 0.01, gamma=0.5).fit(X, s)
        batch = PUClassifier(prior, 0.01, gamma=0.5).fit(X, s)
        assert model.prior_estimate_ == batch.prior_estimate_
        assert model.prior_ == batch.prior_
        np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-4)
    found = model.prior_estimate_
    assert found is not None
    model.update(add=(X[:9] + 0.3, np.zeros(9)), remove=[0])
    assert model.prior_estimate_ == found
    assert_optimal(model)
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    assert back.prior_estimate_ == found
    assert back.certificate().primal == pytest.approx(model.certificate().primal, rel=1e-9)
    assert leave_one_out(model).decisions.shape == (158,)
    model.change(prior=None)
    assert model.prior_estimate_ not in (found, None)
    assert_optimal(model)
    again = model.prior_
    model.set_params(prior=0.3).update()
    assert model.prior_ == 0.3
    assert model.prior_estimate_ is None
    model.set_params(prior=None).update()
    assert model.prior_ == again
    assert_optimal(model)


@pytest.mark.parametrize("kernel", ["precomputed", "sparse"])
def test_a_prior_is_estimated_of_any_examples(kernel: str) -> None:
    X, s = examples(p=30, n=60)
    plain = IncrementalPUClassifier(gamma=0.5).fit(X, s)
    if kernel == "sparse":
        other = IncrementalPUClassifier(gamma=0.5).fit(csr_array(X), s)
    else:
        K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
        other = IncrementalPUClassifier(kernel="precomputed").fit(K, s)
    assert other.prior_ == pytest.approx(plain.prior_, abs=1e-9)
    other.change(prior="estimate")
    assert other.prior_ == pytest.approx(plain.prior_, abs=1e-9)


def test_a_prior_that_cannot_be_estimated_is_asked_for() -> None:
    X, s = examples()
    model = IncrementalPUClassifier(lam=0.01, gamma=0.5)
    with pytest.raises(InvalidInput, match="prior: cannot be estimated from fewer than two positive"):
        model.fit(X[11:], s[11:])
    assert not hasattr(model, "prior_estimate_")
    model.set_params(prior=0.4).fit(X[11:], s[11:])
    with pytest.raises(InvalidInput, match="fewer than two positive"):
        model.change(prior=None)
    assert (model.prior, model.prior_, model.prior_estimate_) == (0.4, 0.4, None)
    with pytest.raises(InvalidInput, match="prior: must lie between"):
        model.change(prior=1.5)
    assert_optimal(model)


def test_scale_and_parameters_change_as_those_of_other_tasks() -> None:
    X, s = examples()
    wide = X * [1.0, 1000.0]
    model = IncrementalPUClassifier(lam=0.01, scale="standard").fit(wide, s)
    found = model.prior_estimate_
    model.update(add=(wide[:9] + 2.0, np.zeros(9)))
    model.rescale()
    fresh = clone(model).set_params(prior=model.prior_).fit(model.window_X, model.window_y)
    np.testing.assert_allclose(model.decision_function(wide), fresh.decision_function(wide), atol=1e-6)
    assert model.prior_estimate_ == found
    model.change(C=20.0, kernel="linear")
    assert (model.lam, model.kernel, model.prior_estimate_) == (0.025, "linear", found)
    assert_optimal(model)
    assert model.warnings_ == []
    with pytest.raises(InvalidInput, match="no such parameter"):
        model.change(nu=0.5)


def test_it_is_tuned_by_the_risk_for_its_prior() -> None:
    X, s = examples(p=20, n=80)
    model = IncrementalPUClassifier(lam=0.01, gamma=0.5).fit(X, s)
    for judge in ("k_fold", "leave_one_out"):
        found = tune(model, gammas=[0.1, 1.0], C=(1.0, 100.0), judge=judge, folds=3)
        assert found.error == found.errors.min()
        again = IncrementalPUClassifier(model.prior_, gamma=found.parameters["gamma"])
        again.set_params(lam=0.5 / found.parameters["C"]).fit(X, s)
        if judge == "leave_one_out":
            assert leave_one_out(again).error == pytest.approx(found.error)
            continue
        f = np.empty(s.size)
        for learnt, judging in splits(s, "k_fold", 3, classes=True):
            f[judging] = clone(again).fit(X[learnt], s[learnt]).decision_function(X[judging])
        assert zero_one_risk(f[s == 1], f[s == 0], model.prior_) == pytest.approx(found.error)
    before = model.prior_
    found.apply(model)
    assert (model.C, model.gamma_, model.prior_) == (
        pytest.approx(found.parameters["C"]),
        *[found.parameters["gamma"], before],
    )
    assert_optimal(model)


def test_all_unlabelled_equal_and_all_examples_equal() -> None:
    X, s = examples()
    X[12:] = X[12]
    assert_optimal(IncrementalPUClassifier(0.4, 0.01, gamma=0.5).fit(X, s))
    X[:] = X[0]
    assert_optimal(IncrementalPUClassifier(0.4, 0.01, gamma=0.5).fit(X, s))
