"""Admission of connections: a limit in all and for each client; idle connections are closed for new ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Held(Protocol):
    """A connection as the admission sees it: its client, and since when it rests (None: a request is under way)."""

    client_key: str
    rests_since: float | None

    def make_room(self) -> None:
        """Close, as another one needs the place."""


class Admission:
    """The connections that are held; used from one event loop.

    Parameters
    ----------
    limit : connections at once
    client_limit : of one client
    """

    def __init__(self, limit: int, client_limit: int) -> None:
        self._limit = limit
        self._client_limit = client_limit
        self._held: dict[str, set[Held]] = {}
        self._count = 0

    def admit(self, connection: Held) -> bool:
        """Take a connection in, where need be for one that rests; False where none does."""
        own = self._held.get(connection.client_key, set())
        if len(own) >= self._client_limit:
            candidates: Collection[Held] = own
        elif self._count >= self._limit:
            candidates = [held for connections in self._held.values() for held in connections]
        else:
            candidates = ()
        if candidates and not self._make_room(candidates):
            return False
        self._held.setdefault(connection.client_key, set()).add(connection)
        self._count += 1
        return True

    def leave(self, connection: Held) -> None:
        """Forget a connection, if it is held."""
        own = self._held.get(connection.client_key, set())
        if connection in own:
            own.remove(connection)
            self._count -= 1
            if not own:
                del self._held[connection.client_key]

    def _make_room(self, candidates: Collection[Held]) -> bool:
        """Close the one that has rested longest, of the client that holds most."""
        resting = [
            (-len(self._held[c.client_key]), c.rests_since, id(c), c) for c in candidates if c.rests_since is not None
        ]
        if not resting:
            return False
        *_, chosen = min(resting)
        self.leave(chosen)
        chosen.make_room()
        return True
