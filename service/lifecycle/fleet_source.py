"""A fleet's source: entries of many series, each assigned by its column of the series.

A reading that comes twice is ignored by its time, so what is handed out again after a crash has no second effect. The
fleet keeps how far it has come once the effect of entries is durable, and then they are settled.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from livesvm.service.errors import ModelUnavailable
from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.source_reader import SourceReader
from livesvm.service.feeds.sources.base import DeadLetter, Entry
from livesvm.service.feeds.sources.opening import open_source
from livesvm.service.fleets import readings
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.split import Table
from livesvm.service.hosting.handle import Feeds
from livesvm.service.settings import Settings

Refused = dict[int, DeadLetter]


class FleetFed:
    """A fleet as its pump sees it; implements :class:`~livesvm.service.feeds.source_reader.Fed`."""

    def __init__(self, fleets: Fleets, feeds: Feeds, fleet: Fleet) -> None:
        self._fleets, self._feeds, self._id = fleets, feeds, fleet.id
        self.progress = fleet.progress

    @property
    def is_open(self) -> bool:
        """Whether its series are not held by another service, as far as the first one tells."""
        fleet = self._fleets.get(self._id)
        self.progress = self.progress._replace(paused=fleet.progress.paused)
        first = self._feeds.page("", 1, fleet.prefix)
        return not fleet.deleting and not (first and first[0].state == "held")

    def deliver(self, entries: Sequence[Entry], why: str | None = None) -> Future[None]:
        """Have the series take entries; those that they refuse go to the dead letters. If ``why``, all do.

        Raises ModelUnavailable where a series cannot take anything now: then all are handed out again.
        """
        dead = {
            n: DeadLetter(one.position, None, fault) for n, one in enumerate(entries) if (fault := why or one.fault)
        }
        spec = self._fleets.get(self._id).spec
        unnamed = "does not name the series"
        for n, one in enumerate(entries):
            if n not in dead and not spec.shared and one.row.get(spec.series) is None:
                dead[n] = DeadLetter(one.position, spec.series, unnamed)
        good = [(n, one) for n, one in enumerate(entries) if n not in dead]
        if good:
            dead |= self._taken(good)
        letters = tuple(dead[n] for n in sorted(dead))
        before = self.progress
        self.progress = Progress(entries[-1].position, letters, before.refused + len(letters), before.paused)
        self._fleets.progressed(self._id, self.progress)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _taken(self, numbered: list[tuple[int, Entry]]) -> Refused:
        """Return what is refused of some entries: of a series that refuses some, each is tried by itself."""
        fleet = self._fleets.get(self._id)
        rows = [entry.row for _, entry in numbered]
        answer = readings.observe(self._fleets, self._feeds, fleet, Table(rows), (b"", None), is_whole=True)
        if not answer["refused"]:
            return {}
        if len(numbered) == 1:
            (number, entry), refusal = numbered[0], answer["refused"][0]
            if not refusal["of_rows"]:
                raise ModelUnavailable(f"series {refusal['series']}: {refusal['reason']}")
            return {number: DeadLetter(entry.position, refusal["field"], refusal["reason"])}
        names = {refusal["series"] for refusal in answer["refused"]}
        found: Refused = {}
        for number, entry in numbered:
            name = entry.row.get(fleet.spec.series)
            if name is None or name in names:
                found |= self._taken([(number, entry)])
        return found


class FleetSources:
    """The pumps of all fleets that have a source."""

    def __init__(self, fleets: Fleets, feeds: Feeds, settings: Settings, holder: str) -> None:
        self._fleets, self._feeds, self._settings, self._holder = fleets, feeds, settings, holder
        self._pumps: dict[str, SourceReader] = {}
        self._lock = threading.Lock()

    def start(self, fleet: Fleet) -> None:
        """Begin to read the source of a fleet, if it has one."""
        if fleet.spec.source is None or fleet.deleting:
            return
        named = fleet.spec.source, fleet.id, fleet.spec.time, self._settings, self._holder
        opened = partial(open_source, *named, frozenset({fleet.spec.series}))
        fed = FleetFed(self._fleets, self._feeds, fleet)
        with self._lock:
            if fleet.id not in self._pumps:
                self._pumps[fleet.id] = pump = SourceReader(f"fleet {fleet.id}", fed, opened, fleet.spec.source.count)
                pump.start()

    def forget(self, fleet: Fleet) -> None:
        """Read nothing more for a fleet that is being deleted, and have the source forget it."""
        with self._lock:
            pump = self._pumps.pop(fleet.id, None)
        if pump is not None:
            pump.stop()
            pump.forget()

    def fault(self, fleet: Fleet) -> str | None:
        """Return why the source of a fleet is not read."""
        pump = self._pumps.get(fleet.id)
        return None if pump is None else pump.flow.fault

    def stop(self) -> None:
        """Read nothing more."""
        pumps = list(self._pumps.values())
        for pump in pumps:
            pump.leave()
        for pump in pumps:
            pump.stop()
