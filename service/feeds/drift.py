"""Whether forecasts have grown worse: the test of models, on errors that have no reading in common.

Errors of forecasts h steps ahead that are made one after the other depend on each other, as they wait for the same
readings. Each h-th does not, so a step's test takes these alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livesvm.solvers.analyses.drift.martingale import DriftTest

FALSE_ALARMS = 0.01
"""Largest probability of a false alarm of a feed, over all its steps, while ``RUN`` errors of a step come."""
RUN = 1000


def tests_of(steps: Sequence[int]) -> list[DriftTest]:
    """Return a test for each step, which knows nothing yet."""
    return [DriftTest(FALSE_ALARMS / len(steps), run=RUN) for _ in steps]


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
