"""Places that callers share: a number in all, and at most half of them for one caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from livesvm.service.errors import QueueFull


class Places:
    """So many places; used from one event loop.

    Parameters
    ----------
    limit : places in all
    full, half : what the error says where all places are taken, and where the half of the caller is
    """

    def __init__(self, limit: int, full: str, half: str) -> None:
        self._limit, self._share = limit, max(1, limit // 2)
        self._full, self._half = full, half
        self._held: Counter[Hashable] = Counter()

    def take(self, caller: Hashable, size: int = 1) -> None:
        """Hold places for a caller; None may have them all. Raises QueueFull at once."""
        if self._held.total() + size > self._limit:
            raise QueueFull(self._full)
        if caller is not None and self._held[caller] + size > self._share:
            raise QueueFull(self._half)
        self._held[caller] += size

    def give(self, caller: Hashable, size: int = 1) -> None:
        """Give places back."""
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]

    @contextmanager
    def place(self, caller: Hashable) -> Iterator[None]:
        """Hold one place inside; raises QueueFull at once."""
        self.take(caller)
        try:
            yield
        finally:
            self.give(caller)
