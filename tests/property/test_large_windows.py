"""Where most examples are far from their kinks, kernel rows are computed that count: they and the optimum are right."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy import batch_update
from livesvm.solvers.homotopy import run as passage
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.problem.state import PathState
from tests.judge import judge
from tests.problems import FAMILIES, problem
from tests.support.optimality import allowed, follow

N, MOVED = 2700, 40


def check_cached_rows(model: LiveEstimator) -> None:
    """Assert that every cached kernel row is what the kernel says about the examples of the window."""
    state, slots = model._window.state, model._window.slots
    held = slots[state.rows.row_of[slots] >= 0]
    kept = state.rows.values[state.rows.row_of[held]][:, slots]
    np.testing.assert_array_equal(kept, state.kernel_rows(held)[:, slots])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_small_windows_that_are_treated_as_large_end_at_an_optimum(
    family: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_update, "LARGE", 0)
    monkeypatch.setattr(batch_update, "MANY", 1.0)
    drawn = problem(seed, family)
    for model, _, window in follow(drawn):
        found = judge(model, drawn, window)
        assert found.relative <= allowed(drawn.C), found
        check_cached_rows(model)


def test_in_a_smaller_window_few_have_kernel_rows_where_most_are_far_from_their_kinks() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * rng.normal(size=len(X))
    model = IncrementalSVR(C=1.0, gamma=0.05, epsilon=1.0)
    model.update(add=(X[:680], y[:680]), keys=list(range(680)))
    model._window.state.events = 0.0  # which many updates with few events would lead to
    for first in range(0, 120, 40):
        come = range(680 + first, 720 + first)
        report = model.update(add=(X[come], y[come]), remove=list(range(first, first + 40)), keys=list(come))
        assert model.certificate().relative_gap <= 1e-8
        check_cached_rows(model)
        state, slots = model._window.state, model._window.slots
        has_row = state.rows.row_of[slots] >= 0
        assert has_row[state.examples.beta[slots] != 0.0].all()
        assert 0 < np.count_nonzero(has_row) < 0.3 * slots.size
        assert state.events >= report.events


@pytest.mark.parametrize("cache_mb", [512.0, 8.0])
@pytest.mark.parametrize("task", ["svc", "svr", "oneclass"])
def test_a_large_window_slides_from_optimum_to_optimum(
    task: str, cache_mb: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, waiting = passage.fetch_rows, []

    def fetched(state: PathState, w: Walk) -> None:
        waiting.append(bool(w.at[0].switching >= 0))
        fetch(state, w)

    monkeypatch.setattr(passage, "fetch_rows", fetched)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 5 * MOVED, 5))
    score = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.normal(size=len(X))
    model: LiveEstimator
    if task == "svc":
        model = IncrementalSVC(C=1.0, gamma=0.05, classes=(-1, 1), cache_mb=cache_mb)
    elif task == "svr":
        model = IncrementalSVR(C=1.0, gamma=0.05, epsilon=0.5, cache_mb=cache_mb)
    else:
        model = IncrementalOneClassSVM(nu=0.05, gamma=0.05, cache_mb=cache_mb)
    y = {"svc": np.where(score > 0.0, 1, -1), "svr": score, "oneclass": None}[task]
    rows = np.arange(len(X))
    model.update(add=(X[:N], None if y is None else y[:N]), keys=rows[:N].tolist())
    waiting.clear()
    for first in range(0, 5 * MOVED, MOVED):
        come, go = rows[N + first :][:MOVED], rows[first:][:MOVED]
        added = (X[come], None if y is None else y[come])
        report = model.update(add=added, remove=go.tolist(), keys=come.tolist())
        assert report.retrained == 0
        assert model.certificate().relative_gap <= 1e-8
        check_cached_rows(model)
    if task != "oneclass":  # whose rows are all there
        assert waiting.count(True) < waiting.count(False)  # most are fetched before a stride, not in the middle of it
