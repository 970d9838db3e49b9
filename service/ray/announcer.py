"""Announcements of an actor to the front ends that watch: how its replicas are."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import Any
from uuid import uuid4

from livesvm.service.ray.messages import View

GONE_SECONDS = 600.0
"""For which watchers hear that one is gone, or went to rest; the store's index says it as well."""


class Announcer:
    """What is reported of those that live here, in the order in which it changed; None of those that are gone."""

    def __init__(self) -> None:
        self.incarnation, self.moment = uuid4().hex, 0
        self._views: dict[str, tuple[int, float, View | None]] = {}

    def view(self, stored: str) -> View | None:
        """Return how one was at the last look."""
        return self._views.get(stored, (0, 0.0, None))[2]

    def note(self, stored: str, found: Any) -> bool:
        """Look how a replica is now, None if there is none; whether that is new."""
        before, moment = self.view(stored), self.moment + 1
        life = (self.incarnation, moment) if before is None or before.rests else before.life
        now = None if found is None else View.of(found, life, moment)
        if now == before or (now and before and now.rests and now.now == before.now):
            return False
        self.moment = moment
        self._views.pop(stored, None)
        self._views[stored] = moment, time.monotonic(), now
        return True

    def since(self, moment: int) -> dict[str, View | None]:
        """Return what has changed since a moment; since the first, all."""
        new = takewhile(lambda one: one[1][0] > moment, reversed(self._views.items()))
        return {stored: view for stored, (_, _, view) in new}

    def due(self) -> list[str]:
        """Return those that may change without being asked.

        The index alone tells of those that were at rest for a while.
        """
        until = time.monotonic() - GONE_SECONDS
        in_memory = {
            id_: reported for id_, reported in self._views.items() if reported[2] is not None and not reported[2].rests
        }
        self._views = {
            id_: reported for id_, reported in self._views.items() if id_ in in_memory or reported[1] > until
        }
        return list(in_memory)
