"""Admission of connections: a limit in all and for each client; idle connections are closed for new ones."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class CountedConnection(Protocol):
    """A connection as the admission sees it: its client, and since when it rests (None: a request is under way)."""

    client_key: str
    rests_since: float | None

    def make_room(self) -> None:
        """Close the connection, as another one needs its place."""


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
        self._held: set[CountedConnection] = set()

    def admit(self, connection: CountedConnection) -> bool:
        """Admit a connection, if need be by closing one that rests; return False if none rests.

        The client with the most connections loses the one that has rested longest.
        """
        counts, client = Counter(held.client_key for held in self._held), connection.client_key
        is_over = counts[client] >= self._client_limit
        if is_over or len(self._held) >= self._limit:
            resting = [
                (-counts[held.client_key], held.rests_since, id(held), held)
                for held in self._held
                if held.rests_since is not None and (not is_over or held.client_key == client)
            ]
            if not resting:
                return False
            *_, chosen = min(resting)
            self.leave(chosen)
            chosen.make_room()
        self._held.add(connection)
        return True

    def leave(self, connection: CountedConnection) -> None:
        """Forget a connection, if it is held."""
        self._held.discard(connection)
