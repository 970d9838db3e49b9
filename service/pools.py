"""Threads for what must not run on the event loop, each pool with a bound on what may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.errors import QueueFull

T = TypeVar("T")


class Pool:
    """Runs calls in threads; used from one event loop.

    Parameters
    ----------
    name : of the threads, for people
    threads : that run at once
    limit : calls that may run and wait together
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._busy = 0
        self._threads = ThreadPoolExecutor(threads, name)

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """The result of ``call(*arguments)``; raises QueueFull at once when too much waits."""
        if self._busy >= self._limit:
            raise QueueFull(f"{self._limit} calls of {self._name} wait already")
        self._busy += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        finally:
            self._busy -= 1

    def close(self) -> None:
        """End the threads once their work is done."""
        self._threads.shutdown()
