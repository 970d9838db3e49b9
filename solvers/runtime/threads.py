"""How many threads one solve may use: one if several models share the cores, more while cores are idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from operator import call
from typing import Any, TypeVar

from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime.interrupt import Interrupt, check, interruptible
from livesvm.solvers.runtime.types import Ints

T = TypeVar("T")

PART = 64  #: examples whose kernel rows one thread computes at once
LOOK_EVERY = 0.02  #: seconds between two checks of whether to stop, by the thread that waits for the others

_threads = 1
_lock = threading.Lock()
_at_work = _alone = 0
_before: Any = None  #: restores the threads of BLAS
_at_rest = threading.Event()
_at_rest.set()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let each solve inside the context use up to ``count`` threads; contexts must not be nested.

    BLAS still uses one thread: if other work uses the cores, several BLAS threads wait for each other longer than they
    compute.
    """
    global _threads
    _threads = count
    try:
        yield
    finally:
        _threads = 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the context, in calls from any thread of the process.

    If other work uses the cores too, several BLAS threads wait for each other many times longer than they compute. With
    one thread, sums also do not depend on the number of threads.
    """
    global _alone, _before
    with _lock:
        _alone += 1
        if _alone == 1:
            _before = _blas().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _alone -= 1
            if not _alone:
                _before.restore_original_limits()


@cache
def _blas() -> Any:
    """Return the controller of all BLAS libraries of this process, including that of SciPy."""
    import scipy.linalg.lapack  # noqa: F401 - both are only loaded where they are used
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def allowed() -> int:
    """Return how many threads one solve may use now."""
    return _threads


@contextmanager
def at_work() -> Iterator[None]:
    """Ask background work to wait while the context lasts, because all threads that one solve may use are busy."""
    global _at_work
    with _lock:
        _at_work += 1
        _at_rest.clear()
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if not _at_work:
                _at_rest.set()


def wait_for_rest(seconds: float) -> None:
    """Wait until no solve asks background work to wait, but at most ``seconds``."""
    _at_rest.wait(seconds)


def in_parts(work: Callable[[Ints], T], slots: Ints) -> list[T]:
    """Call ``work`` for ``PART`` of ``slots`` at a time, on several threads, and return the results in order."""
    return together([partial(work, slots[start : start + PART]) for start in range(0, slots.size, PART)])


def together(
    works: Sequence[Callable[[], T]],
    count: int | None = None,
    do: Callable[[Callable[[], T]], T] = call,
    end: Callable[[], None] = lambda: None,
) -> list[T]:
    """Call all functions ``works``, begun in this order on as many threads as are allowed; return their results.

    Parameters
    ----------
    count : number of threads; None: as many as :func:`threads` allows
    do : runs one of them in another thread
    end : called after a failure, before the works that have begun are waited for
    """
    count = min(allowed() if count is None else count, len(works))
    if count <= 1:
        done = []
        for work in works:
            check()
            done.append(work())
        return done
    with ThreadPoolExecutor(count, "together") as pool:
        begun = [pool.submit(do, work) for work in works]
        try:
            return [_result(one) for one in begun]
        except BaseException:
            end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _result(work: Future[T]) -> T:
    """Wait for the result of another thread; an interrupt ends the wait and cancels work that has not begun."""
    while not wait([work], LOOK_EVERY).done:
        check()
    check()
    return work.result()


def solve_in_parallel(works: Sequence[Callable[[], T]], count: int | None = None) -> list[T]:
    """Run the solves ``works`` of one update, and return their results in order after all solves have ended.

    Parameters
    ----------
    count : how many threads may work; None: as many as :func:`threads` allows now

    Raises
    ------
    SolverError : what the first of them raised, or a handler of this thread; all solves have ended then
    """
    lock, running, is_over = threading.Lock(), list[Interrupt](), threading.Event()

    def stop() -> None:
        raise Cancelled("another part of this update has ended it")

    def do(work: Callable[[], T]) -> T:
        with interruptible(stop) as interrupt:
            with lock:
                if is_over.is_set():
                    stop()
                running.append(interrupt)
            try:
                return work()
            finally:
                with lock:
                    running.remove(interrupt)

    def end() -> None:
        with lock:
            is_over.set()
            for interrupt in running:
                interrupt.ask()

    return together(works, count, do, end)
