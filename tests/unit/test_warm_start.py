"""A state back from its coefficients: the same by any number of threads, and no more than it needs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.homotopy import refactorize
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.threads import PART, at_work, in_parts, threads, wait_for_rest


def trained(n: int = 300, C: float = 1.0, **parameters: Any) -> LiveSVC:
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], n)
    X = rng.normal(size=(n, 5)) + 0.4 * y[:, None]
    return LiveSVC(C=C, gamma=0.2, classes=(-1, 1), **parameters).fit(X, y)


def again(model: LiveSVC, **changed: Any) -> LiveSVC:
    return LiveSVC.from_arrays(model.get_params() | changed, model.to_arrays())


def state_of(model: LiveSVC) -> PathState:
    return model._window.state


def test_parts_keep_their_order_by_any_number_of_threads() -> None:
    slots = np.arange(5 * PART + 3)
    for count in (1, 2, 7):
        with threads(count):
            parts = in_parts(lambda part: part.copy(), slots)
        np.testing.assert_array_equal(np.concatenate(parts), slots)
        assert max(part.size for part in parts) == PART


def test_an_error_in_one_part_is_raised() -> None:
    def work(part: NDArray[np.int64]) -> None:
        if part[0] == PART:
            raise MemoryLimit(2 * 2**20, 2**20)

    with threads(2), pytest.raises(MemoryLimit, match=r"need 2\.0 MiB"):
        in_parts(work, np.arange(4 * PART))


def test_others_wait_while_they_are_asked_to() -> None:
    waited = threading.Event()

    def wait() -> None:
        wait_for_rest(60.0)
        waited.set()

    wait_for_rest(60.0)  # no solve asks
    with at_work():
        with at_work():
            waiting = threading.Thread(target=wait)
            waiting.start()
        assert not waited.wait(0.05)
    waiting.join(60.0)
    assert waited.is_set()


def test_f_and_rows_do_not_depend_on_the_number_of_threads() -> None:
    model = trained()
    alone = state_of(again(model))
    with threads(3):
        shared = state_of(again(model))
        shared.prepare()
    held = np.flatnonzero(alone.rows.row_of >= 0)
    assert held.size > 0
    np.testing.assert_array_equal(shared.rows.row_of, alone.rows.row_of)
    ours, theirs = (state.rows.values[state.rows.row_of[held], : state.n_slots] for state in (shared, alone))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(shared.examples.f, alone.examples.f)


def test_f_is_that_of_the_data() -> None:
    model = trained(5 * PART + 7)
    state = state_of(again(model))
    predictor = model.predictor()
    f = predictor.decision_function(model.window_X)
    np.testing.assert_allclose(state.examples.f[: state.n], f, rtol=0, atol=1e-12)


def test_kernel_rows_and_factor_wait_for_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained()
    built: list[int] = []
    build = refactorize.refactorize

    def noted(state: PathState, free: NDArray[np.int64]) -> None:
        built.append(free.size)
        build(state, free)

    monkeypatch.setattr("livesvm.solvers.models.path_problem.refactorize", noted)
    back = again(again(model))
    assert back.certificate().relative_gap <= 1e-10
    X = model.window_X[:5]
    np.testing.assert_allclose(
        back.predictor().decision_function(X), model.predictor().decision_function(X), rtol=0, atol=1e-12
    )
    assert state_of(back).n_free == state_of(model).n_free
    assert built == []
    leaving = model.keys_[:20]
    for one in (model, back):
        one.update(add=(X + 0.1, np.ones(5)), remove=leaving)
    assert built == [again(trained())._window.state.n_free]
    np.testing.assert_allclose(back.window_X, model.window_X)
    np.testing.assert_allclose(
        back.predictor().decision_function(X), model.predictor().decision_function(X), rtol=0, atol=1e-8
    )
    back.prepare()
    assert len(built) == 1


def test_what_waits_goes_on_waiting_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    back = again(trained())
    build = refactorize._factored

    def failing(state: PathState, free: NDArray[np.int64]) -> bool:
        raise MemoryError

    n_free = state_of(back).n_free
    with monkeypatch.context() as patched:
        patched.setattr(refactorize, "_factored", failing)
        with pytest.raises(MemoryError):
            back.prepare()
    assert refactorize._factored is build
    back.prepare()
    state = state_of(back)
    assert (state.n_free, state.free_slots().size) == (n_free, n_free)
    np.testing.assert_array_equal(np.flatnonzero(state.rows.row_of >= 0), np.sort(state.free_slots()))


def test_only_rows_of_free_examples_are_cached() -> None:
    state = state_of(again(trained()))
    assert 0 < state.n_free < np.count_nonzero(state.examples.beta)
    np.testing.assert_array_equal(np.flatnonzero(state.rows.row_of >= 0), np.sort(state.free_slots()))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_factor_is_that_of_the_free_block(fit_intercept: bool) -> None:
    state = state_of(again(trained(fit_intercept=fit_intercept)))
    free, m, fac = state.free_slots(), state.n_free, state.factor
    R = np.triu(fac.R[:m, :m])
    block = state.kernel_rows(free)[:, free] + (state.kappa if fit_intercept else 0.0)
    np.testing.assert_allclose(R.T @ R, block, rtol=0, atol=1e-13)
    np.testing.assert_allclose(R.T @ fac.y[1, :m], np.ones(m), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(fac.position[free], np.arange(m))


def test_a_free_block_without_an_inverse_is_factored_all_the_same() -> None:
    model = LiveSVC(C=10.0, gamma=0.5, classes=(-1, 1))
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), [-1, -1, 1, 1]
    model.fit(X, y)
    arrays = model.to_arrays()
    arrays["beta"] = np.repeat([arrays["beta"][:2].mean(), arrays["beta"][2:].mean()], 2)
    arrays["segments"] = np.ones(4, np.int64)  # twins that are free together
    restored = LiveSVC.from_arrays(model.get_params(), arrays)
    assert restored.certificate().relative_gap <= 1e-12
    np.testing.assert_allclose(
        restored.predictor().decision_function(X), model.predictor().decision_function(X), atol=1e-12
    )


def test_rows_that_do_not_fit_into_the_cache_are_refused_by_name() -> None:
    with pytest.raises(MemoryLimit, match="cache_mb=1 would do"):
        again(trained(), cache_mb=0.01)
