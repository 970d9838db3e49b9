"""The asynchronous client of the service's REST API, with methods that are coroutines.

async with AsyncClient("http://127.0.0.1:8000") as client:
    await client.create_model("river", C=10.0, kernel={"name": "rbf", "gamma": 0.1}, window={"max_examples": 365})
    await client.update("river", X, y)
    (await client.predict("river", X_new))["decision"]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from tenacity import AsyncRetrying

from livesvm.service.client.events import RETRY_SECONDS, STREAM_SECONDS, FeedEvents, event_in, is_over
from livesvm.service.client.problems import answered, ended
from livesvm.service.client.requests import Request, T, pieces
from livesvm.service.client.retries import policy
from livesvm.service.client.surface import ClientCalls
from livesvm.service.client.tls import explained, fault_of


class AsyncClient(ClientCalls):
    """Asynchronous client of one service, for use from one event loop; it has the methods of Client as coroutines."""

    _kind = httpx.AsyncClient
    _http: httpx.AsyncClient

    async def progress(self, job: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the state of a job, without its result, after each change, until the job has ended."""
        seen: dict[str, Any] = {}
        while not (seen and is_over(seen)):
            found = await self.job(job)
            found.pop("result", None)
            if found != seen:
                seen = found
                yield seen
            if is_over(seen):
                return
            with suppress(httpx.TransportError):
                async with self._http.stream("GET", f"/jobs/{job}/events", timeout=STREAM_SECONDS) as events:
                    async for line in _lines(events):
                        if (reported := event_in(line)) is not None and reported != seen:
                            seen = reported
                            yield seen
            if not is_over(seen):
                await asyncio.sleep(RETRY_SECONDS)

    async def wait(
        self, job: str, on_progress: Callable[[dict[str, Any]], object] = lambda job: None
    ) -> dict[str, Any]:
        """Wait until a job is done or cancelled, and return it; raises ServiceProblem if it has failed.

        After each change of the job, ``on_progress`` is called with its present state.
        """
        async for found in self.progress(job):
            on_progress(found)
        return ended(await self.job(job))

    async def feed_events(self, id: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a feed, each once and in order even if connections break, until the feed is deleted.

        ``after`` is the ``id`` of the last event that the caller already has; without it, the newest event comes first.
        """
        events = FeedEvents(after)
        while True:
            await self.feed(id)  # raises ServiceProblem once it is gone
            path = f"/feeds/{id}/events"
            with suppress(httpx.TransportError):
                async with self._http.stream("GET", path, headers=events.headers(), timeout=STREAM_SECONDS) as answer:
                    async for line in _lines(answer):
                        if (reported := events.event_in(line)) is not None:
                            yield reported
            await asyncio.sleep(RETRY_SECONDS)

    async def is_ready(self) -> bool:
        """Return whether the service is ready; raises httpx.ConnectError if its certificate is not trusted."""
        try:
            with explained():
                return (await self._http.get("/health/ready")).is_success
        except httpx.TransportError as error:
            if fault_of(error) is not None:
                raise
            return False

    async def send(self, request: Request[T]) -> T:
        """Send a request, and repeat it for ``patience`` seconds while the service is busy; raises ServiceProblem."""
        found: T | Request[T] = request
        while isinstance(found, Request):
            again = AsyncRetrying(**policy(found.is_repeatable, self._patience))
            found = answered(found.read, await again(self._once, found))
        return found

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _once(self, request: Request[T]) -> httpx.Response:
        content = _pieces(request.content) if isinstance(request.content, Path) else request.content
        with explained():
            return await self._http.request(
                request.method, request.path, content=content, headers=request.headers, params=request.params
            )


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, which are read in a thread so that the event loop does not wait."""
    source = pieces(path)
    while piece := await asyncio.to_thread(next, source, b""):
        yield piece


async def _lines(stream: httpx.Response) -> AsyncIterator[str]:
    """Yield the lines of an event stream; no lines if the service refused the stream."""
    if stream.is_success:
        async for line in stream.aiter_lines():
            yield line
