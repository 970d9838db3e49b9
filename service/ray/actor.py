"""The actor in which models live: the same registry, writers and journals as in a service of one process.

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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import ray
from prometheus_client.core import Metric
from threadpoolctl import threadpool_limits

from livesvm.service.errors import Restoring, ServiceError, TurnMissed, Withdrawn
from livesvm.service.feeds.registry import AbsentFeed, Feeds
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, is_feed, stored_feed
from livesvm.service.jobs.failures import is_foreseen
from livesvm.service.live.failed import FailedModel
from livesvm.service.live.model import LiveModel
from livesvm.service.live.registry import Registry
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs import calls
from livesvm.service.logs.setup import set_up
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.ray.draining import Node
from livesvm.service.ray.lines import Number, Switchboard
from livesvm.service.ray.messages import Answer, Asked, FeedView, News, View, packed, unpacked
from livesvm.service.ray.places import Place
from livesvm.service.resources.compiling import call_compiled_code
from livesvm.service.resources.machine import resident_bytes
from livesvm.service.resources.memory import MEGABYTE, Budget
from livesvm.service.resources.turns import Solve, Turns
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoredModel, StoreError
from livesvm.service.store.redis import RedisStore
from livesvm.solvers import warm_up

GATHER_SECONDS = 0.05
"""Between two times that one who watches is told: those who call hear at once what came of that."""
SMALL_BYTES = 80_000
"""Of a version that goes along with an answer, to who predicts by copies; Ray carries 100 kB with the call itself."""
EVENTS = 16
"""Of a feed, the newest, that are told with every change."""
QUICK = 10**5
"""Numbers of the support vectors that rows are compared with: sooner done than handed to a thread."""
HEARTBEAT_SECONDS = 2.0
"""After so long without news whoever watches is told that there is none."""
LOOKS = 5
"""At the store, while one lease lasts."""
IDLE_SECONDS = 3.0
"""An actor for one model ends after so long without it."""
RETRY_SECONDS = 0.2
"""Between two tries to come back while the store is away."""
PATIENCE_SECONDS = 10.0
"""For which a call waits for the models to be back."""
SWITCH_SECONDS = 0.0001
SCRAPED = (
    "livesvm_update",
    "livesvm_solve_",
    "livesvm_store_seconds",
    "livesvm_store_err",
    "livesvm_snapshots",
    "livesvm_feed",
    "process_",
)
"""What of its metrics an actor tells; the rest is the front ends'."""
TIMED = frozenset({"update", "restore", "swap", "erase", "certificate", "calibrated"})
"""Verbs that are solved for, and so take how long that may be."""
READS = frozenset({"certificate", "calibrated", "examples", "copy", "history", "what_if", "seen", "events"})
"""Verbs that change nothing: they end when nobody waits for them."""

log = logging.getLogger(__name__)


class _Part(RedisStore):
    """The store, of which one actor sees its own models."""

    place: Place

    def models(self) -> list[StoredModel]:
        """Those that live here."""
        if self.place.model is None:
            return [found for found in super().models() if self.place.holds(found.id)]
        found = self.model(self.place.model)
        return [] if found is None else [found]


@dataclass
class _UnderWay:
    """A call that a writer has, so that it can be withdrawn."""

    future: Future[Any]
    solve: Solve
    reads: bool

    def withdraw(self) -> None:
        """Nobody waits for it any more: take it out of the queue, or end it if it changes nothing."""
        if not self.future.cancel() and self.reads:
            self.solve.end(Withdrawn("the caller left"))


