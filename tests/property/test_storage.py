"""A model survives its arrays, a predictor survives its model, and damage is noticed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import NotOptimal
from tests.judge import apply, build, coefficients, judge
from tests.problems import Batch, Problem, problem
from tests.property.strategies import problems
from tests.support.arrays import assert_same_arrays


@given(drawn=problems())
def test_arrays_give_back_the_model(drawn: Problem) -> None:
    model = build(drawn)
    arrays = model.to_arrays()
    again = IncrementalSVC.from_arrays(model.get_params(), arrays)
    assert list(again.keys_) == list(model.keys_)
    found, original = judge(again, drawn, drawn.windows()[-1]), judge(model, drawn, drawn.windows()[-1])
    assert found.relative <= max(1e-8, original.relative)
    assert again.n_window_ == model.n_window_
    assert_same_arrays(arrays, model.to_arrays())


@given(drawn=problems())
def test_a_restored_model_goes_on_as_the_original_would(drawn: Problem) -> None:
    original = build(drawn)
    restored = IncrementalSVC.from_arrays(original.get_params(), original.to_arrays())
    inside = drawn.windows()[-1]
    outside = np.setdiff1d(np.arange(len(drawn.X)), inside)
    exchange = Batch(add=outside, remove=inside[::2])
    window = np.concatenate([inside[1::2], outside])
    for model in (original, restored):
        apply(model, drawn, exchange)
        assert judge(model, drawn, window).relative <= (1e-8 if drawn.C <= 1e5 else 1e-7)


def test_generated_keys_go_on_after_a_restart() -> None:
    model = IncrementalSVC(gamma=1.0, classes=(-1, 1))
    model.update(add=([[0.0], [1.0]], [1, -1]))
    model.update(remove=[1])
    again = IncrementalSVC.from_arrays(model.get_params(), model.to_arrays())
    assert again.update(add=([[2.0]], [1])).added == model.update(add=([[2.0]], [1])).added == (2,)


def test_keys_are_json() -> None:
    model = IncrementalSVC(gamma=1.0, classes=(-1, 1))
    model.update(add=([[0.0], [1.0]], [1, -1]), keys=["first", 5])
    assert json.loads(json.dumps(model.to_arrays()["keys"])) == ["first", 5]
    again = IncrementalSVC.from_arrays(model.get_params(), model.to_arrays())
    assert list(again.keys_) == ["first", 5]


def _moved(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    damaged = dict(arrays)
    value = np.array(arrays[name], dtype=np.float64, copy=True)
    value.flat[int(np.argmax(np.abs(value)))] += 0.25
    damaged[name] = value if isinstance(arrays[name], np.ndarray) else float(value)
    return damaged


@pytest.mark.parametrize("name", ["beta", "X", "intercept"])
def test_damaged_arrays_are_noticed_or_repaired_never_believed(name: str) -> None:
    drawn = problem(0, "regular")
    model = build(drawn)
    damaged = _moved(model.to_arrays(), name)
    try:
        again = IncrementalSVC.from_arrays(model.get_params(), damaged)
    except NotOptimal:
        return
    assert again.certificate().relative_gap <= 1e-8


@given(drawn=problems())
def test_a_predictor_is_the_model_of_its_moment(drawn: Problem) -> None:
    model = IncrementalSVC(**drawn.parameters())
    taken = []
    for batch in drawn.batches:
        apply(model, drawn, batch)
        if model.n_window_:
            taken.append((model.predictor(), model.decision_function(drawn.X)))
    for predictor, decisions in taken:
        assert predictor.n_features == drawn.X.shape[1]
        assert np.array_equal(predictor.decision_function(drawn.X), decisions)


@given(drawn=problems())
def test_a_decision_does_not_depend_on_the_rows_beside_it(drawn: Problem) -> None:
    model = build(drawn)
    together = model.decision_function(drawn.X)
    alone = np.concatenate([model.decision_function(row[None]) for row in drawn.X])
    size = float(np.abs(coefficients(model)).sum() * np.abs(drawn.kernel(drawn.X, drawn.X)).max()) + 1.0
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-15 * size)
