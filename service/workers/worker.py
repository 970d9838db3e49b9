"""A worker: a process that hosts the models and feeds of some shares of the store, and ends with its service."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import uvloop

from livesvm.service.models.types import ServingState
from livesvm.service.remote.host import Host, opened, set_process_up
from livesvm.service.remote.messages import Answer, Question, answered, packed, unpacked
from livesvm.service.remote.rpc import Answering
from livesvm.service.resources.machine import collect_seldom, give_back_large_blocks
from livesvm.service.store.base import StoreError
from livesvm.service.store.shares import COUNT, open_shares
from livesvm.service.webhooks.outbox import Outbox
from livesvm.service.workers.messages import AskStore, Begin, Stop, Webhooks

OWN = "process_"
"""Metrics that tell of the process itself; others of all workers are summed up."""
SWITCH_SECONDS = 0.0005
STORE_THREADS = 4
"""For what the service reads in the store."""

log = logging.getLogger(__name__)


class Worker:
    """Its shares, and what is asked of them. Its coroutines run on one event loop.

    Parameters
    ----------
    number : its own, below ``begin.count``
    """

    def __init__(self, number: int, begin: Begin) -> None:
        self._number, self._begin = number, begin
        self._threads = ThreadPoolExecutor(STORE_THREADS, "store")
        self._outbox, self._knows_webhooks = Outbox(), asyncio.Event()
        self._opened = asyncio.get_running_loop().run_in_executor(self._threads, self._open)

    def _open(self) -> None:
        """Open the store, and begin to learn what lives here; raises StoreError."""
        settings, number = self._begin.settings, self._number
        self._store = open_shares(settings.data_dir, range(number, COUNT, self._begin.count))
        context = opened(settings, self._store, f"worker-{number}", self._outbox)
        metrics, self._turns = context.source.metrics, context.turns
        metrics.watch_solves(self._turns.counts)
        metrics.watch_memory(context.budget)
        labels = {"worker": str(number)}
        self._host = Host(f"worker {number}", context, self._tend, labels, OWN, has_one_caller=True)
        self._host.begin()

    def _tend(self, states: Counter[ServingState]) -> None:
        if states["restoring"] or states["fenced"]:
            self._host.registry.take_over()

    async def answer(self, message: bytes) -> bytes:
        """Answer one message."""
        asked = unpacked(message)
        if isinstance(asked, Webhooks):
            self._outbox.webhooks = asked.webhooks
            self._knows_webhooks.set()
            return b""
        if not self._opened.done():
            await asyncio.wait([self._opened])
        try:
            self._opened.result()
        except StoreError as error:
            if isinstance(asked, Question | AskStore):
                return packed(Answer(error=error))
            log.error("worker %d ends, as it cannot use its part of the store: %s", self._number, error)
            logging.shutdown()
            os._exit(1)  # another one tries it again
        match asked:
            case AskStore():
                return await asyncio.get_running_loop().run_in_executor(self._threads, answered, self._of_store, asked)
            case Stop():
                await asyncio.to_thread(self._stop)
                return b""
            case Question():
                await self._knows_webhooks.wait()
        return await self._host.answer(asked)

    def _of_store(self, asked: AskStore) -> Any:
        """Return what a method of the store returns; of one that yields, a list."""
        found = getattr(self._store, asked.method.__name__)(*asked.arguments, **asked.named)
        return list(found) if isinstance(found, Iterator) else found

    def _stop(self) -> None:
        """Let mailboxes run empty, write snapshots, close the store. Solves that nothing waits for are ended."""
        self._turns.close()
        self._host.registry.stop()
        self._store.close()
        logging.shutdown()


def serve(number: int, begin: Begin, lines: Sequence[socket.socket]) -> NoReturn:
    """Be a worker until a line ends, and end the process then, whatever is under way."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # which concern the service, and may be sent to all of its processes
    set_process_up(begin.settings, SWITCH_SECONDS, {"worker": str(number)})
    give_back_large_blocks()
    collect_seldom()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)

    async def answer_all() -> None:
        """Answer what comes by the lines."""
        worker = Worker(number, begin)
        for line in lines:
            await loop.create_connection(lambda: Answering(worker.answer, begin.secret, lambda: os._exit(0)), sock=line)

    loop.run_until_complete(answer_all())
    loop.run_forever()
    os._exit(1)
