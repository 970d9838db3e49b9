"""Numbers of any size: an update ends, and is refused, undone, or optimal as far as double precision goes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, time_limit
from livesvm.solvers.errors import InvalidInput, SolverError, TimeLimit
from tests.support.arrays import assert_same_arrays

SECONDS = 60.0  # that no update of a few rows takes
HALF_RANGE = 154  # decades that a feature may have whose square is a number
FEW_DIGITS = 0.05  # of the kinks, and of the objective: what rounding may make of an answer

CLOSE = 1e-4  # of the kinks
UNLIKE = 1e6  # weights: next to one that is so much larger, an example does not count for the objective

Model = Any


def sizes(most: int) -> st.SearchStrategy[float]:
    """Return powers of ten."""
    return st.integers(-most, most).map(lambda power: 10.0**power)


@st.composite
def models(draw: st.DrawFn) -> Model:
    kernel = draw(st.sampled_from(["linear", "poly", "rbf"]))
    shape: dict[str, Any] = {"kernel": kernel, "gamma": 1.0, "degree": draw(st.sampled_from([1, 2, 4, 8]))}
    shape["coef0"] = draw(st.sampled_from([0.0, 1.0, 10.0, 100.0, 1e4, 1e8]))
    shape["fit_intercept"] = draw(st.booleans())
    task = draw(st.sampled_from(["svc", "svc", "svr", "one class"]))
    if task == "one class":
        del shape["fit_intercept"]
        return IncrementalOneClassSVM(nu=0.4, **shape)
    C = draw(st.one_of(sizes(8), sizes(100)))
    return IncrementalSVC(C=C, classes=(-1, 1), **shape) if task == "svc" else IncrementalSVR(C=C, **shape)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Any, Any]:
    """Return a few rows of one size, some of them zero, and labels."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = draw(st.one_of(sizes(3), sizes(HALF_RANGE))) * random.normal(size=(draw(st.integers(1, 12)), 2))
    X[: draw(st.integers(0, 6))] = 0.0
    return X, random.choice([-1, 1], len(X))


def assert_sound(model: Model) -> None:
    """Assert that what an update has left is optimal but for what rounding may do."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.certificate()
    kinks = model._window.state.examples.kinks[model._window.slots]
    kink = float(np.abs(kinks[np.isfinite(kinks)]).max(initial=0.0))
    weights = model.window_sample_weight[model.window_sample_weight > 0]
    assert np.isfinite(found.relative_gap)
    if kink > 0.0 and found.max_violation > CLOSE * max(kink, 1.0):  # the objective may be next to nothing
        assert found.relative_gap <= FEW_DIGITS
    if kink > 0.0 and weights.max(initial=0.0) <= UNLIKE * weights.min(initial=np.inf):
        assert found.max_violation <= FEW_DIGITS * max(kink, 1.0)


@given(models(), st.lists(rows(), min_size=1, max_size=4), st.data())
def test_an_update_is_sound_or_has_not_been(model: Model, batches: list[Any], data: st.DataObject) -> None:
    for X, y in batches:
        before = model.to_arrays() if hasattr(model, "_window") else None
        change: dict[str, Any] = {"add": (X, y)}
        if before is not None:
            how = data.draw(st.sampled_from(["add", "slide", "decay", "reweight"]))
            change |= {"slide": {"remove": model.keys_[:2]}}.get(how, {})
            if how == "decay":
                change = {"decay": data.draw(st.sampled_from([0.9, 1e-3, 1e-30]))}
            if how == "reweight" and model.keys_:
                change = {"reweight": {model.keys_[0]: data.draw(sizes(100))}}
        try:
            with time_limit(SECONDS), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                report = model.update(**change)
        except TimeLimit:
            raise
        except SolverError:
            if before is not None:
                assert_same_arrays(before, model.to_arrays())
            continue
        assert np.isfinite([report.relative_gap, report.max_violation]).all()
        assert_sound(model)


@pytest.mark.parametrize("C", [1.0, 1e8])
def test_features_beyond_all_bounds_are_refused(C: float) -> None:
    random = np.random.default_rng(0)
    X, y = 1e150 * random.choice([-1.0, 1.0], (30, 2)), random.choice([-1, 1], 30)
    model = IncrementalSVC(C=C, kernel="linear", classes=(-1, 1))
    with time_limit(SECONDS), pytest.raises(SolverError, match="scale the features"):
        model.update(add=(X, y))


HOPELESS: list[tuple[dict[str, Any], str, int | None, str]] = [
    ({"X": [[0.0, 1.0], [1e150, 1e150]]}, "X", 1, "scale the features"),
    ({"X": [[0.0, 1.0]], "C": 1e100, "sample_weight": [1e100]}, "C", None, "smaller C"),
    ({"X": [[0.0, 1.0], [1.0, 2.0]], "sample_weight": [1.0, 1e100], "C": 1e99}, "sample_weight", 1, "smaller weights"),
    ({"reweight": {1: 1e100}, "C": 1e99}, "reweight", None, "smaller weights"),
]


@pytest.mark.parametrize(("asked", "field", "row", "advice"), HOPELESS)
def test_what_is_hopeless_is_reported_before_it_is_tried(
    asked: dict[str, Any], field: str, row: int | None, advice: str
) -> None:
    model = IncrementalSVC(C=1e10, kernel="linear", classes=(-1, 1)).fit([[0.0, 1.0], [1.0, 0.0]], [-1, 1])
    before = model.to_arrays()
    X = asked.get("X")
    y = None if X is None else [1, -1][: len(X)]
    update = {name: value for name, value in asked.items() if name != "X"}
    with pytest.raises(InvalidInput, match=advice) as said:
        model.check_scale(**asked)
    with pytest.raises(InvalidInput, match=advice) as done:
        model.update(add=None if X is None else (X, y), **update)
    assert (said.value.field, said.value.row) == (field, row) == (done.value.field, done.value.row)
    assert str(said.value) == str(done.value)
    assert_same_arrays(before, model.to_arrays())


def test_a_first_update_is_checked_too() -> None:
    model = IncrementalSVC(C=1e8, kernel="linear", classes=(-1, 1))
    with pytest.raises(InvalidInput, match="scale the features"):
        model.check_scale([[1e151, 1e151]])
    model.check_scale([[1.0, 1.0]])
    model.check_scale()
    assert not hasattr(model, "_window")
    K = 1e300 * np.eye(2)
    with pytest.raises(InvalidInput, match="scale the features"):
        IncrementalSVC(C=1e8, kernel="precomputed", gamma=1.0, classes=(-1, 1)).check_scale(K)


def test_what_can_be_solved_is_not_refused() -> None:
    far = IncrementalSVC(C=1e8, kernel="linear", classes=(-1, 1)).fit([[-1.0], [1.0]], [-1, 1])
    far.check_scale([[1e100]])
    far.update(add=([[1e100]], [1]))  # on its side already: its coefficient is 0
    assert far.certificate().relative_gap < 1e-9
    apart = IncrementalSVC(C=1e8, kernel="linear", classes=(-1, 1)).fit([[-1e3], [1e3]], [-1, 1])
    assert apart.certificate().max_violation < 1e-15  # one rounding of f, which C multiplies
    one = IncrementalOneClassSVM(nu=0.5, kernel="linear").fit([[1e140], [2e140], [3e140]])
    one.check_scale([[1e140]])
