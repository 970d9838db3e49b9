"""Whether forecasts have grown worse: the test of models, on errors that have no reading in common.

Errors of forecasts h steps ahead that are made one after the other depend on each other, as they wait for the same
readings. Each h-th does not, so a step's test takes these alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.scores import StepScores
from livesvm.solvers.analyses.drift.martingale import DriftTest
from livesvm.solvers.analyses.drift.window import means

FALSE_ALARMS = 0.01
"""Largest probability of a false alarm of a feed, over all its steps, while ``RUN`` errors of a step come."""
RUN = 1000


def tests_of(steps: Sequence[int]) -> list[DriftTest]:
    """Return a test for each step, which knows nothing yet."""
    return [DriftTest(FALSE_ALARMS / len(steps), run=RUN) for _ in steps]


def is_tested(step: int, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which errors of a step its test takes, by the slots of the readings that were forecast, (n,)."""
    return np.asarray(slots % step == 0)


def before_learning(test: DriftTest, scores: StepScores, task: str) -> dict[str, Any]:
    """Return errors of a step's newest forecasts, and the test that takes them, as JSON values."""
    losses = scores.losses(task)
    error = float(losses.mean()) if losses.size else None
    return {
        "false_alarms": test.false_alarms,
        "n_scored": test.n,
        "error": error,
        "evidence": test.strongest,
        "n": losses.size,
        "rolling": means(losses).tolist(),
    }


def learn(test: DriftTest, step: int, slot: int, error: float) -> int | None:
    """Take the error, >= 0, of a forecast for a slot; return how many readings ago errors have grown, if they have."""
    if slot % step:
        return None
    alarm = test.learn([error])
    return None if alarm is None else step * (alarm.at - alarm.began)


def restore(test: DriftTest, arrays: Mapping[str, Any]) -> None:
    """Take over what a test knew; one of another kind, which feeds had before, begins again."""
    if "scores" in arrays:
        test.restore(arrays)
