"""Calls for fleets, which are many series with one common specification of a feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from starlette.responses import Response

from livesvm.service.api import arrow
from livesvm.service.api.answers.feeds import FeedSource
from livesvm.service.api.answers.fleets import (
    FleetDescription,
    FleetForecasts,
    FleetList,
    FleetObservationAnswer,
    SeriesList,
    SeriesMade,
)
from livesvm.service.api.bodies.reading import parse_json
from livesvm.service.api.bodies.rows import ARROW, BYTES_A_CELL, CSV, MEDIA, PARQUET, parse_table, read_rows
from livesvm.service.api.fleet_tables import csv_of, parquet_of
from livesvm.service.api.requests import FleetRequest, SeriesRequest
from livesvm.service.api.routes.access import (
    FleetId,
    IdempotencyKey,
    Parts,
    Ready,
    Whole,
    json_of,
    moment,
    response_of,
)
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.api.routes.feeds import source_told
from livesvm.service.api.routes.readings import rows_content
from livesvm.service.feeds.sources.opening import url_of
from livesvm.service.fleets import presenter as fleets_told
from livesvm.service.fleets import readings
from livesvm.service.fleets.catalogue import Fleet, settings_of
from livesvm.service.fleets.names import LONGEST_QUOTED, feed_of
from livesvm.service.fleets.presenter import COLUMNS
from livesvm.service.fleets.split import Table
from livesvm.service.lifecycle.parts import Service
from livesvm.solvers.errors import InvalidInput

calls = Calls("fleets")

PAGE, MOST = 1000, 10_000
"""Default and largest number of series in a page."""
MOST_NAMED = 1000
"""Largest number of series that a call for forecasts may name."""

After = Annotated[
    str, Query(max_length=37 + LONGEST_QUOTED, description="Only those after this one, the `next` of a page.")
]
Limit = Annotated[int, Query(ge=1, le=MOST, description="At most so many series.")]
Names = Annotated[
    list[str] | None, Query(alias="series", max_length=MOST_NAMED, description="Only these series; may be repeated.")
]
Steps = Annotated[
    str | None, Query(pattern=r"^\d{1,5}(,\d{1,5})*$", max_length=1000, description="Only these steps, like 1,24.")
]
Format = Annotated[
    Literal["json", "csv", "parquet", "arrow"] | None,
    Query(alias="format", description="In place of what `Accept` says."),
]


@calls("POST /fleets", "admin", "Create a fleet", body=FleetRequest)
@answers(FleetDescription, "The new fleet, without a series.", status=201)
def create(service: Ready, body: Whole) -> Response:
    """Create a fleet from the settings of a feed, and the name of the column that identifies the series.

    Each series is a feed with the id `fleet/series`, which is created when the first readings of this series arrive.
    """
    wanted = parse_json(body, FleetRequest)
    spec = wanted.spec()
    if spec.source is not None:
        url_of(spec.source, service.settings)
    fleet = service.fleets.create(wanted.id, spec)
    service.fleet_supervisor.sources.start(fleet)
    return response_of(_described(service, fleet), status=201, headers={"location": f"/fleets/{fleet.id}"})


@calls("GET /fleets", "read", "List the fleets")
@answers(FleetList, "By id.")
def list_all(
    service: Ready, after: After = "", limit: Annotated[int, Query(ge=1, le=MOST, description="At most so many.")] = 200
) -> Response:
    """List fleets, sorted by id, without their scores."""
    names = [name for name in service.fleets.names() if name > after]
    found = [_described(service, service.fleets.get(name)) for name in names[:limit]]
    return response_of(FleetList(fleets=found, next=names[limit - 1] if len(names) > limit else None))


@calls("GET /fleets/{id}", "read", "Describe a fleet", threads="batches")
@answers(FleetDescription, "The fleet as it is now, with the scores of all series.")
def describe(id: FleetId, service: Ready) -> Response:
    """Describe one fleet: its settings with chosen values, its scores against naive forecasts, its worst series.

    Of a series that is not in memory, the last known scores are shown, because the call loads no series.
    """
    fleet = service.fleets.get(id)
    return response_of(_described(service, fleet, service.fleet_supervisor.scores(fleet)))


@calls("DELETE /fleets/{id}", "admin", "Delete a fleet", threads="batches")
@answers(None, "The fleet, its series and all that was stored of them are gone.", status=204)
def delete(id: FleetId, service: Ready) -> Response:
    """Delete a fleet and its series; a deletion that has begun is completed, if need be by the next start."""
    service.fleet_supervisor.delete(service.fleets.get(id))
    return Response(status_code=204)


@calls("POST /fleets/{id}/observations", "learn", "Take readings of many series", body=rows_content(MEDIA))
@answers(FleetObservationAnswer, "What is not refused is learnt, and as durable as it says.")
async def observe(id: FleetId, request: Request, service: Ready, key: IdempotencyKey = None) -> Response:
    """Send readings of many series. The readings of each series are accepted completely or not at all.

    Rows have the columns of a feed, and a column that names the series; the body is JSON `{"rows": [..]}`, CSV, npz or
    Parquet. If the rows of a series are refused, they change nothing, and the answer gives the row, the column and the
    reason; the rows of the other series are still accepted. A row that names no series has columns that all series
    share; its values are added to all rows of the same time. A call that is repeated with the same Idempotency-Key
    changes each series only once.
    """

    def take(fleet: Fleet, table: Table, request: str | None) -> dict[str, Any]:
        """Pass the readings in the body to the series of the fleet."""
        return readings.observe(service.fleets, service.feeds(), fleet, table, request)

    return await _taken(take, id, request, service, key)


@calls("POST /fleets/{id}/announce", "learn", "Announce known columns to many series", body=rows_content(MEDIA))
@answers(FleetObservationAnswer, "The forecasts are as they are with it.")
async def announce(id: FleetId, request: Request, service: Ready, key: IdempotencyKey = None) -> Response:
    """Announce values of known columns for future times, for the series that rows name, or for all series."""

    def take(fleet: Fleet, table: Table, request: str | None) -> dict[str, Any]:
        """Pass the announced values in the body to the series of the fleet."""
        return readings.announce(service.feeds(), fleet, table, request)

    return await _taken(take, id, request, service, key)


@calls("GET /fleets/{id}/forecast", "read", "Forecast many series", threads="batches")
@answers(FleetForecasts, "The forecasts; a `Link` header leads to the next page.", other=(CSV, PARQUET, ARROW))
def forecast(
    id: FleetId,
    request: Request,
    service: Parts,
    series: Names = None,
    steps: Steps = None,
    form: Format = None,
    after: After = "",
    limit: Limit = PAGE,
) -> Response:
    """Return the newest forecasts of all or some series, a row for each series and step, without waiting for readings.

    A series that is not in memory is loaded only if it has more forecast steps than the service remembers of such
    series.
    """
    feeds = service.feeds()
    form = form or ("arrow" if arrow.is_accepted(request.headers.get("accept", "")) else "json")
    wanted = frozenset(map(int, steps.split(","))) if steps else frozenset()
    fleet = service.fleets.get(id)
    if series is None:
        found, following = _page(service, fleet, after, limit)
    else:
        found, following = fleets_told.check_served(feeds, [feed_of(id, name) for name in series]), None
    rows = fleets_told.forecasts(found, wanted)
    if form == "json":
        return json_of({"rows": rows, "next": following})
    headers = {} if following is None else {"link": f'</fleets/{id}/forecast?after={following}>; rel="next"'}
    if form == "csv":
        return Response(csv_of(rows), 200, headers, CSV)
    if form == "arrow":
        return Response(arrow.of_rows(rows, COLUMNS), 200, headers, ARROW)
    return Response(parquet_of(rows), 200, headers, PARQUET)


@calls("GET /fleets/{id}/series", "read", "List the series of a fleet", threads="batches")
@answers(SeriesList, "By id.")
def list_series(id: FleetId, service: Ready, after: After = "", limit: Limit = PAGE) -> Response:
    """List the series of a fleet by id, with their scores against naive forecasts, without loading any into memory."""
    found, following = _page(service, service.fleets.get(id), after, limit)
    return json_of({"series": [vars(fleets_told.series_told(feed)) for feed in found], "next": following})


@calls("POST /fleets/{id}/series", "admin", "Create series", body=SeriesRequest, threads="batches")
@answers(SeriesMade, "They take readings, also where the fleet refuses new ones.")
def create_series(id: FleetId, service: Parts, body: Whole) -> Response:
    """Create series of a fleet before their first readings arrive. Existing series are not changed."""
    feeds = service.feeds()
    wanted = parse_json(body, SeriesRequest)
    return json_of(readings.create_series(feeds, service.fleets.live(id), wanted.series))


def _paused(paused: bool, id: str, service: Service) -> Response:
    return response_of(_described(service, service.fleets.pause(service.fleets.live(id), paused)))


@calls("POST /fleets/{id}/pause", "admin", "Pause a fleet's source")
@answers(FleetDescription, "Entries wait in the source from now on, over restarts too.")
def pause(id: FleetId, service: Ready) -> Response:
    """Stop a fleet from reading its source; the fleet still accepts readings that callers send."""
    return _paused(True, id, service)


@calls("POST /fleets/{id}/resume", "admin", "Resume a fleet's source")
@answers(FleetDescription, "Entries are taken again, from where it was paused.")
def resume(id: FleetId, service: Ready) -> Response:
    """Let a paused fleet read its source again, from the entry at which it was paused."""
    return _paused(False, id, service)


async def _taken(
    take: Callable[[Fleet, Table, str | None], dict[str, Any]],
    id: str,
    request: Request,
    service: Service,
    key: str | None,
) -> Response:
    fleet = await service.control.placed(service.fleets.live, id)
    body = await read_rows(request)
    table = await service.workers.placed(parse_table, body, fleet.spec)
    held = service.budget.holding("updates", BYTES_A_CELL * len(table) * (2 + len(fleet.spec.columns)))
    with held, service.batches.place():
        return await service.batches.run(lambda: json_of(take(fleet, table, key)))


def _page(service: Service, fleet: Fleet, after: str, limit: int) -> tuple[list[Any], str | None]:
    if after and not after.startswith(fleet.prefix):
        raise InvalidInput(f"is what `next` told, and begins with {fleet.prefix}", field="after")
    found = list(service.feeds().page(after, limit + 1, fleet.prefix))
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def _described(service: Service, fleet: Fleet, scores: dict[str, Any] | None = None) -> FleetDescription:
    return FleetDescription.model_validate(
        {
            "id": fleet.id,
            "state": "deleting" if fleet.deleting else "live",
            "series": service.feeds().count(fleet.prefix),
            "settings": settings_of(fleet),
            "created_at": moment(fleet.created_at),
            "source": _source_told(service, fleet),
            **(scores or {}),
        }
    )


def _source_told(service: Service, fleet: Fleet) -> FeedSource | None:
    flow = service.fleet_supervisor.sources.flow(fleet)
    return source_told(fleet.id, fleet.spec.source, flow, fleet.progress)
