"""Take readings and announcements of many series in one call, and create series."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from livesvm.service.errors import FeedExists
from livesvm.service.feeds.batch import COUNTS, Batch, BatchDone, Refusal
from livesvm.service.fleets.catalogue import Fleet, Fleets
from livesvm.service.fleets.names import feed_of, name_of, series_of
from livesvm.service.fleets.split import Split, Table, for_all, split
from livesvm.service.hosting.collection import Feeds
from livesvm.service.settings import Settings
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]

MOST_REFUSED = 1000
"""Most refusals in an answer."""
PAGE = 1000
"""How many series are listed at once."""


def observe(
    fleets: Fleets,
    feeds: Feeds,
    fleet: Fleet,
    table: Table,
    request: str | None,
    *,
    is_whole: bool = False,
) -> Document:
    """Take readings of many series; ``request`` is the Idempotency-Key of the call.

    The answer lists at most :data:`MOST_REFUSED` refusals, or all of them if ``is_whole``.

    Raises InvalidInput if no row names a series, and QueueFull, IdempotencyConflict or StoreUnavailable if the whole
    call is refused.
    """
    found = split(fleet, table)
    _refuse_too_many(found, fleet, feeds, fleets.settings)
    done = feeds.observe_many(found.batch(fleet, request, time.time())) if found.tables else BatchDone()
    fleets.choose(fleet, done.given)
    return reported(found, done, None if is_whole else MOST_REFUSED)


def _refuse_too_many(found: Split, fleet: Fleet, feeds: Feeds, settings: Settings) -> None:
    """Refuse new series beyond the number that readings may create; these are the last new series of the call."""
    fresh = [id_ for id_ in found.tables if id_ not in feeds]
    if not fresh or fleet.spec.new != "create":
        return
    of_fleet = settings.max_fleet_series - feeds.count(fleet.prefix)
    of_all = settings.max_feeds * 9 // 10 - len(feeds)
    reason = f"is new, and readings make at most {settings.max_fleet_series} series of a fleet"
    named = "LIVESVM_MAX_FLEET_SERIES"
    if of_all < of_fleet:
        reason, named = "is new, and readings fill at most nine tenths of the quota of feeds", "LIVESVM_MAX_FEEDS"
    for id_ in fresh[max(0, min(of_fleet, of_all)) :]:
        del found.tables[id_]
        refusal = Refusal(f"{reason} ({named}); POST /fleets/{fleet.id}/series creates more", None, fleet.spec.series)
        found.refused.append((found.names[id_], _placed(found, id_, refusal)))


def announce(feeds: Feeds, fleet: Fleet, table: Table, request: str | None) -> Document:
    """Take values of known columns at future times; rows without a series are for all series.

    Raises the errors of :func:`observe`.
    """
    spec = fleet.spec
    if not spec.known:
        raise InvalidInput("the fleet has no known columns to announce", field="known")
    targets = table.column(spec.target)
    for row, target in enumerate(targets or []):
        if target is not None:
            raise InvalidInput("is a reading; announcements hold known columns alone", field=spec.target, row=row)
    names = table.column(spec.series)
    if names is None or all(name in (None, "") for name in names):
        ids = ids_of(feeds, fleet)
        found = Split(for_all(fleet, table, ids), {id_: list(range(len(table))) for id_ in ids})
        found.names = {id_: series_of(id_) for id_ in ids}
    else:
        found = split(fleet, table)
    batch = Batch(found.tables, request, time.time())
    return reported(found, feeds.observe_many(batch) if found.tables else BatchDone())


def reported(found: Split, done: BatchDone, most: int | None = MOST_REFUSED) -> Document:
    """Return the answer to a call: how many series and rows were taken, and at most ``most`` refusals."""
    counts = dict.fromkeys(COUNTS, 0)
    durability = None
    for body in done.answers.values():
        one = from_json(body)
        durability = durability or one["durability"]
        for name in COUNTS:
            counts[name] += one[name]
    refused = [*found.refused, *((found.names[id_], _placed(found, id_, one)) for id_, one in done.refused.items())]
    refused.sort(key=lambda one: -1 if one[1].row is None else one[1].row)
    listed = [{"series": name, **vars(refusal)} for name, refusal in refused[:most]]
    return {
        "series": len(done.answers),
        **counts,
        "replayed": done.replayed,
        "refused": listed,
        "refused_in_all": len(refused),
        "durability": durability,
    }


def _placed(found: Split, id: str, refusal: Refusal) -> Refusal:
    """Return a refusal with the number of its row, or of the series' first row, in the whole call."""
    numbers = found.numbers[id]
    at = refusal.row if refusal.row is not None and refusal.row < len(numbers) else 0
    return replace(refusal, row=numbers[at])


def ids_of(feeds: Feeds, fleet: Fleet) -> list[str]:
    """Return the feed ids of all series of a fleet."""
    found: list[str] = []
    while page := feeds.page(found[-1] if found else "", PAGE, fleet.prefix):
        found += [feed.id for feed in page]
    return found


def create_series(feeds: Feeds, fleet: Fleet, names: Sequence[Any]) -> Document:
    """Create series before their first readings; existing series stay as they are. Raises InvalidInput."""
    ids = {feed_of(fleet.id, name_of(name, row)): None for row, name in enumerate(names)}
    spec, created = fleet.spec.of_series(), 0
    for id_ in ids:
        if id_ not in feeds:
            with suppress(FeedExists):  # an earlier call created it and was not answered
                feeds.create(id_, spec)
                created += 1
    return {"created": created, "series": feeds.count(fleet.prefix)}
