"""Workers of a service as what carries the calls of its front end, and what reads in their shares of the store."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from prometheus_client.core import Metric

from livesvm.service.remote.frames import SECRET_BYTES
from livesvm.service.remote.messages import packed, unpacked
from livesvm.service.remote.rpc import RpcClientPool
from livesvm.service.remote.transport import Done, Since, Terms
from livesvm.service.settings import Settings
from livesvm.service.store.base import Store
from livesvm.service.store.shares import COUNT, share_of
from livesvm.service.webhooks.spec import Webhook
from livesvm.service.workers.messages import Begin, Scrape, Stop, Webhooks, Withdraw
from livesvm.service.workers.store import RemoteStore
from livesvm.service.workers.supervisor import Supervisor

LOST_SECONDS = 20.0
"""For which a call waits for a worker that was lost."""
SCRAPE_SECONDS = 1.0

Spec = Callable[[], Any]
Lost = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """A worker, in which no model is alone."""

    number: int
    model: None = None

    @property
    def name(self) -> str:
        """By which its line is found."""
        return f"worker-{self.number}"


class Workers:
    """The workers of a service. Implements :class:`~livesvm.service.remote.transport.Transport`."""

    terms = Terms("worker", LOST_SECONDS, "actor")

    def __init__(self, settings: Settings, lock: int, count_lost: Callable[[], None]) -> None:
        """Start them; ``lock`` is the file of the data directory's lock."""
        self._count, self._seconds = settings.workers, settings.shutdown_seconds
        self._lines = RpcClientPool()
        self._near: RpcClientPool | None = None  #: on the event loop of the service, from which most calls come
        self._ends: dict[str, tuple[socket.socket, Lost]] = {}
        self._lock = threading.Lock()
        self._webhooks: bytes | None = None  #: what those that start are sent first
        self._secret = secrets.token_bytes(SECRET_BYTES)
        begin = Begin(part_of(settings), settings.workers, self._secret)
        self._supervisor = Supervisor(begin, lock, self._attach, count_lost)
        stores = [RemoteStore(_To(self, number), LOST_SECONDS) for number in range(self._count)]
        self.parts: dict[int, Store] = {share: cast(Store, stores[share % self._count]) for share in range(COUNT)}
        self._stores = stores

    def _attach(self, number: int, ends: tuple[socket.socket, socket.socket], lost: Lost) -> None:
        """Have the ends as lines: the first in a thread, the other on the service's event loop once there is one."""
        name = Place(number).name
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

    @property
    def is_over(self) -> bool:
        """Whether they are stopped."""
        return self._supervisor.is_over

    def ping(self) -> None:
        """Ask each whether its store could take an update; raises StoreError."""
        for store in self._stores:
            store.ping()

    def place(self, stored: str) -> Place:
        """Return the worker that has a share."""
        return Place(share_of(stored) % self._count)

    def is_known(self, place: Place) -> bool:
        """Return True: all are."""
        return True

    def send(self, place: Place, message: bytes, done: Done) -> None:
        """Have a message answered."""
        near = self._near
        if near is not None and near.is_here and near.ask(place.name, message, done):
            return
        if not self._lines.ask(place.name, message, done):
            done(None, ConnectionError("it is being started"))

    def ask(self, place: Place, spec: Spec, message: bytes, short: bool, done: Done) -> None:
        """Send the call by the worker's line."""
        self.send(place, message, done)

    def withdraw(self, place: Place, spec: Spec, call: str) -> None:
        """Tell the worker."""
        self.send(place, packed(Withdraw(call)), lambda found, error: None)

    def watch(self, place: Place, spec: Spec, since: Since, done: Done) -> None:
        """Ask the worker; raises ConnectionError while it is being started."""
        if not self._lines.ask(place.name, packed(since), done):
            raise ConnectionError("it is being started")

    def heard(self, place: Place, line: Any) -> None:
        """Do nothing: its line is known."""

    def lost(self, place: Place, error: BaseException) -> None:
        """Do nothing: the supervisor knows."""

    def know(self, webhooks: tuple[Webhook, ...]) -> None:
        """Have all workers know the webhooks, those that start later too."""
        self._webhooks = packed(Webhooks(webhooks))
        self._all(self._webhooks, LOST_SECONDS)

    def scrape(self, places: Iterable[Place]) -> list[Metric]:
        """Return the metrics of all workers that answer within a second."""
        reported = self._all(packed(Scrape()), SCRAPE_SECONDS)
        return [family for found in reported for family in unpacked(found)]

    def join(self, again: Callable[[], None]) -> None:
        """Do nothing: calls wait for a worker that starts."""

    def leave(self) -> None:
        """Have all workers stop in order, and end them."""
        self._supervisor.is_over = True
        self._all(packed(Stop()), self._seconds)
        self._lines.close()
        self._supervisor.stop()

    def _all(self, message: bytes, seconds: float) -> list[bytes]:
        """Return the answers of all workers that answer in time."""
        reported: list[Future[bytes | None]] = [Future() for _ in range(self._count)]
        for number, future in enumerate(reported):
            self.send(Place(number), message, partial(_hand_on, future))
        return [found for future in wait(reported, seconds).done if (found := future.result()) is not None]


def _hand_on(future: Future[Any], found: Any, error: BaseException | None) -> None:
    future.set_result(found)


class _To:
    """The way to one worker's store."""

    def __init__(self, workers: Workers, number: int) -> None:
        self._workers, self._place = workers, Place(number)

    def ask(self, message: bytes, done: Done) -> None:
        """Have a message answered."""
        self._workers.send(self._place, message, done)

    @property
    def is_over(self) -> bool:
        """Whether the service stops."""
        return self._workers.is_over


def part_of(settings: Settings) -> Settings:
    """Return the settings of one worker, with its part of the memory and of the solves."""
    solves = max(1, settings.solves // settings.workers)
    return settings.model_copy(update={"memory_mb": settings.process_mb, "solves": solves})
