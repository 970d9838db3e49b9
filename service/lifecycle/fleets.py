"""The fleets of one service: their scores, which are cached for a while, and deletions, which a restart finishes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

from livesvm.service.errors import ModelUnavailable
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.presenter import Document, scores
from livesvm.service.fleets.readings import ids_of
from livesvm.service.hosting.collection import Feeds
from livesvm.service.lifecycle.erasures import Erasures
from livesvm.service.lifecycle.fleet_source import FleetSources
from livesvm.service.monitoring.feeds import FleetSample
from livesvm.service.store.base import StoreError

ASIDE = 20.0
"""The scores of a fleet are reused for this many times as long as their computation took."""
SCRAPED_SECONDS = 60.0
"""How old the scores in metrics may be."""

log = logging.getLogger(__name__)


class FleetSupervisor:
    """The supervisor of all fleets, which computes their scores and deletes fleets. Its methods may block for long."""

    def __init__(self, fleets: Fleets, feeds: Feeds, erasures: Erasures, sources: FleetSources) -> None:
        self._fleets, self._feeds, self._erasures, self.sources = fleets, feeds, erasures, sources
        self._seen: dict[str, tuple[float, float, Document]] = {}  # when, how long it holds, what
        self._lock = threading.Lock()

    def scores(self, fleet: Fleet, at_least: float = 0.0) -> Document:
        """Return the scores over all series of a fleet; a result from the last ``at_least`` seconds is reused."""
        began = time.monotonic()
        seen = self._seen.get(fleet.id)
        if seen is not None and began - seen[0] < max(seen[1], at_least):
            return seen[2]
        found = scores(self._feeds, fleet)
        self._seen[fleet.id] = time.monotonic(), ASIDE * (time.monotonic() - began), found
        return found

    def samples(self) -> Iterator[FleetSample]:
        """Yield the sample of each fleet for the metrics."""
        for fleet in self._fleets.known():
            found = self.scores(fleet, SCRAPED_SECONDS)
            reported = found["scores"]
            numbers = reported["mean"], reported["median"], reported["ahead_of_naive"], reported["coverage"]
            source = None if fleet.spec.source is None else self.sources.flow(fleet).sample(fleet.progress.refused)
            yield FleetSample(fleet.id, found["states"], found["position"], *numbers, source)

    def delete(self, fleet: Fleet) -> None:
        """Delete all series, then the fleet; after StoreError or ModelUnavailable, the next start continues."""
        self._fleets.begin_deletion(fleet)
        self.sources.forget(fleet)
        with self._lock:
            self._erasures.delete_fleet(fleet.id, ids_of(self._feeds, fleet))
            self._fleets.end_deletion(fleet)
        self._seen.pop(fleet.id, None)

    def begin(self) -> None:
        """Start reading the sources of all fleets, and finish interrupted deletions.

        A deletion that cannot be finished yet is tried again at the next start of the service.
        """
        for fleet in self._fleets.known():
            try:
                if fleet.deleting:
                    self.delete(fleet)
                else:
                    self.sources.start(fleet)
            except (StoreError, ModelUnavailable) as error:
                log.warning("fleet %s is not deleted yet: %s", fleet.id, error)
