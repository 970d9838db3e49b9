"""The service on a disk that breaks: once the file ``broken`` is in its data directory, every fsync fails with EIO.

The kernel itself refuses the calls, of every thread there is, by a seccomp filter; it cannot be taken back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import threading
import time
from pathlib import Path

from livesvm.service.cli.main import main

_CALLS = {"x86_64": (74, 75, 317), "aarch64": (82, 83, 277)}
"""Numbers of fsync, fdatasync and seccomp."""
_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_ALL_THREADS = 1
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_FAIL, _ALLOW = 0x00050000, 0x7FFF0000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def break_fsync() -> None:
    """Have the kernel answer EIO to every fsync and fdatasync of this process from now on; raises OSError."""
    fsync, fdatasync, seccomp = _CALLS[platform.machine()]
    steps = [
        (_LOAD, 0, 0, 0),  # the number of the call
        (_JUMP_IF_EQUAL, 1, 0, fsync),
        (_JUMP_IF_EQUAL, 0, 1, fdatasync),
        (_RETURN, 0, 0, _FAIL | errno.EIO),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = _Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(
        seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program)
    )
    if failed:
        raise OSError(ctypes.get_errno(), "the filter was not installed")


def watch(directory: Path) -> None:
    """Break the disk when the file ``broken`` appears, and say so by removing it."""
    while not (directory / "broken").exists():
        time.sleep(0.01)
    break_fsync()
    (directory / "broken").unlink()


if __name__ == "__main__":
    threading.Thread(target=watch, args=(Path(os.environ["LIVESVM_DATA_DIR"]),), daemon=True).start()
    sys.exit(main(["serve"]))
