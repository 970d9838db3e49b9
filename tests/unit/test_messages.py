"""What is refused is named: what is missing, in which row, in which column by its name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context

from livesvm.solvers import FrankWolfeSVC, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR, PUClassifier
from livesvm.solvers.errors import InvalidInput

X = np.random.default_rng(0).normal(size=(8, 2))
NUMBERS, WORDS = [0, 1] * 4, ["a", "b"] * 4
NONE: dict[str, tuple[Callable[[list[Any]], Any], Any]] = {
    "None": (list, None),
    "NaN": (list, np.nan),
    "NaT": (list, pd.NaT),
    "NA": (list, pd.NA),
    "objects": (lambda y: np.array(y, object), None),
    "series": (pd.Series, None),
    "categories": (lambda y: pd.Series(y, dtype="category"), None),
    "polars": (pl.Series, None),
}


@pytest.mark.parametrize("form", NONE)
@pytest.mark.parametrize("row", [0, 1, 7])
def test_a_missing_label_is_named_in_whichever_row(form: str, row: int) -> None:
    made, none = NONE[form]
    for labels in (NUMBERS, WORDS):
        y = list(labels)
        y[row] = none
        for estimator in (IncrementalSVC, FrankWolfeSVC):
            with pytest.raises(InvalidInput, match="is missing; every example needs a label") as caught:
                estimator().fit(X, made(y))
            assert (caught.value.field, caught.value.row) == ("y", row)
        model = IncrementalSVC().fit(X, labels)
        with pytest.raises(InvalidInput, match="is missing") as caught:
            model.update(add=(X, made(y)))
        assert caught.value.row == row
    numbers: list[Any] = list(NUMBERS)
    numbers[row] = none
    for other in (IncrementalSVR, lambda: IncrementalPUClassifier(0.5, 0.1)):
        with pytest.raises(InvalidInput, match=r"is missing|NaN|NaT") as caught:
            other().fit(X, numbers)
        assert (caught.value.field, caught.value.row) == ("y", row)


FRAME = pd.DataFrame(X, columns=["price", "quantity"])
WRONG: dict[str, tuple[Any, str]] = {
    "NaN": (FRAME.assign(price=[*X[:3, 0], np.nan, *X[4:, 0]]), "NaN"),
    "infinite": (FRAME.assign(price=[*X[:3, 0], np.inf, *X[4:, 0]]), "inf"),
    "text": (FRAME.assign(price=pd.Series([1.0, 2.0, 3.0, "x", 5.0, 6.0, 7.0, 8.0], dtype=object)), "'x'"),
    "NA": (FRAME.assign(price=pd.array([1, 2, 3, None, 5, 6, 7, 8], dtype="Int64")), "missing"),
    "null": (pl.DataFrame({"price": [1.0, 2.0, 3.0, None, 5.0, 6.0, 7.0, 8.0], "quantity": X[:, 1]}), "NaN"),
}


@pytest.mark.parametrize("form", WRONG)
def test_a_column_of_a_data_frame_is_named(form: str) -> None:
    wrong, reason = WRONG[form]
    model = IncrementalSVC().fit(FRAME, NUMBERS)
    for call in (
        lambda: IncrementalSVC().fit(wrong, NUMBERS),
        lambda: FrankWolfeSVC().fit(wrong, NUMBERS),
        lambda: PUClassifier(0.5, 0.1).fit(wrong, NUMBERS),
        lambda: model.predict(wrong),
        lambda: model.update(add=(wrong, NUMBERS)),
    ):
        with pytest.raises(InvalidInput, match=f"X, row 3, column 'price': .*{reason}") as caught:
            call()
        assert (caught.value.row, caught.value.column, caught.value.name) == (3, 0, "price")


def test_a_text_in_a_list_is_named() -> None:
    with pytest.raises(InvalidInput, match="X, row 1, column 0: must be numbers"):
        IncrementalSVC().fit([[1.0, 2.0], ["x", 2.0]], [0, 1])


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_probabilities_of_weighted_examples_warn_of_nothing(method: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2))
    model = IncrementalSVC(probability=method).fit(rows, rows[:, 0] > 0, rng.uniform(0.5, 2.0, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict_proba(rows)
    model.update(remove=[0])
    model.update(add=(rows[:1], [bool(rows[0, 0] > 0)]), sample_weight=[1.0])
    with config_context(enable_metadata_routing=True):
        assert model.predict_proba(rows).shape == found.shape
