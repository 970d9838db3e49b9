"""Run jobs as Ray tasks: a task works on a copy of a model, on any node of the cluster with a free core."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from livesvm.service.errors import WorkerLost
from livesvm.service.jobs.kind import Document
from livesvm.service.jobs.kinds import ALL_KINDS
from livesvm.service.ray.membership import LOOK_SECONDS, MEMBERSHIP
from livesvm.service.ray.messages import Answer, answered, packed, unpacked
from livesvm.service.ray.places import WORKER_CORES
from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.progress import Progress


def work_elsewhere(
    kind: str, asked: Document, model: Any, progress: Progress, memory: int, check: Callable[[], None]
) -> Document:
    """Do a job's work on a copy of a model by a Ray task, and return the result; the task ends if ``check`` raises.

    Raises the errors of the work, and WorkerLost if its process or node is lost.
    """
    task: Any = ray.remote(_work)
    message = packed((kind, asked, model))
    needed = {"num_cpus": WORKER_CORES, "memory": memory, "max_retries": 0}
    streaming = task.options(num_returns="streaming", _generator_backpressure_num_objects=1, **needed)
    ends, held = True, list[Any]()
    try:
        with MEMBERSHIP.inside():
            held.append(streaming.remote(message))
        ends = False
        for answer in _answers(held, check):
            if isinstance(answer, Answer):
                ends = True
                found: Document = answer.result()
                return found
            if not progress(*answer):
                raise Cancelled("the job was cancelled")
        ends = True
        raise WorkerLost("the task ended without an answer")
    except RayError as error:
        ends = True
        raise WorkerLost(f"the task was lost ({type(error).__name__}); ask for it again") from error
    finally:
        # The task waits until its answer is taken: Ray ends a process that cancels a task at the moment when that ends.
        if not ends:
            with suppress(RayError, ValueError), MEMBERSHIP.inside():
                ray.cancel(held[0], force=True)
        MEMBERSHIP.let_go(held)


def _answers(held: list[Any], check: Callable[[], None]) -> Iterator[Any]:
    """Yield the messages of the task that ``held`` refers to, as they arrive."""
    while True:
        check()
        with MEMBERSHIP.inside():
            if not ray.wait(held, timeout=LOOK_SECONDS)[0]:
                continue
        try:
            answer = MEMBERSHIP.answer(lambda: next(held[0]))
        except StopIteration:
            return
        yield unpacked(answer)


def _work(message: bytes) -> Iterator[bytes]:
    """Do the work of a job in a thread; yield its packed progress, and at last its packed answer."""
    kind, asked, model = unpacked(message)
    reported: queue.SimpleQueue[Any] = queue.SimpleQueue()
    last = 0.0

    def progress(done: int, total: int) -> bool:
        """Report the progress now and then; to cancel the work, the caller ends this process."""
        nonlocal last
        if done >= total or time.monotonic() - last > LOOK_SECONDS:
            last = time.monotonic()
            reported.put((done, total))
        return True

    def work() -> None:
        """Do the work, and report its result or error."""
        run = ALL_KINDS[kind].run
        assert run is not None
        reported.put(answered(run, asked, model, progress))

    threading.Thread(target=work, name="work", daemon=True).start()
    while isinstance(found := reported.get(), tuple):
        yield packed(found)
    yield found
