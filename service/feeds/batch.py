"""Readings of many feeds in one call, and what came of them."""

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
    """Why the readings of one feed were refused: the row among them, and the column, where it is one's fault."""

    reason: str
    row: int | None = None
    field: str | None = None
    of_rows: bool = True  #: whether other rows would not be refused


@dataclass(frozen=True)
class Batch:
    """Readings of many feeds, by id; each feed takes its own whole or not at all.

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
        """Return the call that brings the readings of one feed."""
        return Observations(self.tables[id], self.request, self.at)

    def part(self, ids: list[str]) -> Batch:
        """Return the same of some feeds."""
        return replace(self, tables={id_: self.tables[id_] for id_ in ids})


@dataclass
class BatchDone:
    """What came of a batch: of each feed its answer, JSON of the counts and the durability, and refusals; by ids."""

    answers: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    replayed: int = 0  #: feeds that had taken it before
    given: Preset | None = None  #: what was chosen, or given

    def add(self, other: BatchDone) -> None:
        """Add what came of another part."""
        self.answers |= other.answers
        self.refused |= other.refused
        self.replayed += other.replayed
        self.given = self.given or other.given
