"""Announcements of an actor to front ends: the present views of its replicas."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import Any
from uuid import uuid4

from livesvm.service.ray.messages import View

GONE_SECONDS = 600.0
"""Time for which the deletion or rest of a replica is announced; after it, the store's index has both."""


class Announcer:
    """The views of an actor's replicas, in the order in which they last changed; None for a deleted replica."""

    def __init__(self) -> None:
        self.incarnation, self.moment = uuid4().hex, 0
        self._views: dict[str, tuple[int, float, View | None]] = {}

    def view(self, stored: str) -> View | None:
        """Return the last view that was noted of a replica, None if there is none."""
        return self._views.get(stored, (0, 0.0, None))[2]

    def note(self, stored: str, found: Any) -> bool:
        """Note the present state of a replica, None if it was deleted; return whether its view has changed."""
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
        """Return the views that have changed since ``moment``, a count of changes; moment 0 selects all views."""
        new = takewhile(lambda one: one[1][0] > moment, reversed(self._views.items()))
        return {stored: view for stored, (_, _, view) in new}

    def due(self) -> list[str]:
        """Return the stored names of the replicas in memory, because these may change without a call.

        The views of replicas that were deleted or put to rest a while ago are dropped, because the index describes such
        replicas.
        """
        until = time.monotonic() - GONE_SECONDS
        in_memory = {
            id_: reported for id_, reported in self._views.items() if reported[2] is not None and not reported[2].rests
        }
        self._views = {
            id_: reported for id_, reported in self._views.items() if id_ in in_memory or reported[1] > until
        }
        return list(in_memory)
