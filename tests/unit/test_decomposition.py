"""Solving from nothing by pairs of coefficients: for every loss, with copies of rows, and when a path is given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from livesvm import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import MemoryLimit, NotOptimal, TooCostly
from livesvm.solvers.homotopy import batch_update, decomposition
from livesvm.solvers.homotopy.batch_update import fill
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import refresh
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.problem.piecewise_linear import (
    Losses,
    epsilon_insensitive,
    hinge,
    one_class,
    pinball,
    positive_unlabelled,
)
from livesvm.solvers.problem.state import PathState
from tests.oracle import Vector
from tests.repeats import table

N = 300
Make = Callable[[Vector, Vector], Losses]


def pu(y: Vector, w: Vector) -> Losses:
    """Return losses of the first 60 as labelled positives, of the others as unlabelled examples."""
    first = np.arange(w.size) < 60
    return positive_unlabelled(first.astype(np.float64), np.where(first, w / 10.0, w))


LOSSES: dict[str, tuple[Make, float]] = {  # and the sum of the coefficients
    "hinge": (lambda y, w: hinge(np.sign(y), w), 0.0),
    "epsilon-insensitive": (lambda y, w: epsilon_insensitive(y, 0.2, w), 0.0),
    "absolute": (lambda y, w: epsilon_insensitive(y, 0.0, w), 0.0),
    "pinball": (lambda y, w: pinball(y, 0.2, w), 0.0),
    "one class": (lambda y, w: one_class(np.ones(N)), 0.2 * N),
    "pu": (pu, 0.0),
}


def problem(name: str, C: float) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], Losses, float]:
    """Return features with copies, losses with weights, and the sum of the coefficients."""
    rows = table("categories", N)
    weights = C * np.random.default_rng(1).uniform(0.5, 2.0, N)
    make, total = LOSSES[name]
    return rows.X, make(rows.target, weights), total


def state_of(kernel: Kernel, *, intercept: bool, cache_bytes: int = 2**24) -> PathState:
    return PathState(kernel, refactorize, intercept=intercept, cache_bytes=cache_bytes)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_descent_ends_near_the_optimum(name: str, intercept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decomposition, "MOST_STEPS", 1000)
    X, losses, total = problem(name, 1.0)
    state = state_of(Kernel("rbf", 0.5), intercept=intercept)
    state.insert(X, losses)
    state.total = total
    steps = decomposition.descend(state)
    assert steps < 1000 * N
    e, f = state.examples, state.examples.f[:N].copy()
    held = np.flatnonzero(state.rows.row_of[:N] >= 0)  # rows are left of examples with a coefficient alone
    assert e.beta[held].all()
    if steps:
        assert (state.rows.used[state.rows.row_of[held]] == state.rows.clock).any()  # and it is known which served last
    refresh(state)
    np.testing.assert_allclose(e.f[:N], f, atol=1e-10)  # f belongs to beta and b
    beta, piece = e.beta[:N], e.segment[:N] // 2
    free = e.segment[:N] & 1 == 1
    rows = np.arange(N)
    assert (beta[~free] == e.levels[rows, piece][~free]).all()
    assert (beta[free] < e.levels[rows, piece][free]).all()
    assert (beta[free] > e.levels[rows, np.minimum(piece + 1, 2)][free]).all()
    assert not intercept or abs(beta.sum() - total) <= 1e-9 * np.abs(beta).sum()
    kink = max(1.0, float(np.abs(losses.kinks[np.isfinite(losses.kinks)]).max()))
    if name != "one class":
        assert audited(state).violation <= 1.01 * decomposition.TOLERANCE * kink


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("linear")], ids=["rbf", "linear"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("name", LOSSES)
def test_pairs_and_path_end_at_the_same_optimum(name: str, C: float, kernel: Kernel) -> None:
    X, losses, total = problem(name, C)
    found = []
    for by_path in (True, False):
        state = state_of(kernel, intercept=True)
        slots, trace = fill(state, X, losses, total, by_path)
        refresh(state)
        audit = audited(state)
        assert audit.relative_gap <= 1e-9, audit
        assert trace.abandoned == (not by_path)
        found.append((audit.size, state.examples.f[slots].copy()))
    (size, f), (other, g) = found
    assert abs(size - other) <= 1e-8 * max(size, 1e-12)
    assert np.abs(f - g).max() <= 1e-4 * max(1.0, np.abs(f).max())


@pytest.mark.parametrize("rows", [2, 3, 80])
def test_few_rows_of_memory_are_enough(rows: int) -> None:
    X, losses, _ = problem("hinge", 0.01)
    state = state_of(Kernel("linear"), intercept=True, cache_bytes=8 * 512 * rows)
    state.insert(X, losses)
    assert state.capacity <= 512
    decomposition.descend(state)
    assert audited(state).violation <= 1.01 * decomposition.TOLERANCE


def test_without_memory_for_a_pair_there_is_no_descent() -> None:
    X, losses, _ = problem("hinge", 0.01)
    state = state_of(Kernel("linear"), intercept=True, cache_bytes=8)
    state.insert(X, losses)
    with pytest.raises(MemoryLimit):
        decomposition.descend(state)


def test_pairs_that_fail_are_given_up_for_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    X, losses, _ = problem("hinge", 1.0)
    state = state_of(Kernel("rbf", 0.5), intercept=True)

    def fail(_: PathState) -> int:
        raise NotOptimal("for a test")

    monkeypatch.setattr(batch_update, "descend", fail)
    monkeypatch.setattr(batch_update, "work_from_nothing", lambda *_: 1.0)  # it takes what it takes
    _, trace = fill(state, X, losses, 0.0, by_path=False)
    assert trace.abandoned == 1
    refresh(state)
    assert audited(state).relative_gap <= 1e-9


def test_a_path_may_take_the_work_of_its_whole_window(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table("replay", 200)
    model = IncrementalSVC(C=2.0, gamma=0.1).fit(rows.X[:150], rows.label[:150])
    asked = []

    def noted(n: int, n_free: int) -> float:
        asked.append((n, n_free))
        return batch_update.LITTLE_WORK

    n_free = model._window.state.n_free
    with monkeypatch.context() as patch:
        patch.setattr(batch_update, "work_from_nothing", noted)
        model.update((rows.X[150:], rows.label[150:]))
    assert asked == [(200, n_free)]


@pytest.mark.parametrize("task", ["svc", "classes", "svr", "one class"])
def test_a_path_that_costs_too_much_is_given_up_for_pairs(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table("replay", 340)
    model: IncrementalSVC | IncrementalSVR | IncrementalOneClassSVM
    y: Any = None
    if task == "one class":
        model = IncrementalOneClassSVM(nu=0.3, gamma=0.1)
    elif task == "svr":
        model, y = IncrementalSVR(C=2.0, gamma=0.1), rows.target
    else:
        model = IncrementalSVC(C=2.0, gamma=0.1)
        y = rows.label if task == "svc" else np.digitize(rows.target, [-0.5, 0.5])
    with monkeypatch.context() as patch:
        patch.setattr(batch_update, "work_from_nothing", lambda *_: 1.0)
        model.fit(rows.X[:300], None if y is None else y[:300])
    assert model.certificate().relative_gap <= 1e-9
    if task == "classes":
        return  # slides of pairs of classes are compiled calls
    add = rows.X[300:], None if y is None else y[300:]
    with monkeypatch.context() as patch:
        patch.setattr(batch_update, "work_from_nothing", lambda *_: 1.0)
        report = model.update(add, remove=model.keys_[:40])
    assert report.abandoned
    assert report.retrained
    assert model.certificate().relative_gap <= 1e-9
    fresh = type(model)(**model.get_params()).fit(model.window_X, model.window_y)
    ours, theirs = (m.predictor().decision_function(rows.X) for m in (model, fresh))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert not model.update(remove=model.keys_[:10]).abandoned


def test_where_both_ways_fail_the_model_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table("replay", 200)
    model = IncrementalSVC(C=2.0, gamma=0.1).fit(rows.X[:150], rows.label[:150])
    before = model.decision_function(rows.X)

    def fail(*_: object, **__: object) -> None:
        raise TooCostly("for a test")

    with monkeypatch.context() as patch:
        patch.setattr(batch_update, "follow", fail)
        patch.setattr(batch_update, "correct", fail)
        with pytest.raises(NotOptimal):
            model.update((rows.X[150:], rows.label[150:]), remove=model.keys_[:20])
    np.testing.assert_array_equal(model.decision_function(rows.X), before)
    assert model.n_window_ == 150
    model.update((rows.X[150:], rows.label[150:]), remove=model.keys_[:20])
    assert model.certificate().relative_gap <= 1e-9


def test_coefficients_that_cannot_have_their_sum_are_refused() -> None:
    X, losses, _ = problem("hinge", 1.0)
    state = state_of(Kernel("linear"), intercept=True)
    state.insert(X, losses)
    state.total = 1e6
    with pytest.raises(NotOptimal, match="sum"):
        decomposition.descend(state)
