"""Workers of a service as what carries the calls of its front end, and what reads in their shares of the store."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable
from typing import cast

from livesvm.service.remote.frames import SECRET_BYTES
from livesvm.service.remote.messages import packed
from livesvm.service.remote.rpc import RpcClientPool
from livesvm.service.remote.transport import Done, Place, Transport, ask_all
from livesvm.service.settings import Settings
from livesvm.service.store.base import Store
from livesvm.service.store.shares import COUNT, share_of
from livesvm.service.webhooks.spec import Webhook
from livesvm.service.workers.messages import Begin, Stop, Webhooks
from livesvm.service.workers.store import RemoteStore
from livesvm.service.workers.supervisor import Supervisor

LOST_SECONDS = 20.0
"""For which a call waits for a worker that was lost."""

Lost = Callable[[], None]


class Workers(Transport):
    """The workers of a service. Their lines are known, and the supervisor knows of those that are lost."""

    word, seconds, predictions = "worker", LOST_SECONDS, "actor"

    def __init__(self, settings: Settings, lock: int, count_lost: Callable[[], None]) -> None:
        """Start them; ``lock`` is the file of the data directory's lock."""
        self._seconds = settings.shutdown_seconds
        self.places = [Place(f"worker-{number}") for number in range(settings.workers)]
        self._lines = RpcClientPool()
        self._near: RpcClientPool | None = None  #: on the event loop of the service, from which most calls come
        self._ends: dict[str, tuple[socket.socket, Lost]] = {}
        self._lock = threading.Lock()
        self._webhooks: bytes | None = None  #: what those that start are sent first
        self._secret = secrets.token_bytes(SECRET_BYTES)
        begin = Begin(part_of(settings), settings.workers, self._secret)
        self._supervisor = Supervisor(begin, lock, self._attach, count_lost)
        self._stores = stores = [RemoteStore(self, place, LOST_SECONDS) for place in self.places]
        self.parts: dict[int, Store] = {share: cast(Store, stores[share % len(stores)]) for share in range(COUNT)}

    def _attach(self, number: int, ends: tuple[socket.socket, socket.socket], lost: Lost) -> None:
        """Have the ends as lines: the first in a thread, the other on the service's event loop once there is one."""
        name = self.places[number].name
        self._lines.attach(name, ends[0], self._secret, lost, lambda: self._webhooks)
        with self._lock:
            if self._near is not None:
                self._near.attach(name, ends[1], self._secret, lost)
            else:
                self._ends[name] = ends[1], lost

    def serve_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send calls that are made on this event loop from there, without a thread between."""
        with self._lock:
            self._near = RpcClientPool(loop)
            for name, (end, lost) in self._ends.items():
                self._near.attach(name, end, self._secret, lost)

    def ping(self) -> None:
        """Ask each whether its store could take an update; raises StoreError."""
        for store in self._stores:
            store.ping()

    def place(self, stored: str) -> Place:
        """Return the worker that has a share."""
        return self.places[share_of(stored) % len(self.places)]

    def ask(self, place: Place, message: bytes, short: bool, done: Done) -> None:
        """Send a message by the worker's line."""
        near = self._near
        if near is not None and near.is_here and near.ask(place.name, message, done):
            return
        if not self._lines.ask(place.name, message, done):
            done(None, ConnectionError("it is being started"))

    def know(self, webhooks: tuple[Webhook, ...]) -> None:
        """Have all workers know the webhooks, those that start later too."""
        self._webhooks = packed(Webhooks(webhooks))
        ask_all(self, self.places, self._webhooks, LOST_SECONDS)

    def leave(self) -> None:
        """Have all workers stop in order, and end them."""
        self._supervisor.is_over = True
        for store in self._stores:
            store.is_over = True
        ask_all(self, self.places, packed(Stop()), self._seconds)
        self._lines.close()
        self._supervisor.stop()


def part_of(settings: Settings) -> Settings:
    """Return the settings of one worker, with its part of the memory and of the solves."""
    solves = max(1, settings.solves // settings.workers)
    return settings.model_copy(update={"memory_mb": settings.process_mb, "solves": solves})
