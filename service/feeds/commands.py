"""The commands in a feed's log: readings that were sent or delivered, new model settings, and pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from livesvm.service.feeds.cells import rows_of
from livesvm.service.feeds.forecaster import FeedEvent, FeedOutcome, Forecaster, Preset, StepUpdate
from livesvm.service.feeds.model_selection import Trial
from livesvm.service.feeds.row_tables import table_of
from livesvm.service.feeds.sources.base import DeadLetter, Position, SourceEntry
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.feeds.timeline import Plan
from livesvm.service.store import codec
from livesvm.service.store.base import StoreDamaged
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]
NONE: Document = {"rows": []}
"""The table of no rows."""


class Progress(NamedTuple):
    """A feed's progress in its source: the last position taken, the newest refused entries, and a count of all refused.

    For a source without one total order, ``recent`` has the positions of the newest taken entries, which may come
    again.
    """

    taken: Position | None = None
    dead: tuple[DeadLetter, ...] = ()
    refused: int = 0
    paused: bool = False
    recent: tuple[Position, ...] = ()

    @classmethod
    def decode(cls, found: Sequence[Any]) -> Progress:
        """Return the progress that was stored as lists; the lists of older versions have no ``recent``."""
        taken, dead, refused, paused, *recent = found
        letters = tuple(DeadLetter(tuple(position), field, reason) for position, field, reason in dead)
        came = tuple(map(tuple, recent[0])) if recent else ()
        return cls(None if taken is None else tuple(taken), letters, refused, paused, came)

    def new(self, entries: Sequence[SourceEntry]) -> list[SourceEntry]:
        """Return the entries that the feed has not taken yet."""
        taken, recent = self.taken, frozenset(self.recent)
        return [
            entry
            for entry in entries
            if (taken is None or entry.position > taken) and not (entry.again and entry.position in recent)
        ]

    def behind(self, came: Sequence[Position], dead: Sequence[DeadLetter], in_flight: int) -> Progress:
        """Return the progress after one or more entries at the positions ``came``; ``dead`` are the refused entries.

        ``in_flight`` is how many entries the source may send again; 0 for a source with one total order.
        """
        taken = None if in_flight else came[-1]
        recent = (*self.recent, *came)[-in_flight:] if in_flight else ()
        return Progress(taken, tuple(dead), self.refused + len(dead), self.paused, recent)


class FeedCall(ABC):
    """One command in a feed's log; ``request`` is the Idempotency-Key of its call, ``at`` the call's Unix time.

    ``action`` names the kind of command in the audit log.
    """

    request: str | None
    at: float
    action: ClassVar[str] = "observe"

    def check(self, feed: Forecaster) -> Plan | None:
        """Return the plan of this command's effect on a feed without changing the feed; raises InvalidInput."""
        return None

    @abstractmethod
    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Apply the ``plan`` that ``check`` returned. After SolverError the feed is unusable."""

    def after(self, progress: Progress) -> Progress:
        """Return the progress in the source after the command; only deliveries and pauses change the progress."""
        return progress

    def digest(self) -> bytes:
        """Return the SHA-256 of the command's content; empty for a command without an Idempotency-Key."""
        return b""

    @abstractmethod
    def encode(self) -> bytes:
        """Return the command as a record for the log."""


