"""Connections of a front end with other processes, for calls that are short and many.

Ray places actors, finds them by name, starts them again and says when one is lost. Its own calls pass through several
threads of each process, which takes longer than most updates are solved for. An actor says by such a call where it
listens, and the secret by which frames are authenticated; without a line, calls go Ray's way. Where Ray's connections
are encrypted, lines are too, by the same certificates.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import uvloop

from livesvm.service.remote.frames import ANSWERS, ASKS, CONNECT_SECONDS, SECRET_BYTES, Frames, tls

Done = Callable[[bytes | None, BaseException | None], None]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """Where an actor listens, and the secret of its callers."""

    host: str
    port: int
    secret: bytes = field(repr=False)


class RpcServer:
    """The actor's end: answers whoever knows the secret. All of it belongs on the actor's event loop."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer, self._secret = answer, secrets.token_bytes(SECRET_BYTES)
        self._server: asyncio.Server | None = None

    async def number(self, host: str) -> Endpoint:
        """Return where it listens; begins to, the first time. Raises OSError."""
        if self._server is None:
            context, loop = tls(ssl.Purpose.CLIENT_AUTH), asyncio.get_running_loop()
            seconds = None if context is None else CONNECT_SECONDS
            self._server = await loop.create_server(
                lambda: Answering(self._answer, self._secret), host, 0, ssl=context, ssl_handshake_timeout=seconds
            )
        return Endpoint(host, int(self._server.sockets[0].getsockname()[1]), self._secret)


class Answering(Frames):
    """One front end's line, at the actor's end."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]], secret: bytes) -> None:
        super().__init__(secret, ANSWERS)
        self._answer = answer
        self._under_way: set[asyncio.Task[None]] = set()

    def frame(self, number: int, frame: bytes) -> None:
        """Answer a call when that is done."""
        task = asyncio.ensure_future(self._answered(number, frame))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answered(self, number: int, message: bytes) -> None:
        try:
            answer = await self._answer(message)
            if not self.transport.is_closing():
                self.send(number, answer)
        except BaseException:
            self.transport.abort()  # the caller asks again by Ray's own call, and gets the error there
            raise


class _Line(Frames):
    """A line at the front end's end, with the calls that wait for their answers."""

    def __init__(self, at: Endpoint, ended: Callable[[_Line], None]) -> None:
        super().__init__(at.secret, ASKS)
        self.at = at
        self._ended = ended
        self._waiting: dict[int, Done] = {}
        self._last = 0

    def ask(self, message: bytes, done: Done) -> None:
        """Send a call."""
        if not self.is_open or self.transport.is_closing():
            done(None, ConnectionError("the line was lost"))
            return
        self._last += 1
        self._waiting[self._last] = done
        self.send(self._last, message)

    def frame(self, number: int, frame: bytes) -> None:
        """Take an answer."""
        done = self._waiting.pop(number, None)
        if done is not None:
            done(frame, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all open calls."""
        self._ended(self)
        super().connection_lost(exc)
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(None, exc or ConnectionError("the line was lost"))


class RpcClientPool:
    """The lines of a front end, by the name of the process; they live in a thread of their own."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._refused: dict[str, Endpoint] = {}
        self._loop, self._over = uvloop.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    def find(self, name: str, at: Endpoint) -> None:
        """Have a line with an actor that listens there, soon, if there is none."""
        line = self._lines.get(name)
        if line is None or line.at != at:
            self._lines[name] = line = _Line(at, partial(self._forget, name))
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._connect(name, line, at)))

    def ask(self, name: str, message: bytes, done: Done) -> bool:
        """Return whether there is a line; ``done`` gets then what the actor answers, or why the line was lost."""
        line = self._lines.get(name)
        if line is None or not line.is_open:
            return False
        self._loop.call_soon_threadsafe(line.ask, message, done)
        return True

    def lose(self, name: str) -> None:
        """Release a line: the actor is lost, whatever becomes of the connection."""
        line = self._lines.pop(name, None)
        if line is not None and line.transport is not None:
            self._loop.call_soon_threadsafe(line.transport.abort)

    def close(self) -> None:
        """End all lines."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._over.wait()
        for line in list(self._lines.values()):
            if line.transport is not None:
                line.transport.abort()
        await asyncio.sleep(0)  # for what is reported when a line is lost

    async def _connect(self, name: str, line: _Line, at: Endpoint) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(lambda: line, at.host, at.port, ssl=tls(ssl.Purpose.SERVER_AUTH))
                if not await line.opened():
                    raise ConnectionError("the two ends do not know the same secret, or the connection was lost")
        except (OSError, TimeoutError) as error:
            self._forget(name, line)
            if self._refused.get(name) != at:
                self._refused[name] = at
                log.warning("there is no line to actor %s, and calls take Ray's way: %s", name, repr(error))
            if line.transport is not None:
                line.transport.abort()
            return
        self._refused.pop(name, None)
        if self._lines.get(name) is not line:
            line.transport.abort()  # it was given up meanwhile

    def _forget(self, name: str, line: _Line) -> None:
        if self._lines.get(name) is line:
            del self._lines[name]
