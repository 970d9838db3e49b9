"""The service with feeds that do not wake until the file ``go`` is in its data directory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from livesvm.service.cli.main import main
from livesvm.service.hosting.feed import HostedFeed

recover = HostedFeed._recover


def held(feed: HostedFeed, *arguments: Any) -> Any:
    """Wait, then recover a feed."""
    while feed.id == "slow" and not (Path(os.environ["LIVESVM_DATA_DIR"]) / "go").exists():
        time.sleep(0.01)
    return recover(feed, *arguments)


if __name__ == "__main__":
    setattr(HostedFeed, "_recover", held)  # noqa: B010 - its type belongs to a method
    sys.exit(main(["serve"]))
