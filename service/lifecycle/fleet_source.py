"""Deliver the entries of a fleet's source to the fleet's series; a column of each entry names the entry's series.

A series ignores a reading with a known time, so entries that a source delivers again after a crash have no second
effect. The fleet stores its progress when the effects of entries are durable; then it acknowledges the entries to the
source.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from livesvm.service.errors import ModelUnavailable
from livesvm.service.feeds.source_reader import Flow, SourceReader
from livesvm.service.feeds.sources.base import DeadLetter, SourceEntry
from livesvm.service.feeds.sources.opening import open_source
from livesvm.service.fleets import readings
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.names import name_of
from livesvm.service.fleets.split import Table
from livesvm.service.hosting.collection import Feeds
from livesvm.service.settings import Settings
from livesvm.solvers.errors import InvalidInput

Refused = dict[int, DeadLetter]


class FleetFed:
    """A fleet as the receiver of its source; implements :class:`~livesvm.service.feeds.source_reader.Fed`."""

    def __init__(self, fleets: Fleets, feeds: Feeds, fleet: Fleet) -> None:
        self._fleets, self._feeds, self._id = fleets, feeds, fleet.id
        self.progress = fleet.progress

    @property
    def is_open(self) -> bool:
        """Whether this service can write the fleet's first series, and so all; False while the fleet is deleted."""
        fleet = self._fleets.get(self._id)
        self.progress = fleet.progress
        first = self._feeds.page("", 1, fleet.prefix)
        return not fleet.deleting and not (first and first[0].state == "held")

    def deliver(self, entries: Sequence[SourceEntry], why: str | None = None) -> Future[None]:
        """Deliver entries to their series; refused entries become dead letters; if ``why`` is given, all entries do.

        Raises ModelUnavailable if a series can take no entry now; the source then hands all entries out again.
        """
        done: Future[None] = Future()
        done.set_result(None)
        source = self._fleets.get(self._id).spec.source
        entries = self.progress.new(entries)
        if source is None or not entries:
            return done
        if source.stamps:
            entries = self._stamped(entries)
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
        self.progress = self.progress.behind([entry.position for entry in entries], letters, source.in_flight)
        self._fleets.progressed(self._id, self.progress)
        return done

    def _stamped(self, entries: Sequence[SourceEntry]) -> list[SourceEntry]:
        """Return entries with the times of their first arrival, which are stored before any entry is applied."""
        fleet = self._fleets.get(self._id)
        time = str(fleet.spec.time)
        first = {
            one.position: fleet.arrived[one.position] for one in entries if one.again and one.position in fleet.arrived
        }
        stamped = [one._replace(row=one.row | {time: first.get(one.position, one.row.get(time))}) for one in entries]
        self._fleets.arrived(self._id, {one.position: one.row[time] for one in stamped if one.row[time] is not None})
        return stamped

    def _taken(self, numbered: list[tuple[int, SourceEntry]]) -> Refused:
        """Apply entries, and return dead letters; if a series refuses several entries, apply each of them by itself."""
        fleet = self._fleets.get(self._id)
        rows = [entry.row for _, entry in numbered]
        answer = readings.observe(self._fleets, self._feeds, fleet, Table(rows), None, is_whole=True)
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
            name = _named(entry, fleet.spec.series)
            if name is None or name in names:
                found |= self._taken([(number, entry)])
        return found


def _named(entry: SourceEntry, column: str) -> str | None:
    """Return the name of the series that an entry belongs to; None if the entry has no valid name."""
    try:
        return name_of(entry.row.get(column))
    except InvalidInput:
        return None


class FleetSources:
    """The threads that read the sources of fleets."""

    def __init__(self, fleets: Fleets, feeds: Feeds, settings: Settings, holder: str) -> None:
        self._fleets, self._feeds, self._settings, self._holder = fleets, feeds, settings, holder
        self._pumps: dict[str, SourceReader] = {}
        self._lock = threading.Lock()

    def start(self, fleet: Fleet) -> None:
        """Begin to read the source of a fleet, if the fleet has a source."""
        if fleet.spec.source is None or fleet.deleting:
            return
        source, layout = fleet.spec.source, fleet.spec.layout
        opened = partial(open_source, source, fleet.id, layout, self._settings, self._holder)
        fed = FleetFed(self._fleets, self._feeds, fleet)
        most = min(source.count, fleet.spec.window)  # of a series no more than it knows to have come before
        with self._lock:
            if fleet.id not in self._pumps:
                self._pumps[fleet.id] = pump = SourceReader(f"fleet {fleet.id}", fed, opened, most)
                pump.start()

    def forget(self, fleet: Fleet) -> None:
        """Stop reading for a fleet that is being deleted, and remove the fleet's traces at the source."""
        with self._lock:
            pump = self._pumps.pop(fleet.id, None)
        if pump is not None:
            pump.stop()
            pump.forget()

    def flow(self, fleet: Fleet) -> Flow:
        """Return the state of the thread that reads a fleet's source."""
        pump = self._pumps.get(fleet.id)
        return Flow() if pump is None else pump.flow

    def stop(self) -> None:
        """Stop reading all sources."""
        pumps = list(self._pumps.values())
        for pump in pumps:
            pump.leave()
        for pump in pumps:
            pump.stop()