@dataclass(frozen=True)
class Observations(FeedCall):
    """Rows of one call, stored by column if all have the same columns; numbers are arrays (n,), NaN if missing.

    With ``is_first`` the record comes from version 0.2.0, and the rules of that version apply, see ``Timeline.read``;
    in 0.2.0 a feed could choose settings in the middle of a call.
    """

    table: Document
    request: str | None
    at: float
    given: Preset | None = None  #: what is not chosen where this call fills the window, or was chosen before it
    is_first: bool = False

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], request: str | None, at: float) -> Observations:
        """Return the command that sends these rows; raises InvalidInput if there are no rows."""
        return cls(table_of(rows), request, at)

    def rows(self) -> list[Document]:
        """Return the rows."""
        if "rows" in self.table:
            return list(self.table["rows"])
        columns = self.table["columns"].items()
        return rows_of({name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in columns})

    def check(self, feed: Forecaster) -> Plan:
        """Return the plan for the rows; raises InvalidInput, also for a row with a time far after ``at``."""
        return feed.check(self.rows(), now=self.at)

    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Apply the rows by ``plan``.

        Rows without a plan come from the log. They are checked first, but their times may be far apart.
        """
        plan = plan or feed.check(self.rows(), logged=True, is_first=self.is_first)
        return feed.take(plan, self.given, chooses=self.is_first)

    def with_given(self, given: Preset) -> Observations:
        """Return the same command with settings that the feed uses instead of choosing its own."""
        return replace(self, given=given)

    def digest(self) -> bytes:
        """Return the SHA-256 of the rows."""
        return codec.digest(self.table)

    def encode(self) -> bytes:
        """Return the command as a record for the log."""
        document = {"observed": self.table, "request": self.request, "at": self.at}
        return codec.encode(document | {"given": _given_as_lists(self.given)})


@dataclass(frozen=True)
class FeedTuning(FeedCall):
    """A command to train a feed's models with the settings that a tuning job found, one recipe for each step."""

    job: str
    recipes: list[Recipe]
    request: str | None
    at: float

    def check(self, feed: Forecaster) -> None:
        """Raise InvalidInput unless the feed has models, and one step for each recipe."""
        if feed.state != "live" or len(self.recipes) != len(feed.steps):
            raise InvalidInput("the feed has other steps, or no models yet", field="choice")

    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Train the feed's models on the window with the new recipes."""
        return feed.adopt(self.recipes)

    def digest(self) -> bytes:
        """Return the SHA-256 of the command's content."""
        return codec.digest({"tuned": self.job})

    def encode(self) -> bytes:
        """Return the command as a record for the log."""
        found = [list(recipe) for recipe in self.recipes]
        return codec.encode({"tuned": self.job, "recipes": found, "request": self.request, "at": self.at})


@dataclass(frozen=True)
class FeedUpdate(FeedCall):
    """A command that gives the models of some steps fewer examples, or another C."""

    changes: list[StepUpdate]
    request: str | None
    at: float
    action = "update"

    def check(self, feed: Forecaster) -> None:
        """Raise InvalidInput if a step is unknown, or is to keep more examples than its models have."""
        if feed.rows is None or not feed.models:
            raise InvalidInput("the feed has no models yet", field="id")
        for row, one in enumerate(self.changes):
            if one.step not in feed.steps:
                raise InvalidInput(f"{one.step} is none of the feed's steps", field="steps", row=row)
            n = len(feed.rows.learnt_by(feed.steps.index(one.step)))
            if one.keep is not None and one.keep > n:
                reason = f"asks for {one.keep} examples, the models of step {one.step} hold {n}"
                raise InvalidInput(reason, field="steps", row=row)

    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Change the models along solution paths."""
        return feed.update(self.changes)

    def digest(self) -> bytes:
        """Return the SHA-256 of the command's content."""
        return codec.digest({"updated": list(map(list, self.changes))})

    def encode(self) -> bytes:
        """Return the command as a record for the log."""
        return codec.encode({"updated": list(map(list, self.changes)), "request": self.request, "at": self.at})


