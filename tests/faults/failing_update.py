"""The service with a solver that fails, in an unforeseen way, whenever a feature is 666."""

from __future__ import annotations

import sys

import numpy as np

from livesvm.service.cli.main import main
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Change
from livesvm.solvers.models.report import UpdateReport

_learn = LiveEstimator.learn


def learn(model: LiveEstimator, change: Change) -> UpdateReport:
    """Leave the model in pieces."""
    add = change.add
    if add is not None and isinstance(add.X, np.ndarray) and np.any(add.X == 666.0):
        model._forget()
        raise ArithmeticError("nobody foresaw this")
    return _learn(model, change)


if __name__ == "__main__":
    LiveEstimator.learn = learn  # type: ignore[assignment, method-assign]
    sys.exit(main(["serve"]))
