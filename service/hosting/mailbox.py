"""Mailboxes on shared threads: calls of one replica run in order, one at a time, and take no thread between them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

from livesvm.service.errors import ModelUnavailable, QueueFull
from livesvm.service.logs.calls import stage

T = TypeVar("T")

HELD: Future[None] = Future()
"""The future of a hold that does not have to wait."""
HELD.set_result(None)


class Mailbox:
    """Calls of one replica, in the order they were handed in, behind a bounded number of others.

    Parameters
    ----------
    threads : that run them
    name : of the replica, for people
    size : calls that may wait, but for those that always get a place
    """

    def __init__(self, threads: Executor, name: str, size: int) -> None:
        self._threads, self._name, self._size = threads, name, size
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], bool]] = deque()  # what they return says whether they hold the others
        self.depth = 0  #: calls that wait, without those that were cancelled
        self._busy = self._closed = False

    def submit(
        self, call: Callable[[], T], *, after: Callable[[], None] | None = None, always: bool = False
    ) -> Future[T]:
        """Hand in a call; the future gets its result or its error. Raises QueueFull or ModelUnavailable.

        ``after`` is called once it has its answer, and must not raise; ``always``: it waits however many do.
        """
        future: Future[T] = Future()
        context = copy_context()
        stage("queue")

        def run() -> bool:
            """Call, unless the future was cancelled, and set its result."""
            if future.set_running_or_notify_cancel():
                self._count(-1)
                try:
                    future.set_result(context.run(_timed, call))
                except BaseException as error:
                    future.set_exception(error)
            if after is not None:
                after()
            return False

        with self._changed:
            self._check_takes(always)
            self.depth += 1
            self._waiting.append(run)
            if not self._busy:
                self._busy = True
                self._threads.submit(self._run)
        future.add_done_callback(self._forget_cancelled)
        return future

    @contextmanager
    def borrowed(self) -> Iterator[bool]:
        """Keep every call waiting inside, if none runs or waits now; whether that is so. Never waits itself."""
        with self._changed:
            mine = not (self._busy or self._waiting)
            self._busy = self._busy or mine
        try:
            yield mine
        finally:
            if mine:
                self._go_on()

    def hold(self) -> Future[None]:
        """Keep what is handed in from now on waiting, from when the future ends until :meth:`let_go`.

        Raises QueueFull or ModelUnavailable, as :meth:`submit`. The future must not be cancelled.
        """
        with self._changed:
            self._check_takes()
            if not self._busy:
                self._busy = True
                return HELD
            future: Future[None] = Future()

            def run() -> bool:
                self._count(-1)
                future.set_result(None)
                return True

            self.depth += 1
            self._waiting.append(run)
        return future

    def let_go(self) -> None:
        """Have what waits run again; ends a :meth:`hold`."""
        self._go_on()

    def close(self) -> None:
        """Take nothing more, and return when everything handed in before is done."""
        with self._changed:
            self._closed = True
            while self._busy:
                self._changed.wait()

    def _check_takes(self, always: bool = False) -> None:
        if self._closed:
            raise ModelUnavailable(f"{self._name} is being stopped")
        if not always and self.depth >= self._size:
            raise QueueFull(f"{self._size} calls wait for {self._name} already")

    def _run(self) -> None:
        """Run the calls that wait, until there is none, or one holds the others."""
        while True:
            with self._changed:
                if not self._waiting:
                    break
                run = self._waiting.popleft()
            if run():
                return
            del run
        self._go_on()

    def _go_on(self) -> None:
        """Release; what came meanwhile runs."""
        with self._changed:
            if self._waiting:
                self._threads.submit(self._run)
            else:
                self._busy = False
                self._changed.notify_all()

    def _forget_cancelled(self, future: Future[T]) -> None:
        if future.cancelled():
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self.depth += change


def _timed(call: Callable[[], T]) -> T:
    """Call, and note when it begins and ends."""
    stage("write")
    try:
        return call()
    finally:
        stage("answer")
