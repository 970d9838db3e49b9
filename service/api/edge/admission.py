"""Limits of the number of connections, in total and per client; a new connection may close an idle one."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class CountedConnection(Protocol):
    """A connection that counts towards the limits: its client, and since when it is idle; None if it is busy."""

    client_key: str
    rests_since: float | None

    def make_room(self) -> None:
        """Close this connection in favour of a new connection."""


class Admission:
    """The set of open connections, with its limits; for use from one event loop.

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
        """Admit a connection, if need be by closing an idle one; return False at a limit without an idle connection.

        Among the idle connections of the client with the most connections, the one that is idle for longest is closed.
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
        """Remove a connection from the set of open connections, if the set contains it."""
        self._held.discard(connection)
