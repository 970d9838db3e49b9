"""The service with a solver that holds an update which adds and lets decay by a half, until it may go on.

It says so by the file ``held`` in its data directory, and goes on at the file ``go``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from livesvm.service.cli.main import main
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Change
from livesvm.solvers.models.report import UpdateReport

_learn = LiveEstimator.learn


def learn(model: LiveEstimator, change: Change) -> UpdateReport:
    """Wait, then update."""
    if change.add is not None and change.edits is not None and change.edits.decay == 0.5:
        directory = Path(os.environ["LIVESVM_DATA_DIR"])
        (directory / "held").touch()
        while not (directory / "go").exists():
            time.sleep(0.01)
    return _learn(model, change)


if __name__ == "__main__":
    LiveEstimator.learn = learn  # type: ignore[assignment, method-assign]
    sys.exit(main(["serve"]))
