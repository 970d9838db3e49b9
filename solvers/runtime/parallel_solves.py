"""Several solves of one update, at once: all of them are done, or all have ended when the first error is raised."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime import threads
from livesvm.solvers.runtime.interrupt import Interrupt, check, interruptible

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
    count = min(threads.allowed() if count is None else count, len(works))
    if count <= 1:
        return [_looking(work) for work in works]
    team = _Team()
    with ThreadPoolExecutor(count, "pairs") as pool:
        begun = [pool.submit(partial(team.do, work)) for work in works]
        try:
            out = []
            for one in begun:
                while not wait([one], threads.LOOK_EVERY).done:
                    check()
                check()
                out.append(one.result())
            return out
        except BaseException:
            team.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _looking(work: Callable[[], T]) -> T:
    check()
    return work()


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
