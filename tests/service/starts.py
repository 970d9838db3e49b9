"""Starting a module as a process: afresh, or forked from a process that has loaded everything once.

Fork servers are for tests that start many services: what is imported and compiled is the same for all of them. Each
is a process of its own all the same, with its own settings, files, threads and signals.
"""

from __future__ import annotations

import importlib
import logging
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing import connection, get_context
from typing import IO, Protocol

from livesvm.service import crash

PRELOADED = "tests.service.preloaded"
Prepare = Callable[[], None] | None
_starting = threading.Lock()


class Started(Protocol):
    """A process that has been started; as of ``subprocess.Popen``."""

    pid: int
    stdout: IO[str] | None
    stderr: IO[str] | None

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raises ``subprocess.TimeoutExpired``."""


def afresh(module: str, environment: Mapping[str, str], prepare: Prepare) -> Started:
    """Return ``python -m module``, with ``prepare`` run in the child before that."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


class Forked:
    """The same, forked from a process that has loaded :mod:`tests.service.preloaded`."""

    def __init__(self, module: str, environment: Mapping[str, str], prepare: Prepare = None) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        (out, its_out), (err, its_err) = socket.socketpair(), socket.socketpair()
        with out, its_out, err, its_err:
            asked = (module, dict(environment), its_out, its_err, prepare)
            self._process = context.Process(target=_run, args=asked, daemon=True)
            with _starting:
                self._process.start()
            self.stdout: IO[str] | None = out.makefile()
            self.stderr: IO[str] | None = err.makefile()
        assert self._process.pid is not None
        self.module, self.pid = module, self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        with _starting:  # which asks for those of others as well
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raises ``subprocess.TimeoutExpired``."""
        connection.wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.module, timeout or 0.0)
        return status


def _run(module: str, environment: dict[str, str], out: socket.socket, err: socket.socket, prepare: Prepare) -> None:
    """Be ``python -m module``, prepared."""
    for number, end in ((1, out), (2, err)):
        os.dup2(end.fileno(), number)
        end.close()
    os.environ.clear()
    os.environ.update(environment)
    importlib.reload(crash)  # which reads them
    if prepare is not None:
        prepare()
    sys.argv = [module]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        logging.shutdown()  # which an interpreter that ends would do; a child that was forked does not
