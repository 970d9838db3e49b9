"""Labels of any kinds meet: each stays what it is, or the update is refused and nothing is changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from livesvm.solvers import FrankWolfeSVC, IncrementalSVC, before_learning, update_singly
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.models.class_labels import are_among, are_equal, joined, several_labels
from tests.support.arrays import assert_same_arrays

X = np.array([[0.0], [0.3], [2.0], [2.3], [4.0], [4.3]])
NEW = np.array([[6.0], [6.3]])
A, B, C = 2**60 + 1, 2**60 + 2, 2**62 + 1

KINDS: dict[str, Any] = {
    "int8": np.array([-3, 5, 7], np.int8),
    "int64": np.array([A, B, C]),
    "few": np.array([0, 1, 2**60]),
    "uint8": np.array([1, 5, 200], np.uint8),
    "uint64": np.array([2**63 + 1, 2**63 + 3, 2**64 - 1], np.uint64),
    "float64": np.array([-0.0, 7.0, 2.0**60]),
    "float16": np.array([0.0, 1.0, 7.0], np.float16),
    "bool": np.array([False, True, True]),
    "str": np.array(["1", "True", "other"]),
    "bytes": np.array([b"1", b"2", b"3"]),
    "words": np.array(["1", "b", "a longer one"], object),
    "objects": np.array([A, B, 7.0], object),
    "large": [2**64 + 1, 2**64 + 3, 5],
    "mixed list": [A, 7.0, True],
    "numpy scalars": [np.int64(A), np.float64(7.0), np.uint64(2**60)],
    "category": pd.Series(["1", "b", "c"], dtype="category"),
    "numbers by category": pd.Series([A, B, 7], dtype="category"),
    "nullable": pd.Series([A, B, 7], dtype="Int64"),
    "missing": [1.0, float("nan"), 2.0],
    "none": [1, None, 2],
    "dates": np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]"),
}
VERBS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda model, y: model.update(add=(NEW, y)),
    "partial_fit": lambda model, y: model.partial_fit(NEW, y),
    "relabel": lambda model, y: model.update(relabel=dict(zip(model.keys_[-2:], y, strict=True))),
}


def plain(labels: Any) -> list[Any]:
    """Return labels as Python has them, each for itself."""
    return [one.item() if isinstance(one, np.generic) else one for one in labels]


def some(labels: Any, places: list[int]) -> Any:
    """Return labels of a kind as they come."""
    if isinstance(labels, list):
        return [labels[at] for at in places]
    return labels.iloc[places] if isinstance(labels, pd.Series) else labels[places]


def learnt(kind: Any, n: int) -> Any:
    """Return a model of ``n`` classes of a kind; None where these are refused, or are not so many."""
    labels = some(kind, [0, 1, 0, 1, 2, 2][: 2 * n])
    model = IncrementalSVC(C=2.0, gamma=0.7)
    try:
        model.fit(X[: 2 * n], labels)
    except InvalidInput:
        return None
    if len(model.classes_) != n:
        return None
    assert model.window_y.tolist() == plain(labels)
    return model


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_two_kinds_stay_what_they_are_or_nothing_changes(kind: str, verb: str) -> None:
    done, shift = 0, [*KINDS].index(kind) + [*VERBS].index(verb)
    for number, other in enumerate(KINDS):
        n = 2 + (number + shift) % 2  # another verb meets the other
        model, y = learnt(KINDS[kind], n), some(KINDS[other], [1, 2])
        if model is None:
            continue
        before, decisions, gap = model.to_arrays(), model.decision_function(X), model.certificate().relative_gap
        known, labels = model.classes_, model.window_y.tolist()
        try:
            VERBS[verb](model, y)
        except InvalidInput:
            assert model.classes_ is known
            assert_same_arrays(before, model.to_arrays())
            np.testing.assert_array_equal(model.decision_function(X), decisions)
            assert model.certificate().relative_gap == gap
            continue
        done += 1
        expected = [*(labels[:-2] if verb == "relabel" else labels), *plain(y)]
        assert model.window_y.tolist() == expected
        assert model.classes_.tolist() == sorted({*labels, *expected})
        assert {*model.predict(np.vstack([X, NEW])).tolist()} <= {*expected}
        assert_is_as_learnt_from_nothing(model, expected)
    if kind not in {"bytes", "large", "missing", "none"}:
        assert done


def assert_is_as_learnt_from_nothing(model: Any, labels: list[Any]) -> None:
    """Check decisions against those of a model of plain numbers, fitted to what the window holds."""
    classes = model.classes_.tolist()
    there = sorted({*labels})
    if len(there) != len(classes) or len(classes) < 2:
        return  # a class that has gone has a column of its own
    numbers = [classes.index(one) for one in labels]
    fresh = IncrementalSVC(C=2.0, gamma=0.7).fit(model.window_X, numbers)
    np.testing.assert_allclose(model.decision_function(NEW), fresh.decision_function(NEW), atol=1e-7)
    assert model.predict(NEW).tolist() == [classes[one] for one in fresh.predict(NEW)]


@pytest.mark.parametrize("kind", ["int64", "uint64", "objects", "mixed list", "numpy scalars", "nullable", "str"])
def test_other_estimators_keep_labels_too(kind: str) -> None:
    labels = KINDS[kind]
    y = [*labels, *labels]
    model = FrankWolfeSVC(gamma=0.7, tol=0.01).fit(X, y)
    assert model.classes_.tolist() == sorted(plain(labels))
    assert model.certificate(X, y).relative <= 0.01
    large = LiveL2SVC(gamma=0.7)
    large.update(add=(X, y))
    large.retrain(tol=0.01)
    assert large.window_y.tolist() == plain(y)
    again = LiveL2SVC.from_arrays({"gamma": 0.7}, large.to_arrays())
    assert again.classes_.tolist() == large.classes_.tolist() == sorted(plain(labels))
    large.update(add=(NEW, ["x", "y"] if kind == "str" else [7.0, 8.0]))
    assert large.window_y.tolist()[: len(y)] == plain(y)
    assert large.labels_.tolist() == sorted({*plain(y), *large.window_y.tolist()})


def test_labels_that_no_type_keeps_are_refused_with_what_to_do() -> None:
    model = IncrementalSVC(gamma=0.7).fit(X[:4], [A, A, B, B])
    with pytest.raises(InvalidInput, match=r"relabel, row 0: -1 and .*name the classes by strings"):
        model.update(add=(NEW, np.array([A, 2**64 - 1], np.uint64)), relabel={0: -1})
    with pytest.raises(InvalidInput, match=r"y, row 0: 18446744073709551617 and .*name the classes by strings"):
        IncrementalSVC().fit(X[:2], [2**64 + 1, 1])
    with pytest.raises(InvalidInput, match=r"classes.*name the classes by strings"):
        IncrementalSVC(classes=[2**64 + 1, 1]).fit(X[:2], [1, 1])


def test_a_score_and_errors_tell_labels_apart_that_are_one_as_floats() -> None:
    model = IncrementalSVC(C=100.0, gamma=0.7).fit(X[:4], [A, A, B, B])
    assert model.score(X[:4], np.full(4, 2.0**60)) == 0.0
    assert model.score(X[:4], [A, A, B, B]) == 1.0
    assert model.regularization_path(1.0, 9.0).best(X[:4], [A, A, B, B]).error == 0.0
    with pytest.raises(InvalidInput, match="is not one of the labels"):
        model.regularization_path(1.0, 9.0).best(X[:4], np.full(4, 2.0**60))
    with pytest.raises(InvalidInput, match="not two of the classes"):
        model.certificate_of(2.0**60, A)
    reports = update_singly(model, (NEW, [B, 7.0]))
    assert [report.n for report in reports] == [5, 6]
    assert model.window_y.tolist()[-2:] == [B, 7]


def test_labels_that_are_asked_about_are_not_learnt() -> None:
    model = IncrementalSVC(gamma=0.7).fit(X[:2], [1, 1])
    with pytest.raises(InvalidInput, match="2 is not one of the labels"):
        before_learning(model, X[:2], [1, 2])
    assert model.classes_.tolist() == [1]


def test_helpers() -> None:
    whole, real = np.array([A, B]), np.array([2.0**60, 7.0])
    assert joined(whole, real).tolist() == [7, 2**60, A, B]
    assert joined(np.array([1, 2]), np.array([3], np.uint64)).dtype == np.int64
    assert are_among(whole, real).tolist() == [False, False]
    assert are_equal(whole, real).tolist() == [False, False]
    assert are_equal(np.array([7, 8]), np.array([7.0, 9.0])).tolist() == [True, False]
    assert several_labels([A, 7.0]).tolist() == [A, 7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert joined(np.array([1.0, 1e300]), np.array([3])).tolist() == [1.0, 3.0, 1e300]


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ns]", "m8[s]"])
@pytest.mark.parametrize("estimator", [IncrementalSVC, FrankWolfeSVC])
def test_a_date_that_is_missing_is_no_label(kind: str, estimator: Any) -> None:
    y = np.array([1, 1, 2, 2, 1, 2]).astype(kind)
    y[4] = "NaT"
    with pytest.raises(InvalidInput, match="is missing") as caught:
        estimator().fit(X, y)
    assert caught.value.row == 4
    live = IncrementalSVC().fit(X[:4], y[:4])
    before = live.to_arrays()
    with pytest.raises(InvalidInput, match="is missing"):
        live.update(add=(X[4:5], y[4:5]))
    assert_same_arrays(live.to_arrays(), before)


def test_strings_of_any_length_are_labels() -> None:
    y = np.array(["a", "b longer"] * 3, np.dtypes.StringDType())
    for estimator in (IncrementalSVC, FrankWolfeSVC):
        model = estimator().fit(X, y)
        assert model.classes_.tolist() == ["a", "b longer"]
        assert set(model.predict(X).tolist()) <= {"a", "b longer"}
    live = IncrementalSVC().fit(X, y)
    live.update(add=(NEW, np.array(["c", "a"], np.dtypes.StringDType())))
    assert live.classes_.tolist() == ["a", "b longer", "c"]
