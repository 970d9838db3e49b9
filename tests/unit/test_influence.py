"""Decisions of rows without one example each are those of models trained without it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalSVC,
    IncrementalSVR,
    data_values,
    influences,
    leave_one_out,
)
from livesvm.solvers.analyses.leave_one_out import models_without
from livesvm.solvers.errors import InvalidInput

RNG = np.random.default_rng(5)
X = RNG.normal(size=(36, 2))
SIGNS = np.where(X[:, 0] + 0.5 * RNG.normal(size=36) > 0, 1, -1)
WORDS = np.array(["ape", "bee", "cat"])[(X[:, 1] > 0).astype(int) + (X[:, 0] > 0.4)]
ROWS = RNG.normal(size=(7, 2))
CASES: dict[str, tuple[Any, Any]] = {
    "two classes": (IncrementalSVC(C=2.0, gamma=0.5), SIGNS),
    "linear": (IncrementalSVC(C=2.0, kernel="linear"), SIGNS),
    "linear, far, three classes": (
        IncrementalSVC(C=2.0, kernel="linear", decision_function_shape="ovo"),
        WORDS,
    ),
    "balanced, three classes": (
        IncrementalSVC(C=2.0, gamma=0.5, class_weight="balanced", decision_function_shape="ovo"),
        np.where(np.arange(36) < 2, "doe", WORDS),
    ),
    "balanced, scaled, three classes": (
        IncrementalSVC(C=2.0, gamma=0.5, class_weight="balanced", scale="standard", decision_function_shape="ovo"),
        WORDS,
    ),
    "balanced": (IncrementalSVC(C=2.0, gamma=0.5, class_weight="balanced"), SIGNS),
    "scaled": (IncrementalSVC(C=2.0, gamma=0.5, scale="standard"), SIGNS),
    "scaled, three classes": (
        IncrementalSVC(C=2.0, gamma=0.5, scale="standard", decision_function_shape="ovo"),
        WORDS,
    ),
    "three classes": (IncrementalSVC(C=2.0, gamma=0.5, decision_function_shape="ovo"), WORDS),
    "values": (IncrementalSVR(C=2.0, gamma=0.5, epsilon=0.2), X[:, 0] * X[:, 1]),
    "none free": (IncrementalSVR(C=1e-3, gamma=0.5, epsilon=0.01), X[:, 0] * X[:, 1]),
    "one class": (IncrementalOneClassSVM(nu=0.3, gamma=0.5), None),
}


def decided(model: Any, rows: Any) -> Any:
    return model.predict(rows) if isinstance(model, IncrementalSVR) else model.decision_function(rows)


@pytest.mark.parametrize("case", CASES)
def test_rows_are_decided_as_by_a_model_trained_without_the_example(case: str) -> None:
    model, y = CASES[case]
    model.fit(X, y)
    before = decided(model, ROWS)
    found = influences(model, ROWS)
    np.testing.assert_allclose(found.decisions, before, atol=1e-9)
    assert 3 < len(found.keys) <= len(X)
    for key in range(len(X)):
        stay = np.arange(len(X)) != key
        peer = type(model)(**model.get_params())
        if "scaled" in case:  # the scale is that of the first fit, as an update leaves it
            peer = type(model).from_arrays(model.get_params(), model.to_arrays())
            peer.update(remove=[key])
        else:
            peer.fit(X[stay], None if y is None else y[stay])
        place = found.keys.index(key) if key in found.keys else None
        without = found.decisions if place is None else found.without[place]
        np.testing.assert_allclose(without, decided(peer, ROWS), atol=1e-8)
    np.testing.assert_array_equal(decided(model, ROWS), before)


@pytest.mark.parametrize("case", ["two classes", "balanced, scaled, three classes", "one class"])
def test_the_window_itself_has_the_leave_one_out_decisions(case: str) -> None:
    model, y = CASES[case]
    model.fit(X, y)
    exact, found = leave_one_out(model), influences(model, X)
    for place, key in enumerate(map(int, found.keys)):
        assert found.without[place, key] == pytest.approx(exact.decisions[key], abs=1e-9)


@pytest.mark.parametrize("case", ["two classes", "balanced", "balanced, three classes", "three classes", "one class"])
def test_models_without_one_example_are_the_same_where_all_leave_by_paths(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, y = CASES[case]
    model.fit(X, y)
    by_pivots = influences(model, ROWS)
    monkeypatch.setattr(models_without, "leave_by_pivots", lambda *_: None)
    by_paths = influences(model, ROWS)
    assert by_paths.keys == by_pivots.keys
    np.testing.assert_allclose(by_paths.without, by_pivots.without, rtol=0, atol=1e-8)


def test_kernel_values_stand_for_rows() -> None:
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X, SIGNS)
    gram = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    of_rows = np.exp(-0.5 * ((ROWS[:, None] - X[None]) ** 2).sum(axis=2))
    by_values = IncrementalSVC(C=2.0, kernel="precomputed").fit(gram, SIGNS)
    found, peer = influences(by_values, of_rows), influences(model, ROWS)
    assert found.keys == peer.keys
    np.testing.assert_allclose(found.without, peer.without, atol=1e-8)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(InvalidInput, match="X"):
        influences(IncrementalSVC(C=2.0, gamma=0.5).fit(X, SIGNS), [[1.0]])


def hinge(model: Any, y: Any) -> float:
    """Mean hinge loss of the rows: of each over the pairs of its class."""
    decisions, classes = model.decision_function(ROWS), model.classes_
    if classes.size == 2:
        return float(np.maximum(0.0, 1.0 - np.where(y == classes[1], 1.0, -1.0) * decisions).mean())
    losses = []
    for row, label in zip(decisions, y, strict=True):
        pairs = enumerate(combinations(classes, 2))
        sides = [(row[place], 1.0 if label == a else -1.0) for place, (a, b) in pairs if label in (a, b)]
        losses.append(np.mean([max(0.0, 1.0 - side * decision) for decision, side in sides]))
    return float(np.mean(losses))


@pytest.mark.parametrize("case", ["two classes", "three classes", "values"])
def test_the_value_of_an_example_is_what_the_loss_is_without_it(case: str) -> None:
    model, y = CASES[case]
    model.fit(X, y)
    targets = y[: len(ROWS)]

    def loss(model: Any) -> float:
        return float(np.abs(model.predict(ROWS) - targets).mean()) if case == "values" else hinge(model, targets)

    found = data_values(model, ROWS, targets)
    assert found.loss == pytest.approx(loss(model), abs=1e-9)
    for key, value in zip(found.keys, found.values, strict=True):
        stay = np.arange(len(X)) != key
        peer = type(model)(**model.get_params()).fit(X[stay], y[stay])
        assert value == pytest.approx(loss(peer) - loss(model), abs=1e-8)
    assert (found.values < 0).any()
    assert (found.values > 0).any()
