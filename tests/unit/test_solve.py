"""Rounds of ``follow``: the best one counts, and what has left the range of numbers ends at once."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import run
from livesvm.solvers.homotopy.optimality import Audit, audited
from livesvm.solvers.homotopy.run import Solve, Trace, follow
from livesvm.solvers.homotopy.solve import solve
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.entry_point import entry_point

MOST_FRAMES = 8


def trained() -> PathState:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1)
    return IncrementalSVC(C=2.0, gamma=0.5).fit(X, y)._window.state


def test_the_best_round_is_kept_and_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both rounds leave b off its place, the second further, though both well enough."""
    state = trained()
    rounds: list[Audit] = []

    real = Solve.round

    def worse(solving: Solve, trace: Trace, precision: float, allowance: float) -> tuple[bool, bool, Audit]:
        _, arrived, _ = real(solving, trace, precision, allowance)
        state.b += 3e-8 if rounds else 1e-8
        audit = audited(state)
        rounds.append(audit._replace(gap=1e-9 * audit.size))
        return False, arrived, rounds[-1]

    monkeypatch.setattr(Solve, "round", worse)
    b = state.b
    trace = follow(state)
    assert len(rounds) > 1
    assert state.b == pytest.approx(b, abs=1.5e-8)
    assert trace.relative_gap == audited(state).relative_gap


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_ends_at_once(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    state = trained()
    state.set_losses(np.arange(3), Losses(np.full((3, 2), value), np.zeros((3, 3)), np.ones(3, np.int64)))
    state.examples.f[:] = value
    trace = Trace()
    with pytest.raises(NotOptimal, match="double precision"):
        follow(state, trace)
    assert trace.rounds == 1


def test_no_more_than_the_compiled_call_stands_between_an_update_and_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of Python on the stack where the solve is called: what an update costs next to its path is theirs."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X, np.where(X[:, 0] > 0, 1, -1))
    frames: list[str] = []

    def looked(*args: Any) -> int:
        frames[:] = [frame.name for frame in traceback.extract_stack()]
        return solve(*args)

    monkeypatch.setattr(Solve, "_entry", lambda *_: looked)
    model.update(add=([[0.1, 0.2]], [1]), remove=model.keys_[:1])
    path = frames[frames.index("update") :]
    assert len(path[:-1]) <= MOST_FRAMES, path


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows whenever the types of a solve's arguments are looked up."""
    looks: list[Any] = []
    real = entry_point

    def looking(function: Any, *arguments: Any) -> Any:
        looks.append(arguments)
        return real(function, *arguments)

    monkeypatch.setattr(run, "entry_point", looking)
    return looks


def test_types_are_looked_up_once_for_the_same_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1, -1)
    model = IncrementalSVC(C=2.0, gamma=0.5).fit(X[:40], y[:40])
    state, looks = model._window.state, looked_at(monkeypatch)
    for i in range(40, 50):
        model.update(add=(X[i : i + 1], y[i : i + 1]), remove=model.keys_[:1])
    assert not looks  # but for those of ``fit``
    replaced = [
        lambda: state.resize(state.capacity + 64),
        lambda: state.make_room_for_free(state.factor.R.shape[0]),
        lambda: state.allow(state.cache_bytes // 2),
        state.cool,
    ]
    for i, replace in enumerate(replaced, 50):
        replace()
        before = len(looks)
        model.update(add=(X[i : i + 1], y[i : i + 1]), remove=model.keys_[:1])
        assert len(looks) > before
        assert looks[-1][0].rows is state.rows.values
        assert looks[-1][0].examples is state.examples
    assert model.certificate().relative_gap < 1e-9


def test_types_are_looked_up_at_each_call_where_losses_come_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    state, looks = trained(), looked_at(monkeypatch)
    solving = Solve(state)
    losses = state.losses(np.arange(2))
    solving.begin(state.n_slots, run.NO_EXAMPLES, run.NO_EXAMPLES, np.arange(2), losses)
    follow(state, solving=solving)
    assert not looks
