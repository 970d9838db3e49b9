"""A TCP proxy that misbehaves when told to: it delays, swallows, or resets what passes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self


class Proxy:
    """Stands before a server on this machine.

    ``mode`` is ``pass``, ``swallow`` (connections stay open, nothing comes through) or ``reset`` (every connection is
    reset, new ones too); ``delay`` is in seconds, for each piece.
    """

    def __init__(self, port: int) -> None:
        self.mode = "pass"
        self.delay = 0.0
        self._target = port
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: str) -> None:
        """Change what is done; ``reset`` ends the connections there are."""
        self.mode = mode
        if mode == "reset":
            for connection in list(self._open):
                _reset(connection)

    def connections(self) -> int:
        """Return connections that clients hold."""
        return len(self._open)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.mode == "reset":
                    _reset(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open.add(client)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink, client), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self.delay)
                if self.mode == "pass":
                    sink.sendall(data)
        self._open.discard(client)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for connection in list(self._open):
            _reset(connection)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
