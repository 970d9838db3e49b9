"""Feeds: raw readings in, forecasts with their record out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.feeds import (
    FeedCertificate,
    FeedDescription,
    FeedHistory,
    FeedList,
    FeedSource,
    ForecastAnswer,
    ObservationAnswer,
)
from livesvm.service.api.answers.jobs import Job
from livesvm.service.api.answers.learn import Writeback
from livesvm.service.api.answers.models import Recovery
from livesvm.service.api.bodies.observations import BYTES_A_CELL, MEDIA, parse_backtest, parse_rows, read_rows
from livesvm.service.api.bodies.reading import JSON, parse_json, read_body, schema_content
from livesvm.service.api.requests import FeedRequest
from livesvm.service.api.routes.access import (
    MaxSeconds,
    ModelId,
    Parts,
    answers,
    awaited,
    image_answers,
    in_control,
    moment,
    replied,
    scope,
    stream_answers,
    told,
    within,
)
from livesvm.service.api.routes.jobs import job_told
from livesvm.service.api.routes.learn import IdempotencyKey
from livesvm.service.api.streams import Event, every_event
from livesvm.service.errors import EmptyModel, ModelUnavailable, UnknownFeed
from livesvm.service.feeds.handle import AnyFeed, FeedHandle
from livesvm.service.feeds.lookback import MOST_POINTS, Lookback
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.told import seconds_asked
from livesvm.service.history.names import stored_feed
from livesvm.service.jobs.feed_plots import draw_feed
from livesvm.service.jobs.feed_work import FEED_KINDS, Given, Subject, spec_with
from livesvm.service.jobs.plots import MEDIA as PICTURES
from livesvm.service.jobs.plots import Extension
from livesvm.service.lifecycle.parts import Service
from livesvm.service.resources.turns import Solve

router = APIRouter(tags=["feeds"])

PLOTTED, PLOTTED_MOST = 300, 3000
"""Readings of a picture, unless more are asked for, and at most."""
MOST_ROWS = 100_000

Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Most rows, the newest.")]
Points = Annotated[
    int, Query(ge=1, le=MOST_POINTS, description="Most rows that are told; of more, some evenly apart are.")
]
Step = Annotated[int | None, Query(ge=1, description="Only forecasts of this step.")]
From = Annotated[str | None, Query(alias="from", max_length=64, description="Earliest time.")]
To = Annotated[str | None, Query(alias="to", max_length=64, description="Latest time.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=32, description="Number of the newest event that was seen.")
]

_ROWS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            media: {
                "schema": {
                    "type": "object",
                    "required": ["rows"],
                    "additionalProperties": False,
                    "properties": {
                        "rows": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "additionalProperties": {"type": ["number", "string", "null"]},
                            },
                        }
                    },
                }
                if media == JSON
                else {"type": "string", "format": "binary"}
            }
            for media in MEDIA
        },
    }
}


@router.post(
    "/feeds",
    status_code=201,
    summary="Create a feed",
    dependencies=[scope("admin")],
    responses=answers(201, FeedDescription, "The new feed, before its first reading."),
    openapi_extra=schema_content("FeedRequest"),
)
async def create(request: Request, service: Parts) -> Response:
    """Create a feed; all that it needs to know is which column is to be forecast."""
    feeds = service.feeds()
    body = await read_body(request)

    def make() -> FeedHandle:
        """Read what is asked and store it."""
        wanted = parse_json(body, FeedRequest)
        return feeds.create(wanted.id, wanted.spec())

    with service.control.place():
        live = await service.control.run(make)
    return told(description(feeds.find(live.id), service), status=201, headers={"location": f"/feeds/{live.id}"})


@router.get(
    "/feeds", summary="List the feeds", dependencies=[scope("read")], responses=answers(200, FeedList, "All, by id.")
)
async def list_all(service: Parts) -> Response:
    """Every feed, by id, without what was tried."""
    feeds = service.feeds()
    return await in_control(
        service, lambda: told(FeedList(feeds=[description(feed, service, whole=False) for feed in feeds.all()]))
    )


@router.get(
    "/feeds/{id}",
    summary="Describe a feed",
    dependencies=[scope("read")],
    responses=answers(200, FeedDescription, "The feed as it is now, with its record."),
)
async def describe(id: ModelId, service: Parts) -> Response:
    """One feed: its settings with what was chosen, its scores beside those of the naive forecasts, its events."""
    return told(description(service.feeds().find(id), service))


@router.delete(
    "/feeds/{id}",
    status_code=204,
    summary="Delete a feed",
    dependencies=[scope("admin")],
    responses=answers(204, None, "The feed and all that was stored of it are gone."),
)
async def delete(id: ModelId, service: Parts) -> Response:
    """Delete a feed, its models, everything that is stored of it, and its jobs."""
    feeds = service.feeds()
    with service.control.place():
        deleted = await service.control.run(feeds.delete, id)
    await asyncio.wrap_future(deleted)
    with service.control.place():
        await service.control.run(feeds.forget, id)
        await service.control.run(service.erasures.model_deleted, stored_feed(id))
    return Response(status_code=204)


@router.post(
    "/feeds/{id}/observations",
    summary="Take readings",
    dependencies=[scope("learn")],
    responses=answers(200, ObservationAnswer, "The readings are learnt, and as durable as it says."),
    openapi_extra=_ROWS,
)
async def observe(id: ModelId, request: Request, service: Parts, idempotency_key: IdempotencyKey = None) -> Response:
    """Take one call's readings, in order, whole or not at all, and forecast from the newest.

    JSON `{"rows": [{"time": .., "demand": .., ..}, ..]}`, CSV with a row of names, or npz with an array a column. Rows
    of a fault count from 0; its field is the column.
    """
    live = service.feeds().get(id)
    body = await read_rows(request)
    with service.workers.place():
        rows = await service.workers.run(parse_rows, body, live.spec)
    with service.budget.holding("updates", BYTES_A_CELL * sum(len(row) + 1 for row in rows)):
        reply = await awaited(request, live.observe(rows, idempotency_key), Solve())
    return replied(reply)


@router.get(
    "/feeds/{id}/forecast",
    summary="Forecast",
    dependencies=[scope("read")],
    responses=answers(200, ForecastAnswer, "What is to come, from all readings so far."),
)
async def forecast(id: ModelId, service: Parts) -> Response:
    """The newest forecasts; never waits for readings that are being learnt."""
    live = service.feeds().get(id)
    seen = live.view
    found = {name: getattr(seen, name) for name in ("position", "time", "state", "forecasts")}
    return _json({**found, "stale": live.stale})


@router.get(
    "/feeds/{id}/history",
    summary="Look back",
    dependencies=[scope("read")],
    responses=answers(200, FeedHistory, "Readings with the forecasts that were made for them."),
)
async def look_back(
    id: ModelId,
    request: Request,
    service: Parts,
    limit: Limit = 100,
    begin: From = None,
    end: To = None,
    step: Step = None,
    points: Points = MOST_POINTS,
) -> Response:
    """Readings of the window, oldest first, each with the forecasts that were made before it was known.

    Of more than `points`, or of more than 50,000 forecasts, each `every`-th reading is told.
    """
    live = service.feeds().get(id)
    ends = seconds_asked(live.spec, begin, "from"), seconds_asked(live.spec, end, "to")
    found = await awaited(request, live.history(Lookback(limit, *ends, step, points)), Solve(), changes=False)
    return await in_control(service, lambda: _json(found))


@router.get(
    "/feeds/{id}/certificate",
    summary="Prove that a feed's models are optimal",
    dependencies=[scope("read")],
    responses=answers(200, FeedCertificate, "Recomputed from the data of the window."),
)
async def certificate(id: ModelId, request: Request, service: Parts, max_seconds: MaxSeconds = None) -> Response:
    """Recompute the duality gap of every step's models from their examples; waits for its turn behind readings."""
    solve = within(max_seconds)
    found = await awaited(request, service.feeds().get(id).certificate(solve), solve, changes=False)
    return _json(found)


