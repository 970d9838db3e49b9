"""Compile, in another process, the solvers that only jobs need, unless they are compiled already."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.machine_code import directory
from livesvm.solvers.warm_up import FAMILIES, Family, compiler, is_compiled

NICENESS = 10
LOOK_SECONDS = 0.1
"""Seconds between two checks whether a waiting caller is still there."""

log = logging.getLogger(__name__)


def call_compiled_code() -> None:
    """Call compiled code for the first time in this process, while the process has only one thread.

    The first call registers types with Numba, which must not happen while another thread looks a type up.
    """
    Kernel().matrix(np.zeros((1, 1)), np.zeros((1, 1)))


class Compiling:
    """Compiles families of solvers in other processes, one after the other; a family that a job waits for is next.

    If machine code cannot be stored, no family is compiled in advance; the first job that needs a family compiles it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: list[Family] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def begin(self) -> None:
        """Compile the families that are not compiled yet, in the background."""
        self._left = [] if directory() is None else [family for family in FAMILIES if not is_compiled(family)]
        if self._left:
            threading.Thread(target=self._run, name="compiling", daemon=True).start()

    def left(self) -> tuple[Family, ...]:
        """Return the families that are not compiled yet."""
        return tuple(self._left)

    def wait_for(self, family: Family, check: Callable[[], None]) -> None:
        """Wait until the compilation of a family has ended or failed; an error that ``check`` raises ends the wait."""
        with self._changed:
            if family in self._left[1:]:
                self._left.remove(family)
                self._left.insert(1, family)  # the first is at work
            while family in self._left:
                check()
                self._changed.wait(LOOK_SECONDS)

    def close(self) -> None:
        """End the compilation; the next start of the service compiles the families that are left."""
        with self._changed:
            self._closed = True
            if self._process is not None:
                self._process.terminate()

    def _run(self) -> None:
        while self._left:
            family = self._left[0]
            if not self._compiled(family):
                break
            with self._changed:
                self._left.remove(family)
                self._changed.notify_all()
        with self._changed:
            self._left.clear()
            self._changed.notify_all()

    def _compiled(self, family: Family) -> bool:
        """Compile one family; return whether it succeeded."""
        began = time.perf_counter()
        with self._changed:
            if self._closed:
                return False
            log.info("compiling the solvers of %s, beside the service", family)
            self._process = process = subprocess.Popen(compiler(family), stdin=subprocess.DEVNULL)
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        if process.wait() != 0:
            if not self._closed:
                log.error("the solvers of %s could not be compiled beside the service; a job will have to", family)
            return False
        log.info("the solvers of %s are compiled, after %.1f s", family, time.perf_counter() - began)
        return True
