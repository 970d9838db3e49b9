"""Mailboxes and pools: order, bounds, ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from functools import partial

import pytest

from livesvm.service.api.streams import Streams
from livesvm.service.errors import ModelUnavailable, QueueFull, Withdrawn
from livesvm.service.hosting.mailbox import Mailbox
from livesvm.service.logs import calls
from livesvm.service.resources.pools import Pool, SteppedPool
from livesvm.service.resources.shared_threads import Steps


def mailbox(size: int = 10, threads: Executor | None = None) -> Mailbox:
    return Mailbox(threads or ThreadPoolExecutor(2), "test", size)


def test_calls_run_in_order_one_at_a_time() -> None:
    seen: list[int] = []
    under_way = [0]

    def call(number: int) -> None:
        under_way[0] += 1
        assert under_way[0] == 1
        time.sleep(0.0001)
        seen.append(number)
        under_way[0] -= 1

    threads = ThreadPoolExecutor(4)
    boxes = [mailbox(100, threads) for _ in range(2)]
    futures = [boxes[0].submit(partial(call, number)) for number in range(50)]
    boxes[1].submit(lambda: None).result()
    for future in futures:
        future.result()
    boxes[0].close()
    assert seen == list(range(50))


def test_many_mailboxes_take_no_more_threads_than_there_are() -> None:
    few, release = ThreadPoolExecutor(3, "few"), threading.Event()
    boxes = [mailbox(threads=few) for _ in range(100)]
    futures = [box.submit(release.wait) for box in boxes]
    assert sum(thread.name.startswith("few") for thread in threading.enumerate()) == 3
    release.set()
    assert all(future.result(timeout=10) for future in futures)


def test_a_mailbox_that_is_borrowed_keeps_what_comes_and_is_lent_only_while_it_is_empty() -> None:
    one = mailbox()
    with one.borrowed() as mine:
        assert mine
        waiting = one.submit(lambda: 7)
        with one.borrowed() as twice:
            assert not twice
        assert not waiting.done()
    assert waiting.result(timeout=10) == 7
    started, release = threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return release.wait(10)

    one.submit(block)
    assert started.wait(10)
    with one.borrowed() as mine:
        assert not mine
    release.set()
    one.close()


def test_what_follows_a_call_comes_after_its_answer_even_if_that_is_an_error() -> None:
    one, seen = mailbox(), list[bool]()
    failing = one.submit(lambda: 1 // 0, after=lambda: seen.append(failing.done()))
    one.close()
    assert seen == [True]


def test_an_error_goes_to_its_caller_and_the_mailbox_goes_on() -> None:
    one = mailbox()
    failing = one.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert one.submit(lambda: 7).result() == 7
    one.close()


def test_a_full_queue_refuses_at_once() -> None:
    one = mailbox(size=2)
    started, release = threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return release.wait(10)

    running = one.submit(block)
    assert started.wait(10)
    waiting = [one.submit(lambda: None) for _ in range(2)]
    assert one.depth == 2
    with pytest.raises(QueueFull):
        one.submit(lambda: None)
    release.set()
    assert running.result()
    assert [future.result() for future in waiting] == [None, None]
    one.close()


def test_what_always_gets_a_place_waits_for_its_turn() -> None:
    one = mailbox(size=1)
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
    one.close()
    assert seen == [1, 2, 3]


def test_a_cancelled_call_does_not_run() -> None:
    one = mailbox()
    started, release, ran = threading.Event(), threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return release.wait(10)

    one.submit(block)
    assert started.wait(10)
    assert one.submit(ran.set).cancel()
    release.set()
    one.close()
    assert not ran.is_set()


def test_nothing_is_taken_after_the_end() -> None:
    one = mailbox()
    last = one.submit(lambda: 7)
    one.close()
    assert last.result() == 7
    with pytest.raises(ModelUnavailable):
        one.submit(lambda: 8)


def test_a_pool_is_bounded_and_frees_its_places() -> None:
    pool = Pool("test", threads=1, limit=2)
    with pool.place(), pool.place(), pytest.raises(QueueFull), pool.place():
        raise AssertionError("a third place was given")
    with pool.place(), pool.place():
        assert asyncio.run(pool.run(sum, (1, 2))) == 3
    pool.close()


def place_of(key: str | None, take: Callable[[], AbstractContextManager[None]]) -> ExitStack:
    """Return a place that a call with a key holds."""

    def enter() -> ExitStack:
        calls.begin(calls.Call("1"))
        if key is not None:
            calls.known_as(key)
        held = ExitStack()
        held.enter_context(take())
        return held

    return copy_context().run(enter)


@pytest.mark.parametrize("limit", [1, 2, 5, 8])
@pytest.mark.parametrize("of", ["calls", "streams"])
def test_one_key_has_half_of_the_places_and_gives_them_back(of: str, limit: int) -> None:
    pool, streams = Pool("test", threads=1, limit=limit), Streams(limit, 1.0)

    def take(key: str) -> AbstractContextManager[object]:
        return place_of(key, pool.place) if of == "calls" else streams.place(key)

    for _ in range(2):
        with ExitStack() as held:
            most = max(1, limit // 2)
            for _ in range(most):
                held.enter_context(take("a"))
            with pytest.raises(QueueFull, match=r"half|as many as|already"):
                held.enter_context(take("a"))
            for _ in range(min(most, limit - most)):
                held.enter_context(take("b"))
            if limit % 2:
                held.enter_context(take("c")) if limit > 1 else None
            with pytest.raises(QueueFull):
                held.enter_context(take("d"))


def test_without_keys_one_caller_has_all_places() -> None:
    pool = Pool("test", threads=1, limit=3)
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(place_of(None, pool.place))


def test_work_ends_when_its_caller_has_left() -> None:
    pool, ended = SteppedPool("steps", threads=1, limit=1), threading.Event()

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
