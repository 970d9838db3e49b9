"""Starts workers, and starts those again that are lost."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

from livesvm.service.remote.lines import Lines
from livesvm.service.remote.messages import packed
from livesvm.service.workers.messages import Begin

MODULE = "livesvm.service.workers"
SOON_SECONDS = 5.0
"""A worker that is lost sooner is not started again at once."""
PAUSE_SECONDS = 0.5
"""Until it is."""

log = logging.getLogger(__name__)


def name_of(number: int) -> str:
    """Return what a worker is called."""
    return f"worker-{number}"


class Supervisor:
    """Has as many workers as are wanted, each with a line; they end when their line does, as it does with this process.

    Parameters
    ----------
    begin : what they are told
    lock : file of the data directory's lock, which workers hold too: nothing else may have that while one lives
    lines : where each has one, under its name
    """

    def __init__(self, begin: Begin, lock: int, lines: Lines) -> None:
        self._begin, self._lock, self._lines = begin, lock, lines
        self._lost: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._started_at: dict[int, float] = {}
        self.processes: dict[int, int] = {}
        self._origin: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.is_over = False
        self._thread = threading.Thread(target=self._run, name="workers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Start none any more, and have all end whose lines are closed."""
        self.is_over = True
        self._lost.put(None)
        if (control := self._control) is not None:
            with contextlib.suppress(OSError):
                control.shutdown(socket.SHUT_RDWR)  # whoever waits for it goes on
        self._thread.join()
        self._let_go()

    def _run(self) -> None:
        for one in range(self._begin.count):
            self._start(one)
        while (lost := self._lost.get()) is not None:
            if self.is_over:
                return
            log.error("worker %d, process %d, was lost, and is started again", lost, self.processes[lost])
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.processes[lost], signal.SIGKILL)  # it may only have lost its line
            if time.monotonic() - self._started_at[lost] < SOON_SECONDS:
                time.sleep(PAUSE_SECONDS)
            self._start(lost)

    def _start(self, number: int) -> None:
        """Start a worker, however often that has to be tried."""
        while not self.is_over:
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    self.processes[number] = self._forked(number, theirs)
            except OSError as error:
                log.error("worker %d was not started: %s; it is tried again", number, error)
                ours.close()
                self._let_go()
                time.sleep(PAUSE_SECONDS)
                continue
            self._started_at[number] = time.monotonic()
            self._lines.attach(name_of(number), ours, self._begin.secret, lambda: self._lost.put(number))
            return

    def _forked(self, number: int, line: socket.socket) -> int:
        """Return the process of a new worker; raises OSError."""
        control = self._control or self._connected()
        socket.send_fds(control, [bytes([number])], [line.fileno(), self._lock])
        told = control.recv(8, socket.MSG_WAITALL)
        if len(told) < 8:
            raise ConnectionError("the process that workers are forked from was lost")
        return int.from_bytes(told, "big")

    def _connected(self) -> socket.socket:
        """Start the process that workers are forked from."""
        ours, theirs = socket.socketpair()
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # what is forked has to have one thread
        with theirs:
            command = [sys.executable, "-m", MODULE]
            self._origin = subprocess.Popen(command, stdin=theirs.fileno(), env=environment)
        self._control, message = ours, packed(self._begin)
        ours.sendall(len(message).to_bytes(8, "big") + message)
        return ours

    def _let_go(self) -> None:
        """Have the process that workers are forked from end."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._origin is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._origin.wait(PAUSE_SECONDS)
            self._origin.kill()
            self._origin.wait()
            self._origin = None
