"""Bodies on their way: each has a deadline and a pace, and all of them together, and those of one client, a bound."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from livesvm.service.api.edge.clients import client_of
from livesvm.service.errors import BodyTimeout, BodyTooLarge, MalformedBody, QueueFull
from livesvm.service.settings import Settings

PACE = 1000.0
"""Bytes a second that a client has to send, or to take, so as not to count as one that holds us up."""

STREAMED_PACE = 100_000.0
"""The same of a body that is written to disk as it comes, which may take as long as its size asks for."""


class BodyLimits:
    """Bodies on their way; used from one event loop.

    They hold bytes, and no place of a worker: a slow client keeps no other request waiting.
    """

    def __init__(self, settings: Settings) -> None:
        self.largest = settings.max_body_bytes
        self._patience, self._seconds = settings.header_seconds, settings.body_seconds
        self._limit = settings.max_bodies * self.largest
        self._client_limit = self._limit // 2
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Bytes of all bodies on their way."""
        return self._held.total()

    async def receive(self, request: Request) -> bytes:
        """Return the body of a request; raises BodyTooLarge, BodyTimeout, MalformedBody or QueueFull."""
        client = client_of(request.client.host) if request.client else ""
        data = bytearray()
        try:
            with self._holding(client) as take:
                await self._gather(request, data, take)
        except TimeoutError:
            pace = (
                f"and is cut off if it stands still for {self._patience:g} s or has fewer than {PACE:g} bytes a second"
            )
            raise BodyTimeout(f"the body did not arrive in time: it has {self._seconds:g} s, {pace}") from None
        except ClientDisconnect:
            raise MalformedBody("the client left before the body was whole") from None
        return bytes(data)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the pieces of a body that is not held in memory; raises BodyTimeout or MalformedBody."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._patience
        pieces = request.stream()
        try:
            while True:
                async with asyncio.timeout_at(due):
                    chunk = await anext(pieces, None)
                if chunk is None:
                    return
                begun = loop.time()
                yield chunk
                due += loop.time() - begun  # what the disk took is not the client's
                due = min(loop.time() + self._patience, due + len(chunk) / STREAMED_PACE)
        except TimeoutError:
            pace = f"it may stand still for {self._patience:g} s and has {STREAMED_PACE:g} bytes a second"
            raise BodyTimeout(f"the body did not arrive in time: {pace}") from None
        except ClientDisconnect:
            raise MalformedBody("the client left before the body was whole") from None

    async def _gather(self, request: Request, data: bytearray, take: Callable[[int], None]) -> None:
        """Append what comes; raises TimeoutError for what does not."""
        loop = asyncio.get_running_loop()
        end, due = loop.time() + self._seconds, loop.time() + self._patience
        async with asyncio.timeout_at(min(end, due)) as deadline:
            async for chunk in request.stream():
                if len(data) + len(chunk) > self.largest:
                    raise BodyTooLarge(f"the body has more than {self.largest} bytes")
                take(len(chunk))
                data += chunk
                due = min(loop.time() + self._patience, due + len(chunk) / PACE)
                deadline.reschedule(min(end, due))

    @contextmanager
    def _holding(self, client: str) -> Iterator[Callable[[int], None]]:
        """Take bytes for a client, all of which are given back at the end."""
        own = 0

        def take(size: int) -> None:
            """Take more; raises QueueFull."""
            nonlocal own
            if self.held + size > self._limit or self._held[client] + size > self._client_limit:
                raise QueueFull("too many bodies are on their way already; send this one again")
            own += size
            self._held[client] += size

        try:
            yield take
        finally:
            self._held[client] -= own
            if self._held[client] == 0:
                del self._held[client]
