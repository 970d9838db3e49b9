"""The registry of this process's models and feeds: it reads the store's index, wakes them and puts them to rest."""

from __future__ import annotations

import logging
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from livesvm.service.errors import CutOff, ModelUnavailable, NotSolved, ServiceError
from livesvm.service.history.names import is_feed
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.kinds import FEED, MODEL, HostedFeeds, HostedModels
from livesvm.service.hosting.replica import Replica
from livesvm.service.resources.machine import give_back
from livesvm.service.resources.memory import MEGABYTE
from livesvm.service.store.base import StoreError, StoreUnavailable

START_SECONDS = 0.5
"""Seconds for which a start waits for replicas that wake with it."""
GIVE_WAY_SECONDS = 3.0
"""Seconds for which the remaining ones then wait until the service is ready, as loading the solvers comes first."""
WOKEN_AT_ONCE = 4
"""How many replicas the registry wakes at once; calls may wake others meanwhile."""
RETRY_SECONDS = 1.0
"""Seconds between two tries while the store is away."""
SWEEP_SECONDS, IDLE_SECONDS = 0.25, 2.0
"""Seconds between two sweeps over the replicas; the second if nothing was due or used since the sweep before."""
MOST_SWEEP_SECONDS, SWEPT = 4.0, 1000
"""Most seconds between two sweeps, and the number of awake replicas from which on the interval grows."""
SCRUB_SECONDS = 1.0
"""Seconds between two checks of the stored data of a replica at rest."""
HOT_BYTES = 128 * MEGABYTE
"""Bytes of kernel rows and factors that replicas may keep, besides the :data:`HOT_REPLICAS` used last."""
HOT_REPLICAS = 16
HOT_SECONDS = 0.5
"""Seconds after its last use for which a replica keeps them in any case."""
SPARE = 1 / 32
"""Share of the memory budget that is freed in addition to the requested bytes."""
RESTED_AT_ONCE = 200
"""Most replicas that are put to rest in one sweep."""
LOOKED_UP = 1000
"""Most replicas of another service that are looked up each time; a service with more is looked up once it is gone."""

log = logging.getLogger(__name__)


