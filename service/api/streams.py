"""Server-sent events: a stream shows the newest state when it has changed, so that nothing is held for slow readers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from livesvm.service.api.edge.clients import caller_of, is_admitted
from livesvm.service.errors import QueueFull

MEDIA_TYPE = "text/event-stream"
LOOK_SECONDS = 0.1
"""Between two looks whether there is something new."""
HEARTBEAT = b": nothing new\n\n"
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """One event: its name, what it says as JSON values, and whether it is the last one."""

    name: str
    data: dict[str, object]
    is_last: bool = False

    number: int | None = None  #: by which a returning reader says what it has seen

    def encode(self) -> bytes:
        """Return the event as it is sent."""
        named = b"" if self.number is None else b"id: %d\n" % self.number
        return named + b"event: " + self.name.encode() + b"\ndata: " + to_json(self.data) + b"\n\n"


class Streams:
    """Every open stream; used from one event loop.

    Parameters
    ----------
    limit : streams that may be open at once, half of them of one caller
    heartbeat_seconds : after so long without news a stream says that it is still there
    stall_seconds : a reader that takes nothing for so long is closed
    """

    def __init__(self, limit: int, heartbeat_seconds: float, stall_seconds: float) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        self.stall_seconds = stall_seconds
        self._limit = limit
        self._open: Counter[Hashable] = Counter()
        self._closed = False

    def close(self) -> None:
        """Have every stream end, as none would by itself when the service stops."""
        self._closed = True

    @contextmanager
    def place(self, caller: Hashable = None) -> Iterator[None]:
        """Hold one of the places of a caller; raises QueueFull at once."""
        if self._open.total() >= self._limit:
            raise QueueFull(f"{self._limit} event streams are open, as many as LIVESVM_STREAMS allows")
        if self._open[caller] >= (most := max(1, self._limit // 2)):
            raise QueueFull(f"{most} event streams of this caller are open; one may have half of LIVESVM_STREAMS")
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    def of(self, look: Callable[[], Event | None], look_seconds: float = LOOK_SECONDS) -> StreamingResponse:
        """Return the stream of what ``look`` returns, each time it differs from before; None ends it."""
        return _EventStream(self._events(look, look_seconds), self)

    def all_of(self, look: Callable[[], Sequence[Event] | None]) -> StreamingResponse:
        """Return the stream of every event that ``look`` returns, each time there are some; None ends it."""
        return _EventStream(self._every(look), self)

    async def _every(self, look: Callable[[], Sequence[Event] | None]) -> AsyncIterator[bytes]:
        said_at = monotonic()
        while not self._closed and (events := look()) is not None:
            if events:
                said_at = monotonic()
                yield b"".join(event.encode() for event in events)
            elif monotonic() - said_at >= self.heartbeat_seconds:
                said_at = monotonic()
                yield HEARTBEAT
            await asyncio.sleep(LOOK_SECONDS)

    async def _events(self, look: Callable[[], Event | None], look_seconds: float) -> AsyncIterator[bytes]:
        shown: Event | None = None
        said_at = monotonic()
        while not self._closed and (event := look()) is not None:
            if event != shown:
                shown, said_at = event, monotonic()
                yield event.encode()
                if event.is_last:
                    return
            elif monotonic() - said_at >= self.heartbeat_seconds:
                said_at = monotonic()
                yield HEARTBEAT
            await asyncio.sleep(look_seconds)


class _EventStream(StreamingResponse):
    """A response that releases a reader that takes nothing."""

    media_type = MEDIA_TYPE

    def __init__(self, content: AsyncIterator[bytes], streams: Streams) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(caller_of(scope)), suppress(TimeoutError, ClientDisconnect):
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send what comes, each piece within the time a reader has."""

        async def in_time(message: Message) -> None:
            """Send one piece, or give the reader up."""
            async with asyncio.timeout(self._streams.stall_seconds):
                await send(message)

        await super().stream_response(in_time)


def event_stream(
    request: Request, look: Callable[[], Event | None], look_seconds: float = LOOK_SECONDS
) -> StreamingResponse:
    """Return the stream of what ``look`` returns, among those of the service that was asked."""
    streams: Streams = request.app.state.streams
    return streams.of(_while_admitted(request, look), look_seconds)


def every_event(request: Request, look: Callable[[], Sequence[Event] | None]) -> StreamingResponse:
    """Return the stream of every event that ``look`` returns, among those of the service that was asked."""
    streams: Streams = request.app.state.streams
    return streams.all_of(_while_admitted(request, look))


def _while_admitted(request: Request, look: Callable[[], T | None]) -> Callable[[], T | None]:
    """Return what looks as long as the caller's key is one, and ends the stream then."""
    return lambda: look() if is_admitted(request) else None
