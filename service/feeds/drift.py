"""Tests for drift: say whether the forecast errors of a step have grown, using errors that do not overlap in time.

Errors of successive forecasts h steps ahead depend on each other, because their horizons overlap. The horizons of every
h-th forecast do not overlap, so the test of a step uses every h-th error only.
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
    """Return a new test for each step."""
    return [DriftTest(FALSE_ALARMS / len(steps), run=RUN) for _ in steps]


def is_tested(step: int, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which errors the test of a step uses, by the slots (n,) of the readings that were forecast."""
    return np.asarray(slots % step == 0)


def before_learning(test: DriftTest, scores: StepScores, task: str) -> dict[str, Any]:
    """Return the errors of a step's newest forecasts, and the state of its test, as JSON values."""
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
    """Feed the test an error, >= 0; on an alarm return how many readings ago errors began to grow, else None."""
    if slot % step:
        return None
    alarm = test.learn([error])
    return None if alarm is None else step * (alarm.at - alarm.began)


def restore(test: DriftTest, arrays: Mapping[str, Any]) -> None:
    """Restore the state of a test; a feed with a test of an older kind starts a new test."""
    if "scores" in arrays:
        test.restore(arrays)