class Registry:
    """The owner of every model and every feed of this process. Its methods block while the store works."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.models = HostedModels(MODEL, context, self.make_room)
        self.feeds = HostedFeeds(FEED, context, self.make_room)
        self._waking = ThreadPoolExecutor(WOKEN_AT_ONCE, "wake")
        self._pending: list[Future[None]] = []
        self._room, self._changes = threading.Lock(), 0
        self._is_idle = False  #: nothing was due or used between the last two sweeps
        self._is_freed = False  #: memory was freed that the system has not been given back yet
        self._stopping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_on, name="sweep", daemon=True)
        self._scrubbed = dict.fromkeys(self._collections, "")
        self._scrub_at = self._began = self._swept_at = 0.0
        self._unwatched: list[Replica[Any]] = []  #: awake replicas that the next calls of ``watch`` check
        self._fenced = set[Replica[Any]]()  #: replicas found fenced, until they are taken back

    @property
    def _collections(self) -> tuple[Collection[Any], ...]:
        return self.models, self.feeds

    def restore(self) -> None:
        """Read the store's index, and begin to wake replicas that must be awake from the start; raises StoreError."""
        store, self._began = self._context.source.store, time.monotonic()
        with self._context.source.health.store_call("load"):
            self._stand_by()
            self._changes = store.changes()
            found = list(store.index())
        self.models.learn(one for one in found if not is_feed(one.id))
        self.feeds.learn(one for one in found if is_feed(one.id))
        for home in self._collections:
            for holder in home.holders():
                store.is_silent(holder)  # from this look on it may be found so
        if not self._sweeper.is_alive():
            self._sweeper.start()
        self._wake_stale()

    def _wake_stale(self) -> None:
        """Begin to wake the replicas that must wake, and wait up to :data:`START_SECONDS` until they are awake."""
        stale = [(home, id_) for home in self._collections for id_ in home.stale()]
        self._pending = [self._waking.submit(self._wake, home, id_) for home, id_ in stale]
        wait(self._pending, START_SECONDS)

    def _wake(self, home: Collection[Any], id: str) -> None:
        """Try to wake a replica until it is awake; give up if the replica is deleted or unavailable."""
        self._give_way()
        began = time.monotonic()
        while not self._stopping.is_set():
            replica = home.known(id)
            if replica is None or replica.is_awake or replica.state not in ("restoring", "live"):
                return
            try:
                replica.wake().result()
            except StoreUnavailable:
                self._stopping.wait(RETRY_SECONDS)
            except (ServiceError, StoreError) as error:
                log.warning("%s does not wake yet: %s", replica, error)
                return
            else:
                if time.monotonic() - began > RETRY_SECONDS:
                    log.info("%s is back, at version %d", replica, replica.describe().version)
                return

    def _give_way(self) -> None:
        """Wait until the service is ready, at most until :data:`GIVE_WAY_SECONDS` after its start.

        Return immediately in the first :data:`START_SECONDS`, in which the start itself waits for replicas.
        """
        health = self._context.source.health
        while not (health.is_restored or self._stopping.is_set()):
            if not START_SECONDS < time.monotonic() - self._began < GIVE_WAY_SECONDS:
                return
            self._stopping.wait(SWEEP_SECONDS)

    def watch(self, most: int | None = None) -> None:
        """Find awake replicas that another service has taken over, or that the store has lost; raises StoreError.

        If no other service uses the store, each call checks at most ``most`` replicas, in turn.
        """
        if most is None or self._context.source.store.shared:
            awake = self._awake()
        else:
            self._unwatched = self._unwatched or self._awake()
            awake = self._unwatched[-most:]
            del self._unwatched[-most:]
        live = {one.stored: one for one in awake if one.is_awake}
        if not live:
            return
        known = {stored: one.journal.known for stored, one in live.items()}
        with self._context.source.health.store_call("watch"):
            heads = self._context.source.store.heads(live)
        for stored, one in live.items():
            one.look_at(known[stored], heads.get(stored))
            if one.state == "fenced":
                self._fenced.add(one)

    def take_over(self) -> None:
        """Take over replicas that other services released, add replicas that they created, drop replicas that they
        deleted.

        Raises StoreError. A replica that was read while the disk could not be written is fenced; this method takes it
        back, even if no other service uses the store.
        """
        store = self._context.source.store
        if store.shared:
            with self._context.source.health.store_call("load"):
                self._stand_by()
        if not self.active:
            self._take_again()
        if store.shared:
            self._look_at_others()
        if all(one.done() for one in self._pending):
            self._wake_stale()  # tries those again that had too little memory, or a solve that took too long

    def _look_at_others(self) -> None:
        """Read from the store which replicas other services created, deleted and released; raises StoreError."""
        store = self._context.source.store
        with self._context.source.health.store_call("load"):
            if (changes := store.changes()) != self._changes:
                self._look_at_all()
                self._changes = changes
            for home in self._collections:
                for holder, held in home.holders().items():
                    if len(held) <= LOOKED_UP or store.is_silent(holder):
                        self._look_again(home, held)
        self.models.tidy()

    def _take_again(self) -> None:
        fenced = list(self._fenced)
        with suppress(ModelUnavailable):  # it stops
            wait([one.take_again() for one in fenced], START_SECONDS)
        self._fenced.difference_update([one for one in fenced if one.state != "fenced" or one.deleted])

    @property
    def active(self) -> str:
        """The name of the active service, which answers all requests; empty if this service is the active one."""
        return self.models.active

    def _stand_by(self) -> None:
        """Read which service is active; if another one is, release all replicas of this service for it."""
        before, active = self.active, self._context.claim()
        for home in self._collections:
            home.active = active
        if not active or active == before:
            return
        log.info("this service stands by; %s is active", active)
        store = self._context.source.store
        store.release_all()
        store.ping()  # it lives, and holds nothing
        for found in store.index():
            home = self.feeds if is_feed(found.id) else self.models
            if found.id.removeprefix(home.kind.prefix) in home:
                home.learn_again(found)

    def _look_at_all(self) -> None:
        with self.models.reading(), self.feeds.reading():
            self._learn_all()

    def _learn_all(self) -> None:
        stored = set()
        for found in self._context.source.store.index():
            home: Collection[Any] = self.feeds if is_feed(found.id) else self.models
            stored.add(found.id)
            if found.id.removeprefix(home.kind.prefix) not in home:
                home.learn_again(found)
        for home in self._collections:
            for id_ in home.gone_except(stored):
                home.drop(id_)

    def _look_again(self, home: Collection[Any], held: Iterable[str]) -> None:
        """Look up which services hold these replicas; drop the replicas that are no longer in the store."""
        store, there = self._context.source.store, set()
        silent: dict[str, bool] = {}
        for found in store.index(list(held)):
            there.add(found.id)
            holder = found.holder
            if holder and holder not in silent:
                silent[holder] = store.is_silent(holder)
            home.learn_again(found._replace(holder="" if silent.get(holder) else holder))
        for stored in set(held) - there:
            home.drop(stored.removeprefix(home.kind.prefix))

    def stop(self) -> None:
        """Run all waiting calls, write a snapshot of each changed replica, and stop waking replicas."""
        self._stopping.set()
        with suppress(StoreError):  # so that another one takes what is released one by one
            self._context.source.store.resign()
        for home in self._collections:
            home.close()
        handles: list[Replica[Any]] = [one for home in self._collections for one in home.all_handles()]
        for one in handles:
            if not one.is_awake:
                one.give_up(CutOff("the service stops"))
        self._waking.shutdown(cancel_futures=True)
        if self._sweeper.is_alive():
            self._sweeper.join()
        for feed in self.feeds.all_handles():
            feed.leave_source()
        for one in [one for home in self._collections for one in home.all_handles()]:
            one.stop()
        with suppress(StoreError):  # other services then wait until the lease has run out
            self._context.source.store.release_all()

    # Memory.

    def make_room(self, size: int) -> None:
        """Free ``size`` bytes: drop replicas' caches, then put replicas to rest, least recently used ones first."""
        with self._room:
            fits = self._context.budget.has_room
            if fits(size):
                return
            self._is_freed = True
            size += int(min(self._context.budget.limit, sys.maxsize) * SPARE)  # for those that come next
            awake = _by_use(self._awake())
            if not any(one.hot != 0 and one.cool() and fits(size) for one in awake):
                any(one.may_rest and one.rest() and fits(size) for one in awake)

    def _awake(self) -> list[Replica[Any]]:
        return [one for home in self._collections for one in home.awake()]

    # In a thread of its own.

    def _sweep_on(self) -> None:
        while not self._stopping.wait(self._pause()):
            try:
                self._sweep()
            except Exception:
                log.exception("replicas were not looked after; they are again")

    def _pause(self) -> float:
        """Return the seconds until the next sweep over all awake replicas."""
        if self._is_idle:
            return IDLE_SECONDS
        return min(MOST_SWEEP_SECONDS, SWEEP_SECONDS * max(1.0, len(self._awake()) / SWEPT))

    def _sweep(self) -> None:
        """Check all awake replicas: request due snapshots, free caches and states that were not used for a while."""
        awake, before = self._awake(), self._swept_at
        self._swept_at = time.monotonic()
        self._is_idle = not any(one.is_due or one.used_at > before for one in awake)
        for one in awake:
            if one.is_due:
                one.look_after()
        self._cool(awake)
        self._rest(awake)
        if self._is_freed:
            self._is_freed = False
            give_back()
        if time.monotonic() - self._scrub_at >= SCRUB_SECONDS:
            self._scrub_at = time.monotonic()
            self._scrub()

    def _cool(self, awake: list[Replica[Any]]) -> None:
        """If kernel rows and factors exceed :data:`HOT_BYTES`, free those of the least recently used replicas."""
        left = HOT_BYTES
        until = time.monotonic() - HOT_SECONDS
        hot = _by_use(one for one in awake if one.hot != 0)
        for one in reversed(hot[: -HOT_REPLICAS or None]):
            left -= one.count_hot()
            if left < 0 and one.used_at < until:
                self._is_freed |= one.cool()

    def _rest(self, awake: list[Replica[Any]]) -> None:
        until = time.monotonic() - self._context.settings.rest_seconds
        rested = 0
        for one in _by_use(one for one in awake if one.used_at < until):
            if rested >= RESTED_AT_ONCE or self._stopping.is_set():
                break
            rested += one.may_rest and one.rest()
        self._is_freed |= rested > 0

    def _scrub(self) -> None:
        """Check the stored data of the next replica at rest; if they are damaged, wake it, so that it recovers."""
        source = self._context.source
        for home in self._collections:
            resting = home.resting()
            if not resting or not source.health.store_up:
                continue
            behind = bisect_right(resting, self._scrubbed[home])
            self._scrubbed[home] = id_ = resting[behind % len(resting)]
            if self._is_whole(home.kind.stored(id_)):
                continue
            if (replica := home.known(id_)) is not None:
                with suppress(ServiceError, StoreError, NotSolved):
                    replica.wake().result()

    def _is_whole(self, stored: str) -> bool:
        store = self._context.source.store
        try:
            if (found := store.model(stored)) is not None:
                found.check()
            snapshots = store.snapshots(stored)
            for snapshot in snapshots[:1]:
                store.load_snapshot(stored, snapshot.sequence)
            for _ in store.log(stored, snapshots[0].sequence if snapshots else 0):
                pass
        except StoreUnavailable:
            return True  # nothing is known
        except StoreError:
            return False
        return True


def _by_use(replicas: Iterable[Replica[Any]]) -> list[Replica[Any]]:
    """Return the replicas, least recently used first."""
    return sorted(replicas, key=lambda one: one.used_at)
