"""Operations: health and metrics."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from livesvm.service.api.answers.operations import Health
from livesvm.service.api.routes.access import Parts, answers, scope
from livesvm.service.errors import NotReady

VERSION = version("livesvm")

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
    "/health/serving",
    summary="Are predictions answered, and do calls belong here?",
    responses=answers(200, Health, "They are, and they do."),
    response_model_exclude_none=True,
)
async def serving(service: Parts) -> Health:
    """Return true once models are listed and code is compiled, also while the store is away: memory predicts.

    False while another service on the same store takes the calls and this one stands by, and once it stops.
    """
    if reasons := service.health.unserving():
        raise NotReady(reasons)
    return Health(status="serving", degraded=service.health.degraded() or None)


@router.get(
    "/health/ready",
    summary="Are updates accepted, too?",
    responses=answers(200, Health, "They are."),
    response_model_exclude_none=True,
)
async def ready(service: Parts) -> Health:
    """Return true while the service is serving, its store takes writes and a model takes updates.

    What keeps it from being ready is listed in `reasons`, what a ready service does not do in `degraded`, such as
    models that are still being restored.
    """
    if reasons := service.health.reasons():
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
