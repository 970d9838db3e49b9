"""Calls that send readings to a feed, and calls for its forecasts, history, certificate, events and plot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Header, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api import arrow
from livesvm.service.api.answers.feeds import (
    FeedCertificate,
    FeedHistory,
    ForecastAnswer,
    ObservationAnswer,
    WhatIfAnswer,
)
from livesvm.service.api.answers.questions import FeedDriftAnswer
from livesvm.service.api.bodies.reading import JSON, Body, parse_json, read_body
from livesvm.service.api.bodies.rows import ARROW, BYTES_A_CELL, MEDIA, Row, parse_announcements, parse_rows, read_rows
from livesvm.service.api.feed_updates import FeedUpdateRequest
from livesvm.service.api.routes.access import (
    FeedId,
    IdempotencyKey,
    Parts,
    Within,
    awaited,
    json_of,
    replied,
    up_to_date,
)
from livesvm.service.api.routes.calls import EVENTS, PICTURE, Calls, answers, binary
from livesvm.service.api.routes.questions import Asked, worked_out
from livesvm.service.api.streams import Event, every_event
from livesvm.service.errors import ModelUnavailable, Restoring, UnknownFeed
from livesvm.service.feeds.past_forecasts import MOST_POINTS, PastForecastsQuery
from livesvm.service.feeds.presenter import seconds_asked
from livesvm.service.feeds.spec import MOST_STEPS, FeedSpec
from livesvm.service.hosting.drift import feed_memory, look_for_drift_of_feed
from livesvm.service.jobs.feed_plots import draw_feed
from livesvm.service.jobs.plots import MEDIA as PICTURES
from livesvm.service.jobs.plots import Extension
from livesvm.service.lifecycle.parts import Service
from livesvm.service.resources.solve_scheduler import Solve

calls = Calls("feeds")

PLOTTED, PLOTTED_MOST = 300, 3000
"""Default and largest number of readings in a plot."""
MOST_ROWS = 100_000

Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Most rows, the newest.")]
Points = Annotated[int, Query(ge=1, le=MOST_POINTS, description="Most rows; if there are more, evenly spaced ones.")]
Step = Annotated[int | None, Query(ge=1, description="Only forecasts of this step.")]
Steps = Annotated[
    list[int] | None, Query(max_length=MOST_STEPS, description="Only these steps; all of the feed when absent.")
]
From = Annotated[str | None, Query(alias="from", max_length=64, description="Earliest time.")]
To = Annotated[str | None, Query(alias="to", max_length=64, description="Latest time.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=32, description="Number of the newest event that was seen.")
]


def rows_content(media: Iterable[str]) -> dict[str, Any]:
    """Return the OpenAPI content of a body of rows that has one of these media types."""
    row = {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}}
    rows = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {"rows": {"type": "array", "minItems": 1, "items": row}},
    }
    return {one: {"schema": rows} if one == JSON else binary(one)[one] for one in media}


ROWS = rows_content(MEDIA)


@calls("POST /feeds/{id:feed}/observations", "learn", "Take readings", body=ROWS)
@answers(ObservationAnswer, "The readings are learnt, and as durable as it says.")
async def observe(id: FeedId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Send readings to a feed, in order of time, completely or not at all, and return the new forecasts.

    The body is JSON `{"rows": [{"time": .., "demand": .., ..}, ..]}`, CSV with a first row of column names, npz with an
    array for each column, or Parquet. In a problem document, `row` is counted from 0, and `field` is the name of the
    column.
    """
    return await _taken(parse_rows, id, request, service, key)


