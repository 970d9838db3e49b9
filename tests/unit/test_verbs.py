"""Correct, reweight, forget slowly, change C: one path each, and the same optimum as training from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, update_singly
from livesvm.solvers.errors import InvalidInput, UnknownKey

Floats = NDArray[np.float64]


def data(n: int = 120) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng(5)
    X = random.normal(size=(n, 3))
    labels = np.where(X[:, 0] + 0.5 * random.normal(size=n) > 0, 1.0, -1.0)
    return X, labels, X @ [1.0, 2.0, 3.0] + 0.3 * random.normal(size=n)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_several_verbs_in_one_call_end_where_training_from_nothing_does(C: float) -> None:
    X, y, _ = data()
    model = IncrementalSVC(C=C, gamma=0.3).fit(X[:100], y[:100])
    weight, labels = np.ones(100), y[:100].copy()
    random = np.random.default_rng(1)
    for step in range(4):
        wrong, heavy = random.choice(100, 6, replace=False), random.choice(100, 6, replace=False)
        given = 2 * random.random(6)
        given[0] = 0.0
        labels[wrong] = -labels[wrong]
        weight *= 0.9
        weight[heavy] = given
        new_C = C * (1 + step)
        report = model.update(
            relabel={int(i): labels[i] for i in wrong},
            reweight={int(i): float(w) for i, w in zip(heavy, given, strict=True)},
            decay=0.9,
            C=new_C,
        )
        assert report.changed == 100
        assert new_C == model.C
        assert model.certificate().relative_gap <= 1e-9
        trained = IncrementalSVC(C=new_C, gamma=0.3).fit(X[:100], labels, sample_weight=weight)
        assert model.certificate().primal == pytest.approx(trained.certificate().primal, rel=1e-9)
        np.testing.assert_allclose(model.window_sample_weight, weight)
        assert model.window_y.tolist() == labels.tolist()


def test_adding_removing_and_correcting_go_along_one_path() -> None:
    X, _, t = data()
    model = IncrementalSVR(C=3.0, gamma=0.3).fit(X[:100], t[:100])
    report = model.update(add=(X[100:], t[100:]), remove=range(10), relabel={30: 5.0, 31: -2.0})
    assert report.changed == 2
    assert not report.retrained
    targets = np.concatenate([t[10:30], [5.0, -2.0], t[32:]])
    trained = IncrementalSVR(C=3.0, gamma=float(model.gamma)).fit(X[10:], targets)
    np.testing.assert_allclose(model.predict(X), trained.predict(X), atol=1e-9)


def test_weights_of_a_one_class_model_decay() -> None:
    X, _, _ = data()
    model = IncrementalOneClassSVM(nu=0.2, gamma=0.3).fit(X)
    model.update(decay=0.5, reweight={3: 2.0})
    assert model.certificate().relative_gap <= 1e-12
    assert model.dual_coef_.sum() == pytest.approx(0.2 * (119 * 0.5 + 2.0))


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ({"relabel": {999: 1.0}}, "relabel"),
        ({"relabel": {0: 7.0}}, "relabel"),
        ({"reweight": {0: -1.0}}, "reweight"),
        ({"reweight": {0: float("nan")}}, "reweight"),
        ({"decay": 0.0}, "decay"),
        ({"decay": 1.5}, "decay"),
        ({"C": -1.0}, "C"),
        ({"relabel": {0: 1.0}, "remove": [0]}, "relabel"),
    ],
)
def test_what_cannot_be_done_changes_nothing(edit: dict[str, Any], field: str | None) -> None:
    X, y, _ = data()
    model = IncrementalSVC(C=1.0, gamma=0.3, classes=(-1.0, 1.0)).fit(X, y)
    before = model.to_arrays()
    with pytest.raises(InvalidInput) as caught:
        model.update(**edit)
    assert caught.value.field == field
    assert isinstance(caught.value, UnknownKey) == (edit == {"relabel": {999: 1.0}})
    after = model.to_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert model.C == 1.0


def test_a_new_window_is_solved_from_nothing_and_says_so() -> None:
    X, y, _ = data()
    model = IncrementalSVC(C=5.0, gamma=0.3).fit(X[:60], y[:60])
    report = model.update(add=(X[60:], y[60:]), remove=range(55), relabel={57: -y[57]})
    assert report.retrained
    assert model.keys_ == list(range(55, 120))
    assert model.window_y[2] == -y[57]
    assert model.certificate().relative_gap <= 1e-12
    assert not model.update(remove=[60]).retrained


def test_single_updates_end_at_the_same_optimum_after_more_events() -> None:
    X, y, _ = data()
    together = IncrementalSVC(C=1.0, gamma=0.3).fit(X[:90], y[:90])
    singly = IncrementalSVC(C=1.0, gamma=0.3).fit(X[:90], y[:90])
    report = together.update(add=(X[90:], y[90:]), remove=range(30))
    reports = update_singly(singly, add=(X[90:], y[90:]), remove=range(30))
    assert len(reports) == 60
    assert singly.keys_ == together.keys_
    np.testing.assert_allclose(singly.decision_function(X), together.decision_function(X), atol=1e-9)
    assert report.events < sum(one.events for one in reports)


@pytest.mark.parametrize("seed", [0, 1, 9, 10])
def test_a_much_smaller_C_is_followed_as_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    X, y = random.integers(-2, 3, (10, 3)).astype(float), np.where(random.random(10) < 0.5, 1.0, -1.0)
    model = IncrementalSVC(C=2e5, kernel="linear", fit_intercept=False).fit(X, y)
    model.update(relabel={0: -y[0]})
    report = model.update(C=1e-4)
    assert report.relative_gap <= 1e-10
    assert model.certificate().relative_gap <= 1e-10
