"""The service with solvers that are not warm until the file ``go`` is in its data directory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from livesvm.service.cli.main import main
from livesvm.service.lifecycle import parts
from livesvm.solvers import warm_up
from livesvm.solvers.warm_up import Family


def held(*families: Family) -> None:
    """Wait, then warm up."""
    while not (Path(os.environ["LIVESVM_DATA_DIR"]) / "go").exists():
        time.sleep(0.01)
    warm_up(*families)


if __name__ == "__main__":
    vars(parts)["warm_up"] = held
    sys.exit(main(["serve"]))
