"""The end of a walk: whose f is computed afresh there, and how the state is judged."""

from __future__ import annotations

import numpy as np

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refresh import BLOCK, refresh_close
from livesvm.solvers.problem.state import PathState

BAND = 1e-9


def crowded(copies: int) -> PathState:
    """Return an optimum in whose window copies of a free example stand at the kink with it, bound."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=60) > 0, 1, -1)
    model = IncrementalSVC(C=2.0, gamma=0.5, classes=(-1, 1)).fit(X, y)
    state = model._window.state
    free = state.free_slots()[0]
    model.update(add=(np.repeat(X[free : free + 1], copies, axis=0), np.repeat(y[free], copies)))
    return model._window.state


def close_to_a_kink(state: PathState) -> np.ndarray:
    e, n = state.examples, state.n_slots
    return np.flatnonzero((np.abs(e.f[:n, None] - e.kinks[:n]).min(axis=1) <= BAND) & (e.segment[:n] % 2 == 0))


def true_f(state: PathState) -> np.ndarray:
    slots = np.arange(state.n_slots)
    return state.kernel_rows(slots) @ state.examples.beta[slots] + state.b


def test_an_audit_counts_the_bound_examples_close_to_a_kink() -> None:
    state = crowded(5)
    close = close_to_a_kink(state)
    assert close.size >= 4  # all copies but one that is free
    assert audited(state, BAND).n_close == close.size
    assert audited(state).n_close == 0


def test_their_f_is_computed_afresh_and_no_other() -> None:
    state = crowded(5)
    close = close_to_a_kink(state)
    f = state.examples.f
    far = int(np.argmax(np.abs(f[: state.n_slots, None] - state.examples.kinks[: state.n_slots]).min(axis=1)))
    f[close] += 1e-10
    f[far] += 1e-10
    assert refresh_close(state, BAND)
    exact = true_f(state)
    assert np.abs(f[close] - exact[close]).max() < 1e-13
    assert abs(f[far] - exact[far] - 1e-10) < 1e-13


def test_no_close_example_is_nothing_to_do() -> None:
    state = crowded(1)
    state.examples.f[close_to_a_kink(state)] += 1e-3
    before = state.examples.f.copy()
    assert not refresh_close(state, 0.0)
    assert np.array_equal(state.examples.f, before)


def test_a_crowd_is_left_alone_until_free_examples_were_far_off() -> None:
    state = crowded(BLOCK + 10)
    close = close_to_a_kink(state)
    assert close.size > max(BLOCK, state.n_free)
    state.drift = 0.0
    state.examples.f[close] += 1e-11
    assert not refresh_close(state, BAND)
    state.drift = BAND
    assert refresh_close(state, BAND)
    assert np.abs(state.examples.f[: state.n_slots] - true_f(state)).max() < 1e-12
    assert state.drift == 0.0
