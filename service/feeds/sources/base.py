"""The contract of a source: every reading that it holds has exactly one effect on a feed.

A source holds *entries*, and hears when their effect is durable. Each has a position, which a feed keeps in the same
record of its log as the effect.

- Where positions are one order, later ones higher, a feed keeps the one up to which it has taken entries. The source
  hands out what is behind that, in order and without a gap. What it remembers itself saves work, and nothing depends
  on it.
- Where a source has several orders, as topics of a broker have, positions tell entries apart and no more. The source
  hands out what is not settled, each topic in its order. An entry that comes ``again`` is one that was handed out and
  not settled before. The feed keeps the newest positions that it took, as many as may be in flight, and passes over
  those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Position = tuple[int, ...]
"""Of an entry; where a source has one order, compared as tuples are."""


class SourceError(Exception):
    """The source cannot be read now, and why; the message is for people and holds no credentials."""


class Layout(NamedTuple):
    """The columns that a feed reads, the target first; that of times, None if there is none, and a fleet's series."""

    columns: tuple[str, ...]
    time: str | None = None
    series: str | None = None


class SourceEntry(NamedTuple):
    """One reading as its source has it: by column, numbers, text, or None where there is nothing.

    Of one that is no reading at all, ``fault`` says why. ``again``: the source knows that it was handed out before.
    """

    position: Position
    row: dict[str, Any]
    fault: str | None = None
    again: bool = False


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

    def begin(self, taken: Position | None, dead: Sequence[DeadLetter]) -> bool:
        """Go on behind what a feed has ``taken``; of that, its newest call refused ``dead``.

        Return whether the source does not remember the feed, where it is what remembers how far that is.
        """

    def fetch(self, taken: Position | None, most: int, seconds: float) -> list[SourceEntry]:
        """Return the next entries, behind ``taken`` where there is one order; none if none comes in ``seconds``."""

    def settle(self, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        """Know that the effect of these is durable, or that they were refused: which goes to the dead letters."""

    def backlog(self, taken: Position | None) -> Backlog:
        """Return how many entries wait behind ``taken``; SourceError too where new ones would come before it."""

    def forget(self) -> None:
        """Forget what it remembers of the feed; entries and dead letters stay."""

    def close(self) -> None:
        """Release it; no call may follow."""
