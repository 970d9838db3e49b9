"""The protocol of every window: for a path, for pairs of classes, or for trainings."""

from __future__ import annotations

from typing import Any, Protocol

from livesvm.solvers.validation import Key


class KeyedWindow(Protocol):
    """Examples by key, oldest first."""

    next_key: int  #: larger than every whole number that has been a key

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays, and of the table of keys."""

    def to_arrays(self) -> dict[str, Any]:
        """Return what a checkpoint needs, oldest first."""


def unused_keys(window: KeyedWindow, m: int) -> list[Key]:
    """Return ``m`` whole numbers that are no key of a window."""
    return list(range(window.next_key, window.next_key + m))
