"""Decorators that declare the calls of the API: method, path, required scope, body and answers for OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Any, Literal, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from livesvm.service.api.bodies.reading import schema_content
from livesvm.service.api.problem_documents import MEDIA_TYPE
from livesvm.service.api.routes.access import quick, scope
from livesvm.service.api.streams import MEDIA_TYPE as EVENT_STREAM
from livesvm.service.jobs.plots import MEDIA
from livesvm.service.lifecycle.parts import Service
from livesvm.service.resources.pools import Pool

E = TypeVar("E", bound=Callable[..., Any])
Content = dict[str, Any]


def binary(*media: str) -> Content:
    """Return the OpenAPI content for media types other than JSON."""
    return {one: {"schema": {"type": "string", "format": "binary"}} for one in media}


EVENTS: Content = {EVENT_STREAM: {"schema": {"type": "string"}}}
PICTURE = binary(*MEDIA.values())
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request was refused; nothing changed.", "content": _PROBLEM},
    "5XX": {"description": "The service cannot do it now.", "content": _PROBLEM},
}


def answers(answer: Any, says: str, *, status: int = 200, other: Sequence[str] = ()) -> Callable[[E], E]:
    """Return a decorator that describes a successful answer of a route; each answer needs its own ``status``.

    Parameters
    ----------
    answer : the model of the answer, or OpenAPI's content of an answer that is not JSON
    says : the meaning of the answer
    other : other media types of the answer
    """
    said = {"content": answer} if isinstance(answer, dict) else {"model": answer}
    if other:
        said["content"] = binary(*other)

    def note(endpoint: E) -> E:
        """Store the description of an answer on the function, where the declaration of the route reads it."""
        vars(endpoint).setdefault("answers", {})[status] = {"description": says, **said}
        return endpoint

    return note


def _in_threads(endpoint: Callable[..., Response], threads: str) -> Callable[..., Awaitable[Response]]:
    """Return a coroutine function that runs ``endpoint`` in the service's thread pool named ``threads``."""

    async def answer(service: Service, **given: Any) -> Response:
        """Reserve a place in the thread pool, and run the function in one of its threads."""
        pool: Pool = getattr(service, threads)
        return await pool.placed(partial(endpoint, service=service, **given))

    answer.__name__, answer.__doc__ = endpoint.__name__, endpoint.__doc__
    answer.__signature__ = signature(endpoint, eval_str=True)  # type: ignore[attr-defined]
    return answer


class Calls:
    """Calls of the API under one tag in OpenAPI; an instance, when called, returns a decorator that adds a call.

    Parameters
    ----------
    routes : the routes of the calls, in the order in which they are matched
    bodies : pydantic models of the bodies that the functions parse themselves
    """

    def __init__(self, tag: str) -> None:
        self._router = APIRouter(tags=[tag])
        self.routes = self._router.routes
        self.bodies: list[type[BaseModel]] = []

    def __call__(
        self,
        call: str,
        needed: str | None,
        summary: str,
        *,
        body: type[BaseModel] | Content | None = None,
        media: Sequence[str] = (),
        is_quick: bool = False,
        threads: Literal["control", "batches"] = "control",
        **more: Any,
    ) -> Callable[[E], E]:
        """Return a decorator that makes a function answer this call.

        A function that is not ``async`` may wait for a disk or a lock, because it runs in the thread pool ``threads``.

        Parameters
        ----------
        call : verb and path
        needed : scope of the caller's key; None: no key is needed
        body, media : pydantic model or OpenAPI content of the body, and its media types other than JSON
        is_quick : whether clients make the call hundreds of times a second
        """
        verb, path = call.split(" ")
        if isinstance(body, dict):
            more["openapi_extra"] = {"requestBody": {"required": True, "content": body}}
        elif body is not None:
            self.bodies.append(body)
            more["openapi_extra"] = schema_content(body.__name__, *media)
        if is_quick and needed:
            more["route_class_override"] = quick(needed)

        def add(endpoint: E) -> E:
            """Add the route."""
            good = vars(endpoint).pop("answers")
            answer = endpoint if iscoroutinefunction(endpoint) else _in_threads(endpoint, threads)
            if any("model" not in said for said in good.values()):
                more["response_class"] = Response
            self._router.add_api_route(
                path,
                answer,
                methods=[verb],
                status_code=min(good),
                summary=summary,
                dependencies=[scope(needed)] if needed else [],
                responses=good | _REFUSALS,
                **more,
            )
            added = self.routes[-1]
            assert isinstance(added, APIRoute)
            added.path = added.path_format  # metrics and logs show paths without the kinds of their parts
            return endpoint

        return add
