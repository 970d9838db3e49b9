"""TLS in front of a redis-server that may have been built without it: a real handshake, ended before the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import trustme

TLS_HANDSHAKE = b"\x16"
"""The first byte of whoever begins one [RFC 8446, sec. 5.1]."""
HELLO_SECONDS = 5.0
CLOSE_SECONDS = 0.02
"""For which transports that were cut off may note it."""


class TlsFront:
    """Listens on this machine with a certificate of its own authority, and passes on what it deciphers.

    Parameters
    ----------
    port : of the server behind it
    directory : where the authority's certificate is written, as ``ca.pem``
    name : that the certificate is made out for
    authority : that issues it, by default one of its own
    also_plain : pass on what comes without TLS too, on the same port
    """

    def __init__(
        self,
        port: int,
        directory: Path,
        name: str = "127.0.0.1",
        *,
        authority: trustme.CA | None = None,
        also_plain: bool = False,
    ) -> None:
        authority = authority or trustme.CA()
        self.ca = directory / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(self._context)
        self._also_plain = also_plain
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0
        self.handshakes = 0
        self._callers: list[socket.socket] = []
        self._greeted: set[asyncio.Task[None]] = set()
        self._open: list[asyncio.WriteTransport] = []

    @property
    def url(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0"

    async def _listen(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port = int(self._listening.getsockname()[1])
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Take a caller; what it is to speak shows in its first byte."""
        caller, _ = self._listening.accept()
        caller.setblocking(False)
        self._callers.append(caller)
        self._greeted.add(task := self._loop.create_task(self._greet(caller)))
        task.add_done_callback(self._greeted.discard)

    async def _greet(self, caller: socket.socket) -> None:
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)
        try:
            secured = not self._also_plain or await asyncio.to_thread(_first_byte, caller) == TLS_HANDSHAKE
            context = self._context if secured else None
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, caller, ssl=context)
            self._open.append(transport)  # here, as what serves it may be ended before it begins
        except OSError:  # no handshake, or one that failed
            caller.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handshakes += 1
        behind, before = await asyncio.open_connection("127.0.0.1", self._target)
        self._open.append(before.transport)
        try:
            await asyncio.gather(_pump(reader, before), _pump(behind, writer))
        finally:
            before.close()
            writer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._loop.remove_reader(self._listening)
        self._listening.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for transport in self._open:
            with suppress(AttributeError):  # of a connection that is closed already, in Python before 3.11.3
                transport.abort()
        for caller in self._callers:
            with suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)  # a transport whose handshake was cut off reads the end, and closes
        await asyncio.sleep(CLOSE_SECONDS)
        for caller in self._callers:
            caller.close()
        await self._loop.shutdown_default_executor()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


def _first_byte(caller: socket.socket) -> bytes:
    """Return the first byte that comes, left where it is."""
    caller.settimeout(HELLO_SECONDS)
    return caller.recv(1, socket.MSG_PEEK)
