"""Robust models stay live: after each update they are local optima of the robust problem of their window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.service.store import codec
from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import InvalidInput, UnknownKey
from livesvm.solvers.robust.settings import Robustness
from tests.oracle import Kernel
from tests.robust import judge_labels, judge_targets
from tests.support.outlier_paths import STRICT, decisions, labelled, measured


def robust_classifier(parameter: Any = "theta", value: float = 0.2, **how: Any) -> IncrementalSVC:
    """Return a classifier of 80 examples that has been brought to a value of its path."""
    X, y, _ = labelled(80)
    model = IncrementalSVC(**{"C": 1.0, "gamma": 0.05, **how}).fit(X, y)
    robust = model.outlier_path(parameter).robustness(value)
    model.update(robust=robust)
    return model


def assert_optimal(model: IncrementalSVC, theta: float, s: float, C: float = 1.0) -> None:
    found = judge_labels(model, Kernel(model.kernel, 0.05), C, theta, s)
    assert found.violation <= STRICT
    assert found.cutoff > 0.0
    own = model.local_optimality()
    assert own.violation <= STRICT
    assert own.wall_distance == pytest.approx(found.cutoff, abs=1e-9)
    assert model.certificate().relative_gap <= 1e-9


@pytest.mark.parametrize(("parameter", "value"), [("theta", 0.2), ("theta", 0.0), ("s", -0.4), ("s", 0.0)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_update_brings_a_live_model_to_the_point_of_the_path(
    parameter: Any, value: float, fit_intercept: bool
) -> None:
    X, y, _ = labelled(80)
    model = IncrementalSVC(C=1.0, gamma=0.05, fit_intercept=fit_intercept).fit(X, y)
    path = model.outlier_path(parameter)
    model.update(robust=path.robustness(value))
    np.testing.assert_allclose(decisions(model, X), decisions(path.at(value), X), atol=1e-8)
    theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
    assert_optimal(model, theta, s)


@pytest.mark.parametrize(("parameter", "value"), [("theta", 0.3), ("s", -0.3)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_it_stays_robust_through_updates(parameter: Any, value: float, kernel: str) -> None:
    X, y, _ = labelled(200, seed=6)
    theta, s = (value, 0.0) if parameter == "theta" else (0.0, value)
    model = IncrementalSVC(C=1.0, kernel=kernel, gamma=0.05).fit(X[:80], y[:80])
    model.update(robust=model.outlier_path(parameter).robustness(value))
    for start in range(80, 200, 20):
        model.update(add=(X[start : start + 20], y[start : start + 20]), remove=model.keys_[:20])
        assert_optimal(model, theta, s)
    assert model._window.sides.any()
    key = model.keys_[0]
    model.update(relabel={key: -model.window_y[0]}, decay=0.95)
    assert_optimal(model, theta, s)
    model.update(C=3.0, reweight={model.keys_[1]: 2.0})
    assert_optimal(model, theta, s, C=3.0)


def test_regression_stays_robust_through_updates() -> None:
    X, y = measured(150)
    model = IncrementalSVR(C=5.0, epsilon=0.1, gamma=0.1).fit(X[:90], y[:90])
    path = model.outlier_path("s")
    model.update(robust=path.robustness(path.end))
    assert model._window.sides.any()
    for start in range(90, 150, 20):
        model.update(add=(X[start : start + 20], y[start : start + 20]), remove=model.keys_[:20])
        found = judge_targets(model, Kernel("rbf", 0.1), 5.0, 0.0, path.end, 0.1)
        assert found.violation <= STRICT
        assert found.cutoff > 0.0


def test_a_wrong_label_that_comes_later_has_no_weight() -> None:
    model = robust_classifier("s", 0.0)
    X, _, true = labelled(200, seed=9)
    f = decisions(model, X)
    clear = np.flatnonzero(true * f > 1.0)[:5]
    model.update(add=(X[clear], -true[clear]))
    assert (model._window.sides[-5:] != 0).all()
    np.testing.assert_array_equal(model._window.beta[-5:], 0.0)
    np.testing.assert_allclose(decisions(model, X), f, atol=1e-9)


def test_a_theta_of_one_is_convex_again() -> None:
    X, y, _ = labelled(80)
    model = robust_classifier()
    model.update(robust=Robustness(1.0, 0.0))
    assert not model._window.sides.any()
    np.testing.assert_allclose(decisions(model, X), decisions(IncrementalSVC(gamma=0.05).fit(X, y), X), atol=1e-8)
    with pytest.raises(InvalidInput, match="not robust"):
        model.local_optimality()


def test_a_checkpoint_keeps_the_sides() -> None:
    model = robust_classifier("s", -0.2)
    arrays = codec.decode(codec.encode(model.to_arrays()))
    again = IncrementalSVC.from_arrays(model.get_params(), arrays)
    np.testing.assert_array_equal(again._window.sides, model._window.sides)
    X, y, _ = labelled(120, seed=3)
    for one in (model, again):
        one.update(add=(X[:15], y[:15]), remove=one.keys_[:5])
        assert_optimal(one, 0.0, -0.2)
    np.testing.assert_allclose(decisions(again, X), decisions(model, X), atol=1e-9)


def test_a_path_from_a_robust_model_starts_at_the_convex_one() -> None:
    X, y, _ = labelled(80)
    first = IncrementalSVC(C=1.0, gamma=0.05).fit(X, y).outlier_path("theta")
    second = robust_classifier("s", 0.0).outlier_path("theta")
    assert second.order_of_outliers() == first.order_of_outliers()


def test_the_same_updates_give_the_same_bits() -> None:
    X, y, _ = labelled(120, seed=3)
    one, two = robust_classifier(), robust_classifier()
    for model in (one, two):
        model.update(add=(X[:30], y[:30]), remove=model.keys_[:10])
    np.testing.assert_array_equal(decisions(one, X), decisions(two, X))


def test_a_refused_update_changes_nothing() -> None:
    model = robust_classifier()
    before = model.to_arrays()
    for wrong in (Robustness(2.0, 0.0), Robustness(0.5, 1.0), Robustness(0.5, 0.0, {model.keys_[0]: 3})):
        with pytest.raises(InvalidInput):
            model.update(robust=wrong)
    with pytest.raises(UnknownKey, match="outliers, row 0"):
        model.update(robust=Robustness(0.5, 0.0, {"nobody": 1}))
    after = model.to_arrays()
    for name, value in before.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(after[name]))


def test_an_update_that_fails_while_sides_switch_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = robust_classifier()
    X, y, _ = labelled(120, seed=3)
    before, f = model.to_arrays(), decisions(model, X)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("livesvm.solvers.models.window.settle", fail)
        with pytest.raises(KeyboardInterrupt):
            model.update(add=(X[:30], y[:30]), remove=model.keys_[:10])
    after = model.to_arrays()
    for name in ("keys", "y", "sides", "beta", "segments"):
        np.testing.assert_array_equal(np.asarray(before[name]), np.asarray(after[name]))
    np.testing.assert_allclose(decisions(model, X), f, atol=1e-12)
    model.update(add=(X[:30], y[:30]), remove=model.keys_[:10])
    assert_optimal(model, 0.2, 0.0)
