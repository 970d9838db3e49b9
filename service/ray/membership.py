"""This process's membership of a cluster; Ray ends a process that calls it after it has left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ray.exceptions import RayError

CALL_SECONDS = 10.0
"""Longest wait for calls under way before the cluster is left."""


class NotJoined(RayError):  # type: ignore[misc]  # Ray's types are not read
    """This process is leaving a cluster that does not know it any more, and joins again at once."""


class Membership:
    """Counts the calls of Ray that are under way, and keeps new ones out while the cluster is left."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self._is_open = True

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count a call of Ray that is made inside; raises NotJoined while the cluster is left."""
        with self._changed:
            if not self._is_open:
                raise NotJoined("this front end joins the cluster anew")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse calls of Ray from now on, and wait up to ``CALL_SECONDS`` until those under way have ended."""
        end = time.monotonic() + CALL_SECONDS
        with self._changed:
            self._is_open = False
            while self._calls and time.monotonic() < end:
                self._changed.wait(end - time.monotonic())

    def open(self) -> None:
        """Let Ray be called again."""
        with self._changed:
            self._is_open = True


MEMBERSHIP = Membership()
"""The membership of this process, which has only one connection of Ray."""
