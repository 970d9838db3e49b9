"""Operations: health and metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from livesvm.service.api.answers.operations import Health
from livesvm.service.api.routes.access import Parts, answers, scope
from livesvm.service.errors import NotReady

VERSION = version("livesvm")

Serves = Annotated[
    bool,
    Query(description="Whether it has to serve a model or a feed: one that stands by is ready only once it took over."),
]

router = APIRouter(tags=["operations"])


@router.get(
    "/health/live",
    summary="Is the process alive?",
    responses=answers(200, Health, "It is."),
    response_model_exclude_none=True,
)
async def live() -> Health:
    """Return true as long as the process can answer at all."""
    return Health(status="alive")


@router.get(
    "/health/ready",
    summary="Can it do its work?",
    responses=answers(200, Health, "It can."),
    response_model_exclude_none=True,
)
async def ready(service: Parts, serves: Serves = False) -> Health:
    """Return true once models are listed and code is compiled, while the store takes writes and a model is served.

    What keeps it from being ready is listed in `reasons`, what a ready service does not do in `degraded`, such as
    models that are still being restored.
    """
    if reasons := service.health.reasons(serves):
        raise NotReady(reasons)
    return Health(status="ready", degraded=service.health.degraded() or None)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    dependencies=[scope("read")],
    response_class=Response,
    responses={200: {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: Parts) -> Response:
    """Return every metric in the text format of Prometheus."""
    with service.control.place():
        return Response(await service.control.run(service.metrics.render), media_type=CONTENT_TYPE_LATEST)
