"""Rounds of ``follow``: the best one counts, and what has left the range of numbers ends at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import solve as follow
from livesvm.solvers.homotopy.optimality import Audit, audited
from livesvm.solvers.homotopy.run import Trace, walk_once
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState


def trained() -> PathState:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1)
    return IncrementalSVC(C=2.0, gamma=0.5).fit(X, y)._window.state


def test_the_best_round_is_kept_and_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both rounds leave b off its place, the second further, though both well enough."""
    state = trained()
    rounds: list[Audit] = []

    def worse(state: PathState, motion: Any, trace: Trace, *args: Any) -> tuple[bool, Audit]:
        arrived, audit = walk_once(state, motion, trace, *args)
        state.b += 3e-8 if rounds else 1e-8
        rounds.append(audit._replace(gap=1e-9 * audit.size))
        return arrived, rounds[-1]

    monkeypatch.setattr(follow, "walk_once", worse)
    b = state.b
    trace = follow.follow(state)
    assert len(rounds) > 1
    assert state.b == pytest.approx(b, abs=1.5e-8)
    assert trace.relative_gap == audited(state).relative_gap


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_ends_at_once(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    state = trained()
    state.set_losses(np.arange(3), Losses(np.full((3, 2), value), np.zeros((3, 3)), np.ones(3, np.int64)))
    state.examples.f[:] = value
    walks: list[int] = []

    def counted(*args: Any) -> tuple[bool, Audit]:
        walks.append(1)
        return walk_once(*args)

    monkeypatch.setattr(follow, "walk_once", counted)
    with pytest.raises(NotOptimal, match="double precision"):
        follow.follow(state)
    assert len(walks) == 1
