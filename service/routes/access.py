"""What every route needs: the service's parts, and whether the caller may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Security
from fastapi.params import Depends as Dependency
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from service.auth import allows, scope_of
from service.errors import MEDIA_TYPE, Forbidden, Unauthorized
from service.fields import MODEL_ID
from service.parts import Service
from service.plots import MEDIA
from service.streams import MEDIA_TYPE as EVENT_STREAM

_bearer = HTTPBearer(auto_error=False, description="An API key; asked for when the service has any configured.")


async def the_service(request: Request) -> Service:
    """The parts of the running service."""
    service: Service = request.app.state.service
    return service


Parts = Annotated[Service, Depends(the_service)]
ModelId = Annotated[str, Path(json_schema_extra={"pattern": MODEL_ID, "maxLength": 64})]


def scope(needed: str) -> Dependency:
    """The dependency that lets only keys of this scope pass; everyone passes where no key is configured."""

    async def check(service: Parts, given: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]) -> None:
        if not service.keys:
            return
        held = scope_of(given.credentials, service.keys) if given is not None else None
        if held is None:
            raise Unauthorized("send a valid API key as a bearer token")
        if not allows(held, needed):
            raise Forbidden(f"this call needs a key of scope {needed}, yours has {held}")

    checker: Callable[..., Awaitable[None]] = check
    result: Dependency = Security(checker)
    return result


def answers(status: int, model: Any, description: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's responses: one good one, and problem documents."""
    return {status: {"model": model, "description": description}, **_refusals()}


def stream_answers(description: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's responses of a call that answers with server-sent events."""
    content = {EVENT_STREAM: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}, **_refusals()}


def image_answers(description: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's responses of a call that answers with a picture."""
    content = {media: {"schema": {"type": "string", "format": "binary"}} for media in MEDIA.values()}
    return {200: {"description": description, "content": content}, **_refusals()}


def _refusals() -> dict[int | str, dict[str, Any]]:
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "4XX": {"description": "The request was refused; nothing changed.", "content": problem},
        "5XX": {"description": "The service cannot do it now.", "content": problem},
    }
