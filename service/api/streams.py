"""Streams of server-sent events; a stream sends only the newest state, so that no events pile up for slow readers."""

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
"""Interval of checks for a new state to send."""
HEARTBEAT = b": nothing new\n\n"
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """A server-sent event: its name, its data as JSON values, and whether it is the last event of its stream."""

    name: str
    data: dict[str, object]
    is_last: bool = False

    number: int | None = None  #: by which a returning reader says what it has seen

    def encode(self) -> bytes:
        """Return the event as the bytes that the stream sends."""
        named = b"" if self.number is None else b"id: %d\n" % self.number
        return named + b"event: " + self.name.encode() + b"\ndata: " + to_json(self.data) + b"\n\n"


class Streams:
    """All open event streams of the service; for use from one event loop.

    Parameters
    ----------
    limit : largest number of open streams; one caller may have half of them
    heartbeat_seconds : interval of comments that a stream sends while it has no event
    """

    def __init__(self, limit: int, heartbeat_seconds: float) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        half = f"{max(1, limit // 2)} event streams of this caller are open; one may have half of LIVESVM_STREAMS"
        self._places = Places(limit, f"{limit} event streams are open, as many as LIVESVM_STREAMS allows", half)
        self._closed = False

    def close(self) -> None:
        """End all streams; without this, they would stay open when the service stops."""
        self._closed = True

    def place(self, caller: Hashable = None) -> AbstractContextManager[None]:
        """Count a stream of a caller during the ``with`` block; raises QueueFull if too many streams are open."""
        return self._places.place(caller)

    def of(self, look: Callable[[], Event | None], look_seconds: float = LOOK_SECONDS) -> StreamingResponse:
        """Return a stream that sends each event from ``look`` that differs from the last; None ends the stream."""
        shown: Event | None = None

        def changed() -> list[Event] | None:
            """Return the event from ``look`` in a list, or an empty list if it is unchanged; None without an event."""
            nonlocal shown
            before, shown = shown, look()
            return None if shown is None else [] if shown == before else [shown]

        return self.all_of(changed, look_seconds)

    def all_of(
        self, look: Callable[[], Sequence[Event] | None], look_seconds: float = LOOK_SECONDS
    ) -> StreamingResponse:
        """Return a stream that sends all events in the lists that ``look`` returns; None ends the stream."""
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
    """The response that is an event stream; while it is open, it counts towards its caller's limit of streams."""

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
    """Return a stream that sends the result of ``look`` whenever this changes, until the caller's key is invalid."""
    streams: Streams = request.app.state.streams
    return streams.of(_while_admitted(request, look), look_seconds)


def every_event(request: Request, look: Callable[[], Sequence[Event] | None]) -> StreamingResponse:
    """Return a stream that sends all events in the lists that ``look`` returns, until the caller's key is invalid."""
    streams: Streams = request.app.state.streams
    return streams.all_of(_while_admitted(request, look))


def _while_admitted(request: Request, look: Callable[[], T | None]) -> Callable[[], T | None]:
    """Return a function that calls ``look`` while the caller's API key is valid, and returns None after that."""
    return lambda: look() if is_admitted(request) else None
