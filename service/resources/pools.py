"""Threads for what must not run on the event loop, each pool with a bound on what may wait, and shared places."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import TypeVar

from livesvm.service.errors import QueueFull, Withdrawn
from livesvm.service.logs.calls import current
from livesvm.service.resources.shared_threads import SharedThreads, Steps

T = TypeVar("T")

LOOK_SECONDS = 0.5
"""Between two looks whether whoever asked for work is still there."""


class Places:
    """So many places; used from one event loop.

    Parameters
    ----------
    limit : places in all
    full, half : what the error says where all places are taken, and where the half of the caller is
    """

    def __init__(self, limit: int, full: str, half: str) -> None:
        self._limit, self._share = limit, max(1, limit // 2)
        self._full, self._half = full, half
        self._held: Counter[Hashable] = Counter()

    def take(self, caller: Hashable, size: int = 1) -> None:
        """Hold places for a caller; None may have them all. Raises QueueFull at once."""
        if self._held.total() + size > self._limit:
            raise QueueFull(self._full)
        if caller is not None and self._held[caller] + size > self._share:
            raise QueueFull(self._half)
        self._held[caller] += size

    def give(self, caller: Hashable, size: int = 1) -> None:
        """Give places back."""
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]

    @contextmanager
    def place(self, caller: Hashable) -> Iterator[None]:
        """Hold one place inside; raises QueueFull at once."""
        self.take(caller)
        try:
            yield
        finally:
            self.give(caller)


class Pool:
    """Runs calls in threads; used from one event loop.

    Parameters
    ----------
    name : of the threads, for people
    threads : that run at once
    limit : places, that is calls that wait or run; their bodies are whole. One API key has half of them at most
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        half = f"{max(1, limit // 2)} calls of {name} with this key are under way, half of all that may be"
        self._places = Places(limit, f"{limit} calls of {name} are under way already", half)  # by the caller's key
        self._threads = ThreadPoolExecutor(threads, name)

    def place(self) -> AbstractContextManager[None]:
        """Hold one of the places inside, until the work is done; raises QueueFull at once."""
        call = current()
        return self._places.place(None if call is None else call.key)

    def begin(self, call: Callable[..., T], *arguments: object) -> Future[T]:
        """Have ``call(*arguments)`` made, for a caller that holds a place; return its result to come."""
        return self._threads.submit(copy_context().run, call, *arguments)

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of ``call(*arguments)``, for a caller that holds a place."""
        return await asyncio.wrap_future(self.begin(call, *arguments))

    def close(self) -> None:
        """End the threads once their work is done."""
        self._threads.shutdown()


class SteppedPool(Pool):
    """A pool that also does work in steps."""

    def __init__(self, name: str, threads: int, limit: int) -> None:
        super().__init__(name, threads, limit)
        self._shared = SharedThreads(self._threads)

    async def run_steps(self, steps: Steps[T], has_left: Callable[[], Awaitable[bool]]) -> T:
        """Return the result of work in steps, between which others have their turn.

        Raises Withdrawn, and ends the work, when whoever waits for it ``has_left``.
        """
        result = asyncio.wrap_future(self._shared.submit(steps))
        while not (await asyncio.wait({result}, timeout=LOOK_SECONDS))[0]:
            if await has_left():
                result.cancel()
                raise Withdrawn("the client left before its answer was there")
        return result.result()

    def close(self) -> None:
        """End the threads once their work is done."""
        self._shared.wait()
        super().close()