class ModelActor:
    """Models, and who asks them. Its methods run on one event loop, and hand on whatever takes long."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._home = Node()
        self._node = self._home.label
        _set_process_up(settings, place, self._node)
        self._place = place
        self._metrics = Metrics()
        self._health = Health(self._metrics, settings.lease_seconds)
        self._store = _store(place, settings)
        around = Surroundings(
            settings,
            Source(self._store, self._health, self._metrics),
            Turns(settings.solves),
            Budget(settings.memory_mb * MEGABYTE),
            f"ray-{place.name}",
        )
        around.budget.rest_on(resident_bytes())
        self._seconds = settings.lease_seconds / LOOKS
        self._registry, self._feeds = Registry(around), Feeds(around)
        self._ready = threading.Event()
        self._asked_at = time.monotonic()
        self._under_way: dict[str, _UnderWay] = {}
        self._incarnation, self._moment = uuid4().hex, 0
        self._views: dict[str, View | FeedView] = {}
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
                log.exception("%s of model %s failed", asked.verb, asked.model)
        self._look(asked.model)
        copy = self._copy(asked) if asked.predicts else None
        return packed(Answer(value, error, self._views.get(asked.model), call.facts, copy))

    async def withdraw(self, call: str) -> None:
        """Nobody waits for a call any more."""
        if (found := self._under_way.get(call)) is not None:
            found.withdraw()

    async def watch(self, incarnation: str, moment: int, predicted: dict[str, int]) -> bytes:
        """What has changed since a moment of an incarnation, as soon as something has; rows were predicted there."""
        self._loop, began = asyncio.get_running_loop(), time.monotonic()
        for model, rows in predicted.items():
            if isinstance(live := self._found(model), LiveModel):
                live.recent.note_predicted(rows)
        if incarnation != self._incarnation:
            moment = 0
            await self._come_back()
            self._look_at_all()
        else:
            if moment == self._moment:
                news: asyncio.Future[None] = self._loop.create_future()
                self._waiting.add(news)
                await asyncio.wait([news], timeout=HEARTBEAT_SECONDS)
                self._waiting.discard(news)
            await asyncio.sleep(began + GATHER_SECONDS - time.monotonic())
        views = {id_: view for id_, view in self._views.items() if view.moment > moment}
        names, line = frozenset(self._views), await self._line()
        return packed(News(self._incarnation, self._moment, views, names, line))

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
        """Wait for the models to be back; raises Restoring if that takes too long."""
        if not self._ready.is_set() and not await asyncio.to_thread(self._ready.wait, PATIENCE_SECONDS):
            raise Restoring(f"actor {self._place.name} is being restored")

    async def _answered(self, asked: Asked) -> Any:
        if asked.verb == "decide" and self._is_quick(asked):
            return self._decide(asked.model, *asked.arguments)
        if asked.verb in ("create", "decide", "published", "versions", "recent"):
            return await asyncio.to_thread(getattr(self, f"_{asked.verb}"), asked.model, *asked.arguments)
        home: Registry | Feeds = self._feeds if is_feed(asked.model) else self._registry
        name = asked.model.removeprefix(FEEDS)
        if asked.verb == "hear":
            home.find(name)  # how it is goes along with every answer
            return None
        if asked.verb == "delete":
            await asyncio.wrap_future(home.delete(name))
            return await asyncio.to_thread(home.forget, name)
        solve = Solve() if asked.seconds is None else Solve(until=time.monotonic() + asked.seconds)
        timed = {"solve": solve} if asked.verb in TIMED else {}
        future = getattr(home.get(name), asked.verb)(*asked.arguments, **timed)
        with self._known(asked, _UnderWay(future, solve, asked.verb in READS)):
            return await _awaited(future, solve)

    def _is_quick(self, asked: Asked) -> bool:
        seen = self._registry.get(asked.model).published
        return len(asked.arguments[0]) * seen.n_values * seen.n_support * (seen.row_bytes / 8 + 1) < QUICK

    def _copy(self, asked: Asked) -> Published | None:
        """The version that a model is at, if it is small enough to go along."""
        live = self._found(asked.model)
        if not isinstance(live, LiveModel):
            return None
        seen = live.published
        return seen if seen.n_support * (seen.row_bytes + 8 * seen.n_values) < SMALL_BYTES else None

    @contextmanager
    def _known(self, asked: Asked, call: _UnderWay) -> Iterator[None]:
        self._under_way[asked.id] = call
        try:
            yield
        finally:
            del self._under_way[asked.id]

    def _look(self, stored: str) -> None:
        """Learn whether a model or a feed has changed, and tell those who watch."""
        before = self._views.get(stored)
        life = (self._incarnation, self._moment + 1) if before is None else before.life
        view = self._feed_view(stored, life) if is_feed(stored) else self._view(stored, life)
        if view is None:
            if before is not None:
                del self._views[stored]
                self._tell()
        elif view != before:
            self._views[stored] = view
            self._tell()

    def _look_at_all(self) -> None:
        feeds = (stored_feed(feed.id) for feed in self._feeds.all())
        for stored in {*self._views, *(model.id for model in self._registry.all()), *feeds}:
            self._look(stored)

    def _tell(self) -> None:
        self._moment += 1
        for news in self._waiting:
            if not news.done():
                news.set_result(None)

    def _found(self, model: str) -> LiveModel | FailedModel | None:
        return self._registry.known(model)

    def _view(self, model: str, life: tuple[str, int]) -> View | None:
        found = self._found(model)
        if found is None:
            return None
        can_predict = isinstance(found, LiveModel) and found.published.predictor is not None
        stale = found.stale if isinstance(found, LiveModel) else True
        return View(found.spec, found.describe(), stale, can_predict, self._node, life, self._moment + 1)

    def _feed_view(self, stored: str, life: tuple[str, int]) -> FeedView | None:
        found = self._feeds.known(stored.removeprefix(FEEDS))
        if found is None:
            return None
        if isinstance(found, AbsentFeed):
            return FeedView(
                found.spec, found.state, found.reason, self._node, life, stale=True, moment=self._moment + 1
            )
        seen, depth = found.view, found.queue_depth
        told = replace(seen, events=tuple(seen.events[-EVENTS:]))
        now = found.stale, told, depth, found.returned, found.flow, seen.version, self._moment + 1
        return FeedView(found.spec, found.state, None, self._node, life, *now)

    # In threads.

    def _create(self, stored: str, spec: ModelSpec | FeedSpec) -> None:
        if isinstance(spec, FeedSpec):
            self._feeds.create(stored.removeprefix(FEEDS), spec)
        else:
            self._registry.create(spec)

    def _decide(self, model: str, X: Any, limit: int) -> Any:
        live = self._registry.get(model)
        seen = live.published
        seen.check(live.spec, X, limit)
        return (seen.version, *seen.decide(live.spec, X), live.stale, seen.classes)

    def _published(self, model: str) -> Any:
        return self._registry.get(model).published

    def _versions(self, model: str) -> Any:
        return self._registry.get(model).versions()

    def _recent(self, model: str) -> Any:
        return self._registry.get(model).recent.updates()

    def _live(self) -> None:
        """Bring the models back, then keep the leases, and take over what others let go of, for good."""
        call_compiled_code()
        while not self._ready.is_set():
            try:
                self._health.ask_store(self._store)
                self._registry.restore()
                self._feeds.restore()
                self._ready.set()
            except StoreError as error:
                log.warning("actor %s waits for the store: %s", self._place.name, error)
                time.sleep(RETRY_SECONDS)
        self._registry.prepare()
        self._registry.restore_rest()
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
        self._feeds.watch()
        states = [*self._registry.states(), *self._feeds.states()]
        if "fenced" in states:
            log.error("actor %s ends: another incarnation of it has its models", self._place.name)
            os._exit(1)
        if "held" in states:
            self._registry.take_over()
            self._feeds.take_over()
        if not states and self._place.model is not None and time.monotonic() - self._asked_at > IDLE_SECONDS:
            ray.kill(ray.get_runtime_context().current_actor)
        elif self._home.is_to_be_left():
            self._move()

    def _move(self) -> None:
        """End, so that Ray starts this on another node, where what is stored now takes little time to come back."""
        log.info("actor %s moves: its node is drained", self._place.name)
        snapshots = []
        for live in self._registry.all():
            if isinstance(live, LiveModel):
                with suppress(ServiceError):  # it has a queue that is full, and its log
                    snapshots.append(live.checkpoint())
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
