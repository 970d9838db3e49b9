"""Code that routes share: access to the service's parts, checks of API keys, parameters of calls, and responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from inspect import signature
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Path, Query, Security
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from livesvm.service.access.keys import SCOPES, ApiKey, allows
from livesvm.service.api.bodies.reading import Body, read_body
from livesvm.service.errors import Forbidden, ModelUnavailable, Restoring, TurnMissed, Unauthorized, Withdrawn
from livesvm.service.fleets.names import FLEET_ID, LONGEST_QUOTED, OF_FEEDS, SERIES_ID
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.handle import NEWS_SECONDS, Hosted, Reply
from livesvm.service.lifecycle.parts import Service
from livesvm.service.logs.calls import known_as, note
from livesvm.service.models.fields import MODEL_ID
from livesvm.service.resources.solve_scheduler import Solve

SOON_SECONDS = 0.05
"""Delay after which a call begins to watch whether its caller still waits."""
PAGE = 200
"""Default number of models or feeds in a page of a list."""
MOST = 1000
LONGEST_KEY = 200
"""Largest number of characters in an ``Idempotency-Key``."""
BUSY = "the model was busy for as long as the caller could wait; nothing was changed"
T = TypeVar("T")
A = TypeVar("A", bound=Hosted)

bearer = HTTPBearer(auto_error=False, description="An API key; asked for when the service has any configured.")


async def the_service(request: Request) -> Service:
    """Return the parts of the running service."""
    service: Service = request.app.state.service
    return service


async def the_ready_service(request: Request) -> Service:
    """Return the parts of the running service; raises NotReady until models and feeds are restored."""
    service = await the_service(request)
    service.models()
    return service


Parts = Annotated[Service, Depends(the_service)]
Ready = Annotated[Service, Depends(the_ready_service)]
ModelId = Annotated[str, Path(json_schema_extra={"pattern": MODEL_ID, "maxLength": 64})]
FEED_ID = rf"{MODEL_ID[:-1]}(/{SERIES_ID})?$"
FeedId = Annotated[
    str,
    Path(
        json_schema_extra={"pattern": FEED_ID, "maxLength": 37 + LONGEST_QUOTED},
        description="Of a series of a fleet `fleet/series`, with the name quoted as `GET /fleets/{id}/series` tells.",
    ),
]


FleetId = Annotated[str, Path(json_schema_extra={"pattern": FLEET_ID, "maxLength": 36})]


class _FeedPath(Convertor[str]):
    """Converter of feed ids in URL paths: an id may have one slash, but not before the name of a call about feeds."""

    regex = rf"[^/]+(?:/(?!(?:{'|'.join(sorted(OF_FEEDS))})(?:[/.]|$))[^/]+)?"

    def convert(self, value: str) -> str:
        """Return the id."""
        return value

    def to_string(self, value: str) -> str:
        """Return the id."""
        return value


register_url_convertor("feed", _FeedPath())


After = Annotated[str, Query(max_length=64, description="Only those after this id, the `next` of a page.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="At most so many.")]


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        description="The client's name for this request: sent again, it has one effect and the same answer.",
    ),
]


async def _within(
    max_seconds: Annotated[
        float | None,
        Query(
            gt=0,
            le=86_400,
            description="Time limit of the call, waiting included; if it is exceeded, nothing is changed.",
        ),
    ] = None,
) -> Solve:
    """Return a Solve with a deadline ``max_seconds`` from now; with None, only the service's own time limit applies."""
    return Solve() if max_seconds is None else Solve(until=time.monotonic() + max_seconds)


Within = Annotated[Solve, Depends(_within)]


def page_of(home: Collection[A], after: str, limit: int) -> tuple[Sequence[A], str | None]:
    """Return a page of models or feeds, sorted by id, and the id after which the next page begins, or None."""
    found = home.page(after, limit + 1)
    return found[:limit], found[limit - 1].id if len(found) > limit else None


Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


class _Scope:
    """FastAPI dependency that admits only callers with a key of a scope, or all callers if no keys are configured."""

    def __init__(self, needed: str) -> None:
        self.needed = needed

    async def __call__(self, request: Request, service: Parts, given: Credentials) -> None:
        """Raise Unauthorized or Forbidden unless the caller's key allows the scope."""
        if not service.keys.known:
            return
        key = service.keys.find("" if given is None else given.credentials)
        request.state.caller = let_in(key, self.needed)


def scope(needed: str) -> Dependency:
    """Return a FastAPI dependency that admits only API keys of this scope, or all callers if no keys are configured."""
    result: Dependency = Security(_Scope(needed))
    return result


def scopes_of(routes: Iterable[BaseRoute]) -> dict[str, str | None]:
    """Map each path to the least scope that any of its calls needs, or to None if any of its calls needs no key."""
    found: dict[str, str | None] = {}
    for route in routes:
        if isinstance(route, APIRoute):
            needed = [one.dependency.needed for one in route.dependencies if isinstance(one.dependency, _Scope)]
            least = [needed[0] if needed else None, *([found[route.path]] if route.path in found else [])]
            found[route.path] = None if None in least else min(filter(None, least), key=SCOPES.index)
    return found


