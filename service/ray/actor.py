"""The actor in which models and feeds live: the same registry, replicas and journals as in a service of one process.

It is restored from Redis whenever Ray starts it, wherever that is. Its name there is its actor's, so that it need not
wait for the lease of the incarnation before; that one is fenced by its epoch, and ends itself as soon as it notices.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import takewhile
from typing import Any
from uuid import uuid4

import ray
from prometheus_client.core import Metric
from threadpoolctl import threadpool_limits

from livesvm.service.errors import Restoring, ServiceError, TurnMissed, Withdrawn
from livesvm.service.history.journal import Source
from livesvm.service.history.names import id_of, is_feed
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.registry import Registry
from livesvm.service.jobs.failures import is_foreseen
from livesvm.service.logs import calls
from livesvm.service.logs.setup import set_up
from livesvm.service.models.published import Published
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.ray.draining import Node
from livesvm.service.ray.lines import Number, Switchboard
from livesvm.service.ray.messages import Answer, Asked, News, View, packed, unpacked
from livesvm.service.ray.places import Place
from livesvm.service.resources.compiling import call_compiled_code
from livesvm.service.resources.machine import resident_bytes
from livesvm.service.resources.memory import MEGABYTE, Budget
from livesvm.service.resources.turns import Solve, Turns
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreError
from livesvm.service.store.redis import RedisStore
from livesvm.solvers import warm_up

GATHER_SECONDS = 0.05
"""Between two times that one who watches is told: those who call hear at once what came of that."""
SMALL_BYTES = 80_000
"""Of a version that goes along with an answer, to who predicts by copies; Ray carries 100 kB with the call itself."""
HEARTBEAT_SECONDS = 2.0
"""After so long without news whoever watches is told that there is none."""
LOOKS = 5
"""At the store, while one lease lasts."""
IDLE_SECONDS = 3.0
"""An actor for one model ends after so long without it."""
RETRY_SECONDS = 0.2
"""Between two tries to come back while the store is away."""
PATIENCE_SECONDS = 10.0
"""For which a call waits for what is stored to be known."""
GONE_SECONDS = 600.0
"""For which those who watch are told that one is gone, or went to rest; the store's index says it as well."""
SWITCH_SECONDS = 0.0001
SCRAPED = (
    "livesvm_update",
    "livesvm_solve_",
    "livesvm_store_seconds",
    "livesvm_store_err",
    "livesvm_snapshots",
    "livesvm_feed",
    "livesvm_wakes",
    "livesvm_rests",
    "process_",
)
"""What of its metrics an actor tells; the rest is the front ends'."""
log = logging.getLogger(__name__)


class _Part(RedisStore):
    """The store, of which one actor sees what lives there."""

    place: Place

    def _ids(self) -> list[str]:
        if self.place.model is not None:
            return [self.place.model]
        return [id_ for id_ in super()._ids() if self.place.holds(id_)]

    def changes(self) -> int:
        """Nobody else creates or deletes what lives here."""
        return 0


class _Told:
    """What is told of those that live here, in the order in which it changed; None of those that are gone."""

    def __init__(self) -> None:
        self.incarnation, self.moment = uuid4().hex, 0
        self._views: dict[str, tuple[int, float, View | None]] = {}

    def view(self, stored: str) -> View | None:
        """How one was at the last look."""
        return self._views.get(stored, (0, 0.0, None))[2]

    def note(self, stored: str, found: Any) -> bool:
        """Look how a replica is now, None if there is none; whether that is new."""
        before, moment = self.view(stored), self.moment + 1
        life = (self.incarnation, moment) if before is None or before.rests else before.life
        now = None if found is None else View.of(found, life, moment)
        if now == before or (now and before and now.rests and now.now == before.now):
            return False
        self.moment = moment
        self._views.pop(stored, None)
        self._views[stored] = moment, time.monotonic(), now
        return True

    def since(self, moment: int) -> dict[str, View | None]:
        """What has changed since a moment."""
        new = takewhile(lambda one: one[1][0] > moment, reversed(self._views.items()))
        return {stored: view for stored, (_, _, view) in new}

    def due(self) -> list[str]:
        """Those that may change without being asked; the index alone tells of those that were at rest for a while."""
        until = time.monotonic() - GONE_SECONDS
        in_memory = {id_: told for id_, told in self._views.items() if told[2] is not None and not told[2].rests}
        self._views = {id_: told for id_, told in self._views.items() if id_ in in_memory or told[1] > until}
        return list(in_memory)


