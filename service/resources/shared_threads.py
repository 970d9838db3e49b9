"""Threads that share out their time by work: what has taken little so far goes on before what has taken much."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[float | Future[Any], None, T]
"""Work in steps: it yields what the next step costs before it does that step, and returns its result.

Where it yields a future, the next step comes once that is done, and no thread waits for it.
"""

A_SECOND = 1.7e9
"""What steps cost that take a second."""
LONG = 5e7
"""A step that costs more, about 30 ms, is long: one of those runs at a time, so that others find a thread."""


@dataclass(order=True)
class _Task:
    """Work that waits for its next step; the least that has been done, the next step included, comes first."""

    work: float
    number: int
    step: float = field(compare=False)
    steps: Steps[Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    context: Context = field(compare=False)


class SharedThreads:
    """Runs work in steps, in so many threads; between two steps whoever has had less goes first."""

    def __init__(self, name: str, threads: int) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Task] = []
        self._numbers = itertools.count()
        self._long_ones = self._elsewhere = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}_{number}", daemon=True) for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads that do not run yet."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def submit(self, steps: Steps[T]) -> Future[T]:
        """Have work done; the future gets its result, and if it is cancelled nothing follows the step under way."""
        self.start()
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the threads have ended")
            heapq.heappush(self._waiting, _Task(0.0, next(self._numbers), 0.0, steps, future, copy_context()))
            self._changed.notify()
        return future

    def close(self) -> None:
        """End the threads once all work is done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            goes_on = _step(task)
            self._done(task, goes_on)

    def _next(self) -> _Task | None:
        """Return the next task; None when there is none and will be none."""
        with self._changed:
            while True:
                if (task := self._first()) is not None:
                    self._long_ones += task.step > LONG
                    return task
                if self._closed and not self._waiting and not self._elsewhere:
                    return None
                self._changed.wait()

    def _first(self) -> _Task | None:
        """Take the first task with a step that may begin off the heap."""
        passed = []
        found = None
        while self._waiting and found is None:
            task = heapq.heappop(self._waiting)
            if task.step > LONG and self._long_ones:
                passed.append(task)
            else:
                found = task
        for task in passed:
            heapq.heappush(self._waiting, task)
        return found

    def _done(self, task: _Task, next_step: float | Future[Any] | None) -> None:
        with self._changed:
            self._long_ones -= task.step > LONG
            if isinstance(next_step, Future):
                self._elsewhere += 1
                task.step = 0.0
            elif next_step is not None:
                self._push(task, next_step)
            self._changed.notify_all()
        if isinstance(next_step, Future):
            next_step.add_done_callback(lambda done: self._go_on(task))

    def _go_on(self, task: _Task) -> None:
        """Queue a task again when its future is done."""
        with self._changed:
            self._elsewhere -= 1
            self._push(task, 0.0)
            self._changed.notify_all()

    def _push(self, task: _Task, step: float) -> None:
        task.step = step
        task.work += step
        heapq.heappush(self._waiting, task)


def _step(task: _Task) -> float | Future[Any] | None:
    """Do one step; the cost of the next one, or what that waits for, None when it was the last."""
    if task.future.cancelled():
        task.steps.close()
        return None
    try:
        return task.context.run(next, task.steps)
    except StopIteration as end:
        _settle(task.future, end.value, None)
    except BaseException as error:
        _settle(task.future, None, error)
    return None


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    """Give the future its result, or its error, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
