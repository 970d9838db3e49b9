"""Run the service as a process: bind, serve, stop on a signal, leave a meaningful exit status."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
from threadpoolctl import threadpool_limits

from service.app import create_app
from service.rehearsal import rehearse
from service.settings import Settings
from service.store.base import StoreError

SWITCH_SECONDS = 0.0001
"""How long one thread may hold the interpreter while others wait; the default of 5 ms shows in predictions."""


class _Server(uvicorn.Server):
    """Calls ``before_shutdown`` when it begins to stop, for answers that would never end by themselves."""

    before_shutdown: Callable[[], None]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Call ``before_shutdown``, then do what uvicorn does."""
        self.before_shutdown()
        await super().shutdown(sockets)


def serve(settings: Settings) -> int:
    """Serve until a signal comes; 0 after an orderly end, 1 when the service could not start."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("uvicorn.error").setLevel("WARNING")
    sys.setswitchinterval(SWITCH_SECONDS)
    threadpool_limits(1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # uvicorn raises the signal again when it has shut down
    failures: list[Exception] = []
    config = uvicorn.Config(
        "service.app:create_app",
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    server = _Server(config)

    def failed(error: Exception) -> None:
        """End the process, and remember why."""
        failures.append(error)
        server.should_exit = True

    def ready() -> None:
        """Tell whoever started the process where it listens."""
        print(f"LiveSVM is ready at {address}", flush=True)

    listening = config.bind_socket()
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    try:
        app = create_app(settings, ready, failed, lambda: rehearse(settings.data_dir, create_app))
        config.app, server.before_shutdown = app, app.state.service.streams.close
    except StoreError as error:
        print(f"livesvm: {error}", file=sys.stderr)
        return 1
    try:
        server.run(sockets=[listening])
    except SystemExit as end:
        return 1 if failures else int(end.code or 0)
    return 1 if failures else 0


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
