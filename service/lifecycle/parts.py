"""Open, start and close the components of one running service."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from shutil import disk_usage
from socket import gethostname

from livesvm.service.access.keys import Keys
from livesvm.service.datasets.catalogue import DIRECTORY, Datasets, FrontEnds
from livesvm.service.errors import NotReady
from livesvm.service.fleets.catalogue import Fleets
from livesvm.service.history.journal import Source
from livesvm.service.history.rescue import tell_of
from livesvm.service.hosting.collection import Feeds, Hosting, Models
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.coverage import Coverings
from livesvm.service.hosting.registry import Registry
from livesvm.service.jobs.files import JobFiles
from livesvm.service.jobs.kind import Sharding
from livesvm.service.jobs.other_front_ends import SharedJobs
from livesvm.service.jobs.queue import Elsewhere, JobLimits, Jobs
from livesvm.service.lifecycle.erasures import Erasures
from livesvm.service.lifecycle.fencing import Fencing
from livesvm.service.lifecycle.fleet_source import FleetSources
from livesvm.service.lifecycle.fleets import FleetSupervisor
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.compiling import Compiling, call_compiled_code
from livesvm.service.resources.machine import give_back, resident_bytes
from livesvm.service.resources.memory import MEGABYTE, Budget
from livesvm.service.resources.pools import Pool, SteppedPool
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import SERVICE, DocumentName, Store, StoreDamaged, StoreError
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.webhooks.catalogue import Webhooks
from livesvm.service.webhooks.deliveries import Deliveries
from livesvm.service.webhooks.outbox import Outbox
from livesvm.solvers import warm_up
from livesvm.solvers.runtime.threads import wait_for_rest

JOBS = "jobs"
"""Directory of the jobs, in the data directory."""
KEYS_SECONDS = 0.5
"""Seconds between two looks at the file of API keys, if there is one."""
PING_SECONDS = 1.5
"""Seconds between two pings of the store, after each of which memory that large requests left is given back."""
WATCHED_AT_ONCE = 200
"""How many replicas in memory are compared with the store at each ping."""
LEAST_BASE = 300 * MEGABYTE
"""Least memory in bytes that the service takes without any model, for libraries and compiled code."""
LARGE = 4 * MEGABYTE
"""Bytes from which on a request counts as large."""
THREADS = 2
"""Threads of a pool for short calls."""
QUESTIONS = 16
"""How many what-if questions about models may wait or be answered at once."""
ERASURES = 4
"""How many erasures may be asked for at once; they run one after the other."""
TAKE_OVERS = 5
"""How many times during one lease the service looks for models to take over."""
UPLOADS = 2
"""How many datasets are received and read at once."""
SHARDS = "livesvm.service.ray.shards:retrain"
"""The function that retrains a model over shards."""
ASIDE = 5
"""Niceness of the threads that warm up during a restore; the highest value would starve a start on a busy machine."""
ASIDE_SECONDS = 5.0
"""How long the warm-up leaves all cores to the restore first, which then needs mostly one."""

log = logging.getLogger(__name__)


def open_store(settings: Settings, holder: str) -> Store:
    """Open the store that the settings name, for the service with the name ``holder``; raises StoreError."""
    if not settings.redis_url:
        _check_leftovers(settings.data_dir)
        return SqliteStore(settings.data_dir / DATABASE)
    from livesvm.service.store.redis import RedisStore  # its library is only loaded where it is used

    return RedisStore(
        settings.redis_url,
        holder,
        prefix=settings.redis_prefix,
        timeout=settings.redis_seconds,
        lease_seconds=settings.lease_seconds,
        known=settings.data_dir / "redis-store",
    )


def open_hosting(context: Context, gone: Callable[[str], object]) -> Hosting:
    """Open the models and feeds of this process, or of the Ray cluster in the settings.

    ``gone`` is called with the stored name of each model or feed that another front end of the cluster has deleted.
    Raises StoreUnavailable.
    """
    if not context.settings.ray:
        return Registry(context)
    from livesvm.service.ray.cluster import Cluster  # its library is only loaded where replicas live there
    from livesvm.service.ray.hosting import RemoteHosting

    cluster = Cluster(context.settings)
    context.source.health.head_is_up = lambda: cluster.head_is_up
    context.source.metrics.show(ray_head_up=lambda: cluster.head_is_up, ray_nodes=lambda: cluster.nodes)
    hosting = RemoteHosting(context, cluster, gone)
    context.source.metrics.show(ray_actors=hosting.actors)
    return hosting


def _over_ray(
    settings: Settings, store: Store, health: Health, holder: str
) -> tuple[FrontEnds | None, Elsewhere | None, Sharding | None]:
    """Return the other front ends, the function that runs jobs on the cluster, and the sharding; None without Ray."""
    if not settings.ray:
        return None, None, None
    from livesvm.service.ray.front_ends import RayFrontEnds
    from livesvm.service.ray.work import work_elsewhere

    here = settings.data_dir.resolve()
    fronts = RayFrontEnds({"root": str(here / DIRECTORY), "jobs": str(here / JOBS)}, store, health, holder)
    address = "auto" if settings.ray == "local" else settings.ray  # by then it is in the environment
    return fronts, work_elsewhere, Sharding(SHARDS, address, settings.ray_shard_mb * MEGABYTE, settings.ray_seconds)


def _check_leftovers(data_dir: Path) -> None:
    """Raise StoreDamaged if the data directory has jobs but no database, because a new directory has neither."""
    jobs = data_dir / JOBS
    if any(jobs.glob("*.json")) and not (data_dir / DATABASE).exists():
        raise StoreDamaged(
            f"{jobs} holds jobs, but {data_dir} has no {DATABASE}: restore a backup, set LIVESVM_REDIS_URL if Redis "
            f"keeps the models, or remove {jobs} to start anew"
        )


class Service:
    """The components of one running service.

    Opening a service is quick, and locks the data directory. Restoring the models may take a while; meanwhile the
    service is alive but not ready.
    """

    def __init__(self, settings: Settings) -> None:
        """Lock the data directory and open the store; raises StoreError."""
        self.settings = settings
        self.keys = Keys(settings.api_keys, settings.api_keys_file)
        self._lock = DirectoryLock(settings.data_dir)
        self.metrics = Metrics()
        try:
            holder = self._lock.holder()
            self.store = open_store(settings, holder)
            self._at_store = DocumentName(SERVICE, holder)
        except StoreError:
            self._lock.release()
            raise
        tell_of(settings.data_dir)
        self.health = Health(self.metrics, settings.lease_seconds)
        self.turns = SolveScheduler(settings.solves)
        source = Source(self.store, self.health, self.metrics)
        self.budget = Budget(settings.memory_mb * MEGABYTE)
        self.budget.rest_on(resident_bytes(), LEAST_BASE)
        self.outbox = Outbox(holder)
        context = Context(settings, source, self.turns, self.budget, holder, outbox=self.outbox, claim=self._claim)
        self.hosting = open_hosting(context, lambda stored: self.jobs.forget(stored))
        models, feeds = self.hosting.models, self.hosting.feeds
        self.metrics.watch(models, settings.metrics_models)
        self.metrics.watch_feeds(feeds, settings.metrics_models)
        self.health.troubles = feeds.troubles
        self.health.states = lambda: Counter(models.states()) + Counter(feeds.states())
        self.fronts, elsewhere, sharding = _over_ray(settings, self.store, self.health, holder)
        self.datasets = Datasets(settings, self.store, self.health, self.budget, self.fronts)
        limits = JobLimits(settings.jobs, settings.jobs_waiting, settings.jobs_kept)
        self.compiling = Compiling()
        self.health.uncompiled = self.compiling.left
        self.health.key_trouble = lambda: self.keys.trouble
        self.webhooks = Webhooks(source, settings, self.outbox)
        with suppress(StoreError):  # it is tried again before models come back
            self.webhooks.learn()
        files = JobFiles(settings.data_dir / JOBS)
        self.jobs = Jobs(
            files,
            limits,
            self.metrics,
            budget=self.budget,
            compiling=self.compiling,
            datasets=self.datasets,
            elsewhere=elsewhere,
            sharding=sharding,
            shared=None if self.fronts is None else SharedJobs(self.store, self.health, self.fronts),
            outbox=self.outbox,
        )
        self.erasures = Erasures(settings, source, self.hosting, (self.jobs, self.datasets), self.fronts, holder)
        self.health.untrained = self.erasures.untrained
        self.fleets = Fleets(source, settings)
        sources = FleetSources(self.fleets, feeds, settings, holder)
        self.fleet_supervisor = FleetSupervisor(self.fleets, feeds, self.erasures, sources)
        self.metrics.watch_fleets(self.fleet_supervisor.samples)
        before = (partial(self.jobs.announce, source), Fencing(source, self.hosting, self.outbox).announce)
        self.deliveries = Deliveries(source, settings, self.webhooks, self.outbox, before)
        self.metrics.show(
            solves=self.turns.counts,
            memory_budget_bytes=lambda: self.budget.limit,
            memory_held_bytes=self.budget.held,
            disk_bytes=lambda: disk_usage(settings.data_dir).total,
            disk_free_bytes=lambda: disk_usage(settings.data_dir).free,
            disk_reserve_bytes=lambda: settings.disk_room_mb * MEGABYTE,
            redis_used_bytes=lambda: self._store_memory()[0],
            redis_limit_bytes=lambda: self._store_memory()[1] or None,
            replicas=self._replicas,
            api_key_last_used_timestamp_seconds=self.keys.used,
            jobs=self.jobs.counts,
            webhook_messages=self.deliveries.counts,
            webhook_oldest_seconds=self.deliveries.oldest_seconds,
        )
        self.erasing = Pool("erase", 1, ERASURES)
        waiting = settings.max_calls if settings.ray else THREADS  # of which one actor has a share
        self.batches = Pool("fleet", waiting, settings.max_calls)
        self.many = Pool("updates of many models", waiting, settings.max_calls)
        self.readers = SteppedPool("predict", settings.predict_threads, settings.max_calls)
        self.workers = Pool("update", THREADS, settings.max_calls)
        self.coverings = Coverings(self.budget)
        self.questions = Pool("question", settings.solves, QUESTIONS)
        self.control = Pool("control", waiting, settings.max_calls)
        self.uploads = Pool("dataset", UPLOADS, UPLOADS)
        self._begun: tuple[Future[None], Future[None]] | None = None
        self._watches: list[threading.Thread] = []
        self._leaving = threading.Event()
        self._ending = threading.Lock()

    def _claim(self) -> str:
        """Make this service the active one, or return the name of the service that is active; raises StoreError."""
        other = self.store.claim()
        self.health.learnt_active(other)
        return other

    def _pools(self) -> tuple[Pool, ...]:
        of_calls = self.readers, self.workers, self.questions, self.control
        return *of_calls, self.uploads, self.erasing, self.batches, self.many

    def models(self) -> Models:
        """Return the models; raises NotReady until the models are restored."""
        if not self.health.is_restored:
            raise NotReady(self.health.reasons())
        return self.hosting.models

    def feeds(self) -> Feeds:
        """Return the feeds; raises NotReady until the feeds can be used."""
        if not self.health.is_restored:
            raise NotReady(self.health.reasons())
        return self.hosting.feeds

    def _replicas(self) -> dict[str, int]:
        """Count the replicas in memory and those at rest."""
        homes = self.hosting.models, self.hosting.feeds
        awake = sum(len(home.awake()) for home in homes)
        return {"awake": awake, "at-rest": sum(map(len, homes)) - awake}

    def listens(self, host: str, port: int) -> None:
        """Store the address of this service, for other services that share the store."""
        if self.fronts is None and self.store.shared:
            with suppress(StoreError):  # they call it by its name then
                self.store.put_document(self._at_store, address_of(host, port).encode())

    def begin(self) -> tuple[Future[None], Future[None]]:
        """Start threads that restore the models and load compiled code; :meth:`restore` waits for both threads."""
        call_compiled_code()
        with_models, aside = ThreadPoolExecutor(1, "restore-all"), ThreadPoolExecutor(1, "warm-up")
        self._begun = with_models.submit(self._bring_back), aside.submit(self._warm_up)
        with_models.shutdown(wait=False)
        aside.shutdown(wait=False)
        return self._begun

    def _bring_back(self) -> None:
        self.webhooks.learn()
        self.hosting.restore()
        self.fleets.learn()
        self.erasures.finish()
        self.datasets.tidy()
        if self.fronts is not None:
            with self.health.store_call("document"):
                self.fronts.announce()
        self.health.came_back()

    def _warm_up(self) -> None:
        _warm_up()
        self.health.warmed()

    def restore(self, rehearse: Callable[[], None] = lambda: None) -> None:
        """Wait until the models are restored and compiled code is loaded, call ``rehearse``, and report readiness."""
        restored, warm = self._begun or self.begin()
        with ThreadPoolExecutor(1, "rehearsal") as aside:
            rehearsed = aside.submit(_rehearse, warm, rehearse)
            restored.result()
            rehearsed.result()
        with self._ending:
            if not self.health.is_stopping:
                self._begin_to_serve()

    def _begin_to_serve(self) -> None:
        """Start the background work, and report the service as ready."""
        self.health.ask_store(self.store)
        self.budget.rest_on(resident_bytes(), LEAST_BASE)
        gc.freeze()  # what lives from here to the end need not be walked by every collection
        gc.enable()
        self.health.restored()
        self.deliveries.begin()
        self._beside(self.fleet_supervisor.begin)
        if self.settings.compile_ahead:
            self.compiling.begin()

    def watch(self) -> None:
        """Start threads that ping the store, read API keys and take models over until the service closes."""
        lease = self.settings.lease_seconds / TAKE_OVERS
        ask, take = min(PING_SECONDS, lease), lease if self.store.shared else 2 * lease
        self._beside(lambda: self._every(ask, self._look_around))
        self._beside(lambda: self._every(take, self._take_over))
        if self.settings.api_keys_file:
            self._beside(lambda: self._every(KEYS_SECONDS, self.keys.look))

    def _beside(self, call: Callable[[], object]) -> None:
        """Run a call in a new thread, which :meth:`close` joins."""
        thread = threading.Thread(target=call, name="watch", daemon=True)
        thread.start()
        self._watches.append(thread)

    def _every(self, seconds: float, call: Callable[[], object]) -> None:
        while not self._leaving.wait(seconds):
            call()

    def _look_around(self) -> None:
        """Ping the store, compare models and feeds with it, and return unused memory to the operating system."""
        self._ask_store()
        if self.budget.largest_given() >= LARGE:
            give_back()

    def _store_memory(self) -> tuple[int, int] | tuple[None, None]:
        """Return the used bytes and the limit of an in-memory store; None for a store on disk or out of reach."""
        found = None
        with suppress(StoreError):
            found = self.store.memory() if self.health.store_up else None
        return found or (None, None)

    def _ask_store(self) -> None:
        with _asking():
            self.health.ask_store(self.store, self._look)

    def _look(self) -> None:
        if self.health.is_restored:
            self.hosting.watch(WATCHED_AT_ONCE)
            self.coverings.tidy(self.hosting.models)

    def _take_over(self) -> None:
        """Take over models that other services release, and do other tasks that the services share."""
        if not self.health.store_up or not self.health.is_restored or self.health.is_draining:
            return
        try:
            self.hosting.take_over()
            if self.erasures.is_owed or self.store.shared:
                self.erasures.look()
            if self.fronts is not None:
                self.fronts.keep()
                self.datasets.look()
                self.jobs.look()
        except Exception:
            log.exception("no model was taken over; it is tried again")

    @property
    def is_starting(self) -> bool:
        """Whether the threads of the start, which cannot be interrupted, may still be running."""
        return self._begun is not None and not self.health.is_restored

    def leave(self) -> None:
        """Report the service as stopping, so that it accepts no more work."""
        self.health.stopping()

    def close(self) -> None:
        """Run all waiting calls, write snapshots, and release all resources; blocks meanwhile. Solves that no call
        waits for are aborted.

        Threads end before the components that they use; the store is closed last.
        """
        with self._ending:
            self.health.stopping()
        self.turns.close()
        self._leaving.set()
        for thread in self._watches:
            thread.join()
        self.datasets.close()
        self.fleet_supervisor.sources.stop()
        self.deliveries.stop()
        for pool in self._pools():
            pool.close()
        self.compiling.close()
        self.jobs.stop()
        if self.fronts is not None:
            self.fronts.leave()
        elif self.store.shared:
            with suppress(StoreError):  # it will show no life
                self.store.delete_document(self._at_store)
        with _asking():
            self.hosting.watch()  # what the store has lost is kept elsewhere
        self.hosting.stop()
        if self._begun is not None:
            wait(self._begun[:1])
        self.store.close()
        self._lock.release()


def address_of(host: str, port: int) -> str:
    """Return a service's URL for people; it names the machine if the service listens on all addresses or loopback."""
    there, name = ip_address(host), gethostname()
    if there.is_unspecified:
        return f"http://{name}:{port}"
    url = f"http://[{host}]:{port}" if there.version == 6 else f"http://{host}:{port}"
    return f"{url} on {name}" if there.is_loopback else url


@contextmanager
def _asking() -> Iterator[None]:
    """Ignore store errors in a block of code that is run again later; log unforeseen errors."""
    try:
        yield
    except StoreError:
        pass  # health knows
    except Exception:
        log.exception("the store was not asked where it stands; it is asked again")


def _warm_up() -> None:
    """Load the solvers' compiled code, or compile it, as soon as cores are idle."""
    _yield_to_others()
    wait_for_rest(ASIDE_SECONDS)
    log.info("loading the solvers; those that are not compiled yet are, which takes half a minute")
    began = time.perf_counter()
    warm_up("updates")
    log.info("the solvers are loaded, after %.1f s", time.perf_counter() - began)


def _rehearse(warm: Future[None], rehearse: Callable[[], None]) -> None:
    """Make the calls that are slow the first time, so that no request has to wait, and then collect garbage."""
    _yield_to_others()
    warm.result()
    rehearse()
    gc.collect()


def _yield_to_others() -> None:
    """Lower this thread's priority below other threads', on systems where threads have priorities of their own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ASIDE)