def may(request: Request, service: Service, needed: str) -> bool:
    """Return whether the caller of an admitted request has a scope, as all callers have if no keys are configured."""
    return not service.keys.known or allows(request.state.caller.scope, needed)


def let_in(held: ApiKey | None, needed: str) -> ApiKey:
    """Return the caller's API key; raises Unauthorized if there is none, Forbidden if it does not include the scope."""
    if held is None:
        raise Unauthorized("send a valid API key as a bearer token")
    known_as(held.label)
    if not allows(held.scope, needed):
        raise Forbidden(f"this call needs a key of scope {needed}, yours has {held.scope}")
    return held


def bearer_of(request: Request) -> str:
    """Return the bearer token of a request, or an empty text if the request has no bearer token."""
    scheme, secret = get_authorization_scheme_param(request.headers.get("authorization", ""))
    return secret if scheme.lower() == "bearer" else ""


async def _whole_body(request: Request) -> Body:
    return await read_body(request)


Whole = Annotated[Body, Depends(_whole_body)]
"""The body, of one of the media that most calls read."""


async def up_to_date(one: Hosted) -> None:
    """Wait until this process knows all announced changes of a model or feed; an announcement may arrive a second late.

    Raises UnknownModel or UnknownFeed if the model or feed was deleted.
    """
    news = one.news()
    if news is not None:
        with suppress(ModelUnavailable, Restoring, TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(news), NEWS_SECONDS)


async def remove(service: Service, stored: str) -> Response:
    """Delete the model or feed with this name in the store, and all of its data; return the response."""
    await asyncio.wrap_future(await service.control.placed(service.erasures.begin_deletion, stored))
    await service.control.placed(service.erasures.end_deletion, stored)
    return Response(status_code=204)


async def awaited(request: Request, future: Future[T], solve: Solve, *, changes: bool = True) -> T:
    """Wait for the result of a command that a model's writer executes, as long as the caller is connected.

    If the caller disconnects, a command that has not begun is withdrawn, and a running command that changes nothing is
    stopped. Raises Withdrawn if the command is withdrawn or stopped, and TurnMissed if the command has not begun within
    the caller's time limit.
    """
    answer = asyncio.wrap_future(future)
    left, is_late = None, False
    try:
        await asyncio.wait([answer], timeout=SOON_SECONDS)
        if not answer.done():
            left = asyncio.ensure_future(_left(request))
            either: list[asyncio.Future[Any]] = [answer, left]
            await asyncio.wait(either, timeout=solve.rest(), return_when=asyncio.FIRST_COMPLETED)
            is_late = not (answer.done() or left.done())
            if left.done() and not changes:
                solve.end(Withdrawn("the caller left"))  # work may go on even if the future can be cancelled
            if not answer.done() and future.cancel():
                raise TurnMissed(BUSY) if is_late else Withdrawn("the caller left before its turn came")
        return await answer
    except Withdrawn:
        if is_late:  # a model in another process only says that the call was withdrawn
            raise TurnMissed(BUSY) from None
        raise
    finally:
        if not (changes or answer.done()):
            solve.end(Withdrawn("its answer is not waited for"))
        future.cancel()
        if left is not None:
            left.cancel()


async def _left(request: Request) -> None:
    """Wait until the caller has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def response_of(
    answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None, *, exclude_none: bool = False
) -> Response:
    """Return an answer as a JSON response; fields that are None become null, or are left out with ``exclude_none``."""
    return Response(answer.model_dump_json(exclude_none=exclude_none), status, headers, "application/json")


def json_of(found: Any) -> Response:
    """Return a document as a JSON response; NaN and infinities, which JSON does not have, become null."""
    return Response(to_json(found, inf_nan_mode="null"), media_type="application/json")


def replied(reply: Reply) -> Response:
    """Return the response to an update; if the answer repeats the answer to an earlier request, a header says so."""
    headers = {"idempotent-replayed": "true"} if reply.replayed else None
    if reply.replayed:
        note(outcome="replayed")
    return Response(reply.body, 200, headers, "application/json")


def moment(seconds: float | None) -> datetime | None:
    """Convert a Unix time to a datetime in UTC for an answer; an unknown time stays None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def quick(needed: str) -> type[APIRoute]:
    """Return a class of fast routes with ``id`` in the path, for API keys of this scope if keys are configured."""

    class QuickRoute(APIRoute):
        """Route that calls its function directly, and leaves only unusual requests to FastAPI."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Return the function that answers the requests of this route."""
            thorough, endpoint = super().get_route_handler(), self.endpoint
            takes = signature(endpoint).parameters
            is_update = "key" in takes and "solve" in takes

            async def handle(request: Request) -> Response:
                """Call the endpoint directly, or leave a request with a query or an unusual header to FastAPI."""
                service: Service = request.app.state.service
                keys = request.headers.getlist("idempotency-key") if is_update else []
                key = keys[0] if keys else None
                is_plain = key is None or 1 <= len(key) <= LONGEST_KEY
                if request.scope["query_string"] or len(keys) > 1 or not is_plain:
                    return await thorough(request)
                if service.keys.known:
                    let_in(service.keys.find(bearer_of(request)), needed)
                named = {"key": key, "solve": Solve()} if is_update else {}
                answer: Response = await endpoint(request.path_params["id"], request, service, **named)
                return answer

            return handle

    return QuickRoute