@calls("POST /feeds/{id:feed}/announce", "learn", "Announce known columns", body=ROWS)
@answers(ObservationAnswer, "The forecasts, as they are with it.")
async def announce(id: FeedId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Announce values of known columns for future times; forecasts change at once, but no reading is added."""
    return await _taken(parse_announcements, id, request, service, key)


@calls("POST /feeds/{id:feed}/forecast", "read", "Forecast what if", body=ROWS)
@answers(WhatIfAnswer, "What would be forecast; nothing is stored.")
async def forecast_if(id: FeedId, request: Request, service: Parts) -> Response:
    """Return the forecasts as if known columns had the values in the rows, which replace announced values."""
    live = service.feeds().get(id)
    body = await read_rows(request)
    rows = await service.workers.placed(parse_announcements, body, live.spec)
    with service.budget.holding("updates", BYTES_A_CELL * sum(len(row) + 1 for row in rows)):
        found = await awaited(request, live.what_if(rows), Solve(), changes=False)
    return json_of(found)


@calls("GET /feeds/{id:feed}/forecast", "read", "Forecast")
@answers(ForecastAnswer, "The newest forecasts, from all readings so far.")
async def forecast(id: FeedId, service: Parts) -> Response:
    """Return the newest forecasts of a feed, without waiting for readings that it is learning."""
    feeds = service.feeds()
    await up_to_date(feeds.find(id))
    live = feeds.get(id)
    seen = live.view
    found = {name: getattr(seen, name) for name in ("position", "time", "state")}
    return json_of({**found, "forecasts": seen.explained, "stale": live.stale})


@calls("POST /feeds/{id:feed}/update", "learn", "Change what models hold, or their C", body=FeedUpdateRequest)
@answers(ObservationAnswer, "The models of these steps are changed, as durable as it says.")
async def update(id: FeedId, request: Request, service: Parts, solve: Within, key: IdempotencyKey = None) -> Response:
    """Keep only the newest examples in the models of some steps, or change these models' C, along solution paths.

    The next readings make the window grow again. Forecasts that were already made do not change.
    """
    live = service.feeds().get(id)
    body = await read_body(request)
    changes = (await service.workers.placed(parse_json, body, FeedUpdateRequest)).changes()
    return replied(await awaited(request, live.update(changes, key, solve), solve))


@calls("GET /feeds/{id:feed}/drift", "learn", "Ask whether the windows of a feed have changed, and what would help")
@answers(FeedDriftAnswer, "What has changed, and remedies, by step.")
async def tell_drift(
    id: FeedId, request: Request, service: Parts, solve: Within, asked: Asked, step: Steps = None
) -> Response:
    """Test the window of each step for drift by exact leave-one-out errors, with a known rate of false alarms.

    The call also tries two kinds of remedies, a window of only the newest examples and another C, and returns the error
    that each would have had on the newest examples. `update` is the body of `POST /feeds/{id}/update` that applies all
    remedies that are significantly better than the present models.
    """
    live = service.feeds().get(id)
    question = replace(asked, steps=tuple(step or ()))
    with service.questions.place():
        reported = await worked_out(
            live,
            request,
            service,
            solve,
            lambda copy: to_json(look_for_drift_of_feed(copy, question)),
            lambda copy: feed_memory(copy.spec),
        )
    return Response(reported, media_type=JSON)


@calls("GET /feeds/{id:feed}/history", "read", "Look back")
@answers(FeedHistory, "Readings with the forecasts that were made for them.", other=[ARROW])
async def look_back(
    id: FeedId,
    request: Request,
    service: Parts,
    limit: Limit = 100,
    begin: From = None,
    end: To = None,
    step: Step = None,
    points: Points = MOST_POINTS,
) -> Response:
    """List readings of a feed's window, oldest first, each with the earlier forecasts of this reading.

    If there are more readings than `points`, or more than 50,000 forecasts, only each `every`-th reading is reported.
    If the answer is an Arrow stream, it has a row for each forecast.
    """
    live = service.feeds().get(id)
    as_arrow = arrow.is_accepted(request.headers.get("accept", ""))
    ends = seconds_asked(live.spec, begin, "from"), seconds_asked(live.spec, end, "to", "last")
    found = await awaited(request, live.history(PastForecastsQuery(limit, *ends, step, points)), Solve(), changes=False)
    if as_arrow:
        return await service.control.placed(lambda: Response(arrow.of_history(found), media_type=ARROW))
    return await service.control.placed(lambda: json_of(found))


@calls("GET /feeds/{id:feed}/certificate", "read", "Prove that a feed's models are optimal")
@answers(FeedCertificate, "Recomputed from the data of the window.")
async def certificate(id: FeedId, request: Request, service: Parts, solve: Within) -> Response:
    """Compute the duality gap of the models of all steps from their examples, after waiting for earlier readings."""
    found = await awaited(request, service.feeds().get(id).certificate(solve), solve, changes=False)
    return json_of(found)


@calls("GET /feeds/{id:feed}/events", "read", "Watch a feed")
@answers(EVENTS, "Events, until the feed is deleted or the service stops.")
async def watch(id: FeedId, request: Request, service: Parts, last_event_id: LastEventId = None) -> Response:
    """Stream a feed's events as server-sent events; each call with readings makes an event `readings` with forecasts.

    The stream also has the events `live`, `rescaled`, `drift`, `chosen`, `updated` and `known`. Each event has a
    number, which stays the same over restarts of the service. If a client sends the number of its last event in the
    header `Last-Event-ID`, the stream begins with the event after it. If the service no longer keeps some of the later
    events, an event `missed` says so. Without the header `Last-Event-ID`, the stream begins with the newest event.
    """
    await up_to_date(service.feeds().find(id))
    live = service.feeds().get(id)
    view = live.view
    earlier: list[dict[str, Any]] = []
    seen = view.numbered - 1
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        seen = min(int(last_event_id), view.numbered)
        if view.events and seen + 1 < view.events[0]["id"]:
            earlier = await awaited(request, live.events(), Solve(), changes=False)

    def look() -> list[Event] | None:
        """Return the events since the last call, or None if the feed was deleted."""
        nonlocal seen, earlier
        try:
            now = service.feeds().get(id).view
        except Restoring:  # it is at rest, or wakes: there is nothing new
            return []
        except (UnknownFeed, ModelUnavailable):
            return None
        newest = earlier[-1]["id"] if earlier else 0
        found = _events_after([*earlier, *(event for event in now.events if event["id"] > newest)], seen)
        seen, earlier = max(newest, now.numbered), []
        return found

    return every_event(request, look)


@calls("GET /feeds/{id:feed}/plot.{extension}", "read", "See a feed")
@answers(PICTURE, "The picture.")
async def plot(id: FeedId, extension: Extension, request: Request, service: Parts, limit: Limit = PLOTTED) -> Response:
    """Plot a feed's newest readings with their forecasts and bands, its newest forecasts, and errors over time."""
    live = service.feeds().get(id)
    asked = PastForecastsQuery(limit, step=live.spec.horizons[0], points=PLOTTED_MOST)
    rows = (await awaited(request, live.history(asked), Solve(), changes=False))["rows"]
    seen = live.view
    return await service.control.placed(
        lambda: Response(draw_feed(extension, id, live.spec, rows, seen.forecasts), media_type=PICTURES[extension]),
    )


async def _taken(
    parse: Callable[[Body, FeedSpec], list[Row]], id: str, request: Request, service: Service, key: str | None
) -> Response:
    """Parse the rows in a body, and pass them to a feed; calls with the same Idempotency-Key have one effect."""
    live = service.feeds().get(id)
    body = await read_rows(request)
    rows = await service.workers.placed(parse, body, live.spec)
    with service.budget.holding("updates", BYTES_A_CELL * sum(len(row) + 1 for row in rows)):
        reply = await awaited(request, live.observe(rows, key), Solve())
    return replied(reply)


def _events_after(events: Sequence[dict[str, Any]], seen: int) -> list[Event]:
    """Return the events after the number ``seen``; an event ``missed`` comes first if some are no longer kept."""
    new = [event for event in events if event["id"] > seen]
    found = [_event(event) for event in new]
    missed = new[0]["id"] - seen - 1 if new else 0
    return [Event("missed", {"events": missed}), *found] if missed > 0 else found


def _event(event: dict[str, Any]) -> Event:
    data = {name: value for name, value in event.items() if name not in ("id", "kind")}
    return Event(event["kind"], data, number=event["id"])
