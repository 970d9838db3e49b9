"""Waiting until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds until a test that waits fails: Ray starts workers meanwhile, and machines are slow."""


def until(holds: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Return what something is once it holds; fails where it does not in time."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "that never held"
        time.sleep(0.02)
    return found
