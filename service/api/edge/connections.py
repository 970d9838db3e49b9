"""Connections of the HTTP server: their number, deadlines and sizes of heads, and clients too slow to read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from livesvm.service.api.edge.admission import Admission
from livesvm.service.api.edge.body_limits import PACE
from livesvm.service.api.edge.clients import client_of
from livesvm.service.api.edge.headers import HEADERS
from livesvm.service.api.problem_documents import MEDIA_TYPE, kind_of, problem
from livesvm.service.api.problems import headers_of
from livesvm.service.errors import HeadTimeout, HeadTooLarge, MalformedRequest, ServiceError, TooManyConnections
from livesvm.service.monitoring.metrics import Metrics

HEAD_BYTES = 32 * 1024
"""Of the request line and all fields of a head, or of a trailer; and of what stands between two pieces of a body."""
MOST_FIELDS = 100
MOST_WAITING = 16
"""Requests of one connection that are read and wait for the answer to one before them; more stay unread until then."""
_VERSION = b"HTTP/"
"""Ends the request line of every request, so that a piece of bytes begins no more requests than it holds of these."""
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What connections share.

    Parameters
    ----------
    head_seconds : time for a head
    stall_seconds : time without taking any of an answer
    are_closing : whether each is closed after its next answer
    """

    admission: Admission
    metrics: Metrics
    head_seconds: float
    stall_seconds: float
    are_closing: Callable[[], bool] = bool


class Flow(FlowControl):
    """Flow of a connection that is not read on while ``is_full``, whoever waits for more of a request."""

    def __init__(self, transport: asyncio.Transport, is_full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_full = is_full

    def resume_reading(self) -> None:
        """Read on, unless there is enough."""
        if not self._is_full():
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """One connection. It rests while no request is under way; then a clock runs from the first byte to a whole head."""

    def __init__(self, limits: Limits, **server: Any) -> None:
        super().__init__(**server)
        self.client_key = ""
        self.rests_since: float | None = self.loop.time()
        self._limits = limits
        self._clock: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._in_head = False
        self._head_bytes = 0
        self._unclaimed = 0
        self._unread = b""
        self._fault: ServiceError | None = None
        self._is_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or say that there is none."""
        super().connection_made(transport)
        self.flow = Flow(transport, lambda: bool(self._unread))
        self._limits.metrics.connections.inc()
        self.client_key = client_of(self.client[0]) if self.client else ""
        if self._limits.admission.admit(self):
            self._start_clock()
        else:
            self._refuse(TooManyConnections("every connection that this client may have has a request under way"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        super().connection_lost(exc)
        self._limits.metrics.connections.dec()
        self._limits.admission.leave(self)
        self._is_over = True
        self._stop_clock()
        self._stop_watching()

    def make_room(self) -> None:
        """Close, as another one needs the place."""
        self._end("displaced")
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Read on, as long as what comes is part of a body or of a head of bearable size."""
        self._unread += data
        self._read_on()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with what was read."""
        self._refuse(self._fault or MalformedRequest("this is not HTTP as RFC 9112 has it"))

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if len(self.pipeline) > MOST_WAITING:  # without a version, so that none was counted
            self._stop_reading(HeadTooLarge(f"{MOST_WAITING} requests of this connection wait already"))

    def on_url(self, url: bytes) -> None:
        """Note a part of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a field of the head; those of a trailer, which come when the request is being answered, are not used."""
        self._count(len(name) + len(value))
        if self._in_head:
            super().on_header(name, value)
            if len(self.headers) > MOST_FIELDS:
                self._stop_reading(_too_large())

    def on_headers_complete(self) -> None:
        """Begin to answer; a target that names a host stands in place of the Host field [RFC 9112, 3.2.2]."""
        if target := _ABSOLUTE.match(self.url):
            self.headers[:] = [(name, target[1] if name == b"host" else value) for name, value in self.headers]
        self._in_head, self._unclaimed = False, 0
        self._stop_clock()
        self.rests_since = None
        super().on_headers_complete()
        if self._limits.are_closing():
            self.end_after_answer()

    def end_after_answer(self) -> None:
        """Say in the next answer, unless that has begun, that the connection ends with it."""
        under_way: RequestResponseCycle | None = self.cycle
        if under_way is not None and not under_way.response_started and not self.pipeline:
            under_way.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body on."""
        self._unclaimed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body; the clock ran if it was answered before it was whole."""
        self._unclaimed = 0
        self._stop_clock()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Rest, unless another request waits."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self.rests_since = self.loop.time()
        if self._unread and not self.transport.is_closing():
            self._read_on()
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Watch a client that does not take the answer as fast as it comes."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Watch no longer."""
        super().resume_writing()
        self._stop_watching()

    def _read_on(self) -> None:
        """Parse what has come, up to as many requests as may wait; what is left stays unread, and more is not taken."""
        data, start = self._unread, 0
        while start < len(data) and len(self.pipeline) < MOST_WAITING and not self._is_over:
            if self._clock is None and self.rests_since is not None:
                self._start_clock()
            end = self._end_of_piece(data, start)
            self._unclaimed += end - start
            super().data_received(data[start:end])
            if self._unclaimed > HEAD_BYTES and not self._is_over:
                self._refuse(_too_large())
            start = end
        self._unread = b"" if self._is_over else data[start:]
        if self._unread:
            self.flow.pause_reading()

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Return where a piece ends that begins no more requests than there is space for."""
        for _ in range(MOST_WAITING - len(self.pipeline)):
            found = data.find(_VERSION, start)
            if found < 0:
                return len(data)
            start = found + len(_VERSION)
        return start

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            self._stop_reading(_too_large())

    def _stop_reading(self, fault: ServiceError) -> None:
        """Have the parser stop, which then asks for the answer."""
        self._fault = fault
        raise fault

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        """End a connection on which no request came; one that has begun is answered."""
        if self._in_head:
            self._refuse(HeadTimeout(f"the head of the request did not arrive within {self._limits.head_seconds:g} s"))
        else:
            self._end("silent")
            self.transport.close()

    def _watch(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self._limits.stall_seconds, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Close the connection of a client that has taken less than the pace."""
        taken = self._unsent - self.transport.get_write_buffer_size()
        if taken < PACE * self._limits.stall_seconds:
            self._end("stalled")
            self.transport.abort()
        else:
            self._watch()

    def _stop_watching(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _refuse(self, error: ServiceError) -> None:
        """Say what is wrong, unless an answer is on its way, and close."""
        self._end(kind_of(error).slug)
        under_way: RequestResponseCycle | None = self.cycle  # of the newest request
        if under_way is None or under_way.response_complete or not (under_way.response_started or self.pipeline):
            self.transport.write(self._answer(error))
        if under_way is not None:
            under_way.disconnected = True
            under_way.message_event.set()
        self.transport.close()

    def _end(self, reason: str) -> None:
        """Read nothing any more, and count why."""
        self._is_over = True
        self._stop_clock()
        self._limits.metrics.connections_cut.labels(reason).inc()

    def _answer(self, error: ServiceError) -> bytes:
        kind, body = kind_of(error), to_json(problem(error))
        own = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close"} | headers_of(kind)
        fields = [*self.server_state.default_headers, *HEADERS]
        fields += [(name.encode(), value.encode()) for name, value in own.items()]
        line = f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}".encode()
        return b"\r\n".join([line, *(name + b": " + value for name, value in fields), b"", body])


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"heads may have {HEAD_BYTES} bytes and {MOST_FIELDS} fields, and trailers too")
