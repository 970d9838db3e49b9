"""A thread that does one thing after another: the single writer of a model or a feed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

from livesvm.service.errors import ModelUnavailable, QueueFull
from livesvm.service.logs.calls import stage

T = TypeVar("T")


class Writer:
    """Runs calls in the order they were handed in, in one thread, behind a queue of bounded length.

    Parameters
    ----------
    name : of what it writes, for people
    size : calls that may wait, but for those that always get a place
    rest : called after each call that asks for it and when the deadline has passed; must not raise
    deadline : the monotonic time by which ``rest`` is to be called even if nothing comes, or None
    """

    def __init__(self, name: str, size: int, rest: Callable[[], None], deadline: Callable[[], float | None]) -> None:
        self._name = name
        self._rest = rest
        self._deadline = deadline
        self._lock = threading.Lock()
        self._stopped = False
        self._size = size
        self._waiting = 0
        self._queue: queue.SimpleQueue[Callable[[], bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def depth(self) -> int:
        """Calls that wait, without those that were cancelled."""
        return self._waiting

    def submit(self, call: Callable[[], T], *, rests: bool = True, always: bool = False) -> Future[T]:
        """Hand in a call; the future gets its result or its error. Raises QueueFull or ModelUnavailable.

        ``rests`` says whether the rest follows it, ``always`` that it waits for its turn however many do.
        """
        future: Future[T] = Future()
        context = copy_context()
        stage("queue")

        def run() -> bool:
            """Call, unless nobody waits any more, and give the future its result; whether the rest follows."""
            if future.set_running_or_notify_cancel():
                self._count(-1)
                try:
                    future.set_result(context.run(_timed, call))
                except Exception as error:
                    future.set_exception(error)
            return rests

        with self._lock:
            if self._stopped:
                raise ModelUnavailable(f"{self._name} is being stopped")
            if not always and self.depth() >= self._size:
                raise QueueFull(f"{self._size} calls wait for {self._name} already")
            self._waiting += 1
            self._queue.put(run)
        future.add_done_callback(self._forget_cancelled)
        return future

    def stop(self) -> None:
        """Return when everything handed in before is done and the thread has ended."""
        with self._lock:
            self._stopped = True
        self._queue.put(None)
        self._thread.join()

    def _forget_cancelled(self, future: Future[T]) -> None:
        if future.cancelled():
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._waiting += change

    def _run(self) -> None:
        while True:
            try:
                call = self._queue.get(timeout=self._patience())
            except queue.Empty:
                self._rest()
                continue
            if call is None:
                return
            if call():
                self._rest()

    def _patience(self) -> float | None:
        deadline = self._deadline()
        return None if deadline is None else max(0.0, deadline - time.monotonic())


def _timed(call: Callable[[], T]) -> T:
    """Call, and note when it begins and ends."""
    stage("write")
    try:
        return call()
    finally:
        stage("answer")
