"""A refused update changes no bit of the model, and names what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import DuplicateKey, InvalidInput, InvalidType, NotPositiveSemidefinite, UnknownKey
from tests.judge import build
from tests.problems import Problem
from tests.property.strategies import problems
from tests.support.arrays import assert_same_arrays

Update = dict[str, Any]


def three_rows() -> IncrementalSVC:
    """Return a model of keys ``a``, ``b`` and 7 with two features."""
    model = IncrementalSVC(C=2.0, kernel="rbf", gamma=0.5, classes=(-1, 1))
    model.update(add=([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [1, -1, 1]), keys=["a", "b", 7])
    return model


ROW = [[1.0, 2.0]]
NAN, INF = float("nan"), float("inf")

REFUSED: list[tuple[Update, type[InvalidInput], str, int | None, int | None]] = [
    ({"add": ([[1.0, NAN]], [1])}, InvalidInput, "X", 0, 1),
    ({"add": ([[1.0, 2.0], [INF, 2.0]], [1, -1])}, InvalidInput, "X", 1, 0),
    ({"add": ([[1.0, 2.0], [-INF, 2.0]], [1, -1])}, InvalidInput, "X", 1, 0),
    ({"add": ([[1.0, 2.0, 3.0]], [1])}, InvalidInput, "X", None, None),
    ({"add": ([[1.0]], [1])}, InvalidInput, "X", None, None),
    ({"add": ([1.0, 2.0], [1, 1])}, InvalidInput, "X", None, None),
    ({"add": ([[1.0, "many"]], [1])}, InvalidType, "X", 0, 1),
    ({"add": ([[1.0, 2.0], [1.0]], [1, -1])}, InvalidInput, "X", None, None),
    ({"add": (ROW, [0])}, InvalidInput, "y", 0, None),
    ({"add": ([[1.0, 2.0], [0.0, 0.0]], [1, 2])}, InvalidInput, "y", 1, None),
    ({"add": (ROW, [NAN])}, InvalidInput, "y", 0, None),
    ({"add": (ROW, [1, -1])}, InvalidInput, "y", None, None),
    ({"add": (ROW, [1]), "sample_weight": [-1.0]}, InvalidInput, "sample_weight", 0, None),
    ({"add": (ROW, [1]), "sample_weight": [NAN]}, InvalidInput, "sample_weight", 0, None),
    ({"add": (ROW, [1]), "sample_weight": [INF]}, InvalidInput, "sample_weight", 0, None),
    ({"add": (ROW, [1]), "sample_weight": [1.0, 1.0]}, InvalidInput, "sample_weight", None, None),
    ({"add": (ROW, [1]), "keys": ["a"]}, DuplicateKey, "keys", 0, None),
    ({"add": (ROW, [1]), "keys": [7]}, DuplicateKey, "keys", 0, None),
    ({"add": (ROW * 2, [1, 1]), "keys": ["c", "c"]}, DuplicateKey, "keys", 1, None),
    ({"add": (ROW, [1]), "keys": ["c", "d"]}, InvalidInput, "keys", None, None),
    ({"add": (ROW, [1]), "keys": [1.5]}, InvalidInput, "keys", 0, None),
    ({"remove": ["z"]}, UnknownKey, "remove", 0, None),
    ({"remove": ["a", 8]}, UnknownKey, "remove", 1, None),
    ({"remove": ["a", "a"]}, InvalidInput, "remove", 1, None),
]


@pytest.mark.parametrize(("update", "error", "field", "row", "column"), REFUSED)
def test_a_refusal_names_the_place_and_changes_nothing(
    update: Update, error: type[InvalidInput], field: str, row: int | None, column: int | None
) -> None:
    model = three_rows()
    before = model.to_arrays()
    with pytest.raises(error) as refused:
        model.update(**update)
    assert refused.value.field == field
    assert refused.value.row == row
    assert refused.value.column == column
    assert refused.value.reason
    assert_same_arrays(before, model.to_arrays())


def test_an_empty_model_refuses_removals_and_stays_empty() -> None:
    model = IncrementalSVC(gamma=1.0, classes=(-1, 1))
    with pytest.raises(UnknownKey):
        model.update(remove=[0])
    model.update(add=([[1.0, 2.0, 3.0]], [1]))
    assert model.n_features_in_ == 3


def test_a_kernel_that_is_not_positive_semidefinite_is_refused() -> None:
    model = IncrementalSVC(C=1.0, kernel="sigmoid", gamma=1.0, coef0=-1.0, classes=(-1, 1))
    model.update(add=([[2.0]], [1]))
    before = model.to_arrays()
    with pytest.raises(NotPositiveSemidefinite) as refused:
        model.update(add=([[0.1], [0.2], [-0.3]], [1, -1, 1]))
    assert refused.value.field == "kernel"
    assert_same_arrays(before, model.to_arrays())


Damage = Callable[[Problem], tuple[Update, type[InvalidInput]]]


def _known_key(drawn: Problem) -> tuple[Update, type[InvalidInput]]:
    window = drawn.windows()[-1].tolist()
    add = (drawn.X[:1], drawn.y[:1])
    return ({"add": add, "keys": window[-1:]}, DuplicateKey) if window else ({"remove": [0]}, UnknownKey)


def _unknown_key(drawn: Problem) -> tuple[Update, type[InvalidInput]]:
    return {"remove": [*drawn.windows()[-1].tolist(), -1], "add": (drawn.X[:1], drawn.y[:1])}, UnknownKey


def _not_a_number(drawn: Problem) -> tuple[Update, type[InvalidInput]]:
    X = drawn.X.copy()
    X[-1, -1] = NAN
    return {"add": (X, drawn.y), "remove": drawn.windows()[-1].tolist()}, InvalidInput


@pytest.mark.parametrize("damage", [_known_key, _unknown_key, _not_a_number])
@given(drawn=problems())
def test_a_refused_update_changes_no_bit(damage: Damage, drawn: Problem) -> None:
    model = build(drawn)
    update, error = damage(drawn)
    before = model.to_arrays()
    decisions = model.decision_function(drawn.X)
    with pytest.raises(error):
        model.update(**update)
    assert_same_arrays(before, model.to_arrays())
    assert np.array_equal(model.decision_function(drawn.X), decisions)