@router.get(
    "/feeds/{id}/events",
    summary="Watch a feed",
    dependencies=[scope("read")],
    response_class=Response,
    responses=stream_answers("Events, until the feed is deleted or the service stops."),
)
async def watch(id: ModelId, request: Request, service: Parts, last_event_id: LastEventId = None) -> Response:
    """Server-sent events: `readings` with forecasts after each call, and `live`, `rescaled`, `drift`, `chosen`.

    Each has a number, which a restart does not change. Who sends the last one in `Last-Event-ID` gets all that came
    after it; `missed` says that some of them are kept no more. Without it the stream begins with the newest.
    """
    live = service.feeds().get(id)
    view = live.view
    earlier: list[dict[str, Any]] = []
    seen = view.numbered - 1
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        seen = min(int(last_event_id), view.numbered)
        if view.events and seen + 1 < view.events[0]["id"]:
            earlier = await awaited(request, live.events(), Solve(), changes=False)

    def look() -> list[Event] | None:
        """What has come since; None once the feed is gone."""
        nonlocal seen, earlier
        try:
            now = service.feeds().get(id).view
        except (UnknownFeed, ModelUnavailable):
            return None
        newest = earlier[-1]["id"] if earlier else 0
        found = _events_after([*earlier, *(event for event in now.events if event["id"] > newest)], seen)
        seen, earlier = max(newest, now.numbered), []
        return found

    return every_event(request, look)


