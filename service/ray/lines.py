"""Lines: connections of a front end with actors, for calls that are short and many.

Ray places actors, finds them by name, starts them again and says when one is lost. Its own calls pass through several
threads of each process, which takes longer than most updates are solved for. Where an actor listens, and the secret
that a line begins with, it tells by such a call; without a line, calls go Ray's way.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

HEAD = struct.Struct("!QI")
"""Of a frame: the number of its call, and its bytes."""
SECRET_BYTES = 32
LARGEST = 64 * 2**20
"""Bytes of a frame."""
CONNECT_SECONDS = 2.0

Done = Callable[[bytes | None, BaseException | None], None]


@dataclass(frozen=True)
class Number:
    """Where an actor listens, and the secret of who may call it there."""

    host: str
    port: int
    secret: bytes


class _Frames(asyncio.Protocol):
    """Cuts what comes in into frames."""

    def __init__(self) -> None:
        self._came = bytearray()
        self.transport: Any = None
        self.largest = LARGEST

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take in what has come, and hand on what is whole."""
        self._came += data
        while len(self._came) >= HEAD.size:
            number, size = HEAD.unpack_from(self._came)
            if size > self.largest:
                self.transport.abort()
                return
            end = HEAD.size + size
            if len(self._came) < end:
                return
            frame = bytes(memoryview(self._came)[HEAD.size : end])
            del self._came[:end]
            self.frame(number, frame)

    def send(self, number: int, frame: bytes) -> None:
        """Send a frame, as soon as it may go."""
        self.transport.write(HEAD.pack(number, len(frame)) + frame)

    def frame(self, number: int, frame: bytes) -> None:
        """Take a frame in."""
        raise NotImplementedError


class Switchboard:
    """The actor's end: answers whoever knows the secret. All of it belongs on the actor's event loop."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._under_way: set[asyncio.Task[None]] = set()

    async def number(self, host: str) -> Number:
        """Where it listens; begins to, the first time. Raises OSError."""
        if self._server is None:
            self._server = await asyncio.get_running_loop().create_server(lambda: _Answering(self), host, 0)
        return Number(host, int(self._server.sockets[0].getsockname()[1]), self._secret)

    def knows(self, secret: bytes) -> bool:
        """Whether this is the secret."""
        return hmac.compare_digest(secret, self._secret)

    def take(self, line: _Answering, number: int, message: bytes) -> None:
        """Answer a call when that is done."""
        task = asyncio.ensure_future(self._answered(line, number, message))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answered(self, line: _Answering, number: int, message: bytes) -> None:
        try:
            line.send(number, await self._answer(message))
        except BaseException:
            line.transport.abort()  # whoever asked hears why by Ray's own call
            raise


class _Answering(_Frames):
    """One front end's line, at the actor's end."""

    def __init__(self, board: Switchboard) -> None:
        super().__init__()
        self._board, self._is_known, self.largest = board, False, SECRET_BYTES

    def frame(self, number: int, frame: bytes) -> None:
        """A call; the first frame is the secret."""
        if self._is_known:
            self._board.take(self, number, frame)
        elif self._board.knows(frame):
            self._is_known, self.largest = True, LARGEST
        else:
            self.transport.abort()


class _Line(_Frames):
    """A line at the front end's end, with the calls that wait for their answers."""

    def __init__(self, at: Number, ended: Callable[[_Line], None]) -> None:
        super().__init__()
        self.at = at
        self._ended = ended
        self._waiting: dict[int, Done] = {}
        self._last = 0

    def ask(self, message: bytes, done: Done) -> None:
        """Send a call."""
        if self.transport is None or self.transport.is_closing():
            done(None, ConnectionError("the line was lost"))
            return
        self._last += 1
        self._waiting[self._last] = done
        self.send(self._last, message)

    def frame(self, number: int, frame: bytes) -> None:
        """An answer."""
        done = self._waiting.pop(number, None)
        if done is not None:
            done(frame, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody who waits is answered any more."""
        self._ended(self)
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(None, exc or ConnectionError("the line was lost"))


class Lines:
    """The lines of a front end, by the name of the actor; they live in a thread of their own."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._sought: dict[str, Number] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ray-lines", daemon=True)
        self._thread.start()

    def find(self, name: str, at: Number) -> None:
        """Have a line with an actor that listens there, soon, if there is none."""
        line = self._lines.get(name)
        if line is not None and line.at == at:
            return
        if self._sought.get(name) != at:
            self._sought[name] = at
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._connect(name, at)))

    def ask(self, name: str, message: bytes, done: Done) -> bool:
        """Whether there is a line; ``done`` gets then what the actor answers, or why the line was lost."""
        line = self._lines.get(name)
        if line is None:
            return False
        self._loop.call_soon_threadsafe(line.ask, message, done)
        return True

    def lose(self, name: str) -> None:
        """Let go of a line: the actor is lost, whatever becomes of the connection."""
        self._sought.pop(name, None)
        line = self._lines.pop(name, None)
        if line is not None:
            self._loop.call_soon_threadsafe(line.transport.abort)

    def close(self) -> None:
        """End all lines."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end()))
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _end(self) -> None:
        self._sought.clear()
        for line in list(self._lines.values()):
            line.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # for what is told when a line is lost
        self._loop.stop()

    async def _connect(self, name: str, at: Number) -> None:
        line = _Line(at, lambda ended: self._forget(name, ended))
        with suppress(OSError, TimeoutError):
            connecting = self._loop.create_connection(lambda: line, at.host, at.port)
            await asyncio.wait_for(connecting, CONNECT_SECONDS)
            line.send(0, at.secret)
            if self._sought.pop(name, None) == at:
                self._lines[name] = line
            else:
                line.transport.abort()
            return
        self._sought.pop(name, None)

    def _forget(self, name: str, line: _Line) -> None:
        if self._lines.get(name) is line:
            del self._lines[name]
