"""Serve over HTTP until a signal comes; leave a meaningful exit status."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn

from livesvm.service.api.app import create_app
from livesvm.service.api.edge.admission import Admission
from livesvm.service.api.edge.connections import Connection, Limits
from livesvm.service.api.edge.headers import SecurityHeaders
from livesvm.service.lifecycle.parts import Service
from livesvm.service.process.rehearsal import rehearse

LOOK_SECONDS = 0.01
"""Between two looks whether it listens yet."""


class _Server(uvicorn.Server):
    """Calls ``before_shutdown`` when it begins to stop."""

    before_shutdown: Callable[[], None]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Call ``before_shutdown``, then do what uvicorn does."""
        self.before_shutdown()
        await super().shutdown(sockets)


def serve(service: Service, listening: socket.socket) -> int:
    """Serve on a bound socket until a signal comes; 0 after an orderly end, 1 when the models could not be restored."""
    settings = service.settings
    logging.getLogger("uvicorn.error").setLevel("ERROR")  # of requests that cannot be read a metric tells
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        """End the process, and remember why."""
        failures.append(error)
        server.should_exit = True

    def ready() -> None:
        """Tell whoever started the process where it listens, and what keeps it from being ready after all."""
        while not (server.started or server.should_exit):  # it may have no model to bring back
            time.sleep(LOOK_SECONDS)
        host, port = listening.getsockname()[:2]
        reasons = "".join(f"; not ready: {reason}" for reason in service.health.reasons())
        what = "up" if reasons else "ready"
        print(f"LiveSVM is {what} at http://{f'[{host}]' if ':' in host else host}:{port}{reasons}", flush=True)

    app = create_app(settings, ready, failed, lambda: rehearse(settings.data_dir, create_app), service)
    config = uvicorn.Config(
        SecurityHeaders(app),
        http=cast(type[asyncio.Protocol], partial(Connection, _limits_of(service))),
        ws="none",
        proxy_headers=False,  # any process can be this near; a client is the other end of the connection
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    server = _Server(config)

    def leave() -> None:
        """Take no more work, and end the answers that would never end by themselves."""
        service.leave()
        app.state.streams.close()

    server.before_shutdown = leave
    try:
        server.run(sockets=[listening])
    except SystemExit as end:
        return 1 if failures else int(end.code or 0)
    return 1 if failures else 0


def _limits_of(service: Service) -> Limits:
    settings = service.settings
    admission = Admission(settings.max_connections, settings.max_client_connections)
    return Limits(admission, service.metrics, settings.header_seconds, settings.body_seconds)
