"""Bodies on their way: each has a deadline and a pace, and all of them together, and those of one client, a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import inf

from starlette.requests import Request

from livesvm.service.api.edge.clients import client_of
from livesvm.service.errors import BodyTimeout, BodyTooLarge, MalformedBody
from livesvm.service.resources.pools import Places
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
        full = "too many bodies are on their way already; send this one again"
        self._held = Places(settings.max_bodies * self.largest, full, full)  # a byte has one

    async def receive(self, request: Request) -> bytes:
        """Return the body of a request; raises BodyTooLarge, BodyTimeout, MalformedBody or QueueFull."""
        client = client_of(request.client.host) if request.client else ""
        data = bytearray()
        try:
            async for piece in self._pieces(request, PACE, self._seconds):
                if len(data) + len(piece) > self.largest:
                    raise BodyTooLarge(f"the body has more than {self.largest} bytes")
                self._held.take(client, len(piece))
                data += piece
        finally:
            self._held.give(client, len(data))
        return bytes(data)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the pieces of a body that is not held in memory; raises BodyTimeout or MalformedBody."""
        return self._pieces(request, STREAMED_PACE)

    async def _pieces(self, request: Request, pace: float, seconds: float = inf) -> AsyncIterator[bytes]:
        """Yield what comes within so many seconds, none of it later than the pace and the patience allow."""
        loop = asyncio.get_running_loop()
        end, due = loop.time() + seconds, loop.time() + self._patience
        has_more = True
        while has_more:
            try:
                async with asyncio.timeout_at(min(end, due)):
                    message = await request.receive()
            except TimeoutError:
                whole = f"has {seconds:g} s, and " if seconds < inf else ""
                late = f"{whole}is cut off if it stands still for {self._patience:g} s or has fewer than {pace:g} bytes"
                raise BodyTimeout(f"the body did not arrive in time: it {late} a second") from None
            if message["type"] == "http.disconnect":
                raise MalformedBody("the client left before the body was whole")
            piece, has_more = message.get("body", b""), message.get("more_body", False)
            begun = loop.time()
            yield piece
            due += loop.time() - begun  # what is done with it, such as writing to a disk, is not the client's time
            due = min(loop.time() + self._patience, due + len(piece) / pace)
