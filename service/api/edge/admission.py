"""Admission of connections: a limit in all and for each client; idle connections are closed for new ones."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class CountedConnection(Protocol):
    """A connection for admission: its client, and the time since which it is idle (None: a request is under way)."""

    client_key: str
    rests_since: float | None

    def make_room(self) -> None:
        """Close the connection, because a new connection needs its place."""


class Admission:
    """The set of open connections; used from one event loop.

    Parameters
    ----------
    limit : largest number of open connections
    client_limit : largest number of open connections of one client
    """

    def __init__(self, limit: int, client_limit: int) -> None:
        self._limit = limit
        self._client_limit = client_limit
        self._held: set[CountedConnection] = set()

    def admit(self, connection: CountedConnection) -> bool:
        """Admit a connection, if necessary by closing an idle one; return False if a limit is met and none is idle.

        The connection that is closed is the longest idle one of the client with the most connections.
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
        """Remove a connection from the set of open connections, if it is there."""
        self._held.discard(connection)
