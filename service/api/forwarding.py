"""Requests that are passed on to another front end, which has the job, and its answers.

The caller's key does not go along, as front ends speak plain HTTP with each other: this one vouches for the caller by a
signature that holds for the one request. Which front end a request is meant for stands in its head: it is never passed
on twice, and another one says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
from fastapi import Request
from starlette.responses import Response

from livesvm.service.access.keys import ApiKey
from livesvm.service.access.vouching import vouch
from livesvm.service.api.bodies.reading import read_body
from livesvm.service.api.streams import MEDIA_TYPE as EVENT_STREAM
from livesvm.service.api.streams import relayed
from livesvm.service.api.vouched import VOUCHED, asked_of, target_of
from livesvm.service.errors import JobElsewhere
from livesvm.service.jobs.other_front_ends import FrontEnd, FrontEnds
from livesvm.service.lifecycle.parts import Service
from livesvm.service.logs.calls import current, note

MEANT = "livesvm-for"
"""The header that names the front end which a request of another one is for."""
CONNECT_SECONDS = 2.0
DISBELIEVED = "give both the same LIVESVM_API_KEYS, or files that say the same, and set their clocks"
LIST_SECONDS = 3.0
"""For all others to tell their jobs."""
ANSWER_SECONDS = 10.0
"""To begin an answer, besides what a solve may take, or until the next heartbeat of a stream."""
_ASKED = ("idempotency-key", "content-type", "accept")
_TOLD = ("content-type", "location", "retry-after", "idempotent-replayed", "www-authenticate", "cache-control")


class Forwarding:
    """Connections to other front ends, made when they are needed; used from one event loop."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    def client(self) -> httpx.AsyncClient:
        """Return what asks them: plain HTTP, by the addresses that they announce."""
        if self._client is None:
            self._client = httpx.AsyncClient(trust_env=False)
        return self._client

    async def close(self) -> None:
        """Close them."""
        if self._client is not None:
            await self._client.aclose()


def is_for(request: Request, fronts: FrontEnds) -> bool:
    """Return whether another front end has passed a request on to this one; raises JobElsewhere if it meant a third."""
    meant = request.headers.get(MEANT)
    if meant is not None and meant != fronts.holder:
        raise JobElsewhere(
            f"this is front end {fronts.holder[:8]}; the request was meant for {meant[:8]}, which is away"
        )
    return meant is not None


async def forward(request: Request, front: FrontEnd, service: Service) -> Response:
    """Return the answer of another front end; raises JobElsewhere if there is none."""
    body = (await read_body(request)).data if request.method == "POST" else b""
    seconds = ANSWER_SECONDS
    if request.method == "POST":
        seconds += service.settings.solve_seconds + service.settings.ray_seconds
    elif request.url.path.endswith("/events"):
        seconds += service.settings.heartbeat_seconds
    note(front=front.name)
    client = _forwarding(request).client()
    url = httpx.URL(front.address).copy_with(raw_path=target_of(request))
    asked = client.build_request(
        request.method,
        url,
        headers=_head(request, front, body),
        content=body,
        timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
    )
    try:
        answer = await client.send(asked, stream=True)
        if answer.status_code == 401:
            await answer.aclose()
            raise JobElsewhere(f"front end {front.name} does not believe this one: {DISBELIEVED}")
        headers = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
        if answer.headers.get("content-type", "").startswith(EVENT_STREAM):
            return relayed(request, _pieces(answer))
        try:
            return Response(await answer.aread(), answer.status_code, headers)
        finally:
            await answer.aclose()
    except httpx.TransportError as error:
        what = f"job {request.path_params['job'][:64]} was asked for at front end {front.name}, which does not answer"
        reason = str(error) or type(error).__name__
        raise JobElsewhere(f"{what} ({reason}); what was asked of it may be done yet") from error


async def others_jobs(request: Request, fronts: list[FrontEnd]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return descriptions of all jobs of other front ends, and the names of those that did not tell theirs in time."""
    found = await asyncio.gather(*(_jobs_of(request, front) for front in fronts))
    reported = [jobs for jobs in found if jobs is not None]
    silent = [front.name for front, jobs in zip(fronts, found, strict=True) if jobs is None]
    return [job for jobs in reported for job in jobs], silent


async def _jobs_of(request: Request, front: FrontEnd) -> list[dict[str, Any]] | None:
    with suppress(httpx.TransportError, TimeoutError, ValueError, KeyError):
        async with asyncio.timeout(LIST_SECONDS):
            client = _forwarding(request).client()
            answer = await client.get(f"{front.address}/jobs", headers=_head(request, front), timeout=LIST_SECONDS)
            if answer.status_code == 200:
                jobs: list[dict[str, Any]] = answer.json()["jobs"]
                return jobs
    return None


def _forwarding(request: Request) -> Forwarding:
    found: Forwarding = request.app.state.forwarding
    return found


def _head(request: Request, front: FrontEnd, body: bytes = b"") -> dict[str, str]:
    head = {name: request.headers[name] for name in _ASKED if name in request.headers}
    call = current()
    named = {} if call is None else {"x-request-id": call.id}
    key: ApiKey | None = getattr(request.state, "caller", None)
    word = {} if key is None else {VOUCHED: vouch(front.secret, key, asked_of(request), body)}
    return head | named | word | {MEANT: front.holder, "accept-encoding": "identity"}


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield what comes of a stream, until it ends or its front end is lost."""
    try:
        with suppress(httpx.TransportError):
            async for piece in answer.aiter_raw():
                yield piece
    finally:
        await answer.aclose()
