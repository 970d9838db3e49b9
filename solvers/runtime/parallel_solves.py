"""Several solves of one update, at once: all of them are done, or all have ended when the first error is raised."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.interrupt import Interrupt, interruptible
from livesvm.solvers.runtime.threads import together

T = TypeVar("T")


def solve_in_parallel(works: Sequence[Callable[[], T]], count: int | None = None) -> list[T]:
    """Return what each of ``works`` returns, in their order.

    Parameters
    ----------
    count : how many threads may work; None: as many as ``runtime.threads.threads`` allows now

    Raises
    ------
    SolverError : what the first of them raised, or a handler of this thread; all solves have ended then
    """
    team = _Team()
    return together(works, count, team.do, team.end)


class _Team:
    """The solves under way, so that all can be ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self._running: list[Interrupt] = []

    def do(self, work: Callable[[], T]) -> T:
        """Do some work, in a thread of its own, that ``end`` ends."""
        with interruptible(self._stop) as interrupt:
            with self._lock:
                if self._is_over:
                    self._stop()
                self._running.append(interrupt)
            try:
                return work()
            finally:
                with self._lock:
                    self._running.remove(interrupt)

    def end(self) -> None:
        """Have all solves stop soon."""
        with self._lock:
            self._is_over = True
            for interrupt in self._running:
                interrupt.ask()

    @staticmethod
    def _stop() -> None:
        raise Cancelled("another part of this update has ended it")
