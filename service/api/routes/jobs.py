"""Calls that start, describe, watch and cancel jobs, and apply their results."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from livesvm.service.api.answers.feeds import ObservationAnswer
from livesvm.service.api.answers.jobs import Job, JobList, SuspectPage
from livesvm.service.api.answers.learn import UpdateAnswer
from livesvm.service.api.bodies.reading import parse_json, read_body
from livesvm.service.api.problem_documents import problem_of_failure
from livesvm.service.api.requests import ApplyRequest
from livesvm.service.api.routes.access import (
    IdempotencyKey,
    ModelId,
    Parts,
    Within,
    awaited,
    may,
    moment,
    replied,
    response_of,
    up_to_date,
)
from livesvm.service.api.routes.calls import EVENTS, PICTURE, Calls, answers
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.errors import UnknownJob
from livesvm.service.history.names import FEEDS, is_feed
from livesvm.service.hosting.handle import ModelHandle
from livesvm.service.jobs.files import JobRecord
from livesvm.service.jobs.kind import JobKind, without_keys
from livesvm.service.jobs.kinds import KINDS
from livesvm.service.jobs.plots import MEDIA, Extension
from livesvm.service.lifecycle.parts import Service
from livesvm.service.models.fields import JOB_ID
from livesvm.solvers.models.change import Change

calls = Calls("jobs")
submissions = Calls("jobs")

JobId = Annotated[str, Path(json_schema_extra={"pattern": JOB_ID})]


def _submit(name: str, kind: JobKind) -> None:
    """Declare the call that starts a job of one kind."""
    path, about = f"/models/{{id}}/{kind.path or name}", kind.description.strip()

    @submissions(f"POST {path}", "learn", kind.summary, body=kind.request, name=name, description=about)
    @answers(Job, "The job waits for its turn.", status=202)
    async def submit(id: ModelId, request: Request, service: Parts) -> Response:
        """Parse a request for a job on a model, and submit the job; the response has the job's URL."""
        await up_to_date(service.models().find(id))
        live = service.models().get(id)
        body = await read_body(request)
        ask = service.jobs.ask
        return await service.control.placed(lambda: job_told(ask(name, live, parse_json(body, kind.request))))


for name, kind in KINDS.items():
    _submit(name, kind)


@calls("GET /models/{id}/suspected-labels", "learn", "Read the newest ranking of labels in pages")
@answers(SuspectPage, "Some of the labels, the worst first.")
async def suspects(
    id: ModelId,
    service: Parts,
    offset: Annotated[int, Query(ge=0, le=2**53, description="Labels to pass over, the worst first.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Labels at most.")] = 100,
) -> Response:
    """Return a page of the model's newest ranking by a job `suspected-labels`; without a ranking, answer 404."""
    live = service.models().get(id)
    return await service.control.placed(lambda: _page(live, service, offset, limit))


def _page(live: ModelHandle, service: Service, offset: int, limit: int) -> Response:
    found, _ = service.jobs.everywhere()
    ranked = [one for one in found if (one.model, one.kind, one.state) == (live.id, "suspected-labels", "done")]
    if not ranked:
        reason = "has no ranking of its labels yet; POST to the same path starts one"
        raise UnknownJob(f"model {live.id} {reason}")
    result, end = service.jobs.result(ranked[-1].id), offset + limit
    about = {"job": ranked[-1].id, "version": ranked[-1].version, "current": live.describe().version}
    about |= {"confirmed": result.get("confirmed", {"keys": []})}
    about |= {"next": end if end < result["n_examples"] else None}
    page = result | about | {"suspects": result["suspects"][offset:end]}
    return response_of(SuspectPage.model_validate(page))


@calls("GET /jobs/{job}/plot.{extension}", "read", "See a job's result as a plot")
@answers(PICTURE, "The plot.")
async def plot(job: JobId, extension: Extension, request: Request, service: Parts) -> Response:
    """Plot a path that a job computed: validation error and number of support vectors or outliers, by parameter.

    For a retraining job, plot the relative gap over time, up to the present while the job runs.
    """
    return await service.control.placed(
        lambda: Response(service.jobs.plot(job, extension), media_type=MEDIA[extension])
    )


