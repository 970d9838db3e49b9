"""Start the service as a process: bind the port, open the data, and import the server while models are restored."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from types import FrameType

from threadpoolctl import threadpool_limits

from livesvm.service.lifecycle.parts import Service
from livesvm.service.logs.setup import set_up
from livesvm.service.resources.machine import collect_seldom, give_back_large_blocks
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreError
from livesvm.service.store.files import keep_private
from livesvm.solvers.runtime.threads import wait_for_rest

SWITCH_SECONDS = 0.0005
"""How long one thread may hold the interpreter while others wait; the default of 5 ms shows in predictions."""

ALIVE_SECONDS = 1.0
"""After this time the server is loaded, even while models that are being restored keep all cores busy."""


def start(settings: Settings) -> int:
    """Start the service and serve; return 0 after an orderly end, 1 if the service could not start."""
    gc.freeze()  # what has been loaded is no garbage, and no collection need walk it
    sys.setswitchinterval(SWITCH_SECONDS)
    threadpool_limits(1)
    give_back_large_blocks()
    collect_seldom()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # uvicorn raises the signal again when it has shut down
    try:
        set_up(settings.log_level, settings.log_format, settings.audit_file)
        keep_private(settings.data_dir)
        listening = _bound(settings.host, settings.port)
        service = Service(settings)
        service.listens(*listening.getsockname()[:2])
    except (OSError, StoreError) as error:
        print(f"livesvm: {error}", file=sys.stderr)
        return 1
    service.begin()
    try:
        status = _serve(service, listening)
    except SystemExit as end:
        status = int(end.code or 0)
    if service.is_starting:  # an ordinary end would wait for compilers and solvers; what counts is stored
        sys.stdout.flush()
        logging.shutdown()
        sys.stderr.flush()
        os._exit(status)
    return status


def _serve(service: Service, listening: socket.socket) -> int:
    """Import the server while the models' arrays are computed, and serve."""
    import scipy.linalg  # noqa: F401

    threadpool_limits(1)
    wait_for_rest(ALIVE_SECONDS)
    from livesvm.service.process.server import serve

    return serve(service, listening)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address but does not listen yet; raises OSError."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from error
    return bound


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
