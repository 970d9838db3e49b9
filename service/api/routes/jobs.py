"""Jobs: ask for them, watch them, cancel them, use what they found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from livesvm.service.api.answers import Job, JobList, UpdateAnswer
from livesvm.service.api.bodies.reading import Body, parse_json, read_body, schema_content
from livesvm.service.api.problem_documents import problem_of_failure
from livesvm.service.api.requests import ApplyRequest
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
from livesvm.service.api.routes.learn import IdempotencyKey
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.errors import EmptyModel, UnknownJob
from livesvm.service.jobs import outlier_path as outlier_jobs
from livesvm.service.jobs.assessment import AssessmentRequest
from livesvm.service.jobs.files import JobRecord
from livesvm.service.jobs.outlier_path import OutlierPathRequest
from livesvm.service.jobs.plots import MEDIA, Extension
from livesvm.service.jobs.regularization_path import PathRequest, asked_of
from livesvm.service.lifecycle.parts import Service
from livesvm.service.live.model import LiveModel
from livesvm.service.models.fields import JOB_ID
from livesvm.solvers.errors import InvalidInput

router = APIRouter(tags=["jobs"])

JobId = Annotated[str, Path(json_schema_extra={"pattern": JOB_ID})]


@router.post(
    "/models/{id}/assessment",
    status_code=202,
    summary="Assess a model on its own window, exactly",
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
    openapi_extra=schema_content("AssessmentRequest"),
)
async def assess(id: ModelId, request: Request, service: Parts) -> Response:
    """Find what models that had not seen an example would say of it: leave-one-out or k-fold, by exact unlearning.

    The result holds the error (`svc`: share of wrong labels; `svr`: mean absolute error, or mean pinball loss;
    `oneclass`: share of outliers) and, oldest first, `keys` and `decisions`.
    """
    return await _submitted(id, request, service, _submit_assessment)


def _submit_assessment(service: Service, live: LiveModel, body: Body) -> JobRecord:
    asked = parse_json(body, AssessmentRequest)
    n = live.published.sizes.n_examples
    if n == 0:
        raise EmptyModel(f"model {live.id} knows no example yet")
    if n < 2 or (asked.folds or 0) > n:
        raise InvalidInput(f"asks for {asked.folds or 2} examples at least, the window holds {n}", field="folds")
    return service.jobs.submit("assessment", live, asked.model_dump(exclude_none=True))


@router.post(
    "/models/{id}/regularization-path",
    status_code=202,
    summary="Walk the whole regularization path",
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
    openapi_extra=schema_content("PathRequest"),
)
async def regularization_path(id: ModelId, request: Request, service: Parts) -> Response:
    """Find the optimum for every C (`svr`: or epsilon; `oneclass`: nu) in a range, exactly.

    The result holds the `breakpoints`: by ascending `value` the `key` of the example that changes sides, whether it
    `becomes` free or bound, and how many are free and support vectors above the value. With `validation` data it has
    the error, linear from `left` to `right` on each interval between `edges`, and the `best` value with its whole
    interval; to apply the job moves the live model there, or to `{"choice": {"C": ..}}`.
    """
    return await _submitted(id, request, service, _submit_path)


def _submit_path(service: Service, live: LiveModel, body: Body) -> JobRecord:
    asked, given = asked_of(parse_json(body, PathRequest), live.spec, live.published)
    return service.jobs.submit("regularization-path", live, asked, given)


@router.post(
    "/models/{id}/outlier-path",
    status_code=202,
    summary="Walk the outlier path",
    dependencies=[scope("learn")],
    responses=answers(202, Job, "The job waits for its turn."),
    openapi_extra=schema_content("OutlierPathRequest"),
)
async def outliers(id: ModelId, request: Request, service: Parts) -> Response:
    """Find which labels (`svr`: targets) look wrong, and robust models that do not follow them.

    The result holds `suspected`: keys in the order in which they gave way, each with the `value` at which it did; all
    `switches` along the path; and with `validation` data or a share held back, the error at each breakpoint and the
    `best` value. To apply the job makes the live model robust with that value, or with `{"choice": {"value": ..}}`,
    and it stays so; a theta of 1 makes it convex again.
    """
    return await _submitted(id, request, service, _submit_outliers)


def _submit_outliers(service: Service, live: LiveModel, body: Body) -> JobRecord:
    asked, given = outlier_jobs.asked_of(parse_json(body, OutlierPathRequest), live.spec, live.published)
    return service.jobs.submit("outlier-path", live, asked, given)


@router.get(
    "/jobs/{job}/plot.{extension}",
    summary="See a job's result as a plot",
    dependencies=[scope("read")],
    response_class=Response,
    responses=image_answers("The plot."),
)
async def plot(job: JobId, extension: Extension, service: Parts) -> Response:
    """Of a path: validation error, and number of support vectors or of outliers, over the parameter."""
    return await in_control(service, lambda: Response(service.jobs.plot(job, extension), media_type=MEDIA[extension]))


@router.get("/jobs", summary="List the jobs", dependencies=[scope("read")], responses=answers(200, JobList, "All."))
async def list_all(service: Parts) -> Response:
    """Every job, oldest first, without results."""
    return told(JobList(jobs=[_job(record) for record in service.jobs.all()]), exclude_none=True)


@router.get("/jobs/{job}", summary="See a job", dependencies=[scope("read")], responses=answers(200, Job, "The job."))
async def see(job: JobId, service: Parts) -> Response:
    """One job as it is now, with its result when it is done or its error when it has failed."""
    return await in_control(service, lambda: _told(service.jobs.get(job), service))


@router.get(
    "/jobs/{job}/events",
    summary="Watch a job",
    dependencies=[scope("read")],
    response_class=Response,
    responses=stream_answers("Events, until the last one."),
)
async def watch(job: JobId, request: Request, service: Parts) -> Response:
    """Server-sent events: the job, without its result, each time it has changed; the last one is its final state."""
    service.jobs.get(job)

    def look() -> Event | None:
        """The job as it is now; None once it is gone."""
        try:
            record = service.jobs.get(job)
        except UnknownJob:  # it went with its model
            return None
        return Event("job", _job(record).model_dump(mode="json", exclude_none=True), record.is_finished)

    return event_stream(request, look)


@router.delete(
    "/jobs/{job}", summary="Cancel a job", dependencies=[scope("learn")], responses=answers(200, Job, "Told.")
)
async def cancel(job: JobId, service: Parts) -> Response:
    """Have a job stop at its next step; one that is finished stays as it is."""
    return await in_control(service, lambda: _told(service.jobs.cancel(job)))


@router.post(
    "/jobs/{job}/apply",
    summary="Apply a job's result",
    dependencies=[scope("learn")],
    responses=answers(200, UpdateAnswer, "The live model has taken the result over."),
    openapi_extra=schema_content("ApplyRequest"),
)
async def apply(
    job: JobId,
    request: Request,
    service: Parts,
    idempotency_key: IdempotencyKey = None,
    max_seconds: MaxSeconds = None,
) -> Response:
    """Bring what a job found into its live model, as one logged update; 409 for kinds of which that makes no sense."""
    solve = within(max_seconds)
    body = await read_body(request)
    with service.control.place():
        chosen = await service.control.run(parse_json, body, ApplyRequest)
        model, update = await service.control.run(service.jobs.update_of, job, chosen.choice)
    asked = service.models().get(model).update(update, idempotency_key, solve)
    return replied(await awaited(request, asked, solve))


async def _submitted(
    model: str, request: Request, service: Service, submit: Callable[[Service, LiveModel, Body], JobRecord]
) -> Response:
    """Read what is asked of a model and submit it as a job; where to look for that."""
    live = service.models().get(model)
    body = await read_body(request)
    with service.control.place():
        record = await service.control.run(submit, service, live, body)
    return _told(record, status=202, headers={"location": f"/jobs/{record.id}"})


def _told(
    record: JobRecord, service: Service | None = None, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return told(_job(record, service), status, headers, exclude_none=True)


def _job(record: JobRecord, service: Service | None = None) -> Job:
    """What the API says of a job; with its result, if it has one, when the service is given."""
    return Job(
        id=record.id,
        kind=record.kind,
        model=record.model,
        state=record.state,
        progress=record.progress,
        done=record.done,
        total=record.total,
        version=record.version,
        waits_for=record.waits_for,
        asked=record.asked,
        created_at=datetime.fromtimestamp(record.created_at, UTC),
        started_at=moment(record.started_at),
        finished_at=moment(record.finished_at),
        result=service.jobs.result(record.id) if service is not None and record.state == "done" else None,
        error=record.error and problem_of_failure(record.error),
    )
