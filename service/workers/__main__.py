"""The process that workers are forked from: it has loaded all that they need, and shares that with them.

It is given an end of a connection as its standard input: what all workers are given, and then, for each that is wanted,
its number with the ends of its lines and the lock of the data directory. It answers with the process, and ends with the
connection.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import sys

from livesvm.service.remote.messages import unpacked
from livesvm.service.resources.compiling import call_compiled_code
from livesvm.service.workers.messages import Begin
from livesvm.service.workers.worker import serve
from livesvm.solvers import warm_up

FILES = 3
"""That come with a number: the ends of two lines, and the lock."""
SIZE = struct.Struct("!Q")
"""Of what all workers are given, and of a process's number."""


def main() -> int:
    """Fork what is asked for."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(name, signal.SIG_IGN)  # a child that has ended is not waited for
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # no worker is to hold the connection
    if len(head := control.recv(SIZE.size, socket.MSG_WAITALL)) < SIZE.size:
        return 0  # the service has ended
    (size,) = SIZE.unpack(head)
    begin: Begin = unpacked(control.recv(size, socket.MSG_WAITALL))
    with contextlib.suppress(Exception):  # a worker tries it again, and says what is wrong
        call_compiled_code()
        warm_up("updates")
    gc.collect()
    gc.freeze()
    while True:
        number, fds, _, _ = socket.recv_fds(control, 1, FILES)
        if not number:
            return 0
        if (process := os.fork()) == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(number[0], begin, [socket.socket(fileno=fd) for fd in fds[: FILES - 1]])
        for fd in fds:
            os.close(fd)
        control.sendall(SIZE.pack(process))


if __name__ == "__main__":
    sys.exit(main())
