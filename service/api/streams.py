"""Server-sent events: a stream shows the newest state when it has changed, so that nothing is held for slow readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from livesvm.service.api.edge.clients import caller_of, is_admitted
from livesvm.service.resources.pools import Places

MEDIA_TYPE = "text/event-stream"
LOOK_SECONDS = 0.1
"""Interval of checks whether there is something new."""
HEARTBEAT = b": nothing new\n\n"
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """One event: its name, its data as JSON values, and whether it is the last one."""

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
    """

    def __init__(self, limit: int, heartbeat_seconds: float) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        half = f"{max(1, limit // 2)} event streams of this caller are open; one may have half of LIVESVM_STREAMS"
        self._places = Places(limit, f"{limit} event streams are open, as many as LIVESVM_STREAMS allows", half)
        self._closed = False

    def close(self) -> None:
        """End every stream, as none would end by itself when the service stops."""
        self._closed = True

    def place(self, caller: Hashable = None) -> AbstractContextManager[None]:
        """Hold one of a caller's places for streams inside; raises QueueFull if there is none."""
        return self._places.place(caller)

    def of(self, look: Callable[[], Event | None], look_seconds: float = LOOK_SECONDS) -> StreamingResponse:
        """Return the stream of what ``look`` returns, each time it differs from before; None ends it."""
        shown: Event | None = None

        def changed() -> list[Event] | None:
            """Return the new event, if it differs from the last one."""
            nonlocal shown
            before, shown = shown, look()
            return None if shown is None else [] if shown == before else [shown]

        return self.all_of(changed, look_seconds)

    def all_of(
        self, look: Callable[[], Sequence[Event] | None], look_seconds: float = LOOK_SECONDS
    ) -> StreamingResponse:
        """Return the stream of every event that ``look`` returns, each time there are some; None ends it."""
        return _EventStream(self._every(look, look_seconds), self)

    async def _every(self, look: Callable[[], Sequence[Event] | None], look_seconds: float) -> AsyncIterator[bytes]:
        said_at = monotonic()
        while not self._closed and (events := look()) is not None:
            if events:
                said_at = monotonic()
                yield b"".join(event.encode() for event in events)
                if events[-1].is_last:
                    return
            elif monotonic() - said_at >= self.heartbeat_seconds:
                said_at = monotonic()
                yield HEARTBEAT
            await asyncio.sleep(look_seconds)


class _EventStream(StreamingResponse):
    """A stream that holds a place of its caller; its connection ends if the reader takes nothing."""

    media_type = MEDIA_TYPE

    def __init__(self, content: AsyncIterator[bytes], streams: Streams) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(caller_of(scope)), suppress(ClientDisconnect):
            await super().__call__(scope, receive, send)


def event_stream(
    request: Request, look: Callable[[], Event | None], look_seconds: float = LOOK_SECONDS
) -> StreamingResponse:
    """Return a stream of the request's service that sends what ``look`` returns, each time it differs."""
    streams: Streams = request.app.state.streams
    return streams.of(_while_admitted(request, look), look_seconds)


def every_event(request: Request, look: Callable[[], Sequence[Event] | None]) -> StreamingResponse:
    """Return a stream of the request's service that sends every event that ``look`` returns."""
    streams: Streams = request.app.state.streams
    return streams.all_of(_while_admitted(request, look))


def _while_admitted(request: Request, look: Callable[[], T | None]) -> Callable[[], T | None]:
    """Return a function that calls ``look`` while the caller's key is valid, and then ends the stream."""
    return lambda: look() if is_admitted(request) else None