@router.get(
    "/feeds/{id}/plot.{extension}",
    summary="See a feed",
    dependencies=[scope("read")],
    response_class=Response,
    responses=image_answers("The picture."),
)
async def plot(id: ModelId, extension: Extension, request: Request, service: Parts, limit: Limit = PLOTTED) -> Response:
    """The newest readings, what was forecast of them with its band, what is to come, errors beside naive ones."""
    live = service.feeds().get(id)
    asked = Lookback(limit, step=live.spec.horizons[0], points=PLOTTED_MOST)
    rows = (await awaited(request, live.history(asked), Solve(), changes=False))["rows"]
    seen = live.view
    return await in_control(
        service,
        lambda: Response(draw_feed(extension, id, live.spec, rows, seen.forecasts), media_type=PICTURES[extension]),
    )


async def _paused(paused: bool, id: str, request: Request, service: Service) -> Response:
    live = service.feeds().get(id)
    await awaited(request, live.pause(paused), Solve())
    return told(description(service.feeds().find(id), service))


@router.post(
    "/feeds/{id}/pause",
    summary="Pause a feed's source",
    dependencies=[scope("admin")],
    responses=answers(200, FeedDescription, "Entries wait in the source from now on, over restarts too."),
)
async def pause(id: ModelId, request: Request, service: Parts) -> Response:
    """Take nothing more from the source; readings that are sent are taken as before."""
    return await _paused(True, id, request, service)


@router.post(
    "/feeds/{id}/resume",
    summary="Resume a feed's source",
    dependencies=[scope("admin")],
    responses=answers(200, FeedDescription, "Entries are taken again, from where it was paused."),
)
async def resume(id: ModelId, request: Request, service: Parts) -> Response:
    """Take what waits in the source."""
    return await _paused(False, id, request, service)


@router.post(
    "/feeds/{id}/writeback",
    summary="Write a feed back that the store has lost",
    dependencies=[scope("admin")],
    responses=answers(200, Writeback, "The store holds the version that is served."),
)
async def write_back(id: ModelId, request: Request, service: Parts) -> Response:
    """Have the store hold what memory does, where it has lost the feed or some of its readings; as of models."""
    found = await awaited(request, service.feeds().get(id).write_back(), Solve())
    return _json(found)


_ASKED = {
    "requestBody": {
        "required": True,
        "content": {
            **_ROWS["requestBody"]["content"],
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        **_ROWS["requestBody"]["content"][JSON]["schema"]["properties"],
                        "settings": {"type": "object", "description": "In place of the feed's own."},
                    },
                }
            },
        },
    }
}


