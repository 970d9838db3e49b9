"""Waiting for jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 30.0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