@calls("GET /jobs", "read", "List the jobs")
@answers(JobList, "All.")
async def list_all(service: Parts) -> Response:
    """List all jobs, oldest first, without results; `unanswered` names absent front ends with unfinished jobs."""
    found, away = await service.control.placed(service.jobs.everywhere)
    return response_of(JobList(jobs=list(map(_job, found)), unanswered=away or None), exclude_none=True)


@calls("GET /jobs/{job}", "read", "See a job")
@answers(Job, "The job.")
async def see(job: JobId, request: Request, service: Parts) -> Response:
    """Describe the present state of one job, with its result if it is done, or its error if it has failed.

    The result contains keys of examples only for callers with an API key of scope `learn`, which may also list
    examples. For other callers, `withheld` names the omitted fields.
    """
    names = may(request, service, "learn")
    return await service.control.placed(lambda: _told(service.jobs.find(job), service, names=names))


@calls("GET /jobs/{job}/events", "read", "Watch a job")
@answers(EVENTS, "Events, until the last one.")
async def watch(job: JobId, request: Request, service: Parts) -> Response:
    """Send the job's state, without its result, as a server-sent event after each change, up to its final state."""
    await service.control.placed(service.jobs.find, job)

    def look() -> Event | None:
        """Return an event with the present state of the job, or None if the job was deleted."""
        try:
            record = service.jobs.get(job)
        except UnknownJob:  # it went with its model
            return None
        return Event("job", _job(record).model_dump(mode="json", exclude_none=True), record.is_finished)

    return event_stream(request, look)


@calls("DELETE /jobs/{job}", "learn", "Cancel or delete a job")
@answers(Job, "The job is stopping; or, if it had ended, as it was.")
async def cancel(job: JobId, request: Request, service: Parts) -> Response:
    """Stop an unfinished job at its next step, or delete a finished job and its result."""
    return await service.control.placed(lambda: _told(service.jobs.remove(job)))


@calls("POST /jobs/{job}/apply", "learn", "Apply a job's result", body=ApplyRequest)
@answers(UpdateAnswer | ObservationAnswer, "The live model, or feed, has taken the result over.")
async def apply(job: JobId, request: Request, service: Parts, solve: Within, key: IdempotencyKey = None) -> Response:
    """Apply a job's result to its model, as one logged update; for kinds that cannot be applied, answer 409."""
    body = await read_body(request)
    with service.control.place():
        chosen = await service.control.run(parse_json, body, ApplyRequest)
        model, found = await service.control.run(service.jobs.update_of, job, chosen.choice)
    if is_feed(model):
        feed = service.feeds().get(model.removeprefix(FEEDS))
        return replied(await awaited(request, feed.take(job, found, key), solve))
    live = service.models().get(model)
    asked = live.update(found, key, solve) if isinstance(found, Change) else live.swap(found, key, solve)
    return replied(await awaited(request, asked, solve))


def job_told(record: JobRecord) -> Response:
    """Return the response to a request that starts a job: the job's description, with its URL in a header."""
    return _told(record, status=202, headers={"location": f"/jobs/{record.id}"})


def _told(
    record: JobRecord,
    service: Service | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    *,
    names: bool = True,
) -> Response:
    job = _job(record, service)
    if job.result is not None and not names:
        job.result, withheld = without_keys(job.result)
        job.withheld = sorted(withheld) or None
    return response_of(job, status, headers, exclude_none=True)


def _job(record: JobRecord, service: Service | None = None) -> Job:
    """Return a job's description for an answer, with the result if the job is done and ``service`` is given."""
    told = vars(record) | {name: moment(getattr(record, name)) for name in ("created_at", "started_at", "finished_at")}
    told |= {"progress": record.progress, "error": record.error and problem_of_failure(record.error)}
    if service is not None and record.state == "done":
        told["result"] = service.jobs.result(record.id)
    return Job.model_validate(told)
