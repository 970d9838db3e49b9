"""Calls that list the versions of a model that can be restored, and restore one."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from livesvm.service.api.answers.versions import RestoreAnswer, Versions
from livesvm.service.api.bodies.reading import parse_json, read_body
from livesvm.service.api.requests import RestoreRequest
from livesvm.service.api.routes.access import (
    IdempotencyKey,
    ModelId,
    Parts,
    Within,
    awaited,
    json_of,
    replied,
)
from livesvm.service.api.routes.calls import Calls, answers

calls = Calls("versions")


@calls("GET /models/{id}/versions", "read", "List the versions that can be restored")
@answers(Versions, "Every version from the oldest to the current can be restored.")
def versions(id: ModelId, service: Parts) -> Response:
    """List the stored snapshots of a model, and the oldest version that snapshots and log can restore."""
    return json_of(service.models().get(id).versions())


@calls("POST /models/{id}/restore", "learn", "Go back to a version", body=RestoreRequest)
@answers(RestoreAnswer, "A new version holds what the restored one held, as durable as it says.")
async def restore(id: ModelId, request: Request, service: Parts, solve: Within, key: IdempotencyKey = None) -> Response:
    """Create a new version with the examples, targets, weights and C of an earlier version."""
    live = service.models().get(id)
    body = await read_body(request)
    wanted = await service.workers.placed(parse_json, body, RestoreRequest)
    return replied(await awaited(request, live.restore(wanted.version, key, solve), solve))
