"""Kernels of objects take these in every form in which data comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from livesvm.solvers import FrankWolfeSVC, IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, conformal, influences
from livesvm.solvers.errors import InvalidInput

RNG = np.random.default_rng(0)
COUNTS = RNG.integers(0, 4, (30, 3))
WORDS = ["".join(c * n for c, n in zip("abc", row, strict=True)) or "c" for row in COUNTS.tolist()]
Y = {"two": (COUNTS[:, 0] > COUNTS[:, 1]).astype(int), "three": COUNTS[:, 0] % 3}
SERIES = [RNG.normal(size=RNG.integers(3, 9)) + (i % 2) for i in range(30)]
FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "array": np.array,
    "objects": lambda words: np.array(words, object),
    "column": lambda words: np.array(words)[:, None],
    "strings": lambda words: np.array(words, np.dtypes.StringDType()),
    "series": pd.Series,
    "text series": lambda words: pd.Series(words, dtype="string"),
    "categories": lambda words: pd.Series(words, dtype="category"),
    "index": pd.Index,
    "frame": lambda words: pd.DataFrame({"text": words}),
    "polars": pl.Series,
    "polars frame": lambda words: pl.DataFrame({"text": words}),
}


def shared_letters(A: list[str], B: list[str]) -> np.ndarray:
    assert all(isinstance(one, str) for one in (*A, *B))
    return np.array([[sum(a.count(c) * b.count(c) for c in "abc") for b in B] for a in A], float)


def shared_tokens(A: list[Any], B: list[Any]) -> np.ndarray:
    return np.array([[len({*a} & {*b}) for b in B] for a in A], float)


def near_means(A: list[Any], B: list[Any]) -> np.ndarray:
    return np.array([[np.exp(-((np.mean(a) - np.mean(b)) ** 2)) for b in B] for a in A])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("classes", Y)
def test_texts_are_taken_in_every_form(form: str, classes: str) -> None:
    made, y = FORMS[form], Y[classes]
    for estimator in (IncrementalSVC, FrankWolfeSVC):
        model, same = (estimator(kernel=shared_letters).fit(X, y) for X in (made(WORDS), WORDS))
        np.testing.assert_array_equal(model.decision_function(made(WORDS)), same.decision_function(WORDS))
        assert model.predict(made(WORDS[:3])).tolist() == same.predict(WORDS[:3]).tolist()
    live = IncrementalSVC(kernel=shared_letters).fit(made(WORDS), y)
    live.update(add=(made(WORDS[:4]), y[:4]), remove=[0, 1])
    live.partial_fit(made(WORDS[:1]), y[:1])
    frozen = live.predictor().decision_function
    np.testing.assert_array_equal(frozen(made(WORDS)), frozen(WORDS))
    assert conformal(live).sets(made(WORDS[:4]), 0.9).shape == (4, live.classes_.size)
    np.testing.assert_array_equal(influences(live, made(WORDS[:2])).without, influences(live, WORDS[:2]).without)


OBJECTS = np.empty(len(SERIES), object)
OBJECTS[:] = SERIES
TOKENS = [list(word) for word in WORDS]


@pytest.mark.parametrize(
    ("X", "kernel"),
    [
        (TOKENS, shared_tokens),
        ([["a", "b"] if i % 2 else ["b", "c"] for i in range(30)], shared_tokens),
        (pd.Series(TOKENS), shared_tokens),
        (pl.Series(TOKENS), shared_tokens),
        (SERIES, near_means),
        ([one.tolist() for one in SERIES], near_means),
        (OBJECTS, near_means),
        (pd.Series(SERIES), near_means),
        (pl.Series([one.tolist() for one in SERIES]), near_means),
    ],
    ids=["tokens", "as many", "pandas", "polars", "arrays", "lists", "objects", "pandas arrays", "polars arrays"],
)
def test_lists_of_tokens_and_of_different_lengths_are_objects(X: Any, kernel: Any) -> None:
    y = np.arange(30) % 2
    for estimator in (IncrementalSVC, IncrementalSVR, IncrementalOneClassSVM, FrankWolfeSVC):
        targets = None if estimator is IncrementalOneClassSVM else y
        model = estimator(kernel=kernel).fit(X, targets)
        assert len(model.predict(X[:3])) == 3
        if kernel is near_means:  # of the same length, once it is known what they are
            assert len(model.predict([one[:3] for one in SERIES[:4]])) == 4
            assert len(model.predict(np.array([one[:3] for one in SERIES[:4]]))) == 4
        if estimator is not FrankWolfeSVC:
            model.update(add=(X[:1], None if targets is None else [0]))


@pytest.mark.parametrize(
    ("X", "reason", "row"),
    [
        (["a", None, "b"], "is missing", 1),
        (pd.Series(["a", np.nan, "b"]), "is missing", 1),
        (pd.Series(["a", "b", None], dtype="string"), "is missing", 2),
        (pl.Series(["a", None, "b"]), "is missing", 1),
        (["a", 1, "b"], "another type", 1),
        ([1.0, 2.0, 3.0], "two dimensions", None),
        (pd.DataFrame({"a": ["x", "y", "z"], "b": ["x", "y", "z"]}), "must be numbers", 0),
    ],
)
def test_what_is_no_object_is_named(X: Any, reason: str, row: int | None) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        IncrementalSVC(kernel=shared_letters).fit(X, [0, 1, 1])
    assert caught.value.row == row


def test_a_window_of_texts_takes_no_others() -> None:
    for estimator in (IncrementalSVC, FrankWolfeSVC):
        model = estimator(kernel=shared_letters).fit(WORDS, Y["two"])
        for X in (COUNTS, COUNTS[:, 0], TOKENS, SERIES):
            with pytest.raises(InvalidInput, match="another type than those of the window"):
                model.predict(X)


def test_complex_values_of_a_function_are_refused() -> None:
    X = RNG.normal(size=(10, 2))
    with pytest.raises(InvalidInput, match="complex"):
        IncrementalSVC(kernel=lambda A, B: A @ B.T * (1.0 + 1.0j)).fit(X, np.arange(10) % 2)


@pytest.mark.parametrize("classes", Y)
def test_paths_are_judged_by_objects(classes: str) -> None:
    y = Y[classes]
    model = IncrementalSVC(kernel=shared_letters).fit(WORDS, y)
    path = model.regularization_path(0.001, 0.1)
    curve, best = path.validation_error(pd.Series(WORDS), y), path.best(WORDS, y)
    for C in (0.0013, 0.017, 0.09, best.value):
        assert curve(C) == pytest.approx(np.mean(path.at(C).predict(WORDS) != y))
    assert best.error == pytest.approx(curve(best.value))
    outliers = model.outlier_path("s")
    assert outliers.best(WORDS, y).error == pytest.approx(min(outliers.validation_errors(pd.Series(WORDS), y)[1]))
