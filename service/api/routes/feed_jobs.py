"""Long work on a feed's past: backtests and tuning."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from livesvm.service.api.answers.jobs import Job
from livesvm.service.api.bodies.reading import JSON
from livesvm.service.api.bodies.rows import parse_backtest, read_rows
from livesvm.service.api.routes.access import FeedId, Parts, answers, in_control, scope, up_to_date
from livesvm.service.api.routes.jobs import job_told
from livesvm.service.api.routes.readings import ROWS
from livesvm.service.errors import EmptyModel
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.jobs.feed_work import FEED_KINDS, Given, Subject, spec_with

router = APIRouter(tags=["feeds"])

_ASKED = {
    "requestBody": {
        "required": True,
        "content": {
            **ROWS["requestBody"]["content"],
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        **ROWS["requestBody"]["content"][JSON]["schema"]["properties"],
                        "settings": {"type": "object", "description": "In place of the feed's own."},
                    },
                }
            },
        },
    }
}


@router.post(
    "/feeds/{id:feed}/backtest",
    status_code=202,
    summary=FEED_KINDS["backtest"].summary,
    description=FEED_KINDS["backtest"].description,
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
    openapi_extra=_ASKED,
)
async def backtest(id: FeedId, request: Request, service: Parts) -> Response:
    """Read what is to be backtested and submit it as a job."""
    await up_to_date(service.feeds().find(id))
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
    "/feeds/{id:feed}/tune",
    status_code=202,
    summary=FEED_KINDS["tune"].summary,
    description=FEED_KINDS["tune"].description,
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
)
async def tune(id: FeedId, service: Parts) -> Response:
    """Submit the job."""
    await up_to_date(service.feeds().find(id))
    live = service.feeds().get(id)
    if live.view.state != "live":
        raise EmptyModel(f"feed {id} has no models yet: its window has {live.view.position} of {live.spec.window}")
    return await in_control(service, lambda: job_told(service.jobs.submit("tune", Subject(live), {})))
