"""Batches: readings of many feeds in one call, and the feeds' answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from livesvm.service.feeds.commands import Observations
from livesvm.service.feeds.forecaster import Preset
from livesvm.service.feeds.spec import FeedSpec

Document = dict[str, Any]

COUNTS = ("accepted", "ignored", "corrected", "announced")
"""Names of counts of rows, in the answer of a feed to its part of a batch."""


@dataclass(frozen=True)
class Refusal:
    """The reason why the readings of one feed were refused, with the row and the column that caused it, if one did."""

    reason: str
    row: int | None = None
    field: str | None = None
    of_rows: bool = True  #: whether other rows would not be refused


@dataclass(frozen=True)
class Batch:
    """Readings of many feeds, by feed id; each feed accepts all of its readings or none.

    Parameters
    ----------
    tables : of each feed, its readings as :class:`~livesvm.service.feeds.commands.Observations` keep them
    request : the Idempotency-Key; each feed remembers it with its own readings' digest, and its own answer
    at : Unix time
    spec : what feeds that there are not yet are created as; None: they are refused
    given : what they need not choose
    """

    tables: Mapping[str, Document]
    request: str | None
    at: float
    spec: FeedSpec | None = None
    given: Preset | None = None

    def call(self, id: str) -> Observations:
        """Return the command that sends the readings of one feed."""
        return Observations(self.tables[id], self.request, self.at)

    def part(self, ids: list[str]) -> Batch:
        """Return a batch with the readings of some of the feeds."""
        return replace(self, tables={id_: self.tables[id_] for id_ in ids})


@dataclass
class BatchDone:
    """The results of a batch by feed id: refusals, and answers, which are JSON with row counts and durability."""

    answers: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    replayed: int = 0  #: feeds that had taken it before
    given: Preset | None = None  #: what was chosen, or given

    def add(self, other: BatchDone) -> None:
        """Add the results of another part of the same batch."""
        self.answers |= other.answers
        self.refused |= other.refused
        self.replayed += other.replayed
        self.given = self.given or other.given
