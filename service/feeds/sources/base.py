"""The contract of a source: every reading that it holds has exactly one effect on a feed.

A source holds *entries* in an order of its own: each has a position, later ones higher ones. A feed keeps, in the same
record of its log as their effect, the position up to which it has taken them; a source only has to hand out what is
behind that, in order and without a gap, and to be told when the effect of entries is durable. What it then remembers
of that itself saves work and is shown to people, and nothing depends on it: where it has forgotten, the feed knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Position = tuple[int, ...]
"""Of an entry, compared as tuples are."""


class SourceError(Exception):
    """The source cannot be read now, and why; the message is for people and holds no credentials."""


class Entry(NamedTuple):
    """One reading as its source has it: by column, numbers, text, or None where there is nothing.

    Of one that is no reading at all, ``fault`` says why.
    """

    position: Position
    row: dict[str, Any]
    fault: str | None = None


class DeadLetter(NamedTuple):
    """An entry that a feed has refused: which column is wrong, where it is one, and why."""

    position: Position
    field: str | None
    reason: str


@dataclass(frozen=True)
class Backlog:
    """Entries that a feed has not taken; ``at_least`` where there may be more than were counted."""

    entries: int
    at_least: bool = False


class Source(Protocol):
    """The protocol; used by one thread. Every call blocks, and raises SourceError."""

    def begin(self, taken: Position | None, dead: Sequence[DeadLetter]) -> None:
        """Go on behind what a feed has ``taken``; of that, its newest call refused ``dead``."""

    def fetch(self, taken: Position | None, most: int, seconds: float) -> list[Entry]:
        """Return the next entries behind ``taken``, in order; none if none has come within so many seconds."""

    def settle(self, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        """Know that the effect of these is durable, or that they were refused: which goes to the dead letters."""

    def backlog(self, taken: Position | None) -> Backlog:
        """Return how many entries wait behind ``taken``; SourceError too where new ones would come before it."""

    def forget(self) -> None:
        """Forget what it remembers of the feed; entries and dead letters stay."""

    def close(self) -> None:
        """Let go of it; no call may follow."""
