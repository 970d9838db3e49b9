"""The writer and the pools: order, bounds, ends."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from livesvm.service.errors import ModelUnavailable, QueueFull, Withdrawn
from livesvm.service.live.writer import Writer
from livesvm.service.resources.pools import Pool
from livesvm.service.resources.shares import Steps


def writer(size: int = 10, rest: threading.Event | None = None, deadline: float | None = None) -> Writer:
    deadlines = [deadline]

    def resting() -> None:
        deadlines[0] = None
        if rest is not None:
            rest.set()

    made = Writer("test", size, resting, lambda: deadlines[0])
    made.start()
    return made


def test_calls_run_in_order_in_one_thread() -> None:
    seen: list[tuple[int, int]] = []
    one = writer(100)
    for number in range(50):
        one.submit(lambda n=number: seen.append((n, threading.get_ident())))  # type: ignore[misc]
    one.stop()
    assert [number for number, _ in seen] == list(range(50))
    assert len({thread for _, thread in seen} - {threading.get_ident()}) == 1


def test_an_error_goes_to_its_caller_and_the_writer_goes_on() -> None:
    one = writer()
    failing = one.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert one.submit(lambda: 7).result() == 7
    one.stop()


def test_a_full_queue_refuses_at_once() -> None:
    one = writer(size=2)
    started, release = threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return release.wait(10)

    running = one.submit(block)
    assert started.wait(10)
    waiting = [one.submit(lambda: None) for _ in range(2)]
    assert one.depth() == 2
    with pytest.raises(QueueFull):
        one.submit(lambda: None)
    release.set()
    assert running.result()
    assert [future.result() for future in waiting] == [None, None]
    one.stop()


def test_what_always_gets_a_place_waits_for_its_turn() -> None:
    one = writer(size=1)
    started, release = threading.Event(), threading.Event()
    seen: list[int] = []

    def block() -> bool:
        started.set()
        return release.wait(10)

    one.submit(block)
    assert started.wait(10)
    one.submit(lambda: seen.append(1))
    for number in (2, 3):
        one.submit(lambda n=number: seen.append(n), always=True)  # type: ignore[misc]
    with pytest.raises(QueueFull):
        one.submit(lambda: seen.append(4))
    release.set()
    one.stop()
    assert seen == [1, 2, 3]


def test_a_cancelled_call_does_not_run() -> None:
    one = writer()
    started, release, ran = threading.Event(), threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return release.wait(10)

    one.submit(block)
    assert started.wait(10)
    assert one.submit(ran.set).cancel()
    release.set()
    one.stop()
    assert not ran.is_set()


def test_nothing_is_taken_after_the_end() -> None:
    one = writer()
    last = one.submit(lambda: 7)
    one.stop()
    assert last.result() == 7
    with pytest.raises(ModelUnavailable):
        one.submit(lambda: 8)


def test_the_deadline_is_kept_when_nothing_comes() -> None:
    rest = threading.Event()
    one = writer(rest=rest, deadline=time.monotonic() + 0.05)
    assert rest.wait(10)
    one.stop()


def test_a_pool_is_bounded_and_frees_its_places() -> None:
    pool = Pool("test", threads=1, limit=2)
    with pool.place(), pool.place(), pytest.raises(QueueFull), pool.place():
        raise AssertionError("a third place was given")
    with pool.place(), pool.place():
        assert asyncio.run(pool.run(sum, (1, 2))) == 3
    pool.close()


def test_the_threads_of_a_pool_can_be_started_before_its_first_call() -> None:
    pool = Pool("early", threads=3, limit=3)
    pool.start()
    assert sum(thread.name.startswith("early") for thread in threading.enumerate()) == 3
    assert asyncio.run(pool.run(sum, (1, 2))) == 3
    pool.close()


def test_work_ends_when_whoever_waits_for_it_has_left() -> None:
    pool, ended = Pool("steps", threads=1, limit=1), threading.Event()

    def steps() -> Steps[int]:
        try:
            while True:
                time.sleep(0.01)
                yield 1.0
        finally:
            ended.set()

    async def has_left() -> bool:
        return True

    with pytest.raises(Withdrawn):
        asyncio.run(pool.run_steps(steps(), has_left))
    assert ended.wait(10)
    assert asyncio.run(pool.run(sum, (1, 2))) == 3
    pool.close()
