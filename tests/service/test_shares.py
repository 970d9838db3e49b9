"""Threads share their time by work: small before large, one long step at a time, nothing for clients that left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from livesvm.service.resources.shared_threads import LONG, SharedThreads, Steps

SECONDS = 10.0


@pytest.fixture
def one() -> Iterator[SharedThreads]:
    threads = SharedThreads(ThreadPoolExecutor(1))
    yield threads
    threads.wait()


def work(name: str, steps: int, seen: list[str], gate: threading.Event | None = None, cost: float = 1.0) -> Steps[str]:
    for step in range(steps):
        if gate is not None and step == 0:
            assert gate.wait(SECONDS)
        seen.append(name)
        if step < steps - 1:
            yield cost
    return name


def test_small_work_passes_between_the_steps_of_large(one: SharedThreads) -> None:
    seen: list[str] = []
    gate = threading.Event()
    large = [one.submit(work("a", 5, seen, gate)), one.submit(work("b", 5, seen))]
    small = [one.submit(work(f"s{number}", 1, seen)) for number in range(3)]
    gate.set()
    assert [future.result(SECONDS) for future in [*large, *small]] == ["a", "b", "s0", "s1", "s2"]
    assert seen == ["a", "b", "s0", "s1", "s2", "a", "b", "a", "b", "a", "b", "a", "b"]


def test_one_long_step_runs_at_a_time_and_others_meanwhile() -> None:
    threads = SharedThreads(ThreadPoolExecutor(3))
    under_way, most, lock = 0, 0, threading.Lock()
    release = threading.Event()

    def long_one() -> Steps[int]:
        nonlocal under_way, most
        yield 2 * LONG
        with lock:
            under_way += 1
            most = max(most, under_way)
        release.wait(SECONDS)
        with lock:
            under_way -= 1
        return 1

    long = [threads.submit(long_one()) for _ in range(5)]
    seen: list[str] = []
    assert threads.submit(work("small", 1, seen)).result(SECONDS) == "small"
    release.set()
    assert [future.result(SECONDS) for future in long] == [1] * 5
    assert most == 1
    threads.wait()


def test_what_has_no_caller_ends_at_its_next_step(one: SharedThreads) -> None:
    seen: list[str] = []
    gate = threading.Event()
    closed = threading.Event()

    def steps() -> Steps[str]:
        try:
            yield from work("a", 1000, seen, gate)
        finally:
            closed.set()
        return "a"

    future = one.submit(steps())
    time.sleep(0.05)
    assert future.cancel()
    gate.set()
    assert closed.wait(SECONDS)
    assert one.submit(work("b", 1, seen)).result(SECONDS) == "b"
    assert seen.count("a") <= 2


def test_an_error_goes_to_its_caller_and_the_thread_goes_on(one: SharedThreads) -> None:
    def fails() -> Steps[str]:
        yield 1.0
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        one.submit(fails()).result(SECONDS)
    assert one.submit(work("b", 3, [])).result(SECONDS) == "b"


def test_the_end_waits_for_all_work() -> None:
    executor = ThreadPoolExecutor(2)
    threads = SharedThreads(executor)
    futures = [threads.submit(work(str(number), 20, [])) for number in range(10)]
    threads.wait()
    assert all(future.done() for future in futures)
    executor.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(work("late", 1, []))


def test_work_that_waits_for_something_takes_no_thread(one: SharedThreads) -> None:
    silent, seen = Future[str](), list[str]()

    def waits() -> Steps[str]:
        yield silent
        return silent.result()

    waiting = [one.submit(waits()) for _ in range(3)]
    one.submit(work("other", 2, seen)).result(10)
    assert not any(found.done() for found in waiting)
    silent.set_result("at last")
    assert [found.result(10) for found in waiting] == ["at last"] * 3
