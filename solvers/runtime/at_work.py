"""The progress of compilation in this process: the share that is done, the time left, and a line that shows both."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST = 144  #: functions that are translated for the first fit and update
SETTLED = 10  #: functions after which their rate predicts how long the others take
LINE_SECONDS = 0.2  #: between two lines on a terminal
LOG_SECONDS = 10.0  #: and in a log
BEFORE = "compiling the solvers for this processor: it is done once, and takes half a minute or so"

log = logging.getLogger(__name__)


class AtWork:
    """Counts the functions that Numba has translated in all threads of the process, one thread at a time.

    The first function is logged as a warning, so that Python prints it even if no log is set up; later functions are
    logged as information. On a terminal, and in a notebook without a log, a line of progress is shown too, and removed
    at the end.
    """

    def __init__(self) -> None:
        self.done = 0  #: functions translated so far
        self._of = FIRST
        self._expecting = 0
        self._seconds = 0.0  #: time of translations before ``_since``
        self._since: float | None = None
        self._shown = self._logged = 0.0
        self._is_line_there = False

    @contextmanager
    def expect(self, functions: int) -> Iterator[None]:
        """Announce that the code inside the context will translate ``functions`` functions."""
        self._of = self.done + functions
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1

    @contextmanager
    def call(self) -> Iterator[None]:
        """Measure the time of the call inside the context, which may translate functions."""
        try:
            yield
        finally:
            if self._since is not None:
                self._seconds += time.perf_counter() - self._since
                self._since = None
            self._wipe()

    def translate(self) -> None:
        """Count one more function."""
        now = time.perf_counter()
        if self._since is None:
            self._since = now
        if self.done == 0:
            self._logged = now
            log.warning(BEFORE)
        self.done += 1
        if now - self._logged > LOG_SECONDS:
            self._logged = now
            log.info(self.progress())
        if now - self._shown > LINE_SECONDS and _is_watched():
            self._shown = now
            print(f"\r{self.progress():<60}", end="", file=sys.stderr, flush=True)
            self._is_line_there = True

    def progress(self) -> str:
        """Describe the share of compilation that is done and the time left, if known; empty if nothing compiles."""
        if self.done == 0 or (self._since is None and not self._expecting):
            return ""
        if self.done >= self._of:
            return f"compiling: {self.done} functions so far"
        left = self.seconds_left()
        return f"compiling: {self.done} of {self._of} functions" + (f", about {left:.0f} s left" if left else "")

    def seconds_left(self) -> float:
        """Return the seconds of compilation left at the rate so far; 0.0 if unknown, or if nothing compiles."""
        if self.done < SETTLED or (self._since is None and not self._expecting):
            return 0.0
        now = time.perf_counter()
        spent = self._seconds + (now - self._since if self._since is not None else 0.0)
        return max(0, self._of - self.done) * spent / self.done

    def _wipe(self) -> None:
        if self._is_line_there:
            self._is_line_there = False
            print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)


def _is_watched() -> bool:
    """Say whether a line of progress can be shown: on a terminal or in a notebook, and without a log in between."""
    if logging.root.handlers or not log.isEnabledFor(logging.WARNING):
        return False
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


at_work = AtWork()
