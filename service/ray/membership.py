"""This process's membership of a Ray cluster: Ray crashes a process that calls it while, or after, it leaves.

Dropping a reference to an object of Ray is a call of Ray, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

CALL_SECONDS = 60.0
"""Longest wait for calls under way before the cluster is left."""
LOOK_SECONDS = 0.1
"""Longest time for which a call of Ray waits for an answer."""


class NotJoined(RayError):  # type: ignore[misc]  # Ray's types are not read
    """This process is leaving a cluster that does not know it any more, and joins again immediately."""


class Membership:
    """Counts the calls of Ray that are under way, and refuses new calls while this process leaves the cluster."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self._is_open = True
        self._kept: list[Any] = []  #: references that were still held when the cluster was left

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the block as a call of Ray under way; raises NotJoined while this process leaves the cluster."""
        with self._changed:
            if not self._is_open:
                raise NotJoined("this front end joins the cluster again")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def let_go(self, held: list[Any]) -> None:
        """Drop references to objects of Ray, or keep them for good if this process is leaving the cluster."""
        try:
            with self.inside():
                held.clear()
        except NotJoined:
            self._kept.append(held)

    def answer(self, ask: Callable[[], Any]) -> Any:
        """Call ``ask``, which makes a call of Ray and returns a reference; return the result for that reference.

        Raises the call's errors, and NotJoined if the cluster is left before there is an answer.
        """
        held: list[Any] = []
        try:
            with self.inside():
                held.append(ask())
            while True:
                with self.inside():
                    if ray.wait(held, timeout=LOOK_SECONDS)[0]:
                        return ray.get(held[0])
        finally:
            self.let_go(held)

    def close(self) -> None:
        """Refuse calls of Ray from now on, and wait up to ``CALL_SECONDS`` until the calls under way have ended."""
        end = time.monotonic() + CALL_SECONDS
        with self._changed:
            self._is_open = False
            while self._calls and time.monotonic() < end:
                self._changed.wait(end - time.monotonic())

    def open(self) -> None:
        """Permit calls of Ray again."""
        with self._changed:
            self._is_open = True


MEMBERSHIP = Membership()
"""The membership of this process, which has only one connection of Ray."""
