"""Threads for what must not run on the event loop, each pool with a bound on what may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from service.errors import QueueFull

T = TypeVar("T")


class Pool:
    """Runs calls in threads; used from one event loop.

    Parameters
    ----------
    name : of the threads, for people
    threads : that run at once
    limit : places, that is calls that wait or run; their bodies are whole
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._busy = 0
        self._size = threads
        self._threads = ThreadPoolExecutor(threads, name)

    def start(self) -> None:
        """Start the threads now, so that no call waits for its own; blocks until they run."""
        together = threading.Barrier(self._size)
        for started in [self._threads.submit(together.wait) for _ in range(self._size)]:
            started.result()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places until the work is done; raises QueueFull at once."""
        if self._busy >= self._limit:
            raise QueueFull(f"{self._limit} calls of {self._name} are under way already")
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """The result of ``call(*arguments)``, for a caller that holds a place."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def close(self) -> None:
        """End the threads once their work is done."""
        self._threads.shutdown()
