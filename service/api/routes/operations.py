"""Operations: health and metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from livesvm.service.api.answers.operations import Health
from livesvm.service.api.routes.access import Parts, response_of
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.errors import NotReady
from livesvm.service.lifecycle.parts import Service

VERSION = version("livesvm")

calls = Calls("operations")

_TEXT = {"text/plain": {"schema": {"type": "string"}}}


@calls("GET /health/live", None, "Is the process alive?")
@answers(Health, "It is.")
async def live() -> Response:
    """Return true as long as the process can answer at all."""
    return response_of(Health(status="alive"), exclude_none=True)


@calls("GET /health/serving", None, "Are predictions answered, and do calls belong here?")
@answers(Health, "They are, and they do.")
async def serving(service: Parts) -> Response:
    """Return true once models are listed and code is compiled, even while the store is away.

    False while another service on the same store takes the calls and this one stands by, and once it stops.
    """
    if reasons := service.health.unserving():
        raise NotReady(reasons)
    return _healthy("serving", service)


@calls("GET /health/ready", None, "Are updates accepted, too?")
@answers(Health, "They are.")
async def ready(service: Parts) -> Response:
    """Return true while the service is serving, its store takes writes and a model takes updates.

    `reasons` lists why it is not ready, and `degraded` what is wrong in a ready service, such as models that are still
    being restored.
    """
    if reasons := service.health.reasons():
        raise NotReady(reasons)
    return _healthy("ready", service)


@calls("GET /metrics", "read", "Metrics for Prometheus")
@answers(_TEXT, "The metrics.")
def metrics(service: Parts) -> Response:
    """Return every metric in the text format of Prometheus."""
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _healthy(status: Literal["serving", "ready"], service: Service) -> Response:
    return response_of(Health(status=status, degraded=service.health.degraded() or None), exclude_none=True)
