"""Versions: the list of those that can be restored, and restoring one."""

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
    """List the stored snapshots, and the oldest version that can be restored from them and the log."""
    return json_of(service.models().get(id).versions())


@calls("POST /models/{id}/restore", "learn", "Go back to a version", body=RestoreRequest)
@answers(RestoreAnswer, "A new version holds what the restored one held, as durable as it says.")
async def restore(id: ModelId, request: Request, service: Parts, solve: Within, key: IdempotencyKey = None) -> Response:
    """Go back to a kept version, as a new version: examples, targets, weights and C are what they were then."""
    live = service.models().get(id)
    body = await read_body(request)
    with service.workers.place():
        wanted = await service.workers.run(parse_json, body, RestoreRequest)
    return replied(await awaited(request, live.restore(wanted.version, key, solve), solve))
