"""Share threads fairly between tasks that run in steps: the next step is that of the task with the least work."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from concurrent.futures import Executor, Future, wait
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[float | Future[Any], None, T]
"""Work in steps: a generator that yields the cost of its next step before it does the step, and returns its result.

If it yields a future, its next step runs once the future is done, and no thread waits for it.
"""

A_SECOND = 1.7e9
"""Cost of steps that take a second in all."""
LONG = 5e7
"""A step with a higher cost, about 30 ms, is long; one long step runs at a time, so that others find a thread."""


@dataclass(order=True)
class _Task:
    """A task that waits for its next step; the task with the least ``work``, its next step included, comes first."""

    work: float
    number: int
    step: float = field(compare=False)
    steps: Steps[Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    context: Context = field(compare=False)


class SharedThreads:
    """Runs tasks in steps, in the threads of an executor; a free thread takes the task with the least work."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._numbers = itertools.count()
        self._has_long = False
        self._open: set[Future[Any]] = set()

    def submit(self, steps: Steps[T]) -> Future[T]:
        """Start a task; the future gets its result. Cancelling the future ends the task after its present step."""
        future: Future[T] = Future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._queue(_Task(0.0, next(self._numbers), 0.0, steps, future, copy_context()), 0.0)
        return future

    def wait(self) -> None:
        """Wait until all tasks are done."""
        wait(list(self._open))

    def _queue(self, task: _Task, step: float) -> None:
        """Queue a task, and let a thread do the next step of the queued task with the least work."""
        task.step, task.work = step, task.work + step
        with self._lock:
            self._waiting.append(task)
        self._threads.submit(self._run)

    def _run(self) -> None:
        with self._lock:
            ready = [task for task in self._waiting if task.step <= LONG or not self._has_long]
            if not ready:  # all are long, and the one that runs has a thread look again
                return
            self._waiting.remove(task := min(ready))
            is_long = task.step > LONG
            self._has_long |= is_long
        next_step = _step(task)
        if is_long:
            with self._lock:
                self._has_long = False
            self._threads.submit(self._run)
        if isinstance(next_step, Future):
            next_step.add_done_callback(lambda done: self._queue(task, 0.0))
        elif next_step is not None:
            self._queue(task, next_step)


def _step(task: _Task) -> float | Future[Any] | None:
    """Do one step; return the cost of the next step or the future for which it waits, None after the last step."""
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
    """Set the result or the error of a future, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
