"""Work in a process of its own, which is given up after a time."""

from __future__ import annotations

import math
import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar, cast

T = TypeVar("T")


def apart(work: Callable[[], T], limit: float) -> T | None:
    """Return what ``work`` returns in a fork of this process; None: it took more than ``limit`` seconds of processors.

    Nothing that starts threads may have run in this process before.

    Raises
    ------
    RuntimeError : the work has failed; its traceback is on standard error
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, work, limit), daemon=True)
    process.start()
    theirs.close()
    try:
        return cast("T", ours.recv())
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return None
        raise RuntimeError(f"the work has failed with status {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        ours.close()


def _send(pipe: Connection, work: Callable[[], object], limit: float) -> None:
    most = math.ceil(limit)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    pipe.send(work())
