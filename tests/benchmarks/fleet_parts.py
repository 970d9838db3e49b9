"""What the parts of a call take that brings one reading to each series of a fleet: in one process, without HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from livesvm.service.api.bodies import rows
from livesvm.service.feeds import step_model
from livesvm.service.feeds.blend import Blend
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.represent import StepFeatures
from livesvm.service.feeds.scores import StepScores
from livesvm.service.feeds.state import FeedState, View
from livesvm.service.feeds.step_model import StepModel
from livesvm.service.fleets import readings
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.history.journal import Source
from livesvm.service.hosting import batch
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import HostedFeed
from livesvm.service.hosting.registry import Registry
from livesvm.service.hosting.replica import Replica
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.sqlite import SqliteStore

MEDIA = "text/csv"
PARTS: list[tuple[str, Any, str]] = [
    ("rows parsed, and told apart by series", rows, "parse_table"),
    ("rows parsed, and told apart by series", readings, "split"),
    ("rows checked", HostedFeed, "plan_with"),
    ("asked for the key of the request", batch, "remembering"),
    ("encoded for the log", HostedFeed, "appending"),
    ("log and requests, in SQLite", batch, "append_together"),
    ("learnt: kernel rows, factors, paths", step_model, "slide"),
    ("features of the window, written out", StepFeatures, "write"),
    ("forecast: kernel rows", StepModel, "predict"),
    ("features of the new rows", Forecaster, "_row"),
    ("experts, and their weights", Blend, "forecast"),
    ("experts, and their weights", Blend, "learn"),
    ("scores, bands, drift", Forecaster, "_score"),
    ("scores, bands, drift", StepScores, "learn"),
    ("what readers see", View, "of"),
    ("events", FeedState, "_told"),
    ("put away", Replica, "cool_held"),
    ("answers kept, in SQLite", batch, "remember_together"),
    ("answer of the call", readings, "reported"),
]
"""Of a call: what each part is, and what does it; one inside of another does not count as that one's."""


@dataclass
class Clock:
    """Processor time of this thread by part; ``rest`` has what no part is charged with."""

    seconds: dict[str, float] = field(default_factory=dict)
    _inside: list[str] = field(default_factory=lambda: ["the rest"])
    _since: float = 0.0

    def charge(self) -> None:
        """Charge what has passed to the part that is under way."""
        now, part = time.thread_time(), self._inside[-1]
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now

    def watched(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the work, charged to a part."""

        @wraps(work)
        def timed(*arguments: Any, **named: Any) -> Any:
            """Do it."""
            self.charge()
            self._inside.append(part)
            try:
                return work(*arguments, **named)
            finally:
                self.charge()
                self._inside.pop()

        return timed


def _has(owner: Any, name: str) -> Any:
    """Return the module or the class, of an owner and its bases, that has a name itself."""
    return next(one for one in getattr(owner, "__mro__", [owner]) if name in vars(one))


@contextmanager
def charged(clock: Clock) -> Iterator[None]:
    """Have the clock know what runs inside."""
    places = [(_has(owner, name), name) for _, owner, name in [*PARTS, ("", batch.Together, "hot")]]
    was = [(owner, name, vars(owner)[name]) for owner, name in places]
    batch.Together.hot = 0  # of thousands in a call these few are not used
    for (owner, name, found), (part, _, _) in zip(was, PARTS, strict=False):
        is_made = isinstance(found, classmethod)
        work = clock.watched(part, found.__func__ if is_made else found)
        setattr(owner, name, classmethod(work) if is_made else work)
    clock.seconds.clear()
    clock._since = time.thread_time()
    try:
        yield
        clock.charge()
    finally:
        for owner, name, found in was:
            setattr(owner, name, found)


def parts(place: Path, settings: dict[str, Any], bodies: list[bytes], count: int) -> list[list[str]]:
    """Return processor time of a reading by part, the least of all calls; ``bodies`` fill ``count`` series, then feed.

    The first call after the fill is not counted, as what it takes is made then.
    """
    store, metrics = SqliteStore(place / "livesvm.sqlite3"), Metrics()
    source = Source(store, Health(metrics), metrics)
    given = Settings(data_dir=place, solve_seconds=3600.0)
    registry = Registry(Context(given, source, SolveScheduler(1)))
    fleets = Fleets(source, given)
    fleet = fleets.create("meters", FleetSpec(**settings))
    clock, least = Clock(), dict[str, float]()
    for number, data in enumerate(bodies):
        with charged(clock):
            _observe(fleets, registry, fleet, data, f"{number}")
        if number > 1 and (not least or sum(clock.seconds.values()) < sum(least.values())):
            least = dict(clock.seconds)
        fleet = fleets.live("meters")
    registry.stop()
    store.close()
    rows = [[part, f"{1000 * seconds / count:.3f} ms", ""] for part, seconds in least.items()]
    return [*rows, ["these together, without HTTP", f"{1000 * sum(least.values()) / count:.2f} ms", f"{count} series"]]


def _observe(fleets: Fleets, registry: Registry, fleet: Fleet, data: bytes, name: str) -> None:
    body = cast(Any, SimpleNamespace(data=data, media=MEDIA, memory=lambda size: nullcontext()))
    table = rows.parse_table(body, fleet.spec)
    answer = readings.observe(fleets, registry.feeds, fleet, table, name)
    assert not answer["refused"], answer["refused"][:3]
