"""The whole service watched: one stream that tells which models have changed, and whether the service is well."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Request, Security
from fastapi.security import HTTPAuthorizationCredentials
from starlette.responses import Response

from livesvm.service.access.keys import SCOPES, key_of
from livesvm.service.api.answers import Access
from livesvm.service.api.routes.access import Parts, answers, bearer, moment, scope, stream_answers, told
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.lifecycle.parts import Service
from livesvm.service.live.handle import AnyModel, Description

LOOK_SECONDS = 0.5
"""Between two looks at all models."""
_SHOWN = ("state", "version", "n_support", "C", "predicted", "queue_depth", "error")

router = APIRouter(tags=["operations"])


@router.get(
    "/events",
    summary="Watch the service",
    dependencies=[scope("read")],
    response_class=Response,
    responses=stream_answers("Events, until the service stops."),
)
async def watch(request: Request, service: Parts) -> Response:
    """Server-sent events: first all models and the service's health, then what of them has changed since.

    Each event holds `ready`, `reasons` and `degraded` as /health/ready tells them, `models` that are new or have
    changed, and the ids of those that are `gone`. A stream that is asked for again begins with all models again.
    """
    return event_stream(request, Changes(service).look, LOOK_SECONDS)


@router.get("/access", summary="See what your API key allows", responses=answers(200, Access, "What it allows."))
async def access(
    request: Request, service: Parts, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Response:
    """The scope of the key that was sent, whatever it is; where no key is asked for, everyone has every scope."""
    key = key_of("" if given is None else given.credentials, service.keys)
    held = SCOPES[-1] if not service.keys else key and key.scope
    paths = None if held is None else request.app.state.paths
    found = {"keys": bool(service.keys), "label": key and key.label, "scope": held, "paths": paths}
    return told(Access.model_validate(found))


class Changes:
    """What one reader has been told of a service, and what is new since."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[str, Description] = {}
        self._health: tuple[list[str], list[str]] | None = None
        self._last: Event | None = None

    def look(self) -> Event | None:
        """What has changed since the look before; the same event again where nothing has."""
        service = self._service
        health = service.health.reasons(), service.health.degraded()
        models = service.registry.all()
        now = {model.id: model.describe() for model in models}
        new = [_row(model, now[model.id]) for model in models if now[model.id] != self._told.get(model.id)]
        gone = sorted(self._told.keys() - now.keys())
        if new or gone or health != self._health:
            data = {"ready": not health[0], "reasons": health[0], "degraded": health[1], "models": new, "gone": gone}
            self._last = Event("service", data)
        self._told, self._health = now, health
        return self._last


def _row(model: AnyModel, now: Description) -> dict[str, object]:
    """What an overview shows of a model."""
    shown = {name: getattr(now, name) for name in _SHOWN}
    return {"id": model.id, "task": model.spec.task, "updated_at": moment(now.updated_at)} | shown | asdict(now.sizes)
