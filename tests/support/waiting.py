"""Waiting until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds until a test that waits fails: Ray starts workers meanwhile, and machines are slow."""


def until(holds: Callable[[], object]) -> None:
    """Return when something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "that never held"
        time.sleep(0.02)