class ModelActor:
    """Models and feeds, and who asks them. Its methods run on one event loop, and hand on whatever takes long."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._home = Node()
        self._node = self._home.label
        _set_process_up(settings, place, self._node)
        self._place = place
        self._metrics = Metrics()
        self._health = Health(self._metrics, settings.lease_seconds)
        self._store = _store(place, settings)
        context = Context(
            settings,
            Source(self._store, self._health, self._metrics),
            Turns(settings.solves),
            Budget(settings.memory_mb * MEGABYTE),
            f"ray-{place.name}",
        )
        context.budget.rest_on(resident_bytes())
        self._seconds = settings.lease_seconds / LOOKS
        self._registry = Registry(context)
        self._ready = threading.Event()
        self._asked_at = time.monotonic()
        self._under_way: dict[str, Callable[[], None]] = {}
        self._told = _Told()
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._board = Switchboard(self.ask)
        threading.Thread(target=self._live, name="keep", daemon=True).start()

    # What front ends ask.

    async def ask(self, message: bytes) -> bytes:
        """Answer one call."""
        self._asked_at, self._loop = time.monotonic(), asyncio.get_running_loop()
        asked: Asked = unpacked(message)
        call = calls.Call(asked.request or asked.id)
        call.key = asked.key
        calls.begin(call)
        value = error = None
        try:
            await self._come_back()
            value = await self._answered(asked)
        except Exception as found:
            error = found
            if not is_foreseen(found):
                log.exception("%s of %s failed", asked.command.do.__name__, asked.stored)
        self._look(asked.stored)
        copy = self._copy(asked.stored) if asked.predicts else None
        return packed(Answer(value, error, self._told.view(asked.stored), call.facts, copy))

    async def withdraw(self, call: str) -> None:
        """Nobody waits for a call any more."""
        self._under_way.get(call, lambda: None)()

    async def watch(self, incarnation: str, moment: int, predicted: dict[str, int]) -> bytes:
        """What has changed since a moment of an incarnation, as soon as something has; rows were predicted there."""
        self._loop, began = asyncio.get_running_loop(), time.monotonic()
        for stored, rows in predicted.items():
            self._note_predicted(stored, rows)
        if incarnation != self._told.incarnation:
            moment = 0
            await self._come_back()
            self._look_at_all()
        else:
            if moment == self._told.moment:
                news: asyncio.Future[None] = self._loop.create_future()
                self._waiting.add(news)
                await asyncio.wait([news], timeout=HEARTBEAT_SECONDS)
                self._waiting.discard(news)
            await asyncio.sleep(began + GATHER_SECONDS - time.monotonic())
        line, told = await self._line(), self._told
        return packed(News(told.incarnation, told.moment, told.since(moment), line))

    async def scrape(self) -> bytes:
        """The metrics of what is done here, as Prometheus's families, with where that is."""
        where = {"node": self._node, "actor": self._place.name}
        return packed([_labelled(f, where) for f in self._metrics.registry.collect() if f.name.startswith(SCRAPED)])

    # On the event loop.

    async def _line(self) -> Number | None:
        """Where front ends may call; None where this cannot listen."""
        try:
            return await self._board.number(self._home.host)
        except OSError as error:
            log.warning("actor %s cannot listen at %s: %s", self._place.name, self._home.host, error)
            return None

    async def _come_back(self) -> None:
        """Wait until it is known what lives here; raises Restoring if that takes too long."""
        if not self._ready.is_set() and not await asyncio.to_thread(self._ready.wait, PATIENCE_SECONDS):
            raise Restoring(f"actor {self._place.name} is being restored")

    async def _answered(self, asked: Asked) -> Any:
        command = asked.command
        subject = command.subject(*self._at(asked.stored))
        if command.blocks and not (command.at_once and command.at_once(*subject, *command.arguments)):
            return await asyncio.to_thread(command.do, *subject, *command.arguments)
        solve = Solve() if asked.seconds is None else Solve(until=time.monotonic() + asked.seconds)
        found = command.do(*subject, *command.arguments, **({"solve": solve} if command.timed else {}))
        if not isinstance(found, Future):
            return found

        def withdraw() -> None:
            """Take it out of the mailbox, or end it if it changes nothing."""
            if not found.cancel() and not command.mutates:
                solve.end(Withdrawn("the caller left"))

        self._under_way[asked.id] = withdraw
        try:
            return await _awaited(found, solve)
        finally:
            del self._under_way[asked.id]

    def _at(self, stored: str) -> tuple[Collection[Any], str]:
        """All of a kind, and an id."""
        return self._registry.feeds if is_feed(stored) else self._registry.models, id_of(stored)

    def _found(self, stored: str) -> Any:
        home, id_ = self._at(stored)
        return home.known(id_)

    def _copy(self, stored: str) -> Published | None:
        """The version that a model is at, if it is small enough to go along."""
        live = self._found(stored)
        seen = live.published if isinstance(live, HostedModel) else None
        if seen is None or seen.predictor is None:
            return None
        return seen if seen.n_support * (seen.row_bytes + 8 * seen.n_values) < SMALL_BYTES else None

    def _note_predicted(self, stored: str, rows: int) -> None:
        live = self._found(stored)
        if isinstance(live, HostedModel) and live.is_awake:
            live.recent.note_predicted(rows)
            live.used_at = time.monotonic()

    def _look(self, stored: str) -> None:
        """Learn whether a model or a feed has changed, and tell those who watch."""
        if self._told.note(stored, self._found(stored)):
            for news in self._waiting:
                if not news.done():
                    news.set_result(None)

    def _look_at_all(self) -> None:
        """Look at those that are awake, or unavailable, and at those that were."""
        homes = self._registry.models, self._registry.feeds
        for stored in {*self._told.due(), *(one.stored for home in homes for one in home.awake())}:
            self._look(stored)

    # In threads.

    def _live(self) -> None:
        """Learn what is stored, then keep the leases, and take over what others let go of, for good."""
        call_compiled_code()
        while not self._ready.is_set():
            try:
                self._health.ask_store(self._store)
                self._registry.restore()
                self._ready.set()
            except StoreError as error:
                log.warning("actor %s waits for the store: %s", self._place.name, error)
                time.sleep(RETRY_SECONDS)
        warm_up("updates")
        gc.freeze()
        while True:
            time.sleep(self._seconds)
            try:
                self._keep()
            except StoreError:
                pass  # health knows
            except Exception:
                log.exception("actor %s did not ask the store where it stands", self._place.name)
            self._on_loop(self._look_at_all)

    def _keep(self) -> None:
        self._health.ask_store(self._store)
        if not self._health.store_up:
            return
        self._registry.watch()
        states = Counter(self._registry.models.states()) + Counter(self._registry.feeds.states())
        if states["fenced"]:
            log.error("actor %s ends: another incarnation of it has its models", self._place.name)
            os._exit(1)
        if states["held"] or states["restoring"]:
            self._registry.take_over()
        if not states and self._place.model is not None and time.monotonic() - self._asked_at > IDLE_SECONDS:
            ray.kill(ray.get_runtime_context().current_actor)
        elif self._home.is_to_be_left():
            self._move()

    def _move(self) -> None:
        """End, so that Ray starts this on another node, where what is at rest takes no time to come back."""
        log.info("actor %s moves: its node is drained", self._place.name)
        snapshots = []
        for home in (self._registry.models, self._registry.feeds):
            for one in home.awake():
                if not one.rest():
                    with suppress(ServiceError):  # it has a mailbox that is full, and its log
                        snapshots.append(one.checkpoint())
        wait(snapshots, self._seconds)
        os._exit(1)

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(call)


