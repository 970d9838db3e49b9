"""Mailboxes on shared threads: calls of one replica run in order, one at a time; an idle mailbox takes no thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from livesvm.service.errors import ModelUnavailable, QueueFull
from livesvm.service.logs.calls import stage

T = TypeVar("T")

HELD: Future[None] = Future()
"""The future of a hold that begins at once."""
HELD.set_result(None)


class Mailbox:
    """A bounded queue of the calls of one replica, which run one at a time in the order of their submission.

    Parameters
    ----------
    threads : the threads that run the calls
    name : name of the replica in messages
    size : how many calls may wait, besides calls submitted with ``always``
    """

    def __init__(self, threads: Executor, name: str, size: int) -> None:
        self._threads, self._name, self._size = threads, name, size
        self._lock = threading.RLock()  # faster than the condition, which it is part of
        self._changed = threading.Condition(self._lock)
        #: futures, and what runs for each, which returns whether it holds the calls after it
        self._waiting: deque[tuple[Future[Any], Callable[[], bool]]] = deque()
        self._busy = self._closed = False

    @property
    def depth(self) -> int:
        """The number of waiting calls, except cancelled ones."""
        with self._changed:
            return sum(not future.cancelled() for future, _ in self._waiting)

    def submit(
        self, call: Callable[[], T], *, after: Callable[[], None] | None = None, always: bool = False
    ) -> Future[T]:
        """Add a call to the queue; the returned future gets the call's result or error. Raises QueueFull or
        ModelUnavailable.

        ``after`` runs as soon as the call has its result, and must not raise. With ``always``, even a full queue
        accepts the call.
        """
        future: Future[T] = Future()
        context = copy_context()

        def run() -> bool:
            """Run the call, unless its future was cancelled, and set the future's result."""
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(call))
                except BaseException as error:
                    future.set_exception(error)
            if after is not None:
                after()
            return False

        with self._changed:
            self._check_takes(always)
            stage("queue")
            self._waiting.append((future, run))
            if not self._busy:
                self._busy = True
                self._threads.submit(self._run)
        return future

    @contextmanager
    def borrowed(self) -> Iterator[bool]:
        """Yield True if no call runs or waits now; calls submitted during the block then wait until the block ends."""
        with self._changed:
            mine = not (self._busy or self._waiting)
            self._busy = self._busy or mine
        try:
            yield mine
        finally:
            if mine:
                self._go_on()

    def hold(self) -> Future[None]:
        """Return a future that ends when all earlier calls are done; later calls wait until :meth:`let_go` is called.

        Raises QueueFull or ModelUnavailable, as :meth:`submit`. The returned future must not be cancelled.
        """
        with self._lock:
            self._check_takes()
            if not self._busy:
                self._busy = True
                return HELD
            future: Future[None] = Future()

            def run() -> bool:
                future.set_result(None)
                return True

            self._waiting.append((future, run))
        return future

    def let_go(self) -> None:
        """End a :meth:`hold`, so that the waiting calls run."""
        self._go_on()

    def close(self) -> None:
        """Refuse further calls, and return when all earlier calls are done."""
        with self._changed:
            self._closed = True
            while self._busy:
                self._changed.wait()

    def _check_takes(self, always: bool = False) -> None:
        if self._closed:
            raise ModelUnavailable(f"{self._name} is being stopped")
        if not always and len(self._waiting) >= self._size and self.depth >= self._size:
            raise QueueFull(f"{self._size} calls wait for {self._name} already")

    def _run(self) -> None:
        """Run waiting calls until no call waits, or until a :meth:`hold` begins."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._busy = False
                    self._changed.notify_all()
                    return
                run = self._waiting.popleft()[1]
            if run():
                return
            del run

    def _go_on(self) -> None:
        """Run the calls that were submitted in the meantime, or mark the mailbox as idle if there are none."""
        with self._lock:
            if self._waiting:
                self._threads.submit(self._run)
            else:
                self._busy = False
                self._changed.notify_all()
