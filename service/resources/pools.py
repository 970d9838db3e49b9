"""Thread pools for calls that must not run on the event loop, each with a bound on the calls that may wait."""

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
"""Seconds between two checks whether the caller is still there."""


class Places:
    """A limited number of places for concurrent calls; used from one event loop only.

    Parameters
    ----------
    limit : number of places
    full, half : messages of the error if all places are taken, and if the caller has half of them already
    """

    def __init__(self, limit: int, full: str, half: str) -> None:
        self._limit, self._share = limit, max(1, limit // 2)
        self._full, self._half = full, half
        self._held: Counter[Hashable] = Counter()

    def take(self, caller: Hashable, size: int = 1) -> None:
        """Take ``size`` places; a caller other than None gets at most half of all; raises QueueFull without waiting."""
        if self._held.total() + size > self._limit:
            raise QueueFull(self._full)
        if caller is not None and self._held[caller] + size > self._share:
            raise QueueFull(self._half)
        self._held[caller] += size

    def give(self, caller: Hashable, size: int = 1) -> None:
        """Give back ``size`` of the caller's places."""
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]

    @contextmanager
    def place(self, caller: Hashable) -> Iterator[None]:
        """Hold one place during the block; raises QueueFull, without waiting, if there is none."""
        self.take(caller)
        try:
            yield
        finally:
            self.give(caller)


class Pool:
    """Runs calls in threads; used from one event loop only.

    Parameters
    ----------
    name : name of the threads
    threads : number of threads
    limit : calls that may wait or run, whose bodies were received; one API key may have half of them
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        half = f"{max(1, limit // 2)} calls of {name} with this key are under way, half of all that may be"
        self._places = Places(limit, f"{limit} calls of {name} are under way already", half)  # by the caller's key
        self._threads = ThreadPoolExecutor(threads, name)

    def place(self) -> AbstractContextManager[None]:
        """Hold one of the pool's places during the block; raises QueueFull, without waiting, if there is none."""
        call = current()
        return self._places.place(None if call is None else call.key)

    def begin(self, call: Callable[..., T], *arguments: object) -> Future[T]:
        """Start ``call(*arguments)`` in a thread, for a caller that holds a place; return the future of its result."""
        return self._threads.submit(copy_context().run, call, *arguments)

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of ``call(*arguments)``, for a caller that holds a place."""
        return await asyncio.wrap_future(self.begin(call, *arguments))

    async def placed(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of ``call(*arguments)``, holding a place meanwhile; raises QueueFull if there is none."""
        with self.place():
            return await self.run(call, *arguments)

    def close(self) -> None:
        """End the threads when their work is done."""
        self._threads.shutdown()


class SteppedPool(Pool):
    """A pool that also runs work in steps: between two steps, the thread can do other work."""

    def __init__(self, name: str, threads: int, limit: int) -> None:
        super().__init__(name, threads, limit)
        self._shared = SharedThreads(self._threads)

    async def run_steps(self, steps: Steps[T], has_left: Callable[[], Awaitable[bool]]) -> T:
        """Return the result of work in steps; other work can run between two steps.

        Raises Withdrawn, and ends the work, when its caller ``has_left``.
        """
        result = asyncio.wrap_future(self._shared.submit(steps))
        while not (await asyncio.wait({result}, timeout=LOOK_SECONDS))[0]:
            if await has_left():
                result.cancel()
                raise Withdrawn("the client left before its answer was there")
        return result.result()

    def close(self) -> None:
        """End the threads when their work is done."""
        self._shared.wait()
        super().close()
