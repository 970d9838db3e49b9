"""Calls about the service itself: its health and its metrics."""

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
    """Answer that the process is alive."""
    return response_of(Health(status="alive"), exclude_none=True)


@calls("GET /health/serving", None, "Are predictions answered, and do calls belong here?")
@answers(Health, "They are, and they do.")
async def serving(service: Parts) -> Response:
    """Answer that the service can make predictions: it knows its models, and its code is compiled.

    The service can make predictions even if its store is not available. The answer has status 503 while the service
    stands by for another service on the same store, and when it is about to stop.
    """
    if reasons := service.health.unserving():
        raise NotReady(reasons)
    return _healthy("serving", service)


@calls("GET /health/ready", None, "Are updates accepted, too?")
@answers(Health, "They are.")
async def ready(service: Parts) -> Response:
    """Answer that the service can make predictions, its store accepts writes, and not all models are read-only.

    If the service is not ready, `reasons` lists why; if it is ready, `degraded` lists what is wrong nevertheless, such
    as models that are still being restored.
    """
    if reasons := service.health.reasons():
        raise NotReady(reasons)
    return _healthy("ready", service)


@calls("GET /metrics", "read", "Metrics for Prometheus")
@answers(_TEXT, "The metrics.")
def metrics(service: Parts) -> Response:
    """Return all metrics in the text format of Prometheus."""
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _healthy(status: Literal["serving", "ready"], service: Service) -> Response:
    return response_of(Health(status=status, degraded=service.health.degraded() or None), exclude_none=True)
