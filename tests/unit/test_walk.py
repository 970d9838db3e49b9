"""Parts of the compiled walk along a path: what an outer iteration teaches of the next, and what an event ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.active_set.reactivation import LEAST_PACE
from livesvm.solvers.active_set.shrinking import IDLE, IDLE_EVENTS, count_idle, follow_path, learn_pace
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.motion import set_motion
from livesvm.solvers.homotopy.optimality import scales
from livesvm.solvers.homotopy.refresh import combine
from livesvm.solvers.homotopy.run import Solve, Trace, walk_of


def begun() -> Walk:
    """Return a walk that has not begun, from an optimum to that of a larger C."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=60) > 0, 1, -1)
    model = IncrementalSVC(C=2.0, gamma=0.5, classes=(-1, 1)).fit(X, y)
    state = model._window.state
    state.examples.levels[:60] *= 1.5
    motion, moving = state.motion, np.empty(state.n_slots, np.int64)
    m = set_motion(state.examples, motion, state.n_slots, moving)
    motion.bound_rate[: state.n_slots] = combine(state, moving[:m], motion.v[moving[:m]])
    return walk_of(state, motion, scales(state, motion.v))


def test_a_stride_without_an_event_says_that_events_take_no_less() -> None:
    w = begun()
    w.at[0].pace = 0.5
    found = []
    for used, events in ((0.2, 0), (0.8, 0), (0.4, 4), (0.0, 4)):
        learn_pace(w, used, events)
        found.append(float(w.at[0].pace))
    assert found == pytest.approx([0.5, 0.8, 0.1, LEAST_PACE])


@pytest.mark.parametrize("events", [0, 10 * IDLE_EVENTS])
def test_a_path_with_many_strides_for_its_events_goes_on_without(events: int) -> None:
    w = begun()
    w.at[0].events = events
    for _ in range(IDLE + events // IDLE_EVENTS):
        count_idle(w)
    assert w.at[0].whole == 0
    count_idle(w)
    assert w.at[0].whole == w.at[0].budget > 0


@pytest.mark.slow  # compiles a walk of its own
def test_a_step_ends_a_row_of_events_without_one() -> None:
    w = begun()
    w.at[0].zero_steps = 5
    follow_path(w)
    assert w.at[0].events > 0
    assert w.at[0].zero_steps == 0


def test_with_many_free_examples_a_direction_serves_several_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step takes beyond its limits is back by the end of the path, through all outer iterations."""
    rng, traces = np.random.default_rng(1), list[Trace]()
    X = rng.normal(size=(4000, 5))[:1900]
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=4000)[:1900] > 0, 1, -1)
    model = IncrementalSVC(C=1.0, gamma=1.0, classes=(-1, 1)).fit(X[:1000], y[:1000])
    real = Solve.round

    def noted(solving: Solve, trace: Trace, *rest: Any) -> Any:
        traces.append(trace)
        return real(solving, trace, *rest)

    monkeypatch.setattr(Solve, "round", noted)
    for k in range(1000, 1900, 50):
        batch = slice(k, k + 50)
        report = model.update(add=(X[batch], y[batch]), remove=model.keys_[:50])
        assert report.rounds == 1
    assert model.certificate().relative_gap < 1e-12
    work, events = (sum(getattr(trace, name) for trace in traces) for name in ("work", "events"))
    assert report.n_free > 300
    assert work < events * report.n_free**2
