"""The service with a solver that fails, in an unforeseen way, whenever a feature is 666."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from livesvm.service.cli.main import main
from livesvm.solvers.models.base import LiveEstimator

_update = LiveEstimator.update


def update(model: LiveEstimator, add: Any = None, *arguments: Any, **options: Any) -> Any:
    """Leave the model in pieces."""
    if add is not None and isinstance(add[0], np.ndarray) and np.any(add[0] == 666.0):
        model._forget()
        raise ArithmeticError("nobody foresaw this")
    return _update(model, add, *arguments, **options)


if __name__ == "__main__":
    LiveEstimator.update = update  # type: ignore[assignment, method-assign]
    sys.exit(main(["serve"]))
