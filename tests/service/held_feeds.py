"""The service with feeds that are not restored until the file ``go`` is in its data directory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from livesvm.service.cli.main import main
from livesvm.service.feeds.registry import Feeds

bring_back = vars(Feeds)["_bring_back"]


def held(*arguments: Any) -> None:
    """Wait, then restore a feed."""
    while not (Path(os.environ["LIVESVM_DATA_DIR"]) / "go").exists():
        time.sleep(0.01)
    bring_back(*arguments)


if __name__ == "__main__":
    setattr(Feeds, "_bring_back", held)  # noqa: B010 - its type is of a method
    sys.exit(main(["serve"]))
