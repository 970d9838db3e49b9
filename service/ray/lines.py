"""Lines: direct connections from front ends to actors, for short and frequent calls.

A call through Ray takes about 2 ms longer than a call by a line, and most updates are solved in less time than that. An
actor sends its address and a secret to front ends through Ray. Both ends of a line prove that they know the secret
before anything else is read. If Ray's connections are encrypted, lines are too, by the same certificates. Without a
line, calls go through Ray.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import ssl
import struct
import threading
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import uvloop

HEAD = struct.Struct("!QQ")
"""Head of a message: the number of its call, and its size in bytes."""
SECRET_BYTES = 32
LARGEST = 64 * 2**20
"""Most bytes of a message."""
BUFFER = 2**20
"""Largest number of received bytes that are buffered; an end without a checked proof can occupy no more."""
CONNECT_SECONDS = 2.0
"""Time limit for both ends to prove that they know the secret."""
HASH = "sha256"
ASKS, ANSWERS = b"front end", b"actor"
"""The two ends, as their proofs name them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """The address at which an actor listens, and the secret that its callers must know."""

    host: str
    port: int
    secret: bytes = field(repr=False)


class Listener:
    """The actor's end: answers callers that know the secret. A listener works on the actor's event loop only."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer, self._secret = answer, secrets.token_bytes(SECRET_BYTES)
        self._server: asyncio.Server | None = None
        self._opening = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    async def endpoint(self, host: str) -> Endpoint:
        """Return the address and the secret of this end, which begins to listen at the first call. Raises OSError."""
        async with self._opening:
            if self._server is None:
                context = _tls(ssl.Purpose.CLIENT_AUTH)
                seconds = None if context is None else CONNECT_SECONDS
                self._server = await asyncio.start_server(
                    self._serve, host, 0, ssl=context, ssl_handshake_timeout=seconds, limit=BUFFER
                )
        return Endpoint(host, int(self._server.sockets[0].getsockname()[1]), self._secret)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await _meet(reader, writer, self._secret, ANSWERS, ASKS)
            while True:
                task = asyncio.ensure_future(self._answered(writer, *await _message(reader)))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
        except (OSError, IncompleteReadError, TimeoutError):
            pass  # the front end is gone, or is none
        finally:
            writer.transport.abort()

    async def _answered(self, writer: StreamWriter, number: int, message: bytes) -> None:
        try:
            answer = await self._answer(message)
            if not writer.is_closing():
                writer.write(HEAD.pack(number, len(answer)) + answer)
        except BaseException:
            writer.transport.abort()  # the caller asks again by Ray's own call, and gets the error there
            raise


class _Line:
    """The front end's end of a line, with the calls that wait for their answers."""

    def __init__(self, at: Endpoint) -> None:
        self.at = at
        self.writer: StreamWriter | None = None
        self.waiting: dict[int, Future[bytes]] = {}
        self._last = 0

    def send(self, message: bytes, found: Future[bytes]) -> None:
        """Send a call."""
        if self.writer is None or self.writer.is_closing():
            found.set_exception(ConnectionError("the line was lost"))
            return
        self._last += 1
        self.waiting[self._last] = found
        self.writer.write(HEAD.pack(self._last, len(message)) + message)

    def abort(self) -> None:
        """End the connection."""
        if self.writer is not None:
            self.writer.transport.abort()


class ActorLines:
    """The lines of a front end, by the name of the actor, on an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self.refused: dict[str, Endpoint] = {}
        self._loop, self._over = uvloop.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def find(self, name: str, at: Endpoint) -> None:
        """Begin to connect a line to the endpoint of an actor, unless the actor has a line to that endpoint."""
        line = self._lines.get(name)
        if line is None or line.at != at:
            self._lines[name] = line = _Line(at)
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._keep(name, line)))

    def ask(self, name: str, message: bytes) -> Future[bytes] | None:
        """Send a message to an actor, and return the future of its answer; None if there is no line to the actor."""
        line = self._lines.get(name)
        if line is None or line.writer is None or len(message) > LARGEST:
            return None
        found: Future[bytes] = Future()
        self._loop.call_soon_threadsafe(line.send, message, found)
        return found

    def lose(self, name: str) -> None:
        """End the line to a lost actor, whether or not its connection is still open."""
        if (line := self._lines.pop(name, None)) is not None:
            self._loop.call_soon_threadsafe(line.abort)

    def close(self) -> None:
        """End all lines."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())  # what is under way is cancelled then

    async def _keep(self, name: str, line: _Line) -> None:
        """Connect a line, and pass answers to the calls that wait for them, until the line is lost."""
        writer = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                context = _tls(ssl.Purpose.SERVER_AUTH)
                reader, writer = await asyncio.open_connection(line.at.host, line.at.port, ssl=context, limit=BUFFER)
            await _meet(reader, writer, line.at.secret, ASKS, ANSWERS)
            self.refused.pop(name, None)
            line.writer = writer
            while self._lines.get(name) is line:  # else it was given up meanwhile
                number, answer = await _message(reader)
                if (found := line.waiting.pop(number, None)) is not None:
                    found.set_result(answer)
        except (OSError, IncompleteReadError, TimeoutError) as error:
            if line.writer is None and self.refused.get(name) != line.at:
                self.refused[name] = line.at
                log.warning("there is no line to actor %s, and calls take Ray's way: %s", name, repr(error))
        finally:
            if self._lines.get(name) is line:
                del self._lines[name]
            if writer is not None:
                writer.transport.abort()
            for found in line.waiting.values():
                found.set_exception(ConnectionError("the line was lost"))


async def _meet(reader: StreamReader, writer: StreamWriter, secret: bytes, own: bytes, other: bytes) -> None:
    """Prove that this end knows the secret, and check the other end's proof; raises ConnectionError or TimeoutError."""
    challenge = secrets.token_bytes(SECRET_BYTES)
    writer.write(challenge)
    async with asyncio.timeout(CONNECT_SECONDS):
        writer.write(hmac.digest(secret, own + await reader.readexactly(SECRET_BYTES), HASH))
        proof = await reader.readexactly(SECRET_BYTES)
    if not hmac.compare_digest(proof, hmac.digest(secret, other + challenge, HASH)):
        raise ConnectionError("the two ends do not know the same secret")


async def _message(reader: StreamReader) -> tuple[int, bytes]:
    """Return the next message and the number of its call; raises ConnectionError if it is too large."""
    number, size = HEAD.unpack(await reader.readexactly(HEAD.size))
    if size > LARGEST:
        raise ConnectionError(f"a message has {size} bytes, more than {LARGEST}")
    return number, await reader.readexactly(size)


def _tls(purpose: ssl.Purpose) -> ssl.SSLContext | None:
    """Return a TLS context with the certificates of Ray's own connections; None if Ray does not encrypt them.

    Both ends of a line present a certificate of Ray's certificate authority. Raises OSError if a file is missing or has
    no certificate.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    context = ssl.create_default_context(purpose, cafile=os.environ["RAY_TLS_CA_CERT"])
    context.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
    context.verify_mode = ssl.CERT_REQUIRED
    return context
