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
from collections.abc import Callable
from functools import partial

from livesvm.service.remote.messages import packed
from livesvm.service.workers.messages import Begin

MODULE = "livesvm.service.workers"
SOON_SECONDS = 5.0
"""A worker that is lost sooner is not started again at once."""
PAUSE_SECONDS = 0.5
"""Until it is."""

Attach = Callable[[int, tuple[socket.socket, socket.socket], Callable[[], None]], None]

log = logging.getLogger(__name__)


class Supervisor:
    """Has as many workers as are wanted, each with two lines; they end when one does, as both do with this process.

    Parameters
    ----------
    begin : what they are given
    lock : file of the data directory's lock, which workers hold too: nothing else may have that while one lives
    attach : is given the ends of both lines of a worker, with its number, and what is to be called when one ends
    count : called whenever a worker is lost
    """

    def __init__(self, begin: Begin, lock: int, attach: Attach, count: Callable[[], None]) -> None:
        self._begin, self._lock, self._attach, self._count = begin, lock, attach, count
        self._lost: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
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
                control.shutdown(socket.SHUT_RDWR)  # a thread that waits for it goes on
        self._thread.join()
        self._release()

    def _run(self) -> None:
        for one in range(self._begin.count):
            self._start(one)
        while (reported := self._lost.get()) is not None:
            lost, process = reported
            if self.is_over:
                return
            if self.processes[lost] != process:
                continue  # its other line has said so
            log.error("worker %d, process %d, was lost, and is started again", lost, process)
            self._count()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)  # it may only have lost a line
            if time.monotonic() - self._started_at[lost] < SOON_SECONDS:
                time.sleep(PAUSE_SECONDS)
            self._start(lost)

    def _start(self, number: int) -> None:
        """Start a worker, however often that has to be tried."""
        while not self.is_over:
            (one, its_one), (two, its_two) = socket.socketpair(), socket.socketpair()
            try:
                with its_one, its_two:
                    process = self._forked(number, its_one, its_two)
            except OSError as error:
                log.error("worker %d was not started: %s; it is tried again", number, error)
                one.close()
                two.close()
                self._release()
                time.sleep(PAUSE_SECONDS)
                continue
            self._started_at[number], self.processes[number] = time.monotonic(), process
            self._attach(number, (one, two), partial(self._lost.put, (number, process)))
            return

    def _forked(self, number: int, *lines: socket.socket) -> int:
        """Return the process of a new worker; raises OSError."""
        control = self._control or self._connected()
        socket.send_fds(control, [bytes([number])], [*(line.fileno() for line in lines), self._lock])
        reported = control.recv(8, socket.MSG_WAITALL)
        if len(reported) < 8:
            raise ConnectionError("the process that workers are forked from was lost")
        return int.from_bytes(reported, "big")

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

    def _release(self) -> None:
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