@router.post(
    "/feeds/{id}/backtest",
    status_code=202,
    summary=FEED_KINDS["backtest"].summary,
    description=FEED_KINDS["backtest"].description,
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
    openapi_extra=_ASKED,
)
async def backtest(id: ModelId, request: Request, service: Parts) -> Response:
    """Read what is to be backtested and submit it as a job."""
    live = service.feeds().get(id)
    body = await read_rows(request)

    def submit() -> Response:
        """Check the settings, and ask for it."""
        rows, settings = parse_backtest(body, live.spec)
        asked = {"settings": settings, "rows": None if rows is None else len(rows)}
        memory = feed_bytes(spec_with(live.spec, settings))
        given = {} if rows is None else {"given": Given(rows)}
        return job_told(service.jobs.submit("backtest", Subject(live), {**asked, "memory": memory}, given))

    with service.control.place():
        return await service.control.run(submit)


@router.post(
    "/feeds/{id}/tune",
    status_code=202,
    summary=FEED_KINDS["tune"].summary,
    description=FEED_KINDS["tune"].description,
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
)
async def tune(id: ModelId, service: Parts) -> Response:
    """Submit the job."""
    live = service.feeds().get(id)
    if live.view.state != "live":
        raise EmptyModel(f"feed {id} has no models yet: its window has {live.view.position} of {live.spec.window}")
    return await in_control(service, lambda: job_told(service.jobs.submit("tune", Subject(live), {})))


def description(feed: AnyFeed, service: Service, *, whole: bool = True) -> FeedDescription:
    """What the API says of a feed."""
    live = feed.served
    if live is None:
        return FeedDescription(id=feed.id, state=feed.state, error=feed.reason)
    seen, level = live.view, service.health.durability
    found = dict(seen.settings)
    chosen = found["chosen"]
    if not whole:
        found.pop("tried")
    return FeedDescription.model_validate(
        {
            "id": feed.id,
            "state": seen.state if feed.state == "live" else feed.state,
            **{name: getattr(seen, name) for name in ("version", "position", "rows", "time", "scores", "recent")},
            "every": chosen["every"],
            "season": chosen["season"],
            "settings": found,
            "events": list(seen.announced) if whole else [],
            "source": source_told(live),
            "durability": None if level is None else level.value,
            "queue_depth": live.queue_depth,
            "updated_at": moment(seen.updated_at),
            "recovery": Recovery(**vars(live.returned)),
        }
    )


def source_told(feed: FeedHandle) -> FeedSource | None:
    """What the API says of a feed's source."""
    spec, flow, progress = feed.spec.source, feed.flow, feed.progress
    if spec is None or flow is None:
        return None
    backlog = flow.backlog
    return FeedSource(
        kind=spec.kind,
        connection=spec.connection,
        stream=spec.stream,
        group=spec.group_of(feed.id),
        dead_letters=spec.dead_letters_of(feed.id),
        state="failing" if flow.fault else "paused" if progress.paused else "reading",
        fault=flow.fault,
        taken=None if progress.taken is None else "-".join(map(str, progress.taken)),
        backlog=None if backlog is None else backlog.entries,
        backlog_at_least=backlog is not None and backlog.at_least,
        refused=progress.refused,
    )


def _events_after(events: Sequence[dict[str, Any]], seen: int) -> list[Event]:
    """The events behind one, and before them that some are missed, if so."""
    new = [event for event in events if event["id"] > seen]
    found = [_event(event) for event in new]
    missed = new[0]["id"] - seen - 1 if new else 0
    return [Event("missed", {"events": missed}), *found] if missed > 0 else found


def _event(event: dict[str, Any]) -> Event:
    data = {name: value for name, value in event.items() if name not in ("id", "kind")}
    return Event(event["kind"], data, number=event["id"])


def _json(found: dict[str, Any]) -> Response:
    return Response(to_json(found, inf_nan_mode="null"), media_type=JSON)
