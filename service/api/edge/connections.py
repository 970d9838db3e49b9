"""Connections of the HTTP server, with limits of their number, request heads and slow readers.

Uvicorn has no such limits, and stores any number of requests that a client sends before earlier requests are answered.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from livesvm.service.api.edge.admission import Admission
from livesvm.service.api.edge.clients import PACE, client_of
from livesvm.service.api.edge.headers import HEADERS, dated
from livesvm.service.api.problem_documents import MEDIA_TYPE, kind_of, problem
from livesvm.service.api.problems import headers_of
from livesvm.service.errors import HeadTimeout, HeadTooLarge, MalformedRequest, ServiceError, TooManyConnections
from livesvm.service.monitoring.metrics import Metrics

HEAD_BYTES = 32 * 1024
"""Largest number of bytes of a request's head and trailer; the piece that completes a head may exceed it."""
MOST_FIELDS = 100
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """The limits that all connections share.

    Parameters
    ----------
    head_seconds : time limit for the head of a request
    stall_seconds : time between checks that a client reads its answer fast enough
    are_closing : returns whether each connection is closed after its next answer
    """

    admission: Admission
    metrics: Metrics
    head_seconds: float
    stall_seconds: float
    are_closing: Callable[[], bool] = bool


class Connection(HttpToolsProtocol):
    """One connection of a client; it is idle while it has no unanswered request.

    A timer limits the time until the next request's head is complete. If a client sends a request before the previous
    request is answered, the connection is closed after the previous answer.
    """

    def __init__(self, limits: Limits, **server: Any) -> None:
        super().__init__(**server)
        self.client_key = ""
        self.rests_since: float | None = self.loop.time()
        self._limits = limits
        self._clock: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._unclaimed = 0

    @property
    def _under_way(self) -> RequestResponseCycle | None:
        """The request that is being answered, or None."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the new connection, or refuse it if a limit is met."""
        super().connection_made(transport)
        self._limits.metrics.connections.inc()
        self.client_key = client_of(self.client[0]) if self.client else ""
        if self._limits.admission.admit(self):
            self._start_clock()
        else:
            self._refuse(TooManyConnections("every connection that this client may have has a request under way"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the closed connection from the set of open connections, and stop its timers."""
        super().connection_lost(exc)
        self._limits.metrics.connections.dec()
        self._limits.admission.leave(self)
        self._stop_clock()
        self._stop_watching()

    def make_room(self) -> None:
        """Close this connection in favour of a new connection."""
        self._close("displaced")

    def data_received(self, data: bytes) -> None:
        """Parse received data, and refuse the request if its head or its trailer is too large."""
        self._unclaimed += len(data)
        self.server_state.default_headers = dated()  # not by a clock that would wake an idle service
        super().data_received(data)
        if self.transport.is_closing() or not self.transport.is_reading():
            return
        if self._unclaimed > HEAD_BYTES:
            self._refuse(_too_large())
        elif self._clock is None and self.rests_since is not None:
            self._start_clock()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP; stop reading if a client sends a request before its last one was answered."""
        under_way = self._under_way
        if under_way is not None and not under_way.more_body:
            under_way.keep_alive = False
            self.transport.pause_reading()
        elif len(self.headers or ()) > MOST_FIELDS:  # there are none before the first message
            self._refuse(_too_large())
        else:
            self._refuse(MalformedRequest("this is not HTTP as RFC 9112 has it"))

    def on_message_begin(self) -> None:
        """Begin to read a request's head; raises MalformedRequest while an earlier request is being answered."""
        if self._under_way is not None:
            raise MalformedRequest("one request at a time")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header field; ignore fields of a trailer, which arrives while the request is being answered.

        Raises HeadTooLarge, which ends the reading, if the head has too many fields.
        """
        if self._under_way is None:
            super().on_header(name, value)
            if len(self.headers) > MOST_FIELDS:
                raise _too_large()

    def on_headers_complete(self) -> None:
        """Begin to answer; a host in the request target replaces the value of the Host field [RFC 9112, 3.2.2]."""
        if target := _ABSOLUTE.match(self.url):
            self.headers[:] = [(name, target[1] if name == b"host" else value) for name, value in self.headers]
        self._unclaimed = 0
        self._stop_clock()
        self.rests_since = None
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":
            self.cycle.transport = _Answer(self.transport)  # type: ignore[assignment]
        if self._limits.are_closing():
            self.end_after_answer()

    def end_after_answer(self) -> None:
        """Close the connection after the current answer, unless the answer's headers are already sent."""
        if (under_way := self._under_way) is not None and not under_way.response_started:
            under_way.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on to the application."""
        self._unclaimed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the body is complete, and stop the timer of a body that continues after its answer."""
        self._unclaimed = 0
        self._stop_clock()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Record that the answer is complete, so that the connection is idle from now on."""
        super().on_response_complete()
        self.rests_since = self.loop.time()

    def pause_writing(self) -> None:
        """Begin to check the speed of a client that reads its answer more slowly than the service writes it."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop checking how fast the client reads its answer."""
        super().resume_writing()
        self._stop_watching()

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        """Close a connection without a complete request head; if a head has begun, send a problem document first."""
        if self._unclaimed and self._under_way is None:
            self._refuse(HeadTimeout(f"the head of the request did not arrive within {self._limits.head_seconds:g} s"))
        else:
            self._close("silent")

    def _watch(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self._limits.stall_seconds, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Close the connection if its client has read the answer slower than ``PACE``; otherwise check again later."""
        taken = self._unsent - self.transport.get_write_buffer_size()
        if taken < PACE * self._limits.stall_seconds:
            self._close("stalled")
            self.transport.abort()
        else:
            self._watch()

    def _stop_watching(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _refuse(self, error: ServiceError) -> None:
        """Answer the request with a problem document, unless its answer has already begun, and close the connection."""
        under_way = self._under_way
        if under_way is None or not under_way.response_started:
            kind, body = kind_of(error), to_json(problem(error))
            own = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close"}
            fields = [*dated(), *HEADERS.items()]
            fields += [(name.encode(), value.encode()) for name, value in (own | headers_of(kind)).items()]
            line = f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}".encode()
            self.transport.write(b"\r\n".join([line, *(name + b": " + value for name, value in fields), b"", body]))
        if under_way is not None:
            under_way.disconnected = True
            under_way.message_event.set()
        self._close(kind_of(error).slug)

    def _close(self, reason: str) -> None:
        """Close the connection, and count the reason in the metrics."""
        self._stop_clock()
        self._limits.metrics.connections_cut.labels(reason).inc()
        self.transport.close()


class _Answer:
    """The transport of one answer; it sends a head that has the body's length together with the body's beginning.

    Each send is a call of the system, and wakes the client.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send data, or store it if it is the head of a body to come."""
        if self._head is None and b"\r\ncontent-length: " in data:
            self._head = data
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b""

    def close(self) -> None:
        """Send what is stored, and close the connection."""
        self._transport.write(self._head or b"")
        self._transport.close()


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"heads may have {HEAD_BYTES} bytes and {MOST_FIELDS} fields, and trailers too")
