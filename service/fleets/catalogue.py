"""The catalogue of fleets; each fleet is a document in the store."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from livesvm.service.errors import FleetExists, NoSource, TooManyFleets, UnknownFleet
from livesvm.service.feeds.commands import Progress
from livesvm.service.feeds.forecaster import Preset
from livesvm.service.feeds.sources.base import Position
from livesvm.service.feeds.step_model import Recipe
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.history.journal import Source
from livesvm.service.history.names import prefix_of
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, StoreDamaged, StoreUnavailable

KIND = "fleet"
MOST = 1000
"""Most fleets of one store."""


@dataclass(frozen=True)
class Fleet:
    """A fleet: its specification, the settings that were chosen for all series, and whether it is being deleted."""

    id: str
    spec: FleetSpec
    created_at: float
    given: Preset | None = None
    deleting: bool = False
    progress: Progress = field(default_factory=Progress)  #: progress in the fleet's source
    arrived: Mapping[Position, float] = field(default_factory=dict)  #: arrival of the newest entries, if it is stamped

    @property
    def prefix(self) -> str:
        """The prefix of the ids of the fleet's series."""
        return prefix_of(self.id)

    @property
    def at_store(self) -> DocumentName:
        """The address of the fleet's document in the store."""
        return DocumentName(KIND, self.id)

    def encode(self) -> bytes:
        """Return the fleet as a document for the store."""
        given = None if self.given is None else [self.given.season, [list(one) for one in self.given.recipes]]
        document = {"spec": self.spec.model_dump(mode="json"), "created_at": self.created_at, "given": given}
        document |= {"deleting": self.deleting, "progress": self.progress, "arrived": list(self.arrived.items())}
        return json.dumps(document).encode()

    @classmethod
    def decode(cls, id: str, data: bytes) -> Fleet:
        """Return the fleet in a document; raises StoreDamaged."""
        try:
            found = json.loads(data)
            given = found["given"]
            shared = None if given is None else Preset(given[0], [Recipe(*one) for one in given[1]])
            spec = FleetSpec.model_validate(found["spec"])
            progress = Progress.decode(found["progress"])
            arrived = {tuple(position): time for position, time in found.get("arrived", ())}
            return cls(id, spec, found["created_at"], shared, found["deleting"], progress, arrived)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"fleet {id} cannot be read: {error}") from error


class Fleets:
    """The fleets of one service.

    Calls wait for the store; while the store is unavailable, they use the fleets that were read last.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self.settings = settings
        self._store, self._health = source.store, source.health
        self._read: dict[str, Fleet] = {}
        self._lock = threading.RLock()

    def create(self, id: str, spec: FleetSpec) -> Fleet:
        """Store a new fleet; raises FleetExists, TooManyFleets or StoreError."""
        with self._health.store_call("document"):
            names = [at.name for at in self._store.documents(KIND)]
            if id in names:
                raise FleetExists(f"a fleet {id} exists")
            if len(names) >= MOST:
                raise TooManyFleets(f"there are {MOST} fleets, the limit")
            return self._put(Fleet(id, spec, time.time()))

    def get(self, id: str) -> Fleet:
        """Return a fleet by its id; raises UnknownFleet or StoreError."""
        try:
            with self._health.store_call("load"):
                data = self._store.document(DocumentName(KIND, id))
        except StoreUnavailable:
            if id in self._read:
                return self._read[id]
            raise
        if data is None:
            self._read.pop(id, None)
            raise UnknownFleet(f"there is no fleet {id[:64]!r}")
        self._read[id] = found = Fleet.decode(id, data)
        return found

    def live(self, id: str) -> Fleet:
        """Return a fleet that takes readings; raises UnknownFleet, also for a fleet that is being deleted."""
        found = self.get(id)
        if found.deleting:
            raise UnknownFleet(f"fleet {id} is being deleted")
        return found

    def known(self) -> list[Fleet]:
        """Return the fleets that were read before, in the order of ids, without reading the store."""
        return [self._read[name] for name in sorted(self._read)]

    def learn(self) -> None:
        """Read all fleets; raises StoreError. A damaged fleet is skipped; :meth:`get` raises its error."""
        for name in self.names():
            with suppress(UnknownFleet, StoreDamaged):
                self.get(name)

    def names(self) -> list[str]:
        """Return the ids of all fleets, in order."""
        try:
            with self._health.store_call("load"):
                return sorted(at.name for at in self._store.documents(KIND))
        except StoreUnavailable:
            return sorted(self._read)

    def choose(self, fleet: Fleet, given: Preset | None) -> None:
        """Store the settings that were chosen for a fleet, unless it has some already."""
        if given is not None and fleet.given is None and self.get(fleet.id).given is None:
            self._change(fleet.id, given=given)

    def progressed(self, id: str, progress: Progress) -> None:
        """Store the progress of a fleet in its source, but keep the stored pause of the source."""
        # Under the lock, so that a pause at the same time is not overwritten.
        with self._lock:
            paused = self.get(id).progress.paused
            self._change(id, progress=progress._replace(paused=paused))

    def arrived(self, id: str, times: Mapping[Position, float]) -> None:
        """Store the arrival times of entries, before any of these entries takes effect."""
        self._change(id, arrived=times)

    def pause(self, fleet: Fleet, paused: bool) -> Fleet:
        """Stop or resume the reading of a fleet's source; raises NoSource."""
        if fleet.spec.source is None:
            raise NoSource(f"fleet {fleet.id} has no source")
        with self._lock:
            return self._change(fleet.id, progress=self.get(fleet.id).progress._replace(paused=paused))

    def begin_deletion(self, fleet: Fleet) -> None:
        """Mark a fleet as being deleted in the store, so that it takes no readings, also after a restart."""
        self._change(fleet.id, deleting=True)

    def end_deletion(self, fleet: Fleet) -> None:
        """Remove a fleet that has no series any more."""
        with self._health.store_call("document"):
            self._store.delete_document(fleet.at_store)
        self._read.pop(fleet.id, None)

    def _change(self, id: str, **changes: Any) -> Fleet:
        with self._lock:
            fleet = replace(self.get(id), **changes)
            with self._health.store_call("document"):
                return self._put(fleet)

    def _put(self, fleet: Fleet) -> Fleet:
        self._store.put_document(fleet.at_store, fleet.encode())
        self._read[fleet.id] = fleet
        return fleet


def settings_of(fleet: Fleet) -> dict[str, Any]:
    """Return the specification of a fleet as JSON values, with the settings chosen for all series."""
    chosen = None
    if fleet.given is not None:
        steps = zip(fleet.spec.horizons, fleet.given.recipes, strict=True)
        recipes = [{"step": step, **recipe._asdict()} for step, recipe in steps]
        chosen = {"season": fleet.given.season, "steps": recipes}
    return {**fleet.spec.model_dump(mode="json"), "chosen": chosen}
