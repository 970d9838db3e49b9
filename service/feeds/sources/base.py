"""The contract of sources: every reading that a source holds has exactly one effect on a feed.

A source holds *entries*. The reader of a source settles an entry: it reports to the source that the effect of the entry
is durable. Every entry has a position, which a feed stores in the same log record as the effect.

- In some sources all positions have one order, so that later entries have higher positions. For a source with one
  order, the feed stores the position up to which it has taken entries. The source hands out the entries after the
  stored position, in order and without a gap. The source's own record of settled entries only saves work; the result
  does not depend on this record.
- Other sources have several orders, such as the topics of a broker. In a source with several orders, positions only
  tell entries apart. The source hands out the entries that are not settled, in the order of each topic. An entry is
  marked ``again`` if the source has handed it out before without settling. The feed stores the newest positions that it
  took, as many as may be in flight, and skips entries at these positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Position = tuple[int, ...]
"""Of an entry; where a source has one order, compared as tuples are."""


class SourceError(Exception):
    """The error that a source cannot be read now; its message is meant for display, and holds no credentials."""


class Layout(NamedTuple):
    """The columns that a feed reads, the target first; the column of times, or None; and a fleet's column of series."""

    columns: tuple[str, ...]
    time: str | None = None
    series: str | None = None


class SourceEntry(NamedTuple):
    """One reading in a source; ``row`` has a number, a text, or None for an empty cell, by column.

    If the entry is not a reading at all, ``fault`` is the reason. ``again`` is true if the source knows that it has
    handed out the entry before.
    """

    position: Position
    row: dict[str, Any]
    fault: str | None = None
    again: bool = False


class DeadLetter(NamedTuple):
    """An entry that a feed has refused, with the reason, and the column at fault, if there is one."""

    position: Position
    field: str | None
    reason: str


@dataclass(frozen=True)
class Backlog:
    """The number of entries that a feed has not taken yet; with ``at_least``, there may be more."""

    entries: int
    at_least: bool = False


class Source(Protocol):
    """The protocol of sources; one thread uses a source. Every call blocks, and may raise SourceError."""

    def begin(self, taken: Position | None, dead: Sequence[DeadLetter]) -> bool:
        """Continue after the position ``taken``; ``dead`` are the entries that the feed's newest call refused.

        If the source itself keeps the feed's progress, the result is whether the source has no record of the feed.
        """

    def fetch(self, taken: Position | None, most: int, seconds: float) -> list[SourceEntry]:
        """Return the next entries, after ``taken`` if positions have one order; empty if none come in ``seconds``."""

    def settle(self, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        """Mark entries as done: their effect is durable, or the feed refused them, and they become dead letters."""

    def backlog(self, taken: Position | None) -> Backlog:
        """Return how many entries wait after ``taken``; raises SourceError also if new ones would precede ``taken``."""

    def forget(self) -> None:
        """Remove what the source stores about the feed; entries and dead letters stay."""

    def close(self) -> None:
        """Release the source's resources; no call may follow."""
