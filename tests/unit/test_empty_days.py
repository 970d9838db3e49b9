"""A day without data changes nothing; edits by key and times come as series do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    drift,
    k_fold,
)
from livesvm.solvers.errors import DuplicateKey, InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC

X = np.random.default_rng(0).normal(size=(40, 2))
SIGNS = (X[:, 0] > 0).astype(int)
KINDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "two classes": (IncrementalSVC, SIGNS),
    "three classes": (IncrementalSVC, np.digitize(X[:, 0], [-0.5, 0.5])),
    "balanced": (lambda: IncrementalSVC(class_weight="balanced"), SIGNS),
    "scaled": (lambda: IncrementalSVC(scale="standard"), SIGNS),
    "sparse": (IncrementalSVC, SIGNS),
    "precomputed": (lambda: IncrementalSVC(kernel="precomputed"), SIGNS),
    "regression": (IncrementalSVR, X[:, 1]),
    "one class": (IncrementalOneClassSVM, None),
    "pu": (lambda: IncrementalPUClassifier(0.5, 0.01), SIGNS),
}


def fitted(kind: str) -> tuple[Any, Any, Any]:
    """Return a model, and no rows and targets of its kind."""
    made, y = KINDS[kind]
    rows = {"sparse": sparse.csr_array(X), "precomputed": X @ X.T}.get(kind, X)
    return made().fit(rows, y), rows[:0], None if y is None else y[:0]


NOTHING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "update": lambda model, X, y: model.update(),
    "no rows": lambda model, X, y: model.update(add=(X, y)),
    "nor removals": lambda model, X, y: model.update(add=(X, y), remove=[], keys=[], sample_weight=[]),
    "lists": lambda model, X, y: model.update(add=([], None if y is None else []), remove=np.array([], int)),
    "frame": lambda model, X, y: model.update(add=(pd.DataFrame(), None if y is None else pd.Series([]))),
    "removals": lambda model, X, y: model.update(remove=[]),
    "decay": lambda model, X, y: model.update(decay=1.0),
    "edits": lambda model, X, y: model.update(relabel={}, reweight=pd.Series([], dtype=float)),
    "partial_fit": lambda model, X, y: model.partial_fit(X, y),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_of_nothing_changes_nothing(kind: str) -> None:
    model, rows, y = fitted(kind)
    before = model.to_arrays()
    for call in NOTHING.values():
        report = call(model, rows, y)
        if report is not model:
            assert (report.added, report.removed, report.changed, report.events) == ((), (), 0, 0)
            assert report.n == 40
            assert report.relative_gap <= 1e-8
        after = model.to_arrays()
        assert all(
            np.array_equal(before[name], after[name]) for name in before if name != "X" or not sparse.issparse(rows)
        )
    assert model.update(add=(rows, y), remove=[3]).removed == (3,)


def test_what_is_half_empty_is_refused() -> None:
    model = IncrementalSVC().fit(X, SIGNS)
    halves: list[dict[str, Any]] = [
        {"add": (X[:0], [1])},
        {"add": (X[:0], []), "keys": ["a"]},
        {"add": (X[:0], []), "sample_weight": [1.0]},
        {"add": (np.empty((0, 7)), [])},
        {"remove": ""},
        {"decay": 1.5},
    ]
    for update in halves:
        with pytest.raises(InvalidInput):
            model.update(**update)
    nothing: list[Any] = [None, (X[:0], [])]
    for add in nothing:
        with pytest.raises(InvalidInput):
            IncrementalSVC().update(add=add)


def test_a_window_that_is_trained_later_takes_nothing_too() -> None:
    model = LiveL2SVC()
    model.update(add=(X, SIGNS))
    report = model.update(add=(X[:0], SIGNS[:0]), remove=[])
    assert (report.added, report.removed, report.changed, report.n) == ((), (), 0, 40)


def test_edits_come_as_a_series_by_key() -> None:
    given, same = (IncrementalSVC().fit(X, SIGNS, keys=[f"k{i}" for i in range(40)]) for _ in range(2))
    weights: Any = {"k1": 2.0, "k7": 0.5}
    labels: Any = {"k2": 1, "k3": 0}
    given.update(reweight=pd.Series(weights), relabel=pd.Series(labels))
    same.update(reweight=weights, relabel=labels)
    np.testing.assert_array_equal(given.decision_function(X), same.decision_function(X))
    numbered = IncrementalSVC().fit(X, SIGNS)
    assert numbered.update(reweight=pd.Series([2.0, 3.0], index=[5, 6])).changed == 2
    with pytest.raises(DuplicateKey, match="stands twice"):
        numbered.update(reweight=pd.Series([2.0, 3.0], index=[5, 5]))
    wrong: Any = pl.Series([2.0, 3.0])
    with pytest.raises(InvalidInput, match="pandas Series with the keys as its index, not Series"):
        numbered.update(reweight=wrong)


HOURS = pd.date_range("2024-03-31", periods=40, freq="h")
TIMES: dict[str, Any] = {
    "datetime64": HOURS.to_numpy(),
    "seconds": HOURS.to_numpy().astype("datetime64[s]"),
    "index": HOURS,
    "zone": HOURS.tz_localize("UTC").tz_convert("Europe/Berlin"),
    "series": pd.Series(HOURS),
    "polars": pl.Series(HOURS.to_pydatetime().tolist()),
    "timestamps": list(HOURS),
    "datetimes": HOURS.to_pydatetime().tolist(),
    "aware": [one.replace(tzinfo=UTC) for one in HOURS.to_pydatetime()],
    "text": [one.isoformat() + "Z" for one in HOURS],
    "numbers": list(range(40)),
}


@pytest.mark.parametrize("form", TIMES)
def test_times_are_numbers_or_dates(form: str) -> None:
    order = np.random.default_rng(1).permutation(40)
    model, shuffled = IncrementalSVC().fit(X, SIGNS), IncrementalSVC().fit(X[order], SIGNS[order])
    times = TIMES[form]
    expected = drift(model)
    taken = [times[int(i)] for i in order] if isinstance(times, list) else times[order]
    np.testing.assert_allclose(drift(shuffled, times=taken).rolling, expected.rolling, atol=1e-6)
    assert k_fold(shuffled, 4, times=taken).error == k_fold(model, 4).error


@pytest.mark.parametrize(
    ("wrong", "reason", "row"),
    [
        ([None, *TIMES["datetimes"][1:]], "missing", 0),
        ([*TIMES["datetimes"][:-1], np.datetime64("NaT")], "missing", 39),
        (pd.Series([*HOURS[:-1], pd.NaT]), "missing", 39),
        (["x"] * 40, "'x' is no time", 0),
        ([*TIMES["datetimes"][:-1], datetime(2025, 1, 1, tzinfo=UTC)], "zone", 39),
        ([*TIMES["datetimes"][:-1], 3.0], "numbers", 39),
        (TIMES["datetimes"][:-1], "each of 40 rows", None),
    ],
)
def test_what_is_no_time_is_named(wrong: Any, reason: str, row: int | None) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        drift(IncrementalSVC().fit(X, SIGNS), times=wrong)
    assert (caught.value.field, caught.value.row) == ("times", row)
