"""Calls that start jobs on a feed's past readings: backtests and tuning."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from livesvm.service.api.answers.jobs import Job
from livesvm.service.api.bodies.reading import JSON
from livesvm.service.api.bodies.rows import parse_backtest, read_rows
from livesvm.service.api.routes.access import FeedId, Parts, up_to_date
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.api.routes.jobs import job_told
from livesvm.service.api.routes.readings import ROWS
from livesvm.service.errors import EmptyModel
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.jobs.feed_work import FEED_KINDS, Given, Subject, spec_with

calls = Calls("feeds")

_ASKED = {
    **ROWS,
    JSON: {
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **ROWS[JSON]["schema"]["properties"],
                "settings": {"type": "object", "description": "In place of the feed's own."},
            },
        }
    },
}


@calls(
    "POST /feeds/{id:feed}/backtest",
    "learn",
    FEED_KINDS["backtest"].summary,
    body=_ASKED,
    description=FEED_KINDS["backtest"].description,
)
@answers(Job, "The job waits for its turn.", status=202)
async def backtest(id: FeedId, request: Request, service: Parts) -> Response:
    """Parse a request for a backtest, and submit the backtest as a job."""
    await up_to_date(service.feeds().find(id))
    live = service.feeds().get(id)
    body = await read_rows(request)

    def submit() -> Response:
        """Check the settings of the backtest, and submit its job."""
        rows, settings = parse_backtest(body, live.spec)
        asked = {"settings": settings, "rows": None if rows is None else len(rows)}
        memory = feed_bytes(spec_with(live.spec, settings))
        given = {} if rows is None else {"given": Given(rows)}
        return job_told(service.jobs.submit("backtest", Subject(live), {**asked, "memory": memory}, given))

    return await service.control.placed(submit)


@calls("POST /feeds/{id:feed}/tune", "learn", FEED_KINDS["tune"].summary, description=FEED_KINDS["tune"].description)
@answers(Job, "The job waits for its turn.", status=202)
async def tune(id: FeedId, service: Parts) -> Response:
    """Submit the job."""
    await up_to_date(service.feeds().find(id))
    live = service.feeds().get(id)
    if live.view.state != "live":
        raise EmptyModel(f"feed {id} has no models yet: its window has {live.view.position} of {live.spec.window}")
    return await service.control.placed(lambda: job_told(service.jobs.submit("tune", Subject(live), {})))