@dataclass(frozen=True)
class Delivery(FeedCall):
    """A command with readings from a source, without those that were refused.

    ``came`` has the positions of all entries. For a source with one total order, ``came`` has only the last position,
    and ``in_flight`` is 0.
    """

    reading: Observations
    came: tuple[Position, ...]
    dead: list[DeadLetter]
    at: float
    in_flight: int = 0
    request = None

    @classmethod
    def of(
        cls, entries: Sequence[SourceEntry], feed: Forecaster, at: float, why: str | None = None, in_flight: int = 0
    ) -> Delivery:
        """Return the command for entries; refuse those that the feed cannot take, or all for the reason ``why``."""
        good: list[Document] = []
        dead: list[DeadLetter] = []
        waiting = list(entries)
        while waiting:
            found = _first_refused(feed, at, good, waiting, why)
            if found is None:
                good += [entry.row for entry in waiting]
                break
            number, letter = found
            good += [entry.row for entry in waiting[:number]]
            dead.append(letter)
            waiting = waiting[number + 1 :]
        reading = Observations(table_of(good) if good else NONE, None, at)
        came = tuple(entry.position for entry in (entries if in_flight else entries[-1:]))
        return cls(reading, came, dead, at, in_flight=in_flight)

    def check(self, feed: Forecaster) -> Plan:
        """Return the plan for the readings."""
        return self.reading.check(feed)

    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Apply the readings to the feed."""
        return self.reading.apply(feed, plan)

    def with_given(self, given: Preset) -> Delivery:
        """Return the same command with settings that the feed uses instead of choosing its own."""
        return replace(self, reading=self.reading.with_given(given))

    def after(self, progress: Progress) -> Progress:
        """Return the progress after these entries."""
        return progress.behind(self.came, self.dead, self.in_flight)

    def encode(self) -> bytes:
        """Return the command as a record for the log."""
        table = None if self.reading.table == NONE else self.reading.table
        dead = [[list(letter.position), letter.field, letter.reason] for letter in self.dead]
        document = {"delivered": table, "dead": dead, "at": self.at}
        document["given"] = _given_as_lists(self.reading.given)
        if self.in_flight:
            came = {"came": [list(position) for position in self.came], "in_flight": self.in_flight}
        else:
            came = {"taken": list(self.came[-1])}
        return codec.encode(document | came)

    @classmethod
    def decode(cls, document: Document) -> Delivery:
        """Return the command in a decoded log record."""
        at, table = document["at"], document["delivered"]
        dead = [DeadLetter(tuple(position), field, reason) for position, field, reason in document["dead"]]
        reading = _observations(NONE if table is None else table, None, at, document)
        came = tuple(map(tuple, document["came"] if "came" in document else [document["taken"]]))
        return cls(reading, came, dead, at, document.get("in_flight", 0))


def _observations(table: Document, request: str | None, at: float, document: Document) -> Observations:
    """Return the rows in a log record, with the settings that it gives to the feed; records of 0.2.0 give none."""
    if (given := document.get("given")) is None:
        return Observations(table, request, at, None, is_first="given" not in document)
    season, recipes, trials = given
    tried = [Trial(step, Recipe(*recipe), error) for step, recipe, error in trials]
    return Observations(table, request, at, Preset(season, [Recipe(*recipe) for recipe in recipes], tried))


def _first_refused(
    feed: Forecaster, at: float, before: Sequence[Document], entries: Sequence[SourceEntry], why: str | None
) -> tuple[int, DeadLetter] | None:
    """Return which entry is the first that the feed refuses, if it takes ``before`` first, and the reason."""
    for number, entry in enumerate(entries):
        if (fault := why or entry.fault) is not None:
            earlier = _first_refused(feed, at, before, entries[:number], None) if number else None
            return earlier or (number, DeadLetter(entry.position, None, fault))
    rows = [*before, *(entry.row for entry in entries)]
    if (error := _fault(feed, rows, at)) is None:
        return None
    low, high = 0, len(entries)  # the first ``low`` can be taken, the first ``high`` cannot
    while high - low > 1:
        middle = (low + high) // 2
        found = _fault(feed, rows[: len(before) + middle], at)
        if found is None:
            low = middle
        else:
            high, error = middle, found
    return high - 1, DeadLetter(entries[high - 1].position, error.field, error.reason)


def _fault(feed: Forecaster, rows: Sequence[Document], at: float) -> InvalidInput | None:
    try:
        feed.check(rows, now=at)
    except InvalidInput as error:
        return error
    return None


@dataclass(frozen=True)
class Pause(FeedCall):
    """A command that pauses or resumes the reading of a feed's source."""

    paused: bool
    at: float
    request = None

    def apply(self, feed: Forecaster, plan: Plan | None) -> FeedOutcome:
        """Report the event of the pause; the feed and its forecasts stay unchanged."""
        kind, line = "paused" if self.paused else "resumed", feed.timeline
        return FeedOutcome(0, 0, 0, [], list(feed.latest), [FeedEvent(kind, line.slot, line.time, {})])

    def after(self, progress: Progress) -> Progress:
        """Return the progress, marked as paused or resumed; the position does not change."""
        return progress._replace(paused=self.paused)

    def encode(self) -> bytes:
        """Return the command as a record for the log."""
        return codec.encode({"paused": self.paused, "at": self.at})


def decode_call(data: bytes) -> FeedCall:
    """Return the command in a record of the log; raises StoreDamaged or StoreTooNew."""
    document = codec.decode(data)
    request, at = document.get("request"), document["at"]
    if "observed" in document:
        return _observations(document["observed"], request, at, document)
    if "tuned" in document:
        return FeedTuning(document["tuned"], [Recipe(*found) for found in document["recipes"]], request, at)
    if "updated" in document:
        return FeedUpdate([StepUpdate(*change) for change in document["updated"]], request, at)
    if "delivered" in document:
        return Delivery.decode(document)
    if "paused" in document:
        return Pause(document["paused"], at)
    raise StoreDamaged("the record holds no call of a feed")


def _given_as_lists(given: Preset | None) -> list[Any] | None:
    if given is None:
        return None
    trials = [[one.step, list(one.recipe), one.error] for one in given.trials]
    return [given.season, [list(recipe) for recipe in given.recipes], trials]
