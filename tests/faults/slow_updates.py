"""The service with solves that take a few hundredths of a second more, in which they can be ended."""

from __future__ import annotations

import random
import sys
import time

from livesvm.service.cli.main import main
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Change
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.runtime.interrupt import check

MOST_SECONDS = 0.04
_learn = LiveEstimator.learn


def learn(model: LiveEstimator, change: Change) -> UpdateReport:
    """Take some time first."""
    _wait()
    return _learn(model, change)


def _wait() -> None:
    end = time.monotonic() + random.uniform(0.0, MOST_SECONDS)
    while time.monotonic() < end:
        check()
        time.sleep(0.001)


if __name__ == "__main__":
    LiveEstimator.learn = learn  # type: ignore[assignment, method-assign]
    sys.exit(main(["serve"]))
