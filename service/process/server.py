"""The HTTP server of the process: serves until a signal comes, and returns the exit status."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import cast

import uvicorn

from livesvm.service.api.app import create_app
from livesvm.service.api.edge.admission import Admission
from livesvm.service.api.edge.connections import Connection, Limits
from livesvm.service.lifecycle.parts import Service
from livesvm.service.process.rehearsal import rehearse

LAST_SECONDS = 0.2
"""Time in which the newest connections may send a request after listening has stopped."""
LOOK_SECONDS = 0.02
"""Interval of checks whether a second signal ends the drain, and whether the service listens yet."""


class _Server(uvicorn.Server):
    """Drains its connections after SIGTERM, and calls ``before_shutdown`` before it shuts down."""

    begin_drain: Callable[[], None]
    before_shutdown: Callable[[], None]
    drain_seconds = 0.0
    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Return when the process is to end; unlike uvicorn's, this loop does not wake up ten times a second."""
        self._ending, self._loop = asyncio.Event(), asyncio.get_running_loop()
        if not self.should_exit:
            await self._ending.wait()

    def end(self) -> None:
        """Make the process end; safe from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal, and end the process."""
        super().handle_exit(sig, frame)
        self.end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain after SIGTERM, call ``before_shutdown``, then shut down as uvicorn does."""
        if self._captured_signals == [signal.SIGTERM] and self.drain_seconds:
            await self._drain()
            await self._take_the_last(sockets or [])
        self.before_shutdown()
        await super().shutdown(sockets)

    async def _drain(self) -> None:
        """Still answer requests for ``drain_seconds``, and close each connection after its answer."""
        self.begin_drain()
        for connection in self.server_state.connections:
            cast(Connection, connection).end_after_answer()
        end = asyncio.get_running_loop().time() + self.drain_seconds
        while len(self._captured_signals) == 1 and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(LOOK_SECONDS)

    async def _take_the_last(self, sockets: list[socket.socket]) -> None:
        """Stop listening, and give clients that have just connected the time to send a request, which is answered.

        Without this time, a connection that waits to be accepted, or sends while it is closed, would be reset.
        """
        last = [connection for listening in sockets for connection in _waiting(listening)]
        for server in self.servers:
            server.close()
        for connection in last:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        await asyncio.sleep(LAST_SECONDS)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    """Accept and yield the connections that wait at a listening socket."""
    with suppress(BlockingIOError):
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            yield connection


def serve(service: Service, listening: socket.socket) -> int:
    """Serve on a bound socket until a signal comes; return 0 after an orderly end, 1 if models were not restored."""
    settings = service.settings
    logging.getLogger("uvicorn.error").setLevel("ERROR")  # a metric counts requests that cannot be read
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        """Keep the error with which the service failed to start, and end the process."""
        failures.append(error)
        server.end()

    def ready() -> None:
        """Wait until the process listens, then print its address and any reasons why it is not ready."""
        while not (server.started or server.should_exit):
            time.sleep(LOOK_SECONDS)
        if server.should_exit:
            return
        host, port = listening.getsockname()[:2]
        reasons = "".join(f"; not ready: {reason}" for reason in service.health.reasons())
        what = "up" if reasons else "ready"
        print(f"LiveSVM is {what} at http://{f'[{host}]' if ':' in host else host}:{port}{reasons}", flush=True)

    app = create_app(settings, ready, failed, lambda: rehearse(settings.data_dir, create_app), service)
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(Connection, _limits_of(service))),
        ws="none",
        proxy_headers=False,  # any process could send such headers; the client is the connection's other end
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    server = _Server(config)

    def leave() -> None:
        """Make the service take no more work, and end streamed answers, which would never end by themselves."""
        service.leave()
        app.state.streams.close()

    server.drain_seconds = settings.drain_seconds
    server.begin_drain = service.health.draining
    server.before_shutdown = leave
    try:
        server.run(sockets=[listening])
    except SystemExit as end:
        return 1 if failures else int(end.code or 0)
    return 1 if failures else 0


def _limits_of(service: Service) -> Limits:
    settings = service.settings
    admission = Admission(settings.max_connections, settings.max_client_connections)
    return Limits(
        admission, service.metrics, settings.header_seconds, settings.body_seconds, lambda: service.health.is_draining
    )
