"""Starting a module as a process: afresh, or forked from a process that has loaded everything once.

Fork servers are for tests that start many services: what is imported and compiled is the same for all of them. Each
is a process of its own all the same, with its own settings, files, threads and signals; so are its workers.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import connection, get_context
from pathlib import Path
from typing import IO, Protocol

from livesvm.service import crash
from livesvm.service.resources import subprocess_work, subprocess_worker

PRELOADED = "tests.service.preloaded"
WORKER = "worker"
"""What a forked worker is called among processes."""
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


class Workers:
    """What a service takes of ``subprocess``: its workers are forked as well, before it has threads."""

    PIPE = subprocess.PIPE

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            self._ours.close()
            _fork_workers(theirs)
        theirs.close()

    def Popen(self, command: list[str], env: dict[str, str], **_: object) -> Worker:
        """Return a worker, begun."""
        its_input, given = os.pipe()
        answers, its_output = os.pipe()
        its_end, end = socket.socketpair()
        os.umask(umask := os.umask(0o077))
        socket.send_fds(
            self._ours, [json.dumps([command[-1], env, umask]).encode()], [its_input, its_output, its_end.fileno()]
        )
        for number in (its_input, its_output):
            os.close(number)
        its_end.close()
        return Worker(given, answers, end)


class Worker:
    """A worker of a service; as of ``subprocess.Popen``."""

    def __init__(self, given: int, answers: int, end: socket.socket) -> None:
        self.stdin, self.stdout = os.fdopen(given, "wb"), os.fdopen(answers, "rb")
        self._end = end.makefile()
        end.close()
        self._pid = int(self._end.readline())

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit status."""
        with self._end as end:
            return int(end.readline())


def _fork_workers(asked: socket.socket) -> None:
    """Fork a worker for each that is asked for, and what waits for it; end with the service."""
    while True:
        message, numbers, *_ = socket.recv_fds(asked, 2**17, 3)
        if not message:
            os._exit(0)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            asked.close()
            subprocess_worker._end_with_the_service()
            worker = os.fork()
            if worker == 0:
                _work(*json.loads(message), *numbers)
            os.close(numbers[0])
            os.close(numbers[1])
            with socket.socket(fileno=numbers[2]) as told:
                told.sendall(b"%d\n" % worker)
                told.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
            os._exit(0)
        for number in numbers:
            os.close(number)


def _work(work: str, environment: dict[str, str], umask: int, given: int, answers: int, end: int) -> None:
    """Be ``python -m livesvm.service.resources.subprocess_worker``."""
    os.umask(umask)
    os.dup2(given, 0)
    os.dup2(answers, 1)
    for number in (given, answers, end):
        os.close(number)
    sys.stdin = open(0)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    Path("/proc/self/comm").write_text(WORKER)
    try:
        subprocess_worker.main(work)
    finally:
        os._exit(0)


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
    vars(subprocess_work)["subprocess"] = Workers()
    sys.argv = [module]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        logging.shutdown()  # which an interpreter that ends would do; a child that was forked does not
