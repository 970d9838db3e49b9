"""Bytes to a service and back over a socket of its own, without a client's help that would mend them."""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

Address = tuple[str, int]

LONGEST = 64 * 2**20
"""Bytes of one answer; no answer of ours has as many."""
STREAM = "text/event-stream"
BODILESS = (204, 304)


@dataclass(frozen=True)
class Sent:
    """What one connection sends; where it ``ends`` early, it says so after that, and expects no answer."""

    kind: str
    data: bytes
    ends: bool = False

    def line(self, **more: Any) -> str:
        """Return one line of a file that can be replayed."""
        reported = {"kind": self.kind, "ends": self.ends, "data": base64.b64encode(self.data).decode()}
        return json.dumps({**more, **reported})

    @classmethod
    def of(cls, line: str) -> Sent:
        """Return what a line of such a file holds."""
        reported = json.loads(line)
        return cls(reported["kind"], base64.b64decode(reported["data"]), reported["ends"])

    @property
    def start(self) -> str:
        """The request line, for people."""
        return self.data.partition(b"\r\n")[0][:100].decode(errors="backslashreplace")


@dataclass(frozen=True)
class Answer:
    """The first answer that came: its status, 0 where the service closed the connection without one."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return the value of a header; empty when it is not there."""
        return next((value for found, value in self.headers if found == name), "")

    def document(self) -> Any:
        """Return the body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Unreadable(Exception):
    """What came is no HTTP."""


def exchange(address: Address, sent: Sent, seconds: float) -> Answer:
    """Send, and read the first answer; raises TimeoutError when it is not there in time, Unreadable."""
    deadline = time.monotonic() + seconds
    with closing(socket.create_connection(address, seconds)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves no port behind
        try:
            connection.sendall(sent.data)
            if sent.ends:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before it was whole; the answer may be there
        return _Reader(connection, deadline).answer(has_body=not sent.data.startswith(b"HEAD "))


@dataclass
class _Reader:
    connection: socket.socket
    deadline: float
    seen: bytes = b""

    def answer(self, *, has_body: bool) -> Answer:
        """Return the first one that is final."""
        while True:
            head = self._until(b"\r\n\r\n")
            if head is None:
                return Answer()
            status, headers = _parsed(head)
            if status >= 200:
                found = Answer(status, headers)
                empty = not has_body or status in BODILESS or found.header("content-type").startswith(STREAM)
                return found if empty else Answer(status, headers, self._body(found))

    def _body(self, head: Answer) -> bytes:
        if "chunked" in head.header("transfer-encoding"):
            body = b""
            while (line := self._until(b"\r\n")) and (size := int(line, 16)):
                body += self._exactly(size)
                self._exactly(2)
            return body
        if length := head.header("content-length"):
            return self._exactly(int(length))
        while self._more():
            pass
        return self.seen

    def _until(self, end: bytes) -> bytes | None:
        """Return what stands before ``end``; None if the connection ends before."""
        while end not in self.seen:
            if not self._more():
                return None
        found, _, self.seen = self.seen.partition(end)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self.seen) < count and self._more():
            pass
        found, self.seen = self.seen[:count], self.seen[count:]
        return found

    def _more(self) -> bool:
        """Read some; False at the end of the connection."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        try:
            read = self.connection.recv(2**16)
        except (ConnectionResetError, BrokenPipeError):
            return False
        self.seen += read
        if len(self.seen) > LONGEST:
            raise Unreadable(f"an answer of more than {LONGEST} bytes")
        return bool(read)


def _parsed(head: bytes) -> tuple[int, tuple[tuple[str, str], ...]]:
    first, *rest = head.split(b"\r\n")
    version, _, status = first.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not status[:3].isdigit():
        raise Unreadable(f"an answer that begins with {first[:60]!r}")
    pairs = (line.decode("latin-1").partition(":") for line in rest)
    return int(status[:3]), tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
