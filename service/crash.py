"""Named points in the code at which a fault test can make the process kill itself.

With ``LIVESVM_CRASH_AT=after-log:3``, the process kills itself, as ``kill -9`` would, when it passes the point
``after-log`` for the third time. Only this module reads this environment variable; if it is not set, the points do
nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POINTS = ("before-log", "after-log", "before-publish", "before-answer")
"""Every update passes these, in this order."""
SNAPSHOT_POINTS = ("before-snapshot", "in-snapshot", "after-snapshot")
"""Every snapshot passes these; at the second it is written, but a restart would not find it yet."""

SOLUTION_POINTS = ("before-solution", "after-solution")
"""Every solution passes these."""

REST_POINTS = ("before-rest", "after-rest", "before-wake", "after-wake")
"""Every replica that goes to rest passes the first two; every replica that wakes passes the others."""

ERASE_POINTS = ("erase-begun", "erase-solved", "erase-superseded", "erase-forgotten", "erase-wiped", "erase-signed")
"""Every erasure passes these, in this order."""

SOURCE_POINTS = ("before-settle", "after-settle")
"""Every delivery of a source passes these: when its effect is durable, and when the source knows that."""

WEBHOOK_POINTS = ("before-announce", "before-delivered")
"""Every event for webhooks passes the first before it is stored; every delivery passes the second."""

DATASET_POINTS = ("erase-rewritten",)
"""Erasures in datasets pass these too, once for each dataset, between "erase-forgotten" and "erase-wiped"."""

DELETE_POINTS = ("deleted",)
"""Every deletion of a model or a feed passes these, when the store has deleted it and its jobs still exist."""

VARIABLE = "LIVESVM_CRASH_AT"

_name, _, _times = os.environ.get(VARIABLE, "").partition(":")
_left = int(_times or 1)


_paused = False


@contextmanager
def paused() -> Iterator[None]:
    """Disable all points in all threads during the ``with`` block."""
    global _paused
    _paused = True
    try:
        yield
    finally:
        _paused = False


def _die_at(name: str) -> None:
    """Kill the process if the environment variable asks for this at the point ``name``."""
    global _left
    if name != _name or _paused:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


point: Callable[[str], object] = _die_at if _name else bool
