"""The service with a solver that holds an update which adds and lets decay by a half, until it may go on.

It says so by the file ``held`` in its data directory, and goes on at the file ``go``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from livesvm.service.cli.main import main
from livesvm.solvers.models.base import LiveEstimator

_update = LiveEstimator.update


def update(model: LiveEstimator, add: Any = None, *arguments: Any, **options: Any) -> Any:
    """Wait, then update."""
    if add is not None and options.get("decay") == 0.5:
        directory = Path(os.environ["LIVESVM_DATA_DIR"])
        (directory / "held").touch()
        while not (directory / "go").exists():
            time.sleep(0.01)
    return _update(model, add, *arguments, **options)


if __name__ == "__main__":
    LiveEstimator.update = update  # type: ignore[assignment, method-assign]
    sys.exit(main(["serve"]))