def _labelled(family: Metric, where: dict[str, str]) -> Metric:
    found = Metric(family.name, family.documentation, family.type)
    found.samples = [sample._replace(labels=sample.labels | where) for sample in family.samples]
    return found


async def _awaited(future: Future[Any], solve: Solve) -> Any:
    """The result of what a writer was asked; raises TurnMissed or Withdrawn if its turn does not come in time."""
    answer = asyncio.wrap_future(future)
    await asyncio.wait([answer], timeout=solve.rest())
    if not answer.done() and future.cancel():
        raise TurnMissed("the model was busy for as long as the caller could wait; nothing was changed")
    try:
        return await answer
    except asyncio.CancelledError:
        raise Withdrawn("the caller left before its turn came") from None


def _store(place: Place, settings: Settings) -> _Part:
    """The store once it can be reached: an actor that cannot be made would not be tried again."""
    while True:
        try:
            store = _Part(
                settings.redis_url,
                f"ray-{place.name}",
                prefix=settings.redis_prefix,
                timeout=settings.redis_seconds,
                lease_seconds=settings.lease_seconds,
            )
        except StoreError as error:
            log.warning("actor %s waits for the store: %s", place.name, error)
            time.sleep(RETRY_SECONDS)
        else:
            store.place = place
            return store


def _set_process_up(settings: Settings, place: Place, node: str) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    threadpool_limits(1)
    set_up(settings.log_level, settings.log_format, settings.audit_file, node=node, actor=place.name)
