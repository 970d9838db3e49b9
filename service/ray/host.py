"""The part of an actor that does not depend on Ray: it hosts replicas, as a service does, and answers calls.

The host also announces changes of replicas to front ends, checks the store regularly, and reports metrics.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from prometheus_client.core import Metric

from livesvm.service.errors import Restoring, TurnMissed, Withdrawn
from livesvm.service.history.names import id_of, is_feed
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.registry import Registry
from livesvm.service.jobs.failures import is_foreseen
from livesvm.service.logs import calls
from livesvm.service.models.published import Published
from livesvm.service.models.types import ServingState
from livesvm.service.ray.announcer import Announcer
from livesvm.service.ray.lines import Endpoint
from livesvm.service.ray.messages import Answer, News, Question, View, packed, unpacked
from livesvm.service.resources.compiling import call_compiled_code
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import StoreError
from livesvm.solvers import warm_up

GATHER_SECONDS = 0.05
"""Shortest interval of announcements to a front end; callers get the result of their call at once."""
SMALL_BYTES = 80_000
"""Largest version that is sent along with an answer; Ray carries up to 100 kB with the call itself."""
HEARTBEAT_SECONDS = 2.0
"""Time after which an actor without changes answers front ends that nothing has changed."""
LOOKS = 5
"""Number of checks of the store during one lease."""
RETRY_SECONDS = 0.2
"""Interval of tries to restore replicas while the store is away."""
PATIENCE_SECONDS = 10.0
"""Longest wait of a call until it is known which replicas are stored."""
SCRAPED = (
    "livesvm_update",
    "livesvm_paths",
    "livesvm_memory",
    "livesvm_solve",
    "livesvm_store_seconds",
    "livesvm_store_err",
    "livesvm_snapshots",
    "livesvm_feed",
    "livesvm_wakes",
    "livesvm_rests",
    "process_",
)
"""Beginnings of the names of metrics that actors report; front ends have the others."""
log = logging.getLogger(__name__)


class Host:
    """Hosts models and feeds, and answers calls. The host's coroutines run on one event loop; threads do long work.

    Parameters
    ----------
    name : name of the actor, for error messages
    context : the context that all replicas of the actor share
    labels : labels that name the actor in its metrics
    """

    def __init__(self, name: str, context: Context, labels: dict[str, str]) -> None:
        self._name, self._labels = name, labels
        self._health, self._metrics = context.source.health, context.source.metrics
        self._store = context.source.store
        self._seconds = context.settings.lease_seconds / LOOKS
        self.registry = Registry(context)
        self._ready = threading.Event()
        self.asked_at = time.monotonic()
        self._under_way: dict[str, Callable[[], None]] = {}
        self._told = Announcer()
        self._waiting: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Start a thread that restores the replicas of this actor and then maintains them."""
        threading.Thread(target=self._live, name="keep", daemon=True).start()

    # What front ends ask.

    async def call(self, question: bytes) -> bytes:
        """Execute a packed question, and return the packed answer."""
        asked: Question = unpacked(question)
        self.asked_at, self._loop = time.monotonic(), asyncio.get_running_loop()
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
        seen = {stored: self._view(stored) for stored in (asked.stored, *asked.command.others())}
        views = {stored: view for stored, view in seen.items() if view is not None}
        copy = self._copy(asked.stored) if asked.predicts else None
        return packed(Answer(value, error, views, call.facts, copy))

    def _view(self, stored: str) -> View | None:
        """Return the present view of a replica, for an answer."""
        self._look(stored)
        return self._told.view(stored)

    async def withdraw(self, call: str) -> None:
        """Withdraw the call with this id, because no caller waits for it any more."""
        self._under_way.get(call, lambda: None)()

    async def news(self, incarnation: str, moment: int, rows: Mapping[str, int]) -> bytes:
        """Return packed News: the changes since the ``incarnation`` and ``moment`` of the front end's last News.

        ``rows`` has, by a model's stored name, the number of rows that the front end has predicted since its last News.
        """
        self._loop, began = asyncio.get_running_loop(), time.monotonic()
        for stored, count in rows.items():
            self._note_predicted(stored, count)
        if incarnation != self._told.incarnation:
            moment = 0
            await self._come_back()
            self._look_at_all()
        else:
            if moment == self._told.moment:
                self._waiting.add(news := asyncio.Event())
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
                self._waiting.discard(news)
            await asyncio.sleep(began + GATHER_SECONDS - time.monotonic())
        line, reported = await self._line(), self._told
        return packed(News(reported.incarnation, reported.moment, reported.since(moment), line))

    async def _line(self) -> Endpoint | None:
        """Return the endpoint for short calls, if there is one."""

    async def scrape(self) -> list[Metric]:
        """Return the metrics of this actor, with labels that name the actor."""
        found = self._metrics.registry.collect()
        return [self._labelled(family) for family in found if family.name.startswith(SCRAPED)]

    def _labelled(self, family: Metric) -> Metric:
        found = Metric(family.name, family.documentation, family.type)
        found.samples = [sample._replace(labels=sample.labels | self._labels) for sample in family.samples]
        return found

    # On the event loop.

    async def _come_back(self) -> None:
        """Wait until this actor has listed its replicas from the store; raises Restoring if that takes too long."""
        if not self._ready.is_set() and not await asyncio.to_thread(self._ready.wait, PATIENCE_SECONDS):
            raise Restoring(f"{self._name} is being restored")

    async def _answered(self, asked: Question) -> Any:
        command = asked.command
        subject = command.subject(*self._at(asked.stored))
        if command.blocks and not (command.at_once and command.at_once(*subject, *command.arguments)):
            return await asyncio.to_thread(command.do, *subject, *command.arguments)
        solve = Solve() if asked.seconds is None else Solve(until=time.monotonic() + asked.seconds)
        found = command.do(*subject, *command.arguments, **({"solve": solve} if command.timed else {}))
        if not isinstance(found, Future):
            return found

        def withdraw() -> None:
            """Remove the command from the mailbox; if the command already runs and changes nothing, end its solver."""
            if not found.cancel() and not command.mutates:
                solve.end(Withdrawn("the caller left"))

        self._under_way[asked.id] = withdraw
        try:
            return await _awaited(found, solve)
        finally:
            if self._under_way.get(asked.id) is withdraw:  # else the call was repeated meanwhile, under the same id
                del self._under_way[asked.id]

    def _at(self, stored: str) -> tuple[Collection[Any], str]:
        """Return the collection and the id of a replica, given by its stored name."""
        return self.registry.feeds if is_feed(stored) else self.registry.models, id_of(stored)

    def _found(self, stored: str) -> Any:
        home, id_ = self._at(stored)
        return home.known(id_)

    def _copy(self, stored: str) -> Published | None:
        """Return the present version of a model, if it is small enough to be sent with an answer."""
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
        """Note the present view of a replica; if it has changed, announce it to the front ends that wait for news."""
        if self._told.note(stored, self._found(stored)):
            for news in self._waiting:
                news.set()

    def _look_at_all(self) -> None:
        """Note the present views of the replicas that are awake or unavailable, or were so at the last check."""
        homes = self.registry.models, self.registry.feeds
        for stored in {*self._told.due(), *(one.stored for home in homes for one in home.awake())}:
            self._look(stored)

    # In threads.

    def _live(self) -> None:
        """Restore the stored replicas; then check the store regularly, until the process ends."""
        call_compiled_code()
        while not self._ready.is_set():
            try:
                self._health.ask_store(self._store)
                self.registry.restore()
                self._ready.set()
            except StoreError as error:
                log.warning("%s waits for the store: %s", self._name, error)
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
                log.exception("%s did not ask the store where it stands", self._name)
            self._on_loop(self._look_at_all)

    def _keep(self) -> None:
        self._health.ask_store(self._store)
        if self._health.store_up:
            self.registry.watch()
            self._tend(Counter(self.registry.models.states()) + Counter(self.registry.feeds.states()))

    def _tend(self, states: Counter[ServingState]) -> None:
        """Do the maintenance that is due after a check of the store, given the number of replicas by state."""

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(call)


async def _awaited(future: Future[Any], solve: Solve) -> Any:
    """Return the result of a command after the replica's writer has executed it.

    Raises TurnMissed if the command does not begin in time, Withdrawn if the caller leaves before it begins.
    """
    done, expired = asyncio.wrap_future(future), False
    await asyncio.wait([done], timeout=solve.rest())
    if not done.done():
        expired = future.cancel()
        await asyncio.wait([done])
    if not done.cancelled():
        return done.result()
    if expired:
        raise TurnMissed("the model was busy for as long as the caller could wait; nothing was changed")
    raise Withdrawn("the caller left before its turn came")
