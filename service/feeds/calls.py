"""What a feed is asked, as its log keeps it: calls of readings, and recipes to learn anew with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from livesvm.service.feeds.forecaster import Forecaster, Outcome
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.timeline import Plan, rows_of
from livesvm.service.store import codec
from livesvm.service.store.base import StoreDamaged
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]


class Call(Protocol):
    """One entry of a feed's log; ``request`` is the Idempotency-Key that it came with, ``at`` its Unix time."""

    @property
    def request(self) -> str | None: ...

    @property
    def at(self) -> float: ...

    def check(self, feed: Forecaster) -> Plan | None:
        """What it brings to a feed, which stays as it is; raises InvalidInput."""

    def apply(self, feed: Forecaster, plan: Plan | None) -> Outcome:
        """Bring it; ``plan`` is what ``check`` returned. Raises SolverError, with the feed broken."""

    def digest(self) -> bytes:
        """SHA-256 of what is asked."""

    def encode(self) -> bytes:
        """Bytes for the log."""


@dataclass(frozen=True)
class Observations:
    """Rows of one call, by column where all have the same; numbers as arrays (n,), NaN where there is none."""

    table: Document
    request: str | None
    at: float

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], request: str | None, at: float) -> Observations:
        """The call that brings these rows; raises InvalidInput if there is none."""
        if not rows:
            raise InvalidInput("holds no row", field="rows")
        names = list(rows[0])
        if all(row.keys() == rows[0].keys() for row in rows):
            return cls({"columns": {name: _packed([row[name] for row in rows]) for name in names}}, request, at)
        return cls({"rows": [dict(row) for row in rows]}, request, at)

    def rows(self) -> list[Document]:
        """The rows."""
        if "rows" in self.table:
            return list(self.table["rows"])
        columns = self.table["columns"].items()
        return rows_of({name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in columns})

    def check(self, feed: Forecaster) -> Plan:
        """What the rows bring; raises InvalidInput with row and column."""
        return feed.check(self.rows())

    def apply(self, feed: Forecaster, plan: Plan | None) -> Outcome:
        """Take the rows."""
        return feed.take(plan or self.check(feed))

    def digest(self) -> bytes:
        """SHA-256 of the rows."""
        return hashlib.sha256(codec.pack(self.table)).digest()

    def encode(self) -> bytes:
        """Bytes for the log."""
        return codec.encode({"observed": self.table, "request": self.request, "at": self.at})


@dataclass(frozen=True)
class Tuning:
    """Recipes that a job has found, one a step."""

    job: str
    recipes: list[Recipe]
    request: str | None
    at: float

    def check(self, feed: Forecaster) -> None:
        """Raise InvalidInput unless the feed has models, and as many steps."""
        if feed.state != "live" or len(self.recipes) != len(feed.steps):
            raise InvalidInput("the feed has other steps, or no models yet", field="choice")

    def apply(self, feed: Forecaster, plan: Plan | None) -> Outcome:
        """Learn the window anew with them."""
        return feed.adopt(self.recipes)

    def digest(self) -> bytes:
        """SHA-256 of what is asked."""
        return hashlib.sha256(codec.pack({"tuned": self.job})).digest()

    def encode(self) -> bytes:
        """Bytes for the log."""
        found = [list(recipe) for recipe in self.recipes]
        return codec.encode({"tuned": self.job, "recipes": found, "request": self.request, "at": self.at})


def decode_call(data: bytes) -> Call:
    """The call in a record of the log; raises StoreDamaged or StoreTooNew."""
    document = codec.decode(data)
    request, at = document.get("request"), document.get("at", 0.0)
    if "observed" in document:
        return Observations(document["observed"], request, at)
    if "tuned" in document:
        return Tuning(document["tuned"], [Recipe(*found) for found in document["recipes"]], request, at)
    raise StoreDamaged("the record holds no call of a feed")


def _packed(values: list[Any]) -> Any:
    """Numbers as an array, whatever else as it is."""
    if all(value is None or type(value) in (int, float) for value in values):
        return np.array([_number(value) for value in values])
    return values


def _number(value: float | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf
